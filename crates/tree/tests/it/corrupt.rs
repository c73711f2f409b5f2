//! A damaged store, and a hostile workspace or environment.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use takeback_base::errors::error_chain;
use takeback_tree::{Capture, ForbiddenRoots, Store, StoreError};

use crate::support::{Scratch, child_variable, git, read_directory, rel, rerun_test, succeed};

const HOUR: Duration = Duration::from_secs(3600);

/// Returns the workspace's own directory in the store.
fn workspace_directory(scratch: &Scratch) -> PathBuf {
    let id = scratch.store.workspace_id(&scratch.root);
    scratch.store.directory().join("workspaces").join(id.to_string())
}

fn list_packs(scratch: &Scratch) -> Vec<PathBuf> {
    let directory = scratch.store.directory().join("objects/pack");
    let mut packs: Vec<PathBuf> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    packs.retain(|path| path.extension().is_some_and(|extension| extension == "pack"));
    packs.sort();
    packs
}

/// Overwrites a file even if it is read-only.
fn overwrite(path: &Path, content: &[u8]) {
    fs::remove_file(path).unwrap();
    fs::write(path, content).unwrap();
}

/// Checks that git finds everything that the workspace's newest pin needs.
fn assert_complete(scratch: &Scratch) {
    let names = scratch.store.pin_names(&scratch.store.workspace_id(&scratch.root)).unwrap();
    let pin = scratch.store.pin_id(names.last().unwrap()).unwrap().unwrap().to_string();
    scratch.git(&["rev-list", "--objects", &pin]);
    scratch.git(&["archive", "--format=tar", &pin]);
}

/// Checks that the next capture reports a damaged pack but is nevertheless complete.
fn assert_healed(scratch: &Scratch, what: &str) {
    let capture = scratch.capture();
    assert!(!capture.damaged.is_empty(), "{what}");
    assert_eq!(Capture { damaged: Vec::new(), ..capture }, scratch.fresh(), "{what}");
    assert_complete(scratch);
}

#[test]
fn a_lost_pack_is_noticed_even_if_nothing_changed() {
    let damage: [(&str, fn(&Path)); 5] = [
        ("pack and index gone", |pack| {
            fs::remove_file(pack).unwrap();
            fs::remove_file(pack.with_extension("idx")).unwrap();
        }),
        ("pack gone", |pack| fs::remove_file(pack).unwrap()),
        ("index gone", |pack| fs::remove_file(pack.with_extension("idx")).unwrap()),
        ("pack truncated", |pack| {
            let content = fs::read(pack).unwrap();
            overwrite(pack, &content[..content.len() - 1]);
        }),
        ("index truncated", |pack| {
            let path = pack.with_extension("idx");
            let content = fs::read(&path).unwrap();
            overwrite(&path, &content[..content.len() - 30]);
        }),
    ];
    for (what, damage) in damage {
        for largest in [false, true] {
            let mut scratch = Scratch::in_memory();
            scratch.ahead = HOUR;
            for number in 0..20 {
                scratch.write(format!("d{}/f{number}", number % 4), number.to_string());
            }
            scratch.capture();
            let first = list_packs(&scratch);
            scratch.write("d1/second", "2");
            scratch.capture();
            let mut packs = list_packs(&scratch);
            packs.retain(|pack| first.contains(pack) == largest);
            damage(&packs[0]);
            assert_healed(&scratch, what);
            let capture = scratch.capture();
            assert_eq!(capture, scratch.fresh(), "{what}: reported only once");
        }
    }
}

#[test]
fn packs_that_were_merged_or_collected_are_not_reported_as_lost() {
    let mut scratch = Scratch::in_memory();
    scratch.ahead = HOUR;
    for number in 0..30 {
        scratch.write("a", number.to_string());
        scratch.capture();
    }
    scratch.store.merge().unwrap();
    assert_eq!(scratch.capture(), scratch.fresh());
    scratch.write("b", "not pinned");
    scratch.capture_only();
    scratch.store.gc().unwrap();
    assert_eq!(scratch.capture(), scratch.fresh());
    assert_complete(&scratch);
}

#[test]
fn objects_with_flipped_bytes_are_found_over_time_and_stored_again() {
    let mut scratch = Scratch::in_memory();
    scratch.ahead = HOUR;
    for number in 0..10u8 {
        scratch.write(format!("f{number}"), vec![number; 100]);
        scratch.capture();
    }
    let packs = list_packs(&scratch);
    let mut content = fs::read(&packs[7]).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 1;
    overwrite(&packs[7], &content);
    let name = packs[7].file_stem().unwrap().to_str().unwrap();
    // Each scrub reads only part of the packs.
    let mut scrubs = 0;
    let found = loop {
        scrubs += 1;
        assert!(scrubs < 100, "the damage is found before long");
        if let Some(found) = scratch.store.scrub(100).unwrap() {
            break found;
        }
    };
    assert_eq!(found.name, name);
    assert!(scrubs > 3);
    scratch.store.repair(&|_, _| {}).unwrap();
    assert_eq!(scratch.store.scrub(u64::MAX).unwrap(), None);
    let capture = scratch.capture();
    assert_eq!(capture.tree, scratch.fresh().tree);
    assert_complete(&scratch);
    assert!(scratch.store.verify(&|_, _| {}).unwrap().packs.is_empty());
}

#[test]
fn a_named_file_whose_stored_copy_is_damaged_is_stored_again() {
    let mut noticed = 0;
    for position in (12..).step_by(3) {
        let mut scratch = Scratch::in_memory();
        scratch.ahead = HOUR;
        scratch.write("src/a", "precious");
        scratch.write("b", "1");
        scratch.capture();
        let packs = list_packs(&scratch);
        let mut content = fs::read(&packs[0]).unwrap();
        if position >= content.len() - 20 {
            break;
        }
        content[position] ^= 1;
        overwrite(&packs[0], &content);
        // The call names only one file, and changes it after the capture.
        scratch.named = vec![rel("src/a")];
        let capture = scratch.capture();
        noticed += usize::from(!capture.damaged.is_empty());
        scratch.write("src/a", "changed");
        scratch.write("b", "2");
        scratch.restore(&capture, &["src/a"]);
        assert_eq!(scratch.read("src/a"), "precious", "{position}");
    }
    assert!(noticed > 10, "{noticed}");
}

#[test]
fn after_a_repair_the_next_capture_stores_lost_objects_again() {
    let mut scratch = Scratch::in_memory();
    scratch.ahead = HOUR;
    scratch.write("a", "1");
    scratch.capture();
    // Since the note that lists the packs is empty, a capture alone does not notice that packs are
    // missing.
    fs::write(workspace_directory(&scratch).join("packs"), "").unwrap();
    for pack in list_packs(&scratch) {
        fs::remove_file(pack.with_extension("idx")).unwrap();
        fs::remove_file(&pack).unwrap();
    }
    scratch.store.repair(&|_, _| {}).unwrap();
    assert_eq!(scratch.capture().tree, scratch.fresh().tree);
    assert_complete(&scratch);
}

#[test]
fn a_broken_stat_cache_is_ignored() {
    let damage: [(&str, fn(&Path)); 12] = [
        ("state deleted", |own| fs::remove_file(own.join("state")).unwrap()),
        ("state empty", |own| fs::write(own.join("state"), "").unwrap()),
        ("state of zeros", |own| fs::write(own.join("state"), [0; 4096]).unwrap()),
        ("state truncated", |own| {
            let whole = fs::read(own.join("state")).unwrap();
            fs::write(own.join("state"), &whole[..whole.len() / 2]).unwrap();
        }),
        ("state flipped", |own| {
            let mut whole = fs::read(own.join("state")).unwrap();
            let middle = whole.len() / 2;
            whole[middle] ^= 1;
            fs::write(own.join("state"), whole).unwrap();
        }),
        ("state is a directory", |own| {
            fs::remove_file(own.join("state")).unwrap();
            fs::create_dir(own.join("state")).unwrap();
        }),
        ("log deleted", |own| drop(fs::remove_file(own.join("state.log")))),
        ("log of garbage", |own| fs::write(own.join("state.log"), [7; 1000]).unwrap()),
        ("log truncated", |own| {
            let log = fs::read(own.join("state.log")).unwrap();
            fs::write(own.join("state.log"), &log[..log.len() - 3]).unwrap();
        }),
        ("log with a garbled end", |own| {
            let mut log = fs::read(own.join("state.log")).unwrap();
            log.extend_from_slice(b"TBSTAT01 and then something else entirely, for long enough");
            fs::write(own.join("state.log"), log).unwrap();
        }),
        ("log of another state", |own| {
            let log = fs::read(own.join("state.log")).unwrap();
            fs::remove_file(own.join("state")).unwrap();
            fs::write(own.join("state.log"), log).unwrap();
        }),
        ("workspace.json damaged", |own| fs::write(own.join("workspace.json"), "{").unwrap()),
    ];
    for (what, damage) in damage {
        let mut scratch = Scratch::in_memory();
        scratch.ahead = HOUR;
        for number in 0..30 {
            scratch.write(format!("d{}/f{number}", number % 4), number.to_string());
        }
        scratch.capture();
        scratch.write("d1/f1", "second");
        scratch.capture();
        assert!(workspace_directory(&scratch).join("state.log").exists());
        damage(&workspace_directory(&scratch));
        scratch.write("d2/f2", "third");
        for _ in 0..3 {
            assert_eq!(scratch.capture(), scratch.fresh(), "{what}");
            scratch.write("d3/f3", "changed in place");
        }
        assert_eq!(scratch.pins().iter().map(|pin| pin.name.seq).max(), Some(5), "{what}");
        assert_complete(&scratch);
        scratch.fsck();
    }
}

/// Lists the kinds of damage to a pack that are noticed when the pack is opened.
fn pack_damage() -> Vec<(&'static str, fn(&Path))> {
    vec![
        ("index with a wrong beginning", |pack| {
            let path = pack.with_extension("idx");
            let mut index = fs::read(&path).unwrap();
            index[0] = 0;
            overwrite(&path, &index);
        }),
        ("empty index", |pack| overwrite(&pack.with_extension("idx"), b"")),
        ("truncated index", |pack| {
            let path = pack.with_extension("idx");
            let index = fs::read(&path).unwrap();
            overwrite(&path, &index[..index.len() - 30]);
        }),
        ("truncated pack", |pack| {
            let content = fs::read(pack).unwrap();
            overwrite(pack, &content[..content.len() - 1]);
        }),
        ("empty pack", |pack| overwrite(pack, b"")),
        ("missing pack", |pack| fs::remove_file(pack).unwrap()),
        ("garbage for a pack", |pack| overwrite(pack, &[9; 3000])),
    ]
}

#[test]
fn a_broken_pack_is_set_aside() {
    for (what, damage) in pack_damage() {
        let mut scratch = Scratch::in_memory();
        scratch.ahead = HOUR;
        for number in 0..20 {
            scratch.write(format!("d{}/f{number}", number % 4), number.to_string());
        }
        scratch.capture();
        scratch.write("d1/second", "2");
        scratch.capture();
        scratch.write("d2/third", "3");
        scratch.capture();
        // The largest pack holds most of the known objects.
        let pack =
            list_packs(&scratch).into_iter().max_by_key(|pack| pack.metadata().unwrap().len());
        let pack = pack.unwrap();
        damage(&pack);
        scratch.write("d3/fourth", "4");
        assert_healed(&scratch, what);
        assert_complete(&scratch);
        let name = pack.file_stem().unwrap();
        let quarantine = scratch.store.directory().join("quarantine");
        assert!(!pack.with_extension("idx").exists(), "{what}");
        assert!(quarantine.join(name).with_extension("idx").exists(), "{what}");
        // Later captures work as usual.
        scratch.write("d1/second", "22");
        assert_eq!(scratch.capture(), scratch.fresh(), "{what}");
        assert_eq!(scratch.capture(), scratch.fresh(), "{what}");
        assert_complete(&scratch);
    }
}

/// The broken pack is covered by a multi-pack index that git wrote.
#[test]
fn a_broken_pack_in_a_multi_pack_index_is_set_aside() {
    for (what, damage) in pack_damage() {
        let mut scratch = Scratch::in_memory();
        scratch.ahead = HOUR;
        for number in 0..20 {
            scratch.write(format!("d{}/f{number}", number % 4), number.to_string());
        }
        scratch.capture();
        scratch.write("d1/second", "2");
        scratch.capture();
        scratch.git(&["multi-pack-index", "write"]);
        let pack =
            list_packs(&scratch).into_iter().max_by_key(|pack| pack.metadata().unwrap().len());
        damage(&pack.unwrap());
        scratch.write("d3/fourth", "4");
        assert_healed(&scratch, what);
        assert_complete(&scratch);
    }
}

/// A multi-pack index only repeats the packs' own indexes, so the store can be read without it.
#[test]
fn a_broken_multi_pack_index_is_ignored() {
    for content in [&b""[..], b"MIDX", &[0; 2000], b"MIDX\x01\x01\xff\0\xff\xff\xff\xff"] {
        let scratch = Scratch::in_memory();
        scratch.write("a", "1");
        scratch.capture();
        let path = scratch.store.directory().join("objects/pack/multi-pack-index");
        fs::write(&path, content).unwrap();
        scratch.write("a", "2");
        assert_eq!(scratch.capture(), scratch.fresh());
        fs::remove_file(path).unwrap();
        scratch.fsck();
        assert_complete(&scratch);
    }
}

#[test]
fn a_damaged_identity_is_an_error() {
    for text in ["", "{", "null", "{\"version\":1}", "\0\0\0", "{\"version\":\"x\",\"uuid\":\"y\"}"]
    {
        let scratch = Scratch::new();
        scratch.write("a", "1");
        scratch.capture();
        let path = scratch.store.directory().join("store.json");
        overwrite(&path, text.as_bytes());
        let before = read_directory(scratch.store.directory());
        let Err(error) = Store::open(scratch.store.directory()) else { panic!("{text:?} opened") };
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
        assert!(error_chain(&error).contains(&path.display().to_string()), "{error}");
        assert_eq!(read_directory(scratch.store.directory()), before);
    }
}

#[test]
fn a_store_of_a_later_version_is_refused() {
    let scratch = Scratch::new();
    scratch.write("a", "1");
    scratch.capture();
    let path = scratch.store.directory().join("store.json");
    let text = fs::read_to_string(&path).unwrap();
    overwrite(&path, text.replace("\"version\":1", "\"version\":2").as_bytes());
    // Even temporary files, which would otherwise be removed, are left unchanged.
    fs::write(scratch.store.directory().join("tmp/theirs"), "x").unwrap();
    let before = read_directory(scratch.store.directory());
    let Err(error) = Store::open(scratch.store.directory()) else { panic!("opened") };
    assert!(matches!(error, StoreError::TooNew { found: 2, .. }), "{error}");
    assert!(error.to_string().contains("update takeback"), "{error}");
    assert_eq!(read_directory(scratch.store.directory()), before);
}

#[test]
fn a_damaged_ref_does_not_affect_other_pins() {
    let scratch = Scratch::new();
    for round in 0..8 {
        scratch.write("a", round.to_string());
        scratch.capture();
    }
    let id = scratch.store.workspace_id(&scratch.root);
    let refs = scratch.store.directory().join("refs/takeback").join(id.to_string());
    let blob = "0".repeat(39) + "1";
    let nonsense: [(u64, &[u8]); 6] = [
        (1, b""),
        (2, b"ref: refs/heads/main\n"),
        (3, b"not an id at all\n"),
        (4, blob.as_bytes()),
        (5, &[0xff; 41]),
        (6, b"\0"),
    ];
    for (seq, text) in nonsense {
        overwrite(&refs.join(seq.to_string()), text);
    }
    let names = scratch.store.pin_names(&id).unwrap();
    assert_eq!(names.len(), 8);
    for name in &names {
        match scratch.store.pin(name) {
            Err(error) => {
                assert!(name.seq <= 6, "{error}");
                assert!(!error_chain(&error).is_empty());
            }
            Ok(pin) => assert!(name.seq > 6 && pin.is_some(), "{}", name.seq),
        }
    }
    scratch.write("a", "after");
    assert_eq!(scratch.capture(), scratch.fresh());
    assert_eq!(scratch.store.pin_names(&id).unwrap().last().unwrap().seq, 9);
}

/// Some of the refs belong to no pin: their names are other spellings of numbers, or numbers that
/// are too large.
#[test]
fn refs_that_belong_to_no_pin_do_no_harm() {
    let scratch = Scratch::new();
    scratch.write("a", "1");
    scratch.capture();
    let id = scratch.store.workspace_id(&scratch.root);
    let refs = scratch.store.directory().join("refs/takeback").join(id.to_string());
    let good = fs::read(refs.join("1")).unwrap();
    for name in
        ["01", "+1", "-1", "1.lock", "x", " 7", "18446744073709551615", "99999999999999999999"]
    {
        fs::write(refs.join(name), &good).unwrap();
    }
    fs::create_dir(refs.join("5")).unwrap();
    fs::write(scratch.store.directory().join("refs/takeback/stray"), "x").unwrap();
    for name in scratch.store.pin_names(&id).unwrap() {
        // Every listed pin can be read.
        assert!(!matches!(scratch.store.pin(&name), Ok(None)), "{name}");
    }
    scratch.write("a", "2");
    assert_eq!(scratch.try_capture_and_pin().unwrap(), scratch.fresh());
    scratch.write("a", "3");
    assert_eq!(scratch.try_capture_and_pin().unwrap(), scratch.fresh());
}

/// The directory for temporary files contains a directory.
#[test]
fn a_directory_among_temporary_files_does_no_harm() {
    let scratch = Scratch::new();
    scratch.write("a", "1");
    scratch.capture();
    let stray = scratch.store.directory().join("tmp/stray");
    fs::create_dir(&stray).unwrap();
    fs::write(stray.join("file"), "x").unwrap();
    let store = Store::open(scratch.store.directory()).unwrap();
    assert!(store.workspace(&scratch.root, &ForbiddenRoots::default()).unwrap().lock().is_ok());
}

/// Neither git's environment variables nor its configuration changes a tree.
#[test]
fn gits_environment_variables_change_nothing() {
    if let Some(directory) = child_variable("DIRECTORY") {
        let scratch = Scratch::new();
        fill_workspace(&scratch);
        let tree = scratch.capture().tree;
        fs::write(Path::new(&directory).join("tree"), tree.to_string()).unwrap();
        return;
    }
    let scratch = Scratch::new();
    fill_workspace(&scratch);
    let expected = scratch.capture().tree.to_string();
    let home = scratch.directory.path().join("home");
    fs::create_dir_all(home.join(".config/git")).unwrap();
    git(&home, &["init", "-q", "--bare", "other.git"]);
    let excludes = home.join("excludes");
    fs::write(&excludes, "*\n").unwrap();
    let config = format!(
        "[core]\n\texcludesFile = {}\n\tattributesFile = {}\n\tautocrlf = true\n\tfileMode = false\n\tignoreCase = true\n",
        excludes.display(),
        home.join("attributes").display()
    );
    fs::write(home.join("attributes"), "* text eol=crlf ident filter=x\n").unwrap();
    fs::write(home.join(".gitconfig"), &config).unwrap();
    fs::write(home.join(".config/git/config"), &config).unwrap();
    fs::write(home.join(".config/git/ignore"), "*\n").unwrap();
    fs::write(home.join(".config/git/attributes"), "* text eol=crlf\n").unwrap();
    let mut command = rerun_test("corrupt::gits_environment_variables_change_nothing", "env", &[]);
    command.env("DIRECTORY", &home).env("HOME", &home).env("XDG_CONFIG_HOME", home.join(".config"));
    for (name, value) in [
        ("GIT_DIR", home.join("other.git")),
        ("GIT_WORK_TREE", home.clone()),
        ("GIT_OBJECT_DIRECTORY", home.join("objects")),
        ("GIT_ALTERNATE_OBJECT_DIRECTORIES", home.join("alternates")),
        ("GIT_INDEX_FILE", home.join("index")),
        ("GIT_CONFIG_GLOBAL", home.join(".gitconfig")),
        ("GIT_CONFIG_SYSTEM", home.join(".gitconfig")),
        ("GIT_CEILING_DIRECTORIES", PathBuf::from("/")),
        ("GIT_DEFAULT_HASH", PathBuf::from("sha256")),
        ("GIT_CONFIG_COUNT", PathBuf::from("1")),
        ("GIT_CONFIG_KEY_0", PathBuf::from("core.excludesFile")),
        ("GIT_CONFIG_VALUE_0", excludes.clone()),
        ("GIT_NAMESPACE", PathBuf::from("elsewhere")),
    ] {
        command.env(name, value);
    }
    succeed(command);
    assert_eq!(fs::read_to_string(home.join("tree")).unwrap(), expected);
    assert!(!home.join("objects").exists() && !home.join("index").exists());
}

fn fill_workspace(scratch: &Scratch) {
    git(&scratch.root, &["init", "-q", "--template="]);
    scratch.write(".gitignore", "build-output/\n*.tmp\n");
    scratch.write("crlf", "a\r\nb\n$Id$\n");
    scratch.write("D/File", "1");
    scratch.write("d/file", "2");
    scratch.write("x.tmp", "3");
    scratch.write("build-output/kept", "4");
    scratch.write("build-output/not", "5");
    scratch.chmod("crlf", 0o755);
    git(&scratch.root, &["add", "-f", "build-output/kept"]);
}

/// The workspace contains files that would make a careless capture wait or read forever.
#[test]
fn files_that_never_end_do_not_block_a_capture() {
    let fifo = |path: PathBuf| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mode = rustix::fs::Mode::from(0o644);
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    };
    let endless = |path: PathBuf| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink("/dev/zero", path).unwrap();
    };
    for place in [".git/index", ".gitignore", "d/.gitignore", "file", ".git"] {
        for kind in ["fifo", "endless"] {
            let scratch = Scratch::new();
            scratch.write("a", "1");
            scratch.write("target/x", "2");
            let path = scratch.path(place);
            if kind == "fifo" {
                fifo(path);
            } else {
                endless(path);
            }
            let (done, is_done) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                let _ = done.send((scratch.capture(), scratch.fresh()));
            });
            // The test waits this long only if it fails.
            let (capture, fresh) = is_done
                .recv_timeout(Duration::from_secs(20))
                .unwrap_or_else(|_| panic!("the capture hangs if {place} is a {kind}"));
            assert_eq!(capture, fresh);
            assert!(capture.files >= 1, "{place} as {kind}");
        }
    }
}

/// A `.git` file may point anywhere.
#[test]
fn a_git_file_that_points_anywhere_does_no_harm() {
    for text in ["", "gitdir:", "gitdir: /dev", "gitdir: /dev/zero", "gitdir: ../../..", "\u{0}"] {
        let scratch = Scratch::new();
        scratch.write(".git", text);
        scratch.write("a", "1");
        scratch.write("target/x", "2");
        assert_eq!(scratch.files(scratch.capture().tree), ["a"], "{text:?}");
    }
}
