//! `takeback goal`: work that continues turn after turn until a goal is reached.

mod view;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use takeback_ledger::{Budget, GoalRecord, GoalState, GoalUpdate, Spending};
use takeback_runtime::list_goals;

use self::view::{print_goal, show_goal, view_goal, view_with_checkpoints};
use super::chat::{self, AgentArguments, Conversation};
use crate::background;
use crate::commands::chat::shared_journal;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Cell, Column, Table};
use crate::slash::SlashAction;

/// Let takeback's own agent work on a goal until it is reached or its budget is spent
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback goal start \"make the tests pass\" --usd 2 --minutes 30
  takeback goal list
  takeback goal show                        the last one: its budget, and what was spent
  takeback goal pause 3f2a                  from another terminal; Ctrl-C does the same here
  takeback goal resume 3f2a --add-usd 1     continue, with a dollar more than before")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Begin to work on a goal
    Start {
        /// The goal, in your own words
        #[arg(value_name = "GOAL", required = true)]
        objective: Vec<String>,
        #[command(flatten)]
        limits: Limits,
        #[command(flatten)]
        agent: AgentArguments,
    },
    /// List all goals
    List,
    /// Show a goal with its budget
    Show {
        /// The goal: its id, or the beginning of its id [default: the goal that changed last]
        #[arg(value_name = "ID")]
        id: Option<String>,
    },
    /// Pause a goal; its running turn stops at the next step
    Pause {
        /// The goal: its id, or the beginning of its id [default: the only open goal]
        #[arg(value_name = "ID")]
        id: Option<String>,
    },
    /// Resume a goal; what was spent before does not count against the budget
    Resume {
        /// The goal: its id, or the beginning of its id [default: the only open goal]
        #[arg(value_name = "ID")]
        id: Option<String>,
        #[command(flatten)]
        more: More,
        #[command(flatten)]
        agent: AgentArguments,
        /// Work in the background
        #[arg(long, hide = true)]
        detached: bool,
        /// Continue the run that was interrupted
        #[arg(long, hide = true)]
        same_run: bool,
    },
    /// Give up a goal; the work that was done is kept
    Cancel {
        /// The goal: its id, or the beginning of its id [default: the only open goal]
        #[arg(value_name = "ID")]
        id: Option<String>,
    },
}

/// The budget of a goal.
#[derive(Args)]
struct Limits {
    /// Stop after this many tokens
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    tokens: Option<i64>,
    /// Stop after this many US dollars
    #[arg(long, value_name = "X", value_parser = parse_amount)]
    usd: Option<f64>,
    /// Stop after this many minutes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    minutes: Option<u64>,
    /// Stop after this many turns
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    turns: Option<i64>,
}

/// An addition to the budget of a goal.
#[derive(Args)]
struct More {
    /// Add this many tokens to the budget
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    add_tokens: Option<i64>,
    /// Add this many US dollars to the budget
    #[arg(long, value_name = "X", value_parser = parse_amount)]
    add_usd: Option<f64>,
    /// Add this many minutes to the budget
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    add_minutes: Option<u64>,
    /// Add this many turns to the budget
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    add_turns: Option<i64>,
}

fn parse_amount(text: &str) -> Result<f64, String> {
    let amount: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    match amount.is_finite() && amount > 0.0 {
        true => Ok(amount),
        false => Err("the amount must be larger than 0".to_owned()),
    }
}

impl Limits {
    fn budget(&self) -> Budget {
        Budget {
            tokens: self.tokens,
            usd: self.usd,
            time: self.minutes.map(|minutes| Duration::from_secs(60 * minutes)),
            turns: self.turns,
        }
    }
}

impl More {
    /// Adds to the limits of a budget. Whatever has no limit stays unlimited.
    fn add_to(&self, budget: Budget) -> Budget {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        Budget {
            tokens: budget.tokens.map(|limit| limit.saturating_add(self.add_tokens.unwrap_or(0))),
            usd: budget.usd.map(|limit| limit + self.add_usd.unwrap_or(0.0)),
            time: budget.time.map(|limit| limit + minutes(self.add_minutes.unwrap_or(0))),
            turns: budget.turns.map(|limit| limit.saturating_add(self.add_turns.unwrap_or(0))),
        }
    }
}

pub(crate) fn run(arguments: Arguments, context: &Context) -> Result<ExitCode, Failure> {
    match arguments.action {
        Action::Start { objective, limits, agent } => {
            let objective = join_objective(&objective)?;
            let mut conversation = Conversation::new(agent, context)?;
            let id = conversation.begin_goal(&objective, limits.budget())?;
            work(&mut conversation, &id, Run::New(None))
        }
        Action::List => list(context),
        Action::Show { id } => match find_shown_goal(id.as_deref(), context)? {
            Some(goal) => show_goal(&goal, context),
            None => list(context),
        },
        Action::Pause { id } => {
            change(&choose_goal(id, context)?, GoalState::Paused, "paused by the user", context)
        }
        Action::Cancel { id } => {
            let reason = "given up by the user";
            change(&choose_goal(id, context)?, GoalState::Cancelled, reason, context)
        }
        Action::Resume { id, more, agent, detached, same_run } => {
            if detached {
                background::detach_from_terminal();
            }
            let goal = choose_goal(id, context)?;
            let mut conversation = Conversation::new(agent, context)?;
            context.close_ledger();
            conversation.resume_task(&goal.task)?;
            let run = match same_run {
                true => Run::Same,
                false => Run::New(Some(more.add_to(goal.budget))),
            };
            work(&mut conversation, &goal.id, run)
        }
    }
}

/// The run to which the work on a goal belongs.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// A new run, with this budget or the goal's own. Nothing counts as spent yet.
    New(Option<Budget>),
    /// The run that was interrupted.
    Same,
}

/// Returns the action of a slash command that starts or resumes a goal. Returns `None` for other
/// commands.
pub(crate) fn find_work(
    arguments: &Arguments,
    context: &Context,
) -> Result<Option<SlashAction>, Failure> {
    Ok(match &arguments.action {
        Action::Start { objective, limits, .. } => {
            let objective = join_objective(objective)?;
            Some(SlashAction::StartGoal { objective, budget: limits.budget() })
        }
        Action::Resume { id, more, .. } => {
            let goal = choose_goal(id.clone(), context)?;
            Some(SlashAction::ResumeGoal { budget: more.add_to(goal.budget), goal: goal.id })
        }
        _ => None,
    })
}

/// Switches a conversation to the task of a goal, and continues that goal.
pub(crate) fn resume_in(
    conversation: &mut Conversation,
    goal: &str,
    budget: Budget,
) -> Result<ExitCode, Failure> {
    let goal = find_goal(goal, conversation.context())?;
    conversation.resume_task(&goal.task)?;
    work(conversation, &goal.id, Run::New(Some(budget)))
}

/// Works on a goal until the goal's state changes.
pub(crate) fn work(
    conversation: &mut Conversation,
    id: &str,
    run: Run,
) -> Result<ExitCode, Failure> {
    let is_json = conversation.context().globals.json;
    let goal = chat::with_front_end(is_json, |front| {
        conversation.run(|task| match run {
            Run::New(budget) => task.run_goal(id, budget, front),
            Run::Same => task.continue_goal(id, front),
        })
    })?;
    let context = conversation.context();
    if !is_json {
        print_goal(&goal, context)?;
    } else {
        let event = json!({ "event": "goal", "goal": view_with_checkpoints(&goal, context)? });
        println!("{}", output::disarm_json(&event.to_string()));
    }
    let is_reached = goal.state == GoalState::Complete;
    Ok(if is_reached { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Finds a goal. If the goal's process has ended, first stores the goal as paused.
fn find_goal(typed: &str, context: &Context) -> Result<GoalRecord, Failure> {
    let id = context.ledger()?.resolve_goal(typed)?;
    list_goals(context.opened()?)?;
    Ok(context.ledger()?.goal(&id)?)
}

/// Joins the words of a goal. Leaves out a pair of quotation marks around them, because no shell
/// removes it from a line that is typed into a chat.
fn join_objective(words: &[String]) -> Result<String, Failure> {
    let objective = words.join(" ");
    let objective = objective.trim();
    let quoted = objective.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let objective = quoted.unwrap_or(objective);
    match objective.trim().is_empty() {
        true => Err(Failure::new("the goal is empty").hint("say what is to be reached")),
        false => Ok(objective.to_owned()),
    }
}

/// Finds the goal that the user wants to see: by default, the one that changed last. Returns `None`
/// if there are no goals.
fn find_shown_goal(typed: Option<&str>, context: &Context) -> Result<Option<GoalRecord>, Failure> {
    match typed {
        Some(typed) => find_goal(typed, context).map(Some),
        None => Ok(list_goals(context.opened()?)?.into_iter().next()),
    }
}

/// Finds the goal that the user wants to change: by default, the only one that is not over.
fn choose_goal(typed: Option<String>, context: &Context) -> Result<GoalRecord, Failure> {
    if let Some(typed) = typed {
        return find_goal(&typed, context);
    }
    let is_over =
        |goal: &GoalRecord| matches!(goal.state, GoalState::Complete | GoalState::Cancelled);
    let mut open = list_goals(context.opened()?)?;
    open.retain(|goal| !is_over(goal));
    match open.len() {
        0 => Err(Failure::new("no goal is open")
            .hint("`takeback goal list` lists all goals; `takeback goal start` begins one")),
        1 => Ok(open.remove(0)),
        count => Err(Failure::new(format!("{count} goals are open"))
            .hint("name one of them: `takeback goal list` shows their ids")),
    }
}

/// Describes a goal as JSON.
pub(crate) fn describe(id: &str, context: &Context) -> Result<Value, Failure> {
    let goal = context.ledger()?.goal(id)?;
    view_with_checkpoints(&goal, context)
}

/// Refuses changes that would lose the reason why a goal has stopped: pausing a goal that has
/// stopped for another reason, and changing a goal that is over.
fn check_change(goal: &GoalRecord, state: GoalState) -> Result<(), Failure> {
    let is_allowed = match state {
        GoalState::Paused => matches!(goal.state, GoalState::Active | GoalState::Paused),
        _ => !matches!(goal.state, GoalState::Complete | GoalState::Cancelled),
    };
    if is_allowed {
        return Ok(());
    }
    let GoalRecord { id, state, .. } = goal;
    Err(Failure::new(format!("goal {id} is not being worked on: it is {}", state.as_str()))
        .hint(format!("`takeback goal show {id}` says why")))
}

fn change(
    goal: &GoalRecord,
    state: GoalState,
    reason: &str,
    context: &Context,
) -> Result<ExitCode, Failure> {
    check_change(goal, state)?;
    let update = GoalUpdate {
        goal: goal.id.clone(),
        state: Some((state, Some(reason.to_owned()))),
        spent: Spending::default(),
        ..GoalUpdate::default()
    };
    let changed = context.ledger()?.update_goal(&update, context.now())?;
    let is_running = context.ledger()?.running_tasks()?.contains(&goal.task);
    context.close_ledger();
    // If a goal is not active, a conversation may be using the goal's task, and must not be
    // stopped.
    let works_on_it = is_running && goal.state == GoalState::Active;
    if works_on_it || (!is_running && state == GoalState::Cancelled) {
        let shared = shared_journal(context)?;
        takeback_runtime::cancel_task(context.opened_arc()?, shared.as_ref(), &goal.task)?;
    }
    show_goal(&changed, context)
}

fn list(context: &Context) -> Result<ExitCode, Failure> {
    let goals = list_goals(context.opened()?)?;
    let views: Vec<Value> = goals.iter().map(view_goal).collect();
    if output::answers_json(&json!({ "goals": views }), context) {
        return Ok(ExitCode::SUCCESS);
    }
    if goals.is_empty() {
        println!("No goals yet. Begin one with `takeback goal start \"…\"`.");
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new([Column::left(), Column::left(), Column::free().shrinks(1, 20)]);
    for goal in &goals {
        let state = goal.state.as_str();
        table.add([Cell::new(&goal.id), Cell::new(state), Cell::new(&goal.objective)]);
    }
    table.print();
    Ok(ExitCode::SUCCESS)
}
