//! The content of captures, as git reads it.

use std::fs;

use takeback_tree::{
    Capture, CaptureError, CaptureRules, ForbiddenRoots, Store, UncoveredReason, WorkspaceError,
};

use crate::support::{Scratch, git, read_directory, rel};

/// Checks that git reads from the tree exactly what the directory contains.
fn assert_complete(scratch: &Scratch, capture: &Capture) {
    let listed = scratch.raw_tree(capture.tree);
    let names = scratch.ls_tree(capture.tree);
    assert_eq!(listed.keys().collect::<Vec<_>>(), names.keys().collect::<Vec<_>>());
    let present = read_directory(&scratch.root);
    assert_eq!(listed.keys().collect::<Vec<_>>(), present.keys().collect::<Vec<_>>());
    for (path, (mode, object)) in listed {
        let (expected, content) = &present[&path];
        let name = String::from_utf8_lossy(&path);
        assert_eq!(mode, format!("{expected:o}"), "{name}");
        if !mode.starts_with("4") {
            assert_eq!(scratch.git(&["cat-file", "blob", &object]), *content, "{name}");
        }
    }
    scratch.fsck();
}

fn reason<'c>(capture: &'c Capture, path: &str) -> Option<&'c UncoveredReason> {
    capture
        .uncovered
        .iter()
        .find(|uncovered| uncovered.path == rel(path))
        .map(|found| &found.reason)
}

#[test]
fn the_bytes_and_kinds_and_modes_and_names_of_files_are_captured() {
    let scratch = Scratch::new();
    scratch.write("plain", "text\n");
    scratch.write("crlf", "a\r\nb\r\n");
    scratch.write(".gitattributes", "* text=auto eol=crlf ident filter=lfs\n");
    scratch.write("ident", "$Id$\n");
    scratch.write("binary", [0, 255, 1, 254]);
    scratch.write("empty", "");
    scratch.write("dir/sub/file", "x");
    scratch.mkdir("empty dir/inner");
    scratch.link("nowhere/at all", "dangling");
    scratch.link("dir", "to-dir");
    for (name, mode) in
        [("m0600", 0o600), ("m4755", 0o4755), ("m0444", 0o444), ("m2070", 0o2770), ("m0000", 0)]
    {
        scratch.write(name, name);
        scratch.chmod(name, mode);
    }
    scratch.mkdir("sticky");
    scratch.chmod("sticky", 0o1777);
    scratch.mkdir("private");
    scratch.chmod("private", 0o750);
    for name in [
        &b"caf\xe9"[..],
        b"new\nline",
        b"tab\there",
        b"*.py",
        b"--option",
        b" ",
        b"\\",
        b"\"",
        b".GIT",
        b"git~1",
        b".gitmodules",
        b"a:b",
        b"...",
        b"\x01\x7f",
    ] {
        scratch.write(name, name);
    }
    scratch.write(vec![b'n'; 255], "long");
    scratch.write(".gitmodules", "[submodule \"x\"]\n\tpath = ../../escape\n\turl = -u./payload\n");
    let capture = scratch.capture();
    assert_complete(&scratch, &capture);
    assert_eq!(capture.uncovered, []);
    assert_eq!(scratch.capture().tree, capture.tree);
}

#[test]
fn the_tree_id_identifies_the_state() {
    let scratch = Scratch::new();
    scratch.write("a", "1");
    scratch.chmod("a", 0o644);
    let first = scratch.capture().tree;
    scratch.chmod("a", 0o600);
    let second = scratch.capture().tree;
    assert_ne!(first, second);
    scratch.mkdir("d");
    scratch.chmod("d", 0o755);
    let third = scratch.capture().tree;
    assert_ne!(second, third);
    scratch.chmod("d", 0o700);
    assert_ne!(third, scratch.capture().tree);
    scratch.remove("d");
    scratch.chmod("a", 0o644);
    assert_eq!(first, scratch.capture().tree);
}

#[test]
fn a_very_deep_path_is_captured() {
    let scratch = Scratch::new();
    // A single system call accepts only much shorter paths.
    let mut fd =
        rustix::fs::open(&scratch.root, rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty())
            .unwrap();
    let name = "d".repeat(200);
    for _ in 0..60 {
        rustix::fs::mkdirat(&fd, &name, rustix::fs::Mode::from(0o755)).unwrap();
        fd = rustix::fs::openat(&fd, &name, rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty())
            .unwrap();
    }
    let file = rustix::fs::openat(
        &fd,
        "f",
        rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY,
        rustix::fs::Mode::from(0o644),
    )
    .unwrap();
    rustix::io::write(&file, b"deep").unwrap();
    let capture = scratch.capture();
    assert_eq!(capture.files, 1);
    let path = format!("{}f", format!("{name}/").repeat(60));
    assert_eq!(scratch.files(capture.tree), [path]);
    scratch.fsck();
    rustix::io::write(&file, b"er").unwrap();
    assert_ne!(scratch.capture().tree, capture.tree);
}

#[test]
fn a_directory_a_thousand_levels_deep_is_captured() {
    let scratch = Scratch::new();
    let path = vec!["a"; 1500].join("/");
    scratch.write(format!("{path}/f"), "x");
    let capture = scratch.capture();
    assert_eq!(scratch.files(capture.tree), [format!("{path}/f")]);
    scratch.write(format!("{path}/g"), "y");
    assert_eq!(scratch.capture().files, 2);
    scratch.fsck();
}

#[test]
fn nested_repositories_are_captured_as_files() {
    let scratch = Scratch::new();
    scratch.write("vendor/lib/src.c", "int x;");
    for repository in ["", "vendor/lib"] {
        git(&scratch.path(repository), &["init", "-q"]);
    }
    scratch.write("empty-repository/kept", "1");
    git(&scratch.path("empty-repository"), &["init", "-q"]);
    scratch.write("submodule/.git", "gitdir: ../.git/modules/submodule\n");
    scratch.write("submodule/code", "2");
    let before = read_directory(&scratch.path(".git"));
    let capture = scratch.capture();
    assert_complete(&scratch, &capture);
    assert_eq!(
        scratch.files(capture.tree),
        ["empty-repository/kept", "submodule/code", "vendor/lib/src.c"]
    );
    assert_eq!(read_directory(&scratch.path(".git")), before);
}

#[test]
fn each_rule_overrides_the_weaker_ones() {
    let mut scratch = Scratch::new();
    scratch.rules = CaptureRules {
        exclude: vec!["secret-plans/".into(), "*.tmp".into()],
        include: vec!["keep.tmp".into(), "dist/keep/".into(), "/deep/build/out.js".into()],
        ..CaptureRules::default()
    };
    scratch.write(".gitignore", "ignored/\n*.db\n!dist/\n!important.log\n");
    for path in [
        "node_modules/x/index.js",
        "ignored/x",
        "secret-plans/x",
        "x.tmp",
        "keep.tmp",
        "important.log",
        "noise.log",
        "dist/app.js",
        "dist/keep/x.tmp",
        "deep/build/out.js",
        "deep/build/other.js",
        "local.db",
        "src/main.rs",
        "src/__pycache__/x.pyc",
        "y.pyc",
    ] {
        scratch.write(path, path);
    }
    let capture = scratch.capture();
    assert_eq!(
        scratch.files(capture.tree),
        [
            ".gitignore",
            "deep/build/out.js",
            "dist/app.js",
            "dist/keep/x.tmp",
            "important.log",
            "keep.tmp",
            "local.db",
            "src/main.rs"
        ]
    );
    for (path, expected) in [
        ("node_modules", UncoveredReason::Excluded),
        ("ignored", UncoveredReason::Ignored),
        ("secret-plans", UncoveredReason::Excluded),
        ("x.tmp", UncoveredReason::Excluded),
        ("noise.log", UncoveredReason::Excluded),
        ("deep/build", UncoveredReason::Excluded),
        ("src/__pycache__", UncoveredReason::Excluded),
        ("y.pyc", UncoveredReason::Excluded),
    ] {
        assert_eq!(reason(&capture, path), Some(&expected), "{path}");
    }
    assert_eq!(capture.uncovered.len(), 8);
}

#[test]
fn ignored_files_are_guarded_up_to_a_size_limit() {
    let scratch = Scratch::new();
    scratch.write(".gitignore", ".env\n*.db\nlogs/\n");
    scratch.write(".env", "SECRET=1");
    scratch.write("small.db", vec![1; 1 << 20]);
    scratch.write("large.db", vec![1; (1 << 20) + 1]);
    scratch.write("logs/.env", "inside an ignored directory");
    let capture = scratch.capture();
    assert_eq!(scratch.files(capture.tree), [".env", ".gitignore", "small.db"]);
    assert_eq!(
        reason(&capture, "large.db"),
        Some(&UncoveredReason::TooLarge { size: (1 << 20) + 1 })
    );
    assert_eq!(reason(&capture, "logs"), Some(&UncoveredReason::Ignored));
    // Once the file shrinks, it is guarded.
    scratch.write("large.db", "small now");
    assert_eq!(
        scratch.files(scratch.capture().tree),
        [".env", ".gitignore", "large.db", "small.db"]
    );
}

#[test]
fn private_files_can_be_left_out() {
    let mut scratch = Scratch::new();
    scratch.rules.skip_private = true;
    scratch.write(".gitignore", ".env\nkey.pem\nlocal.json\n");
    for path in [".env", "key.pem", "local.json", "id_map.rs"] {
        scratch.write(path, path);
    }
    scratch.named = vec![rel(".env")];
    for _ in 0..2 {
        let capture = scratch.capture();
        assert_eq!(scratch.files(capture.tree), [".gitignore", "id_map.rs", "local.json"]);
        assert_eq!(reason(&capture, ".env"), Some(&UncoveredReason::Private));
        scratch.write(".env", "changed");
    }
}

#[test]
fn named_paths_are_always_captured() {
    let mut scratch = Scratch::new();
    scratch.rules.max_file_size = 100;
    scratch.write("node_modules/p/index.js", "x");
    scratch.write("node_modules/p/other.js", "x");
    scratch.write("big", vec![0; 200]);
    scratch.write("build/a/b", "1");
    scratch.write("src", "2");
    let plain = scratch.capture();
    assert_eq!(scratch.files(plain.tree), ["src"]);
    scratch.named = vec![
        rel("node_modules/p/index.js"),
        rel("big"),
        rel("build"),
        rel("not/there"),
        rel(".git/config"),
    ];
    for _ in 0..2 {
        let capture = scratch.capture();
        assert_eq!(
            scratch.files(capture.tree),
            ["big", "build/a/b", "node_modules/p/index.js", "src"]
        );
        assert_eq!(reason(&capture, "node_modules"), Some(&UncoveredReason::Excluded));
        assert_eq!(reason(&capture, "build"), None);
    }
    scratch.named.clear();
    assert_eq!(scratch.capture(), plain);
}

#[test]
fn tracked_paths_are_always_captured() {
    let mut scratch = Scratch::new();
    scratch.rules.max_file_size = 100;
    git(&scratch.root, &["init", "-q"]);
    scratch.write(".gitignore", "*.cfg\nout/\n");
    for path in ["dist/app.js", "dist/junk.js", "tracked.cfg", "local.cfg", "out/deep/x", "src"] {
        scratch.write(path, path);
    }
    scratch.write("large", vec![0; 200]);
    let before = scratch.capture();
    assert_eq!(scratch.files(before.tree), [".gitignore", "local.cfg", "src", "tracked.cfg"]);
    git(&scratch.root, &["add", "-f", "dist/app.js", "tracked.cfg", "out/deep/x", "large"]);
    let expected =
        [".gitignore", "dist/app.js", "large", "local.cfg", "out/deep/x", "src", "tracked.cfg"];
    for _ in 0..2 {
        let capture = scratch.capture();
        assert_eq!(scratch.files(capture.tree), expected);
        assert_eq!(capture.filter.tracked, [rel("large"), rel("tracked.cfg")]);
        assert_eq!(reason(&capture, "dist"), Some(&UncoveredReason::Excluded));
    }
    scratch.write("out/deep/x", "changed");
    assert_ne!(scratch.capture().tree, before.tree);
    git(&scratch.root, &["rm", "-q", "--cached", "-rf", "."]);
    assert_eq!(
        scratch.files(scratch.capture().tree),
        [".gitignore", "local.cfg", "src", "tracked.cfg"]
    );
}

#[test]
fn a_changed_gitignore_is_applied_to_everything_below() {
    let scratch = Scratch::new();
    for path in ["a/x.gen", "a/b/y.gen", "a/b/data/z", "c/x.gen"] {
        scratch.write(path, path);
    }
    assert_eq!(scratch.capture().files, 4);
    scratch.write("a/.gitignore", "data/\n");
    let capture = scratch.capture();
    assert_eq!(scratch.files(capture.tree), ["a/.gitignore", "a/b/y.gen", "a/x.gen", "c/x.gen"]);
    assert_eq!(reason(&capture, "a/b/data"), Some(&UncoveredReason::Ignored));
    scratch.write("a/.gitignore", "b/\n");
    assert_eq!(scratch.files(scratch.capture().tree), ["a/.gitignore", "a/x.gen", "c/x.gen"]);
    scratch.remove("a/.gitignore");
    assert_eq!(scratch.capture().files, 4);
    // As in git, a link is not followed.
    scratch.write("patterns", "*\n");
    scratch.link("../patterns", "a/.gitignore");
    assert_eq!(scratch.capture().files, 6);
}

#[test]
fn special_and_oversized_files_are_reported() {
    let mut scratch = Scratch::new();
    scratch.rules.max_file_size = 1000;
    scratch.write("ok", "1");
    scratch.write("big", vec![0; 1001]);
    let _socket = std::os::unix::net::UnixListener::bind(scratch.path("socket")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        scratch.path("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from(0o644),
        0,
    )
    .unwrap();
    for _ in 0..2 {
        let capture = scratch.capture();
        assert_eq!(scratch.files(capture.tree), ["ok"]);
        assert_eq!(reason(&capture, "big"), Some(&UncoveredReason::TooLarge { size: 1001 }));
        assert_eq!(reason(&capture, "socket"), Some(&UncoveredReason::Special));
        assert_eq!(reason(&capture, "fifo"), Some(&UncoveredReason::Special));
    }
    scratch.write("big", "small");
    assert_eq!(scratch.files(scratch.capture().tree), ["big", "ok"]);
    scratch.write("ok", vec![0; 1001]);
    assert_eq!(scratch.files(scratch.capture().tree), ["big"]);
}

#[test]
fn a_workspace_with_too_many_files_is_refused() {
    let mut scratch = Scratch::new();
    scratch.rules.max_files = 10;
    for number in 0..10 {
        scratch.write(format!("f{number}"), "x");
    }
    for number in 0..50 {
        scratch.write(format!("node_modules/f{number}"), "x");
    }
    assert_eq!(scratch.capture().files, 10);
    scratch.write("one more", "x");
    assert!(matches!(scratch.try_capture(), Err(CaptureError::TooManyFiles { limit: 10 })));
    scratch.remove("f0");
    assert_eq!(scratch.capture().files, 10);
}

#[test]
fn it_is_remembered_that_a_workspace_has_too_many_files() {
    let mut scratch = Scratch::new();
    scratch.rules.max_files = 3;
    for path in ["a", "b", "c", "d", "data/x"] {
        scratch.write(path, "1");
    }
    let is_refused =
        |scratch: &Scratch| matches!(scratch.try_capture(), Err(CaptureError::TooManyFiles { .. }));
    assert!(is_refused(&scratch));
    // Only listing the directories again would show that there are now few enough files.
    let make_few = |scratch: &Scratch| {
        for path in ["c", "d"] {
            scratch.remove(path);
            scratch.mkdir(path);
        }
    };
    make_few(&scratch);
    assert!(is_refused(&scratch));
    // The capture is tried again when the rules change, a name disappears, the `.gitignore`
    // changes, the user asks for it, or an hour has passed.
    let tries: [(&str, fn(&mut Scratch)); 5] = [
        ("rules", |scratch| scratch.rules.max_files = 4),
        ("name", |scratch| scratch.remove("d")),
        (".gitignore", |scratch| scratch.write(".gitignore", "data/\n")),
        ("asked", |scratch| {
            let workspace =
                scratch.store.workspace(&scratch.root, &ForbiddenRoots::default()).unwrap();
            workspace.lock().unwrap().forget_limit();
        }),
        ("hour", |scratch| scratch.ahead = std::time::Duration::from_secs(3700)),
    ];
    for (what, change) in tries {
        let mut scratch = Scratch::new();
        scratch.rules.max_files = 3;
        for path in ["a", "b", "c", "d", "data/x"] {
            scratch.write(path, "1");
        }
        assert!(is_refused(&scratch));
        make_few(&scratch);
        assert!(is_refused(&scratch), "{what}");
        change(&mut scratch);
        assert!(scratch.capture().files <= 3, "{what}");
        assert!(scratch.capture().files <= 3, "{what}");
    }
}

#[test]
fn the_limit_on_the_number_of_files_does_not_apply_to_a_restore() {
    let mut scratch = Scratch::new();
    scratch.write("a", "1");
    let capture = scratch.capture();
    scratch.rules.max_files = 1;
    scratch.write("a", "2");
    scratch.write("b", "1");
    assert!(scratch.try_capture().is_err());
    scratch.restore(&capture, &[]);
    assert_eq!(scratch.read("a"), "1");
}

#[test]
fn forbidden_roots_are_refused() {
    let scratch = Scratch::new();
    let base = scratch.root.parent().unwrap().to_owned();
    for sub in ["home", "tmp", "own/inner", "home/project"] {
        fs::create_dir_all(base.join(sub)).unwrap();
    }
    let places = ForbiddenRoots::new(
        Some(base.join("home")),
        vec![base.join("tmp")],
        Some(base.join("own")),
    );
    let refused = |path: &str| match scratch.store.workspace(&base.join(path), &places) {
        Err(WorkspaceError::Refused { what, .. }) => Some(what),
        _ => None,
    };
    assert_eq!(refused("/"), Some("the root of the file system"));
    assert_eq!(refused("home"), Some("the home directory"));
    assert_eq!(refused("home/project/.."), Some("the home directory"));
    assert_eq!(refused("tmp"), Some("a directory for temporary files"));
    assert_eq!(refused("own"), Some("takeback's own directory"));
    assert_eq!(refused("own/inner"), Some("takeback's own directory"));
    assert_eq!(refused("home/project"), None);
    assert!(matches!(
        scratch.store.workspace(&base.join("none"), &places),
        Err(WorkspaceError::Open { .. })
    ));
}

#[test]
fn takebacks_own_directory_is_not_captured() {
    let scratch = Scratch::new();
    scratch.write("src", "1");
    let own = scratch.path("deep/.takeback");
    let store = Store::open(own.join("store")).unwrap();
    let places = ForbiddenRoots::new(None, Vec::new(), Some(own));
    let workspace = store.workspace(&scratch.root, &places).unwrap();
    let mut lock = workspace.lock().unwrap();
    let options = takeback_tree::CaptureOptions {
        rules: &scratch.rules,
        named: &[rel("deep")],
        swept: &[],
        now: scratch.now(),
    };
    let capture = lock.capture(&options).unwrap();
    assert_eq!(capture.files, 1);
    assert_eq!(reason(&capture, "deep/.takeback"), Some(&UncoveredReason::Excluded));
}

#[test]
fn identical_content_is_stored_once_across_workspaces() {
    let scratch = Scratch::new();
    let content: Vec<u8> =
        (0..100_000u32).flat_map(|n| (n.wrapping_mul(2_654_435_761)).to_le_bytes()).collect();
    scratch.write("a", &content);
    scratch.capture();
    let other = scratch.root.with_file_name("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("b"), &content).unwrap();
    let size = |store: &Store| -> u64 {
        let packs = fs::read_dir(store.directory().join("objects/pack")).unwrap();
        packs.map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
    };
    let before = size(&scratch.store);
    let workspace = scratch.store.workspace(&other, &ForbiddenRoots::default()).unwrap();
    let mut lock = workspace.lock().unwrap();
    let options = takeback_tree::CaptureOptions {
        rules: &scratch.rules,
        named: &[],
        swept: &[],
        now: scratch.now(),
    };
    let capture = lock.capture(&options).unwrap();
    lock.pin(capture.tree, scratch.now(), "x").unwrap();
    lock.finish(scratch.now()).unwrap();
    assert!(before > 300_000 && size(&scratch.store) < before + 5_000);
    scratch.fsck();
}

#[test]
fn an_unchanged_workspace_writes_nothing_but_its_pin() {
    let mut scratch = Scratch::new();
    scratch.ahead = std::time::Duration::from_secs(3600);
    scratch.write("a/b", "1");
    let first = scratch.capture();
    let cache = |scratch: &Scratch| {
        let directory = fs::read_dir(scratch.store.directory().join("workspaces"))
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        fs::metadata(directory.join("state")).unwrap().modified().unwrap()
    };
    let (packs, saved) = (scratch.git(&["count-objects", "-v"]), cache(&scratch));
    let second = scratch.capture();
    assert_eq!(first, second);
    assert_eq!(saved, cache(&scratch));
    let objects = |text: &[u8]| -> u64 {
        let text = String::from_utf8_lossy(text).into_owned();
        text.lines().find_map(|line| line.strip_prefix("in-pack: ")?.parse().ok()).unwrap()
    };
    assert!(objects(&scratch.git(&["count-objects", "-v"])) <= objects(&packs) + 1);
}
