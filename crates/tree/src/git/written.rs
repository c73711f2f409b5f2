//! Recognizing the files that git wrote: their content is in the repository.

use std::borrow::Cow;

use super::GitDirectory;
use super::objects::ObjectDatabase;
use crate::object::ObjectKind;
use crate::oid::Oid;

/// The objects of a repository, including those that it borrows from others. The packs are listed
/// once, when it is opened.
pub struct GitObjects(Vec<ObjectDatabase>);

impl GitDirectory {
    /// Opens the objects of the repository. Objects that cannot be read are treated as missing.
    pub fn open_objects(&self) -> GitObjects {
        GitObjects(ObjectDatabase::open_all(self.common_path().join("objects")))
    }
}

impl GitObjects {
    /// True if git may have written a file or link with this content: the repository has the
    /// content, perhaps with different line endings. Content that git changed with a filter, such
    /// as that of Git LFS, is not recognized.
    pub fn has_content(&self, content: &[u8]) -> bool {
        let has = |content: &[u8]| {
            let oid = Oid::of(ObjectKind::Blob, content);
            self.0.iter().any(|database| database.has_object(&oid))
        };
        has(content)
            || match normalize_line_ends(content) {
                Cow::Borrowed(_) => false,
                Cow::Owned(normalized) => has(&normalized),
            }
    }
}

/// Converts Windows line endings to Unix line endings, as git does before it stores a file.
fn normalize_line_ends(content: &[u8]) -> Cow<'_, [u8]> {
    if !content.windows(2).any(|pair| pair == b"\r\n") {
        return Cow::Borrowed(content);
    }
    let next = content.iter().skip(1).map(Some).chain([None]);
    let is_kept = |byte: u8, next: Option<&u8>| byte != b'\r' || next != Some(&b'\n');
    let kept = content.iter().zip(next).filter(|(byte, next)| is_kept(**byte, *next));
    Cow::Owned(kept.map(|(byte, _)| *byte).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::testing::GitScratch;

    #[test]
    fn loose_and_packed_and_borrowed_content_is_found() {
        let scratch = GitScratch::new();
        scratch.git(&["init", "-q", "-b", "main", "one"]);
        let one = scratch.root().join("one");
        std::fs::write(one.join("a"), "packed\n").unwrap();
        let git = |arguments: &[&str]| crate::git::testing::run_git(&one, arguments);
        git(&["add", "."]);
        git(&["commit", "-q", "-m", "one"]);
        git(&["repack", "-adq"]);
        std::fs::write(one.join("a"), "loose\n").unwrap();
        git(&["add", "."]);
        scratch.git(&["clone", "-q", "--shared", "one", "two"]);
        git(&["worktree", "add", "-q", "../tree"]);
        for root in ["one", "two", "tree"] {
            let objects = GitDirectory::find(&scratch.root().join(root)).unwrap().open_objects();
            for known in ["packed\n", "packed\r\n", "loose\n"] {
                assert!(objects.has_content(known.as_bytes()), "{root}: {known:?}");
            }
            for unknown in ["", "packed", "pack\red\n", "packed\r\r\n"] {
                assert!(!objects.has_content(unknown.as_bytes()), "{root}: {unknown:?}");
            }
        }
    }
}
