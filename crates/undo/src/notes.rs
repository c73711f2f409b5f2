//! What hooks remember from one process to the next: the turn that a session is in, its last step
//! in a workspace, and calls that have begun and not ended.
//!
//! Small files, replaced as a whole, none of them worth a sync: after a power cut no agent is left
//! that could go on.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use takeback_ledger::Time;
use takeback_tree::{AnyPath, Oid, RelPath};

use crate::record::TurnId;

/// A file name made of whatever text.
pub(crate) fn file_name(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    let digest: [u8; 32] = hasher.finalize().into();
    digest[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A note; `None` if there is none that can be read.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Replaces a note.
pub(crate) fn write(path: &Path, note: &impl Serialize) -> io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
    let directory = path.parent().expect("a note is in a directory");
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = match options.open(&temporary) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
            options.open(&temporary)?
        }
        file => file?,
    };
    file.write_all(&serde_json::to_vec(note).expect("plain data becomes JSON"))?;
    fs::rename(&temporary, path)
}

pub(crate) fn remove(path: &Path) {
    // What is left over is at worst out of date, and says so by its time.
    let _ = fs::remove_file(path);
}

/// Removes notes that were last written before some time.
pub(crate) fn remove_older(directory: &Path, oldest: Time) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        if modified.is_ok_and(|modified| Time::from(modified) < oldest) {
            remove(&entry.path());
        }
    }
}

/// What is known of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SessionNote {
    pub(crate) session: String,
    pub(crate) workspace: AnyPath,
    /// The session that handed out this one's work.
    #[serde(default)]
    pub(crate) parent: Option<String>,
    /// Turns so far.
    pub(crate) turns: i64,
    /// The agent's name for the current one, if it has one.
    pub(crate) turn: Option<TurnId>,
    /// Whether the current turn is over.
    pub(crate) over: bool,
}

impl SessionNote {
    /// The current turn.
    pub(crate) fn current(&self) -> Turn {
        let id = self.turn.clone().unwrap_or(TurnId::Number(self.turns));
        Turn { id, number: self.turns }
    }

    /// The next turn begins.
    pub(crate) fn begin_turn(&mut self, turn: Option<TurnId>) {
        // Numbers of ours come after those of the agent's.
        let given = match turn {
            Some(TurnId::Number(number)) => number,
            _ => 0,
        };
        self.turns = given.max(self.turns.saturating_add(1));
        (self.turn, self.over) = (turn, false);
    }
}

/// A turn of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// As it is recorded: what the agent calls it. It may use a name again.
    pub id: TurnId,
    /// Which of the session's turns it is.
    pub number: i64,
}

/// The latest checkpoint of a session in a workspace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StepNote {
    /// Which of the session's turns it is of.
    pub(crate) turn: i64,
    pub(crate) tree: Oid,
    pub(crate) seq: u64,
}

/// A call that has begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OpenCall {
    pub(crate) session: String,
    pub(crate) turn: TurnId,
    pub(crate) call: String,
    pub(crate) tool: String,
    pub(crate) named: Vec<RelPath>,
    /// What was there before it, and what of that was not covered.
    pub(crate) tree: Oid,
    #[serde(default)]
    pub(crate) uncovered: Vec<RelPath>,
    /// The number that the next checkpoint had then.
    pub(crate) seq: u64,
    pub(crate) time: Time,
    pub(crate) late: bool,
    /// Whether a checkpoint or state was kept for it.
    pub(crate) has_pin: bool,
}

/// What pairs the end of a call with its beginning: the agent's name for it, or what it looks like.
#[derive(Clone, Debug)]
pub(crate) struct CallKey {
    pub(crate) text: String,
    pub(crate) is_name: bool,
}

impl CallKey {
    /// Names of the notes that it may have.
    fn names(&self) -> impl Iterator<Item = String> + '_ {
        const ALIKE: usize = 16;
        let count = if self.is_name { 1 } else { ALIKE };
        (0..count).map(|number| match number {
            0 => self.text.clone(),
            number => format!("{} {number}", self.text),
        })
    }
}

/// The last copy of a repository's index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct IndexNote {
    pub(crate) stamp: [i64; 5],
    pub(crate) attachment: Oid,
    /// A checkpoint that keeps it.
    pub(crate) seq: u64,
}

/// The notes about one workspace. Whoever uses them holds its lock.
pub(crate) struct Notes {
    directory: PathBuf,
}

impl Notes {
    pub(crate) fn new(directory: PathBuf) -> Notes {
        Notes { directory }
    }

    fn step_path(&self, session: &str) -> PathBuf {
        self.directory.join("steps").join(file_name(&[session]))
    }

    pub(crate) fn step(&self, session: &str) -> Option<StepNote> {
        read(&self.step_path(session))
    }

    pub(crate) fn set_step(&self, session: &str, note: &StepNote) -> io::Result<()> {
        write(&self.step_path(session), note)
    }

    fn call_path(&self, session: &str, key: &str) -> PathBuf {
        self.directory.join("open").join(file_name(&[session, key]))
    }

    /// A call has begun. One without a name of its own does not replace another that looks the
    /// same.
    pub(crate) fn open_call(
        &self,
        session: &str,
        key: &CallKey,
        call: &OpenCall,
    ) -> io::Result<()> {
        let mut paths = key.names().map(|name| self.call_path(session, &name));
        let free = paths.find(|path| key.is_name || !path.exists());
        write(&free.unwrap_or_else(|| self.call_path(session, &key.text)), call)
    }

    /// A call that has begun, the oldest if several look the same, and where its note is.
    pub(crate) fn call(&self, session: &str, key: &CallKey) -> Option<(OpenCall, PathBuf)> {
        let paths = key.names().map(|name| self.call_path(session, &name));
        let calls = paths.filter_map(|path| Some((read::<OpenCall>(&path)?, path)));
        calls.min_by_key(|(call, _)| (call.seq, call.time))
    }

    /// All calls that have begun and not ended.
    pub(crate) fn open_calls(&self) -> Vec<OpenCall> {
        let Ok(entries) = fs::read_dir(self.directory.join("open")) else { return Vec::new() };
        entries.flatten().filter_map(|entry| read(&entry.path())).collect()
    }

    /// Calls that have no end by now will not get one.
    pub(crate) fn drop_calls(&self, is_over: impl Fn(&OpenCall) -> bool) {
        let Ok(entries) = fs::read_dir(self.directory.join("open")) else { return };
        for path in entries.flatten().map(|entry| entry.path()) {
            if read::<OpenCall>(&path).is_none_or(|call| is_over(&call)) {
                remove(&path);
            }
        }
    }

    /// Forgets sessions that were last heard of before some time.
    pub(crate) fn forget_before(&self, oldest: Time) {
        remove_older(&self.directory.join("steps"), oldest);
    }

    pub(crate) fn index(&self) -> Option<IndexNote> {
        read(&self.directory.join("index"))
    }

    pub(crate) fn set_index(&self, note: &IndexNote) -> io::Result<()> {
        write(&self.directory.join("index"), note)
    }

    /// Where counts of changes are kept.
    pub(crate) fn counts(&self) -> PathBuf {
        self.directory.join("counts")
    }
}
