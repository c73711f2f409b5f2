//! Paths that a call may change and that no checkpoint can restore. The user is told about each of
//! them once per session.

use std::fmt;
use std::path::{Path, PathBuf};

use takeback_tree::UncoveredReason::Excluded;
use takeback_tree::{CaptureRules, RelPath, Uncovered, UncoveredReason};

use super::protected::ProtectedPath;
use super::state;
use crate::Opened;

/// The maximum number of warning causes that are remembered for a session.
const MAX_CAUSES: usize = 1_000;

/// A path that a call may change or delete and that no checkpoint can restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unprotected {
    /// The file or directory, or the workspace if the file is unknown.
    pub path: PathBuf,
    /// The reason, as a clause to show to the user.
    pub reason: String,
    /// True if the path can be regenerated, or if the user chose not to keep copies of it.
    pub is_replaceable: bool,
    /// True if the user has not been told about the path in this session yet.
    pub is_new: bool,
    /// True if the path is already remembered as a failure.
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

    /// Describes a path that could not be captured. The failure is already remembered.
    pub(super) fn missed(path: &Path, reason: String) -> Unprotected {
        Unprotected { is_noted: true, ..Unprotected::new(path, reason) }
    }

    pub(super) fn replaceable(path: &Path, reason: impl Into<String>) -> Unprotected {
        Unprotected { is_replaceable: true, ..Unprotected::new(path, reason) }
    }
}

/// Finds the paths that a call names or sweeps, but that a capture does not cover.
pub(super) fn find_unprotected(path: &ProtectedPath, uncovered: &[Uncovered]) -> Vec<Unprotected> {
    let is_concerned = |found: &&Uncovered| {
        // An uncovered directory above a named path does not matter: the named path is captured.
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
                true => format!("it is {size_mib} MiB, and max_named_mb allows {limit} per call"),
                false => format!(
                    "in total, the call names more than max_named_mb ({limit} MiB) or max_files \
                     ({max_files}) allows"
                ),
            };
            Unprotected::new(&at, reason)
        }
        UncoveredReason::TooLarge { size } => {
            Unprotected::new(&at, format!("it is too large ({} MiB)", mib(*size)))
        }
        // Of the paths that a call names, the rules exclude only those that can be regenerated.
        UncoveredReason::Excluded | UncoveredReason::Ignored => {
            Unprotected::replaceable(&at, "no copy is kept, because it can be regenerated")
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

/// Remembers the causes of the warnings that the user gets in a session. For each cause, returns
/// true if it is new to the session.
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
        // If the file cannot be written, the user is told again.
        let _ = state::write(&path, &known);
    }
    is_new
}
