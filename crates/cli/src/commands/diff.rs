//! `takeback diff`: shows the changes since a checkpoint, or between two checkpoints.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use takeback_base::paths::canonicalize_or_keep;
use takeback_tree::{ChangeKind, Diff, Oid, Store, StoreError, TreeChange, Workspace};
use takeback_undo::history::{self, RevivedDirectories};
use takeback_undo::rollback::{self, ChosenPaths};
use takeback_undo::{Checkpoint, FindError, History};

use super::rollback::handled_files;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Progress, Style, paint};

/// The maximum number of diff lines that are shown without `--full`.
const LINES: usize = 80;

/// Show what changed since a checkpoint, or between two
///
/// A checkpoint is the state before its turn. Without a second checkpoint, the first is compared
/// with the workspace as it is now.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback diff 1                         what changed since the newest checkpoint
  takeback diff 2 1                       what changed between two checkpoints
  takeback diff 2 src docs/a.md           only in these files and directories
  takeback diff 2 1 -- 2026               only in the directory called 2026
  takeback diff 4270a8c --full > since.patch")]
pub(crate) struct Arguments {
    /// The number, name or id of a checkpoint
    #[arg(value_name = "CHECKPOINT")]
    from: String,
    /// A second checkpoint to compare with, then paths
    #[arg(value_name = "CHECKPOINT|PATH")]
    rest: Vec<PathBuf>,
    /// Only these files and directories; '*.py' matches in all directories
    #[arg(value_name = "PATH", last = true)]
    paths: Vec<PathBuf>,
    /// Show the whole diff
    #[arg(long)]
    full: bool,
}

/// The differences between two states.
#[derive(Serialize)]
pub(crate) struct DiffView {
    checkpoint: Oid,
    /// The second checkpoint. `None` means the current state of the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<Oid>,
    files_changed: usize,
    insertions: u64,
    deletions: u64,
    changes: Vec<TreeChange>,
    /// The diff in git's format.
    diff: String,
    /// The number of diff lines that were left out.
    left_out: usize,
}

impl Arguments {
    /// Creates the arguments for a diff since a checkpoint. Without paths, the diff contains all
    /// changes.
    pub(super) fn since(checkpoint: String, paths: Vec<PathBuf>) -> Arguments {
        Arguments { from: checkpoint, rest: Vec::new(), paths, full: true }
    }
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let opened = context.opened_anyway()?;
    let (workspace, _revived) = open_workspace_with(&arguments.from, context)?;
    let history = History::read(workspace.store(), workspace.id())?;
    let from = history.find(workspace.store(), &arguments.from)?.checkpoint;
    let (to, rest) = split_second(&arguments.rest, &history, &workspace, context)?;
    let paths = [rest, &arguments.paths].concat();
    let paths = rollback::relative_paths(&workspace, &context.directory, &paths)?;
    let progress = Progress::of_files("comparing", handled_files(opened));
    let diff = match to {
        Some(to) => history::compare_checkpoints(opened, workspace.store(), from, to, &paths)?,
        None => history::compare_with_present(opened, &workspace, &history, from, &paths)?,
    };
    let view = DiffView::new(from, to, diff, workspace.store(), arguments.full)?;
    drop(progress);
    if !output::answers_json(&view, context) {
        print_diff(&view, context);
    }
    Ok(ExitCode::SUCCESS)
}

/// Compares a checkpoint with the workspace as it is now.
pub(crate) fn compare_with_present(
    from: &str,
    paths: &[PathBuf],
    full: bool,
    context: &Context,
) -> Result<DiffView, Failure> {
    let opened = context.opened_anyway()?;
    let (workspace, _revived) = open_workspace_with(from, context)?;
    let history = History::read(workspace.store(), workspace.id())?;
    let from = history.find(workspace.store(), from)?.checkpoint;
    let paths = rollback::relative_paths(&workspace, &context.directory, paths)?;
    let diff = history::compare_with_present(opened, &workspace, &history, from, &paths)?;
    DiffView::new(from, None, diff, workspace.store(), full)
}

/// Lists the paths in the current directory that have changed since a checkpoint.
pub(crate) fn list_changed_paths(from: &str, context: &Context) -> Result<Vec<PathBuf>, Failure> {
    let opened = context.opened()?;
    let (workspace, _revived) = open_workspace_with(from, context)?;
    let history = History::read(workspace.store(), workspace.id())?;
    let from = history.find(workspace.store(), from)?.checkpoint;
    let diff =
        history::compare_with_present(opened, &workspace, &history, from, &ChosenPaths::default())?;
    let directory = canonicalize_or_keep(&context.directory);
    let path = |change: TreeChange| {
        let whole = workspace.path().join(change.path.as_path());
        whole.strip_prefix(&directory).ok().map(Path::to_owned)
    };
    Ok(diff.changes.into_iter().filter_map(path).collect())
}

/// Opens the workspace that a checkpoint belongs to.
fn open_workspace_with<'c>(
    checkpoint: &str,
    context: &'c Context,
) -> Result<(Workspace<'c>, RevivedDirectories), Failure> {
    let opened = context.opened_anyway()?;
    let path = history::find_workspace_with(opened, &context.directory, checkpoint)?.path;
    Ok(history::revive_workspace(opened, &path)?)
}

/// Splits off the first word if it names a checkpoint, which is then the second checkpoint to
/// compare. All other words are paths.
fn split_second<'h, 'a>(
    words: &'a [PathBuf],
    history: &'h History,
    workspace: &Workspace<'_>,
    context: &Context,
) -> Result<(Option<&'h Checkpoint>, &'a [PathBuf]), Failure> {
    let Some((word, others)) = words.split_first() else { return Ok((None, words)) };
    let is_path = is_existing(word, context);
    let name = word.to_string_lossy();
    match history.find(workspace.store(), &name) {
        Ok(_) if is_path => Err(Failure::new(format!("{name} is both a checkpoint and a path"))
            .hint(format!("write the path as ./{name}, or the checkpoint by its id"))),
        Ok(found) => Ok((Some(found.checkpoint), others)),
        Err(FindError::NotACheckpoint(_)) => Ok((None, words)),
        Err(_) if is_path => Ok((None, words)),
        Err(error) => Err(error.into()),
    }
}

fn is_existing(path: &Path, context: &Context) -> bool {
    context.directory.join(path).symlink_metadata().is_ok()
}

impl DiffView {
    fn new(
        from: &Checkpoint,
        to: Option<&Checkpoint>,
        diff: Diff,
        store: &Store,
        full: bool,
    ) -> Result<DiffView, Failure> {
        let lines = (!full).then_some(LINES);
        let unified = diff.to_unified(store, lines).map_err(StoreError::from)?;
        let counts = diff.changes.iter().filter_map(|change| change.lines);
        let (insertions, deletions) =
            counts.fold((0, 0), |sum, lines| (sum.0 + lines.insertions, sum.1 + lines.deletions));
        Ok(DiffView {
            checkpoint: from.pin.id,
            to: to.map(|to| to.pin.id),
            files_changed: diff.changes.len(),
            insertions,
            deletions,
            changes: diff.changes,
            diff: String::from_utf8_lossy(&unified.text).into_owned(),
            left_out: unified.left_out,
        })
    }
}

fn print_diff(view: &DiffView, context: &Context) {
    let short = |id: Oid| id.to_string()[..7].to_owned();
    let between = match view.to {
        Some(to) => format!("between {} and {}", short(view.checkpoint), short(to)),
        None => format!("since {}", short(view.checkpoint)),
    };
    if view.changes.is_empty() {
        println!("Nothing changed {between}.");
        return;
    }
    println!(
        "{}, +{}/−{} {between}",
        output::count(view.files_changed, "file"),
        view.insertions,
        view.deletions,
    );
    output::print_section("Changed", view.changes.iter().map(describe_change), context);
    println!();
    for line in view.diff.lines() {
        let style = match line.as_bytes().first() {
            Some(b'+') => Some(Style::Good),
            Some(b'-') => Some(Style::Bad),
            Some(b'@') => Some(Style::Faint),
            _ => None,
        };
        let text = output::disarm(&line.replace('\t', "    "));
        println!("{}", style.map_or(text.clone(), |style| paint(style, &text)));
    }
    if view.left_out > 0 {
        println!("… {} more (--full shows all)", output::count(view.left_out, "line"));
    }
}

/// Says how a path changed: `src/a.rs  (modified, +3/−1)`.
pub(crate) fn describe_change(change: &TreeChange) -> String {
    let kind = match &change.kind {
        ChangeKind::Added => "added".to_owned(),
        ChangeKind::Deleted => "deleted".to_owned(),
        ChangeKind::Modified => "modified".to_owned(),
        ChangeKind::ModeChanged => "mode changed".to_owned(),
        ChangeKind::KindChanged => "kind changed".to_owned(),
        ChangeKind::Renamed { from } => format!("renamed from {from}"),
    };
    match change.lines {
        Some(lines) => {
            format!("{}  ({kind}, +{}/−{})", change.path, lines.insertions, lines.deletions)
        }
        None if change.private => format!("{}  ({kind}, private)", change.path),
        None if change.binary => format!("{}  ({kind}, binary)", change.path),
        None => format!("{}  ({kind})", change.path),
    }
}
