//! `takeback rollback diff`: what changed since a checkpoint.

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use takeback_tree::{ChangeKind, Oid, TreeChange};
use takeback_undo::{History, history, rollback};

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Progress, Style, paint};

/// How many lines of a diff are shown unless somebody wants all.
const LINES: usize = 80;

#[derive(Serialize)]
pub(crate) struct View {
    checkpoint: Oid,
    files_changed: usize,
    insertions: u64,
    deletions: u64,
    changes: Vec<TreeChange>,
    /// In git's format.
    diff: String,
    /// How many lines of it were left out.
    left_out: usize,
}

pub(super) fn run(words: &[PathBuf], full: bool, context: &Context) -> Result<ExitCode, Failure> {
    let Some((target, paths)) = words.split_first() else {
        return Err(Failure::new("which checkpoint?").hint("as in `takeback rollback diff 2`"));
    };
    let progress = Progress::new("comparing the workspace with the checkpoint");
    let view = view(&target.to_string_lossy(), paths, full, context)?;
    drop(progress);
    if context.globals.json {
        output::print_json(&view);
    } else {
        print(&view, context);
    }
    Ok(ExitCode::SUCCESS)
}

/// What changed since a checkpoint.
pub(crate) fn view(
    target: &str,
    paths: &[PathBuf],
    full: bool,
    context: &Context,
) -> Result<View, Failure> {
    let opened = context.opened()?;
    let (workspace, _revived) = history::revive_workspace(opened, &context.directory)?;
    let history = History::read(workspace.store(), workspace.id())?;
    let found = history.find(workspace.store(), target)?;
    let paths = rollback::relative_paths(&workspace, &context.directory, paths)?;
    let diff =
        history::compare_with_present(opened, &workspace, &history, found.checkpoint, &paths)?;
    let lines = (!full).then_some(LINES);
    let unified =
        diff.to_unified(workspace.store(), lines).map_err(takeback_tree::StoreError::from)?;
    let counts = diff.changes.iter().filter_map(|change| change.lines);
    let (insertions, deletions) =
        counts.fold((0, 0), |sum, lines| (sum.0 + lines.insertions, sum.1 + lines.deletions));
    Ok(View {
        checkpoint: found.checkpoint.pin.id,
        files_changed: diff.changes.len(),
        insertions,
        deletions,
        changes: diff.changes,
        diff: String::from_utf8_lossy(&unified.text).into_owned(),
        left_out: unified.left_out,
    })
}

fn print(view: &View, context: &Context) {
    if view.changes.is_empty() {
        println!("Nothing changed since then.");
        return;
    }
    println!(
        "{}, +{}/−{} since {}",
        output::count(view.files_changed, "file"),
        view.insertions,
        view.deletions,
        &view.checkpoint.to_string()[..7]
    );
    let lines = view.changes.iter().map(describe);
    output::print_section("Changed", lines, context);
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

fn describe(change: &TreeChange) -> String {
    let what = match &change.kind {
        ChangeKind::Added => "added".to_owned(),
        ChangeKind::Deleted => "deleted".to_owned(),
        ChangeKind::Modified => "modified".to_owned(),
        ChangeKind::ModeChanged => "mode changed".to_owned(),
        ChangeKind::KindChanged => "another kind".to_owned(),
        ChangeKind::Renamed { from } => format!("renamed from {from}"),
    };
    match change.lines {
        Some(lines) => {
            format!("{}  ({what}, +{}/−{})", change.path, lines.insertions, lines.deletions)
        }
        None if change.private => format!("{}  ({what}, private)", change.path),
        None if change.binary => format!("{}  ({what}, binary)", change.path),
        None => format!("{}  ({what})", change.path),
    }
}
