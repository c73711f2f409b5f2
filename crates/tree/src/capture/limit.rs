//! The note that a workspace has too many files, so that the next captures need not find that out
//! again.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use takeback_base::durable::{self, Durability};

use super::{CaptureContext, CaptureOptions, fingerprint, to_nanoseconds};
use crate::beneath;

const NAME: &str = "limit";
/// The time after which a workspace is tried again, in nanoseconds.
const RETRY_AFTER: i64 = 3_600_000_000_000;

/// A workspace that has too many files, as far as a glance at it shows.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct LimitNote {
    /// The time of the capture that found it out, in nanoseconds since 1970.
    time: i64,
    #[serde(flatten)]
    glance: Glance,
}

/// The facts about a workspace that show cheaply that it is worth another try.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Glance {
    /// The fingerprint of the rules.
    rules: u64,
    /// The number of files that was allowed.
    max_files: u64,
    /// The modification time, change time and size of the topmost `.gitignore`.
    gitignore: Option<(i64, i64, u64)>,
    /// The number of names in the root.
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

/// True if a recent capture found too many files, and nothing suggests that another one would not.
pub(crate) fn is_known(
    directory: &Path,
    context: &CaptureContext<'_>,
    options: &CaptureOptions<'_>,
) -> bool {
    let Ok(text) = fs::read(directory.join(NAME)) else { return false };
    let Ok(noted) = serde_json::from_slice::<LimitNote>(&text) else { return false };
    let now = to_nanoseconds(options.now);
    let is_recent = (noted.time..noted.time.saturating_add(RETRY_AFTER)).contains(&now);
    is_recent
        && Glance::take(context, options).is_some_and(|glance| {
            // A name that went may have been the directory with too many files.
            glance.names >= noted.glance.names
                && Glance { names: noted.glance.names, ..glance } == noted.glance
        })
}

/// Notes that a capture found too many files.
pub(crate) fn note(directory: &Path, context: &CaptureContext<'_>, options: &CaptureOptions<'_>) {
    let Some(glance) = Glance::take(context, options) else { return };
    let noted = LimitNote { time: to_nanoseconds(options.now), glance };
    let text = serde_json::to_vec(&noted).expect("plain data becomes JSON");
    // Without the note, the next capture is only slower.
    let (temporary, path) = (context.store.temporary(), directory.join(NAME));
    let _ = durable::replace_file_through(&temporary, &path, &text, Durability::Cached);
}

/// Forgets that a workspace has too many files.
pub(crate) fn forget(directory: &Path) {
    let _ = fs::remove_file(directory.join(NAME));
}
