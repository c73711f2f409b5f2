//! Notes about the copies of conversations.
//!
//! The note about a copy is written before the copy. If the process is killed, the next process
//! reads the note: if the log of the copy is complete, the copy is recorded in the ledger;
//! otherwise, its files are removed. The notes of finished copies stay, because the copies are the
//! user's conversations.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use takeback_base::durable::{self, Durability, FileLock};
use takeback_base::errors::error_chain;
use takeback_ledger::{ConversationPoint, ForkLog, LedgerError, LogPage, NewFork};
use takeback_undo::Opened;

use super::ConversationError;
use crate::fault::pass_point;
use crate::logs::{LogRef, log_format};
use crate::rewind::{
    PreparedCopy, Rewind, RewindError, count_messages, find_rewind, missing_directories,
    read_pages, remove_copy, remove_temporary_files,
};

/// The file name extensions of notes: one for copies that are being made, and one for finished
/// copies.
const PENDING: &str = "pending";
const MADE: &str = "json";

/// The note about a copy that is being made or is finished.
#[derive(Serialize, Deserialize)]
pub(super) struct CopyNote {
    agent: String,
    /// The id of the copied session in the ledger.
    parent: String,
    /// The number of the last message in the copy.
    last: i64,
    /// The agent's own id for the new session.
    session: String,
    /// The name by which a bookmark refers to the new log.
    log: String,
    /// The number of messages in the log.
    messages: usize,
    /// The files of the copy, with the log last. The list is empty if another program imports the
    /// copy.
    files: Vec<PathBuf>,
    /// The directories that had to be created for the files.
    directories: Vec<PathBuf>,
    /// A map from the new id of an entry to its id in the original, if the two differ.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    origins: BTreeMap<String, String>,
    /// The time at which the copy was made, in milliseconds since 1970.
    time: i64,
}

/// A finished copy of a conversation.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct MadeCopy {
    /// The id of the copy's session in the ledger.
    pub session: String,
    /// The id of the copied session in the ledger.
    pub parent: String,
    pub log: PathBuf,
}

/// Returns the directory for takeback's own files about conversations.
pub(super) fn own_directory(opened: &Opened) -> PathBuf {
    opened.home().join("conversations")
}

impl CopyNote {
    pub(super) fn new(
        opened: &Opened,
        rewind: &Rewind,
        parent: &str,
        last: i64,
        copy: &PreparedCopy,
    ) -> CopyNote {
        let mut directories: Vec<PathBuf> = copy.paths().flat_map(missing_directories).collect();
        directories.sort_by_key(|path| std::cmp::Reverse(path.components().count()));
        directories.dedup();
        CopyNote {
            agent: rewind.agent.to_owned(),
            parent: parent.to_owned(),
            last,
            session: copy.session.clone(),
            log: copy.log.name(),
            messages: count_messages(&copy.pages),
            files: copy.paths().map(Path::to_owned).collect(),
            directories,
            origins: copy.origins.clone(),
            time: opened.now().0,
        }
    }

    /// Returns the id of the new session in the ledger.
    fn session_id(&self) -> String {
        format!("{}:{}", self.agent, self.session)
    }

    fn path(&self, opened: &Opened, ending: &str) -> PathBuf {
        own_directory(opened).join("notes").join(format!("{}.{ending}", self.session))
    }

    fn log_ref(&self) -> Option<LogRef> {
        Some(LogRef::from_name(log_format(&self.agent)?, &self.log))
    }

    /// Reads the log of the copy. Returns `None` if the copy does not exist or is incomplete.
    fn read_log(&self) -> Result<Option<Vec<LogPage>>, RewindError> {
        let Some((rewind, log)) = find_rewind(&self.agent).zip(self.log_ref()) else {
            return Ok(None);
        };
        if !log.path.exists() {
            return Ok(None);
        }
        let pages = read_pages(rewind.log_format(), &log)?;
        Ok(Some(pages).filter(|pages| count_messages(pages) >= self.messages))
    }

    /// Removes all traces of the copy.
    fn remove(&self) -> Result<(), RewindError> {
        remove_copy(&self.files, &self.directories)?;
        let rewind = find_rewind(&self.agent).filter(|_| self.files.is_empty());
        let Some((rewind, log)) = rewind.zip(self.log_ref()) else { return Ok(()) };
        match log.path.exists() && count_messages(&read_pages(rewind.log_format(), &log)?) > 0 {
            true => rewind.remove_imported(&self.session),
            false => Ok(()),
        }
    }
}

/// Takes the lock that keeps other processes from finishing or removing this process's copy.
fn lock_notes(opened: &Opened) -> io::Result<FileLock> {
    let directory = own_directory(opened).join("notes");
    durable::create_directory(&directory)?;
    FileLock::shared(&directory.join("lock"))
}

/// Writes a copy and records it in the ledger. If the ledger cannot be written to now, the next
/// command records the copy.
pub(super) fn make_copy(
    opened: &Opened,
    note: &CopyNote,
    copy: &PreparedCopy,
) -> Result<(), ConversationError> {
    let _lock = lock_notes(opened).map_err(ConversationError::Note)?;
    let pending = note.path(opened, PENDING);
    let text = serde_json::to_vec(note)
        .map_err(|_| io::Error::other("a path is not UTF-8"))
        .and_then(|text| durable::replace_file(&pending, &text, Durability::Synced));
    text.map_err(ConversationError::Note)?;
    pass_point();
    let placed = copy.place().and_then(|()| match note.read_log()? {
        Some(pages) => Ok(pages),
        None => Err(RewindError::Differs),
    });
    let pages = match placed {
        Ok(pages) => pages,
        Err(error) => {
            if note.remove().is_ok() {
                let _ = fs::remove_file(&pending);
            }
            return Err(error.into());
        }
    };
    pass_point();
    match record_copy(opened, note, &pages) {
        Ok(()) => end_note(opened, note),
        Err(error) if may_pass(&error) => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Adds a copy to the ledger as a fork, so that its messages are not imported a second time.
fn record_copy(
    opened: &Opened,
    note: &CopyNote,
    pages: &[LogPage],
) -> Result<(), ConversationError> {
    let id = note.session_id();
    let log = ForkLog { pages, origins: Some(&note.origins) };
    let point = Some(ConversationPoint::AfterMessage(note.last));
    let now = opened.now();
    let mut ledger = opened.ledger_or_new()?;
    match ledger.fork_at(&note.parent, &NewFork { id: &id, point, log, ..NewFork::default() }, now)
    {
        Ok(_) => {}
        // `takeback fork` has recorded the session, but not its log.
        Err(LedgerError::Exists(_)) => ledger.adopt_log(&note.parent, &id, &log, now)?,
        Err(error) => return Err(error.into()),
    }
    drop(ledger);
    pass_point();
    Ok(())
}

fn end_note(opened: &Opened, note: &CopyNote) {
    let _ = fs::rename(note.path(opened, PENDING), note.path(opened, MADE));
}

/// Returns true if the error is temporary, so the ledger may accept the copy later.
fn may_pass(error: &ConversationError) -> bool {
    use LedgerError::{Busy, Damaged, Open, Sqlite};
    match error {
        ConversationError::Ledger(error) => {
            matches!(error, Busy { .. } | Damaged(_) | Open(_) | Sqlite(_))
        }
        ConversationError::Open(_) => true,
        _ => false,
    }
}

/// Finishes or removes the copies that killed processes left unfinished. Does nothing while another
/// process is making a copy. If there are no unfinished copies, this only lists one directory.
pub fn finish_copies(opened: &Opened) {
    let directory = own_directory(opened).join("notes");
    let is_pending = |path: &PathBuf| path.extension().is_some_and(|ending| ending == PENDING);
    let pending: Vec<PathBuf> = list_files(&directory).filter(is_pending).collect();
    if pending.is_empty() {
        return;
    }
    let Ok(Some(_lock)) = FileLock::try_exclusive(&directory.join("lock")) else { return };
    for path in pending {
        match read_note(&path) {
            Some(note) => settle(opened, &note),
            None => drop(fs::remove_file(&path)),
        }
    }
}

fn list_files(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn read_note(path: &Path) -> Option<CopyNote> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Records a copy in the ledger if its log is complete; otherwise, removes the copy.
fn settle(opened: &Opened, note: &CopyNote) {
    let recorded = match note.read_log() {
        Ok(None) => {
            if note.remove().is_ok() {
                let _ = fs::remove_file(note.path(opened, PENDING));
            }
            return;
        }
        Ok(Some(pages)) => {
            let _ = remove_temporary_files(&note.files);
            record_copy(opened, note, &pages)
        }
        Err(error) => Err(error.into()),
    };
    match recorded {
        Ok(()) => end_note(opened, note),
        Err(error) if may_pass(&error) => {}
        Err(error) => {
            let log = note.log_ref().map(|log| log.path).unwrap_or_default();
            let message =
                format!("a copy of a conversation was not recorded: {}", error_chain(&error));
            opened.note_failure(&log, &message);
            end_note(opened, note);
        }
    }
}

/// Lists the finished copies that still exist.
pub fn list_copies(opened: &Opened) -> Vec<MadeCopy> {
    let directory = own_directory(opened).join("notes");
    let is_made = |path: &PathBuf| path.extension().is_some_and(|ending| ending == MADE);
    let mut notes: Vec<CopyNote> =
        list_files(&directory).filter(is_made).filter_map(|path| read_note(&path)).collect();
    notes.sort_by_key(|note| note.time);
    notes
        .into_iter()
        .filter_map(|note| {
            let log = note.log_ref()?.path;
            let (session, parent) = (note.session_id(), note.parent);
            log.exists().then_some(MadeCopy { session, parent, log })
        })
        .collect()
}
