//! The paths that a call may change: the workspace it works in, and the paths it names elsewhere.

use std::collections::BTreeSet;
use std::fs;
use std::iter;
use std::path::Path;

use serde::{Deserialize, Serialize};
use takeback_base::paths::{canonicalize, canonicalize_parent};
use takeback_tree::{AnyPath, CaptureError, CaptureRules, RelPath, Workspace, WorkspaceError};

use super::call::{CallContext, analyze_call};
use crate::Opened;
use crate::history::TakeError;
use crate::root::root_of;

/// The number of paths outside the workspace that are captured for one call.
const MAX_OUTSIDE_PATHS: usize = 16;

/// The number of files up to which a directory outside any project is captured.
const MAX_OUTSIDE_FILES: u64 = 2_000;

/// A directory or a single file that is captured as a separate workspace.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum PathKind {
    Directory(AnyPath),
    File(AnyPath),
}

/// A path that a call may change, and how it is captured.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct ProtectedPath {
    pub(super) kind: PathKind,
    pub(super) rules: CaptureRules,
    pub(super) named: Vec<RelPath>,
}

/// Finds everything that a call may change. Also returns how many more paths the call names
/// outside the workspace than are captured.
pub(super) fn find_protected_paths(
    opened: &Opened,
    call: &CallContext<'_>,
) -> (Vec<ProtectedPath>, usize) {
    let (root, directory) = (call.root(), &call.workplace.directory);
    let mut main = ProtectedPath::new(opened, PathKind::Directory(root.into()));
    let named = call.call.paths().iter().flat_map(|path| {
        let path = canonicalize_parent(&directory.join(path));
        // Writing to a link writes to its target.
        let target = fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink());
        let target = target.then(|| canonicalize(&path).ok()).flatten();
        iter::once(path).chain(target)
    });
    let outside = call.analysis.as_ref().map(|analysis| analysis.outside.as_slice());
    let outside = outside.unwrap_or_default().iter();
    let outside = outside.map(|path| canonicalize_parent(&directory.join(path)));
    let mut elsewhere = Vec::new();
    let mut seen = BTreeSet::new();
    for path in named.chain(outside) {
        if !seen.insert(path.clone()) {
            continue;
        }
        match path.strip_prefix(root) {
            Ok(inner) if call.workplace.is_workspace => main.named.extend(relative_path(inner)),
            _ => elsewhere.push(path),
        }
    }
    let left_out = elsewhere.len().saturating_sub(MAX_OUTSIDE_PATHS);
    elsewhere.truncate(MAX_OUTSIDE_PATHS);
    let mut protected: Vec<ProtectedPath> =
        elsewhere.iter().filter_map(|path| protect_elsewhere(opened, path)).collect();
    // A root that cannot be a workspace is a failure only if there is nothing else to protect.
    if call.workplace.is_workspace || protected.is_empty() {
        protected.insert(0, main);
    }
    (remove_duplicates(protected), left_out)
}

/// Finds the paths to protect instead of a workspace that is too large: the inner project that the
/// call works in, and each path that the call names. Those that were tried are left out.
pub(super) fn find_substitutes(
    opened: &Opened,
    failed: &ProtectedPath,
    error: &TakeError,
    call: &CallContext<'_>,
    tried: &[PathKind],
) -> Vec<ProtectedPath> {
    if !matches!(error, TakeError::Capture(CaptureError::TooManyFiles { .. })) {
        return Vec::new();
    }
    let directory = &call.workplace.directory;
    let project = opened.find_root(directory).ok().filter(|root| root != failed.path());
    let project =
        project.map(|root| ProtectedPath::new(opened, PathKind::Directory(AnyPath(root))));
    let analysis = analyze_call(opened, call.call, directory, None);
    let outside = analysis.map(|analysis| analysis.outside).unwrap_or_default().into_iter();
    let outside = outside.map(|path| canonicalize_parent(&directory.join(path)));
    let named = failed.named.iter().map(|named| failed.path().join(named.as_path()));
    let single = named.chain(outside).take(MAX_OUTSIDE_PATHS).filter_map(|path| {
        match protect_elsewhere(opened, &path) {
            // In a workspace that is too large, a file is protected on its own.
            Some(larger) if tried.contains(&larger.kind) => {
                let file = PathKind::File(AnyPath(path.clone()));
                path.is_file().then(|| ProtectedPath::new(opened, file))
            }
            other => other,
        }
    });
    let all = project.into_iter().chain(single).filter(|found| !tried.contains(&found.kind));
    remove_duplicates(all.collect())
}

/// Decides how to protect a path that is not in the session's workspace: with the workspace around
/// it, or on its own.
fn protect_elsewhere(opened: &Opened, path: &Path) -> Option<ProtectedPath> {
    let is_directory = path.is_dir();
    let directory = if is_directory { Some(path) } else { path.parent() };
    let directory = directory.filter(|directory| directory.is_dir())?;
    let root = root_of(directory, &opened.forbidden).ok()?;
    if root.is_project {
        let named = path.strip_prefix(&root.path).ok().and_then(relative_path);
        let mut protected = ProtectedPath::new(opened, PathKind::Directory(AnyPath(root.path)));
        protected.named.extend(named);
        return Some(protected);
    }
    if is_directory {
        let mut protected = ProtectedPath::new(opened, PathKind::Directory(path.into()));
        protected.rules.max_files = protected.rules.max_files.min(MAX_OUTSIDE_FILES);
        return Some(protected);
    }
    // A new temporary file has nothing to lose.
    if opened.forbidden.is_temporary(path) && fs::symlink_metadata(path).is_err() {
        return None;
    }
    Some(ProtectedPath::new(opened, PathKind::File(path.into())))
}

impl ProtectedPath {
    fn new(opened: &Opened, kind: PathKind) -> ProtectedPath {
        ProtectedPath { kind, rules: opened.rules.clone(), named: Vec::new() }
    }

    pub(super) fn path(&self) -> &Path {
        match &self.kind {
            PathKind::Directory(path) | PathKind::File(path) => &path.0,
        }
    }

    /// Opens the path as a workspace.
    pub(super) fn open<'o>(&self, opened: &'o Opened) -> Result<Workspace<'o>, WorkspaceError> {
        let store = opened.store()?;
        match &self.kind {
            PathKind::Directory(path) => store.workspace(&path.0, &opened.forbidden),
            PathKind::File(path) => store.single_file(&path.0, &opened.forbidden),
        }
    }
}

fn remove_duplicates(mut protected: Vec<ProtectedPath>) -> Vec<ProtectedPath> {
    let mut seen = Vec::new();
    protected.retain(|path| {
        let is_new = !seen.contains(&path.kind);
        seen.push(path.kind.clone());
        is_new
    });
    protected
}

fn relative_path(path: &Path) -> Option<RelPath> {
    RelPath::from_path(path).ok().filter(|path| !path.is_root())
}
