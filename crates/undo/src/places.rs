//! What a call may change: the workspace it works in, and what it names elsewhere.

use std::collections::BTreeSet;
use std::fs;
use std::iter;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use takeback_tree::{AnyPath, CaptureError, RelPath, Rules, Workspace, WorkspaceError};

use crate::keeper::{Keeper, TakeError};
use crate::report::ToolCall;
use crate::roots::root_of;
use crate::shell::ScriptAnalysis;

/// At most so many paths outside of the workspace are looked after per call.
const ELSEWHERE: usize = 16;

/// A directory outside of any project is captured only if it is small.
const MAX_FILES_ELSEWHERE: u64 = 2_000;

/// What a call may change: a directory or a single file.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PlaceKind {
    Directory(AnyPath),
    File(AnyPath),
}

/// The same, and how it is captured.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) kind: PlaceKind,
    pub(crate) rules: Rules,
    pub(crate) named: Vec<RelPath>,
}

impl Keeper {
    /// Everything that a call may change, and how much more it names outside of the workspace.
    pub(crate) fn places_of(
        &self,
        root: &Path,
        directory: &Path,
        call: &ToolCall,
        analysis: Option<&ScriptAnalysis>,
    ) -> (Vec<Place>, usize) {
        let mut main = self.place(PlaceKind::Directory(root.into()));
        let is_workspace = self.places.refusal(root).is_none();
        let outside = analysis.map(|analysis| analysis.outside.as_slice()).unwrap_or_default();
        let named = call.paths().iter().flat_map(|path| {
            let path = real(&directory.join(path));
            // Whoever writes to a link writes to what it leads to.
            let led_to = fs::canonicalize(&path).ok();
            iter::once(path).chain(led_to)
        });
        let outside = outside.iter().map(|path| real(&directory.join(path)));
        let mut elsewhere = Vec::new();
        let mut seen = BTreeSet::new();
        for path in named.chain(outside) {
            if !seen.insert(path.clone()) {
                continue;
            }
            match path.strip_prefix(root) {
                Ok(inner) if is_workspace => main.named.extend(rel_path(inner)),
                _ => elsewhere.push(path),
            }
        }
        let left_out = elsewhere.len().saturating_sub(ELSEWHERE);
        elsewhere.truncate(ELSEWHERE);
        let mut places: Vec<Place> =
            elsewhere.iter().filter_map(|path| self.place_elsewhere(path)).collect();
        // Without anything else to protect, it is a failure that this place cannot be.
        if is_workspace || places.is_empty() {
            places.insert(0, main);
        }
        (distinct(places), left_out)
    }

    /// If a session's workspace is too large: the project in it that the call works in, and what
    /// the call names, each by itself.
    pub(crate) fn instead(
        &self,
        place: &Place,
        error: &TakeError,
        directory: &Path,
        call: &ToolCall,
    ) -> Vec<Place> {
        if !matches!(error, TakeError::Capture(CaptureError::TooManyFiles { .. })) {
            return Vec::new();
        }
        let own = self.root(directory).ok().filter(|own| own != place.path());
        let own = own.map(|own| self.place(PlaceKind::Directory(AnyPath(own))));
        let nowhere = self.analyse(call, directory, Path::new("/"));
        let outside = nowhere.map(|analysis| analysis.outside).unwrap_or_default();
        let named = place.named.iter().map(|named| place.path().join(as_path(named)));
        let paths = named.chain(outside.into_iter().map(|path| real(&directory.join(path))));
        let named = paths.take(ELSEWHERE).filter_map(|path| {
            match self.place_elsewhere(&path) {
                // What is in the same too large place is protected as a single file.
                Some(same) if same.kind == place.kind => {
                    path.is_file().then(|| self.place(PlaceKind::File(AnyPath(path))))
                }
                other => other,
            }
        });
        distinct(own.into_iter().chain(named).filter(|new| new.kind != place.kind).collect())
    }

    fn place(&self, kind: PlaceKind) -> Place {
        Place { kind, rules: self.rules.clone(), named: Vec::new() }
    }

    /// What protects a path that is not in the session's workspace: its own workspace, or itself.
    fn place_elsewhere(&self, path: &Path) -> Option<Place> {
        let is_directory = path.is_dir();
        let directory = if is_directory { Some(path) } else { path.parent() };
        let directory = directory.filter(|directory| directory.is_dir())?;
        let root = root_of(directory, &self.places).ok()?;
        if root.is_project {
            let mut place = self.place(PlaceKind::Directory(AnyPath(root.path.clone())));
            place.named.extend(path.strip_prefix(&root.path).ok().and_then(rel_path));
            return Some(place);
        }
        if is_directory {
            let mut place = self.place(PlaceKind::Directory(path.into()));
            place.rules.max_files = place.rules.max_files.min(MAX_FILES_ELSEWHERE);
            return Some(place);
        }
        // Of a new file among temporary ones nothing can be lost.
        let is_temporary = self.places.temporary.iter().any(|root| path.starts_with(real(root)));
        if is_temporary && fs::symlink_metadata(path).is_err() {
            return None;
        }
        Some(self.place(PlaceKind::File(path.into())))
    }

    pub(crate) fn open(&self, place: &Place) -> Result<Workspace<'_>, WorkspaceError> {
        let store = self.store()?;
        match &place.kind {
            PlaceKind::Directory(path) => store.workspace(&path.0, &self.places),
            PlaceKind::File(path) => store.single_file(&path.0, &self.places),
        }
    }
}

impl Place {
    pub(crate) fn path(&self) -> &Path {
        match &self.kind {
            PlaceKind::Directory(path) | PlaceKind::File(path) => &path.0,
        }
    }
}

/// Each place once.
fn distinct(mut places: Vec<Place>) -> Vec<Place> {
    let mut seen = Vec::new();
    places.retain(|place| {
        let is_new = !seen.contains(&place.kind);
        seen.push(place.kind.clone());
        is_new
    });
    places
}

/// A path without `.` and `..`, whose directory is canonical as far as it exists. The last name
/// is not followed.
fn real(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    match (plain.parent(), plain.file_name()) {
        (Some(parent), Some(name)) => {
            let existing = parent.ancestors().find_map(|ancestor| {
                let canonical = fs::canonicalize(ancestor).ok()?;
                Some(canonical.join(parent.strip_prefix(ancestor).ok()?))
            });
            existing.unwrap_or_else(|| parent.to_owned()).join(name)
        }
        _ => plain,
    }
}

fn as_path(path: &RelPath) -> &Path {
    use std::os::unix::ffi::OsStrExt;
    Path::new(std::ffi::OsStr::from_bytes(path.as_bytes()))
}

fn rel_path(path: &Path) -> Option<RelPath> {
    use std::os::unix::ffi::OsStrExt;
    RelPath::new(path.as_os_str().as_bytes()).ok().filter(|path| !path.is_root())
}
