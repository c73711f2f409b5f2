//! The paths that a call may change: the workspace that the call works in, and the paths that it
//! names elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use takeback_base::paths::{canonicalize, canonicalize_or_keep, canonicalize_parent};
use takeback_tree::{AnyPath, CaptureError, CaptureRules, RelPath, Workspace, WorkspaceError};

use super::call::CallContext;
use super::report::ToolCall;
use super::repositories::{Repositories, may_delete_directories};
use super::unprotected::Unprotected;
use crate::Opened;
use crate::history::TakeError;
use crate::history::record::clean_reason;
use crate::open::is_in_repository_data;
use crate::root::root_of;
use crate::shell::ScriptAnalysis;

/// The maximum number of paths outside the workspace that are captured for one call.
const MAX_OUTSIDE_PATHS: usize = 16;

/// A directory outside any project is captured only if it has at most this many files.
const MAX_OUTSIDE_FILES: u64 = 2_000;

/// If a call may delete or sweep a directory outside any project, the directory is captured only if
/// it has at most this many files.
const MAX_DELETED_FILES: u64 = 20_000;

/// If at least this many files in the same directory need protection, they are captured together.
const MIN_SIBLINGS: usize = 3;

/// A directory or a single file that is captured as a separate workspace.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum PathKind {
    Directory(AnyPath),
    File(AnyPath),
}

impl PathKind {
    fn path(&self) -> &Path {
        match self {
            PathKind::Directory(path) | PathKind::File(path) => &path.0,
        }
    }
}

/// A path that a call may change, and how it is captured.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct ProtectedPath {
    pub(super) kind: PathKind,
    pub(super) rules: CaptureRules,
    pub(super) named: Vec<RelPath>,
    /// Directories in which ignored files are also captured.
    #[serde(default)]
    pub(super) swept: Vec<RelPath>,
    /// True if only the named paths are captured, for instance because there are too many files.
    #[serde(default)]
    pub(super) only_named: bool,
}

/// The effect that a call may have on a path that it refers to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mention {
    /// The call may change the path.
    Named,
    /// The call may delete the path, with everything in it.
    Deleted,
    /// The call deletes all untracked files in the directory.
    Swept,
}

/// Finds the paths that a call may change. Also returns the paths that are known to be unprotected.
pub(super) fn find_protected_paths(
    opened: &Opened,
    call: &CallContext<'_>,
) -> (Vec<ProtectedPath>, Vec<Unprotected>) {
    let (root, is_workspace) = (call.root(), call.workplace.is_workspace);
    let mut main = ProtectedPath::new(opened, PathKind::Directory(root.into()));
    let mut repositories = Repositories::default();
    let analysis = call.analysis.as_ref();
    let sweeps_repositories = analysis.is_some_and(|analysis| analysis.sweeps_repositories);
    let mut elsewhere = Vec::new();
    let own = canonicalize_or_keep(opened.home());
    let directory = &call.workplace.directory;
    for (path, mention) in find_mentions(call.call, directory, analysis) {
        if mention == Mention::Swept && sweeps_repositories {
            repositories.add_inner(opened, &path);
        }
        if is_in_repository_data(&path) || mention == Mention::Deleted {
            repositories.add(opened, &path);
        }
        match path.strip_prefix(root) {
            _ if is_in_repository_data(&path) => {}
            // Takeback's own files are never captured: see `tampering`.
            _ if path.starts_with(&own) => {}
            Ok(inner) if is_workspace => main.mention(inner, mention),
            _ => {
                if is_workspace && mention != Mention::Named && root.starts_with(&path) {
                    main.swept.push(RelPath::root());
                }
                elsewhere.push((path, mention));
            }
        }
    }
    let (mut protected, mut unprotected) = protect_elsewhere(opened, &elsewhere);
    let unknown = analysis.map(|analysis| analysis.unknown.as_slice());
    for command in unknown.unwrap_or_default() {
        let command = clean_reason(command);
        let reason = format!("the files that `{command}` deletes are not known in advance");
        unprotected.push(Unprotected::new(root, reason));
    }
    unprotected.append(&mut repositories.unprotected);
    // A root that cannot be a workspace is a failure only if there is nothing else to protect.
    if is_workspace || (protected.is_empty() && repositories.protected.is_empty()) {
        protected.insert(0, main);
    }
    protected.append(&mut repositories.protected);
    (merge_duplicates(protected), unprotected)
}

/// Lists the absolute paths that a call refers to, without duplicates, in the order in which the
/// call refers to them.
pub(super) fn find_mentions(
    call: &ToolCall,
    directory: &Path,
    analysis: Option<&ScriptAnalysis>,
) -> Vec<(PathBuf, Mention)> {
    let named = match may_delete_directories(call.script()) {
        true => Mention::Deleted,
        false => Mention::Named,
    };
    let mut mentions: Vec<(PathBuf, Mention)> = Vec::new();
    for path in call.paths() {
        let path = canonicalize_parent(&directory.join(path));
        // Writing to a link writes to its target.
        let target = find_link_target(&path);
        mentions.extend([Some(path), target].into_iter().flatten().map(|at| (at, named)));
    }
    if let Some(analysis) = analysis {
        for path in &analysis.paths {
            let is_deleted = named == Mention::Deleted || analysis.deleted.contains(path);
            let named = if is_deleted { Mention::Deleted } else { Mention::Named };
            let path = canonicalize_parent(&directory.join(path));
            // Deleting a link to a directory does not delete the directory.
            let target = find_link_target(&path).filter(|target| !target.is_dir());
            let both = [Some(path), target].into_iter().flatten();
            mentions.extend(both.map(|path| (path, named)));
        }
        for path in &analysis.sweeps {
            let path = canonicalize(&directory.join(path));
            mentions.extend(path.ok().map(|path| (path, Mention::Swept)));
        }
    }
    let mut seen = BTreeSet::new();
    mentions.retain(|mention| seen.insert(mention.clone()));
    mentions
}

fn find_link_target(path: &Path) -> Option<PathBuf> {
    let is_link = fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    is_link.then(|| canonicalize(path).ok()).flatten()
}

/// Finds the paths to protect instead of a workspace that is too large: the paths in it that the
/// call names, and the inner project that the call works in.
pub(super) fn find_substitutes(
    opened: &Opened,
    failed: &ProtectedPath,
    error: &TakeError,
    call: &CallContext<'_>,
) -> Vec<ProtectedPath> {
    let TakeError::Capture(CaptureError::TooManyFiles { .. } | CaptureError::TooLarge { .. }) =
        error
    else {
        return Vec::new();
    };
    let named = (!failed.only_named).then(|| failed.to_only_named()).flatten();
    let project = opened.find_root(&call.workplace.directory).ok();
    let project = project.filter(|root| root != failed.path() && root.starts_with(failed.path()));
    let project =
        project.map(|root| ProtectedPath::new(opened, PathKind::Directory(AnyPath(root))));
    named.into_iter().chain(project).collect()
}

/// Decides how to protect paths that are not in the session's workspace. Also returns the paths
/// that are left unprotected because there are too many.
fn protect_elsewhere(
    opened: &Opened,
    paths: &[(PathBuf, Mention)],
) -> (Vec<ProtectedPath>, Vec<Unprotected>) {
    let protect = |(path, mention)| protect_outside_path(opened, path, mention);
    let protected = paths.iter().map(|(path, mention)| (&**path, *mention)).filter_map(protect);
    let protected = merge_duplicates(protected.collect());
    let (mut all, mut unprotected) = (Vec::new(), Vec::new());
    for protected in group_siblings(opened, protected) {
        match all.len() < MAX_OUTSIDE_PATHS {
            true => all.push(protected),
            false => {
                let reason = "the call names too many paths outside the workspace";
                unprotected.push(Unprotected::new(protected.path(), reason));
            }
        }
    }
    (all, unprotected)
}

/// Decides how to protect a path that is not in the session's workspace: with the workspace around
/// it, or on its own.
fn protect_outside_path(opened: &Opened, path: &Path, mention: Mention) -> Option<ProtectedPath> {
    let is_directory = path.is_dir();
    // The call may create the directories above a new file.
    let directory = path.ancestors().find(|above| above.is_dir())?;
    let root = root_of(directory, &opened.forbidden).ok()?;
    if root.is_project {
        let mut protected =
            ProtectedPath::new(opened, PathKind::Directory(AnyPath(root.path.clone())));
        if let Ok(inner) = path.strip_prefix(&root.path) {
            protected.mention(inner, mention);
        }
        return Some(protected);
    }
    if is_directory {
        let mut protected = ProtectedPath::new(opened, PathKind::Directory(path.into()));
        // No project's rules apply to the directory, so ignored files are also captured.
        protected.swept.push(RelPath::root());
        let limit = match mention {
            Mention::Named => MAX_OUTSIDE_FILES,
            Mention::Deleted | Mention::Swept => MAX_DELETED_FILES,
        };
        protected.rules.max_files = protected.rules.max_files.min(limit);
        return Some(protected);
    }
    // A new temporary file has no content to lose, and neither does a file in a new directory.
    let is_new = fs::symlink_metadata(path).is_err();
    let is_temporary = || opened.forbidden.is_temporary(path) && !is_known_file(opened, path);
    if is_new && (path.parent() != Some(directory) || is_temporary()) {
        return None;
    }
    Some(ProtectedPath::new(opened, PathKind::File(path.into())))
}

/// Returns true if a file outside any project was captured before. Such a file is captured even if
/// it is missing now. Otherwise, a rollback to this moment would restore content that the file got
/// only later.
fn is_known_file(opened: &Opened, path: &Path) -> bool {
    let store = opened.has_store().then(|| opened.store().ok()).flatten();
    let info = store.and_then(|store| store.workspace_info(&store.workspace_id(path)).ok()?);
    info.is_some_and(|info| info.single_file)
}

/// Groups files in the same directory, because each file would otherwise need a workspace of its
/// own.
fn group_siblings(opened: &Opened, protected: Vec<ProtectedPath>) -> Vec<ProtectedPath> {
    let mut siblings: BTreeMap<PathBuf, Vec<RelPath>> = BTreeMap::new();
    let file = |protected: &ProtectedPath| match &protected.kind {
        PathKind::File(path) => Some((path.0.parent()?.to_owned(), path.0.file_name()?.to_owned())),
        PathKind::Directory(_) => None,
    };
    for (parent, name) in protected.iter().filter_map(file) {
        let name = RelPath::from_path(Path::new(&name)).ok();
        siblings.entry(parent).or_default().extend(name);
    }
    siblings.retain(|parent, names| {
        names.len() >= MIN_SIBLINGS && opened.forbidden.refusal(parent).is_none()
    });
    let is_grouped = |protected: &ProtectedPath| {
        file(protected).is_some_and(|(parent, _)| siblings.contains_key(&parent))
    };
    let mut all: Vec<ProtectedPath> =
        protected.into_iter().filter(|protected| !is_grouped(protected)).collect();
    for (parent, named) in siblings {
        let directory = ProtectedPath::new(opened, PathKind::Directory(AnyPath(parent)));
        all.extend(ProtectedPath { named, ..directory }.to_only_named());
    }
    all
}

impl ProtectedPath {
    pub(super) fn new(opened: &Opened, kind: PathKind) -> ProtectedPath {
        let rules = opened.rules_for(kind.path()).clone();
        ProtectedPath { kind, rules, named: Vec::new(), swept: Vec::new(), only_named: false }
    }

    pub(super) fn path(&self) -> &Path {
        self.kind.path()
    }

    /// Converts a path relative to this directory or file into an absolute path.
    pub(super) fn absolute(&self, inner: &RelPath) -> PathBuf {
        match &self.kind {
            PathKind::Directory(path) => path.0.join(inner.as_path()),
            PathKind::File(path) => path.0.clone(),
        }
    }

    /// Converts an absolute path into a path relative to this directory or file. Returns `None` for
    /// a path outside it.
    pub(super) fn relative(&self, path: &Path) -> Option<RelPath> {
        let inner = match &self.kind {
            PathKind::Directory(directory) => path.strip_prefix(&directory.0).ok()?,
            PathKind::File(file) if file.0 == path => Path::new(path.file_name()?),
            PathKind::File(_) => return None,
        };
        RelPath::from_path(inner).ok().filter(|inner| !inner.is_root())
    }

    /// Returns true for a single file or a repository's data, because the call may change all of
    /// it.
    pub(super) fn is_endangered_as_a_whole(&self) -> bool {
        matches!(self.kind, PathKind::File(_)) || is_in_repository_data(self.path())
    }

    /// Adds a path that the call refers to. The path is relative to this directory.
    fn mention(&mut self, path: &Path, mention: Mention) {
        let Ok(path) = RelPath::from_path(path) else { return };
        let paths = match mention {
            // A call that names the whole directory does not say which files it changes, unless it
            // deletes the directory.
            Mention::Named if path.is_root() => return,
            Mention::Named => &mut self.named,
            Mention::Deleted if path.is_root() => &mut self.swept,
            Mention::Deleted => &mut self.named,
            Mention::Swept => &mut self.swept,
        };
        if !paths.contains(&path) {
            paths.push(path);
        }
    }

    /// Returns a copy whose rules cover only the paths that the call names. Returns `None` if the
    /// call names no path in this directory.
    pub(super) fn to_only_named(&self) -> Option<ProtectedPath> {
        let mut only = self.clone();
        only.named.extend(only.swept.drain(..).filter(|path| !path.is_root()));
        only.rules.exclude = vec!["*".to_owned()];
        only.rules.include = Vec::new();
        only.only_named = true;
        (!only.named.is_empty()).then_some(only)
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

/// Merges entries for the same directory or file.
fn merge_duplicates(protected: Vec<ProtectedPath>) -> Vec<ProtectedPath> {
    let mut merged: Vec<ProtectedPath> = Vec::new();
    for path in protected {
        match merged.iter_mut().find(|known| known.kind == path.kind) {
            Some(known) => {
                known.named.extend(path.named);
                known.swept.extend(path.swept);
            }
            None => merged.push(path),
        }
    }
    merged
}
