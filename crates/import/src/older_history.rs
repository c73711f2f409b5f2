//! Importing another program's checkpoints as the older history of a workspace.

use std::path::Path;
use std::time::{Duration, SystemTime};

use takeback_base::errors::error_chain;
use takeback_ledger::Time;
use takeback_tree::{
    AdoptError, Adopted, CaptureRules, Filter, ForeignRepository, Oid, OlderPin, Pin, PinError,
    Progress, Store, StoreError,
};
use takeback_undo::{Kind, Record};

use crate::common_parts::match_longest;

/// The reason that is recorded for a checkpoint without one.
const NO_REASON: &str = "imported";

/// The maximum number of imported checkpoints that new ones are compared with. If there are more,
/// only the newest are compared, because the comparison takes time for each pair of checkpoints.
const MAX_COMPARED: usize = 20_000;

/// Another program's checkpoint: a commit in a git repository.
pub(crate) struct ForeignCheckpoint<'a> {
    /// The repository that has the commit.
    pub(crate) repository: &'a ForeignRepository,
    /// The id of the commit.
    pub(crate) id: Oid,
    /// The tree of the commit.
    pub(crate) tree: Oid,
    /// The time of the checkpoint, in seconds since 1970.
    pub(crate) time: i64,
    /// The reason that the other program recorded. It may be empty.
    pub(crate) reason: &'a str,
    /// Patterns for files that the other program silently left out. A file that matches may have
    /// existed even if the checkpoint lacks it.
    pub(crate) exclude: &'a [String],
}

/// The result of adding older history to a workspace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OlderHistory {
    /// The new pins, oldest first.
    pub pins: Vec<Pin>,
    /// The number of checkpoints that the workspace already had.
    pub known: usize,
    /// The checkpoints that could not be read.
    pub skipped: Vec<SkippedCheckpoint>,
}

/// A checkpoint that could not be read, and is therefore not in the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SkippedCheckpoint {
    /// The commit in the other program's repository.
    pub id: Oid,
    /// The error that occurred while reading it.
    pub problem: String,
}

/// An error in takeback's store that stopped an import.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum ImportError {
    Adopt(#[from] AdoptError),
    Pin(#[from] PinError),
    Store(#[from] StoreError),
}

/// A checkpoint whose objects are already in takeback's store, with the record for its pin.
struct NewCheckpoint {
    tree: Oid,
    time: i64,
    record: Record,
}

/// Adds checkpoints to the history of the workspace at `directory`, which need not exist.
/// `checkpoints` is sorted, oldest first. The new checkpoints come before all checkpoints that
/// takeback itself took.
///
/// Checkpoints that the workspace already has are left unchanged, so importing twice adds nothing.
/// A checkpoint that cannot be read is skipped and does not affect the others.
pub(crate) fn add_older_history(
    store: &Store,
    directory: &Path,
    checkpoints: &[ForeignCheckpoint<'_>],
    now: Time,
    progress: Progress<'_>,
) -> Result<OlderHistory, ImportError> {
    let mut adoption = store.adopt()?;
    let (mut taken, mut skipped) = (Vec::new(), Vec::new());
    for (done, checkpoint) in (1..).zip(checkpoints) {
        match adoption.take_tree(checkpoint.repository, checkpoint.tree) {
            Ok(adopted) => taken.push(NewCheckpoint {
                tree: adopted.tree,
                time: checkpoint.time,
                record: new_record(directory, checkpoint, adopted),
            }),
            Err(AdoptError::Foreign(problem)) => {
                skipped
                    .push(SkippedCheckpoint { id: checkpoint.id, problem: error_chain(&problem) });
            }
            Err(error) => return Err(error.into()),
        }
        progress(done, checkpoints.len() as u64);
    }
    if taken.is_empty() {
        return Ok(OlderHistory { pins: Vec::new(), known: 0, skipped });
    }
    let lock = adoption.lock(directory)?;
    let predecessors = find_predecessors(&taken, &lock.pins()?);
    let (mut late, mut records) = (Vec::new(), Vec::new());
    let mut known = 0;
    for (new, predecessor) in taken.into_iter().zip(predecessors) {
        match predecessor {
            Some(after) => {
                late.push(OlderPin { after, tree: new.tree, time: new.time });
                records.push(new.record);
            }
            None => known += 1,
        }
    }
    let mut message = |index: usize, seq| {
        let record: &mut Record = &mut records[index];
        record.seq = seq;
        record.message()
    };
    let pins = lock.finish(&late, system_time(now), &mut message)?;
    Ok(OlderHistory { pins, known, skipped })
}

/// Creates the record of a checkpoint, without its number.
fn new_record(directory: &Path, checkpoint: &ForeignCheckpoint<'_>, adopted: Adopted) -> Record {
    let rules = CaptureRules { exclude: checkpoint.exclude.to_vec(), ..CaptureRules::default() };
    let reason = if checkpoint.reason.is_empty() { NO_REASON } else { checkpoint.reason };
    let time = Time(checkpoint.time * 1000);
    Record {
        imported: Some(checkpoint.id),
        files: Some(adopted.files),
        filter: Filter { rules, tracked: Vec::new() },
        uncovered: adopted.uncovered,
        ..Record::new(directory.into(), 0, time, Kind::Manual, reason)
    }
}

fn system_time(time: Time) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(time.0.max(0).unsigned_abs())
}

/// For each checkpoint, finds the number of the pin that it comes after, or `None` if the
/// checkpoint already has a pin. Imported checkpoints stay together, before everything that
/// takeback captured.
fn find_predecessors(taken: &[NewCheckpoint], pins: &[Pin]) -> Vec<Option<u64>> {
    let known: Vec<(u64, Key)> =
        pins.iter().filter_map(|pin| Some((pin.name.seq, imported_key(pin)?))).collect();
    let known = &known[known.len().saturating_sub(MAX_COMPARED)..];
    let keys: Vec<Key> = taken.iter().map(|new| checkpoint_key(new.tree, &new.record)).collect();
    let known_keys: Vec<&Key> = known.iter().map(|(_, key)| key).collect();
    let same = match_longest(&keys.iter().collect::<Vec<_>>(), &known_keys);
    let number = |at: &usize| known[*at].0;
    let before_first = |first: u64| {
        let earlier = pins.iter().map(|pin| pin.name.seq).take_while(|seq| *seq < first);
        earlier.last().unwrap_or(0)
    };
    let mut after = match same.iter().flatten().next().map(number) {
        Some(first) => before_first(first),
        None => known.last().map_or(0, |(seq, _)| *seq),
    };
    same.iter()
        .map(|at| match at.as_ref().map(number) {
            Some(seq) => {
                after = seq;
                None
            }
            None => Some(after),
        })
        .collect()
}

/// The identity of an imported checkpoint: its tree and the first paragraph of its reason, on one
/// line. When other programs rewrite their commits, the ids and times change, but these parts stay
/// the same.
type Key = (Oid, String);

fn imported_key(pin: &Pin) -> Option<Key> {
    let record = Record::parse(&pin.message).ok()?;
    record.imported.map(|_| checkpoint_key(pin.tree, &record))
}

fn checkpoint_key(tree: Oid, record: &Record) -> Key {
    let lines = record.reason.lines().map(str::trim_end).take_while(|line| !line.is_empty());
    let subject = lines.collect::<Vec<_>>().join(" ");
    // When Hermes rewrites a checkpoint that has no reason, the new reason is "checkpoint".
    let is_unnamed = subject.is_empty() || subject == NO_REASON;
    (tree, if is_unnamed { "checkpoint".to_owned() } else { subject })
}
