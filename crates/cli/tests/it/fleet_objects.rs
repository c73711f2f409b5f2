//! Checkpoints of a fleet, in a directory that two machines share.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::agent::{Agent, configure, eventually, everything};
use crate::fleet_server::Server;
use crate::session::{Session, said};

/// Two machines of a fleet with a shared directory.
struct Fleet {
    _server: Server,
    bucket: tempfile::TempDir,
    first: Session,
    second: Session,
}

fn machine(server: &Server, bucket: &Path, name: &str) -> Session {
    let session = Session::new();
    let (address, bucket) = (server.address(), bucket.display());
    configure(
        &session,
        &format!(
            "[checkpoints]\ntimeout_ms = 600000\n\n[fleet]\npostgres = \"{address}\"\nname = \"{name}\"\nobjects = \"file://{bucket}\"\n"
        ),
    );
    session
}

impl Fleet {
    fn new() -> Option<Fleet> {
        let server = Server::start()?;
        let bucket = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| machine(&server, bucket.path(), name));
        let key = first.json(&["fleet", "init"])["key"].as_str().unwrap().to_owned();
        fs::write(second.base().join("fleet.key"), key).unwrap();
        let file = second.base().join("fleet.key");
        second.json(&["fleet", "init", "--key-file", file.to_str().unwrap()]);
        Some(Fleet { _server: server, bucket, first, second })
    }

    fn pull(&self, arguments: &[&str]) -> Value {
        self.second.json(&[&["fleet", "pull"], arguments].concat())
    }
}

/// Runs takeback on a machine, in this directory.
fn json_in(session: &Session, directory: &Path, arguments: &[&str]) -> Value {
    let directory = directory.to_str().unwrap();
    session.json(&[&["-C", directory], arguments].concat())
}

/// Reads everything under a directory, with relative paths.
fn content_of(directory: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    let relative = |path: PathBuf| path.strip_prefix(directory).unwrap().to_owned();
    everything(directory).into_iter().map(|(path, mode, it)| (relative(path), mode, it)).collect()
}

fn two_turns(session: &Session) {
    let mut agent = Agent::new(session, "s1");
    session.write(".env", "TOKEN=hunter2-hunter2\n");
    session.write("a.txt", "before\n");
    agent.turn("write one", "a.txt", "one\n");
    agent.turn("write two", "a.txt", "two\n");
}

#[test]
fn another_machine_gets_the_files_with_their_history_and_can_roll_back() {
    let Some(fleet) = Fleet::new() else { return };
    two_turns(&fleet.first);
    let synced = fleet.first.json(&["fleet", "sync"]);
    assert!(synced["uploaded"].is_object(), "{synced}");
    let status = fleet.first.json(&["fleet", "status"]);
    assert_eq!(status["checkpoints"]["waiting"], 0, "{status}");
    assert!(status["checkpoints"]["checkpoints"].as_u64().unwrap() >= 4, "{status}");

    let listed = fleet.pull(&[]);
    assert_eq!(listed["workspaces"][0]["machine"], "first");
    let destination = fleet.second.base().join("pulled/shop");
    let project = fleet.first.project();
    let pulled = fleet.pull(&[project.to_str().unwrap(), destination.to_str().unwrap()]);
    assert_eq!(pulled["warnings"], Value::Array(Vec::new()), "{pulled}");
    assert_eq!(content_of(&destination), content_of(&project));

    let list = json_in(&fleet.second, &destination, &["rollback"]);
    let rows = list["checkpoints"].as_array().unwrap();
    assert_eq!(rows.len(), 3, "{list}");
    assert!(rows[0]["reason"].as_str().unwrap().starts_with("pulled from"), "{list}");
    json_in(&fleet.second, &destination, &["rollback", "3", "--yes"]);
    assert_eq!(fs::read_to_string(destination.join("a.txt")).unwrap(), "before\n");
    json_in(&fleet.second, &destination, &["rollback", "undo", "--yes"]);
    assert_eq!(fs::read_to_string(destination.join("a.txt")).unwrap(), "two\n");
    // The files on the first machine are unchanged.
    assert_eq!(fleet.first.read("a.txt"), "two\n");
    assert!(fleet.second.json(&["fleet", "verify"])["damaged"].as_array().unwrap().is_empty());
}

#[test]
fn an_earlier_checkpoint_is_pulled_with_the_history_up_to_it() {
    let Some(fleet) = Fleet::new() else { return };
    two_turns(&fleet.first);
    fleet.first.json(&["fleet", "sync"]);
    let name = fleet.first.project();
    let name = name.file_name().unwrap().to_str().unwrap();
    let destination = fleet.second.base().join("earlier");
    fleet.pull(&[&format!("{name}@1"), destination.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(destination.join("a.txt")).unwrap(), "one\n");
    let list = json_in(&fleet.second, &destination, &["rollback"]);
    assert_eq!(list["checkpoints"].as_array().unwrap().len(), 3, "{list}");
    let only = fleet.second.base().join("only");
    fleet.pull(&[&format!("{name}@2"), only.to_str().unwrap(), "--no-history"]);
    assert_eq!(fs::read_to_string(only.join("a.txt")).unwrap(), "before\n");
}

#[test]
fn a_pull_gets_the_state_after_the_last_rollback() {
    let Some(fleet) = Fleet::new() else { return };
    two_turns(&fleet.first);
    fleet.first.json(&["rollback", "1", "--yes"]);
    assert_eq!(fleet.first.read("a.txt"), "one\n");
    fleet.first.json(&["fleet", "sync"]);
    let destination = fleet.second.base().join("rolled-back");
    let project = fleet.first.project();
    fleet.pull(&[project.to_str().unwrap(), destination.to_str().unwrap()]);
    assert_eq!(content_of(&destination), content_of(&project));
}

#[test]
fn after_a_turn_checkpoints_are_uploaded_and_private_files_are_encrypted() {
    let Some(fleet) = Fleet::new() else { return };
    two_turns(&fleet.first);
    eventually("the checkpoints are uploaded", || {
        let status = fleet.first.json(&["fleet", "status"]);
        status["checkpoints"]["waiting"] == 0 && status["checkpoints"]["checkpoints"] != 0
    });
    let files = everything(fleet.bucket.path());
    assert!(files.iter().any(|(path, ..)| path.to_string_lossy().ends_with(".sealed")));
    let secret = b"hunter2-hunter2";
    let is_readable =
        files.iter().any(|(_, _, content)| content.windows(secret.len()).any(|it| it == secret));
    assert!(!is_readable);
}

#[test]
fn a_pull_that_fails_changes_nothing_and_says_why() {
    let Some(fleet) = Fleet::new() else { return };
    let empty = fleet.second.output(&["fleet", "pull", "shop"]);
    assert!(said(&empty).contains("holds no checkpoints"), "{}", said(&empty));
    two_turns(&fleet.first);
    fleet.first.json(&["fleet", "sync"]);
    let unknown = fleet.second.output(&["fleet", "pull", "nonsense"]);
    assert!(said(&unknown).contains("no machine has a workspace"), "{}", said(&unknown));
    let project = fleet.first.project();
    let project = project.to_str().unwrap();
    let unknown = fleet.second.output(&["fleet", "pull", &format!("{project}@99"), "new"]);
    assert!(said(&unknown).contains("no checkpoint 99"), "{}", said(&unknown));

    fleet.second.write("mine.txt", "mine");
    let occupied: PathBuf = fleet.second.project();
    let refused = fleet.second.output(&["fleet", "pull", project, occupied.to_str().unwrap()]);
    assert!(said(&refused).contains("is not empty"), "{}", said(&refused));
    assert_eq!(fleet.second.read("mine.txt"), "mine");

    fs::remove_dir_all(fleet.bucket.path()).unwrap();
    let missing = fleet.first.output(&["fleet", "sync"]);
    assert!(said(&missing).contains("does not exist"), "{}", said(&missing));
    let settings = fleet.first.output(&["config", "set", "fleet.objects", "gs://bucket"]);
    assert!(said(&settings).contains("not supported yet"), "{}", said(&settings));
    fs::create_dir(fleet.bucket.path()).unwrap();
}

#[test]
fn gc_and_status_and_verify_print_their_results() {
    let Some(fleet) = Fleet::new() else { return };
    two_turns(&fleet.first);
    fleet.first.json(&["fleet", "sync"]);
    let text =
        |arguments: &[&str]| String::from_utf8(fleet.first.output(arguments).stdout).unwrap();
    let collected = text(&["fleet", "gc"]);
    assert!(collected.starts_with("Deleted 0 checkpoints and 0 packs"), "{collected}");
    let status = text(&["fleet", "status"]);
    assert!(status.contains("Checkpoints") && status.contains("Not uploaded"), "{status}");
    let verified = text(&["fleet", "verify"]);
    assert!(verified.contains("Everything is intact."), "{verified}");
}
