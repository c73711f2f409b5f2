//! Checkpoints of a fleet, in a directory that two machines share.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};

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
    let settings = fleet.first.output(&["config", "set", "fleet.objects", "ftp://bucket"]);
    assert!(said(&settings).contains("begins with s3://, gs://"), "{}", said(&settings));
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

/// Starts a server for object storage that holds no objects. Returns its port and the requests.
fn serve_nothing() -> (u16, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let mut request = [0; 8192];
            let length = client.read(&mut request).unwrap();
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            let (status, body) = match request.contains("GET /storage/v1/b/bucket/o?") {
                true => (200, "{\"kind\": \"storage#objects\"}"),
                false if request.contains("x-amz-date") => {
                    (404, "<Error><Code>NoSuchKey</Code></Error>")
                }
                false => (404, "<Error><Code>BlobNotFound</Code></Error>"),
            };
            let length = body.len();
            let head = format!("HTTP/1.1 {status} X\r\nConnection: close\r\n");
            let _ = write!(client, "{head}Content-Length: {length}\r\n\r\n{body}");
            let _ = sender.send(request);
        }
    });
    (port, requests)
}

#[test]
fn each_kind_of_object_storage_has_its_own_variables() {
    let Some(fleet) = Fleet::new() else { return };
    let (port, requests) = serve_nothing();
    let server = format!("http://127.0.0.1:{port}");
    let pull = |address: &str, variables: &[(&str, &str)]| {
        fleet.first.output(&["config", "set", "fleet.objects", address]);
        let mut command = fleet.first.command(&["fleet", "pull"]);
        said(&command.envs(variables.iter().copied()).output().unwrap())
    };
    let s3 = [
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ENDPOINT_URL", &server),
    ];
    let account = format!("{server}/me");
    let azure = [
        ("AZURE_STORAGE_ACCOUNT", "me"),
        ("AZURE_STORAGE_KEY", "a2V5"),
        ("AZURE_STORAGE_SERVICE_ENDPOINT", &account),
    ];
    let sas = [("AZURE_STORAGE_SAS_TOKEN", "?sv=1&sig=x"), azure[2]];
    let google = [("STORAGE_EMULATOR_HOST", server.as_str())];
    for (address, variables, path, authorization) in [
        (
            "s3://bucket/p",
            s3.as_slice(),
            "/bucket/p/fleet.json ",
            "AWS4-HMAC-SHA256 Credential=key/",
        ),
        ("gs://bucket/p", &google, "/storage/v1/b/bucket/o/p%2Ffleet.json?alt=media ", ""),
        ("az://bucket/p", &azure, "/me/bucket/p/fleet.json ", "SharedKey me:"),
        ("az://bucket/p", &sas, "/me/bucket/p/fleet.json?sv=1&sig=x ", ""),
    ] {
        let output = pull(address, variables);
        assert!(output.contains("holds no checkpoints"), "{address}: {output}");
        let request = requests.recv().unwrap();
        assert!(request.starts_with(&format!("GET {path}")), "{request}");
        let header = format!("authorization: {authorization}");
        assert_eq!(request.contains("authorization:"), !authorization.is_empty(), "{request}");
        assert!(authorization.is_empty() || request.contains(&header), "{request}");
        requests.try_iter().for_each(drop);
    }
    for (address, hint) in [
        ("s3://bucket", "set AWS_ACCESS_KEY_ID"),
        ("gs://bucket", "set GOOGLE_APPLICATION_CREDENTIALS"),
        ("az://bucket", "set AZURE_STORAGE_ACCOUNT"),
    ] {
        let output = pull(address, &[]);
        assert!(output.contains("no keys for the object storage"), "{output}");
        assert!(output.contains(hint), "{output}");
    }
    fleet.first.write("key.json", "{}");
    let file = fleet.first.project().join("key.json");
    let output = pull("gs://bucket", &[("GOOGLE_APPLICATION_CREDENTIALS", file.to_str().unwrap())]);
    assert!(output.contains("it is not the JSON file of a service account's key"), "{output}");
}
