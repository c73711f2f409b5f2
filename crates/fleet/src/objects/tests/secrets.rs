//! Tests that nothing private leaves a machine in readable form.

use std::fs;
use std::io::Read;
use std::path::Path;

use flate2::read::ZlibDecoder;
use takeback_tree::PinName;

use super::AT_ONCE;
use super::machine::{Machine, all_files, pull_all};
use crate::Encrypt;

const SECRET: &str = "hunter2-hunter2-hunter2-0123456789";

/// True if the text is in the bucket: in the name of a file, in a file as it is, or in a zlib
/// stream that begins at any byte of a file.
fn contains(bucket: &Path, text: &str) -> bool {
    let has = |bytes: &[u8]| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    all_files(bucket).iter().any(|(name, content)| {
        let is_inflated = (0..content.len()).filter(|at| content[*at] & 0x0f == 8).any(|at| {
            let mut inflated = Vec::new();
            let _ = ZlibDecoder::new(&content[at..]).take(1 << 20).read_to_end(&mut inflated);
            has(&inflated)
        });
        name.contains(text) || has(content) || is_inflated
    })
}

/// Creates a machine whose secrets are beside similar files, so that deltas between them are likely.
fn machine_with_secrets() -> Machine {
    let mut machine = Machine::new("first");
    let template: String = (0..60).map(|line| format!("SETTING_{line}=value {line}\n")).collect();
    for round in 0..6 {
        machine.write("env.example", format!("{template}ROUND={round}\n"));
        machine.write(".env", format!("{template}PASSWORD={SECRET}-{round}\n"));
        machine.write("deep/er/id_rsa", format!("KEY {SECRET} {round}"));
        machine.write("public.txt", format!("a-public-line-of-text {round}"));
        machine.write("certs/server.pem", format!("PEM {SECRET} {round}"));
        machine.pin();
    }
    machine
}

#[test]
fn private_files_are_encrypted_and_everything_else_is_readable() {
    let bucket = tempfile::tempdir().unwrap();
    let machine = machine_with_secrets();
    // A gc may make deltas between private and other files.
    machine.store.gc().unwrap();
    machine.upload(bucket.path()).unwrap();
    assert!(contains(bucket.path(), "a-public-line-of-text"), "the search itself works");
    assert!(!contains(bucket.path(), SECRET));
    assert!(!contains(bucket.path(), "server.pem"), "the directory is private, too");
    let reader = Machine::new("reader");
    let objects = reader.in_directory(bucket.path());
    let pull = pull_all(&objects, "first", &reader.store).unwrap();
    let name = PinName { workspace: pull.workspace().clone(), seq: 1 };
    let pin = pull.store().pin(&name).unwrap().unwrap();
    let path = takeback_tree::RelPath::new(b".env".to_vec()).unwrap();
    let entry = pull.store().find_entry(&pin.tree, &path).unwrap().unwrap();
    let content = pull.store().blob(&entry.1).unwrap();
    assert!(String::from_utf8(content).unwrap().contains(SECRET));
}

#[test]
fn private_files_stay_encrypted_when_packs_are_merged() {
    let bucket = tempfile::tempdir().unwrap();
    let mut machine = Machine::new("first");
    for round in 0..30 {
        machine.write(".env", format!("PASSWORD={SECRET}-{round}\n").repeat(9));
        machine.write("public.txt", format!("a-public-line-of-text {round}"));
        machine.pin();
        machine.upload(bucket.path()).unwrap();
    }
    machine.in_directory(bucket.path()).collect(&machine.store, &AT_ONCE).unwrap();
    assert!(contains(bucket.path(), "a-public-line-of-text"));
    assert!(!contains(bucket.path(), SECRET));
}

#[test]
fn with_all_nothing_is_readable() {
    let bucket = tempfile::tempdir().unwrap();
    let mut machine = machine_with_secrets();
    machine.encrypt = Encrypt::All;
    machine.upload(bucket.path()).unwrap();
    for text in [SECRET, "a-public-line-of-text", "env.example", "shop", "state 17"] {
        assert!(!contains(bucket.path(), text), "{text}");
    }
    let mut reader = Machine::new("reader");
    reader.encrypt = Encrypt::All;
    let objects = reader.in_directory(bucket.path());
    assert!(pull_all(&objects, "first", &reader.store).is_some());
    assert!(objects.verify(&|_| {}).unwrap().is_whole());
}

#[test]
fn with_off_private_files_are_readable_without_a_key() {
    let bucket = tempfile::tempdir().unwrap();
    let mut machine = machine_with_secrets();
    machine.encrypt = Encrypt::Off;
    machine.upload(bucket.path()).unwrap();
    assert!(contains(bucket.path(), SECRET));
    let mut reader = Machine::new("reader");
    reader.encrypt = Encrypt::Off;
    let objects = reader.in_directory(bucket.path());
    assert!(pull_all(&objects, "first", &reader.store).is_some());
}

#[test]
fn plain_git_reads_the_packs_that_are_not_encrypted() {
    let bucket = tempfile::tempdir().unwrap();
    let mut machine = Machine::new("first");
    machine.write("a.txt", "readable by git\n");
    let commit = machine.pin();
    machine.upload(bucket.path()).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let git = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        let output = command.args(arguments).current_dir(scratch.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["init", "--quiet", "--bare"]);
    for (name, content) in all_files(bucket.path()) {
        if name.ends_with(".pack") {
            fs::write(scratch.path().join("objects/pack/pack-1.pack"), content).unwrap();
        }
    }
    git(&["index-pack", "objects/pack/pack-1.pack"]);
    assert_eq!(git(&["show", &format!("{commit}:a.txt")]), "readable by git\n");
}
