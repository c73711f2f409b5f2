//! The keeper: what all operations work with.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use takeback_ledger::{Ledger, OpenError, Options, Time};
use takeback_tree::{
    AnyPath, CaptureError, CaptureOptions, Lock, Oid, PinError, PinName, Places, Recovery, RelPath,
    Rules, Store, StoreError, Workspace, WorkspaceError,
};

use crate::failures::{Failure, Failures};
use crate::notes::{self, IndexNote, Notes, SessionNote};
use crate::record::{Checkpoint, Checkpoints, Kind, Record};
use crate::repository::Repository;
use crate::roots::root_of;
use crate::settings::Settings;

/// Keeps the checkpoints of all workspaces: joins the store of trees and the ledger.
pub struct Keeper {
    home: PathBuf,
    pub(crate) places: Places,
    pub(crate) settings: Settings,
    pub(crate) rules: Rules,
    redact: bool,
    clock: fn() -> SystemTime,
    on_recovery: fn(&Recovery),
    resume: fn(&str) -> Option<String>,
    store: OnceLock<Store>,
}

/// How a keeper is made.
pub struct Setting {
    /// Takeback's own directory.
    pub home: PathBuf,
    /// Where workspaces must not be.
    pub places: Places,
    /// What the user decided.
    pub settings: Settings,
    /// Whether the ledger masks secrets.
    pub redact: bool,
    /// What time it is.
    pub clock: fn() -> SystemTime,
    /// Told what became of a restore that was cut off.
    pub on_recovery: fn(&Recovery),
    /// How the agent of a session takes its own copy of the conversation back, in words.
    pub resume: fn(&str) -> Option<String>,
}

/// A checkpoint was not taken.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[allow(missing_docs, reason = "each says what it is")]
pub enum TakeError {
    Workspace(#[from] WorkspaceError),
    Store(#[from] StoreError),
    Capture(#[from] CaptureError),
    Pin(#[from] PinError),
    Name(#[from] NameError),
}

/// A checkpoint cannot be called so.
#[derive(Debug, thiserror::Error)]
pub enum NameError {
    /// It could be taken for something else.
    #[error("{0:?} cannot be the name of a checkpoint: {1}")]
    Invalid(String, &'static str),
    /// Another one is called so.
    #[error("this workspace has a checkpoint named {0:?} already")]
    Taken(String),
}

/// A checkpoint that somebody asks for.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// Why.
    pub reason: Option<String>,
    /// What to call it.
    pub name: Option<String>,
    /// Whether it is never pruned.
    pub pinned: bool,
}

impl Keeper {
    /// Nothing is opened yet.
    pub fn new(setting: Setting) -> Keeper {
        let Setting { home, places, settings, redact, clock, on_recovery, resume } = setting;
        let (rules, store) = (settings.rules(), OnceLock::new());
        Keeper { home, places, settings, rules, redact, clock, on_recovery, resume, store }
    }

    pub(crate) fn resume(&self, session: &str) -> Option<String> {
        (self.resume)(session)
    }

    /// Takeback's own directory.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// What the user decided.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The rules that captures follow now.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// What time it is.
    pub fn now(&self) -> Time {
        Time::from((self.clock)())
    }

    /// Where the store and what belongs to it is.
    pub fn checkpoints_directory(&self) -> PathBuf {
        self.home.join("checkpoints")
    }

    /// Whether there ever was a checkpoint.
    pub fn has_store(&self) -> bool {
        self.checkpoints_directory().join("store/store.json").exists()
    }

    /// The store, made if there is none. What an older layout left is set aside first.
    pub fn store(&self) -> Result<&Store, StoreError> {
        if let Some(store) = self.store.get() {
            return Ok(store);
        }
        let directory = self.checkpoints_directory();
        let is_first = !self.has_store();
        if is_first {
            // A failure here must not cost a checkpoint: what is left is in nobody's way.
            let now = jiff::Timestamp::try_from((self.clock)()).unwrap_or_default();
            let _ = crate::legacy::archive_repositories(&directory, now);
        }
        let store = Store::open(directory.join("store"))?;
        if is_first {
            self.failure_list().prepare();
            // There is nothing to prune for a while.
            let _ = notes::write(&self.last_prune(), &self.now());
        }
        Ok(self.store.get_or_init(|| store))
    }

    /// Where the ledger is.
    pub fn ledger_path(&self) -> PathBuf {
        self.home.join("state.db")
    }

    pub(crate) fn ledger_options(&self, wait: Duration) -> Options {
        Options { wait, redact: self.redact, ..Options::default() }
    }

    /// The ledger, if there is one.
    pub fn ledger(&self) -> Result<Option<Ledger>, OpenError> {
        if !self.ledger_path().exists() {
            return Ok(None);
        }
        let options = self.ledger_options(Options::default().wait);
        Ledger::open(&self.ledger_path(), &options).map(Some)
    }

    /// The ledger with everything that hooks reported; `None` as long as some of it has to wait,
    /// because then it does not know the latest turns.
    pub(crate) fn complete_ledger(&self, wait: Duration) -> Option<Ledger> {
        let mut ledger = self.ledger().ok()??;
        ledger.set_wait(wait);
        ledger.catch_up().is_ok_and(|complete| complete).then_some(ledger)
    }

    /// The workspace that a path belongs to: a directory's project, or a single file.
    pub fn workspace(&self, path: &Path) -> Result<Workspace<'_>, TakeError> {
        let store = self.store()?;
        if fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
            return Ok(store.single_file(path, &self.places)?);
        }
        let root = self.root(path)?;
        Ok(store.workspace(&root, &self.places)?)
    }

    /// The root of the workspace that a directory is in.
    pub fn root(&self, directory: &Path) -> Result<PathBuf, WorkspaceError> {
        let failed =
            |source: io::Error| WorkspaceError::Open { path: directory.to_owned(), source };
        Ok(root_of(directory, &self.places).map_err(failed)?.path)
    }

    pub(crate) fn capture_options<'a>(
        &'a self,
        rules: &'a Rules,
        named: &'a [RelPath],
    ) -> CaptureOptions<'a> {
        CaptureOptions { rules, named, now: (self.clock)() }
    }

    /// Locks a workspace, and says what became of a restore that was cut off.
    pub(crate) fn lock<'w>(&self, workspace: &'w Workspace<'w>) -> Result<Lock<'w>, StoreError> {
        let lock = workspace.lock()?;
        if let Some(recovery) = lock.recovery() {
            (self.on_recovery)(recovery);
            self.follow(workspace, recovery);
        }
        Ok(lock)
    }

    pub(crate) fn system_time(&self) -> SystemTime {
        (self.clock)()
    }

    /// Takes a checkpoint because somebody wants one.
    pub fn checkpoint(
        &self,
        workspace: &Workspace<'_>,
        wish: &Wish,
    ) -> Result<Checkpoint, TakeError> {
        if let Some(name) = &wish.name {
            check_name(name)?;
        }
        let mut lock = self.lock(workspace)?;
        if let Some(name) = &wish.name {
            let known = Checkpoints::of(workspace.store(), workspace.id())?;
            if known.all.iter().any(|known| known.record.name.as_ref() == Some(name)) {
                return Err(NameError::Taken(name.clone()).into());
            }
        }
        let capture = lock.capture(&self.capture_options(&self.rules, &[]))?;
        let reason = wish.reason.as_deref().unwrap_or("taken by hand");
        let record = Record {
            name: wish.name.clone(),
            pinned: wish.pinned,
            ..self.record(&mut lock, Kind::Manual, reason)?
        };
        let checkpoint = self.pin(&mut lock, capture.tree, record.of(capture))?;
        lock.finish(self.system_time())?;
        Ok(checkpoint)
    }

    /// A record for the next checkpoint of a workspace.
    pub(crate) fn record(
        &self,
        lock: &mut Lock<'_>,
        kind: Kind,
        reason: &str,
    ) -> Result<Record, StoreError> {
        let seq = lock.next_seq()?;
        let path = AnyPath(lock.workspace().subject());
        Ok(Record::new(path, seq, self.now(), kind, reason))
    }

    /// Keeps a tree with its record, and with the state of the workspace's own repository.
    pub(crate) fn pin(
        &self,
        lock: &mut Lock<'_>,
        tree: Oid,
        mut record: Record,
    ) -> Result<Checkpoint, PinError> {
        let workspace = lock.workspace();
        let mut attachment = None;
        // What happens between calls is of no interest later.
        let wants_repository = matches!(record.kind, Kind::Manual | Kind::Call | Kind::Safety);
        let is_whole = workspace.subject() == workspace.path();
        if wants_repository
            && is_whole
            && let Some(repository) = Repository::of(workspace.path())
        {
            record.repository = Some(repository.head());
            attachment = self.attach_index(lock, &repository, record.seq)?;
        }
        let pin = lock.pin_with(tree, self.system_time(), &record.message(), attachment)?;
        Ok(Checkpoint { pin, record })
    }

    /// A copy of the repository's index in the store: made anew only if the index changed.
    fn attach_index(
        &self,
        lock: &mut Lock<'_>,
        repository: &Repository,
        seq: u64,
    ) -> Result<Option<Oid>, PinError> {
        let workspace = lock.workspace();
        let notes = Notes::new(workspace.notes());
        let Some(stamp) = repository.index_stamp() else { return Ok(None) };
        if let Some(known) = notes.index()
            && known.stamp == stamp
            && keeps(workspace, &known)
        {
            return Ok(Some(known.attachment));
        }
        let Some(copy) = repository.index_copy() else { return Ok(None) };
        let attachment = lock.attach(&copy)?;
        // Only worth something if the index was not written meanwhile.
        if repository.index_stamp() == Some(stamp) {
            let _ = notes.set_index(&IndexNote { stamp, attachment, seq });
        }
        Ok(Some(attachment))
    }

    pub(crate) fn failure_list(&self) -> Failures {
        Failures::in_directory(&self.checkpoints_directory())
    }

    /// Remembers that something went wrong.
    pub fn note_failure(&self, workspace: &Path, message: &str) {
        // If even this cannot be written, the caller still has the message.
        let _ = self.failure_list().add(workspace, false, message, self.now());
    }

    /// Remembers that a checkpoint could not be taken.
    pub fn note_missed(&self, workspace: &Path, message: &str) {
        let _ = self.failure_list().add(workspace, true, message, self.now());
    }

    /// What was missed is there after all.
    pub fn withdraw_missed(&self, workspace: &Path, message: &str) {
        let _ = self.failure_list().withdraw(workspace, message);
    }

    /// What could not be protected lately.
    pub fn failures(&self) -> Vec<Failure> {
        self.failure_list().all()
    }

    fn session_path(&self, session: &str) -> PathBuf {
        self.checkpoints_directory().join("sessions").join(notes::file_name(&[session]))
    }

    pub(crate) fn session_note(&self, session: &str) -> Option<SessionNote> {
        let note: SessionNote = notes::read(&self.session_path(session))?;
        (note.session == session).then_some(note)
    }

    pub(crate) fn set_session_note(&self, note: &SessionNote) -> io::Result<()> {
        notes::write(&self.session_path(&note.session), note)
    }
}

impl Record {
    /// With what a capture says about itself.
    pub(crate) fn of(self, capture: takeback_tree::Capture) -> Record {
        Record {
            files: Some(capture.files),
            filter: capture.filter,
            uncovered: capture.uncovered,
            ..self
        }
    }
}

/// Whether a checkpoint still keeps the copy of an index. Its number alone does not tell: it may be
/// that of another one by now.
fn keeps(workspace: &Workspace<'_>, note: &IndexNote) -> bool {
    let name = PinName { workspace: workspace.id().clone(), seq: note.seq };
    let pin = workspace.store().pin(&name).ok().flatten();
    pin.is_some_and(|pin| pin.attachment == Some(note.attachment))
}

/// Whether a checkpoint is still there.
pub(crate) fn has_pin(workspace: &Workspace<'_>, seq: u64) -> bool {
    let name = PinName { workspace: workspace.id().clone(), seq };
    workspace.store().pin_id(&name).is_ok_and(|id| id.is_some())
}

/// Words that mean something else where a checkpoint's name could stand.
const RESERVED: [&str; 6] = ["undo", "redo", "diff", "list", "now", "help"];

fn check_name(name: &str) -> Result<(), NameError> {
    let invalid = |why| Err(NameError::Invalid(name.to_owned(), why));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if name.is_empty() || name.chars().count() > 60 {
        return invalid("it must have 1 to 60 characters");
    }
    if name.starts_with('-') {
        return invalid("it looks like an option");
    }
    if name.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return invalid("it must have no spaces and control characters");
    }
    if RESERVED.contains(&name) {
        return invalid("the word means something else here");
    }
    if name.split('.').all(is_number) {
        return invalid("it looks like a number of the list");
    }
    if (6..=40).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return invalid("it looks like an id");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_mean_something_else_are_refused() {
        for name in ["", "-x", "--upload-pack", "1", "3.2", "abcdef", "undo", "a b", "a\u{1b}[m"] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        for name in ["before-refactoring", "v1.2", "abc", "früher", "release_3"] {
            assert!(check_name(name).is_ok(), "{name:?}");
        }
    }
}
