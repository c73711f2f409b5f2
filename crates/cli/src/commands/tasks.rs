//! `takeback tasks`: the work of takeback's own agent that is not over.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;
use takeback_ledger::TaskFilter;
use takeback_runtime::{CancelledTask, TaskView, cancel_task, list_tasks};

use super::chat::{self, AgentArguments, Conversation};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Cell, Column, Table};

/// List the tasks of takeback's own agent, and continue or stop one
///
/// A task is a conversation of `takeback chat`, or the work of a subagent. If its process is
/// killed, the task is interrupted, and can be continued at the exact step.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback tasks                 the tasks that are not over
  takeback tasks --all           also those whose last turn is over
  takeback tasks resume 3f2a     continue an interrupted turn
  takeback tasks cancel 3f2a     end it instead; everything that was done stays")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    /// Also list tasks whose last turn is over
    #[arg(long)]
    all: bool,
}

#[derive(Subcommand)]
enum Action {
    /// List the tasks
    List {
        /// Also list tasks whose last turn is over
        #[arg(long)]
        all: bool,
    },
    /// Continue an interrupted turn
    Resume {
        /// The task: its id, or the beginning of its id
        #[arg(value_name = "ID")]
        id: String,
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
        None => list(arguments.all, context),
        Some(Action::List { all }) => list(all || arguments.all, context),
        Some(Action::Resume { id, agent }) => resume(&id, agent, context),
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

fn resume(id: &str, agent: AgentArguments, context: &Context) -> Result<ExitCode, Failure> {
    let id = context.ledger()?.resolve_task(id)?;
    let mut conversation = Conversation::new(agent, context)?;
    conversation.resume_task(&id)?;
    if !conversation.is_interrupted() {
        return Err(Failure::new(format!("task {id} is not interrupted"))
            .hint("`takeback chat --resume SESSION` continues its conversation"));
    }
    chat::proceed_once(&mut conversation)
}

fn cancel(id: &str, context: &Context) -> Result<ExitCode, Failure> {
    let id = context.ledger()?.resolve_task(id)?;
    context.close_ledger();
    let outcome = cancel_task(context.opened_arc()?, &id)?;
    let state = match outcome {
        CancelledTask::Stopping => "stopping",
        CancelledTask::Ended | CancelledTask::Idle => "idle",
    };
    if output::answers_json(&json!({ "id": id, "state": state }), context) {
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "{}",
        match outcome {
            CancelledTask::Stopping => format!("Task {id} stops at its next step."),
            CancelledTask::Ended => format!("Ended the interrupted turn of task {id}."),
            CancelledTask::Idle => format!("Task {id} has no turn to stop."),
        }
    );
    Ok(ExitCode::SUCCESS)
}
