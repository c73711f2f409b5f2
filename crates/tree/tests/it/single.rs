//! Single files as workspaces, and diffs between a checkpoint and the current state.

use std::fs;
use std::os::unix::fs::symlink;

use takeback_tree::{
    CaptureOptions, CaptureRules, ChangeKind, DiffOptions, ForbiddenRoots, RestoreTarget,
    Workspace, WorkspaceError,
};

use crate::support::{Scratch, rel};

fn capture(scratch: &Scratch, workspace: &Workspace<'_>) -> takeback_tree::Capture {
    let mut lock = workspace.lock().unwrap();
    let options =
        CaptureOptions { rules: &scratch.rules, named: &[], swept: &[], now: scratch.now() };
    let capture = lock.capture(&options).unwrap();
    lock.pin(capture.tree, scratch.now(), "a file").unwrap();
    lock.finish(scratch.now()).unwrap();
    capture
}

fn restore(scratch: &Scratch, workspace: &Workspace<'_>, to: &takeback_tree::Capture) {
    let mut lock = workspace.lock().unwrap();
    let options =
        CaptureOptions { rules: &scratch.rules, named: &[], swept: &[], now: scratch.now() };
    let target = RestoreTarget {
        tree: to.tree,
        filter: &to.filter,
        uncovered: &to.uncovered,
        undoes: None,
        released: &[],
        silent: false,
    };
    let plan = lock.plan(&target, &[], &options).unwrap();
    let safety = lock.pin(plan.from, scratch.now(), "before").unwrap();
    lock.apply(&plan, &safety).unwrap();
}

#[test]
fn a_single_file_in_the_home_directory_comes_back() {
    let scratch = Scratch::new();
    // Here, the scratch directory is the home directory, which is never a workspace.
    let places = ForbiddenRoots::new(Some(scratch.root.clone()), Vec::new(), None);
    assert!(matches!(
        scratch.store.workspace(&scratch.root, &places),
        Err(WorkspaceError::Refused { .. })
    ));
    scratch.write("dotfiles/zshrc", "alias l=ls\n");
    symlink("dotfiles/zshrc", scratch.path(".zshrc")).unwrap();
    scratch.write("unrelated.log", "x");
    let file = scratch.store.single_file(&scratch.path(".zshrc"), &places).unwrap();
    let before = capture(&scratch, &file);
    let info = scratch.store.workspace_info(file.id()).unwrap().unwrap();
    assert_eq!(info.path.0, scratch.path("dotfiles/zshrc"));
    assert_eq!(scratch.files(before.tree), ["zshrc"]);
    assert_eq!(before.uncovered, []);
    scratch.write("dotfiles/zshrc", "wrecked");
    scratch.write("dotfiles/other", "not looked at");
    restore(&scratch, &file, &before);
    assert_eq!(scratch.read(".zshrc"), "alias l=ls\n");
    assert_eq!(scratch.read("dotfiles/other"), "not looked at");
}

#[test]
fn a_file_that_does_not_exist_yet_can_be_captured() {
    let scratch = Scratch::new();
    let file = scratch.store.single_file(&scratch.path("new"), &ForbiddenRoots::default()).unwrap();
    let before = capture(&scratch, &file);
    assert_eq!(before.files, 0);
    scratch.write("new", "x");
    scratch.write("beside", "x");
    assert_eq!(scratch.files(capture(&scratch, &file).tree), ["new"]);
    restore(&scratch, &file, &before);
    assert!(!scratch.exists("new") && scratch.exists("beside"));
    scratch.fsck();
}

#[test]
fn takebacks_own_files_are_refused() {
    let scratch = Scratch::new();
    let own = scratch.path("own");
    fs::create_dir(&own).unwrap();
    let places = ForbiddenRoots::new(None, Vec::new(), Some(own.clone()));
    assert!(matches!(
        scratch.store.single_file(&own.join("state.db"), &places),
        Err(WorkspaceError::Refused { .. })
    ));
}

#[test]
fn a_checkpoint_is_compared_with_the_current_state() {
    let scratch = Scratch::new();
    scratch.write("same", "1");
    scratch.write("edited", "a\nb\nc\n");
    scratch.write("gone", "1");
    let capture = scratch.capture();
    scratch.write("edited", "a\nB\nc\nd\n");
    scratch.remove("gone");
    scratch.write("new", "x\n");
    let workspace = scratch.store.workspace(&scratch.root, &ForbiddenRoots::default()).unwrap();
    let mut lock = workspace.lock().unwrap();
    let options =
        CaptureOptions { rules: &scratch.rules, named: &[], swept: &[], now: scratch.now() };
    let rules = CaptureRules::default();
    let diff = lock.diff_to_present(&capture.tree, &options, &DiffOptions::new(&rules)).unwrap();
    let changes: Vec<_> = diff.changes.iter().map(|change| (&change.path, &change.kind)).collect();
    let expected = [
        (&rel("edited"), &ChangeKind::Modified),
        (&rel("gone"), &ChangeKind::Deleted),
        (&rel("new"), &ChangeKind::Added),
    ];
    assert_eq!(changes, expected);
    let lines = diff.changes[0].lines.unwrap();
    assert_eq!((lines.insertions, lines.deletions), (2, 1));
    let text = diff.to_unified(&scratch.store, None).unwrap().text;
    assert!(String::from_utf8(text).unwrap().contains("-b\n+B\n"));
}
