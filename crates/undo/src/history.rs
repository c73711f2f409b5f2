//! The history of a workspace: its checkpoints as rows, and which one somebody means.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use takeback_tree::{RelPath, Store, StoreError, WorkspaceId};

use crate::notes::{Notes, OpenCall};
use crate::record::{CallOf, Checkpoint, Checkpoints, Kind, TurnId};

/// All checkpoints of a workspace.
#[derive(Debug)]
pub struct History {
    workspace: WorkspaceId,
    /// Oldest first, of all kinds.
    pub(crate) all: Vec<Checkpoint>,
    /// What could not be read, and why.
    pub unreadable: Vec<String>,
    /// Calls that have begun and not ended.
    pub(crate) open: Vec<OpenCall>,
    /// Newest first.
    rows: Vec<RowParts>,
    /// The rows of each turn, oldest first, by their place in `rows`: names of turns come again.
    turns: HashMap<(String, TurnId), Vec<usize>>,
}

/// What makes up a row, by places in `all`.
#[derive(Debug)]
struct RowParts {
    steps: Vec<usize>,
    /// The last checkpoint or state of any kind.
    last: usize,
}

/// A row of the list: a manual checkpoint, or all checkpoints before calls of one turn.
#[derive(Clone, Copy, Debug)]
pub struct Row<'h> {
    history: &'h History,
    /// Newest = 1.
    pub number: usize,
}

/// What somebody means by a number, a name or an id.
#[derive(Clone, Copy, Debug)]
pub struct Found<'h> {
    /// The checkpoint.
    pub checkpoint: &'h Checkpoint,
    /// Whether it is one before a later call of a turn.
    pub is_step: bool,
}

/// Nothing, or more than one thing, is meant.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// The list is not that long.
    #[error("there is no checkpoint {number} here: the list has {rows}")]
    NoSuchRow {
        /// What was asked for.
        number: usize,
        /// How long the list is.
        rows: usize,
    },
    /// The turn has fewer steps.
    #[error("checkpoint {number} has no step {step}: it has {steps}")]
    NoSuchStep {
        /// The row.
        number: usize,
        /// What was asked for.
        step: usize,
        /// How many there are.
        steps: usize,
    },
    /// Neither a number nor a name nor an id.
    #[error("{0:?} is not a checkpoint")]
    NotACheckpoint(String),
    /// Several ids begin like this.
    #[error("more than one checkpoint's id begins with {0}")]
    Ambiguous(String),
    /// No id here begins like this.
    #[error("this workspace has no checkpoint {0}")]
    Unknown(String),
    /// It is one of another workspace.
    #[error("checkpoint {id} belongs to {}", workspace.display())]
    Elsewhere {
        /// As it was given.
        id: String,
        /// Where it belongs.
        workspace: PathBuf,
    },
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl History {
    /// Reads it.
    pub fn of(store: &Store, workspace: &WorkspaceId) -> Result<History, StoreError> {
        let (Checkpoints { mut all, unreadable }, open) = read(store, workspace)?;
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
        // From here on by place in the list, newest first.
        rows.reverse();
        for place in turns.values_mut().flatten() {
            *place = rows.len() - 1 - *place;
        }
        let workspace = workspace.clone();
        let mut history = History { workspace, all, unreadable, open, rows, turns };
        history.find_ends();
        Ok(history)
    }

    /// Notes with which state each turn is complete for now.
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

    /// The number of the row that a call is part of, given the number that the next checkpoint had
    /// when it began.
    pub(crate) fn row_of(&self, call: &CallOf, seq: u64) -> Option<usize> {
        let places = self.turns.get(&(call.session.clone(), call.turn.clone()))?;
        let begins = |place: &usize| self.all[self.rows[*place].steps[0]].pin.name.seq;
        places.iter().rev().find(|place| begins(place) <= seq).map(|place| place + 1)
    }

    /// Everything that calls named: what the rules leave out was captured for them all the same.
    pub(crate) fn named(&self) -> Vec<RelPath> {
        let calls = self.all.iter().filter_map(|known| known.record.call.as_ref());
        let named: BTreeSet<&RelPath> = calls.flat_map(|call| &call.named).collect();
        named.into_iter().cloned().collect()
    }

    /// The rows, newest first.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        (1..=self.rows.len()).map(|number| Row { history: self, number })
    }

    /// The row of a number.
    pub fn row(&self, number: usize) -> Result<Row<'_>, FindError> {
        if (1..=self.rows.len()).contains(&number) {
            Ok(Row { history: self, number })
        } else {
            Err(FindError::NoSuchRow { number, rows: self.rows.len() })
        }
    }

    /// The checkpoint that somebody means: `N`, `N.M`, a name, an id or the start of one.
    pub fn find(&self, store: &Store, text: &str) -> Result<Found<'_>, FindError> {
        if let Some(number) = number(text) {
            return Ok(Found { checkpoint: self.row(number)?.first(), is_step: false });
        }
        if let Some((row, step)) = text.split_once('.')
            && let (Some(row), Some(step)) = (number(row), number(step))
        {
            let row = self.row(row)?;
            let steps = row.steps().count();
            let found = step.checked_sub(1).and_then(|index| row.steps().nth(index));
            let missing = FindError::NoSuchStep { number: row.number, step, steps };
            return Ok(Found { checkpoint: found.ok_or(missing)?, is_step: step > 1 });
        }
        let named = self.all.iter().rev().find(|known| known.record.name.as_deref() == Some(text));
        match named {
            Some(checkpoint) => Ok(Found { checkpoint, is_step: false }),
            None => self.by_id(store, text),
        }
    }

    fn by_id(&self, store: &Store, text: &str) -> Result<Found<'_>, FindError> {
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
                Ok(Found { checkpoint, is_step })
            }
            (Some(_), Some(_)) => Err(FindError::Ambiguous(prefix)),
            (None, _) => match self.elsewhere(store, &prefix)? {
                Some(workspace) => Err(FindError::Elsewhere { id: prefix, workspace }),
                None => Err(FindError::Unknown(prefix)),
            },
        }
    }

    /// The other workspace that has a checkpoint of this id.
    fn elsewhere(&self, store: &Store, prefix: &str) -> Result<Option<PathBuf>, StoreError> {
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
    /// What it is a row of.
    pub(crate) fn history(&self) -> &'h History {
        self.history
    }

    /// What `rollback N` returns to.
    pub fn first(&self) -> &'h Checkpoint {
        self.steps().next().expect("a row has a checkpoint")
    }

    /// All its checkpoints, in order: the first one included.
    pub fn steps(&self) -> impl Iterator<Item = &'h Checkpoint> + use<'h> {
        let history = self.history;
        let steps = history.rows[self.number - 1].steps.iter();
        steps.map(|index| &history.all[*index])
    }

    /// The row that came after it.
    pub fn successor(&self) -> Option<Row<'h>> {
        self.history.row(self.number - 1).ok()
    }

    /// Its last checkpoint or state of any kind.
    pub(crate) fn last(&self) -> &'h Checkpoint {
        &self.history.all[self.history.rows[self.number - 1].last]
    }

    /// Whether a session, or one of its subagents of this name, worked on it.
    pub(crate) fn has_session(&self, session: &str) -> bool {
        let is_it =
            |call: &CallOf| call.session == session || call.subagent.as_deref() == Some(session);
        self.turn().is_some()
            && self.steps().filter_map(|step| step.record.call.as_ref()).any(is_it)
    }

    /// The session and turn, unless somebody asked for it.
    pub fn turn(&self) -> Option<(&'h str, &'h TurnId)> {
        let record = &self.first().record;
        if record.kind == Kind::Manual { None } else { record.turn() }
    }
}

/// Checkpoints and open calls of the same moment, although nobody waits for this: every beginning
/// and every end of a call makes a new checkpoint.
fn read(
    store: &Store,
    workspace: &WorkspaceId,
) -> Result<(Checkpoints, Vec<OpenCall>), StoreError> {
    const ATTEMPTS: usize = 5;
    let mut names = store.pin_names(workspace)?;
    let mut attempts = 0;
    loop {
        let checkpoints = Checkpoints::of(store, workspace)?;
        let open = Notes::new(store.notes(workspace)).open_calls();
        let names_after = store.pin_names(workspace)?;
        attempts += 1;
        if names == names_after || attempts == ATTEMPTS {
            return Ok((checkpoints, open));
        }
        names = names_after;
    }
}

/// One to five digits are a number.
fn number(text: &str) -> Option<usize> {
    let is_number = (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().expect("five digits are a number"))
}
