//! `takeback fork`: copies the files and the conversation of an earlier moment, so that work can
//! continue from there in a new directory.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use takeback_tree::RelPath;
use takeback_undo::hook::quote_word;
use takeback_undo::{Fork, ForkFiles, ForkPoint, ForkRequest, SessionPoint};

use super::rollback::handled_files;
use super::rollback::render::describe_head;
use crate::context::Context;
use crate::failure::Failure;
use crate::logs;
use crate::output::{self, Progress};

/// The maximum number of uncovered paths that are named without `-v`.
const NAMED: usize = 3;

/// Branch off from an earlier moment, in a new directory
///
/// Creates a new directory with the files exactly as they were at that moment, including untracked
/// and ignored ones, and a new session with the conversation up to that moment. A checkpoint means
/// the state before its turn; SESSION@TURN means the state after that turn. The workspace and its
/// session are not changed; they and the fork can continue independently. If the workspace is a git
/// repository, so is the new directory, at the same commit.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback fork 2                     from before the turn of row 2, into shop-fork beside shop
  takeback fork 2.3 ../try            from before the third step of that turn
  takeback fork 4f2a ../try           from the end of the last turn of session 4f2a
  takeback fork 4f2a@3 ../try         from the end of its third turn
  takeback fork 4f2a@good ../try      from the checkpoint called good
  takeback fork 4f2a@now ../try       from now
  takeback fork 2 --agent takeback    to be continued with takeback's own agent
  takeback chat --fork 4f2a@3 --files the same, and continue there with takeback's own agent
  takeback sessions tree 4f2a         shows the forks of a session")]
pub(crate) struct Arguments {
    /// A checkpoint, or SESSION, SESSION@TURN, SESSION@CHECKPOINT or SESSION@now
    #[arg(value_name = "MOMENT")]
    from: String,
    /// The new directory, which must be empty if it exists [default: beside the workspace]
    #[arg(value_name = "DIR")]
    into: Option<PathBuf>,
    /// Fork only the conversation, without files
    #[arg(long, conflicts_with = "into")]
    chat_only: bool,
    /// The agent that will continue the fork: the session's own agent, or takeback [default: the
    /// session's own agent]
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Do not copy the git repository
    #[arg(long, conflicts_with = "chat_only")]
    no_git: bool,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let files = match (&arguments.into, arguments.chat_only) {
        (_, true) => ForkFiles::Skip,
        (Some(directory), _) => ForkFiles::Into(context.directory.join(directory)),
        (None, _) => ForkFiles::Beside,
    };
    let progress = Progress::of_files("forking", handled_files(context.opened_anyway()?));
    let wanted = Wanted::new(files, !arguments.no_git, arguments.agent.clone());
    let (point, fork) = make_fork(&arguments.from, wanted, context)?;
    drop(progress);
    if output::answers_json(&fork, context) {
        return Ok(ExitCode::SUCCESS);
    }
    print_fork(&point, &fork, context);
    print_continuation(&fork);
    Ok(ExitCode::SUCCESS)
}

fn print_continuation(fork: &Fork) {
    match (&fork.resume, &fork.directory) {
        (Some(resume), Some(_)) => println!("Continue there: `{}`", output::continuation(resume)),
        (Some(resume), None) => {
            println!("Continue with `{}`", output::continuation_from_here(resume));
        }
        (None, Some(directory)) => {
            println!("Continue there: `cd {}`", quote_path(&directory.0));
        }
        (None, None) => {}
    }
}

/// Forks from the moment that the user names, and prints what was created. The caller then
/// continues in the fork.
pub(crate) fn make_and_print(
    from: &str,
    files: ForkFiles,
    context: &Context,
) -> Result<Fork, Failure> {
    let progress = Progress::of_files("forking", handled_files(context.opened_anyway()?));
    let wanted = Wanted { files, repository: true, for_own_agent: false, agent: None };
    let (point, fork) = make_fork(from, wanted, context)?;
    drop(progress);
    output::keep_data(&fork);
    print_fork(&point, &fork, context);
    Ok(fork)
}

/// The kind of fork that the user wants.
pub(crate) struct Wanted {
    pub(crate) files: ForkFiles,
    /// True if the workspace's repository is to be copied.
    pub(crate) repository: bool,
    /// True if the session's own agent is to continue the fork; false if takeback's own agent is.
    pub(crate) for_own_agent: bool,
    /// The agent that the session must belong to.
    pub(crate) agent: Option<String>,
}

impl Wanted {
    /// Describes a fork that `agent` is to continue. By default, the session's own agent continues
    /// it.
    pub(crate) fn new(files: ForkFiles, repository: bool, agent: Option<String>) -> Wanted {
        let for_own_agent = agent.as_deref() != Some(takeback_runtime::AGENT);
        Wanted { files, repository, for_own_agent, agent: agent.filter(|_| for_own_agent) }
    }
}

/// Forks from the moment that the user names.
pub(crate) fn make_fork(
    from: &str,
    wanted: Wanted,
    context: &Context,
) -> Result<(ForkPoint, Fork), Failure> {
    let opened = context.opened_anyway()?;
    // Import the latest messages of the conversation, which may be only in the agent's own log so
    // far.
    logs::catch_up_ledger(context);
    let point = ForkPoint::parse(opened, &context.directory, from)?;
    let Wanted { files, repository, for_own_agent, agent } = wanted;
    let new = ForkRequest::new(point.clone());
    let request = ForkRequest { files, repository, for_own_agent, agent, ..new };
    Ok((point, takeback_undo::fork::fork(opened, &request)?))
}

fn print_fork(point: &ForkPoint, fork: &Fork, context: &Context) {
    let what = describe_point(point, fork);
    match &fork.directory {
        Some(directory) => {
            let place = output::tilde(&directory.0, context);
            let files = output::count(fork.files as usize, "file");
            let left_out = describe_uncovered(fork, context);
            println!("Forked {what} into {place}: {files}{left_out}.");
        }
        None => println!("Forked {what}."),
    }
    if context.globals.verbose {
        let lines = fork.uncovered.iter().map(output::uncovered_line);
        output::print_section("Not saved, and therefore not in the fork", lines, context);
    }
    let paths = |paths: &[RelPath]| paths.iter().map(ToString::to_string).collect::<Vec<_>>();
    let unsettled = "Captured while being written, possibly inconsistent";
    output::print_section(unsettled, paths(&fork.unsettled), context);
    let unprivileged = "Without setuid and setgid";
    output::print_section(unprivileged, paths(&fork.unprivileged), context);
    let nested = "Nested repositories, with their files but without .git";
    output::print_section(nested, paths(&fork.repositories), context);
    if let Some(head) = &fork.repository {
        println!("The git repository is a copy, at {}.", describe_head(head));
    }
    print_session(fork);
    fork.warnings.iter().for_each(|warning| output::warn(warning));
}

/// Describes the moment at which the fork begins.
fn describe_point(point: &ForkPoint, fork: &Fork) -> String {
    let parent = fork.parent.as_deref().map(output::disarm).unwrap_or_default();
    let checkpoint = fork.checkpoint.map(|id| format!("checkpoint {}", &id.to_string()[..7]));
    let checkpoint = checkpoint.unwrap_or_else(|| "the checkpoint".to_owned());
    match point {
        ForkPoint::Checkpoint { .. } => checkpoint,
        ForkPoint::Session { at, .. } => match at {
            SessionPoint::Turn(turn) => format!("{parent} after turn {turn}"),
            SessionPoint::LastTurn => match fork.turn {
                Some(turn @ 1..) => format!("{parent} after turn {turn}"),
                _ => parent,
            },
            SessionPoint::Checkpoint(_) => format!("{parent} at {checkpoint}"),
            SessionPoint::Now => format!("{parent} as it is now"),
        },
    }
}

/// Names the paths that the fork lacks because they were not captured.
fn describe_uncovered(fork: &Fork, context: &Context) -> String {
    let count = fork.uncovered.len();
    if count == 0 || context.globals.verbose {
        return String::new();
    }
    let named = fork.uncovered.iter().take(NAMED).map(|uncovered| uncovered.path.to_string());
    let named = named.collect::<Vec<_>>().join(", ");
    match count.saturating_sub(NAMED) {
        0 => format!(" ({count} not saved: {named})"),
        more => format!(" ({count} not saved: {named} and {more} more; -v lists them)"),
    }
}

fn print_session(fork: &Fork) {
    let Some(session) = &fork.session else {
        println!(
            "The checkpoint belongs to no conversation; to fork one as well, use SESSION@CHECKPOINT."
        );
        return;
    };
    let messages = fork.messages.and_then(|count| usize::try_from(count).ok()).unwrap_or_default();
    let title = fork.title.as_deref().map(|title| format!(" ({})", output::disarm(title)));
    println!(
        "Conversation: {} in the new session {}{}.",
        output::count(messages, "message"),
        output::disarm(session),
        title.unwrap_or_default()
    );
}

fn quote_path(path: &Path) -> String {
    output::disarm(&quote_word(&path.display().to_string()))
}
