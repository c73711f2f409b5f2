//! `takeback fleet pull`: gets the files of a workspace on another machine, with their history.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

use clap::Args;
use serde_json::json;
use takeback_base::paths::{canonicalize_existing, normalize};
use takeback_fleet::{Placed, Pull, PullPin, RemoteWorkspace};
use takeback_tree::{AnyPath, Oid, Store};
use takeback_undo::history::take_checkpoint;
use takeback_undo::{CheckpointOptions, History, read_checkpoints};

use super::objects::open_objects;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Cell, Column, Style, Table};

/// Get the files of another machine's workspace, with their history
///
/// Writes the files as they were at the newest checkpoint, or at the one that you name, into a new
/// directory, and copies the checkpoints up to that one. Downloads only the packs that are needed.
/// Without a workspace, lists those that can be pulled.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback fleet pull                          list the workspaces of all machines
  takeback fleet pull shop                     the newest state, into ./shop
  takeback fleet pull shop@3 /tmp/shop         the state at its checkpoint 3, into /tmp/shop
  takeback fleet pull /home/ann/shop --machine laptop
  takeback fleet pull shop --no-history        only the files")]
pub(super) struct Arguments {
    /// The workspace: its path on its machine, or the last part of this path; @CHECKPOINT is the
    /// number, step, name or id of a checkpoint, as `takeback list` shows it on that machine
    #[arg(value_name = "WORKSPACE[@CHECKPOINT]")]
    workspace: Option<String>,
    /// The new directory, which must be empty or not exist yet [default: ./ and the name of the
    /// workspace]
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    destination: Option<PathBuf>,
    /// The name or the id of the machine, if several machines have such a workspace
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,
    /// Copy only the checkpoint whose files are written
    #[arg(long)]
    no_history: bool,
}

/// The state that is to be written.
struct Chosen {
    tree: Oid,
    /// The number of the last checkpoint that is copied.
    last: u64,
    id: Oid,
    warning: Option<&'static str>,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let objects = open_objects(context)?;
    let workspaces = objects.workspaces()?;
    let Some(wanted) = &arguments.workspace else {
        list_workspaces(&workspaces, context);
        return Ok(ExitCode::SUCCESS);
    };
    let (from, checkpoint) = find_workspace(&workspaces, wanted, arguments.machine.as_deref())?;
    let opened = context.opened()?;
    let destination = choose_destination(arguments, from, context)?;
    let mut pull = objects.pull(from)?;
    let chosen = choose_checkpoint(&mut pull, opened.store()?, checkpoint)?;
    let is_copied = |pin: &&PullPin| match arguments.no_history {
        true => pin.commit == chosen.id,
        false => pin.seq <= chosen.last,
    };
    let pins: Vec<PullPin> = pull.pins().iter().filter(is_copied).copied().collect();
    let commits: Vec<Oid> = pins.iter().map(|pin| pin.commit).collect();
    let local = opened.store()?;
    pull.fetch(&commits, local)?;
    if !pull.has_tree(local, &chosen.tree) {
        return Err(lost_checkpoint(&pull));
    }
    let now = UNIX_EPOCH + Duration::from_millis(context.now().0.unsigned_abs());
    let placed = pull.place(local, &chosen.tree, &pins, &destination, now)?;
    let mut warnings = find_warnings(&pull, &placed, &chosen);
    warnings.extend(take_first_checkpoint(&destination, from, context).err());
    report(from, &pull, &placed, &destination, &warnings, context);
    Ok(ExitCode::SUCCESS)
}

fn list_workspaces(workspaces: &[RemoteWorkspace], context: &Context) {
    if output::answers_json(&json!({ "workspaces": workspaces }), context) {
        return;
    }
    if workspaces.is_empty() {
        println!("No machine has uploaded checkpoints yet.");
        return;
    }
    let mut table = Table::new([Column::left().shrinks(1, 12), Column::free().shrinks(0, 20)]);
    for found in workspaces.iter().filter(|found| !found.single_file) {
        table.add([
            Cell::styled(Style::Id, &found.machine),
            Cell::new(found.path.0.display().to_string()),
        ]);
    }
    table.print();
}

/// Finds the workspace that the user named. Also returns the checkpoint, if the user named one.
fn find_workspace<'w>(
    workspaces: &'w [RemoteWorkspace],
    wanted: &'w str,
    machine: Option<&str>,
) -> Result<(&'w RemoteWorkspace, Option<&'w str>), Failure> {
    let find = |name: &str| -> Vec<&'w RemoteWorkspace> {
        let path = Path::new(name);
        let is_wanted = |found: &&RemoteWorkspace| {
            let is_named = match path.is_absolute() {
                true => found.path.0 == path,
                false => found.path.0.ends_with(path),
            };
            let is_there = machine
                .is_none_or(|machine| found.machine == machine || found.machine_id == machine);
            is_named && is_there && !found.single_file
        };
        workspaces.iter().filter(is_wanted).collect()
    };
    let (mut found, mut checkpoint) = (find(wanted), None);
    if found.is_empty()
        && let Some((name, after)) = wanted.rsplit_once('@')
    {
        (found, checkpoint) = (find(name), Some(after));
    }
    match found[..] {
        [only] => Ok((only, checkpoint)),
        [] => Err(Failure::new(format!("no machine has a workspace {wanted:?}"))
            .hint("`takeback fleet pull` lists the workspaces")),
        _ => {
            let places: Vec<String> = found
                .iter()
                .map(|it| format!("{} on {} ({})", it.path.0.display(), it.machine, it.machine_id))
                .collect();
            Err(Failure::new(format!("{wanted:?} is the name of several workspaces"))
                .because_of(&places.join(", "))
                .hint("name the whole path, and the machine with --machine"))
        }
    }
}

/// Chooses the new directory, and checks that it can be created.
fn choose_destination(
    arguments: &Arguments,
    from: &RemoteWorkspace,
    context: &Context,
) -> Result<PathBuf, Failure> {
    let path = match &arguments.destination {
        Some(destination) => context.directory.join(destination),
        None => context.directory.join(from.path.0.file_name().unwrap_or_default()),
    };
    let path = normalize(&canonicalize_existing(&path));
    if let Some(what) = context.places.refusal(&path) {
        return Err(
            Failure::new(format!("{} is {what}", path.display())).hint("name another directory")
        );
    }
    let is_free = match fs::symlink_metadata(&path) {
        Err(_) => true,
        Ok(found) => found.is_dir() && fs::read_dir(&path).is_ok_and(|mut it| it.next().is_none()),
    };
    match is_free {
        true => Ok(path),
        false => Err(Failure::new(format!("{} already exists and is not empty", path.display()))
            .hint("nothing was changed; name a directory that does not exist yet")),
    }
}

/// Chooses the state to write: the state at the checkpoint that the user named or, by default, the
/// newest known state.
fn choose_checkpoint(
    pull: &mut Pull<'_>,
    local: &Store,
    checkpoint: Option<&str>,
) -> Result<Chosen, Failure> {
    let workspace = pull.workspace().clone();
    if let Some(text) = checkpoint {
        let history = History::read(pull.store(), &workspace)?;
        let pin = &history.find(pull.store(), text)?.checkpoint.pin;
        return Ok(Chosen { tree: pin.tree, last: pin.name.seq, id: pin.id, warning: None });
    }
    let all = read_checkpoints(pull.store(), &workspace)?.all;
    let Some(newest) = all.first() else { return Err(lost_checkpoint(pull)) };
    let (id, last) = (newest.pin.id, newest.pin.name.seq);
    let before = Chosen { tree: newest.pin.tree, last, id, warning: None };
    let Some(rollback) = newest.record.rollback.as_ref().filter(|rollback| rollback.files) else {
        return Ok(before);
    };
    // The newest checkpoint was taken before a rollback. The state after this rollback is usually
    // that of the checkpoint to which the rollback returned.
    let commits: Vec<Oid> = pull.pins().iter().map(|pin| pin.commit).collect();
    pull.fetch(&commits, local)?;
    let warning = "the newest known state is the one before the last rollback";
    match pull.has_tree(local, &rollback.tree) {
        true => Ok(Chosen { tree: rollback.tree, ..before }),
        false => Ok(Chosen { warning: Some(warning), ..before }),
    }
}

fn lost_checkpoint(pull: &Pull<'_>) -> Failure {
    let failure = Failure::new("the checkpoint is incomplete in the object storage")
        .hint("nothing was changed; `takeback fleet verify` shows what is damaged");
    match pull.damage().first() {
        Some(error) => failure.because(error),
        None => failure,
    }
}

fn find_warnings(pull: &Pull<'_>, placed: &Placed, chosen: &Chosen) -> Vec<String> {
    let mut warnings: Vec<String> = chosen.warning.map(str::to_owned).into_iter().collect();
    if !placed.damaged.is_empty() {
        let count = output::count(placed.damaged.len(), "checkpoint");
        warnings.push(format!("{count} could not be copied: something in the storage is damaged"));
    }
    warnings.extend(pull.damage().iter().map(ToString::to_string));
    if !placed.unprivileged.is_empty() {
        let count = output::count(placed.unprivileged.len(), "file");
        warnings.push(format!("{count} lost the setuid or setgid bit"));
    }
    warnings
}

/// Takes a checkpoint of the new directory, so that its history says where the files come from.
fn take_first_checkpoint(
    destination: &Path,
    from: &RemoteWorkspace,
    context: &Context,
) -> Result<(), String> {
    let reason = format!("pulled from {} on {}", from.path.0.display(), from.machine);
    let options = CheckpointOptions { reason: Some(reason), name: None, pinned: false };
    let take = || -> Result<(), Failure> {
        let opened = context.opened()?;
        let workspace = opened.store()?.workspace(destination, &context.places)?;
        take_checkpoint(opened, &workspace, &options)?;
        Ok(())
    };
    take().map_err(|error| format!("the new directory has no checkpoint of its own yet: {error}"))
}

fn report(
    from: &RemoteWorkspace,
    pull: &Pull<'_>,
    placed: &Placed,
    destination: &Path,
    warnings: &[String],
    context: &Context,
) {
    let view = json!({
        "machine": from.machine,
        "workspace": from.path,
        "directory": AnyPath(destination.to_owned()),
        "files": placed.files,
        "checkpoints": placed.checkpoints,
        "bytes": pull.bytes(),
        "warnings": warnings,
    });
    if output::answers_json(&view, context) {
        return;
    }
    let files = output::count(usize::try_from(placed.files).unwrap_or(usize::MAX), "file");
    let count = usize::try_from(placed.checkpoints).unwrap_or(usize::MAX);
    let path = output::disarm(&destination.display().to_string());
    println!("Wrote {files} to {path}, with {}.", output::count(count, "checkpoint"));
    println!("The repository (.git) and ignored files that are in no checkpoint are not included.");
    warnings.iter().for_each(|warning| output::warn(warning));
}
