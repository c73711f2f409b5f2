//! Checkpoints and rollbacks, as the user sees them.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::session::{Session, first_in, said};

#[test]
fn a_rollback_and_its_undo_restore_everything() {
    let mut session = Session::new();
    session.write("a.txt", "one\n");
    session.write("node_modules/x", "");
    session.takeback(&["rollback"]);
    session.takeback(&["checkpoint", "--reason", "first"]);
    session.write("a.txt", "two\n");
    session.write("new/b.txt", "b\n");
    session.takeback(&["checkpoint"]);
    session.takeback(&["rollback"]);
    session.takeback(&["rollback", "2", "--dry-run"]);
    session.takeback(&["rollback", "2", "--yes"]);
    session.assert(
        "
$ takeback rollback
No checkpoints for ~/project yet. They appear before an agent's next change.
`takeback install` adds takeback to your agents; `takeback checkpoint` takes one now.
$ takeback checkpoint --reason first
Checkpoint <id> of 1 file.
Not covered:
  node_modules  (excluded)
$ takeback checkpoint
Checkpoint <id> of 2 files.
Not covered:
  node_modules  (excluded)
$ takeback rollback
Checkpoints for ~/project
  ●  1  <id>  <age>  taken by hand
  ◆  2  <id>  <age>  first          2 files +2 −1

● now  ◆ by hand
Not covered: node_modules (`takeback show 1` says why)
takeback rollback 1  return files and conversation to the state before a row
takeback diff 1      show what changed since then
takeback undo        take back only the last turn, and keep your edits
$ takeback rollback 2 --dry-run
Would restore 1 file and delete 1.
Would restore:
  a.txt
Would delete:
  new
  new/b.txt
Not covered by the checkpoint: 1 path (-v lists them).
$ takeback rollback 2 --yes
Restored:
  a.txt
Deleted:
  new
  new/b.txt
Not covered by the checkpoint: 1 path (-v lists them).
Restored 1 file and deleted 1. `takeback rollback undo` takes this back.
",
    );
    assert_eq!(session.read("a.txt"), "one\n");
    session.takeback(&["rollback", "2"]);
    session.takeback(&["rollback", "undo"]);
    session.takeback(&["rollback", "undo"]);
    session.assert(
        "
$ takeback rollback 2
Not covered by the checkpoint: 1 path (-v lists them).
Nothing to restore: everything is already in that state.
$ takeback rollback undo
Restored:
  a.txt
  new
  new/b.txt
Not covered by the checkpoint: 1 path (-v lists them).
Restored 2 files. `takeback rollback redo` takes this back.
$ takeback rollback undo
! error: no rollback to undo in this workspace
[exit Some(1)]
",
    );
    assert_eq!(session.read("a.txt"), "two\n");
    assert_eq!(session.read("new/b.txt"), "b\n");
}

#[test]
fn guarded_and_kept_and_blocked_paths_are_listed() {
    let mut session = Session::new();
    session.write(".gitignore", ".env\ndata/\n");
    session.write(".env", "1");
    session.write("data/x", "1");
    session.write("thing", "1");
    session.output(&["checkpoint"]);
    session.write(".env", "2");
    session.write(".gitignore", ".env\n");
    session.takeback(&["rollback", "1"]);
    fs::remove_file(session.project().join("thing")).unwrap();
    session.write("thing/.git/HEAD", "x");
    session.takeback(&["rollback", "1"]);
    session.assert(
        "
$ takeback rollback 1
Restored:
  .gitignore
Guarded, not changed (name a file to restore it):
  .env
Kept:
  data/x  (the checkpoint did not cover it)
Not covered by the checkpoint: 1 path (-v lists them).
Restored 1 file. `takeback rollback undo` takes this back.
$ takeback rollback 1
Would restore 1 file.
Would restore:
  thing
Guarded, not changed (name a file to restore it):
  .env
Cannot be restored:
  thing/.git  (never captured)
Not covered by the checkpoint: 1 path (-v lists them).
! error: nothing was changed
! hint: move the blocking paths out of the way, or restore the rest with --skip-blocked
[exit Some(1)]
",
    );
    assert_eq!(session.read("thing/.git/HEAD"), "x");
}

#[test]
fn bad_input_gets_a_clear_error() {
    let mut session = Session::new();
    session.write("a", "1");
    session.output(&["checkpoint"]);
    for arguments in [
        &["rollback", "7"][..],
        &["rollback", "--", "--upload-pack=x"],
        &["rollback", "abc"],
        &["rollback", "1234567890abcdef"],
        &["rollback", "1", "../../etc/passwd"],
        &["rollback", "1", "/etc/passwd"],
        &["rollback", "1", "missing"],
        &["rollback", "undo", "a"],
        &["rollback", "--dry-run"],
        &["-C", "/", "checkpoint"],
        &["-C", "..", "checkpoint"],
        &["-C", "nowhere", "checkpoint"],
    ] {
        session.takeback(arguments);
    }
    session.assert(
        "
$ takeback rollback 7
! error: no checkpoint 7: this workspace has 1
! hint: `takeback list` lists the checkpoints of this workspace
[exit Some(1)]
$ takeback rollback -- --upload-pack=x
! error: \"--upload-pack=x\" is not a checkpoint
! hint: give a number from the list, a name, or at least 6 digits of an id
[exit Some(1)]
$ takeback rollback abc
! error: \"abc\" is not a checkpoint
! hint: give a number from the list, a name, or at least 6 digits of an id
[exit Some(1)]
$ takeback rollback 1234567890abcdef
! error: this workspace has no checkpoint 1234567890abcdef
! hint: `takeback list` lists the checkpoints of this workspace
[exit Some(1)]
$ takeback rollback 1 ../../etc/passwd
! error: ../../etc/passwd is outside the workspace ~/project
! hint: give paths inside the workspace
[exit Some(1)]
$ takeback rollback 1 /etc/passwd
! error: /etc/passwd is outside the workspace ~/project
! hint: give paths inside the workspace
[exit Some(1)]
$ takeback rollback 1 missing
! error: missing is neither in the checkpoint nor in the workspace
[exit Some(1)]
$ takeback rollback undo a
! error: `rollback undo` takes no paths
! hint: `takeback rollback CHECKPOINT PATH` restores single files
[exit Some(1)]
$ takeback rollback --dry-run
! error: the following required arguments were not provided: <CHECKPOINT>
! hint: `takeback list` lists the checkpoints
! Usage: takeback rollback --dry-run <CHECKPOINT> [PATH]...
[exit Some(2)]
$ takeback -C / checkpoint
! error: / is the root of the file system, not a workspace
! hint: change to the directory of a project, or name one with -C DIR
[exit Some(1)]
$ takeback -C .. checkpoint
! error: ~ is the home directory, not a workspace
! hint: change to the directory of a project, or name one with -C DIR
[exit Some(1)]
$ takeback -C nowhere checkpoint
! warning: nowhere does not exist; using the workspace that it belongs to
! error: cannot open ~/project/nowhere as a workspace
!   because: No such file or directory (os error 2)
[exit Some(1)]
",
    );
}

#[test]
fn another_workspace_has_its_own_checkpoints() {
    let mut session = Session::new();
    session.write("a", "1");
    let id = session.json(&["checkpoint"])["id"].as_str().unwrap().to_owned();
    fs::create_dir(session.base().join("other")).unwrap();
    session.takeback(&["-C", "../other", "rollback", &id[..12]]);
    assert_eq!(fs::read_dir(session.base().join("other")).unwrap().count(), 0);
    session.takeback(&["-C", "../other", "rollback", "undo"]);
    session.assert(&format!(
        "
$ takeback -C ../other rollback {0}
! error: checkpoint {0} belongs to ~/project
! hint: nothing was changed; to restore it there: `takeback -C ~/project rollback {0}`
[exit Some(1)]
$ takeback -C ../other rollback undo
! error: no rollback to undo in this workspace
[exit Some(1)]
",
        &id[..12]
    ));
}

#[test]
fn json_has_the_documented_shapes() {
    let session = Session::new();
    session.write("a", "1");
    session.write("dist/x", "1");
    let taken = session.json(&["checkpoint", "--reason", "r"]);
    assert_eq!(taken["number"], 1);
    assert_eq!(taken["files"], 1);
    assert_eq!(taken["id"].as_str().unwrap().len(), 40);
    assert!(taken["created"].as_str().unwrap().ends_with('Z'));
    assert_eq!(taken["uncovered"], serde_json::json!([{"path": "dist", "reason": "excluded"}]));
    let list = session.json(&["rollback"]);
    assert_eq!(list["workspace"], session.project().to_str().unwrap());
    let row = &list["checkpoints"][0];
    assert_eq!(
        (&row["number"], &row["id"], &row["reason"], &row["kind"]),
        (&1.into(), &taken["id"], &"r".into(), &"manual".into())
    );
    assert_eq!(row["uncovered"], serde_json::json!({"count": 1, "paths": ["dist"]}));
    session.write("a", "2");
    let dry = session.json(&["rollback", "1", "--dry-run"]);
    assert_eq!(
        (&dry["restored"], &dry["safety_checkpoint"]),
        (&serde_json::json!(["a"]), &serde_json::Value::Null)
    );
    assert_eq!(session.read("a"), "2");
    let done = session.json(&["rollback", "1"]);
    assert_eq!((&done["checkpoint"], &done["restored"]), (&taken["id"], &serde_json::json!(["a"])));
    assert_eq!(done["safety_checkpoint"].as_str().unwrap().len(), 40);
    let error = session.json(&["rollback", "9"]);
    assert_eq!(error["error"]["message"], "no checkpoint 9: this workspace has 1");
}

#[test]
fn hostile_names_and_reasons_do_not_reach_the_terminal() {
    let session = Session::new();
    session.write("evil\u{1b}[31m\n2", "1");
    session.output(&["checkpoint", "--reason", "red \u{1b}[31m\u{202e}txt"]);
    session.write("evil\u{1b}[31m\n2", "2");
    for arguments in [
        &["rollback"][..],
        &["rollback", "1", "--dry-run"],
        &["rollback", "1"],
        &["rollback", "\u{1b}[2Jx"],
    ] {
        let output = session.output(arguments);
        let seen = [output.stdout, output.stderr].concat();
        assert!(!seen.contains(&0x1b), "{}", String::from_utf8_lossy(&seen));
        assert!(!String::from_utf8_lossy(&seen).contains('\u{202e}'));
    }
}

#[test]
fn an_interrupted_restore_is_reported() {
    let mut session = Session::new();
    session.write("a", "1");
    session.output(&["checkpoint"]);
    let workspace = first_in(&session.base().join(".takeback/checkpoints/store/workspaces"));
    let root = fs::metadata(session.project()).unwrap();
    let root = (root.dev(), root.ino());
    let journal = serde_json::json!({"version": 1, "root": root, "id": "deadbeef", "steps": [], "loosened": []});
    fs::write(workspace.join("journal"), journal.to_string()).unwrap();
    session.takeback(&["checkpoint", "--reason", "after"]);
    session.assert(
        "
$ takeback checkpoint --reason after
Checkpoint <id> of 1 file.
! note: a restore was interrupted and has been finished
",
    );
    assert!(!workspace.join("journal").exists());
}

#[test]
fn the_demo_restores_its_project() {
    let session = Session::new();
    let output = session.output(&["demo"]);
    let seen = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{seen}{}", String::from_utf8_lossy(&output.stderr));
    assert!(seen.contains("Everything is back, byte for byte"), "{seen}");
    assert_eq!(
        fs::read_dir(session.base()).unwrap().count(),
        1,
        "nothing is left in the home directory"
    );
}

#[test]
fn a_journal_of_another_version_or_directory_is_not_used() {
    let session = Session::new();
    session.write("a", "1");
    session.output(&["checkpoint"]);
    let workspace = first_in(&session.base().join(".takeback/checkpoints/store/workspaces"));
    fs::write(workspace.join("journal"), r#"{"version": 2, "shape": "unknown"}"#).unwrap();
    let output = session.output(&["checkpoint"]);
    assert!(output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("another version of takeback wrote it"), "{said}");
    assert!(workspace.join("journal").exists());
    assert!(!session.output(&["rollback", "1"]).status.success());

    let step = serde_json::json!({"path": "a", "from": {"mode": 33188, "oid": "d00491fd7e5bb6fa28c517a0bb32b8b506539d4d"}, "to": null, "stage": "", "swap": false});
    let journal = serde_json::json!({"version": 1, "root": (1, 2), "id": "deadbeef", "steps": [step], "loosened": []});
    fs::write(workspace.join("journal"), journal.to_string()).unwrap();
    let output = session.output(&["checkpoint"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("a different directory"), "{said}");
    assert!(workspace.join("journal.foreign").exists());
    assert_eq!(session.read("a"), "1");
}

#[test]
fn a_path_through_a_link_is_inside_the_workspace() {
    let session = Session::new();
    let link = session.base().join("link");
    std::os::unix::fs::symlink(session.project(), &link).unwrap();
    session.write("d/x", "0");
    session.output(&["checkpoint"]);
    for path in [link.join("d/x"), link.join("d")] {
        session.write("d/x", "1");
        let output = session.output(&["rollback", "1", path.to_str().unwrap()]);
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(session.read("d/x"), "0");
    }
}

#[test]
fn a_plan_names_the_files_that_will_be_setuid() {
    let mut session = Session::new();
    session.write("tool", "1");
    let tool = session.project().join("tool");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o4755)).unwrap();
    session.output(&["checkpoint"]);
    fs::remove_file(&tool).unwrap();
    session.takeback(&["rollback", "1", "--dry-run"]);
    session.takeback(&["rollback", "1"]);
    session.assert(
        "
$ takeback rollback 1 --dry-run
Would restore 1 file.
Would restore:
  tool
Setuid or setgid: other users who run these files act as you:
  tool
$ takeback rollback 1
Restored:
  tool
Setuid or setgid: other users who run these files act as you:
  tool
Restored 1 file. `takeback rollback undo` takes this back.
",
    );
    assert_eq!(fs::metadata(tool).unwrap().permissions().mode() & 0o7777, 0o4755);
}

#[test]
fn a_file_name_is_never_treated_as_a_pattern() {
    let session = Session::new();
    let paths = ["d[1]/a", "d1/a", "f[1]", "f1", "sub/g"];
    std::fs::create_dir(session.project().join(".git")).unwrap();
    paths.iter().for_each(|path| session.write(path, "1"));
    assert!(session.output(&["checkpoint"]).status.success());
    paths.iter().for_each(|path| session.write(path, "2"));
    std::fs::remove_dir_all(session.project().join("d[1]")).unwrap();
    std::fs::remove_file(session.project().join("f[1]")).unwrap();
    let read = || ["d1/a", "f1", "sub/g"].map(|path| session.read(path));
    // Both files are gone, but a rollback would restore them under exactly these names.
    assert!(session.output(&["rollback", "1", "d[1]", "f[1]", "--yes"]).status.success());
    assert_eq!((session.read("d[1]/a"), session.read("f[1]")), ("1".into(), "1".into()));
    assert_eq!(read(), ["2", "2", "2"]);
    // The user says that `f?` is not a pattern, and no file has exactly this name.
    let typed = ["rollback", "1", ":(literal)f?", "--yes"];
    let literal = said(&session.output(&typed));
    assert!(literal.contains("f? is neither in the checkpoint nor in the workspace"), "{literal}");
    assert_eq!(read(), ["2", "2", "2"]);
    // `:/` begins at the top of the workspace.
    let below = session.project().join("sub");
    let typed = ["-C", below.to_str().unwrap(), "rollback", "1", ":/f1", "g", "--yes"];
    assert!(session.output(&typed).status.success());
    assert_eq!(read(), ["2", "1", "1"]);
}

#[test]
fn a_pattern_restores_the_matching_files_only() {
    let session = Session::new();
    for path in ["a.py", "src/b.py", "src/c.rs", "src/old/d.py", "[x].py"] {
        session.write(path, "1");
    }
    assert!(session.output(&["checkpoint"]).status.success());
    for path in ["a.py", "src/b.py", "src/c.rs", "[x].py"] {
        session.write(path, "2");
    }
    session.write("new.py", "2");
    std::fs::remove_file(session.project().join("src/old/d.py")).unwrap();
    let none = said(&session.output(&["rollback", "1", "*.js"]));
    assert!(none.contains("the rollback would change no file that matches *.js"), "{none}");
    let some = session.output(&["rollback", "1", "src/*.py", "[x].py", "--yes"]);
    assert!(some.status.success(), "{some:?}");
    let states = ["a.py", "src/b.py", "src/c.rs", "src/old/d.py", "[x].py", "new.py"];
    assert_eq!(states.map(|path| session.read(path)), ["2", "1", "2", "1", "1", "2"]);
    let diff = session.json(&["diff", "1", "*.py"]);
    let changed: Vec<&str> =
        diff["changes"].as_array().unwrap().iter().map(|it| it["path"].as_str().unwrap()).collect();
    assert_eq!(changed, ["a.py", "new.py"]);
    assert!(session.output(&["rollback", "1", "*.py", "--yes"]).status.success());
    assert!(!session.project().join("new.py").exists());
    assert_eq!((session.read("a.py"), session.read("src/c.rs")), ("1".into(), "2".into()));
    assert!(session.output(&["rollback", "undo", "--yes"]).status.success());
    assert_eq!((session.read("a.py"), session.read("new.py")), ("2".into(), "2".into()));
}

#[test]
fn an_excluded_path_is_not_restored() {
    let session = Session::new();
    let paths = ["a.py", "docs/b.md", "src/c.py", "src/d.rs"];
    let read = || paths.map(|path| session.read(path));
    let changed_paths = |typed: &[&str]| -> Vec<String> {
        let diff = session.json(typed);
        let changes = diff["changes"].as_array().unwrap().iter();
        changes.map(|change| change["path"].as_str().unwrap().to_owned()).collect()
    };
    std::fs::create_dir(session.project().join(".git")).unwrap();
    paths.iter().for_each(|path| session.write(path, "1"));
    assert!(session.output(&["checkpoint"]).status.success());
    paths.iter().for_each(|path| session.write(path, "2"));
    let left = ["docs/b.md", "src/c.py"];
    for (typed, restored) in [
        (&["*.py", ":!src"][..], "1222"),
        (&["src", ":^*.rs"], "2212"),
        (&[":!src/c.py", ":(exclude)docs"], "1221"),
        (&[":!/docs", ":(exclude,top)a.py"], "2211"),
    ] {
        let shown = changed_paths(&[&["diff", "1"], typed].concat());
        let output = session.output(&[&["rollback", "1", "--yes"], typed].concat());
        assert!(output.status.success(), "{output:?}");
        assert_eq!(read().concat(), restored, "{typed:?}");
        let restored = paths.iter().filter(|path| session.read(path) == "1");
        assert!(restored.eq(&shown), "{shown:?}");
        assert!(session.output(&["rollback", "undo", "--yes"]).status.success());
        assert_eq!(read().concat(), "2222");
    }
    // Paths after `:!/` begin at the top of the workspace, others in the current directory.
    let below = session.project().join("src");
    let typed = ["-C", below.to_str().unwrap(), "diff", "1", ":!*.rs", ":!/a.py"];
    assert_eq!(changed_paths(&typed), left);
    let nothing = said(&session.output(&["rollback", "1", "src", ":!src"]));
    assert!(nothing.contains("every change is excluded"), "{nothing}");
    assert_eq!(read().concat(), "2222");
}
