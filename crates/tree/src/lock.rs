//! The lock of a workspace, which captures, pins and restores require.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use takeback_base::durable::{self, Durability, FileLock};

use crate::beneath::Stat;
use crate::capture::kept::KeptState;
use crate::capture::{
    self, Capture, CaptureContext, CaptureError, CaptureOptions, ExpectedChanges, Unsaved,
    WorkspaceState,
};
use crate::fault;
use crate::object::{Commit, ObjectKind};
use crate::oid::Oid;
use crate::pack::write::PackWriter;
use crate::path::{AnyPath, RelPath};
use crate::pins::{Pin, PinName};
use crate::restore::Recovery;
use crate::store::{ObjectError, Store, StoreError};
use crate::workspace::{Workspace, WorkspaceInfo};

/// The right to capture and restore a workspace. [`Lock::finish`] ends the work. If the lock is
/// dropped instead, pins and restores are kept, but captures without a pin may be lost, and the
/// stat cache is not saved.
pub struct Lock<'w> {
    pub(crate) workspace: &'w Workspace<'w>,
    pub(crate) directory: PathBuf,
    writer: Option<PackWriter>,
    /// The maximum number of bytes that a capture may add to the store.
    max_size: u64,
    /// The paths that may have changed since a given state, as announced for the next capture.
    expected: Option<ExpectedChanges>,
    pub(crate) state: Option<WorkspaceState>,
    /// The tree of the latest capture under this lock, if no restore followed.
    pub(crate) captured: Option<Oid>,
    next_seq: Option<u64>,
    /// The descriptions of the packs that existed just before the stat cache was loaded.
    seen_packs: HashSet<String>,
    pub(crate) recovery: Option<Recovery>,
    /// The safety pin of a restore that was interrupted before this lock was taken.
    pub(crate) recovered_pin: Option<PinName>,
    // Fields are dropped in order, so the locks are released last.
    _store_lock: FileLock,
    _workspace_lock: FileLock,
}

impl Workspace<'_> {
    /// Locks this workspace. Waits while another process holds the lock. Finishes or reverts an
    /// interrupted restore: see [`Lock::recovery`].
    pub fn lock(&self) -> Result<Lock<'_>, StoreError> {
        let workspace_lock = self.store.lock_directory(&self.id)?;
        let store_lock = self.store.lock_shared()?;
        let mut lock = Lock {
            workspace: self,
            directory: self.directory(),
            writer: None,
            max_size: u64::MAX,
            expected: None,
            state: None,
            captured: None,
            next_seq: None,
            seen_packs: HashSet::new(),
            recovery: None,
            recovered_pin: None,
            _store_lock: store_lock,
            _workspace_lock: workspace_lock,
        };
        lock.recover();
        Ok(lock)
    }
}

/// The reason why a pin was not created.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum PinError {
    /// The message contains NUL.
    #[error("the message of a pin must not contain NUL")]
    Message,
    /// An attachment exceeds the maximum size of an object.
    #[error("an attachment of {0} bytes is too large")]
    TooLarge(u64),
    #[error("cannot write to the store {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<'w> Lock<'w> {
    /// Returns the locked workspace.
    pub fn workspace(&self) -> &'w Workspace<'w> {
        self.workspace
    }

    pub(crate) fn store(&self) -> &'w Store {
        self.workspace.store
    }

    /// Captures the current state of the workspace.
    pub fn capture(&mut self, options: &CaptureOptions<'_>) -> Result<Capture, CaptureError> {
        self.capture_with(options, None)
    }

    /// Limits the number of bytes that captures under this lock may add to the store. Captures for
    /// a restore are not limited.
    pub fn limit_captures(&mut self, max_size: u64) {
        self.max_size = max_size;
    }

    /// Tells the next capture that only these paths may have changed since the state `since`. If
    /// `since` is the last captured state, the next capture looks only at these paths and at the
    /// directories that contain them. A change elsewhere may then be noticed only by a later
    /// capture.
    pub fn expect_changes(&mut self, since: Oid, paths: &[RelPath]) {
        self.expected = Some(ExpectedChanges { since, paths: paths.to_vec() });
    }

    /// Forgets that the workspace was too large, so that the next capture is tried immediately
    /// rather than in an hour.
    pub fn forget_limit(&mut self) {
        capture::limit::forget(&self.directory);
    }

    /// Captures the current state of the workspace in the same way as [`Lock::plan`]: the limits on
    /// the number of files and on the bytes added to the store do not apply.
    pub fn capture_present(
        &mut self,
        options: &CaptureOptions<'_>,
    ) -> Result<Capture, CaptureError> {
        self.capture_for_restore(options, &[])
    }

    /// Captures the current state of the workspace before a restore, including everything at the
    /// paths that the restore will replace. Writes the capture, so that its trees can be read
    /// immediately.
    pub(crate) fn capture_for_restore(
        &mut self,
        options: &CaptureOptions<'_>,
        in_the_way: &[RelPath],
    ) -> Result<Capture, CaptureError> {
        let capture = self.capture_with(options, Some(in_the_way))?;
        self.seal_capture()?;
        Ok(capture)
    }

    fn capture_with(
        &mut self,
        options: &CaptureOptions<'_>,
        in_the_way: Option<&[RelPath]>,
    ) -> Result<Capture, CaptureError> {
        self.captured = None;
        let is_in_memory = self.state.is_some();
        let store = self.store();
        let suspects = if is_in_memory {
            None
        } else {
            self.seen_packs = store.describe_packs();
            Store::find_suspects(&self.directory, &self.seen_packs)
        };
        let directory = &self.directory;
        let writer = self.writer.get_or_insert_with(|| self.workspace.store.new_pack());
        let context = CaptureContext {
            store: self.workspace.store,
            root: &self.workspace.root,
            path: &self.workspace.path,
            own: self.workspace.own.clone(),
            only: self.workspace.only.as_deref(),
            in_the_way,
            writer,
            max_size: in_the_way.map_or(self.max_size, |_| u64::MAX),
            expected: self.expected.take().filter(|_| in_the_way.is_none()),
            suspects,
            damaged: RefCell::default(),
            distrusted: RefCell::default(),
            unsettled: RefCell::default(),
            unapplied: RefCell::default(),
        };
        if in_the_way.is_none()
            && let Some(error) = capture::limit::find_known(directory, &context, options)
        {
            return Err(error);
        }
        let kept = self.state.take().or_else(|| store.take_state(directory));
        let known = kept.or_else(|| WorkspaceState::load(directory));
        let result = capture::capture_workspace(&context, known, options);
        match &result {
            Err(error @ (CaptureError::TooManyFiles { .. } | CaptureError::TooLarge { .. })) => {
                capture::limit::note(directory, &context, options, error);
            }
            Ok(_) if in_the_way.is_none() => {
                capture::limit::withdraw(directory, &context, options.rules);
            }
            _ => {}
        }
        if let Err(CaptureError::Write { .. } | CaptureError::TooLarge { .. }) = result {
            self.forget_unwritten();
        }
        let (capture, state) = result?;
        (self.state, self.captured) = (Some(state), Some(capture.tree));
        Ok(capture)
    }

    /// Captures the current state of the workspace and writes it, so that its trees can be read
    /// immediately.
    pub fn capture_readable(
        &mut self,
        options: &CaptureOptions<'_>,
    ) -> Result<Capture, CaptureError> {
        let capture = self.capture(options)?;
        self.seal_capture()?;
        Ok(capture)
    }

    fn seal_capture(&mut self) -> Result<(), CaptureError> {
        let path = self.store().directory().to_owned();
        self.seal().map_err(|source| CaptureError::Write { path, source })
    }

    /// Returns the stat that a path had when the last capture read it.
    pub(crate) fn captured_stat(&self, path: &RelPath) -> Option<Stat> {
        self.state.as_ref()?.cache().find_entry(path.as_bytes()).map(|entry| entry.stat)
    }

    /// Returns the number that the next pin will have.
    pub fn next_seq(&mut self) -> Result<u64, StoreError> {
        if let Some(seq) = self.next_seq {
            return Ok(seq);
        }
        let noted = match read_seq(&self.directory.join("seq")) {
            // The workspace may have been forgotten. A mirror may still have its old pins, so their
            // numbers must not be reused.
            1 => read_seq(&self.store().highest_seq()),
            noted => noted,
        };
        let is_pin = |seq| {
            let name = PinName { workspace: self.workspace.id.clone(), seq };
            self.store().directory().join(name.to_string()).exists()
        };
        // The stored number is usually right. In that case, the pins need not be listed.
        if is_pin(noted - 1) && !is_pin(noted) {
            return Ok(*self.next_seq.insert(noted));
        }
        let pins = self.store().pin_names(&self.workspace.id)?;
        let after_pins = pins.last().map_or(1, |last| last.seq + 1);
        Ok(*self.next_seq.insert(after_pins.max(noted)))
    }

    /// Pins a captured tree: writes its new objects durably, then creates its ref.
    pub fn pin(&mut self, tree: Oid, time: SystemTime, message: &str) -> Result<Pin, PinError> {
        self.pin_with_attachment(tree, time, message, None)
    }

    /// Pins a captured tree with an attachment, whose id comes from [`Lock::add_attachment`] or
    /// from an earlier pin.
    pub fn pin_with_attachment(
        &mut self,
        tree: Oid,
        time: SystemTime,
        message: &str,
        attachment: Option<Oid>,
    ) -> Result<Pin, PinError> {
        if message.contains('\0') {
            return Err(PinError::Message);
        }
        let seq = self.next_seq()?;
        let time = to_milliseconds(time).div_euclid(1000);
        // The ids of the tree and the attachment may come from anywhere. Only a tree that was just
        // captured under this lock is certain to be written with the pin.
        let unsure_tree = (self.captured != Some(tree)).then_some(tree);
        let needed = unsure_tree.into_iter().chain(attachment);
        for oid in needed {
            if !self.has_object(&oid) {
                // Another process may have written the object since the packs were listed.
                self.store().forget_packs();
            }
            if !self.has_object(&oid) {
                return Err(StoreError::Object(ObjectError::Missing(oid)).into());
            }
        }
        let commit = Commit { tree, parent: attachment, time, message: message.to_owned() };
        let content = commit.encode();
        let id = Oid::of(ObjectKind::Commit, &content);
        self.add_object(ObjectKind::Commit, id, &content).map_err(self.write_error())?;
        let reference = self.store().write_ref(id).map_err(self.write_error())?;
        self.seal_with(&[&reference]).map_err(self.write_error())?;
        let name = PinName { workspace: self.workspace.id.clone(), seq };
        self.store().place_ref(&name, reference).map_err(self.write_error())?;
        self.next_seq = Some(seq + 1);
        // This file matters only if the newest pin is deleted, so it need not survive a power cut.
        let _ = write_seq(&self.directory.join("seq"), seq + 1);
        Ok(Pin { name, id, tree, attachment, time, message: commit.message })
    }

    /// Durably writes the commit that a pin would have if it had this message. Returns the commit's
    /// id.
    pub(crate) fn prepare_message(&mut self, pin: &Pin, message: &str) -> Result<Oid, PinError> {
        if message.contains('\0') {
            return Err(PinError::Message);
        }
        let Pin { tree, attachment, time, .. } = *pin;
        let commit = Commit { tree, parent: attachment, time, message: message.to_owned() };
        let id =
            self.put_object(ObjectKind::Commit, &commit.encode()).map_err(self.write_error())?;
        self.seal().map_err(self.write_error())?;
        Ok(id)
    }

    /// Gives a pin another message, which also changes its id. Does nothing if the pin no longer
    /// exists.
    pub(crate) fn change_message(&mut self, name: &PinName, message: &str) -> Result<(), PinError> {
        let Some(pin) = self.store().pin(name)? else { return Ok(()) };
        if pin.message == message {
            return Ok(());
        }
        let id = self.prepare_message(&pin, message)?;
        self.store().replace_ref(name, id).map_err(self.write_error())
    }

    /// Adds an object to the pending pack, unless the store has it.
    pub(crate) fn put_object(&mut self, kind: ObjectKind, content: &[u8]) -> io::Result<Oid> {
        let oid = Oid::of(kind, content);
        if !self.has_object(&oid) {
            self.add_object(kind, oid, content)?;
        }
        Ok(oid)
    }

    /// True if an object is in the pending pack or in the store.
    pub(crate) fn has_object(&self, oid: &Oid) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.contains(oid))
            || self.store().packs().contains(oid)
    }

    fn add_object(&mut self, kind: ObjectKind, oid: Oid, content: &[u8]) -> io::Result<()> {
        let writer = self.writer.get_or_insert_with(|| self.workspace.store.new_pack());
        let added = writer.add(kind, oid, content);
        if added.is_err() {
            self.forget_unwritten();
        }
        added
    }

    /// Returns a function that turns a system error into the error for a failed write to the store.
    pub(crate) fn write_error(&self) -> impl FnOnce(io::Error) -> PinError + use<> {
        let path = self.store().directory().to_owned();
        move |source| PinError::Write { path, source }
    }

    /// Writes the pending pack.
    pub(crate) fn seal(&mut self) -> io::Result<()> {
        self.seal_with(&[])
    }

    fn seal_with(&mut self, others: &[&fs::File]) -> io::Result<()> {
        if let Some(writer) = self.writer.take() {
            let store = self.workspace.store;
            match writer.seal_with(&store.pack_directory(), others) {
                Ok(name) => name.iter().for_each(|name| store.add_pack(name)),
                Err(error) => {
                    store.forget_packs();
                    self.forget_unwritten();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Discards the state in memory because writing captured objects failed.
    fn forget_unwritten(&mut self) {
        (self.writer, self.state, self.captured) = (None, None, None);
    }

    /// Ends the work under this lock: writes the pending pack, and the stat cache for the next
    /// capture.
    pub fn finish(mut self, now: SystemTime) -> Result<(), PinError> {
        self.seal().map_err(self.write_error())?;
        let now = to_milliseconds(now);
        fault::point("note").map_err(self.write_error())?;
        self.write_info(now)?;
        // Without the cache, the next capture is slower, but not wrong.
        if self.save_cache().is_ok()
            && let Some(mut state) = self.state.take()
        {
            state.mark_saved();
            self.store().keep_state(KeptState::new(&self.directory, state));
        }
        Ok(())
    }

    fn save_cache(&self) -> io::Result<()> {
        let Some(state) = &self.state else { return Ok(()) };
        fault::point("stat cache")?;
        if state.unsaved != Unsaved::Nothing {
            self.store().note_packs(&self.directory, &self.seen_packs)?;
        }
        let appended = match &state.unsaved {
            Unsaved::Nothing => return Ok(()),
            Unsaved::Entries(entries) => {
                state.cache().append_to_log(&self.directory, entries).unwrap_or(false)
            }
            Unsaved::All => false,
        };
        if appended {
            Ok(())
        } else {
            state.cache().save(&self.directory, &self.store().temporary())
        }
    }

    /// Writes `workspace.json`, unless it is less than an hour old.
    fn write_info(&self, now: i64) -> Result<(), StoreError> {
        const HOUR: i64 = 3_600_000;
        let known = self.store().workspace_info(&self.workspace.id).ok().flatten();
        if let Some(info) = &known
            && (info.last_seen..info.last_seen + HOUR).contains(&now)
        {
            return Ok(());
        }
        let info = WorkspaceInfo {
            path: AnyPath(self.workspace.subject()),
            created_at: known.map_or(now, |info| info.created_at),
            last_seen: now,
            single_file: self.workspace.only.is_some(),
        };
        let text = serde_json::to_vec(&info).expect("plain data serializes to JSON");
        let path = self.directory.join("workspace.json");
        durable::replace_file_through(&self.store().temporary(), &path, &text, Durability::Cached)
            .map_err(StoreError::io("write", &path))
    }
}

/// Reads the stored number of the next pin. Returns 1 if the file is missing or damaged.
pub(crate) fn read_seq(path: &Path) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.trim().parse().unwrap_or(1).clamp(1, 1 << 62)
}

/// Stores the number of the next pin. The number always has twenty digits, so that it can be
/// overwritten in place, which is cheaper than writing a new file.
pub(crate) fn write_seq(path: &Path, seq: u64) -> io::Result<fs::File> {
    use std::os::unix::fs::FileExt;
    let file = durable::open_file(path)?;
    file.write_all_at(format!("{seq:020}\n").as_bytes(), 0)?;
    Ok(file)
}

pub(crate) fn to_milliseconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
