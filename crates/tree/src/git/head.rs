//! HEAD: the commit and the branch that a work tree is on.

use std::path::Path;

use serde::{Deserialize, Serialize};
use takeback_base::hex;

use super::{GitDirectory, MAX_LARGE_FILE, read_regular_file, read_text};

/// The commit and the branch that a work tree is on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The id of the commit; `None` before the first commit, or if it cannot be read.
    pub commit: Option<String>,
    /// The name of the branch; `None` if HEAD is detached.
    pub branch: Option<String>,
}

impl GitDirectory {
    /// Reads HEAD and the ref that it refers to.
    pub fn head(&self) -> Head {
        let Some(text) = read_text(&self.path.join("HEAD")) else { return Head::default() };
        match parse_symbolic_ref(&text) {
            None => Head { commit: parse_commit_id(&text), branch: None },
            Some(name) => Head {
                commit: self.resolve_ref(name),
                branch: Some(name.strip_prefix("refs/heads/").unwrap_or(name).to_owned()),
            },
        }
    }

    /// Finds the commit that a ref refers to. The ref is a file in this directory or in the common
    /// directory, or a line in `packed-refs`.
    fn resolve_ref(&self, name: &str) -> Option<String> {
        let leaves_directory = name.split('/').any(|part| part == ".." || part.is_empty());
        if leaves_directory {
            return None;
        }
        if let Some(id) = read_commit_id(&self.path.join(name)) {
            return Some(id);
        }
        let common = self.common_path();
        if let Some(id) = read_commit_id(&common.join(name)) {
            return Some(id);
        }
        let packed = read_regular_file(&common.join("packed-refs"), MAX_LARGE_FILE)?;
        let lines = packed.split(|byte| *byte == b'\n');
        let mut lines = lines.filter_map(|line| std::str::from_utf8(line).ok()?.split_once(' '));
        let (id, _) = lines.find(|(_, packed_name)| *packed_name == name)?;
        parse_commit_id(id)
    }
}

/// Returns the name of the ref that a symbolic ref, such as HEAD on a branch, refers to.
pub(super) fn parse_symbolic_ref(text: &str) -> Option<&str> {
    text.strip_prefix("ref:").map(str::trim)
}

fn read_commit_id(path: &Path) -> Option<String> {
    parse_commit_id(&read_text(path)?)
}

/// Parses the id of a commit: 40 digits of SHA-1 or 64 of SHA-256.
fn parse_commit_id(text: &str) -> Option<String> {
    let id = text.trim();
    let is_id = matches!(id.len(), 40 | 64) && hex::is_hex(id);
    is_id.then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::testing::GitScratch;
    use super::*;

    #[test]
    fn head_has_the_commit_and_branch_that_git_reports() {
        let scratch = GitScratch::new();
        let head = |commit: &Option<String>, branch: Option<&str>| Head {
            commit: commit.clone(),
            branch: branch.map(str::to_owned),
        };
        assert_eq!(scratch.directory().head(), head(&None, Some("main")));
        scratch.write("a", "a");
        scratch.git(&["add", "a"]);
        scratch.git(&["commit", "-qm", "a"]);
        let commit = Some(scratch.git(&["rev-parse", "HEAD"]).trim().to_owned());
        assert_eq!(scratch.directory().head(), head(&commit, Some("main")));
        scratch.git(&["pack-refs", "--all"]);
        assert_eq!(scratch.directory().head(), head(&commit, Some("main")));
        scratch.git(&["worktree", "add", "-q", "-b", "side/x", "linked"]);
        let linked = GitDirectory::find(&scratch.root().join("linked")).unwrap();
        assert_eq!(linked.head(), head(&commit, Some("side/x")));
        scratch.git(&["pack-refs", "--all"]);
        assert_eq!(linked.head(), head(&commit, Some("side/x")));
        scratch.git(&["checkout", "-q", "--detach"]);
        assert_eq!(scratch.directory().head(), head(&commit, None));
    }

    #[test]
    fn a_head_that_leads_out_of_the_repository_has_no_commit() {
        let scratch = GitScratch::new();
        scratch.write("outside", &"1".repeat(40));
        for name in ["refs/../../outside", "/etc/passwd", "refs//heads/main"] {
            scratch.write(".git/HEAD", &format!("ref: {name}\n"));
            assert_eq!(scratch.directory().head().commit, None, "{name}");
        }
        scratch.write(".git/HEAD", "nonsense");
        assert_eq!(scratch.directory().head(), Head::default());
    }

    #[test]
    fn ids_of_both_hashes_are_accepted() {
        for length in [40, 64] {
            assert_eq!(parse_commit_id(&"a".repeat(length)), Some("a".repeat(length)));
        }
        assert_eq!(parse_commit_id(&"a".repeat(41)), None);
        assert_eq!(parse_commit_id(&"g".repeat(40)), None);
    }
}
