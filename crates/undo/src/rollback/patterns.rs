//! Patterns in place of paths, as in git: `takeback rollback 2 '*.py'`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use takeback_tree::{Lock, RelPath};

use super::RollbackError;
use super::plan::plan_files;
use super::planned::Goal;
use crate::Opened;

/// The prefix with which the user marks a path as one that is not a pattern, whatever characters
/// the path contains.
const LITERAL: &[u8] = b":(literal)";

/// The prefix of a path that is relative to the root of the workspace.
const TOP: &[u8] = b":/";

/// Marks a path as one that is not a pattern.
///
/// ```
/// use std::path::Path;
///
/// use takeback_undo::rollback::literal_path;
///
/// assert_eq!(literal_path(Path::new("a[1].txt")), Path::new(":(literal)a[1].txt"));
/// ```
pub fn literal_path(path: &Path) -> PathBuf {
    let bytes = [LITERAL, path.as_os_str().as_bytes()].concat();
    PathBuf::from(OsStr::from_bytes(&bytes))
}

/// Returns true if a path is marked as one that is not a pattern.
fn is_literal(typed: &Path) -> bool {
    typed.as_os_str().as_bytes().starts_with(LITERAL)
}

/// Removes the marks at the beginning of a path. Also returns true if the path is relative to the
/// root of the workspace.
pub(super) fn without_marks(typed: &Path) -> (&Path, bool) {
    let bytes = typed.as_os_str().as_bytes();
    let path = |bytes| Path::new(OsStr::from_bytes(bytes));
    match (bytes.strip_prefix(LITERAL), bytes.strip_prefix(TOP)) {
        (Some(rest), _) => (path(rest), false),
        (None, Some(rest)) => (path(rest), true),
        (None, None) => (typed, false),
    }
}

/// Replaces the patterns among the paths of a goal with the matching paths that would change. A
/// path is not a pattern if it exists under exactly that name, or if it contains a path that would
/// change. `typed` are the paths as the user typed them.
pub(super) fn expand_patterns(
    opened: &Opened,
    lock: &mut Lock<'_>,
    goal: &mut Goal,
    typed: &[PathBuf],
) -> Result<(), RollbackError> {
    let root = lock.workspace().path().to_owned();
    let is_there = |path: &RelPath| root.join(path.as_path()).symlink_metadata().is_ok();
    let literal: Vec<RelPath> = goal
        .paths
        .iter()
        .zip(typed)
        .filter(|(path, typed)| is_literal(typed) || !path.is_pattern() || is_there(path))
        .map(|(path, _)| path.clone())
        .collect();
    if literal.len() == goal.paths.len() {
        return Ok(());
    }
    let mut whole = Goal { paths: Vec::new(), skip_blocked: true, ..goal.clone() };
    let plan = plan_files(opened, lock, &mut whole)?;
    let skipped = whole.skipped.iter().map(|skipped| &skipped.path);
    let changing: Vec<&RelPath> =
        plan.writes.iter().chain(&plan.deletes).chain(&plan.guarded).chain(skipped).collect();
    let mut paths = Vec::new();
    for path in &goal.paths {
        let is_held = || changing.iter().any(|changing| changing.starts_with(path));
        if literal.contains(path) || is_held() {
            paths.push(path.clone());
            continue;
        }
        let known = paths.len();
        paths.extend(changing.iter().filter(|changing| changing.matches(path)).copied().cloned());
        if paths.len() == known {
            return Err(RollbackError::NoMatch(path.clone()));
        }
    }
    goal.paths = paths;
    Ok(())
}
