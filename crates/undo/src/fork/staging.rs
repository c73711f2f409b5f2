//! Creates the directory of a fork.
//!
//! The directory is filled under a temporary name and then renamed. Before the rename, only the
//! temporary directory of the fork exists; after the rename, the session is created. An intent,
//! which is written first, says what belongs to the fork. If the process is killed, the next
//! process reads the intent, and removes the temporary directory or creates the session.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use takeback_base::durable::{self, Durability, FileLock};
use takeback_base::errors::error_chain;
use takeback_base::hex;
use takeback_ledger::{ConversationPoint, ForkLog, LedgerError, MadeFork, NewFork};
use takeback_tree::{AnyPath, GitDirectory, NewDirectory, Oid, RepositoryState, remove_temporary};

use super::destination::choose_destination;
use super::source::{ForkSource, ForkedConversation};
use super::{Fork, ForkError, ForkRequest};
use crate::Opened;
use crate::history::record::{Checkpoint, Kind, Record};
use crate::history::{TakeError, new_record, pin_tree};
use crate::hook::state::{self, WorkspaceState};

/// The beginning of the temporary name of a fork's directory.
const PREFIX: &str = ".takeback-fork-";

/// A fork that is being made.
#[derive(Serialize, Deserialize)]
struct Intent {
    destination: AnyPath,
    temporary: AnyPath,
    /// The device and inode of the directory. They stay the same when the directory is renamed.
    identity: Option<(u64, u64)>,
    session: Option<IntendedSession>,
    /// The tree that contains the files.
    tree: Oid,
    /// The record of the checkpoint that the files come from.
    record: Box<Record>,
    /// The reason for the first checkpoint of the new directory.
    reason: String,
}

/// The session that a fork creates.
#[derive(Serialize, Deserialize)]
struct IntendedSession {
    id: String,
    parent: String,
    point: Option<ConversationPoint>,
}

/// The file that contains an intent. It is removed on drop, unless the fork still has to be
/// finished.
struct IntentFile {
    path: PathBuf,
    is_kept: bool,
}

impl Drop for IntentFile {
    fn drop(&mut self) {
        if !self.is_kept {
            state::remove(&self.path);
        }
    }
}

fn intents_directory(opened: &Opened) -> PathBuf {
    opened.checkpoints_directory().join("forks")
}

/// Takes the lock that keeps other processes from finishing or removing this process's fork.
fn lock_intents(opened: &Opened) -> std::io::Result<FileLock> {
    let directory = intents_directory(opened);
    durable::create_directory(&directory)?;
    FileLock::shared(&directory.join("lock"))
}

/// Makes a fork with files.
pub(super) fn make_directory(
    opened: &Opened,
    source: ForkSource,
    request: &ForkRequest,
    id: String,
) -> Result<Fork, ForkError> {
    let workspace = source.workspace.clone().expect("files come from a workspace");
    let destination = choose_destination(opened, &request.files, &workspace)?;
    let mut fork = Fork::of_source(&source);
    let checkpoint = source.checkpoint.expect("files come from a checkpoint");
    let failed = |source| ForkError::Create { path: destination.clone(), source };
    let _lock = lock_intents(opened).map_err(failed)?;
    let digits = hex::random_digits(16);
    let name = format!("{PREFIX}{digits}");
    let mut file = IntentFile { path: intents_directory(opened).join(&digits), is_kept: false };
    let mut intent =
        Intent {
            temporary: AnyPath(destination.with_file_name(&name)),
            destination: AnyPath(destination.clone()),
            identity: None,
            session: source.conversation.map(|ForkedConversation { session, point }| {
                IntendedSession { id, parent: session, point }
            }),
            tree: checkpoint.pin.tree,
            record: Box::new(checkpoint.record.clone()),
            reason: format!("forked from {} ({})", workspace.display(), checkpoint.short_id()),
        };
    write_intent(&file.path, &intent).map_err(failed)?;
    let into = NewDirectory::create(&destination, &name).map_err(failed)?;
    intent.identity = Some(into.identity().map_err(failed)?);
    write_intent(&file.path, &intent).map_err(failed)?;
    fill_directory(opened, &into, &workspace, &checkpoint, request.repository, &mut fork)?;
    let permissions = fs::metadata(&workspace).ok().filter(fs::Metadata::is_dir);
    let permissions = permissions.map_or(0o700, |found| found.permissions().mode());
    into.place(permissions).map_err(failed)?;
    // From now on, the fork can only be finished, not removed.
    file.is_kept = true;
    fork.directory = Some(AnyPath(destination));
    file.is_kept = !finish_fork(opened, &intent, &mut fork);
    Ok(fork)
}

fn write_intent(path: &Path, intent: &Intent) -> std::io::Result<()> {
    let text = serde_json::to_vec(intent).expect("plain data becomes JSON");
    durable::replace_file(path, &text, Durability::Synced)
}

/// Writes the files of a checkpoint and, if requested, a copy of the workspace's repository.
fn fill_directory(
    opened: &Opened,
    into: &NewDirectory,
    workspace: &Path,
    checkpoint: &Checkpoint,
    wants_repository: bool,
    fork: &mut Fork,
) -> Result<(), ForkError> {
    let store = opened.store()?;
    let Checkpoint { pin, record } = checkpoint;
    let done = store.check_out(&pin.tree, into, Some(workspace))?;
    (fork.files, fork.cloned) = (done.files, done.cloned);
    fork.checkpoint = Some(pin.id);
    fork.workspace = Some(AnyPath(workspace.to_owned()));
    fork.uncovered = record.uncovered.clone();
    fork.unsettled = record.unsettled.clone();
    fork.unprivileged = [&record.unprivileged[..], &done.unprivileged].concat();
    fork.unprivileged.sort();
    fork.unprivileged.dedup();
    let nested = WorkspaceState::new(store.notes(&store.workspace_id(workspace))).repositories();
    for path in nested {
        if store.find_entry(&pin.tree, &path).is_ok_and(|entry| entry.is_some()) {
            fork.repositories.push(path);
        }
    }
    if wants_repository && had_repository(checkpoint) && workspace.is_dir() {
        copy_repository(opened, into, workspace, checkpoint, fork);
    }
    Ok(())
}

/// Returns false if the workspace is known to have had no repository when the checkpoint was taken.
fn had_repository(checkpoint: &Checkpoint) -> bool {
    let record = &checkpoint.record;
    // Imported checkpoints do not say whether there was a repository. Neither do states between
    // calls if an older version of takeback captured them.
    let is_recorded = matches!(record.kind, Kind::Manual | Kind::Call | Kind::Safety);
    record.repository.is_some() || record.imported.is_some() || !is_recorded
}

/// Copies the workspace's repository. A failure leaves the fork without a repository.
fn copy_repository(
    opened: &Opened,
    into: &NewDirectory,
    workspace: &Path,
    checkpoint: &Checkpoint,
    fork: &mut Fork,
) {
    let attachment = checkpoint.pin.attachment;
    let index = attachment.and_then(|id| opened.store().ok()?.attachment(&id).ok());
    let head = checkpoint.record.repository.as_ref();
    let state = RepositoryState { head, index: index.as_deref() };
    match into.copy_repository(workspace, state) {
        Ok(None) => {}
        Ok(Some(copied)) => {
            if !copied.is_exact {
                fork.warnings.push(
                    "the copied repository is at its current commit, because the commit of the \
                     checkpoint could not be found in it"
                        .to_owned(),
                );
            }
            fork.repository = Some(copied.head);
        }
        Err(error) => {
            let error = error_chain(&error);
            fork.warnings.push(format!("the repository (.git) was not copied: {error}"));
        }
    }
}

/// Creates the session of a fork and the first checkpoint of its directory, which already has its
/// final name. Returns false if the session could not be created yet.
fn finish_fork(opened: &Opened, intent: &Intent, fork: &mut Fork) -> bool {
    if let Some(session) = &intent.session {
        fork.session = Some(session.id.clone());
        match create_session(opened, intent, session) {
            Ok(made) => fork.add_session(made),
            Err(error) => {
                let error = error_chain(&error);
                fork.warnings.push(format!(
                    "the conversation could not be forked yet: {error}. The next takeback command \
                     tries again"
                ));
                return false;
            }
        }
    }
    if let Err(error) = take_first_checkpoint(opened, intent) {
        let error = error_chain(&error);
        fork.warnings.push(format!("the new directory has no checkpoint yet: {error}"));
    }
    true
}

fn create_session(
    opened: &Opened,
    intent: &Intent,
    session: &IntendedSession,
) -> Result<MadeFork, ForkError> {
    let destination = intent.destination.0.display().to_string();
    let branch = GitDirectory::find(&intent.destination.0).and_then(|git| git.head().branch);
    let new = NewFork {
        log: ForkLog::default(),
        id: &session.id,
        point: session.point,
        workspace: Some(&destination),
        git_branch: branch.as_deref(),
    };
    let now = opened.now();
    Ok(opened.ledger_or_new()?.fork_at(&session.parent, &new, now)?)
}

/// Takes a checkpoint of a fork's directory in its initial state, so that later changes in it can
/// be seen and taken back. Nothing is captured, because the store already has the files.
fn take_first_checkpoint(opened: &Opened, intent: &Intent) -> Result<(), TakeError> {
    let workspace = opened.store()?.workspace(&intent.destination.0, &opened.forbidden)?;
    let mut lock = opened.lock(&workspace)?;
    if !workspace.store().pin_names(workspace.id())?.is_empty() {
        return Ok(());
    }
    let source = &intent.record;
    let record = Record {
        files: source.files,
        filter: source.filter.clone(),
        uncovered: source.uncovered.clone(),
        unsettled: source.unsettled.clone(),
        ..new_record(opened, &mut lock, Kind::Manual, &intent.reason)?
    };
    pin_tree(opened, &mut lock, intent.tree, record)?;
    lock.finish(opened.system_time())?;
    Ok(())
}

/// Finishes or removes the forks of processes that were killed. Does nothing while another process
/// is forking. If there are no such forks, this costs one system call.
pub fn finish_forks(opened: &Opened) {
    let directory = intents_directory(opened);
    let Ok(entries) = fs::read_dir(&directory) else { return };
    let is_intent = |path: &PathBuf| path.file_name().is_some_and(|name| hex_name(name).is_some());
    let intents: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(is_intent).collect();
    if intents.is_empty() {
        return;
    }
    let Ok(Some(_lock)) = FileLock::try_exclusive(&directory.join("lock")) else { return };
    for path in intents {
        if state::read::<Intent>(&path).is_none_or(|intent| settle(opened, &path, &intent)) {
            state::remove(&path);
        }
    }
}

/// Returns the name of the file if the file is an intent. The other files in the directory are
/// locks and temporary files.
fn hex_name(name: &std::ffi::OsStr) -> Option<&str> {
    name.to_str().filter(|name| name.len() == 16 && hex::is_hex(name))
}

/// Finishes a fork whose directory already has its final name, and removes any other fork. Returns
/// false if the next process has to try again.
fn settle(opened: &Opened, path: &Path, intent: &Intent) -> bool {
    let found = fs::symlink_metadata(&intent.destination.0).ok();
    let found = found.map(|found| (found.dev(), found.ino()));
    if found.is_none() || found != intent.identity {
        return remove_unplaced(path, intent);
    }
    let Some(session) = &intent.session else {
        let _ = take_first_checkpoint(opened, intent);
        return true;
    };
    match create_session(opened, intent, session) {
        Ok(_) | Err(ForkError::Ledger(LedgerError::Exists(_))) => {
            // If this fails, the first call in the directory takes a checkpoint.
            let _ = take_first_checkpoint(opened, intent);
            true
        }
        Err(error) if may_pass(&error) => false,
        Err(error) => {
            let message = format!(
                "this directory has the files of a fork, but the fork has no conversation: {}",
                error_chain(&error)
            );
            opened.note_failure(&intent.destination.0, &message);
            true
        }
    }
}

/// Returns true if the ledger may accept the session later.
fn may_pass(error: &ForkError) -> bool {
    let ForkError::Ledger(error) = error else { return true };
    use LedgerError::{Busy, Damaged, Open, Sqlite};
    matches!(error, Busy { .. } | Damaged(_) | Open(_) | Sqlite(_))
}

/// Removes the temporary directory of a fork. Only a directory with the name that belongs to the
/// intent is removed.
fn remove_unplaced(path: &Path, intent: &Intent) -> bool {
    let digits = path.file_name().and_then(hex_name).unwrap_or_default();
    let temporary = &intent.temporary.0;
    let is_own = temporary.file_name().is_some_and(|name| *name == *format!("{PREFIX}{digits}"));
    !is_own || remove_temporary(temporary).is_ok()
}
