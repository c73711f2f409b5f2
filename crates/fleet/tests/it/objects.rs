//! Checkpoints in real servers of object storage: one suite for all kinds.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use takeback_base::lock_wait::LockWait;
use takeback_fleet::{
    CollectOptions, FleetSettings, Objects, ObjectsError, ObjectsOptions, Provider, StorageAccess,
};
use takeback_ledger::Time;
use takeback_tree::{CaptureOptions, CaptureRules, ForbiddenRoots, Oid, Store};

use crate::storage::{
    KillingProxy, Proxy, StorageServer, Verdict, access_to, address_in, page_length,
};

/// The prefix of the checkpoints in the bucket.
const PREFIX: &str = "team/a";

/// Captures a workspace, and pins the state. `number` is the number of the state, starting at 1.
pub(crate) fn pin_state(store: &Store, project: &Path, number: u64) {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + number);
    let workspace = store.workspace(project, &ForbiddenRoots::default()).unwrap();
    let mut lock = workspace.lock().unwrap();
    let rules = CaptureRules::default();
    let options = CaptureOptions { rules: &rules, named: &[], swept: &[], now };
    let capture = lock.capture(&options).unwrap();
    lock.pin(capture.tree, now, &format!("state {number}\n")).unwrap();
    lock.finish(now).unwrap();
}

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
        for _ in 0..count {
            self.pins += 1;
            fs::write(self.project.join("a.txt"), format!("state {}", self.pins / 100)).unwrap();
            fs::write(self.project.join(".env"), format!("TOKEN={}", self.pins / 100)).unwrap();
            pin_state(&store, &self.project, self.pins);
        }
    }

    fn objects(&self, address: &str, access: &StorageAccess) -> Result<Objects, ObjectsError> {
        open_objects(self.home.path(), address, access)
    }

    fn upload_with(&self, address: &str, access: &StorageAccess) -> Result<u64, ObjectsError> {
        upload(&self.objects(address, access)?, &self.store())
    }

    fn upload(&self, server: &StorageServer) -> Result<u64, ObjectsError> {
        self.upload_with(&server.address(PREFIX), &server.access())
    }

    fn objects_on(&self, server: &StorageServer) -> Objects {
        self.objects(&server.address(PREFIX), &server.access()).unwrap()
    }
}

pub(crate) fn open_objects(
    home: &Path,
    address: &str,
    access: &StorageAccess,
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

/// Fails unless another machine can read all checkpoints of `machine` from the bucket.
fn assert_whole(machine: &Machine, server: &StorageServer) {
    let reader = Machine::new('b');
    let objects = reader.objects_on(server);
    let workspaces = objects.workspaces().unwrap();
    assert_eq!(workspaces.len(), 1);
    let mut pull = objects.pull(&workspaces[0]).unwrap();
    assert_eq!(pull.pins().len() as u64, machine.pins);
    let commits: Vec<Oid> = pull.pins().iter().map(|pin| pin.commit).collect();
    assert!(pull.fetch(&commits, &reader.store()).unwrap());
    assert!(pull.store().verify(&|_, _| {}).unwrap().is_whole());
}

/// Turns each of these functions into tests, one for each kind of object storage.
macro_rules! test_with_each_kind {
    ($($behaviour:ident)*) => {
        mod s3 {
            $(#[test] fn $behaviour() { super::$behaviour(takeback_fleet::Provider::S3) })*
        }
        mod google {
            $(#[test] fn $behaviour() { super::$behaviour(takeback_fleet::Provider::Google) })*
        }
        mod azure {
            $(#[test] fn $behaviour() { super::$behaviour(takeback_fleet::Provider::Azure) })*
        }
    };
}

test_with_each_kind! {
    checkpoints_go_to_the_server_and_come_back
    a_listing_of_several_pages_is_read_to_its_end_and_gc_deletes_on_the_server
    wrong_keys_buckets_and_addresses_are_told_apart
    a_web_server_is_not_taken_for_object_storage
    two_homes_with_one_identity_cannot_both_claim_an_upload
    an_upload_that_is_killed_at_every_request_arrives_whole
}

fn checkpoints_go_to_the_server_and_come_back(provider: Provider) {
    let Some(server) = StorageServer::start(provider) else { return };
    let mut machine = Machine::new('a');
    machine.pin(3);
    assert_eq!(machine.upload(&server).unwrap(), 3);
    assert_whole(&machine, &server);
    machine.pin(1);
    assert_eq!(machine.upload(&server).unwrap(), 1);
    assert_eq!(machine.upload(&server).unwrap(), 0);
    assert_whole(&machine, &server);
    let verified = machine.objects_on(&server).verify(&|_| {}).unwrap();
    assert!(verified.is_whole() && verified.strangers.is_empty(), "{verified:?}");
    assert_eq!(verified.checkpoints, 4);

    // Checkpoints under a different prefix in the same bucket are separate.
    let other = machine.objects(&server.address("team/b"), &server.access()).unwrap();
    assert!(matches!(other.workspaces(), Err(ObjectsError::Empty { .. })));
}

fn a_listing_of_several_pages_is_read_to_its_end_and_gc_deletes_on_the_server(provider: Provider) {
    let Some(server) = StorageServer::start_open(provider) else { return };
    let mut machine = Machine::new('a');
    machine.pin(3);
    assert_eq!(machine.upload(&server).unwrap(), 3);
    // These objects fill the first page of the listing.
    let prefix = format!("{PREFIX}/machines/{}/a", "a".repeat(32));
    server.create_objects((0..page_length(provider)).map(|number| format!("{prefix}/{number:04}")));
    assert_eq!(machine.upload(&server).unwrap(), 0, "the second page is read");
    assert_whole(&machine, &server);
    let store = machine.store();
    let id = store.workspace_id(&machine.project);
    store.unpin(&store.pin_names(&id).unwrap()[0]).unwrap();
    machine.pins -= 1;
    let objects = machine.objects_on(&server);
    let grace = Duration::from_secs(3600);
    let options = CollectOptions { grace, dry_run: false, earlier_stores: false };
    let collected = objects.collect(&store, &options).unwrap();
    assert_eq!((collected.checkpoints, collected.waiting_checkpoints), (0, 1));
    let at_once = CollectOptions { grace: Duration::ZERO, ..options };
    assert_eq!(objects.collect(&store, &at_once).unwrap().checkpoints, 1);
    assert_whole(&machine, &server);
}

fn wrong_keys_buckets_and_addresses_are_told_apart(provider: Provider) {
    let Some(server) = StorageServer::start(provider) else { return };
    let mut machine = Machine::new('a');
    machine.pin(1);
    let address = server.address(PREFIX);
    for (access, is_expected) in &server.refused_access {
        let refused = machine.upload_with(&address, access).unwrap_err();
        assert!(is_expected(&refused), "{refused:?}");
    }
    let no_bucket = address_in(provider, "no-such-bucket", "");
    let refused = machine.upload_with(&no_bucket, &server.access());
    assert!(matches!(refused, Err(ObjectsError::NoBucket { .. })), "{refused:?}");
    let refused = machine.upload_with(&address, &StorageAccess::default());
    assert!(matches!(refused, Err(ObjectsError::NoCredentials { .. })), "{refused:?}");
    let mut bad = server.access();
    let nonsense = Some("ftp://nonsense".to_owned());
    (bad.s3.endpoint, bad.google.endpoint, bad.azure.endpoint) =
        (nonsense.clone(), nonsense.clone(), nonsense);
    let refused = machine.upload_with(&address, &bad);
    assert!(matches!(refused, Err(ObjectsError::BadAddress(_))), "{refused:?}");

    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let refused = machine.upload_with(&address, &server.access_at(free));
    assert!(matches!(refused, Err(ObjectsError::Unreachable { .. })), "{refused:?}");
    // After all these errors, an upload with the right keys succeeds.
    assert_eq!(machine.upload(&server).unwrap(), 1);
    for access in &server.other_access {
        machine.pin(1);
        assert_eq!(machine.upload_with(&address, access).unwrap(), 1);
    }
    assert_whole(&machine, &server);
}

fn a_web_server_is_not_taken_for_object_storage(provider: Provider) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
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
    let access = access_to(provider, port, &["name", "a2V5"]);
    let refused = machine.upload_with(&address_in(provider, "bucket", PREFIX), &access);
    assert!(matches!(refused, Err(ObjectsError::NotStorage { .. })), "{refused:?}");
}

fn two_homes_with_one_identity_cannot_both_claim_an_upload(provider: Provider) {
    let Some(server) = StorageServer::start(provider) else { return };
    let (mut machine, mut twin) = (Machine::new('a'), Machine::new('a'));
    machine.pin(1);
    twin.pin(2);
    // Just before the first home's claim reaches the server, the other home uploads.
    let (address, access) = (server.address(PREFIX), server.access());
    let twin_has_uploaded = AtomicBool::new(false);
    let judge = move |request: &[u8]| {
        let line = String::from_utf8_lossy(request).lines().next().unwrap().to_owned();
        let is_claim = line.starts_with('P') && line.contains("claims");
        if is_claim && !twin_has_uploaded.swap(true, Ordering::SeqCst) {
            assert_eq!(twin.upload_with(&address, &access).unwrap(), 2);
        }
        Verdict::Pass
    };
    let proxy = Proxy::start(server.port, judge, || {});
    let refused = machine.upload_with(&server.address(PREFIX), &server.access_at(proxy.port));
    assert!(matches!(refused, Err(ObjectsError::Diverged)), "{refused:?}");
    machine.pins = 2;
    assert_whole(&machine, &server);
}

/// Uploads from the home in the environment, in a process that the test kills.
#[test]
fn a_killed_uploader_uploads() {
    let Some(home) = std::env::var_os("UPLOADER_HOME") else { return };
    let variable = |name: &str| std::env::var(name).unwrap();
    let address = variable("UPLOADER_ADDRESS");
    let provider = match &address[..2] {
        "s3" => Provider::S3,
        "gs" => Provider::Google,
        _ => Provider::Azure,
    };
    let secrets = variable("UPLOADER_SECRETS");
    let secrets: Vec<&str> = secrets.lines().collect();
    let access = access_to(provider, variable("UPLOADER_PORT").parse().unwrap(), &secrets);
    let objects = open_objects(Path::new(&home), &address, &access).unwrap();
    let store = Store::open(Path::new(&home).join("store")).unwrap();
    upload(&objects, &store).unwrap();
}

fn an_upload_that_is_killed_at_every_request_arrives_whole(provider: Provider) {
    let Some(server) = StorageServer::start(provider) else { return };
    let mut machine = Machine::new('a');
    for requests in 0.. {
        machine.pin(2);
        let proxy = KillingProxy::start(server.port, requests / 2, requests % 2 == 1);
        let mut uploader = Command::new(std::env::current_exe().unwrap());
        uploader.args(["--exact", "objects::a_killed_uploader_uploads", "--test-threads=1"]);
        uploader.env("UPLOADER_HOME", machine.home.path());
        uploader.env("UPLOADER_ADDRESS", server.address(PREFIX));
        uploader.env("UPLOADER_PORT", proxy.port.to_string());
        uploader.env("UPLOADER_SECRETS", server.secrets());
        uploader.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut uploader = uploader.spawn().unwrap();
        proxy.aim_at(&uploader);
        let is_success = uploader.wait().unwrap().success();
        assert_eq!(is_success, !proxy.has_killed(), "request {requests}");
        if is_success {
            assert!(requests > 20, "{requests}");
            break;
        }
        // In every third round, the upload is not completed before the next one is killed.
        if requests % 3 != 0 {
            machine.upload(&server).unwrap();
            assert_whole(&machine, &server);
        }
    }
    machine.upload(&server).unwrap();
    assert_whole(&machine, &server);
    let verified = machine.objects_on(&server).verify(&|_| {}).unwrap();
    assert!(verified.is_whole(), "{verified:?}");
}
