//! `takeback tasks`: lists the tasks of takeback's own agent, and continues or stops one.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;
use takeback_ledger::{TaskFilter, TaskRecord};
use takeback_runtime::{AdoptOptions, CancelledTask, TaskView, cancel_task, list_tasks};

use super::chat::{self, AgentArguments, Conversation};
use super::fleet_tasks;
use super::open_tasks::{find_open_goals, find_open_tasks};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Cell, Column, Table};

/// List the tasks of takeback's own agent, and continue or stop one
///
/// A task is a conversation of `takeback chat`, or the work of a subagent. If its process is
/// killed, the task is interrupted, and can be continued at the exact step where it stopped.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback tasks                 the tasks that are not over
  takeback tasks --all           also those whose last turn is over
  takeback tasks resume 3f2a     continue an interrupted turn
  takeback tasks cancel 3f2a     end it instead; the work that was done is kept
  takeback tasks --fleet         the tasks of all machines, if `chat.journal` is `fleet`
  takeback tasks resume 3f2a     also continues a task whose machine is gone")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    /// Also list tasks whose last turn is over
    #[arg(long)]
    all: bool,
    /// List the tasks of all machines of the fleet
    #[arg(long)]
    fleet: bool,
}

#[derive(Subcommand)]
enum Action {
    /// List the tasks
    List {
        /// Also list tasks whose last turn is over
        #[arg(long)]
        all: bool,
        /// List the tasks of all machines of the fleet
        #[arg(long)]
        fleet: bool,
    },
    /// Continue an interrupted turn
    Resume {
        /// The task: its id, or the beginning of its id
        #[arg(value_name = "ID")]
        id: String,
        /// Continue another machine's task in the current directory, or in the one given with -C
        #[arg(long)]
        here: bool,
        /// Continue another machine's task even if the files are not those of its last checkpoint
        #[arg(long)]
        accept_files: bool,
        #[command(flatten)]
        agent: AgentArguments,
    },
    /// Stop a running turn, or end an interrupted one
    Cancel {
        /// The task: its id, or the beginning of its id
        #[arg(value_name = "ID")]
        id: String,
    },
}

pub(crate) fn run(arguments: Arguments, context: &Context) -> Result<ExitCode, Failure> {
    match arguments.action {
        None if arguments.fleet => fleet_tasks::list(arguments.all, context),
        None => list(arguments.all, context),
        Some(Action::List { all, fleet }) if fleet || arguments.fleet => {
            fleet_tasks::list(all || arguments.all, context)
        }
        Some(Action::List { all, .. }) => list(all || arguments.all, context),
        Some(Action::Resume { id, here, accept_files, agent }) => {
            let options = AdoptOptions {
                directory: here.then_some(context.directory.as_path()),
                accepts_files: accept_files,
            };
            resume(&id, options, agent, context)
        }
        Some(Action::Cancel { id }) => cancel(&id, context),
    }
}

fn list(all: bool, context: &Context) -> Result<ExitCode, Failure> {
    let tasks = list_tasks(&*context.ledger()?, &TaskFilter::default())?;
    let tasks: Vec<TaskView> =
        tasks.into_iter().filter(|task| all || task.state != "idle").collect();
    if output::answers_json(&json!({ "tasks": tasks }), context) {
        return Ok(ExitCode::SUCCESS);
    }
    if tasks.is_empty() {
        println!("No tasks are running or interrupted.");
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new([
        Column::left(),
        Column::left(),
        Column::left().shrinks(1, 0),
        Column::left().shrinks(2, 12),
        Column::free().keeps_end(),
    ]);
    for task in &tasks {
        table.add([
            Cell::new(&task.id),
            Cell::new(&task.state),
            Cell::new(&task.kind),
            Cell::new(&task.session),
            Cell::new(task.workspace.as_deref().unwrap_or_default()),
        ]);
    }
    table.print();
    Ok(ExitCode::SUCCESS)
}

fn resume(
    typed: &str,
    options: AdoptOptions<'_>,
    agent: AgentArguments,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let (id, adopting) = match chat::shares_tasks(context)? {
        true => {
            let mut conversation = Conversation::new(agent.clone(), context)?;
            (fleet_tasks::adopt(typed, options, &mut conversation)?, Some(conversation))
        }
        false => (typed.to_owned(), None),
    };
    let task = find_task(&id, context)?;
    let id = &task.id;
    if let Some(parent) = &task.parent {
        return Err(Failure::new(format!("task {id} is a subagent of task {parent}"))
            .hint(format!("`takeback tasks resume {parent}` continues both")));
    }
    let open = find_open_tasks(TaskFilter::default(), context)?;
    let goals = find_open_goals(&open, context)?;
    if let Some(open) = goals.iter().find(|open| open.goal.task == *id) {
        return Err(Failure::new(format!("task {id} works on a goal"))
            .hint(format!("`takeback goal resume {}` continues it", open.goal.id)));
    }
    let mut conversation = match adopting {
        Some(conversation) => conversation,
        None => Conversation::new(agent, context)?,
    };
    conversation.resume_task(id)?;
    if !conversation.is_interrupted() {
        let session = &task.session;
        return Err(Failure::new(format!("the last turn of task {id} is over"))
            .hint(format!("`takeback chat --resume {session}` continues its conversation")));
    }
    chat::proceed_once(&mut conversation)
}

/// Finds the task that the user means.
fn find_task(typed: &str, context: &Context) -> Result<TaskRecord, Failure> {
    let ledger = context.ledger()?;
    let id = ledger.resolve_task(typed)?;
    Ok(ledger.task(&id)?)
}

fn cancel(id: &str, context: &Context) -> Result<ExitCode, Failure> {
    let TaskRecord { id, session, .. } = find_task(id, context)?;
    context.close_ledger();
    let shared = chat::shared_journal(context)?;
    let outcome = cancel_task(context.opened_arc()?, shared.as_ref(), &id)?;
    let state = match outcome {
        CancelledTask::Stopping => "stopping",
        CancelledTask::Ended => "idle",
        CancelledTask::Idle => {
            return Err(Failure::new(format!(
                "task {id} has no turn to stop: its last one is over"
            ))
            .hint(format!("`takeback sessions show {session}` shows the conversation")));
        }
    };
    if output::answers_json(&json!({ "id": id, "state": state }), context) {
        return Ok(ExitCode::SUCCESS);
    }
    match state {
        "stopping" => println!("Task {id} stops at its next step."),
        _ => println!("Ended the interrupted turn of task {id}. Its work is kept."),
    }
    Ok(ExitCode::SUCCESS)
}
