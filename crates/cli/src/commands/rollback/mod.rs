//! `takeback rollback`: lists checkpoints, compares with one, returns to one, undoes and redoes
//! that.

pub(crate) mod diff;
pub(crate) mod list;
pub(crate) mod show;

pub(crate) use list::{describe, run as list};

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use takeback_tree::RelPath;
use takeback_undo::{
    Direction, History, Keeper, PlannedRollback, RollbackOptions, RollbackView, Scope,
};

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
    let keeper = context.keeper()?;
    // What was said is part of the story, up to now.
    match arguments.target.as_deref() {
        None if arguments.acts() => {
            Err(Failure::new("which checkpoint?").hint("`takeback rollback` lists them"))
        }
        None | Some("list") => list::run(&keeper, arguments.steps, context),
        Some("diff") => diff::run(&keeper, &arguments.paths, arguments.full, context),
        Some(word @ ("undo" | "redo")) => {
            if !arguments.paths.is_empty() {
                return Err(Failure::new(format!(
                    "{word} is of a whole rollback and takes no paths"
                ))
                .hint("`takeback rollback` lists the checkpoints to restore single files from"));
            }
            let direction = if word == "undo" { Direction::Undo } else { Direction::Redo };
            let dry_run = arguments.dry_run;
            let view =
                reverse(&keeper, direction, context, |plan| go_through(plan, dry_run, context))?;
            Ok(show::show(&view, dry_run, context))
        }
        Some(target) => {
            let (wanted, dry_run) = (arguments.wanted(target)?, arguments.dry_run);
            let view =
                roll_back(&keeper, &wanted, context, |plan| go_through(plan, dry_run, context))?;
            Ok(show::show(&view, dry_run, context))
        }
    }
}

/// What to return to.
pub(crate) struct Wanted {
    pub(crate) checkpoint: String,
    /// As they were given; none: everything.
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) scope: Scope,
    pub(crate) index: bool,
}

impl Arguments {
    /// Whether something is asked for that needs a checkpoint.
    fn acts(&self) -> bool {
        self.dry_run || self.files_only || self.chat_only || self.index || self.full
    }

    fn wanted(&self, target: &str) -> Result<Wanted, Failure> {
        if self.chat_only && !self.paths.is_empty() {
            return Err(Failure::new("--chat-only takes no paths"));
        }
        let scope = match (self.files_only, self.chat_only) {
            (true, _) => Scope::Files,
            (_, true) => Scope::Chat,
            _ => Scope::Both,
        };
        let (checkpoint, paths) = (target.to_owned(), self.paths.clone());
        Ok(Wanted { checkpoint, paths, scope, index: self.index })
    }
}

/// Plans to return to a checkpoint; `then` decides about the plan.
pub(crate) fn roll_back<T, E: From<Failure>>(
    keeper: &Keeper,
    wanted: &Wanted,
    context: &Context,
    then: impl FnOnce(PlannedRollback<'_, '_>) -> Result<T, E>,
) -> Result<T, E> {
    // How far the conversation is, its agent's own log says.
    logs::catch_up_ledger(context);
    let (workspace, _revived) =
        keeper.workspace_with_history(&context.directory).map_err(Failure::from)?;
    let paths = wanted.paths.iter().map(|path| context.inside(&workspace, path));
    let paths: Vec<RelPath> = paths.collect::<Result<_, _>>()?;
    let history = History::of(workspace.store(), workspace.id()).map_err(Failure::from)?;
    let found = history.find(workspace.store(), &wanted.checkpoint).map_err(Failure::from)?;
    let options = RollbackOptions { paths, scope: wanted.scope, index: wanted.index };
    let progress = Progress::new("comparing the workspace with the checkpoint");
    let planned = keeper.plan_rollback(&workspace, &history, &found, &options);
    drop(progress);
    then(planned.map_err(Failure::from)?)
}

/// The same for taking back the latest rollback, or what took it back.
pub(crate) fn reverse<T, E: From<Failure>>(
    keeper: &Keeper,
    direction: Direction,
    context: &Context,
    then: impl FnOnce(PlannedRollback<'_, '_>) -> Result<T, E>,
) -> Result<T, E> {
    // How far the conversation is, its agent's own log says.
    logs::catch_up_ledger(context);
    let (workspace, _revived) =
        keeper.workspace_with_history(&context.directory).map_err(Failure::from)?;
    let progress = Progress::new("comparing the workspace with what it was");
    let planned = keeper.plan_reverse(&workspace, direction);
    drop(progress);
    then(planned.map_err(Failure::from)?)
}

/// Shows a plan, asks, and does it.
pub(crate) fn go_through(
    mut planned: PlannedRollback<'_, '_>,
    dry_run: bool,
    context: &Context,
) -> Result<RollbackView, Failure> {
    if dry_run || planned.is_empty() || !planned.view().blocked.is_empty() {
        return Ok(planned.cancel());
    }
    if context.asks() {
        // Nobody else waits while somebody thinks.
        planned.pause()?;
        show::print_plan(planned.view(), "Will restore", "Will delete", context);
        show::print_warnings(planned.view(), context);
        output::go_on()?;
    }
    let _progress = Progress::new("restoring");
    Ok(planned.apply()?)
}
