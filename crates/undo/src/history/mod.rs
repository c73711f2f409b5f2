//! The history of a workspace: its checkpoints, grouped into rows and found by number, name or id.

pub(crate) mod authorship;
pub(crate) mod claim;
mod conversation;
mod counts;
mod diff;
pub(crate) mod in_force;
pub(crate) mod labels;
mod list;
pub mod record;
mod show;
mod take;
pub(crate) mod traces;
pub(crate) mod workspace;

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use takeback_tree::{RelPath, Store, StoreError, WorkspaceId};

use self::record::{
    CallRef, Checkpoint, Checkpoints, Kind, RollbackRecord, TurnId, read_checkpoints,
};
use self::traces::{PrunedCheckpoints, read_pruned};
use crate::hook::state::{OpenCall, WorkspaceState};

pub use self::conversation::{
    ConversationError, TurnMessages, find_first_message, read_turn_messages,
};
pub use self::counts::{ChangeCounts, find_rows_with_path, list_changes};
pub(crate) use self::counts::{count_changes, end_of_row};
pub use self::diff::{
    CompareError, compare_checkpoints, compare_directories, compare_tree_with_present,
    compare_with_present,
};
pub use self::labels::{LabelChange, LabelError, history_changed_at, label_checkpoint};
pub use self::list::{
    EffectView, List, OtherWorkspace, RowView, StepView, UncoveredView, find_other_workspaces,
    list_checkpoints, list_workspace,
};
pub(crate) use self::list::{effects_of_row, finish_interrupted, list_history};
pub use self::show::{CheckpointView, ShowError, show_checkpoint};
pub use self::take::{CheckpointOptions, NameError, TakeError, TakenCheckpoint, take_checkpoint};
pub(crate) use self::take::{has_pin, new_record, pin_tree};
pub use self::workspace::{
    RevivedDirectories, WorkspaceRef, find_workspace, find_workspace_with, known_workspace,
    known_workspaces, open_workspace, revive_workspace,
};

/// All checkpoints of a workspace.
#[derive(Debug)]
pub struct History {
    workspace: WorkspaceId,
    /// The checkpoints of all kinds, oldest first.
    pub(crate) all: Vec<Checkpoint>,
    /// The reasons why some checkpoints could not be read.
    pub unreadable: Vec<String>,
    /// The calls that have begun but not ended.
    pub(crate) open: Vec<OpenCall>,
    /// The traces of pruned checkpoints.
    pruned: PrunedCheckpoints,
    /// The rows of the list, newest first.
    rows: Vec<RowParts>,
    /// For each turn, the indices of its rows, oldest first. There can be several, because agents
    /// may reuse the name of a turn.
    turns: HashMap<(String, TurnId), Vec<usize>>,
}

/// The checkpoints of a row, as indices into `History::all`.
#[derive(Debug)]
struct RowParts {
    steps: Vec<usize>,
    /// The row's last checkpoint, whatever its kind.
    last: usize,
}

/// A row of the list: a manual checkpoint, or the checkpoints before the calls of one turn.
#[derive(Clone, Copy, Debug)]
pub struct Row<'h> {
    history: &'h History,
    /// The number in the list; the newest row is 1.
    pub number: usize,
}

/// The checkpoint that the user means by a number, a name or an id.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct FoundCheckpoint<'h> {
    pub checkpoint: &'h Checkpoint,
    /// True if the checkpoint was taken before a call other than the first of its turn.
    pub is_step: bool,
}

/// The reason why a number, name or id does not identify a checkpoint.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the variants")]
pub enum FindError {
    #[error("no checkpoint {number}: this workspace has {rows}")]
    NoSuchRow { number: usize, rows: usize },
    #[error("checkpoint {number} has no step {step}: it has {steps}")]
    NoSuchStep { number: usize, step: usize, steps: usize },
    #[error("{0:?} is not a checkpoint")]
    NotACheckpoint(String),
    #[error("several ids of checkpoints begin with {0}")]
    Ambiguous(String),
    #[error("this workspace has no checkpoint {0}")]
    Unknown(String),
    #[error("checkpoint {id} belongs to {}", workspace.display())]
    Elsewhere { id: String, workspace: PathBuf },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl History {
    /// Reads the history of a workspace.
    pub fn read(store: &Store, workspace: &WorkspaceId) -> Result<History, StoreError> {
        let (Checkpoints { mut all, unreadable }, open) = read_at_once(store, workspace)?;
        all.reverse();
        let mut rows: Vec<RowParts> = Vec::new();
        let mut turns: HashMap<(String, TurnId), Vec<usize>> = HashMap::new();
        for (index, Checkpoint { record, .. }) in all.iter().enumerate() {
            let turn = record.call.as_ref().filter(|_| record.kind == Kind::Call);
            let turn = turn.map(|call| (call.session.clone(), call.turn.clone()));
            let known = turn.as_ref().and_then(|turn| turns.get(turn)?.last());
            match (record.kind, known) {
                (Kind::Call, Some(row)) if !record.first => rows[*row].steps.push(index),
                (Kind::Manual | Kind::Call, _) => {
                    if let Some(turn) = turn {
                        turns.entry(turn).or_default().push(rows.len());
                    }
                    rows.push(RowParts { steps: vec![index], last: index });
                }
                (Kind::After | Kind::State | Kind::Safety, _) => {}
            }
        }
        // From here on, the rows are in reverse order, so the newest row has the index 0.
        rows.reverse();
        for place in turns.values_mut().flatten() {
            *place = rows.len() - 1 - *place;
        }
        let workspace = workspace.clone();
        // A prune writes the traces before it deletes the checkpoints, so the checkpoints are read
        // first, and the traces after them.
        let pruned = read_pruned(store, &workspace, &all);
        let mut history = History { workspace, all, unreadable, open, pruned, rows, turns };
        history.find_ends();
        Ok(history)
    }

    /// Finds the last known state of each turn.
    fn find_ends(&mut self) {
        for index in 0..self.all.len() {
            let Checkpoint { pin, record } = &self.all[index];
            let Some(call) = &record.call else { continue };
            let began = call.began.as_ref().map(|began| began.seq + record.shift(pin));
            if let Some(row) = self.row_of(call, began.unwrap_or(pin.name.seq)) {
                self.rows[row - 1].last = index;
            }
        }
    }

    /// Finds the number of the row that a call is part of. `seq` was the next free checkpoint
    /// number when the call began.
    pub(crate) fn row_of(&self, call: &CallRef, seq: u64) -> Option<usize> {
        let places = self.turns.get(&(call.session.clone(), call.turn.clone()))?;
        let begins = |place: &usize| self.all[self.rows[*place].steps[0]].pin.name.seq;
        places.iter().rev().find(|place| begins(place) <= seq).map(|place| place + 1)
    }

    /// Returns true if checkpoint `seq` is the one that was taken before `call`.
    pub(crate) fn is_pinned_for(&self, call: &CallRef, seq: u64) -> bool {
        let found = self.all.binary_search_by_key(&seq, |known| known.pin.name.seq);
        let known = found.ok().and_then(|index| self.all[index].record.call.as_ref());
        known.is_some_and(|known| {
            known.began.is_none() && known.id == call.id && known.reporter() == call.reporter()
        })
    }

    /// Finds the checkpoint that was taken before the next call in the session of `call`, and
    /// returns its number. `seq` was the next free checkpoint number when `call` began.
    pub(crate) fn find_next_call(&self, call: &CallRef, seq: u64) -> Option<u64> {
        let is_next = |known: &&Checkpoint| {
            let other = known.record.call.as_ref().filter(|_| known.record.kind == Kind::Call);
            let is_later = known.pin.name.seq >= seq;
            let is_other = |other: &CallRef| other.id != call.id;
            is_later
                && other.is_some_and(|other| other.reporter() == call.reporter() && is_other(other))
        };
        self.all.iter().find(is_next).map(|known| known.pin.name.seq)
    }

    /// Returns the paths that are captured regardless of the rules, because the record of a
    /// checkpoint or trace says so.
    pub(crate) fn named_paths(&self) -> Vec<RelPath> {
        let named: BTreeSet<&RelPath> =
            self.events().flat_map(|known| known.record.named_paths()).collect();
        named.into_iter().cloned().collect()
    }

    /// Returns the paths that calls named or wrote after a checkpoint was taken, including the
    /// paths of the call that the checkpoint was taken for.
    pub(crate) fn named_since(&self, checkpoint: &Checkpoint) -> Vec<RelPath> {
        let since = self.all.iter().filter(|known| known.pin.name.seq >= checkpoint.pin.name.seq);
        let calls = since.flat_map(|known| known.record.calls());
        let named: BTreeSet<&RelPath> =
            calls.flat_map(|call| call.named.iter().chain(&call.writes)).collect();
        named.into_iter().cloned().collect()
    }

    /// Returns the sessions that have worked in the workspace.
    pub(crate) fn sessions(&self) -> BTreeSet<String> {
        let calls = self.all.iter().filter_map(|known| known.record.call.as_ref());
        calls.map(|call| call.session.clone()).collect()
    }

    /// Returns the number of the newest checkpoint, whatever its kind, or 0 if there is none.
    pub(crate) fn newest(&self) -> u64 {
        self.all.last().map_or(0, |newest| newest.pin.name.seq)
    }

    /// Returns the rollbacks that were made, oldest first, each with its safety checkpoint.
    pub fn rollbacks(&self) -> impl Iterator<Item = (&Checkpoint, &RollbackRecord)> {
        self.all.iter().filter_map(|safety| Some((safety, safety.record.rollback.as_ref()?)))
    }

    /// Returns the sessions whose tool calls have begun but not ended. A session whose agent was
    /// killed in the middle of a call is among them until its next call.
    pub fn working_sessions(&self) -> BTreeSet<&str> {
        self.open.iter().map(|open| open.session.as_str()).collect()
    }

    /// Returns the rows, newest first.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        (1..=self.rows.len()).map(|number| Row { history: self, number })
    }

    /// Finds a row by its number.
    pub fn row(&self, number: usize) -> Result<Row<'_>, FindError> {
        if (1..=self.rows.len()).contains(&number) {
            Ok(Row { history: self, number })
        } else {
            Err(FindError::NoSuchRow { number, rows: self.rows.len() })
        }
    }

    /// Finds the checkpoint that `text` identifies: `N`, `N.M`, a name, an id or the beginning of
    /// an id.
    pub fn find(&self, store: &Store, text: &str) -> Result<FoundCheckpoint<'_>, FindError> {
        if let Some(number) = parse_number(text) {
            return Ok(FoundCheckpoint { checkpoint: self.row(number)?.first(), is_step: false });
        }
        if let Some((row, step)) = text.split_once('.')
            && let (Some(row), Some(step)) = (parse_number(row), parse_number(step))
        {
            let row = self.row(row)?;
            let steps = row.steps().count();
            let found = step.checked_sub(1).and_then(|index| row.steps().nth(index));
            let missing = FindError::NoSuchStep { number: row.number, step, steps };
            return Ok(FoundCheckpoint { checkpoint: found.ok_or(missing)?, is_step: step > 1 });
        }
        let named = self.all.iter().rev().find(|known| known.record.name.as_deref() == Some(text));
        match named {
            Some(checkpoint) => Ok(FoundCheckpoint { checkpoint, is_step: false }),
            None => self.find_by_id(store, text),
        }
    }

    fn find_by_id(&self, store: &Store, text: &str) -> Result<FoundCheckpoint<'_>, FindError> {
        let is_id =
            (6..=40).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_id {
            return Err(FindError::NotACheckpoint(text.to_owned()));
        }
        let prefix = text.to_ascii_lowercase();
        let fits = |checkpoint: &&Checkpoint| checkpoint.pin.id.to_string().starts_with(&prefix);
        let mut found = self.all.iter().filter(fits);
        match (found.next(), found.next()) {
            (Some(checkpoint), None) => {
                let is_first = self.rows().any(|row| row.first().pin.name == checkpoint.pin.name);
                let is_step = checkpoint.record.kind == Kind::Call && !is_first;
                Ok(FoundCheckpoint { checkpoint, is_step })
            }
            (Some(_), Some(_)) => Err(FindError::Ambiguous(prefix)),
            (None, _) => match self.find_elsewhere(store, &prefix)? {
                Some(workspace) => Err(FindError::Elsewhere { id: prefix, workspace }),
                None => Err(FindError::Unknown(prefix)),
            },
        }
    }

    /// Finds another workspace that has a checkpoint whose id begins with `prefix`.
    fn find_elsewhere(&self, store: &Store, prefix: &str) -> Result<Option<PathBuf>, StoreError> {
        for workspace in store.pinned_workspaces()?.into_iter().filter(|id| *id != self.workspace) {
            for name in store.pin_names(&workspace)? {
                let id = store.pin_id(&name).ok().flatten();
                if id.is_some_and(|id| id.to_string().starts_with(prefix)) {
                    let info = store.workspace_info(&workspace).ok().flatten();
                    return Ok(Some(
                        info.map_or_else(|| workspace.to_string().into(), |info| info.path.0),
                    ));
                }
            }
        }
        Ok(None)
    }
}

impl<'h> Row<'h> {
    pub(crate) fn history(&self) -> &'h History {
        self.history
    }

    /// Returns the checkpoint that `rollback N` returns to.
    pub fn first(&self) -> &'h Checkpoint {
        self.steps().next().expect("a row has a checkpoint")
    }

    /// Returns the row's steps, oldest first.
    pub fn steps(&self) -> impl Iterator<Item = &'h Checkpoint> + use<'h> {
        let history = self.history;
        let steps = history.rows[self.number - 1].steps.iter();
        steps.map(|index| &history.all[*index])
    }

    /// Returns the next newer row.
    pub fn successor(&self) -> Option<Row<'h>> {
        self.history.row(self.number - 1).ok()
    }

    /// Returns the row's last checkpoint, whatever its kind.
    pub(crate) fn last(&self) -> &'h Checkpoint {
        &self.history.all[self.history.rows[self.number - 1].last]
    }

    /// Returns true if a session made one of the row's calls, directly or through a subagent.
    pub(crate) fn has_session(&self, session: &str) -> bool {
        let is_it =
            |call: &CallRef| call.session == session || call.subagent.as_deref() == Some(session);
        self.turn().is_some()
            && self.steps().filter_map(|step| step.record.call.as_ref()).any(is_it)
    }

    /// Returns the session and turn of the row; `None` if it is a manual checkpoint.
    pub fn turn(&self) -> Option<(&'h str, &'h TurnId)> {
        let record = &self.first().record;
        if record.kind == Kind::Manual { None } else { record.turn() }
    }
}

/// Reads the checkpoints and the open calls without a lock, but in such a way that they are
/// consistent with each other. If the list of pins changes while they are read, a call may have
/// begun or ended, so both are read again.
fn read_at_once(
    store: &Store,
    workspace: &WorkspaceId,
) -> Result<(Checkpoints, Vec<OpenCall>), StoreError> {
    const ATTEMPTS: usize = 5;
    let mut names = store.pin_names(workspace)?;
    let mut attempts = 0;
    loop {
        let checkpoints = read_checkpoints(store, workspace)?;
        let open = WorkspaceState::new(store.notes(workspace)).open_calls();
        let names_after = store.pin_names(workspace)?;
        attempts += 1;
        if names == names_after || attempts == ATTEMPTS {
            return Ok((checkpoints, open));
        }
        names = names_after;
    }
}

/// Parses the number of a row: one to five digits.
fn parse_number(text: &str) -> Option<usize> {
    let is_number = (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().expect("five digits are a number"))
}
