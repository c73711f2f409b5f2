//! Plain copies of files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sha1::{Digest, Sha1};

/// All files, by their path below the root of the simulated day. The project's own `.git` is left
/// out; the histories of other repositories are included.
pub(crate) type Files = BTreeMap<String, FileCopy>;

/// The copy of a file or a symbolic link.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FileCopy {
    /// The content of a file, or the target of a link.
    pub(crate) content: Vec<u8>,
    pub(crate) is_link: bool,
    pub(crate) is_executable: bool,
}

/// The directory that agents work in.
pub(crate) const PROJECT: &str = "project";
/// A directory outside the workspace.
pub(crate) const ELSEWHERE: &str = "elsewhere";

/// Copies all files that the agents and the user work with.
pub(crate) fn copy_files(root: &Path) -> Files {
    let mut files = Files::new();
    for name in [PROJECT, ELSEWHERE] {
        copy_directory(&root.join(name), name, &mut files);
    }
    files
}

fn copy_directory(directory: &Path, name: &str, files: &mut Files) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let below = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{name}/{below}");
        // Git itself changes these files, so they are not compared.
        let is_of_git = below == ".git" && name == PROJECT;
        if is_of_git || (name.ends_with("/.git") && below == "index") {
            continue;
        }
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => copy_directory(&entry.path(), &path, files),
            _ => files.extend(copy_file(&entry.path()).map(|copy| (path, copy))),
        }
    }
}

fn copy_file(path: &Path) -> Option<FileCopy> {
    let metadata = fs::symlink_metadata(path).ok()?;
    if metadata.is_symlink() {
        let target = fs::read_link(path).ok()?.into_os_string().into_encoded_bytes();
        return Some(FileCopy { content: target, is_link: true, is_executable: false });
    }
    let is_executable = metadata.permissions().mode() & 0o100 != 0;
    Some(FileCopy { content: fs::read(path).ok()?, is_link: false, is_executable })
}

/// True if a path is in a repository's history.
pub(crate) fn is_history(path: &str) -> bool {
    path.contains("/.git/")
}

/// True if a path is in the workspace.
pub(crate) fn is_inside(path: &str) -> bool {
    !path.starts_with(ELSEWHERE)
}

/// True if a path is equal to another one, or below it.
pub(crate) fn is_within(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the path below the project, as agents and commands write it.
pub(crate) fn below_project(path: &str) -> &str {
    path.strip_prefix(PROJECT).unwrap_or(path).trim_start_matches('/')
}

/// Lists the paths whose files differ, or that exist on one side only.
pub(crate) fn changed_paths(before: &Files, after: &Files) -> BTreeSet<String> {
    let all = before.keys().chain(after.keys());
    all.filter(|path| before.get(*path) != after.get(*path)).cloned().collect()
}

/// Returns all lines of a file.
pub(crate) fn lines_of(content: &[u8]) -> BTreeSet<Vec<u8>> {
    content.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

/// Returns the lines of a file that contain a mark.
pub(crate) fn marked_lines(content: &[u8], mark: &str) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(content);
    text.lines().filter(|line| line.contains(mark)).map(str::to_owned).collect()
}

/// Returns the id that git gives to a file with this content.
pub(crate) fn blob_id(content: &[u8]) -> String {
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", content.len()));
    hash.update(content);
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Describes a file in one line.
pub(crate) fn show_file(file: Option<&FileCopy>) -> String {
    let Some(file) = file else { return "nothing".into() };
    let content = &file.content;
    let text = String::from_utf8_lossy(&content[..content.len().min(300)]);
    let kind = match (file.is_link, file.is_executable) {
        (true, _) => "a link to ",
        (_, true) => "an executable ",
        _ => "",
    };
    format!("{kind}{text:?}")
}
