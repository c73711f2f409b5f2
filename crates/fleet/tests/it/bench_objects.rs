//! The figures of `cargo xtask bench fleet` for object storage: how fast a first upload is, and how
//! much a bucket holds.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use takeback_base::hex;
use takeback_fleet::{CollectOptions, Objects, Provider};
use takeback_ledger::Time;
use takeback_tree::{CaptureRules, Store};

use crate::bench::{is_quick, print};
use crate::objects::{open_objects, pin_state};
use crate::storage::{BUCKET, StorageServer};

/// The number of bytes that the plain client sends per request: the size of an export pack.
const BODY: u64 = 32 << 20;

const WORDS: [&str; 24] = [
    "account", "append", "buffer", "cache", "channel", "column", "connect", "decode", "default",
    "element", "encode", "error", "filter", "format", "handler", "index", "insert", "length",
    "message", "number", "option", "parse", "record", "return",
];

/// A small random number generator (xorshift64*): the numbers are the same in every run.
struct Random(u64);

impl Random {
    fn next_number(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next_number() % limit as u64) as usize
    }

    /// Returns a random length. Half of the lengths are below 3.5 KB, and a few are far above.
    fn length(&mut self) -> usize {
        let sum: f64 = (0..12).map(|_| self.below(1 << 20) as f64).sum();
        let normal = sum / f64::from(1 << 20) - 6.0;
        (3_500.0 * normal.exp()).clamp(40.0, 200_000.0) as usize
    }

    fn line(&mut self, number: usize) -> String {
        let mut line = " ".repeat(self.below(4) * 4);
        for _ in 0..2 + self.below(6) {
            line.push_str(WORDS[self.below(WORDS.len())]);
            line.push_str([" ", "_", "(", ".", ", "][self.below(5)]);
        }
        line.push_str(&format!("{number});\n"));
        line
    }

    fn source(&mut self) -> String {
        let (mut text, length) = (String::new(), self.length());
        while text.len() < length {
            let number = self.below(10_000);
            text.push_str(&self.line(number));
        }
        text
    }
}

/// A workspace with a store, which several homes upload in turn.
struct Workspace {
    directory: tempfile::TempDir,
    store: Store,
    random: Random,
    files: Vec<PathBuf>,
    next_edit: usize,
    pins: u64,
}

impl Workspace {
    /// Creates a workspace with source files, private files, and files of 1 MB that cannot be
    /// compressed.
    fn new(sources: usize, assets: usize) -> Workspace {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path().join("store")).unwrap();
        let mut random = Random(0x1234_5678_9abc_def1);
        let mut files = Vec::new();
        for number in 0..sources {
            let parent = format!("shop/part{}/unit{}", number % 17, number % 257);
            let parent = directory.path().join(parent);
            fs::create_dir_all(&parent).unwrap();
            let path = parent.join(format!("file{number}.rs"));
            fs::write(&path, random.source()).unwrap();
            files.push(path);
        }
        for number in 0..assets {
            let content: Vec<u8> =
                (0..1 << 18).flat_map(|_| (random.next_number() as u32).to_le_bytes()).collect();
            fs::write(directory.path().join(format!("shop/asset{number}.png")), content).unwrap();
        }
        fs::write(directory.path().join("shop/.env"), "TOKEN=0\n").unwrap();
        Workspace { directory, store, random, files, next_edit: 0, pins: 0 }
    }

    fn project(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("shop")
    }

    /// Changes a line in each of one to four files, and sometimes the private file.
    fn edit(&mut self) {
        for _ in 0..1 + self.pins % 4 {
            // Because the step is a prime number, all files are visited in turn.
            self.next_edit = (self.next_edit + 7_919) % self.files.len();
            let path = self.files[self.next_edit].clone();
            let text = fs::read_to_string(&path).unwrap();
            let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
            let at = self.random.below(lines.len());
            let number = self.random.below(10_000);
            let line = self.random.line(number);
            lines[at] = &line;
            fs::write(&path, lines.concat()).unwrap();
        }
        if self.pins.is_multiple_of(10) {
            fs::write(self.project().join(".env"), format!("TOKEN={}\n", self.pins)).unwrap();
        }
    }

    fn pin(&mut self) {
        self.pins += 1;
        pin_state(&self.store, &self.project(), self.pins);
    }

    /// Creates a home that has joined a fleet and has uploaded nothing yet.
    fn new_home(&self) -> tempfile::TempDir {
        let home = tempfile::tempdir_in(self.directory.path()).unwrap();
        let fleet = home.path().join("fleet");
        fs::create_dir(&fleet).unwrap();
        let (machine, all) = ("a".repeat(32), "f".repeat(32));
        let identity = format!("{{\"fleet\": \"{all}\", \"machine\": \"{machine}\"}}");
        fs::write(fleet.join("identity.json"), identity).unwrap();
        fs::write(fleet.join("key"), format!("tkbk-{}\n", "7".repeat(64))).unwrap();
        home
    }

    /// Uploads everything. Returns the size of the packs and their indexes.
    fn upload(&self, objects: &Objects) -> u64 {
        objects.upload(&self.store, &CaptureRules::default(), Time(0), &|_| {}).unwrap().bytes
    }

    /// Returns the size of the packs, their indexes and the refs.
    fn store_bytes(&self) -> u64 {
        let store = self.directory.path().join("store");
        let is_counted = |path: &Path| {
            path.starts_with(store.join("refs"))
                || path.extension().is_some_and(|it| it == "pack" || it == "idx")
        };
        let (mut bytes, mut waiting) = (0, vec![store.clone()]);
        while let Some(directory) = waiting.pop() {
            for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
                match entry.file_type().unwrap().is_dir() {
                    true => waiting.push(entry.path()),
                    false if is_counted(&entry.path()) => bytes += entry.metadata().unwrap().len(),
                    false => {}
                }
            }
        }
        bytes
    }
}

/// Uploads this number of bytes as a simple program would: one file after the other, each read,
/// hashed for the signature, and sent over the same connection.
fn upload_plainly(
    agent: &ureq::Agent,
    server: &StorageServer,
    body: &Path,
    prefix: &str,
    bytes: u64,
) {
    let port = server.port;
    let mut left = bytes;
    for number in 0.. {
        if left == 0 {
            return;
        }
        let mut content = fs::read(body).unwrap();
        content.truncate(left as usize);
        left -= content.len() as u64;
        let digest = hex::encode(&Sha256::digest(&content));
        let answer = agent
            .put(format!("http://127.0.0.1:{port}/{BUCKET}/{prefix}/{number}"))
            .header("x-amz-content-sha256", digest)
            .send(&content[..]);
        assert_eq!(answer.unwrap().status(), 200);
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Compares first uploads with uploads by a plain client. The two take turns.
fn measure_first_upload(name: &str, sources: usize, assets: usize) {
    let Some(server) = StorageServer::start_open(Provider::S3) else { return };
    let mut workspace = Workspace::new(sources, assets);
    for _ in 0..20 {
        workspace.pin();
        workspace.edit();
    }
    let body = workspace.directory.path().join("body");
    let mut random = Random(7);
    let content: Vec<u8> =
        (0..BODY / 4).flat_map(|_| (random.next_number() as u32).to_le_bytes()).collect();
    fs::write(&body, content).unwrap();
    let agent = ureq::Agent::new_with_defaults();
    let (mut own, mut plain, mut ratios, mut bytes) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for round in 0..if is_quick() { 3 } else { 7 } {
        let home = workspace.new_home();
        let address = server.address(&format!("round{round}"));
        let objects = open_objects(home.path(), &address, &server.access()).unwrap();
        let begun = Instant::now();
        bytes = workspace.upload(&objects);
        let with_takeback = begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        upload_plainly(&agent, &server, &body, &format!("plain{round}"), bytes);
        let alone = begun.elapsed().as_secs_f64();
        ratios.push(alone / with_takeback);
        own.push(bytes as f64 / with_takeback / 1e6);
        plain.push(bytes as f64 / alone / 1e6);
    }
    let (own, plain) = (median(&mut own), median(&mut plain));
    let megabytes = bytes as f64 / 1e6;
    print(
        &format!("first upload, {name}, against a plain client (target 70 %)"),
        format!(
            "{:.0} % ({own:.0} / {plain:.0} MB/s, {megabytes:.0} MB)",
            median(&mut ratios) * 100.0
        ),
    );
}

/// Compares the size of a bucket with that of the store, after a gc of both.
fn measure_bucket() {
    let Some(server) = StorageServer::start_open(Provider::S3) else { return };
    let mut workspace = Workspace::new(if is_quick() { 1_000 } else { 4_000 }, 0);
    let home = workspace.new_home();
    let objects = open_objects(home.path(), &server.address("size"), &server.access()).unwrap();
    let checkpoints = if is_quick() { 100 } else { 500 };
    // Each turn has four checkpoints, and an upload at its end.
    for checkpoint in 0..checkpoints {
        workspace.pin();
        workspace.edit();
        if checkpoint % 4 == 3 {
            workspace.upload(&objects);
        }
    }
    let before = objects.last_upload().bytes as f64 / workspace.store_bytes() as f64;
    workspace.store.gc().unwrap();
    workspace.upload(&objects);
    let options = CollectOptions { grace: Duration::ZERO, dry_run: false, earlier_stores: false };
    objects.collect(&workspace.store, &options).unwrap();
    workspace.upload(&objects);
    let (bucket, store) = (objects.last_upload().bytes, workspace.store_bytes());
    print(
        &format!("bucket against the store after gc, {checkpoints} checkpoints (target 1.10)"),
        format!(
            "{:.3} × ({:.2} / {:.2} MB; {before:.3} × before both gcs)",
            bucket as f64 / store as f64,
            bucket as f64 / 1e6,
            store as f64 / 1e6
        ),
    );
}

/// Measures everything about object storage, if a server is installed.
fn measure_objects() {
    measure_bucket();
    let (sources, assets) = if is_quick() { (4_000, 24) } else { (4_000, 120) };
    measure_first_upload("4,000 source files and large ones", sources, assets);
    let sources = if is_quick() { 5_000 } else { 20_000 };
    measure_first_upload("source files only", sources, 0);
}

#[test]
#[ignore = "a measurement; `cargo xtask bench fleet` runs it"]
fn measure() {
    measure_objects();
}
