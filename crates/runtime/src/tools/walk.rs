//! Walking through the files that git does not ignore, in a fixed order.

use std::path::Path;

use ignore::overrides::{Override, OverrideBuilder};
use ignore::{Walk, WalkBuilder};

/// Walks through a directory in the order of its file names. Skips the files that `.gitignore` and
/// similar files exclude. Includes hidden files, except for those of git itself. Does not follow
/// links.
pub(super) fn walk_files(root: &Path, depth: Option<usize>) -> Walk {
    WalkBuilder::new(root)
        .hidden(false)
        .require_git(false)
        // The user's global ignore file is not used, because its location depends on environment
        // variables.
        .git_global(false)
        .max_depth(depth)
        .sort_by_file_name(std::ffi::OsStr::cmp)
        .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git")
        .build()
}

/// A glob such as `*.rs` or `src/**/*.rs`. A glob without a slash matches file names in every
/// directory.
pub(super) struct FileGlob(Override);

impl FileGlob {
    /// Parses a glob that applies to paths below `root`.
    pub(super) fn parse(glob: &str, root: &Path) -> Result<FileGlob, String> {
        if glob.is_empty() || glob.starts_with('!') {
            return Err(format!("not a valid glob: {glob:?}"));
        }
        let mut builder = OverrideBuilder::new(root);
        let parsed = builder.add(glob).and_then(|builder| builder.build());
        parsed.map(FileGlob).map_err(|error| format!("not a valid glob: {error}"))
    }

    pub(super) fn matches(&self, path: &Path) -> bool {
        self.0.matched(path, false).is_whitelist()
    }
}
