//! Checkpoints in a real server of the S3 protocol.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use takeback_base::lock_wait::LockWait;
use takeback_fleet::{
    CollectOptions, FleetSettings, Objects, ObjectsError, ObjectsOptions, S3Access,
};
use takeback_ledger::Time;
use takeback_tree::{CaptureOptions, CaptureRules, ForbiddenRoots, Oid, Store};

use crate::s3_server::{BUCKET, KillingProxy, S3Server};

/// A machine that has joined a fleet, with a store and a workspace.
struct Machine {
    home: tempfile::TempDir,
    project: PathBuf,
    pins: u64,
}

impl Machine {
    fn new(id: char) -> Machine {
        let home = tempfile::tempdir().unwrap();
        let fleet = home.path().join("fleet");
        fs::create_dir(&fleet).unwrap();
        let (machine, all) = (id.to_string().repeat(32), "f".repeat(32));
        let identity = format!("{{\"fleet\": \"{all}\", \"machine\": \"{machine}\"}}");
        fs::write(fleet.join("identity.json"), identity).unwrap();
        fs::write(fleet.join("key"), format!("tkbk-{}\n", "7".repeat(64))).unwrap();
        let project = home.path().canonicalize().unwrap().join("shop");
        fs::create_dir(&project).unwrap();
        Machine { home, project, pins: 0 }
    }

    fn store(&self) -> Store {
        Store::open(self.home.path().join("store")).unwrap()
    }

    /// Pins states of the workspace.
    fn pin(&mut self, count: u64) {
        let store = self.store();
        let workspace = store.workspace(&self.project, &ForbiddenRoots::default()).unwrap();
        for _ in 0..count {
            self.pins += 1;
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + self.pins);
            fs::write(self.project.join("a.txt"), format!("state {}", self.pins / 100)).unwrap();
            fs::write(self.project.join(".env"), format!("TOKEN={}", self.pins / 100)).unwrap();
            let mut lock = workspace.lock().unwrap();
            let rules = CaptureRules::default();
            let options = CaptureOptions { rules: &rules, named: &[], swept: &[], now };
            let capture = lock.capture(&options).unwrap();
            lock.pin(capture.tree, now, &format!("state {}\n", self.pins)).unwrap();
            lock.finish(now).unwrap();
        }
    }

    fn objects(&self, address: &str, access: &S3Access) -> Result<Objects, ObjectsError> {
        open_objects(self.home.path(), address, access)
    }

    fn upload(&self, access: &S3Access) -> Result<u64, ObjectsError> {
        let objects = self.objects(&address(), access)?;
        upload(&objects, &self.store())
    }
}

fn address() -> String {
    format!("s3://{BUCKET}/team/a")
}

pub(crate) fn open_objects(
    home: &Path,
    address: &str,
    access: &S3Access,
) -> Result<Objects, ObjectsError> {
    let settings = FleetSettings {
        name: Some("first".into()),
        objects: Some(address.into()),
        ..FleetSettings::default()
    };
    let host_name = String::new();
    let lock_wait = LockWait::silent(Duration::from_secs(60));
    Objects::open(ObjectsOptions { home, settings: &settings, host_name, access, lock_wait })
}

fn upload(objects: &Objects, store: &Store) -> Result<u64, ObjectsError> {
    let report = objects.upload(store, &CaptureRules::default(), Time(0), &|_| {})?;
    Ok(report.checkpoints)
}

/// Fails unless another machine can read all checkpoints of the machine from the bucket.
fn assert_whole(machine: &Machine, access: &S3Access) {
    let reader = Machine::new('b');
    let objects = reader.objects(&address(), access).unwrap();
    let workspaces = objects.workspaces().unwrap();
    assert_eq!(workspaces.len(), 1);
    let mut pull = objects.pull(&workspaces[0]).unwrap();
    assert_eq!(pull.pins().len() as u64, machine.pins);
    let commits: Vec<Oid> = pull.pins().iter().map(|pin| pin.commit).collect();
    assert!(pull.fetch(&commits, &reader.store()).unwrap());
    assert!(pull.store().verify(&|_, _| {}).unwrap().is_whole());
}

#[test]
fn checkpoints_go_to_the_server_and_come_back() {
    let Some(server) = S3Server::start() else { return };
    let mut machine = Machine::new('a');
    machine.pin(3);
    assert_eq!(machine.upload(&server.access).unwrap(), 3);
    assert_whole(&machine, &server.access);
    machine.pin(1);
    assert_eq!(machine.upload(&server.access).unwrap(), 1);
    assert_eq!(machine.upload(&server.access).unwrap(), 0);
    assert_whole(&machine, &server.access);
    let objects = machine.objects(&address(), &server.access).unwrap();
    let verified = objects.verify(&|_| {}).unwrap();
    assert!(verified.is_whole() && verified.strangers.is_empty(), "{verified:?}");
    assert_eq!(verified.checkpoints, 4);

    // Another prefix of the bucket is another place.
    let other = machine.objects(&format!("s3://{BUCKET}/team/b"), &server.access).unwrap();
    assert!(matches!(other.workspaces(), Err(ObjectsError::Empty { .. })));
}

#[test]
fn a_listing_of_several_pages_is_read_to_its_end_and_gc_deletes_on_the_server() {
    let Some(server) = S3Server::start_open() else { return };
    let mut machine = Machine::new('a');
    machine.pin(3);
    assert_eq!(machine.upload(&server.access).unwrap(), 3);
    // These are all on the first page, which has 1,000 keys.
    let prefix = format!("team/a/machines/{}/a", "a".repeat(32));
    server.create_objects((0..1_005).map(|number| format!("{prefix}/{number:04}")));
    assert_eq!(machine.upload(&server.access).unwrap(), 0, "the second page is read");
    assert_whole(&machine, &server.access);
    let store = machine.store();
    let id = store.workspace_id(&machine.project);
    store.unpin(&store.pin_names(&id).unwrap()[0]).unwrap();
    machine.pins -= 1;
    let objects = machine.objects(&address(), &server.access).unwrap();
    let grace = Duration::from_secs(3600);
    let options = CollectOptions { grace, dry_run: false, earlier_stores: false };
    let collected = objects.collect(&store, &options).unwrap();
    assert_eq!((collected.checkpoints, collected.waiting_checkpoints), (0, 1));
    let at_once = CollectOptions { grace: Duration::ZERO, ..options };
    assert_eq!(objects.collect(&store, &at_once).unwrap().checkpoints, 1);
    assert_whole(&machine, &server.access);
}

#[test]
fn wrong_keys_buckets_and_addresses_are_told_apart() {
    let Some(server) = S3Server::start() else { return };
    let mut machine = Machine::new('a');
    machine.pin(1);
    let wrong_secret = S3Access { secret_key: Some("wrong".into()), ..server.access.clone() };
    let refused = machine.upload(&wrong_secret);
    assert!(matches!(refused, Err(ObjectsError::Credentials { .. })), "{refused:?}");
    let refused = machine.upload(&server.stranger);
    let is_refused =
        matches!(refused, Err(ObjectsError::Credentials { .. } | ObjectsError::Permission { .. }));
    assert!(is_refused, "{refused:?}");
    let objects = machine.objects("s3://no-such-bucket", &server.access).unwrap();
    let refused = upload(&objects, &machine.store());
    assert!(matches!(refused, Err(ObjectsError::NoBucket { .. })), "{refused:?}");
    let keyless = S3Access { secret_key: None, ..server.access.clone() };
    assert!(matches!(machine.upload(&keyless), Err(ObjectsError::NoCredentials)));
    let bad = S3Access { endpoint: Some("nonsense".into()), ..server.access.clone() };
    assert!(matches!(machine.upload(&bad), Err(ObjectsError::BadAddress(_))));

    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let closed = S3Access { endpoint: Some(format!("http://{free}")), ..server.access.clone() };
    let refused = machine.upload(&closed);
    assert!(matches!(refused, Err(ObjectsError::Unreachable { .. })), "{refused:?}");
    // After all of that, the right keys work.
    assert_eq!(machine.upload(&server.access).unwrap(), 1);
}

#[test]
fn a_server_of_another_kind_is_recognized() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address_of_site = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let _ = client.read(&mut [0; 4096]);
            let page = "<html>hello</html>";
            let length = page.len();
            let _ = write!(
                client,
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{page}"
            );
        }
    });
    let mut machine = Machine::new('a');
    machine.pin(1);
    let access = S3Access {
        access_key: Some("a".into()),
        secret_key: Some("b".into()),
        endpoint: Some(format!("http://{address_of_site}")),
        ..S3Access::default()
    };
    let refused = machine.upload(&access);
    assert!(matches!(refused, Err(ObjectsError::NotS3 { .. })), "{refused:?}");
}

/// Uploads from the home in the environment, in a process that the test kills.
#[test]
fn a_killed_uploader_uploads() {
    let Some(home) = std::env::var_os("UPLOADER_HOME") else { return };
    let variable = |name: &str| std::env::var(name).ok();
    let access = S3Access {
        access_key: variable("UPLOADER_KEY"),
        secret_key: variable("UPLOADER_SECRET"),
        endpoint: variable("UPLOADER_ENDPOINT"),
        ..S3Access::default()
    };
    let objects = open_objects(Path::new(&home), &address(), &access).unwrap();
    let store = Store::open(Path::new(&home).join("store")).unwrap();
    upload(&objects, &store).unwrap();
}

#[test]
fn an_upload_that_is_killed_at_every_request_arrives_whole() {
    let Some(server) = S3Server::start() else { return };
    let mut machine = Machine::new('a');
    for requests in 0.. {
        machine.pin(2);
        let proxy = KillingProxy::start(server.port(), requests / 2, requests % 2 == 1);
        let access = server.access_through(&proxy);
        let mut uploader = Command::new(std::env::current_exe().unwrap());
        uploader.args(["--exact", "s3::a_killed_uploader_uploads", "--test-threads=1"]);
        uploader.env("UPLOADER_HOME", machine.home.path());
        uploader.env("UPLOADER_KEY", access.access_key.unwrap());
        uploader.env("UPLOADER_SECRET", access.secret_key.unwrap());
        uploader.env("UPLOADER_ENDPOINT", access.endpoint.unwrap());
        uploader.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut uploader = uploader.spawn().unwrap();
        proxy.aim_at(&uploader);
        let is_success = uploader.wait().unwrap().success();
        assert_eq!(is_success, !proxy.has_killed(), "request {requests}");
        if is_success {
            assert!(requests > 20, "{requests}");
            break;
        }
        // Every third time, nothing completes the upload before the next one is killed, too.
        if requests % 3 != 0 {
            machine.upload(&server.access).unwrap();
            assert_whole(&machine, &server.access);
        }
    }
    machine.upload(&server.access).unwrap();
    assert_whole(&machine, &server.access);
    let objects = machine.objects(&address(), &server.access).unwrap();
    let verified = objects.verify(&|_| {}).unwrap();
    assert!(verified.is_whole(), "{verified:?}");
}
