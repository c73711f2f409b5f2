//! Notices that tell agents, before their next turn, which files were restored, and which effects
//! remain.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use takeback_base::errors::error_chain;
use takeback_ledger::{Event, Ledger, LedgerError, Time};
use takeback_tree::{ObjectKind, Oid, RelPath, Workspace};

use crate::Opened;
use crate::history::record::{Checkpoint, RollbackRecord};
use crate::history::{EffectView, History};
use crate::rollback::{MovedSession, RollbackView};

/// The maximum number of paths that a notice names.
const MAX_NAMED: usize = 200;

/// The longest time that `take_notices` waits for other processes that are writing to the ledger.
const LEDGER_WAIT: Duration = Duration::from_millis(200);

/// The maximum size of a file that is read to see whether it has changed again.
const MAX_READ: u64 = 64 << 20;

/// The kind of a notice for an agent that still knows what was taken back.
const ROLLBACK: &str = "rollback";

/// The field of a [`ROLLBACK`] notice that lists the files that were left unchanged. It is read
/// only if the agent's own conversation is taken back later.
const LEFT_BEHIND: &str = "left_behind";

/// The kind of a notice for an agent whose own conversation was taken back.
const REWOUND: &str = "rewound";

/// A message that a session's agent must receive before its next turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notice {
    /// The workspace in which files were restored.
    pub workspace: PathBuf,
    /// The files that the notice names. Files that changed after the rollback are left out. Empty
    /// if only the conversation was taken back.
    pub files: Vec<NoticeFile>,
    /// The number of additional files that the notice does not name.
    pub more: usize,
    /// The effects that the rollback did not reverse.
    pub effects: Vec<EffectView>,
    /// The prompt that was taken back, if the agent's own conversation still contains it.
    pub taken_back: Option<TakenBack>,
    /// True if the agent's own conversation was taken back as well, so the agent no longer knows
    /// about the work that was undone.
    pub is_rewound: bool,
    /// The files that were left unchanged.
    pub left: Vec<RelPath>,
    /// The directory that the conversation worked in before it was forked into the workspace.
    pub forked_from: Option<PathBuf>,
}

/// A prompt that was taken back with everything that followed from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenBack {
    /// The beginning of the prompt.
    pub prompt: String,
    /// The number of later prompts that were taken back as well.
    pub later: usize,
}

/// A file that was restored or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticeFile {
    /// The path in the workspace.
    pub path: RelPath,
    /// True if the rollback deleted the file.
    pub is_gone: bool,
}

/// The part of a rollback that notices report.
pub(super) struct RollbackSummary<'a> {
    pub(crate) checkpoint: Oid,
    pub(crate) restored: &'a [RelPath],
    pub(crate) deleted: &'a [RelPath],
    pub(crate) effects: &'a [EffectView],
    /// The state after the rollback.
    pub(crate) tree: Oid,
    /// The conversations that were moved to another point.
    pub(crate) moved: &'a [MovedSession],
    /// The files that were left unchanged.
    pub(crate) left: Vec<RelPath>,
}

/// Leaves a notice for each of the given sessions.
pub(super) fn leave(
    opened: &Opened,
    workspace: &Workspace<'_>,
    summary: &RollbackSummary<'_>,
    sessions: &BTreeSet<String>,
    now: Time,
) -> Result<(), String> {
    if sessions.is_empty() {
        return Ok(());
    }
    let Some(mut ledger) = opened.ledger().map_err(|error| error_chain(&error))? else {
        return Ok(());
    };
    let mut body = write_body(workspace, summary);
    for session in sessions {
        let moved = summary.moved.iter().find(|moved| moved.session == *session);
        body["taken_back"] = json!(moved.and_then(describe_taken_back));
        body["brought_back"] = json!(moved.is_some_and(|moved| moved.redone_messages > 0));
        match ledger.add_notice(session, &body, now) {
            // The session was deleted, or its events never reached the ledger.
            Ok(_) | Err(LedgerError::NoSuchSession(_)) => {}
            Err(error) => return Err(error_chain(&error)),
        }
    }
    Ok(())
}

/// The maximum number of characters of a prompt that a notice quotes.
const MAX_PROMPT: usize = 200;

fn describe_taken_back(moved: &MovedSession) -> Option<TakenBack> {
    let prompt = moved.prompt.as_ref()?;
    let later = moved.undone_turns.saturating_sub(1);
    Some(TakenBack { prompt: prompt.chars().take(MAX_PROMPT).collect(), later })
}

/// Leaves a notice for a session after the agent's own conversation was taken back as well. The
/// agent no longer knows about the work that was undone, so the notice reports only the files and
/// effects that remain.
pub(super) fn leave_for_rewound(
    opened: &Opened,
    session: &str,
    workspace: &Path,
    view: &RollbackView,
) -> Result<(), LedgerError> {
    let left = list_left(view);
    if left.is_empty() && view.effects.is_empty() {
        return Ok(());
    }
    let body = json!({
        "kind": REWOUND,
        "workspace": workspace.display().to_string(),
        "left": left,
        "effects": view.effects,
    });
    let Some(mut ledger) = opened.ledger()? else { return Ok(()) };
    ledger.add_notice(session, &body, opened.now()).map(drop)
}

/// Lists the files that a rollback left unchanged.
pub(super) fn list_left(view: &RollbackView) -> Vec<RelPath> {
    let conflicts = view.conflicts.iter().filter(|conflict| !conflict.resolved);
    conflicts
        .map(|conflict| &conflict.path)
        .chain(&view.uncertain)
        .chain(view.skipped.iter().map(|skipped| &skipped.path))
        .take(MAX_NAMED)
        .cloned()
        .collect()
}

/// Replaces a session's waiting notices about rollbacks, after the conversation has been taken back
/// inside the agent. The new notice reports only the files that were left unchanged, and the
/// effects.
pub fn leave_in_place(opened: &Opened, session: &str) -> Result<(), LedgerError> {
    let Some(mut ledger) = opened.ledger()? else { return Ok(()) };
    let workspace = json!(ledger.session(session)?.workspace);
    let mut settled = ledger.waiting_notices(session)?;
    settled
        .retain(|notice| notice.body["kind"] == ROLLBACK && notice.body["workspace"] == workspace);
    let list = |field: &str| -> Vec<Value> {
        let lists = settled.iter().filter_map(|notice| notice.body[field].as_array());
        lists.flatten().cloned().collect()
    };
    let (left, effects) = (list(LEFT_BEHIND), list("effects"));
    let now = opened.now();
    // If this process is killed between these steps, the model is told more than necessary.
    if !left.is_empty() || !effects.is_empty() {
        let body =
            json!({ "kind": REWOUND, "workspace": workspace, "left": left, "effects": effects });
        ledger.add_notice(session, &body, now)?;
    }
    let ids = settled.iter().map(|notice| notice.id).collect();
    let event = Event::NoticesDelivered { session: session.to_owned(), ids };
    ledger.record(&[event], LEDGER_WAIT, now).map(drop)
}

/// Leaves a notice for a session that was forked into another directory, because its conversation
/// names the old directory.
pub fn leave_for_fork(
    opened: &Opened,
    session: &str,
    from: &Path,
    to: &Path,
) -> Result<(), LedgerError> {
    let body = json!({
        "kind": "forked",
        "workspace": to.display().to_string(),
        "forked_from": from.display().to_string(),
    });
    let Some(mut ledger) = opened.ledger()? else { return Ok(()) };
    ledger.add_notice(session, &body, opened.now()).map(drop)
}

/// Leaves the notices for a rollback that was interrupted and has now been finished.
pub(super) fn leave_after_recovery(
    opened: &Opened,
    workspace: &Workspace<'_>,
    history: &History,
    safety: &Checkpoint,
    done: &RollbackRecord,
) -> Result<(), String> {
    let changes = workspace.store().changed_paths(&safety.pin.tree, &done.tree);
    let (mut restored, mut deleted) = (Vec::new(), Vec::new());
    for change in changes.map_err(|error| error_chain(&error))? {
        if done.is_about(&change.path) {
            let list = if change.to.is_some() { &mut restored } else { &mut deleted };
            list.push(change.path);
        }
    }
    let summary = RollbackSummary {
        checkpoint: done.to,
        restored: &restored,
        deleted: &deleted,
        effects: &[],
        tree: done.tree,
        moved: &[],
        left: Vec::new(),
    };
    leave(opened, workspace, &summary, &history.sessions(), safety.record.moment())
}

/// Builds the body of a notice for the ledger. The ids in the body show later whether the files
/// have changed again. A directory is named only if it is empty. Otherwise, its files are named.
fn write_body(workspace: &Workspace<'_>, summary: &RollbackSummary<'_>) -> Value {
    let store = workspace.store();
    let entry = |path: &RelPath| store.find_entry(&summary.tree, path).ok().flatten();
    let mut files = Vec::new();
    let mut count = summary.deleted.len();
    for (number, path) in summary.restored.iter().enumerate() {
        if files.len() == MAX_NAMED {
            count += summary.restored.len() - number;
            break;
        }
        let content = match entry(path) {
            Some((mode, id)) if mode.is_directory() && id != Oid::EMPTY_TREE => continue,
            entry => entry.map(|(_, id)| id.to_string()),
        };
        count += 1;
        files.push(json!({ "path": path, "content": content }));
    }
    let gone = summary.deleted.iter().map(|path| json!({ "path": path, "content": null }));
    files.extend(gone.take(MAX_NAMED - files.len()));
    json!({
        "kind": ROLLBACK,
        LEFT_BEHIND: summary.left,
        "workspace": workspace.path().display().to_string(),
        "checkpoint": summary.checkpoint.to_string(),
        "files": files,
        "file_count": count,
        "effects": summary.effects,
    })
}

/// A notice as read from the ledger.
#[derive(Deserialize)]
struct Body {
    workspace: PathBuf,
    #[serde(default)]
    files: Vec<Value>,
    #[serde(default)]
    file_count: usize,
    #[serde(default)]
    effects: Vec<EffectView>,
    #[serde(default)]
    taken_back: Option<TakenBack>,
    /// True if messages were restored, so earlier notices about them no longer hold.
    #[serde(default)]
    brought_back: bool,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    left: Vec<RelPath>,
    #[serde(default)]
    forked_from: Option<PathBuf>,
}

#[derive(Deserialize)]
struct BodyFile {
    path: RelPath,
    content: Option<String>,
}

/// Takes the notices that are waiting for a session, so that each is delivered once. Leaves out
/// files that have changed again, and drops a notice that then reports nothing but effects. A
/// notice that is only about a conversation never names files, so it is kept even if it reports
/// only effects.
pub fn take_notices(opened: &Opened, session: &str) -> Result<Vec<Notice>, String> {
    let Some(mut ledger) = opened.ledger().map_err(|error| error_chain(&error))? else {
        return Ok(Vec::new());
    };
    ledger.set_wait(LEDGER_WAIT);
    if !ledger.has_notices(session).map_err(|error| error_chain(&error))? {
        return Ok(Vec::new());
    }
    let taken = ledger.take_notices(session, opened.now()).map_err(|error| error_chain(&error))?;
    Ok(read_bodies(taken))
}

/// Reads the notices that are waiting for a session, as [`take_notices`] does. Also returns their
/// ids, for [`Event::NoticesDelivered`](takeback_ledger::Event::NoticesDelivered).
pub fn read_notices(
    ledger: &Ledger,
    session: &str,
) -> Result<(Vec<Notice>, Vec<i64>), LedgerError> {
    let waiting = ledger.waiting_notices(session)?;
    let ids = waiting.iter().map(|notice| notice.id).collect();
    Ok((read_bodies(waiting), ids))
}

fn read_bodies(taken: Vec<takeback_ledger::Notice>) -> Vec<Notice> {
    let mut seen = BTreeSet::new();
    let mut notices = Vec::new();
    let mut is_brought_back = false;
    // The latest notice comes first, because it overrides older ones for the files that it names.
    for taken in taken.into_iter().rev() {
        let Ok(body) = serde_json::from_value::<Body>(taken.body) else { continue };
        let mut notice = Notice {
            more: body.file_count.saturating_sub(body.files.len()),
            effects: body.effects,
            taken_back: body.taken_back.filter(|_| !is_brought_back),
            is_rewound: body.kind == REWOUND,
            left: body.left,
            forked_from: body.forked_from,
            ..Notice::default()
        };
        is_brought_back |= body.brought_back;
        for file in body.files {
            let Ok(file) = serde_json::from_value::<BodyFile>(file) else { continue };
            let is_new = seen.insert((body.workspace.clone(), file.path.clone()));
            if is_new && is_unchanged(&body.workspace, &file) {
                let is_gone = file.content.is_none();
                notice.files.push(NoticeFile { path: file.path, is_gone });
            }
        }
        notice.workspace = body.workspace;
        let is_about_effects = body.file_count == 0 && !notice.effects.is_empty();
        let is_about_more =
            notice.taken_back.is_some() || !notice.left.is_empty() || notice.forked_from.is_some();
        if !notice.files.is_empty() || notice.more > 0 || is_about_effects || is_about_more {
            notices.push(notice);
        }
    }
    notices.reverse();
    notices
}

/// Returns true if a file is still as the rollback left it, or if that cannot be determined.
fn is_unchanged(workspace: &Path, file: &BodyFile) -> bool {
    use std::os::unix::ffi::OsStringExt;
    let path = workspace.join(file.path.as_path());
    let metadata = fs::symlink_metadata(&path);
    let Some(content) = &file.content else { return metadata.is_err() };
    let Ok(metadata) = metadata else { return false };
    let present = if metadata.is_symlink() {
        fs::read_link(&path).map(|target| target.into_os_string().into_vec())
    } else if metadata.is_file() && metadata.len() <= MAX_READ {
        fs::read(&path)
    } else {
        // A directory has no content to compare, and a large file is not read.
        return true;
    };
    present.map_or(true, |present| Oid::of(ObjectKind::Blob, &present).to_string() == *content)
}
