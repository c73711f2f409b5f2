//! `takeback rollback`: returns to a checkpoint. Its subcommands `undo` and `redo` reverse
//! rollbacks.

mod question;
pub(crate) mod render;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use clap::{Args, Subcommand};
use takeback_tree::Store;
use takeback_undo::{
    Destination, MovedSession, Opened, Planned, Request, Resume, RollbackError, RollbackView, Scope,
};

use self::render::Report;
use super::{diff, list, resume};
use crate::background;
use crate::context::Context;
use crate::failure::Failure;
use crate::logs;
use crate::output::{self, Progress};

/// Return to a checkpoint, or undo a rollback
///
/// Returns the workspace to a checkpoint and the conversation to the point before its turn, or
/// restores only the given files and directories. The current state is saved first, so that
/// `takeback rollback undo` can restore it. Without arguments, lists the checkpoints.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  takeback rollback 2                     return to number 2 of the list
  takeback rollback 2.3                   to before the third step of that turn
  takeback rollback good src docs/a.md    only these files and directories
  takeback rollback 2 '*.py'              only files that match
  takeback rollback 2 --dry-run           show what would happen
  takeback rollback 2 --resume            then continue the conversation in the agent
  takeback rollback -- list               to the checkpoint called list
  takeback rollback undo                  back to before the last rollback; repeat to go further
  takeback rollback redo                  the reverse of that"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Sub>,
    /// The number, name or id of a checkpoint
    #[arg(value_name = "CHECKPOINT", required = true)]
    checkpoint: Option<String>,
    /// Only these files and directories; '*.py' matches in all directories
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Show what would happen and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not change the conversation
    #[arg(long, conflicts_with = "chat_only")]
    files_only: bool,
    /// Do not change the files
    #[arg(long)]
    chat_only: bool,
    /// Also restore what was staged in the workspace's own git repository
    #[arg(long, conflicts_with = "chat_only")]
    index: bool,
    /// Skip paths that cannot be restored, and restore the rest
    #[arg(long, conflicts_with = "chat_only")]
    skip_blocked: bool,
    /// Do not touch files outside the workspace
    #[arg(long, conflicts_with = "chat_only")]
    workspace_only: bool,
    /// Afterwards, start the agent to continue the conversation from that point
    #[arg(long, conflicts_with_all = ["files_only", "dry_run"])]
    resume: bool,
}

#[derive(Subcommand)]
enum Sub {
    List(list::Arguments),
    Diff(diff::Arguments),
    /// Undo the last rollback, or the last `takeback undo`; repeat to go further back
    Undo(ReverseArguments),
    /// Redo what `takeback rollback undo` undid
    Redo(ReverseArguments),
}

/// Redo what `takeback rollback undo` undid
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback rollback undo        back to before the last rollback
  takeback redo                 the reverse of that
  takeback redo --dry-run       show what would happen")]
pub(crate) struct ReverseArguments {
    /// Show what would happen and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Skip paths that cannot be restored, and restore the rest
    #[arg(long)]
    skip_blocked: bool,
    /// Do not touch files outside the workspace
    #[arg(long)]
    workspace_only: bool,
    // Paths are parsed only so that they can be rejected with a hint.
    #[arg(value_name = "PATH", hide = true)]
    paths: Vec<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    match &arguments.command {
        Some(Sub::List(arguments)) => list::run(arguments, context),
        Some(Sub::Diff(arguments)) => diff::run(arguments, context),
        Some(Sub::Undo(arguments)) => {
            arguments.refuse_paths("undo")?;
            arguments.carry_out(Destination::BeforeLastRollback, context)
        }
        Some(Sub::Redo(arguments)) => redo(arguments, context),
        None => {
            let request = arguments.to_request(context)?;
            if !arguments.resume {
                return carry_out(request, arguments.dry_run, context);
            }
            match take_back(request, false, context)? {
                (code, Some(resume)) if code == ExitCode::SUCCESS => resume::start_agent(&resume),
                (ExitCode::SUCCESS, None) => {
                    Err(Failure::new("there is no conversation to continue")
                        .hint("the files are restored; start the agent yourself"))
                }
                (code, _) => Ok(code),
            }
        }
    }
}

/// Redoes what `rollback undo` undid.
pub(crate) fn redo(arguments: &ReverseArguments, context: &Context) -> Result<ExitCode, Failure> {
    arguments.refuse_paths("redo")?;
    arguments.carry_out(Destination::BeforeLastUndo, context)
}

impl ReverseArguments {
    fn carry_out(&self, to: Destination, context: &Context) -> Result<ExitCode, Failure> {
        let (skip_blocked, workspace_only) = (self.skip_blocked, self.workspace_only);
        let new = Request::new(&context.directory, to);
        let request = Request { skip_blocked, workspace_only, ..new };
        carry_out(request, self.dry_run, context)
    }

    fn refuse_paths(&self, name: &str) -> Result<(), Failure> {
        if self.paths.is_empty() {
            return Ok(());
        }
        Err(Failure::new(format!("`rollback {name}` takes no paths"))
            .hint("`takeback rollback CHECKPOINT PATH` restores single files"))
    }
}

impl Arguments {
    fn to_request(&self, context: &Context) -> Result<Request, Failure> {
        if self.chat_only && !self.paths.is_empty() {
            return Err(Failure::new("--chat-only takes no paths")
                .hint("drop --chat-only to restore files, or drop the paths"));
        }
        let scope = match (self.files_only, self.chat_only) {
            (true, _) => Scope::Files,
            (_, true) => Scope::Chat,
            _ => Scope::Both,
        };
        let checkpoint = self.checkpoint.clone().expect("clap requires it without a subcommand");
        let (directory, paths) = (context.directory.clone(), self.paths.clone());
        let to = Destination::Checkpoint(checkpoint);
        let (index, skip_blocked) = (self.index, self.skip_blocked);
        let workspace_only = self.workspace_only;
        Ok(Request { directory, to, paths, scope, index, skip_blocked, workspace_only })
    }
}

/// Plans the request, shows the plan, asks for confirmation, applies it, and reports the result.
pub(crate) fn carry_out(
    request: Request,
    dry_run: bool,
    context: &Context,
) -> Result<ExitCode, Failure> {
    take_back(request, dry_run, context).map(|(code, _)| code)
}

const SKIP: &str = "Skip the paths that cannot be restored, and restore the rest?";

/// Plans the request, shows the plan, asks for confirmation, applies it, and reports the result.
/// Returns the exit code, and how to continue the conversation that was taken back.
fn take_back(
    mut request: Request,
    dry_run: bool,
    context: &Context,
) -> Result<(ExitCode, Option<Resume>), Failure> {
    let opened = context.opened_anyway()?;
    // Import the latest messages first: they may so far exist only in the agent's own log.
    logs::catch_up_ledger(context);
    let mut planned = make_plan(opened, &request)?;
    let may_ask = context.asks() && !dry_run;
    let mut report = if dry_run { Report::DryRun } else { Report::Done };
    if planned.is_blocked() && may_ask {
        render::print_plan(planned.view(), context);
        request.skip_blocked = true;
        if !output::is_agreed(SKIP) {
            return Err(Failure::declined());
        }
        planned = make_plan(opened, &request)?;
    } else if may_ask && !planned.is_empty() {
        (request, planned) = question::ask_about(request, planned, context)?;
        report = Report::DoneAsShown;
    }
    if dry_run || planned.is_empty() || planned.is_blocked() {
        return Ok((render::print_result(planned.view(), report, context), None));
    }
    let mut result = apply_plan(opened, planned);
    if let Err(error) = &result
        && may_ask
        && !request.skip_blocked
        && !error.blocked_paths().is_empty()
    {
        let failed = Failure::from(result.expect_err("it failed")).report(false);
        request.skip_blocked = true;
        if !output::is_agreed(SKIP) {
            return Ok((failed, None));
        }
        result = apply_plan(opened, make_plan(opened, &request)?);
        report = Report::Done;
    }
    let view = result?;
    take_back_later(&view, context);
    let resume = view.sessions.iter().find_map(|moved| moved.resume.clone());
    Ok((render::print_result(&view, report, context), resume))
}

/// Returns the counter of the files that have been handled so far, for showing the progress.
/// Returns `None` if there is no store yet.
pub(crate) fn handled_files(opened: &Opened) -> Option<Arc<AtomicU64>> {
    opened.has_store().then(|| opened.store().ok().map(Store::handled_files)).flatten()
}

/// Starts a process that takes back the conversation in which the user typed the command, once the
/// turn that contains the command has ended.
fn take_back_later(view: &RollbackView, context: &Context) {
    let Some(session) = context.globals.typed_in.as_deref() else { return };
    let is_typed_here = |moved: &&MovedSession| moved.session == session;
    let moved = view.sessions.iter().find(is_typed_here);
    if moved.and_then(|moved| moved.resume.as_ref()).is_some_and(|resume| resume.in_place) {
        let words = ["checkpoints", "take-back", "--session", session];
        if let Err(error) = background::spawn_takeback(context, &context.directory, words, None) {
            output::warn(&format!("the agent's conversation stays as it is: {error}"));
        }
    }
}

fn make_plan(opened: &Opened, request: &Request) -> Result<Planned, RollbackError> {
    let _progress = Progress::of_files("comparing the workspace", handled_files(opened));
    takeback_undo::rollback::plan(opened, request)
}

fn apply_plan(opened: &Opened, planned: Planned) -> Result<RollbackView, RollbackError> {
    let _progress = Progress::of_files("restoring", handled_files(opened));
    takeback_undo::rollback::apply(opened, planned)
}
