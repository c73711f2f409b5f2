//! `takeback rollback`: lists checkpoints, returns to one, undoes that.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use takeback_tree::{
    AnyPath, Blocked, BlockedReason, Kept, KeptReason, Lock, Oid, Plan, Recovery, RelPath,
    RestoreError, Target, Uncovered, Workspace,
};

use crate::context::Context;
use crate::failure::{self, Failure};
use crate::output::{self, Progress};
use crate::record::{Checkpoint, Checkpoints, Kind, Record, Rollback};

/// List checkpoints, return to one, or undo that
///
/// Without arguments, lists the checkpoints of this directory, newest first. With the number or id
/// of one, returns the directory to it, or only the given files and directories. What is there
/// before is saved first, so `takeback rollback undo` brings it back.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback rollback                       list
  takeback rollback 2                     return to number 2 of the list
  takeback rollback 4270a8c src docs/a.md only these
  takeback rollback 2 --dry-run           show what would happen
  takeback rollback undo                  back to before the last rollback; repeat to go further")]
pub(crate) struct Arguments {
    /// A number of the list, an id, or `undo`
    #[arg(value_name = "CHECKPOINT|undo")]
    target: Option<String>,
    /// Only these files and directories: names, not patterns
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Show what would happen and change nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    match arguments.target.as_deref() {
        None if arguments.dry_run => {
            Err(Failure::new("--dry-run needs a checkpoint").hint("`takeback rollback` lists them"))
        }
        None => list(context),
        Some("undo") if !arguments.paths.is_empty() => {
            Err(Failure::new("undo takes back a whole rollback and takes no paths")
                .hint("`takeback rollback` lists the checkpoints to restore single files from"))
        }
        Some(target) => {
            let view = roll_back(target, &arguments.paths, arguments.dry_run, context)?;
            Ok(show(&view, context))
        }
    }
}

/// The list.
#[derive(Serialize)]
struct ListView {
    workspace: AnyPath,
    checkpoints: Vec<Row>,
    /// What could not be read, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable: Vec<String>,
}

#[derive(Serialize)]
struct Row {
    number: usize,
    id: Oid,
    time: String,
    kind: Kind,
    reason: String,
    files: Option<u64>,
    uncovered: UncoveredView,
}

#[derive(Serialize)]
struct UncoveredView {
    count: usize,
    paths: Vec<RelPath>,
}

fn list(context: &Context) -> Result<ExitCode, Failure> {
    let store = context.store()?;
    let workspace = context.workspace(&store)?;
    let checkpoints = Checkpoints::of(&store, &workspace)?;
    let row = |(number, checkpoint): (usize, &Checkpoint)| Row {
        number,
        id: checkpoint.pin.id,
        time: checkpoint.record.time.clone(),
        kind: checkpoint.record.kind,
        reason: checkpoint.record.reason.clone(),
        files: checkpoint.record.files,
        uncovered: UncoveredView {
            count: checkpoint.record.uncovered.len(),
            paths: checkpoint.record.uncovered.iter().map(|path| path.path.clone()).collect(),
        },
    };
    let view = ListView {
        workspace: AnyPath::from(workspace.path()),
        checkpoints: checkpoints.rows().map(row).collect(),
        unreadable: checkpoints.unreadable,
    };
    if context.globals.json {
        output::print_json(&view);
        return Ok(ExitCode::SUCCESS);
    }
    let path = output::disarm(&workspace.path().display().to_string());
    if view.checkpoints.is_empty() {
        println!("No checkpoints for {path} yet. `takeback checkpoint` takes one.");
    } else {
        println!("Checkpoints for {path}");
    }
    for row in &view.checkpoints {
        let id = &row.id.to_string()[..7];
        let uncovered = match row.uncovered.count {
            0 => String::new(),
            count => format!("   {} not covered", output::count(count, "path")),
        };
        let reason = output::disarm(&output::shorten(&row.reason, 60));
        println!("{:>4}  {id}  {}  {reason}{uncovered}", row.number, local(&row.time));
    }
    view.unreadable.iter().for_each(|reason| eprintln!("warning: {}", output::disarm(reason)));
    Ok(ExitCode::SUCCESS)
}

/// A time as people here read it.
fn local(time: &str) -> String {
    match time.parse::<jiff::Timestamp>() {
        Ok(time) => output::local(time),
        Err(_) => output::disarm(time),
    }
}

/// What a rollback did, or would do.
#[derive(Serialize)]
pub(crate) struct View {
    checkpoint: Oid,
    /// What was there before; nothing for a dry run or if nothing differed.
    safety_checkpoint: Option<Oid>,
    pub(crate) restored: Vec<RelPath>,
    pub(crate) deleted: Vec<RelPath>,
    guarded: Vec<RelPath>,
    kept: Vec<Kept>,
    /// Old files that somebody wrote to meanwhile, under their new names.
    saved: Vec<RelPath>,
    uncovered: Vec<Uncovered>,
    blocked: Vec<Blocked>,
    #[serde(skip)]
    dry_run: bool,
}

/// What to return to, and which paths.
struct Goal<'a> {
    checkpoint: &'a Checkpoint,
    paths: Vec<RelPath>,
    /// If this undoes a rollback: its safety checkpoint's number, and what it led to.
    undoes: Option<(u64, Oid)>,
}

impl Goal<'_> {
    fn plan(&self, lock: &mut Lock<'_>, context: &Context) -> Result<Plan, Failure> {
        let target = Target {
            tree: self.checkpoint.pin.tree,
            filter: &self.checkpoint.record.filter,
            uncovered: &self.checkpoint.record.uncovered,
            undoes: self.undoes.map(|(_, tree)| tree),
        };
        Ok(lock.plan(&target, &self.paths, &context.capture_options())?)
    }
}

/// Plans, asks, saves the present, restores.
pub(crate) fn roll_back(
    target: &str,
    paths: &[PathBuf],
    dry_run: bool,
    context: &Context,
) -> Result<View, Failure> {
    let store = context.store()?;
    let workspace = context.workspace(&store)?;
    let paths: Vec<RelPath> =
        paths.iter().map(|path| context.inside(&workspace, path)).collect::<Result<_, _>>()?;
    let checkpoints = Checkpoints::of(&store, &workspace)?;
    let goal = if target == "undo" {
        let (safety, rollback) = last_rollback(&checkpoints)?;
        // A rollback of single paths is undone for these paths.
        let undoes = Some((safety.record.seq, rollback.tree));
        Goal { checkpoint: safety, paths: rollback.paths.clone(), undoes }
    } else {
        Goal { checkpoint: checkpoints.find(target)?, paths, undoes: None }
    };
    let progress = Progress::new("comparing the workspace with the checkpoint");
    let mut lock = workspace.lock()?;
    report_recovery(&lock);
    let plan = goal.plan(&mut lock, context)?;
    drop(progress);
    let mut view = View {
        checkpoint: goal.checkpoint.pin.id,
        safety_checkpoint: None,
        restored: plan.writes.clone(),
        deleted: plan.deletes.clone(),
        guarded: plan.guarded.clone(),
        kept: plan.kept.clone(),
        saved: Vec::new(),
        uncovered: goal.checkpoint.record.uncovered.clone(),
        blocked: plan.blocked.clone(),
        dry_run,
    };
    let nothing_to_do = view.restored.is_empty() && view.deleted.is_empty();
    // An undo that finds everything undone is recorded all the same, so that the next one goes
    // further.
    let is_over = nothing_to_do && goal.undoes.is_none();
    if dry_run || is_over || !view.blocked.is_empty() {
        finish(lock, context);
        return Ok(view);
    }
    if !nothing_to_do && context.asks() {
        // Nobody else waits while somebody thinks.
        finish(lock, context);
        print_plan(&view, "Will restore", "Will delete");
        output::go_on()?;
        lock = workspace.lock()?;
        report_recovery(&lock);
        if !goal.plan(&mut lock, context)?.does_the_same_as(&plan) {
            return Err(Failure::new("the workspace changed meanwhile; nothing was restored")
                .hint("look again with --dry-run and repeat"));
        }
    }
    let _progress = Progress::new("restoring");
    let safety = pin_safety(&mut lock, &workspace, &plan, &goal, context)?;
    let outcome = match lock.apply(&plan, &safety) {
        Ok(outcome) => outcome,
        // Not everything is as it was: what is missing is in the safety checkpoint.
        Err(error @ (RestoreError::NotReverted { .. } | RestoreError::Left { .. })) => {
            return Err(error.into());
        }
        Err(error) => {
            // There was no rollback, so there is none to undo.
            store.unpin(&safety.name)?;
            return Err(error.into());
        }
    };
    finish(lock, context);
    view.safety_checkpoint = Some(safety.id);
    (view.restored, view.deleted, view.saved) = (outcome.restored, outcome.deleted, outcome.saved);
    view.kept
        .extend(outcome.kept.into_iter().map(|path| Kept { path, reason: KeptReason::NotEmpty }));
    Ok(view)
}

/// Ends the work on the workspace. What matters is done by then: a failure is only worth a word.
pub(super) fn finish(lock: Lock<'_>, context: &Context) {
    if let Err(error) = lock.finish(context.capture_options().now) {
        let failure = Failure::from(error);
        eprintln!("warning: the next checkpoint will take longer: {failure}");
    }
}

fn pin_safety(
    lock: &mut Lock<'_>,
    workspace: &Workspace<'_>,
    plan: &Plan,
    goal: &Goal<'_>,
    context: &Context,
) -> Result<takeback_tree::Pin, Failure> {
    let to = goal.checkpoint.pin.id;
    let rollback = Rollback {
        to,
        tree: goal.checkpoint.pin.tree,
        paths: goal.paths.clone(),
        undoes: goal.undoes.map(|(seq, _)| seq),
    };
    let record = Record {
        reason: format!("before a rollback to {}", &to.to_string()[..7]),
        rollback: Some(rollback),
        filter: plan.filter.clone(),
        uncovered: plan.uncovered.clone(),
        ..Record::new(workspace, lock.next_seq()?, jiff::Timestamp::now(), Kind::Safety)
    };
    Ok(lock.pin(plan.from, context.capture_options().now, &record.message())?)
}

/// The safety checkpoint of the latest rollback that is not undone yet.
fn last_rollback(checkpoints: &Checkpoints) -> Result<(&Checkpoint, &Rollback), Failure> {
    let rollbacks = || {
        checkpoints.all.iter().filter_map(|found| Some((found, found.record.rollback.as_ref()?)))
    };
    let undone: Vec<u64> = rollbacks().filter_map(|(_, rollback)| rollback.undoes).collect();
    rollbacks()
        .filter(|(_, rollback)| rollback.undoes.is_none())
        .find(|(checkpoint, _)| !undone.contains(&checkpoint.record.seq))
        .ok_or_else(|| Failure::new("there is no rollback to undo in this workspace"))
}

/// Says what became of a restore that was cut off.
pub(crate) fn report_recovery(lock: &Lock<'_>) {
    let (what, left) = match lock.recovery() {
        None => return,
        Some(Recovery::Finished(left)) => ("was interrupted and is finished now", left),
        Some(Recovery::Reverted(left)) => ("was interrupted and is taken back now", left),
        Some(Recovery::Failed(error)) => {
            let error = output::disarm(&failure::chain(error));
            eprintln!("warning: an interrupted restore could not be finished: {error}");
            return;
        }
    };
    eprintln!("note: a restore {what}");
    left.iter().for_each(|path| eprintln!("  left as it is, because it changed meanwhile: {path}"));
}

/// How many paths of a kind are shown.
const SHOWN: usize = 20;

fn print_plan(view: &View, restore: &str, delete: &str) {
    let print = |title: &str, lines: Vec<String>| {
        if lines.is_empty() {
            return;
        }
        println!("{title}:");
        lines.iter().take(SHOWN).for_each(|line| println!("  {line}"));
        if lines.len() > SHOWN {
            println!("  … and {} more", lines.len() - SHOWN);
        }
    };
    let paths = |paths: &[RelPath]| paths.iter().map(ToString::to_string).collect();
    print(restore, paths(&view.restored));
    print(delete, paths(&view.deleted));
    print("Guarded, left as they are (name them to restore them)", paths(&view.guarded));
    let kept = |kept: &Kept| match kept.reason {
        KeptReason::NotCovered => format!("{}  (the checkpoint did not cover it)", kept.path),
        KeptReason::NotSaved => {
            format!("{}  (not captured now, so nothing in it was touched)", kept.path)
        }
        KeptReason::NotEmpty => format!("{}  (not empty)", kept.path),
    };
    print("Kept", view.kept.iter().map(kept).collect());
    print("Written to meanwhile, kept under these names", paths(&view.saved));
    let blocked = |blocked: &Blocked| {
        let why = match &blocked.reason {
            BlockedReason::Uncovered(reason) => {
                output::reason(&Uncovered { path: blocked.path.clone(), reason: reason.clone() })
            }
            BlockedReason::Uncapturable => "is never captured".into(),
            BlockedReason::TooManyFiles => "too many files".into(),
            BlockedReason::ParentReplaced => "is not a directory any more".into(),
        };
        format!("{}  ({})", blocked.path, output::disarm(&why))
    };
    print("In the way, and cannot be saved first", view.blocked.iter().map(blocked).collect());
}

fn show(view: &View, context: &Context) -> ExitCode {
    let blocked = !view.blocked.is_empty();
    let code = if blocked { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    if context.globals.json {
        output::print_json(view);
        return code;
    }
    if view.dry_run || blocked {
        print_plan(view, "Would restore", "Would delete");
    } else {
        print_plan(view, "Restored", "Deleted");
    }
    if blocked {
        eprintln!("error: nothing was changed: move what is in the way and repeat");
    } else if let Some(safety) = view.safety_checkpoint {
        println!("Done. `takeback rollback {}` takes this back.", &safety.to_string()[..7]);
    } else if view.restored.is_empty() && view.deleted.is_empty() {
        println!("Nothing to restore: everything is as it was then.");
    }
    code
}
