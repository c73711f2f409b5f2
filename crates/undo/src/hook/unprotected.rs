//! What a call may change and no checkpoint brings back, and whether the user knows of it.

use std::fmt;
use std::path::{Path, PathBuf};

use takeback_tree::UncoveredReason::Excluded;
use takeback_tree::{CaptureRules, RelPath, Uncovered, UncoveredReason};

use super::protected::ProtectedPath;
use super::state;
use crate::Opened;

/// The number of causes that are remembered for a session.
const MAX_CAUSES: usize = 1_000;

/// Something that a call may change or delete, and that no checkpoint brings back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unprotected {
    /// The file or directory, or the workspace if it cannot be told which file it is.
    pub path: PathBuf,
    /// The reason, as a clause for people.
    pub reason: String,
    /// True if it can be made again, or if the user chose not to keep copies of it.
    pub is_replaceable: bool,
    /// True if the user has not been told yet in this session.
    pub is_new: bool,
    /// True if it is remembered as a failure already.
    pub(super) is_noted: bool,
}

impl fmt::Display for Unprotected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

impl Unprotected {
    pub(super) fn new(path: &Path, reason: impl Into<String>) -> Unprotected {
        let (path, reason) = (path.to_owned(), reason.into());
        Unprotected { path, reason, is_replaceable: false, is_new: true, is_noted: false }
    }

    /// Describes a path that could not be captured, which is remembered already.
    pub(super) fn missed(path: &Path, reason: String) -> Unprotected {
        Unprotected { is_noted: true, ..Unprotected::new(path, reason) }
    }

    pub(super) fn replaceable(path: &Path, reason: impl Into<String>) -> Unprotected {
        Unprotected { is_replaceable: true, ..Unprotected::new(path, reason) }
    }
}

/// Finds what a call names or sweeps, and a capture does not cover.
pub(super) fn find_unprotected(path: &ProtectedPath, uncovered: &[Uncovered]) -> Vec<Unprotected> {
    let is_concerned = |found: &&Uncovered| {
        // A directory above a named path is uncovered except for that path.
        let is_named = |named| found.path.starts_with(named);
        let is_around =
            |swept: &RelPath| swept.starts_with(&found.path) && found.reason == Excluded;
        path.is_endangered_as_a_whole()
            || path.named.iter().any(is_named)
            || path.swept.iter().any(|swept| is_named(swept) || is_around(swept))
    };
    uncovered.iter().filter(is_concerned).map(|found| describe_uncovered(path, found)).collect()
}

fn describe_uncovered(path: &ProtectedPath, found: &Uncovered) -> Unprotected {
    let at = path.absolute(&found.path);
    let mib = |size: u64| size.div_ceil(1 << 20);
    match &found.reason {
        UncoveredReason::OverBudget { size } => {
            let (CaptureRules { max_named_size, max_files, .. }, size_mib) =
                (&path.rules, mib(*size));
            let limit = mib(*max_named_size);
            let reason = match size > max_named_size {
                true => format!("it has {size_mib} MiB, and max_named_mb allows {limit} per call"),
                false => format!(
                    "together, the call names more than max_named_mb ({limit} MiB) or max_files \
                     ({max_files}) allows"
                ),
            };
            Unprotected::new(&at, reason)
        }
        UncoveredReason::TooLarge { size } => {
            Unprotected::new(&at, format!("it is too large ({} MiB)", mib(*size)))
        }
        // Of what a call names, a capture leaves out only what can be made again.
        UncoveredReason::Excluded | UncoveredReason::Ignored => {
            Unprotected::replaceable(&at, "no copy is kept, because it can be made again")
        }
        UncoveredReason::Unreadable { error } => {
            Unprotected::new(&at, format!("it cannot be read: {error}"))
        }
        UncoveredReason::Special => {
            Unprotected::replaceable(&at, "it is a socket, pipe or device, which has no content")
        }
        UncoveredReason::Changing => Unprotected::new(&at, "it changed each time it was read"),
        UncoveredReason::Private => {
            Unprotected::new(&at, "it holds secrets, and config.toml has private = \"skip\"")
        }
        UncoveredReason::Nested => Unprotected::new(&at, "it is a nested repository"),
    }
}

/// Remembers the causes that a session is told about, and returns true for those that it has not
/// been told about before.
pub fn remember_causes(opened: &Opened, session: &str, causes: &[String]) -> Vec<bool> {
    if causes.is_empty() {
        return Vec::new();
    }
    let path = opened.checkpoints_directory().join("told").join(state::file_name(&[session]));
    let mut known: Vec<String> = state::read(&path).unwrap_or_default();
    let keys: Vec<String> = causes.iter().map(|cause| state::file_name(&[cause])).collect();
    let is_new: Vec<bool> = keys.iter().map(|key| !known.contains(key)).collect();
    if is_new.contains(&true) {
        let new = keys.into_iter().zip(&is_new).filter(|(_, is_new)| **is_new);
        known.extend(new.map(|(key, _)| key));
        let excess = known.len().saturating_sub(MAX_CAUSES);
        known.drain(..excess);
        // If this cannot be written, the user is told again.
        let _ = state::write(&path, &known);
    }
    is_new
}
