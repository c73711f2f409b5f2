//! `takeback rollback`: lists checkpoints, compares with one, returns to one, undoes and redoes
//! that.

pub(crate) mod diff;
pub(crate) mod list;
pub(crate) mod show;

pub(crate) use list::{describe, run as list};

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use takeback_undo::{Destination, Request, Scope};

use crate::context::Context;
use crate::failure::Failure;
use crate::logs;
use crate::output::{self, Progress};

/// List checkpoints, return to one, or undo that
///
/// Without arguments, lists the checkpoints of this workspace, newest first. With the number, name
/// or id of one, returns the workspace to it (and the conversation to before that turn), or only
/// the given files and directories. What is there before is saved first, so `takeback rollback
/// undo` brings it back.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback rollback                       list
  takeback rollback --steps               list, with every step of a turn
  takeback rollback 2                     return to number 2 of the list
  takeback rollback 2.3                   to before the third step of that turn
  takeback rollback 4270a8c src docs/a.md only these
  takeback rollback 2 --dry-run           show what would happen
  takeback rollback diff 2                what changed since
  takeback rollback undo                  back to before the last rollback; repeat to go further
  takeback rollback redo                  the reverse of that")]
pub(crate) struct Arguments {
    /// A number of the list, a name, an id; or `diff`, `undo`, `redo`
    #[arg(value_name = "CHECKPOINT|diff|undo|redo")]
    target: Option<String>,
    /// Only these files and directories: names, not patterns (after `diff`: the checkpoint first)
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Show what would happen and change nothing
    #[arg(long)]
    dry_run: bool,
    /// In the list: every step of a turn
    #[arg(long)]
    steps: bool,
    /// Keep the conversation as it is
    #[arg(long, conflicts_with = "chat_only")]
    files_only: bool,
    /// Keep the files as they are
    #[arg(long)]
    chat_only: bool,
    /// Also restore what was staged in the workspace's own git repository
    #[arg(long, conflicts_with = "chat_only")]
    index: bool,
    /// Show all of a diff
    #[arg(long)]
    full: bool,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    match arguments.target.as_deref() {
        None if arguments.acts() => {
            Err(Failure::new("which checkpoint?").hint("`takeback rollback` lists them"))
        }
        None | Some("list") => list::run(arguments.steps, context),
        Some("diff") => diff::run(&arguments.paths, arguments.full, context),
        Some(word @ ("undo" | "redo")) => {
            if !arguments.paths.is_empty() {
                return Err(Failure::new(format!("`rollback {word}` takes no paths")).hint(
                    "`takeback rollback` lists the checkpoints to restore single files from",
                ));
            }
            let to = match word {
                "undo" => Destination::BeforeLastRollback,
                _ => Destination::BeforeLastUndo,
            };
            carry_out(&Request::new(&context.directory, to), arguments.dry_run, context)
        }
        Some(target) => carry_out(&arguments.request(target, context)?, arguments.dry_run, context),
    }
}

impl Arguments {
    /// Whether something is asked for that needs a checkpoint.
    fn acts(&self) -> bool {
        self.dry_run || self.files_only || self.chat_only || self.index || self.full
    }

    fn request(&self, target: &str, context: &Context) -> Result<Request, Failure> {
        if self.chat_only && !self.paths.is_empty() {
            return Err(Failure::new("--chat-only takes no paths"));
        }
        let scope = match (self.files_only, self.chat_only) {
            (true, _) => Scope::Files,
            (_, true) => Scope::Chat,
            _ => Scope::Both,
        };
        let (directory, paths) = (context.directory.clone(), self.paths.clone());
        let to = Destination::Checkpoint(target.to_owned());
        Ok(Request { directory, to, paths, scope, index: self.index })
    }
}

/// Plans what is asked for, shows it, asks, does it, and says what was done.
pub(crate) fn carry_out(
    request: &Request,
    dry_run: bool,
    context: &Context,
) -> Result<ExitCode, Failure> {
    // The agent's own log says how far the conversation is.
    logs::catch_up(context);
    let opened = context.opened()?;
    let progress = Progress::new("comparing the workspace");
    let planned = takeback_undo::rollback::plan(opened, request)?;
    drop(progress);
    if dry_run || planned.is_empty() || planned.is_blocked() {
        return Ok(show::show(planned.view(), dry_run, context));
    }
    if context.asks() {
        show::print_plan(planned.view(), "Will restore", "Will delete", context);
        show::print_warnings(planned.view(), context);
        output::go_on()?;
    }
    let progress = Progress::new("restoring");
    let view = takeback_undo::rollback::apply(opened, planned)?;
    drop(progress);
    Ok(show::show(&view, dry_run, context))
}
