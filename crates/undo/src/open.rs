//! The opened store, ledger and settings: the value that every operation works on.

use std::collections::BTreeMap;
use std::io;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use takeback_base::lock_wait::LockWait;
use takeback_ledger::{Event, Ledger, LedgerError, LedgerOptions, OpenError, Recorded, Time};
use takeback_tree::{
    Capture, CaptureOptions, CaptureRules, ForbiddenRoots, Lock, MAX_PATTERNS, Recovery, RelPath,
    Store, StoreError, Workspace,
};

use crate::hook::state::{self, SessionState};
use crate::retention::failures::{Failure, FailureLog};
use crate::rollback::{self, Resume};
use crate::root::root_of;
use crate::settings::{Protection, Settings};

/// Takeback's opened home directory: the store of trees, the ledger, the user's settings and the
/// clock. The store and the ledger are opened when they are first needed, and at most once.
pub struct Opened {
    home: PathBuf,
    pub(crate) forbidden: ForbiddenRoots,
    pub(crate) settings: Settings,
    pub(crate) protection: Protection,
    pub(crate) rules: CaptureRules,
    repository_rules: CaptureRules,
    redact: bool,
    clock: fn() -> SystemTime,
    on_recovery: fn(&Recovery),
    pub(crate) resume_hint: fn(&str) -> Option<String>,
    pub(crate) find_hook_files: fn(&Path) -> Vec<HookFile>,
    pub(crate) reports_ends: fn(&str) -> bool,
    pub(crate) conversations: OwnConversations,
    lock_wait: Option<LockWait>,
    store: OnceLock<Store>,
    ledger: Mutex<Option<Ledger>>,
    /// A connection to the ledger whose writes are synced to disk. It is kept for the next task.
    durable_ledger: Mutex<Option<Ledger>>,
}

/// The values that the caller provides to create an [`Opened`].
pub struct OpenOptions {
    /// Takeback's own directory.
    pub home: PathBuf,
    /// Directories that can never be a workspace.
    pub forbidden: ForbiddenRoots,
    /// The user's settings for checkpoints.
    pub settings: Settings,
    /// The user's settings for protecting the history itself.
    pub protection: Protection,
    /// True if the ledger masks secrets before it writes them.
    pub redact: bool,
    /// The clock that all times come from.
    pub clock: fn() -> SystemTime,
    /// The function that is called with the result once an interrupted restore has been finished or
    /// reverted.
    pub on_recovery: fn(&Recovery),
    /// The function that returns instructions for rewinding the agent's own copy of a session's
    /// conversation.
    pub resume_hint: fn(&str) -> Option<String>,
    /// The function that lists the files in which agents keep takeback's hooks. Its argument is
    /// takeback's home.
    pub find_hook_files: fn(&Path) -> Vec<HookFile>,
    /// The function that returns true for an agent that is known to report the end of each call.
    pub reports_ends: fn(&str) -> bool,
    /// The agents' own conversations.
    pub conversations: OwnConversations,
    /// The longest time to wait for other processes. It is set for commands that a user is waiting
    /// for. If it is `None`, a command waits until the workspace is free.
    pub lock_wait: Option<LockWait>,
}

impl OpenOptions {
    /// Creates options for a program that keeps its checkpoints and sessions in a home of its own,
    /// and reports the end of each of its calls.
    pub fn new(home: PathBuf) -> OpenOptions {
        OpenOptions {
            forbidden: ForbiddenRoots::new(None, Vec::new(), Some(home.clone())),
            home,
            settings: Settings::default(),
            protection: Protection::default(),
            redact: false,
            clock: SystemTime::now,
            on_recovery: |_| {},
            resume_hint: |_| None,
            find_hook_files: |_| Vec::new(),
            reports_ends: |_| true,
            conversations: OwnConversations::default(),
            lock_wait: None,
        }
    }
}

/// A function that moves the agent's own conversation of a session to the point where the session
/// ends in the ledger.
pub type FollowSession = fn(&Opened, &str) -> Result<Option<Resume>, String>;

/// The agents' own conversations, which a rollback takes back as well. If `follow` is `None`, the
/// conversations stay as they are.
#[derive(Clone, Debug, Default)]
pub struct OwnConversations {
    /// The directories of the agents' logs, by agent name.
    pub log_directories: BTreeMap<String, PathBuf>,
    /// Moves the agent's own conversation of a session to the point where the session ends in the
    /// ledger. Returns how to continue the conversation, or the reason why it stays as it is.
    /// Returns `None` for an agent whose conversations cannot be moved.
    pub follow: Option<FollowSession>,
    /// Generates an id for a fork that the session's own agent can continue. Returns `None` if the
    /// agent cannot continue forks.
    pub name_fork: Option<fn(&str) -> Option<String>>,
    /// The agent's session in which the user typed the command; `None` if the user did not type it
    /// inside an agent. A turn of that session is still running. If the agent does not name its
    /// session, this is the name of the agent, and no turn is running.
    pub typed_in: Option<String>,
    /// The function that is called after an interrupted rollback has been finished. Its argument
    /// says how to continue a conversation.
    pub on_recovery: Option<fn(&Resume)>,
}

/// A file in an agent's configuration that holds takeback's hooks.
#[derive(Clone, Debug)]
pub struct HookFile {
    /// The absolute path of the file.
    pub path: PathBuf,
    /// True if the file belongs only to takeback.
    pub is_own: bool,
    /// Returns true if takeback's hooks still run after a change to the file. The arguments are the
    /// path, the current content and the new content.
    pub keeps_hooks: fn(&Path, &str, &str) -> bool,
}

/// The open ledger, locked for one caller at a time.
pub struct LedgerGuard<'a>(MutexGuard<'a, Option<Ledger>>);

impl Deref for LedgerGuard<'_> {
    type Target = Ledger;

    fn deref(&self) -> &Ledger {
        self.0.as_ref().expect("a guard is made after the ledger is opened")
    }
}

impl DerefMut for LedgerGuard<'_> {
    fn deref_mut(&mut self) -> &mut Ledger {
        self.0.as_mut().expect("a guard is made after the ledger is opened")
    }
}

/// Returns true if a path is a repository's `.git`, or is inside one.
pub(crate) fn is_in_repository_data(path: &Path) -> bool {
    path.iter().any(|name| name == ".git")
}

impl Opened {
    /// Creates the value, but opens nothing yet.
    pub fn new(options: OpenOptions) -> Opened {
        let OpenOptions { home, forbidden, settings, protection, redact, clock, .. } = options;
        let OpenOptions { on_recovery, resume_hint, find_hook_files, .. } = options;
        let OpenOptions { reports_ends, conversations, lock_wait, .. } = options;
        let rules = settings.rules();
        let repository_rules = CaptureRules {
            // The usual rules do not suit repositories: a branch may be called `build`, and a pack
            // may have any size.
            include: vec!["*".to_owned()],
            exclude: Vec::new(),
            max_file_size: rules.max_named_size,
            max_files: u64::MAX,
            ..rules.clone()
        };
        let (store, ledger) = (OnceLock::new(), Mutex::new(None));
        let durable_ledger = Mutex::new(None);
        Opened {
            home,
            forbidden,
            settings,
            protection,
            rules,
            repository_rules,
            redact,
            clock,
            on_recovery,
            resume_hint,
            find_hook_files,
            reports_ends,
            conversations,
            lock_wait,
            store,
            ledger,
            durable_ledger,
        }
    }

    /// Creates the value for another home, with the same settings but without a mirror.
    pub(crate) fn in_home(&self, home: &Path) -> Opened {
        Opened::new(OpenOptions {
            home: home.to_owned(),
            forbidden: self.forbidden.with_own(home),
            settings: self.settings.clone(),
            protection: Protection { mirror: None, ..self.protection.clone() },
            redact: self.redact,
            clock: self.clock,
            on_recovery: self.on_recovery,
            resume_hint: self.resume_hint,
            find_hook_files: self.find_hook_files,
            reports_ends: self.reports_ends,
            conversations: OwnConversations::default(),
            lock_wait: self.lock_wait,
        })
    }

    /// Returns takeback's own directory.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Returns the directory in which an agent keeps its logs.
    pub fn log_directory(&self, agent: &str) -> Option<&Path> {
        self.conversations.log_directories.get(agent).map(PathBuf::as_path)
    }

    /// Returns the agent's session in which the user typed the command, or the agent's name if the
    /// agent does not name its session.
    pub fn typed_in(&self) -> Option<&str> {
        self.conversations.typed_in.as_deref()
    }

    /// Returns true if a user is waiting for the command.
    pub(crate) fn is_attended(&self) -> bool {
        self.lock_wait.is_some()
    }

    /// Returns the user's settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the user's settings for protecting the history itself.
    pub fn protection(&self) -> &Protection {
        &self.protection
    }

    /// Returns the rules that captures follow.
    pub fn rules(&self) -> &CaptureRules {
        &self.rules
    }

    /// Returns the capture rules for a workspace at this path. Repository data has its own rules.
    pub(crate) fn rules_for(&self, path: &Path) -> &CaptureRules {
        if is_in_repository_data(path) { &self.repository_rules } else { &self.rules }
    }

    /// Returns the current time as the ledger's `Time`.
    pub fn now(&self) -> Time {
        Time::from((self.clock)())
    }

    /// Returns the current time as a `SystemTime`.
    pub(crate) fn system_time(&self) -> SystemTime {
        (self.clock)()
    }

    /// Returns the directory that holds the store and everything that belongs to it.
    pub fn checkpoints_directory(&self) -> PathBuf {
        self.home.join("checkpoints")
    }

    /// Returns true if the store exists.
    pub fn has_store(&self) -> bool {
        self.store.get().is_some() || self.store_identity().exists()
    }

    /// Returns the path of the file whose presence makes a directory a store.
    fn store_identity(&self) -> PathBuf {
        self.checkpoints_directory().join("store/store.json")
    }

    /// Opens the store, or creates it after setting aside an older layout.
    pub fn store(&self) -> Result<&Store, StoreError> {
        if let Some(store) = self.store.get() {
            return Ok(store);
        }
        let directory = self.checkpoints_directory();
        let is_first = !self.store_identity().exists();
        if is_first {
            // A failure here must not prevent a checkpoint: an older layout that stays in place
            // does no harm.
            let now = jiff::Timestamp::try_from((self.clock)()).unwrap_or_default();
            let _ = crate::retention::archive_repositories(&directory, now);
        }
        let mut store = Store::open(directory.join("store"))?;
        if let Some(wait) = self.lock_wait {
            store.set_lock_wait(wait);
        }
        if is_first {
            self.failure_log().reserve_space();
            // A new store has nothing to prune for a while.
            let _ = state::write(&self.last_prune(), &self.now());
        }
        Ok(self.store.get_or_init(|| store))
    }

    /// Returns the path of the ledger.
    pub fn ledger_path(&self) -> PathBuf {
        self.home.join("state.db")
    }

    fn ledger_options(&self, wait: Duration) -> LedgerOptions {
        LedgerOptions { wait, redact: self.redact, ..LedgerOptions::default() }
    }

    fn lock_ledger(&self) -> MutexGuard<'_, Option<Ledger>> {
        // A panic in another thread cannot leave the ledger half written: SQLite rolls back.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_durable_ledger(&self) -> MutexGuard<'_, Option<Ledger>> {
        self.durable_ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the ledger if it exists. The caller must drop the guard before it asks for another
    /// one.
    pub fn ledger(&self) -> Result<Option<LedgerGuard<'_>>, OpenError> {
        let guard = self.lock_ledger();
        if guard.is_none() && !self.ledger_path().exists() {
            return Ok(None);
        }
        self.refresh_ledger(guard).map(Some)
    }

    /// Opens or creates the ledger.
    pub fn ledger_or_new(&self) -> Result<LedgerGuard<'_>, OpenError> {
        self.refresh_ledger(self.lock_ledger())
    }

    /// Opens the ledger. If it is already open, adds the events that hooks have reported since it
    /// was opened.
    fn refresh_ledger<'a>(
        &self,
        guard: MutexGuard<'a, Option<Ledger>>,
    ) -> Result<LedgerGuard<'a>, OpenError> {
        let was_open = guard.is_some();
        let mut ledger = self.open_ledger(guard, LedgerOptions::default().wait)?;
        if was_open {
            ledger.refresh();
        }
        Ok(ledger)
    }

    fn open_ledger<'a>(
        &self,
        mut guard: MutexGuard<'a, Option<Ledger>>,
        wait: Duration,
    ) -> Result<LedgerGuard<'a>, OpenError> {
        match guard.as_mut() {
            Some(ledger) => ledger.set_wait(wait),
            None => *guard = Some(Ledger::open(&self.ledger_path(), &self.ledger_options(wait))?),
        }
        Ok(LedgerGuard(guard))
    }

    /// Returns another connection to the ledger. Creates the ledger if it does not exist.
    /// Everything written through the connection is on disk before the write returns. A connection
    /// that was given back is reused.
    pub fn durable_ledger(&self) -> Result<Ledger, OpenError> {
        if let Some(mut ledger) = self.lock_durable_ledger().take() {
            ledger.refresh();
            return Ok(ledger);
        }
        let options = self.ledger_options(LedgerOptions::default().wait);
        Ledger::open(&self.ledger_path(), &LedgerOptions { durable: true, ..options })
    }

    /// Accepts a connection from [`Opened::durable_ledger`] that is no longer needed, and keeps it
    /// for the next caller.
    pub fn keep_ledger(&self, ledger: Ledger) {
        *self.lock_durable_ledger() = Some(ledger);
    }

    /// Closes the ledger if it is open. It is opened again when it is needed. This is called before
    /// a process waits for its user, because the ledger cannot be repaired while a process has it
    /// open.
    pub fn close_ledger(&self) {
        *self.lock_ledger() = None;
        *self.lock_durable_ledger() = None;
    }

    /// Opens the ledger and adds all events that hooks have reported. Returns `None` if there is no
    /// ledger, or if some events cannot be added yet: the ledger then lacks the latest turns.
    pub(crate) fn complete_ledger(&self, wait: Duration) -> Option<LedgerGuard<'_>> {
        let mut ledger = self.ledger().ok()??;
        ledger.set_wait(wait);
        ledger.catch_up().is_ok_and(|is_complete| is_complete).then_some(ledger)
    }

    /// Writes events into the ledger, or into its spool if the ledger cannot be written in time.
    pub fn record_events(&self, events: &[Event], wait: Duration) -> Result<Recorded, LedgerError> {
        match self.open_ledger(self.lock_ledger(), wait) {
            Ok(mut ledger) => ledger.record(events, wait, self.now()),
            Err(_) => {
                let options = self.ledger_options(wait);
                Ledger::record_in(&self.ledger_path(), &options, events, self.now())
            }
        }
    }

    /// Finds the root of the workspace that a directory belongs to.
    pub fn find_root(&self, directory: &Path) -> io::Result<PathBuf> {
        root_of(directory, &self.forbidden).map(|root| root.path)
    }

    /// Returns the options for capturing a workspace at this path.
    pub(crate) fn capture_options<'a>(
        &'a self,
        path: &Path,
        named: &'a [RelPath],
    ) -> CaptureOptions<'a> {
        CaptureOptions { rules: self.rules_for(path), named, swept: &[], now: (self.clock)() }
    }

    /// Locks a workspace. First finishes or reverts an interrupted restore, and reports the result.
    pub(crate) fn lock<'w>(&self, workspace: &'w Workspace<'w>) -> Result<Lock<'w>, StoreError> {
        let (lock, moved) = self.lock_recovered(workspace)?;
        let has_parts = rollback::has_unfinished_parts(workspace.store(), workspace.id());
        if moved.is_empty() && !has_parts {
            return Ok(lock);
        }
        // The lock is released first. The rollback's remaining parts are in other workspaces, and a
        // process that held two locks could wait forever for another process that takes the same
        // locks in reverse order. Copying a conversation may take seconds, and agents in the
        // workspace must not wait for it.
        drop(lock);
        if has_parts {
            rollback::finish_parts(self, workspace);
        }
        rollback::follow_after_recovery(self, &moved);
        self.lock_recovered(workspace).map(|(lock, _)| lock)
    }

    /// Locks a workspace and finishes an interrupted rollback. Also returns the sessions whose
    /// agents' own conversations still have to follow the rollback.
    fn lock_recovered<'w>(
        &self,
        workspace: &'w Workspace<'w>,
    ) -> Result<(Lock<'w>, Vec<String>), StoreError> {
        let mut lock = workspace.lock()?;
        let mut moved = Vec::new();
        if let Some(recovery) = lock.recovery() {
            self.report_recovery(recovery);
            moved = rollback::finish_recovered(self, &mut lock);
        }
        Ok((lock, moved))
    }

    /// Tells the caller how an interrupted restore was finished or reverted.
    pub(crate) fn report_recovery(&self, recovery: &Recovery) {
        (self.on_recovery)(recovery);
    }

    pub(crate) fn failure_log(&self) -> FailureLog {
        FailureLog::in_directory(&self.checkpoints_directory())
    }

    /// Remembers a failure in a workspace.
    pub fn note_failure(&self, workspace: &Path, message: &str) {
        // If even the log cannot be written, the caller still has the message.
        let _ = self.failure_log().add(workspace, false, message, self.now());
    }

    /// Remembers the problems that a capture found: damage to the store, ignore files that were not
    /// applied, and an index that could not be read.
    pub(crate) fn note_findings(&self, workspace: &Path, capture: &Capture) {
        for path in &capture.unapplied {
            let message = format!(
                "{path} is not applied, because it and the ignore files above it have more than \
                 {MAX_PATTERNS} patterns. The files that it ignores are captured. Shorten it"
            );
            self.note_failure(workspace, &message);
        }
        if capture.incomplete_index {
            let message = "a part of the git index (.git/sharedindex.*) cannot be read. Files that \
                           git tracks although they are ignored may be missing from checkpoints. \
                           `git update-index --no-split-index` rewrites the index";
            self.note_failure(workspace, message);
        }
        if capture.damaged.is_empty() {
            return;
        }
        let packs = capture.damaged.join(", ");
        let message = format!(
            "part of the store was lost or damaged ({packs}). Files that are still on disk were \
             stored again; `takeback checkpoints verify` shows which older checkpoints lost files"
        );
        self.note_failure(workspace, &message);
    }

    /// Remembers that a checkpoint of a workspace was not taken.
    pub fn note_missed(&self, workspace: &Path, message: &str) {
        let _ = self.failure_log().add(workspace, true, message, self.now());
    }

    /// Forgets that a checkpoint was missed, because it was taken after all.
    pub fn withdraw_missed(&self, workspace: &Path, message: &str) {
        let _ = self.failure_log().withdraw(workspace, message);
    }

    /// Clears all failures.
    pub fn clear_failures(&self) -> io::Result<()> {
        self.failure_log().clear_failures(None)
    }

    /// Returns the remembered failures.
    pub fn failures(&self) -> Vec<Failure> {
        self.failure_log().all()
    }

    /// Returns the path of the file that holds the time of the last prune.
    pub(crate) fn last_prune(&self) -> PathBuf {
        self.checkpoints_directory().join(".last_prune")
    }

    /// Returns the path of the file that holds the size of the store after the last prune.
    pub(crate) fn last_size(&self) -> PathBuf {
        self.checkpoints_directory().join(".last_size")
    }

    fn session_path(&self, session: &str) -> PathBuf {
        self.checkpoints_directory().join("sessions").join(state::file_name(&[session]))
    }

    pub(crate) fn session_state(&self, session: &str) -> Option<SessionState> {
        let known: SessionState = state::read(&self.session_path(session))?;
        (known.session == session).then_some(known)
    }

    pub(crate) fn set_session_state(&self, state: &SessionState) -> io::Result<()> {
        state::write(&self.session_path(&state.session), state)
    }
}
