use std::os::unix::fs::{PermissionsExt, symlink};

use super::super::testing::{GitScratch, run_git};
use super::*;

/// A new directory that holds a copy of a repository.
struct Copy {
    scratch: tempfile::TempDir,
    result: Result<Option<CopiedRepository>, RepositoryCopyError>,
}

impl Copy {
    fn of(work_tree: &Path, state: RepositoryState<'_>) -> Copy {
        let scratch = tempfile::tempdir().unwrap();
        let to = fs::canonicalize(scratch.path()).unwrap().join("copy");
        let into = NewDirectory::create(&to, ".takeback-test").unwrap();
        let result = into.copy_repository(&fs::canonicalize(work_tree).unwrap(), state);
        into.place(0o755).unwrap();
        Copy { scratch, result }
    }

    fn root(&self) -> PathBuf {
        self.scratch.path().join("copy")
    }

    fn git(&self, arguments: &[&str]) -> String {
        run_git(&self.root(), arguments)
    }

    /// Returns HEAD of the copy, and true if it is the requested one.
    fn head(&self) -> (&Head, bool) {
        let copied = self.result.as_ref().unwrap().as_ref().unwrap();
        (&copied.head, copied.is_exact)
    }

    fn exists(&self, name: &str) -> bool {
        self.root().join(".git").join(name).exists()
    }
}

/// A repository with two commits, a tag, a stash, a change in the index and a hook.
fn used_repository() -> GitScratch {
    let scratch = GitScratch::new();
    scratch.write("a", "1");
    scratch.git(&["add", "."]);
    scratch.git(&["commit", "-qm", "one"]);
    scratch.git(&["tag", "v1"]);
    scratch.git(&["gc", "-q"]);
    scratch.write("a", "2");
    scratch.git(&["commit", "-qam", "two"]);
    scratch.write("a", "stashed");
    scratch.git(&["stash", "-q"]);
    scratch.write("b", "staged");
    scratch.git(&["add", "b"]);
    scratch.write(".git/hooks/pre-commit", "#!/bin/sh\n");
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(scratch.root().join(".git/hooks/pre-commit"), executable).unwrap();
    scratch
}

#[test]
fn git_finds_everything_in_a_copied_repository() {
    let scratch = used_repository();
    let copy = Copy::of(scratch.root(), RepositoryState::default());
    assert_eq!(copy.head(), (&scratch.directory().head(), true));
    copy.git(&["fsck", "--strict"]);
    for arguments in [
        &["log", "--all", "--format=%H %D"][..],
        &["stash", "list"],
        &["ls-files", "--stage"],
        &["config", "--list", "--local"],
    ] {
        assert_eq!(copy.git(arguments), scratch.git(arguments), "{arguments:?}");
    }
    let hook = fs::metadata(copy.root().join(".git/hooks/pre-commit")).unwrap();
    assert_eq!(hook.permissions().mode() & 0o777, 0o755);
}

#[test]
fn the_original_and_the_copy_of_a_repository_are_independent() {
    let scratch = used_repository();
    let copy = Copy::of(scratch.root(), RepositoryState::default());
    let before = scratch.git(&["log", "--all", "--format=%H %D"]);
    let status = scratch.git(&["status", "--porcelain"]);
    copy.git(&["checkout", "-q", "-f", "HEAD", "--", "."]);
    fs::write(copy.root().join("a"), "3").unwrap();
    copy.git(&["commit", "-q", "--no-verify", "-am", "only in the copy"]);
    copy.git(&["gc", "-q", "--prune=now"]);
    assert_eq!(scratch.git(&["log", "--all", "--format=%H %D"]), before);
    assert_eq!(scratch.git(&["status", "--porcelain"]), status);
    scratch.git(&["gc", "-q", "--prune=now"]);
    scratch.git(&["fsck", "--strict"]);
    copy.git(&["fsck", "--strict"]);
}

#[test]
fn a_copy_returns_to_an_earlier_commit_and_index() {
    let scratch = used_repository();
    let (head, index) = (scratch.directory().head(), scratch.directory().copy_index().unwrap());
    let staged = scratch.git(&["ls-files", "--stage"]);
    scratch.git(&["commit", "-q", "--no-verify", "-m", "three"]);
    scratch.git(&["pack-refs", "--all"]);
    scratch.git(&["checkout", "-q", "-b", "later"]);
    let copy = Copy::of(scratch.root(), RepositoryState { head: Some(&head), index: Some(&index) });
    assert_eq!(copy.head(), (&head, true));
    assert_eq!(copy.git(&["rev-parse", "HEAD"]).trim(), head.commit.unwrap());
    assert_eq!(copy.git(&["rev-parse", "--abbrev-ref", "HEAD"]).trim(), "main");
    assert_eq!(copy.git(&["ls-files", "--stage"]), staged);
    copy.git(&["fsck", "--strict"]);
    assert_eq!(scratch.git(&["rev-parse", "--abbrev-ref", "HEAD"]).trim(), "later");
}

#[test]
fn a_copy_returns_to_a_detached_head_or_to_the_time_before_the_first_commit() {
    let scratch = GitScratch::new();
    let unborn = scratch.directory().head();
    scratch.git(&["commit", "-q", "--allow-empty", "-m", "one"]);
    scratch.git(&["checkout", "-q", "--detach"]);
    let detached = scratch.directory().head();
    scratch.git(&["checkout", "-q", "main"]);
    scratch.git(&["commit", "-q", "--allow-empty", "-m", "two"]);
    scratch.git(&["pack-refs", "--all"]);
    for wanted in [unborn, detached] {
        let copy = Copy::of(scratch.root(), RepositoryState { head: Some(&wanted), index: None });
        assert_eq!(copy.head(), (&wanted, true));
        copy.git(&["status", "--porcelain"]);
    }
}

/// Checks that a copy stays at the original's commit if it cannot return to the requested commit.
fn assert_head_stays(scratch: &GitScratch, commit: Option<String>, branch: &str) {
    let wanted = Head { commit, branch: Some(branch.into()) };
    let copy = Copy::of(scratch.root(), RepositoryState { head: Some(&wanted), index: None });
    assert_eq!(copy.head(), (&scratch.directory().head(), false), "{branch}");
}

#[test]
fn head_stays_where_it_is_if_git_has_deleted_the_commit() {
    let scratch = used_repository();
    assert_head_stays(&scratch, Some("1".repeat(40)), "main");
    assert_head_stays(&scratch, Some("2".repeat(64)), "main");
}

#[test]
fn a_branch_name_never_leads_out_of_the_copy() {
    let scratch = used_repository();
    let commit = scratch.directory().head().commit;
    scratch.git(&["branch", "dir/inner"]);
    for branch in ["../../../../outside", "a b", "refs/../HEAD", "x.lock", "dir", "main/inner"] {
        assert_head_stays(&scratch, commit.clone(), branch);
    }
}

#[test]
fn lock_files_and_unfinished_operations_and_linked_work_trees_are_not_copied() {
    let scratch = used_repository();
    scratch.git(&["worktree", "add", "-q", "linked", "v1"]);
    let files = ["index.lock", "MERGE_HEAD", "BISECT_LOG", "rebase-merge/done", "gc.pid"];
    for name in files.iter().chain(&["objects/pack/tmp_pack_x"]) {
        scratch.write(&format!(".git/{name}"), "x");
    }
    let copy = Copy::of(scratch.root(), RepositoryState::default());
    for name in files.iter().chain(&["objects/pack/tmp_pack_x", "worktrees"]) {
        assert!(!copy.exists(name), "{name}");
    }
    assert_eq!(copy.git(&["worktree", "list"]).lines().count(), 1);
}

#[test]
fn a_linked_work_tree_becomes_a_repository_of_its_own() {
    let scratch = used_repository();
    scratch.git(&["worktree", "add", "-q", "-b", "side", "linked", "v1"]);
    let linked = scratch.root().join("linked");
    fs::write(linked.join("c"), "c").unwrap();
    run_git(&linked, &["add", "c"]);
    let copy = Copy::of(&linked, RepositoryState::default());
    assert_eq!(copy.head().0.branch.as_deref(), Some("side"));
    let staged = ["ls-files", "--stage"];
    assert_eq!(copy.git(&staged), run_git(&linked, &staged));
    copy.git(&["fsck", "--strict"]);
    copy.git(&["commit", "-q", "--no-verify", "-m", "only in the copy"]);
    assert_eq!(run_git(&linked, &["log", "-1", "--format=%s"]).trim(), "one");
}

#[test]
fn repositories_that_point_elsewhere_are_refused() {
    let refusal = |prepare: &dyn Fn(&GitScratch)| {
        let scratch = used_repository();
        prepare(&scratch);
        let copy = Copy::of(scratch.root(), RepositoryState::default());
        assert!(!copy.exists(""));
        copy.result.unwrap_err().to_string()
    };
    let elsewhere = refusal(&|scratch| drop(scratch.git(&["config", "core.worktree", "/"])));
    assert_eq!(elsewhere, "its configuration names a work tree");
    let bare = refusal(&|scratch| drop(scratch.git(&["config", "core.bare", "true"])));
    assert_eq!(bare, "it is a bare repository with linked work trees");
    let linked = refusal(&|scratch| {
        let objects = scratch.root().join(".git/objects");
        fs::rename(&objects, scratch.root().join("objects")).unwrap();
        symlink("../objects", &objects).unwrap();
    });
    assert_eq!(linked, "parts of it are links");
}

#[test]
fn a_git_file_that_names_another_users_repository_is_refused() {
    if !crate::owner::is_root() {
        return;
    }
    let (theirs, mine) = (used_repository(), GitScratch::new());
    let git = mine.root().join(".git");
    fs::remove_dir_all(&git).unwrap();
    fs::write(&git, format!("gitdir: {}\n", theirs.root().join(".git").display())).unwrap();
    std::os::unix::fs::chown(mine.root(), Some(65534), None).unwrap();
    let copy = Copy::of(mine.root(), RepositoryState::default());
    assert!(!copy.exists(""));
    let reason = "its .git refers to a directory that belongs to another user";
    assert_eq!(copy.result.unwrap_err().to_string(), reason);
}

#[test]
fn borrowed_objects_are_found_from_the_copy() {
    let scratch = used_repository();
    let other = tempfile::tempdir().unwrap();
    let clone = fs::canonicalize(other.path()).unwrap().join("deep/er/clone");
    let from = scratch.root().to_str().unwrap();
    scratch.git(&["clone", "-q", "--shared", from, clone.to_str().unwrap()]);
    let alternates = clone.join(".git/objects/info/alternates");
    let absolute = fs::read_to_string(&alternates).unwrap();
    let up = "../".repeat(clone.components().count() + 1);
    fs::write(&alternates, format!("{up}{}", absolute.trim_start_matches('/'))).unwrap();
    run_git(&clone, &["fsck"]);
    Copy::of(&clone, RepositoryState::default()).git(&["fsck"]);
}
