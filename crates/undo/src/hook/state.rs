//! The state that hooks keep from one process to the next: the turn that a session is in, its last
//! step in a workspace, and the calls that have begun but not ended.
//!
//! The state is kept in small files that are replaced as a whole. The files are not synced to disk:
//! no agent survives a power cut, and no rollback needs the files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use takeback_base::durable::{Durability, replace_file};
use takeback_base::hex;
use takeback_ledger::Time;
use takeback_tree::{AnyPath, Oid, RelPath};

use crate::history::record::{NewestCheckpoint, TurnId};

/// Turns arbitrary strings into a file name.
pub(crate) fn file_name(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    let digest: [u8; 32] = hasher.finalize().into();
    hex::encode(&digest[..8])
}

/// Reads a state file. Returns `None` if it is missing or cannot be read.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Replaces a state file.
pub(crate) fn write(path: &Path, state: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_vec(state).expect("plain data becomes JSON");
    replace_file(path, &text, Durability::Cached)
}

/// Removes a state file.
pub(crate) fn remove(path: &Path) {
    // If this fails, the file is removed later because of its age.
    let _ = fs::remove_file(path);
}

/// Removes the state files that were last written before `oldest`.
pub(crate) fn remove_older(directory: &Path, oldest: Time) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        if modified.is_ok_and(|modified| Time::from(modified) < oldest) {
            remove(&entry.path());
        }
    }
}

/// The state of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SessionState {
    pub(crate) session: String,
    pub(crate) workspace: AnyPath,
    /// The parent session, if this session is a subagent's.
    #[serde(default)]
    pub(crate) parent: Option<String>,
    /// The number of turns so far.
    pub(crate) turns: i64,
    /// The agent's name for the current turn, if it names turns.
    pub(crate) turn: Option<TurnId>,
    /// True if the current turn is over.
    pub(crate) over: bool,
    /// The time of the prompt that began the current turn, if it was reported.
    #[serde(default)]
    pub(crate) prompted: Option<Time>,
}

impl SessionState {
    /// Creates the state of a session that has no stored state.
    pub(crate) fn new(
        session: String,
        workspace: AnyPath,
        parent: Option<String>,
        turns: i64,
    ) -> SessionState {
        SessionState { session, workspace, parent, turns, turn: None, over: false, prompted: None }
    }

    pub(crate) fn current_turn(&self) -> Turn {
        let id = self.turn.clone().unwrap_or(TurnId::Number(self.turns));
        Turn { id, number: self.turns, prompted: self.prompted }
    }

    /// Begins the next turn.
    pub(crate) fn begin_turn(&mut self, turn: Option<TurnId>) {
        // If the agent gives a higher number than our own count, use the agent's number.
        let given = match turn {
            Some(TurnId::Number(number)) => number,
            _ => 0,
        };
        self.turns = given.max(self.turns.saturating_add(1));
        (self.turn, self.over, self.prompted) = (turn, false, None);
    }
}

/// A turn of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// The turn's name in records. A name that the agent gave is not always unique.
    pub id: TurnId,
    /// The number of the turn in its session.
    pub number: i64,
    /// The time of the prompt that began the turn, if it was reported.
    #[serde(default)]
    pub prompted: Option<Time>,
}

/// The latest checkpoint of a session in a workspace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StepState {
    /// The number of the turn in its session.
    pub(crate) turn: i64,
    pub(crate) tree: Oid,
    pub(crate) seq: u64,
}

/// A call that has begun but not ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OpenCall {
    pub(crate) session: String,
    pub(crate) turn: TurnId,
    pub(crate) call: String,
    pub(crate) tool: String,
    pub(crate) named: Vec<RelPath>,
    /// The paths that the call's script writes, as far as they are known.
    #[serde(default)]
    pub(crate) writes: Vec<RelPath>,
    /// True if the call runs a script.
    #[serde(default)]
    pub(crate) script: bool,
    /// True if the script is known to change nothing but `named` and `writes`.
    #[serde(default)]
    pub(crate) bounded: bool,
    /// The state before the call.
    pub(crate) tree: Oid,
    /// The paths that the tree does not cover.
    #[serde(default)]
    pub(crate) uncovered: Vec<RelPath>,
    /// The next free checkpoint number when the call began.
    pub(crate) seq: u64,
    pub(crate) time: Time,
    pub(crate) late: bool,
    /// True if the state before the call was pinned, as a checkpoint or otherwise.
    pub(crate) has_pin: bool,
    /// For a directory or file outside the session's workspace, the newest checkpoint that the
    /// session's workspace had when the call began.
    #[serde(default)]
    pub(crate) newest: Option<NewestCheckpoint>,
}

/// The key that pairs the end of a call with its start: the agent's name for the call, or a digest
/// of its tool and input.
#[derive(Clone, Debug)]
pub(crate) struct CallKey {
    pub(crate) text: String,
    pub(crate) is_name: bool,
}

impl CallKey {
    /// Returns the names that the call's state file may have. There are several if the call has no
    /// name, because calls without a name can be identical.
    pub(super) fn file_names(&self) -> impl Iterator<Item = String> + '_ {
        const MAX_ALIKE: usize = 16;
        let count = if self.is_name { 1 } else { MAX_ALIKE };
        (0..count).map(|number| match number {
            0 => self.text.clone(),
            number => format!("{} {number}", self.text),
        })
    }
}

/// The last stored copy of a repository's index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct IndexState {
    pub(crate) stamp: [i64; 5],
    pub(crate) attachment: Oid,
    /// The number of a checkpoint that keeps the copy in the store.
    pub(crate) seq: u64,
}

/// The state files of one workspace. A hook that changes steps or open calls holds the workspace's
/// lock.
pub(crate) struct WorkspaceState {
    directory: PathBuf,
}

impl WorkspaceState {
    pub(crate) fn new(directory: PathBuf) -> WorkspaceState {
        WorkspaceState { directory }
    }

    fn step_path(&self, session: &str) -> PathBuf {
        self.directory.join("steps").join(file_name(&[session]))
    }

    pub(crate) fn step(&self, session: &str) -> Option<StepState> {
        read(&self.step_path(session))
    }

    pub(crate) fn set_step(&self, session: &str, state: &StepState) -> io::Result<()> {
        write(&self.step_path(session), state)
    }

    fn call_path(&self, session: &str, key: &str) -> PathBuf {
        self.directory.join("open").join(file_name(&[session, key]))
    }

    /// Adds a call that has begun. A call without a name does not replace an identical open call.
    pub(crate) fn add_open_call(
        &self,
        session: &str,
        key: &CallKey,
        call: &OpenCall,
    ) -> io::Result<()> {
        let mut paths = key.file_names().map(|name| self.call_path(session, &name));
        let free = paths.find(|path| key.is_name || !path.exists());
        write(&free.unwrap_or_else(|| self.call_path(session, &key.text)), call)
    }

    /// Finds an open call and its state file. Of several identical calls, returns the oldest.
    pub(crate) fn find_open_call(
        &self,
        session: &str,
        key: &CallKey,
    ) -> Option<(OpenCall, PathBuf)> {
        let paths = key.file_names().map(|name| self.call_path(session, &name));
        let calls = paths.filter_map(|path| Some((read::<OpenCall>(&path)?, path)));
        calls.min_by_key(|(call, _)| (call.seq, call.time))
    }

    /// Returns all calls that have begun but not ended.
    pub(crate) fn open_calls(&self) -> Vec<OpenCall> {
        let Ok(entries) = fs::read_dir(self.directory.join("open")) else { return Vec::new() };
        entries.flatten().filter_map(|entry| read(&entry.path())).collect()
    }

    /// Forgets the open calls for which `is_over` returns true, and those that cannot be read.
    pub(crate) fn drop_open_calls(&self, is_over: impl Fn(&OpenCall) -> bool) {
        let Ok(entries) = fs::read_dir(self.directory.join("open")) else { return };
        for path in entries.flatten().map(|entry| entry.path()) {
            if read::<OpenCall>(&path).is_none_or(|call| is_over(&call)) {
                remove(&path);
            }
        }
    }

    /// Forgets the steps that were last written before `oldest`.
    pub(crate) fn forget_before(&self, oldest: Time) {
        remove_older(&self.directory.join("steps"), oldest);
    }

    pub(crate) fn index(&self) -> Option<IndexState> {
        read(&self.directory.join("index"))
    }

    pub(crate) fn set_index(&self, state: &IndexState) -> io::Result<()> {
        write(&self.directory.join("index"), state)
    }

    /// Returns the repositories inside the workspace, as they were when the last session began.
    pub(crate) fn repositories(&self) -> Vec<RelPath> {
        read(&self.directory.join("repositories")).unwrap_or_default()
    }

    pub(crate) fn set_repositories(&self, repositories: &[RelPath]) {
        let path = self.directory.join("repositories");
        match repositories {
            [] => remove(&path),
            // If this fails, the list of checkpoints does not name the repositories.
            _ => drop(write(&path, &repositories)),
        }
    }

    /// Returns the path of the file that holds the counts of changes.
    pub(crate) fn counts_path(&self) -> PathBuf {
        self.directory.join("counts")
    }
}
