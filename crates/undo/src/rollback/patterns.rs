//! Patterns in place of paths, as in git: `takeback rollback 2 '*.py'`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use takeback_tree::{Lock, RelPath};

use super::RollbackError;
use super::plan::plan_files;
use super::planned::Goal;
use crate::Opened;

/// The prefix that marks a path as literal: `*` and other special characters in it have no meaning.
const LITERAL: &[u8] = b":(literal)";

/// The paths that a request or a comparison is about.
///
/// ```
/// use takeback_tree::RelPath;
/// use takeback_undo::rollback::ChosenPaths;
///
/// let path = |text: &str| RelPath::from_path(text.as_ref()).unwrap();
/// let chosen =
///     ChosenPaths { included: vec![path("*.py")], excluded: vec![path("tests")] };
/// assert!(chosen.contains(&path("src/cart.py")));
/// assert!(!chosen.contains(&path("tests/cart.py")));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChosenPaths {
    /// Files, directories and patterns. If there are none, all paths are chosen.
    pub included: Vec<RelPath>,
    /// Files, directories and patterns that are left out.
    pub excluded: Vec<RelPath>,
}

impl From<Vec<RelPath>> for ChosenPaths {
    fn from(included: Vec<RelPath>) -> ChosenPaths {
        ChosenPaths { included, excluded: Vec::new() }
    }
}

impl ChosenPaths {
    /// Returns true if no path was given.
    pub fn is_everything(&self) -> bool {
        self.included.is_empty() && self.excluded.is_empty()
    }

    /// Returns true if the paths are plain files and directories, without patterns or exclusions.
    pub(crate) fn is_plain(&self) -> bool {
        self.excluded.is_empty() && !self.included.iter().any(RelPath::is_pattern)
    }

    /// Returns true if a path is chosen: it is included, and not excluded.
    pub fn contains(&self, path: &RelPath) -> bool {
        let fits = |chosen: &RelPath| path.starts_with(chosen) || path.matches(chosen);
        (self.included.is_empty() || self.included.iter().any(fits)) && !self.excludes(path)
    }

    fn excludes(&self, path: &RelPath) -> bool {
        self.excluded.iter().any(|excluded| path.starts_with(excluded) || path.matches(excluded))
    }
}

/// The marks before a path, as in git's pathspecs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// The path is not a pattern.
    pub(super) is_literal: bool,
    /// The path is relative to the root of the workspace.
    pub(super) is_from_top: bool,
    /// The path is left out.
    pub(super) is_excluded: bool,
}

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

/// Splits the marks from the beginning of a path: `:(exclude,top)docs`, or `:!/docs` for short. If
/// a mark is unknown, the whole text is treated as a path that has no marks and happens to begin
/// with a colon.
pub(super) fn split_marks(typed: &Path) -> (Marks, &Path) {
    let found = typed.as_os_str().as_bytes().strip_prefix(b":").and_then(|rest| {
        match rest.strip_prefix(b"(") {
            Some(rest) => read_long_marks(rest),
            None => Some(read_short_marks(rest)),
        }
    });
    match found {
        Some((marks, rest)) if marks != Marks::default() => {
            (marks, Path::new(OsStr::from_bytes(rest)))
        }
        _ => (Marks::default(), typed),
    }
}

fn read_long_marks(text: &[u8]) -> Option<(Marks, &[u8])> {
    let end = text.iter().position(|byte| *byte == b')')?;
    let mut marks = Marks::default();
    for word in text[..end].split(|byte| *byte == b',') {
        match word {
            b"literal" => marks.is_literal = true,
            b"top" => marks.is_from_top = true,
            b"exclude" => marks.is_excluded = true,
            _ => return None,
        }
    }
    Some((marks, &text[end + 1..]))
}

fn read_short_marks(text: &[u8]) -> (Marks, &[u8]) {
    let mut marks = Marks::default();
    let mut rest = text;
    loop {
        match rest {
            [b'/', tail @ ..] if !marks.is_from_top => (marks.is_from_top, rest) = (true, tail),
            [b'!' | b'^', tail @ ..] => (marks.is_excluded, rest) = (true, tail),
            _ => return (marks, rest),
        }
    }
}

/// Replaces the patterns among the paths of a goal with the matching paths that would change, and
/// removes the excluded paths. A path that looks like a pattern is taken literally if it exists
/// under exactly that name, or if it contains a path that would change. `typed` lists the paths as
/// the user typed them.
pub(super) fn expand_patterns(
    opened: &Opened,
    lock: &mut Lock<'_>,
    goal: &mut Goal,
    chosen: &ChosenPaths,
    typed: &[PathBuf],
) -> Result<(), RollbackError> {
    let root = lock.workspace().path().to_owned();
    let is_there = |path: &RelPath| root.join(path.as_path()).symlink_metadata().is_ok();
    let typed = typed.iter().map(|typed| split_marks(typed).0);
    let literal: Vec<&RelPath> = chosen
        .included
        .iter()
        .zip(typed.filter(|marks| !marks.is_excluded))
        .filter(|(path, marks)| marks.is_literal || !path.is_pattern() || is_there(path))
        .map(|(path, _)| path)
        .collect();
    if literal.len() == chosen.included.len() && chosen.excluded.is_empty() {
        return Ok(());
    }
    let mut whole = Goal { paths: Vec::new(), skip_blocked: true, ..goal.clone() };
    let plan = plan_files(opened, lock, &mut whole)?;
    let skipped = whole.skipped.iter().map(|skipped| &skipped.path);
    let changing: Vec<&RelPath> =
        plan.writes.iter().chain(&plan.deletes).chain(&plan.guarded).chain(skipped).collect();
    let everything = [RelPath::root()];
    let included = if chosen.included.is_empty() { &everything[..] } else { &chosen.included };
    let mut paths = Vec::new();
    for path in included {
        let is_below = |changing: &&RelPath| changing.starts_with(path);
        let has_changes = changing.iter().any(is_below);
        if literal.contains(&path) || has_changes {
            match has_changes && !chosen.excluded.is_empty() {
                true => paths.extend(changing.iter().filter(|path| is_below(path)).copied()),
                false => paths.push(path),
            }
            continue;
        }
        let known = paths.len();
        paths.extend(changing.iter().filter(|changing| changing.matches(path)).copied());
        if paths.len() == known {
            return Err(RollbackError::NoMatch(path.clone()));
        }
    }
    paths.retain(|path| !chosen.excludes(path));
    if paths.is_empty() {
        return Err(RollbackError::NothingLeft);
    }
    let paths = paths.into_iter().cloned().collect();
    goal.paths = paths;
    Ok(())
}
