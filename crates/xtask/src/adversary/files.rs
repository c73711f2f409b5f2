//! Plain copies of files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use sha1::{Digest, Sha1};

/// The content of all files by their path below the root of the day, without `.git`.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// The directory that agents work in.
pub(crate) const PROJECT: &str = "project";
/// A directory outside the workspace.
pub(crate) const ELSEWHERE: &str = "elsewhere";

/// Copies everything that the agents and the user work with.
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
        if below == ".git" {
            continue;
        }
        let path = format!("{name}/{below}");
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => copy_directory(&entry.path(), &path, files),
            _ => drop(fs::read(entry.path()).map(|content| files.insert(path, content))),
        }
    }
}

/// Lists the paths with another content, or on one side only.
pub(crate) fn changed_paths(before: &Files, after: &Files) -> BTreeSet<String> {
    let all = before.keys().chain(after.keys());
    all.filter(|path| before.get(*path) != after.get(*path)).cloned().collect()
}

/// The lines of a file that contain a mark.
pub(crate) fn marked_lines(content: &[u8], mark: &str) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(content);
    text.lines().filter(|line| line.contains(mark)).map(str::to_owned).collect()
}

/// The id that git gives to a file with this content.
pub(crate) fn blob_id(content: &[u8]) -> String {
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", content.len()));
    hash.update(content);
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Shows a content in one line.
pub(crate) fn show_content(content: Option<&Vec<u8>>) -> String {
    match content {
        None => "nothing".into(),
        Some(content) => {
            let text = String::from_utf8_lossy(&content[..content.len().min(300)]);
            format!("{text:?}")
        }
    }
}
