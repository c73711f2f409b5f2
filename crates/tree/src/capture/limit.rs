//! A note that a workspace has too many files, or is larger than the size limit of the store.
//! Because of this note, later captures fail immediately instead of scanning the workspace again.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use takeback_base::durable::{self, Durability};

use super::{CaptureContext, CaptureError, CaptureOptions, fingerprint, to_nanoseconds};
use crate::beneath;
use crate::rules::CaptureRules;

const NAME: &str = "limit";
/// The time after which a capture of the workspace is tried again, in nanoseconds.
const RETRY_AFTER: i64 = 3_600_000_000_000;

/// A note that a workspace has too many files or bytes.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct LimitNote {
    /// The time of the abandoned capture, in nanoseconds since 1970.
    time: i64,
    /// The size limit that the capture exceeded, in bytes; `None` if there were too many files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_size: Option<u64>,
    #[serde(flatten)]
    glance: Glance,
}

/// The facts about a workspace that are cheap to check. If they change, another attempt at a
/// capture is worthwhile.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Glance {
    /// The fingerprint of the rules.
    rules: u64,
    /// The maximum number of files under those rules.
    max_files: u64,
    /// The modification time, change time and size of the topmost `.gitignore`.
    gitignore: Option<(i64, i64, u64)>,
    /// The number of names in the root directory.
    names: usize,
}

impl Glance {
    fn take(context: &CaptureContext<'_>, options: &CaptureOptions<'_>) -> Option<Glance> {
        let gitignore = beneath::stat_at(context.root, b".gitignore").ok();
        Some(Glance {
            rules: fingerprint(options.rules, context.own.as_ref()),
            max_files: options.rules.max_files,
            gitignore: gitignore.map(|stat| (stat.mtime, stat.ctime, stat.size)),
            names: beneath::list_names(context.root).ok()?.len(),
        })
    }
}

/// Returns the error with which a recent capture failed, if nothing suggests that another capture
/// would succeed.
pub(crate) fn find_known(
    directory: &Path,
    context: &CaptureContext<'_>,
    options: &CaptureOptions<'_>,
) -> Option<CaptureError> {
    let noted = read_note(directory)?;
    let error = match noted.max_size {
        None => CaptureError::TooManyFiles { limit: options.rules.max_files },
        Some(size) if context.max_size > size => return None,
        Some(_) => CaptureError::TooLarge { limit: context.max_size },
    };
    let now = to_nanoseconds(options.now);
    let is_recent = (noted.time..noted.time.saturating_add(RETRY_AFTER)).contains(&now);
    let is_same = is_recent
        && Glance::take(context, options).is_some_and(|glance| {
            // An entry that disappeared may have been the directory with too many files.
            glance.names >= noted.glance.names
                && Glance { names: noted.glance.names, ..glance } == noted.glance
        });
    is_same.then_some(error)
}

/// Records that a capture found too many files or bytes.
pub(crate) fn note(
    directory: &Path,
    context: &CaptureContext<'_>,
    options: &CaptureOptions<'_>,
    error: &CaptureError,
) {
    let Some(glance) = Glance::take(context, options) else { return };
    let max_size = match error {
        CaptureError::TooLarge { limit } => Some(*limit),
        _ => None,
    };
    let noted = LimitNote { time: to_nanoseconds(options.now), max_size, glance };
    let text = serde_json::to_vec(&noted).expect("plain data serializes to JSON");
    // Without the note, the next capture is slower, but not wrong.
    let (temporary, path) = (context.store.temporary(), directory.join(NAME));
    let _ = durable::replace_file_through(&temporary, &path, &text, Durability::Cached);
}

/// Deletes the note that a workspace is too large, if the note was written when these rules
/// applied.
pub(crate) fn withdraw(directory: &Path, context: &CaptureContext<'_>, rules: &CaptureRules) {
    let Some(noted) = read_note(directory) else { return };
    if noted.glance.rules == fingerprint(rules, context.own.as_ref()) {
        forget(directory);
    }
}

fn read_note(directory: &Path) -> Option<LimitNote> {
    serde_json::from_slice(&fs::read(directory.join(NAME)).ok()?).ok()
}

/// Deletes the note that a workspace is too large.
pub(crate) fn forget(directory: &Path) {
    let _ = fs::remove_file(directory.join(NAME));
}
