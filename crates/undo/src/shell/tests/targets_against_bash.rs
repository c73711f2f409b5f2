//! Compares the targets of random scripts with the changes that bash makes. The analysis must have
//! named every file that is deleted or changed, or reported the command as unknown.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::super::{ScriptContext, analyze_script};
use super::random_scripts::random_scripts;

const FILES: &[&str] = &[
    "app/a.txt",
    "app/b.txt",
    "app/c.log",
    "app/sp ace.txt",
    "app/.hidden",
    "app/d/a.txt",
    "app/d/e/f.log",
    "app/d/e/g.txt",
    "app/x1",
    "app/x2",
    "app/{q}",
    "out/a.txt",
    "out/o1",
    "out/p/z.txt",
];

/// Creates files, links, a list of files and a repository.
fn make_scene(root: &Path) {
    for file in FILES {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, *file).unwrap();
    }
    fs::write(root.join("app/list"), "a.txt\nd/a.txt\nsp ace.txt\n").unwrap();
    // A repository without commits: for git, all files are untracked.
    for directory in [".git/objects", ".git/refs"] {
        fs::create_dir_all(root.join("app").join(directory)).unwrap();
    }
    fs::write(root.join("app/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
    std::os::unix::fs::symlink("../out/p", root.join("app/ln")).unwrap();
    std::os::unix::fs::symlink("c.log", root.join("app/lf")).unwrap();
}

/// Reads every file and link below a directory.
fn read_all(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let kind = fs::symlink_metadata(&path).unwrap();
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                found.insert(path, target.into_os_string().into_encoded_bytes());
            } else {
                let content = fs::read(&path).unwrap();
                found.insert(path, content);
            }
        }
    }
    found
}

/// Runs a script in bash. If the script changes a file that the analysis did not report, returns
/// that file and the reported paths.
fn find_missed(script: &str) -> Option<(PathBuf, Vec<PathBuf>)> {
    let scratch = tempfile::tempdir().unwrap();
    // Random scripts may also delete files in directories above their own, so they run far below
    // the directory for temporary files.
    let root = fs::canonicalize(scratch.path()).unwrap().join("1/2/3/4/5/6/7/8/9");
    make_scene(&root);
    let (app, home) = (root.join("app"), root.join("out"));
    let context = ScriptContext { directory: &app, workspace: &app, home: Some(&home) };
    let found = analyze_script(script, &context);
    if !found.unknown.is_empty() {
        return None;
    }
    let before = read_all(&root);
    Command::new("timeout")
        .args(["2", "bash", "-c", script, "bash"])
        .current_dir(&app)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", &home)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    let after = read_all(&root);
    let is_named = |path: &PathBuf| {
        found.paths.iter().chain(&found.sweeps).any(|named| path.starts_with(named))
    };
    let is_changed = |path: &&PathBuf| before.get(*path) != after.get(*path);
    // Creating a file overwrites nothing, but if the script is bounded, the analysis must also name
    // the new files.
    let new = after.keys().filter(|path| found.bounded && !before.contains_key(*path));
    let missed = before.keys().chain(new).filter(is_changed).find(|path| !is_named(path));
    missed.map(|path| (path.clone(), found.paths.clone()))
}

proptest! {
    #![proptest_config(super::random_config(200))]

    #[test]
    fn bash_changes_only_what_was_reported(script in random_scripts()) {
        let missed = find_missed(&script);
        prop_assert!(missed.is_none(), "{script}\nchanged and named: {missed:?}");
    }
}
