//! What agents have to be told after files went back.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use takeback_ledger::{Ledger, LedgerError, Time};
use takeback_tree::{Kind, Oid, RelPath, Workspace};

use crate::failures::chain;
use crate::keeper::Keeper;
use crate::list::EffectView;
use crate::record::{Checkpoint, Checkpoints, Rollback};

/// At most so many paths are named.
const NAMED: usize = 200;

/// How long somebody who wants to be told waits for others that write into the ledger.
const PATIENCE: Duration = Duration::from_millis(200);

/// A file larger than this is not read to see whether it changed again.
const MAX_READ: u64 = 64 << 20;

/// What the agent of a session has to be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notice {
    /// Where files went back.
    pub workspace: PathBuf,
    /// Which, as far as they are named and still as they were left.
    pub files: Vec<NoticeFile>,
    /// How many more.
    pub more: usize,
    /// What was not reversed.
    pub effects: Vec<EffectView>,
}

/// A file that went back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticeFile {
    /// Its path in the workspace.
    pub path: RelPath,
    /// Whether it is gone.
    pub is_gone: bool,
}

/// What there is to tell.
pub(crate) struct Told<'a> {
    pub(crate) checkpoint: Oid,
    pub(crate) restored: &'a [RelPath],
    pub(crate) deleted: &'a [RelPath],
    pub(crate) effects: &'a [EffectView],
}

/// Leaves a notice for every session that worked in a workspace.
pub(crate) fn leave(
    keeper: &Keeper,
    workspace: &Workspace<'_>,
    told: &Told<'_>,
    tree: &Oid,
    now: Time,
) -> Result<(), String> {
    let Some(mut ledger) = keeper.ledger().map_err(|error| chain(&error))? else { return Ok(()) };
    let known =
        Checkpoints::of(workspace.store(), workspace.id()).map_err(|error| chain(&error))?;
    let sessions: BTreeSet<&str> = known
        .all
        .iter()
        .filter_map(|known| Some(known.record.call.as_ref()?.session.as_str()))
        .collect();
    if sessions.is_empty() {
        return Ok(());
    }
    let body = body(workspace, told, tree);
    for session in sessions {
        match ledger.add_notice(session, &body, now) {
            // It was deleted, or never made it into the ledger.
            Ok(_) | Err(LedgerError::NoSuchSession(_)) => {}
            Err(error) => return Err(chain(&error)),
        }
    }
    Ok(())
}

/// The same for a rollback that was cut off and is finished.
pub(crate) fn leave_after_recovery(
    keeper: &Keeper,
    workspace: &Workspace<'_>,
    safety: &Checkpoint,
    done: &Rollback,
    now: Time,
) -> Result<(), String> {
    let changes = workspace.store().changed_paths(&safety.pin.tree, &done.tree);
    let is_asked_for = |path: &RelPath| {
        done.paths.is_empty() || done.paths.iter().any(|asked| path.starts_with(asked))
    };
    let (mut restored, mut deleted) = (Vec::new(), Vec::new());
    for change in changes.map_err(|error| chain(&error))? {
        if is_asked_for(&change.path) {
            let list = if change.to.is_some() { &mut restored } else { &mut deleted };
            list.push(change.path);
        }
    }
    let told = Told { checkpoint: done.to, restored: &restored, deleted: &deleted, effects: &[] };
    leave(keeper, workspace, &told, &done.tree, now)
}

/// `tree`: the state that was led to. What a file was then says later whether somebody changed it
/// again. A directory with something in it is told by that.
fn body(workspace: &Workspace<'_>, told: &Told<'_>, tree: &Oid) -> Value {
    let store = workspace.store();
    let entry = |path: &RelPath| store.entry(tree, path).ok().flatten();
    let mut files = Vec::new();
    let mut count = told.deleted.len();
    for (number, path) in told.restored.iter().enumerate() {
        if files.len() == NAMED {
            count += told.restored.len() - number;
            break;
        }
        let content = match entry(path) {
            Some((mode, id)) if mode.is_directory() && id != Oid::EMPTY_TREE => continue,
            entry => entry.map(|(_, id)| id.to_string()),
        };
        count += 1;
        files.push(json!({ "path": path, "content": content }));
    }
    let gone = told.deleted.iter().map(|path| json!({ "path": path, "content": null }));
    files.extend(gone.take(NAMED - files.len()));
    json!({
        "kind": "rollback",
        "workspace": workspace.path().display().to_string(),
        "checkpoint": told.checkpoint.to_string(),
        "files": files,
        "file_count": count,
        "effects": told.effects,
    })
}

/// The same as it comes back; what cannot be read is left out.
#[derive(Deserialize)]
struct Body {
    workspace: PathBuf,
    #[serde(default)]
    files: Vec<Value>,
    #[serde(default)]
    file_count: usize,
    #[serde(default)]
    effects: Vec<EffectView>,
}

#[derive(Deserialize)]
struct BodyFile {
    path: RelPath,
    content: Option<String>,
}

impl Keeper {
    /// Takes the notices that wait for a session, each once. Files that were changed again since
    /// are not in them, and without anything in it there is no notice.
    pub fn take_notices(&self, session: &str) -> Result<Vec<Notice>, String> {
        let path = self.ledger_path();
        if !path.exists() {
            return Ok(Vec::new());
        }
        let ledger = Ledger::open(&path, &self.ledger_options(PATIENCE));
        let mut ledger = ledger.map_err(|error| chain(&error))?;
        if !ledger.has_notices(session).map_err(|error| chain(&error))? {
            return Ok(Vec::new());
        }
        let taken = ledger.take_notices(session, self.now()).map_err(|error| chain(&error))?;
        let mut seen = BTreeSet::new();
        let mut notices = Vec::new();
        // The latest first: it decides about what it names.
        for taken in taken.into_iter().rev() {
            let Ok(body) = serde_json::from_value::<Body>(taken.body) else { continue };
            let mut notice = Notice {
                more: body.file_count.saturating_sub(body.files.len()),
                effects: body.effects,
                ..Notice::default()
            };
            for file in body.files {
                let Ok(file) = serde_json::from_value::<BodyFile>(file) else { continue };
                let is_new = seen.insert((body.workspace.clone(), file.path.clone()));
                if is_new && is_still(&body.workspace, &file) {
                    let is_gone = file.content.is_none();
                    notice.files.push(NoticeFile { path: file.path, is_gone });
                }
            }
            notice.workspace = body.workspace;
            if !notice.files.is_empty() || notice.more > 0 {
                notices.push(notice);
            }
        }
        notices.reverse();
        Ok(notices)
    }
}

/// Whether a file is as it was left. If that cannot be told, it counts as such.
fn is_still(workspace: &Path, file: &BodyFile) -> bool {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let path = workspace.join(std::ffi::OsStr::from_bytes(file.path.as_bytes()));
    let metadata = fs::symlink_metadata(&path);
    let Some(content) = &file.content else { return metadata.is_err() };
    let Ok(metadata) = metadata else { return false };
    let present = if metadata.is_symlink() {
        fs::read_link(&path).map(|target| target.into_os_string().into_vec())
    } else if metadata.is_file() && metadata.len() <= MAX_READ {
        fs::read(&path)
    } else {
        // The content of a directory is a tree.
        return true;
    };
    present.map_or(true, |present| Oid::of(Kind::Blob, &present).to_string() == *content)
}
