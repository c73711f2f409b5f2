//! A user can always return to a checkpoint.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::json;

use crate::agent::{Agent, configure, conversation};
use crate::session::{Session, said};

#[track_caller]
fn succeeds(session: &Session, arguments: &[&str]) {
    let output = session.output(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", said(&output));
}

fn write_many(session: &Session, directory: &str) {
    for number in 0..60 {
        session.write(&format!("{directory}/{number}"), "made since");
    }
}

#[test]
fn too_many_files_do_not_block_the_way_back() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_files = 50\n");
    session.write("a", "1");
    session.write("b", "1");
    let mut agent = Agent::new(&session, "s");
    agent.turn("change it", "a", "2");
    write_many(&session, "many");
    succeeds(&session, &["undo", "-y"]);
    assert_eq!(session.read("a"), "1");
    assert_eq!(session.read("many/59"), "made since");
    succeeds(&session, &["rollback", "undo", "-y"]);
    assert_eq!(session.read("a"), "2");
    succeeds(&session, &["rollback", "1", "a", "-y"]);
    assert_eq!(session.read("a"), "1");
    succeeds(&session, &["rollback", "1", "-y"]);
    assert!(!session.exists("many/0"));
    succeeds(&session, &["rollback", "undo", "-y"]);
    assert_eq!(session.read("many/59"), "made since");
}

#[test]
fn a_removed_ignore_rule_does_not_block_the_way_back() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_files = 50\n");
    session.write(".gitignore", "data/\n");
    write_many(&session, "data");
    let mut agent = Agent::new(&session, "s");
    agent.hears("ignore nothing");
    let call = agent.begins("Write", json!({ "path": ".gitignore", "content": "" }));
    session.write(".gitignore", "");
    assert!(agent.report(call.event("after_tool")).contains("more than 50 files"));
    agent.is_done();
    succeeds(&session, &["rollback", "1", "-y"]);
    assert_eq!(session.read(".gitignore"), "data/\n");
    assert_eq!(session.read("data/59"), "made since");
}

#[test]
fn a_named_directory_that_grew_does_not_block_the_way_back() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_files = 50\n");
    session.write(".gitignore", "data/\n");
    session.write("data/0", "1");
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s");
    agent.hears("change the data");
    let call = agent.begins("Write", json!({ "path": "data", "content": "" }));
    session.write("data/0", "2");
    session.write("a", "2");
    agent.finishes(&call);
    agent.is_done();
    write_many(&session, "data/grown");
    succeeds(&session, &["rollback", "1", "a", "-y"]);
    assert_eq!(session.read("a"), "1");
    succeeds(&session, &["rollback", "1", "-y"]);
    assert_eq!(session.read("data/0"), "1");
    succeeds(&session, &["rollback", "undo", "-y"]);
    assert_eq!(session.read("data/0"), "2");
    assert_eq!(session.read("data/grown/59"), "made since");
}

/// A writer that keeps appending to a file in the project, as a server does to its log. Dropping
/// the writer stops it.
struct WritingProcess {
    is_over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl WritingProcess {
    fn start(session: &Session, path: &str) -> WritingProcess {
        let path = session.project().join(path);
        let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let flag = is_over.clone();
        let thread = thread::spawn(move || {
            while !flag.load(Ordering::Relaxed) {
                file.write_all(b"a line\n").unwrap();
            }
        });
        WritingProcess { is_over, thread: Some(thread) }
    }
}

impl Drop for WritingProcess {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

#[test]
fn a_file_that_is_being_written_blocks_only_itself() {
    let session = Session::new();
    session.write("a", "1");
    session.write("server", "1");
    let mut agent = Agent::new(&session, "s");
    agent.turn("change it", "a", "2");
    session.write("server", "2");
    let writer = WritingProcess::start(&session, "server");
    let output = session.output(&["rollback", "1", "-y"]);
    assert!(!output.status.success());
    let pid = std::process::id();
    // takeback notices the writer while planning or while restoring, depending on timing.
    let seen = String::from_utf8_lossy(&output.stdout).into_owned() + &said(&output);
    assert!(seen.contains(&format!("(pid {pid}) has it open for writing")), "{seen}");
    assert!(seen.contains("--skip-blocked"), "{seen}");
    assert_eq!(session.read("a"), "2");
    let done = session.json(&["rollback", "1", "--skip-blocked"]);
    assert_eq!(done["restored"], json!(["a"]), "{done:#}");
    assert_eq!(done["skipped"][0]["path"], "server");
    assert_eq!(done["skipped"][0]["writers"][0]["pid"], pid);
    assert_eq!(session.read("a"), "1");
    // Undoing the rollback does not change the file `server` either.
    let undone = session.json(&["rollback", "undo"]);
    assert_eq!(undone["restored"], json!(["a"]));
    drop(writer);
    assert!(session.read("server").len() > 1_000);
}

/// Creates a session in which a file was replaced by something that no checkpoint can hold.
fn with_an_obstacle() -> Session {
    let session = Session::new();
    session.write("a", "1");
    session.write("thing", "1");
    let mut agent = Agent::new(&session, "s");
    agent.turn("change it", "a", "2");
    fs::remove_file(session.project().join("thing")).unwrap();
    session.write("thing/.git/HEAD", "x");
    session.write("thing/inner", "x");
    session
}

#[test]
fn an_obstacle_blocks_only_its_own_path() {
    let mut session = with_an_obstacle();
    session.takeback(&["rollback", "1"]);
    session.takeback(&["rollback", "1", "--skip-blocked"]);
    session.assert(
        "
$ takeback rollback 1
Would restore 2 files and delete 1. 1 of them has been edited since.
Would restore:
  a
  thing
Would delete:
  thing/inner
Cannot be restored:
  thing/.git  (never captured)
Edited since the turn, by you or another agent (saved in the safety checkpoint):
  thing/inner
Conversation: 1 turn (1 message) would be taken back.
The prompt was:
  change it
! error: nothing was changed
! hint: move the blocking paths out of the way, or restore the rest with --skip-blocked
[exit Some(1)]
$ takeback rollback 1 --skip-blocked
Restored:
  a
Skipped, not changed:
  thing/.git  (never captured)
Conversation: 1 turn (1 message) taken back.
The prompt was:
  change it
Restored 1 file. `takeback rollback undo` takes this back.
",
    );
    assert_eq!(session.read("a"), "1");
    assert_eq!(session.read("thing/.git/HEAD"), "x");
    assert_eq!(session.read("thing/inner"), "x");
    succeeds(&session, &["rollback", "undo"]);
    assert_eq!(session.read("a"), "2");
    assert_eq!(session.read("thing/inner"), "x");
}

#[test]
fn the_conversation_is_taken_back_even_if_all_files_are_skipped() {
    let mut session = Session::new();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s");
    agent.turn("first", "a", "2");
    agent.turn("second", "a", "3");
    succeeds(&session, &["rollback", "2"]);
    assert_eq!(conversation(&session), Vec::<String>::new());
    fs::remove_file(session.project().join("a")).unwrap();
    session.write("a/.git/HEAD", "x");
    session.takeback(&["rollback", "1", "--skip-blocked"]);
    session.takeback(&["rollback", "1", "--skip-blocked"]);
    session.assert(
        "
$ takeback rollback 1 --skip-blocked
Skipped, not changed:
  a/.git  (never captured)
Conversation: 1 message restored.
Done. `takeback rollback undo` takes this back.
$ takeback rollback 1 --skip-blocked
Skipped, not changed:
  a/.git  (never captured)
Nothing was changed.
",
    );
    assert_eq!(conversation(&session), ["first"]);
    succeeds(&session, &["rollback", "undo"]);
    assert_eq!(conversation(&session), Vec::<String>::new());
    assert_eq!(session.read("a/.git/HEAD"), "x");
}

/// A file system in memory, which is unmounted at the end.
struct Mount(PathBuf);

impl Mount {
    /// Mounts a file system. Returns `None` if the machine does not allow that.
    fn make(path: PathBuf) -> Option<Mount> {
        let mut mount = Command::new("mount");
        let status = mount.args(["-t", "tmpfs", "tmpfs"]).arg(&path).stderr(Stdio::null()).status();
        status.unwrap().success().then_some(Mount(path))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_mount_in_place_of_a_file_blocks_only_its_own_path() {
    let session = Session::new();
    session.write("a", "1");
    session.write("thing", "1");
    let mut agent = Agent::new(&session, "s");
    agent.turn("change it", "a", "2");
    let place = session.project().join("thing");
    fs::remove_file(&place).unwrap();
    fs::create_dir(&place).unwrap();
    let Some(_mount) = Mount::make(place) else { return };
    session.write("thing/inner", "x");
    let output = session.output(&["rollback", "1"]);
    assert!(!output.status.success());
    assert!(said(&output).contains("--skip-blocked restores everything else"), "{}", said(&output));
    assert_eq!((session.read("a"), session.read("thing/inner")), ("2".into(), "x".into()));
    succeeds(&session, &["rollback", "1", "--skip-blocked"]);
    assert_eq!((session.read("a"), session.read("thing/inner")), ("1".into(), "x".into()));
}

#[test]
fn an_invalid_configuration_does_not_block_the_way_back() {
    let session = Session::new();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s");
    agent.turn("change it", "a", "2");
    for text in ["[checkpoints]\nmax_files = \"many\"\n", "[checkpoints\n", "what = [\n1,\n"] {
        configure(&session, text);
        for (arguments, content) in [
            (&["list"][..], "2"),
            (&["show", "1"], "2"),
            (&["diff", "1"], "2"),
            (&["rollback", "1"], "1"),
            (&["rollback", "undo"], "2"),
            (&["undo"], "1"),
            (&["rollback", "undo"], "2"),
        ] {
            let output = session.output(arguments);
            assert!(output.status.success(), "{arguments:?}: {}", said(&output));
            assert!(said(&output).contains("config.toml, line"), "{}", said(&output));
            assert_eq!(session.read("a"), content, "{arguments:?}");
        }
    }
}

#[test]
fn an_invalid_line_in_the_configuration_leaves_the_others_in_force() {
    let session = Session::new();
    session.write("keep.tmp", "1");
    session.output(&["checkpoint"]);
    configure(&session, "[checkpoints]\nmax_files = \"many\"\nexclude = [\"*.tmp\"]\n");
    session.write("new.tmp", "1");
    succeeds(&session, &["rollback", "1"]);
    assert!(session.exists("new.tmp"));
}

#[test]
fn the_list_finishes_an_interrupted_restore() {
    let session = Session::new();
    for number in 0..400 {
        session.write(&format!("files/{number}"), "1");
    }
    session.output(&["checkpoint"]);
    for number in 0..400 {
        session.write(&format!("files/{number}"), "2");
    }
    let journals = ["journal", "journal.staging"];
    let has_journal =
        || journals.iter().any(|name| session.workspace_directory().join(name).exists());
    for _ in 0..50 {
        let mut child = session.start(&["rollback", "1", "-y"]);
        while !has_journal() && child.try_wait().unwrap().is_none() {}
        child.kill().unwrap();
        child.wait().unwrap();
        if has_journal() {
            break;
        }
        session.output(&["rollback", "undo"]);
    }
    assert!(has_journal());
    let output = session.output(&["list"]);
    assert!(said(&output).contains("a restore was interrupted and has been"), "{}", said(&output));
    assert!(!has_journal());
    assert_eq!(session.read("files/0"), session.read("files/399"));
    assert!(!said(&session.output(&["list"])).contains("interrupted"));
}

#[test]
fn a_repeated_rollback_that_changes_nothing_is_not_recorded() {
    let session = Session::new();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s");
    agent.turn("change it", "a", "2");
    assert!(session.json(&["rollback", "1"])["safety_checkpoint"].is_string());
    assert!(session.json(&["rollback", "1"])["safety_checkpoint"].is_null());
    let undone = session.json(&["rollback", "undo"]);
    assert_eq!((session.read("a"), &undone["redone_messages"]), ("2".into(), &json!(1)));
}

#[test]
fn undoing_a_rollback_names_files_that_have_changed_since() {
    let session = Session::new();
    session.write("a", "1");
    session.write("b", "1");
    session.output(&["checkpoint"]);
    session.write("a", "2");
    session.write("b", "2");
    succeeds(&session, &["rollback", "1"]);
    session.write("a", "an hour of work");
    session.write("new", "another hour");
    let plan = session.json(&["rollback", "undo", "--dry-run"]);
    assert_eq!(plan["others"], json!(["a", "new"]));
    succeeds(&session, &["rollback", "undo"]);
    succeeds(&session, &["rollback", "redo"]);
    assert_eq!(session.read("new"), "another hour");
}
