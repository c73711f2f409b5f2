//! Reading, writing and patching files.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use sha2::{Digest, Sha256};
use takeback_base::hex;
use takeback_runtime::tools::{KnownFile, ToolOutput};
use takeback_undo::ToolWork;

use crate::tools_support::Workbench;

#[test]
fn a_file_is_created_then_read_and_then_patched() {
    let mut bench = Workbench::new();
    let written = bench.ok("write_file", &json!({ "path": "src/a.rs", "content": "one\ntwo\n" }));
    assert_eq!(written, "created src/a.rs (2 lines)");
    assert_eq!(bench.ok("read_file", &json!({ "path": "src/a.rs" })), "one\ntwo\n");
    let edits = json!([{ "old": "two", "new": "2" }, { "old": "one", "new": "1" }]);
    let patched = bench.ok("patch", &json!({ "path": "src/a.rs", "edits": edits }));
    assert_eq!(patched, "patched src/a.rs: 2 replacements");
    assert_eq!(bench.get("src/a.rs"), "1\n2\n");
    let written = bench.ok("write_file", &json!({ "path": "src/a.rs", "content": "" }));
    assert_eq!(written, "replaced src/a.rs (0 lines)");
    assert_eq!(bench.list(), ["src/a.rs"]);
}

#[test]
fn a_file_that_the_model_never_read_is_not_replaced() {
    let mut bench = Workbench::new();
    bench.put("a", "mine");
    let said = bench.fail("write_file", &json!({ "path": "a", "content": "x" }));
    assert_eq!(said, "nothing was written: a exists and you have not read it; read it first");
    let edits = json!([{ "old": "mine", "new": "x" }]);
    assert!(bench.fail("patch", &json!({ "path": "a", "edits": edits })).contains("read it first"));
    assert_eq!(bench.get("a"), "mine");
    bench.ok("read_file", &json!({ "path": "a", "limit": 1 }));
    bench.ok("write_file", &json!({ "path": "a", "content": "x" }));
    assert_eq!(bench.get("a"), "x");
}

#[test]
fn a_file_that_the_user_changed_is_not_replaced_until_it_is_read_again() {
    let mut bench = Workbench::new();
    bench.ok("write_file", &json!({ "path": "a", "content": "one" }));
    bench.put("a", "one, and the user's two");
    let said = bench.fail("write_file", &json!({ "path": "a", "content": "x" }));
    assert_eq!(said, "nothing was written: a changed since you last read it; read it again");
    let patch = json!({ "path": "a", "edits": [{ "old": "one", "new": "1" }] });
    assert!(bench.fail("patch", &patch).contains("changed since"));
    assert!(bench.writes("patch", &patch).is_empty());
    assert_eq!(bench.get("a"), "one, and the user's two");
    bench.ok("read_file", &json!({ "path": "a" }));
    bench.ok("patch", &patch);
    assert_eq!(bench.get("a"), "1, and the user's two");
}

#[test]
fn a_file_that_the_user_deleted_or_created_is_noticed() {
    let mut bench = Workbench::new();
    bench.ok("write_file", &json!({ "path": "a", "content": "one" }));
    fs::remove_file(bench.at("a")).unwrap();
    let write = json!({ "path": "a", "content": "two" });
    assert!(bench.fail("write_file", &write).contains("a was deleted since you last read it"));
    // If the model reads a missing file, it learns that the file does not exist.
    let missing = bench.call("read_file", &json!({ "path": "a" }));
    assert_eq!((missing.text.as_str(), missing.is_error), ("a does not exist", true));
    assert_eq!(missing.known_files, [KnownFile { path: bench.at("a"), digest: None }]);
    bench.put("a", "the user's");
    assert!(bench.fail("write_file", &write).contains("changed since"));
    assert_eq!(bench.get("a"), "the user's");
}

#[test]
fn a_file_with_several_paths_is_known_under_all_of_them() {
    let mut bench = Workbench::new();
    bench.put("real/file", "one");
    symlink("real/file", bench.at("link")).unwrap();
    bench.ok("read_file", &json!({ "path": "./real/../link" }));
    bench.ok("write_file", &json!({ "path": "real/file", "content": "two" }));
    assert_eq!(bench.get("link"), "two");
}

#[test]
fn writing_to_a_link_keeps_the_link() {
    let mut bench = Workbench::new();
    bench.put("real/file", "one");
    symlink("real/file", bench.at("link")).unwrap();
    bench.ok("read_file", &json!({ "path": "link" }));
    let written = bench.ok("write_file", &json!({ "path": "link", "content": "two" }));
    assert_eq!(written, "replaced real/file (1 line)");
    assert_eq!(fs::read_link(bench.at("link")).unwrap(), OsStr::new("real/file"));
    assert_eq!(bench.get("real/file"), "two");
    // The checkpoint and the approval apply to the file that is actually written.
    let input = json!({ "path": "link", "content": "x" });
    assert_eq!(bench.paths("write_file", &input), [bench.at("real/file")]);
}

#[test]
fn a_link_to_a_missing_file_is_refused() {
    let mut bench = Workbench::new();
    symlink("/nonexistent/file", bench.at("dangling")).unwrap();
    symlink("loop", bench.at("loop")).unwrap();
    for name in ["dangling", "loop"] {
        for (tool, input) in [
            ("read_file", json!({ "path": name })),
            ("write_file", json!({ "path": name, "content": "x" })),
            ("patch", json!({ "path": name, "edits": [{ "old": "a", "new": "b" }] })),
        ] {
            let output = bench.call(tool, &input);
            assert!(output.is_error && output.known_files.is_empty(), "{tool}: {output:?}");
        }
    }
    assert_eq!(bench.list(), ["dangling", "loop"]);
}

#[test]
fn a_link_in_the_workspace_can_lead_out_of_it() {
    let bench = Workbench::new();
    symlink("/etc", bench.at("etc")).unwrap();
    let read = |path: &str| bench.paths("read_file", &json!({ "path": path }));
    assert_eq!(read("etc/hostname")[0].parent().unwrap(), OsStr::new("/etc"));
    assert_eq!(read("../x"), [bench.root.parent().unwrap().join("x")]);
    assert_eq!(read("sub/../../x"), [bench.root.parent().unwrap().join("x")]);
    let work = bench.work("write_file", &json!({ "path": "etc/x", "content": "" }));
    assert_eq!(work, ToolWork::Writes { paths: vec!["/etc/x".into()] });
}

#[test]
fn files_keep_their_modes_and_new_files_get_the_default_mode() {
    let mut bench = Workbench::new();
    bench.put("script.sh", "a");
    bench.put("secret", "a");
    fs::set_permissions(bench.at("script.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(bench.at("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    let mode = |name: &str| fs::metadata(bench.at(name)).unwrap().mode() & 0o7777;
    fs::write(bench.at("usual"), "").unwrap();
    let usual = mode("usual");
    for name in ["script.sh", "secret"] {
        bench.ok("read_file", &json!({ "path": name }));
        bench.ok("write_file", &json!({ "path": name, "content": "b" }));
    }
    bench.ok("write_file", &json!({ "path": "new/file", "content": "b" }));
    let mode = |name: &str| fs::metadata(bench.at(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode("script.sh"), mode("secret"), mode("new/file")), (0o755, 0o600, usual));
}

#[test]
fn the_content_before_and_after_a_write_is_announced() {
    let mut bench = Workbench::new();
    let create = json!({ "path": "a", "content": "one\n" });
    let planned = bench.writes("write_file", &create);
    assert_eq!((planned[0].path.clone(), planned[0].before.clone()), (bench.at("a"), None));
    let output = bench.call("write_file", &create);
    assert_eq!(output.known_files[0].digest, planned[0].after);
    let patch = json!({ "path": "a", "edits": [{ "old": "one", "new": "two" }] });
    let next = bench.writes("patch", &patch);
    assert_eq!(next[0].before, planned[0].after);
    assert_eq!(bench.get("a"), "one\n");
    let output = bench.call("patch", &patch);
    assert_eq!(output.known_files[0].digest, next[0].after);
    // A call that fails announces no writes, and does not count as a change.
    assert!(bench.writes("patch", &patch).is_empty());
    assert!(bench.writes("write_file", &json!({ "path": 7 })).is_empty());
    assert_eq!(bench.work("patch", &json!({})), ToolWork::Reads);
}

#[test]
fn crlf_line_endings_and_a_missing_final_line_ending_are_kept() {
    let mut bench = Workbench::new();
    bench.put("dos", "a\r\nb\r\nc");
    bench.put("unix", "a\nb");
    let shown = bench.ok("read_file", &json!({ "path": "dos" }));
    assert!(shown.starts_with("a\nb\nc\n[the file has CRLF line endings"), "{shown}");
    let edits = json!([{ "old": "a\nb", "new": "x\ny\nz" }]);
    bench.ok("patch", &json!({ "path": "dos", "edits": edits }));
    assert_eq!(bench.get("dos"), "x\r\ny\r\nz\r\nc");
    bench.ok("write_file", &json!({ "path": "dos", "content": "1\n2" }));
    assert_eq!(bench.get("dos"), "1\r\n2");
    assert_eq!(bench.ok("read_file", &json!({ "path": "unix" })), "a\nb");
    bench.ok("patch", &json!({ "path": "unix", "edits": [{ "old": "b", "new": "c" }] }));
    assert_eq!(bench.get("unix"), "a\nc");
}

#[test]
fn bytes_that_are_not_utf8_survive_a_patch() {
    let mut bench = Workbench::new();
    bench.put("latin", b"caf\xe9 one\n");
    assert!(bench.ok("read_file", &json!({ "path": "latin" })).contains("not UTF-8"));
    bench.ok("patch", &json!({ "path": "latin", "edits": [{ "old": "one", "new": "two" }] }));
    assert_eq!(fs::read(bench.at("latin")).unwrap(), b"caf\xe9 two\n");
}

#[test]
fn a_failed_patch_changes_nothing() {
    let mut bench = Workbench::new();
    bench.ok("write_file", &json!({ "path": "a", "content": "one two" }));
    let inode = fs::metadata(bench.at("a")).unwrap().ino();
    let edits = json!([{ "old": "one", "new": "1" }, { "old": "three", "new": "3" }]);
    let said = bench.fail("patch", &json!({ "path": "a", "edits": edits }));
    assert!(said.starts_with("nothing was written to a: edit 2: `old` is not found"), "{said}");
    let edits = json!([{ "old": "one two", "new": "1" }, { "old": "two", "new": "3" }]);
    assert!(bench.fail("patch", &json!({ "path": "a", "edits": edits })).contains("overlap"));
    assert_eq!(bench.get("a"), "one two");
    assert_eq!(fs::metadata(bench.at("a")).unwrap().ino(), inode);
    let said = bench.fail("patch", &json!({ "path": "b", "edits": edits }));
    assert_eq!(said, "b does not exist");
}

#[test]
fn a_binary_file_is_described_instead_of_shown() {
    let mut bench = Workbench::new();
    bench.put("x.png", b"\x89PNG\r\n\x1a\n\0\0\0");
    bench.put("data", b"a\0b");
    let read = bench.ok("read_file", &json!({ "path": "x.png" }));
    assert_eq!(read, "x.png is not text: PNG image, 11 bytes");
    assert!(bench.ok("read_file", &json!({ "path": "data" })).contains("binary file, 3 bytes"));
    let patch = json!({ "path": "data", "edits": [{ "old": "a", "new": "b" }] });
    assert_eq!(bench.fail("patch", &patch), "data is not text: binary file");
}

#[test]
fn pipes_and_devices_and_directories_are_never_opened() {
    let mut bench = Workbench::new();
    assert!(Command::new("mkfifo").arg(bench.at("pipe")).status().unwrap().success());
    symlink("/dev/zero", bench.at("zero")).unwrap();
    fs::create_dir(bench.at("directory")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(bench.at("socket")).unwrap();
    for (name, kind) in [
        ("pipe", "a pipe"),
        ("zero", "a device"),
        ("directory", "a directory"),
        ("socket", "a socket"),
    ] {
        let read = bench.fail("read_file", &json!({ "path": name }));
        assert!(read.contains(&format!("is {kind}, not a file")), "{read}");
        let write = bench.fail("write_file", &json!({ "path": name, "content": "x" }));
        assert!(write.contains(kind), "{write}");
        let patch = json!({ "path": name, "edits": [{ "old": "a", "new": "b" }] });
        assert!(bench.fail("patch", &patch).contains(kind));
    }
    assert!(
        bench.fail("search_files", &json!({ "pattern": "x", "path": "pipe" })).contains("pipe")
    );
    assert!(bench.ok("search_files", &json!({ "pattern": "x" })).contains("no matches"));
}

#[test]
fn an_error_says_why_a_file_cannot_be_found() {
    let mut bench = Workbench::new();
    bench.put("src/main.rs", "");
    let read = |bench: &mut Workbench, path| bench.fail("read_file", &json!({ "path": path }));
    assert_eq!(
        read(&mut bench, "src/Main.rs"),
        "src/Main.rs does not exist; did you mean src/main.rs?"
    );
    assert_eq!(
        read(&mut bench, "lib/x.rs"),
        "lib/x.rs does not exist: there is no directory lib, only ."
    );
    assert!(read(&mut bench, "src/main.rs/x").contains("does not exist"));
    assert!(read(&mut bench, "src").ends_with("src is a directory, not a file: use list_files"));
    assert_eq!(read(&mut bench, ""), "the path is empty");
}

#[test]
fn hostile_names_are_treated_like_any_others() {
    let mut bench = Workbench::new();
    for name in ["-rf", "a b", "$(touch x)", "a'b\"c", "*.rs", "日本", "a\nb", ".takeback-x.tmp"]
    {
        bench.ok("write_file", &json!({ "path": name, "content": name }));
        assert_eq!(bench.get(name), name);
        assert_eq!(bench.ok("read_file", &json!({ "path": name })), name);
    }
    let long = "x".repeat(300);
    assert!(bench.fail("write_file", &json!({ "path": long, "content": "" })).contains("too long"));
    assert_eq!(bench.list().len(), 8);
}

#[test]
fn a_path_that_is_not_utf8_can_be_used_and_stored() {
    let mut bench = Workbench::new();
    let name = OsStr::from_bytes(b"caf\xe9.txt");
    fs::write(bench.at(name), "one").unwrap();
    let listed = bench.ok("list_files", &json!({}));
    assert_eq!(listed, "caf\u{fffd}.txt\n");
    bench.ok("read_file", &json!({ "path": listed.trim() }));
    let write = json!({ "path": listed.trim(), "content": "two" });
    let planned = serde_json::to_string(&bench.writes("write_file", &write)).unwrap();
    assert!(planned.contains("bytes"), "{planned}");
    let output = bench.call("write_file", &write);
    assert_eq!(fs::read(bench.at(name)).unwrap(), b"two");
    let stored = serde_json::to_string(&output).unwrap();
    assert_eq!(serde_json::from_str::<ToolOutput>(&stored).unwrap(), output);
    assert_eq!(bench.list().len(), 1);
}

#[test]
fn a_large_file_is_read_in_parts() {
    let mut bench = Workbench::new();
    let lines: Vec<String> = (1..=20_000).map(|number| format!("line {number}\n")).collect();
    bench.put("log", lines.concat());
    let mut read = String::new();
    let mut offset = 1;
    loop {
        let part = bench.ok("read_file", &json!({ "path": "log", "offset": offset }));
        let Some((text, note)) = part.rsplit_once("\n[lines ") else {
            read.push_str(&part);
            break;
        };
        assert!(note.contains("of 20000; the rest: offset="), "{note}");
        read.push_str(text);
        read.push('\n');
        offset = note.rsplit('=').next().unwrap().trim_end_matches(']').parse().unwrap();
    }
    assert_eq!(read, lines.concat());
}

#[test]
fn a_file_that_is_too_large_to_edit_can_still_be_read() {
    let mut bench = Workbench::new();
    let file = fs::File::create(bench.at("huge")).unwrap();
    (&file).write_all("line\n".repeat(100_000).as_bytes()).unwrap();
    // The rest of the file is a hole. It takes no space on the disk, and is not read.
    file.set_len(8 << 30).unwrap();
    let output = bench.call("read_file", &json!({ "path": "huge", "offset": 5, "limit": 2 }));
    assert_eq!(
        output.text,
        "line\nline\n[lines 5-6 of a file of 8589934592 bytes; the rest: offset=7; too large for \
         patch and write_file]"
    );
    assert!(output.known_files.is_empty());
    let write = json!({ "path": "huge", "content": "x" });
    assert!(bench.fail("write_file", &write).contains("larger than 64 MiB"));
    assert_eq!(fs::metadata(bench.at("huge")).unwrap().len(), 8 << 30);
}

/// Returns the temporary path to which the new content of a file is written before it is renamed
/// into place.
fn staged_path(path: &Path) -> PathBuf {
    let digest = Sha256::digest(path.as_os_str().as_bytes());
    let name = format!(".takeback-{}.tmp", &hex::encode(&digest)[..16]);
    path.with_file_name(name)
}

#[test]
fn files_that_a_killed_write_left_behind_are_removed() {
    let mut bench = Workbench::new();
    let staged = staged_path(&bench.at("a"));
    for (content, is_new) in [("one", true), ("two", false)] {
        fs::write(&staged, "half a fi").unwrap();
        let written = bench.ok("write_file", &json!({ "path": "a", "content": content }));
        assert_eq!(written.starts_with("created"), is_new);
        assert_eq!((bench.get("a").as_str(), bench.list().len()), (content, 1));
    }
}

#[test]
fn two_calls_do_not_write_the_same_file_at_the_same_time() {
    let mut bench = Workbench::new();
    let other = fs::File::create(staged_path(&bench.at("a"))).unwrap();
    other.lock().unwrap();
    let write = json!({ "path": "a", "content": "one" });
    assert_eq!(
        bench.fail("write_file", &write),
        "nothing was written: cannot write a: another call is writing to it"
    );
    drop(other);
    bench.ok("write_file", &write);
    assert_eq!(bench.list(), ["a"]);
}

#[test]
fn a_staged_name_that_is_a_link_is_not_followed() {
    let mut bench = Workbench::new();
    bench.put("victim", "mine");
    symlink("victim", staged_path(&bench.at("a"))).unwrap();
    bench.fail("write_file", &json!({ "path": "a", "content": "one" }));
    assert_eq!(bench.get("victim"), "mine");
}

/// A small file system in memory, unmounted at the end.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts a file system. Returns `None` if the current user is not allowed to.
    fn mount(path: &Path) -> Option<SmallDisk> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(path);
        mount.status().is_ok_and(|status| status.success()).then(|| SmallDisk(path.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_leaves_the_file_as_it_was() {
    let mut bench = Workbench::new();
    fs::create_dir(bench.at("small")).unwrap();
    let Some(_disk) = SmallDisk::mount(&bench.at("small")) else {
        let _ = writeln!(std::io::stderr(), "skipped: cannot mount: that needs root");
        return;
    };
    bench.ok("write_file", &json!({ "path": "small/a", "content": "one" }));
    let large = "x".repeat(100_000);
    for path in ["small/a", "small/b", "small/deep/c"] {
        let said = bench.fail("write_file", &json!({ "path": path, "content": large }));
        let expected = "No space left on device";
        assert!(said.starts_with("nothing was written") && said.ends_with(expected), "{said}");
    }
    assert_eq!((bench.get("small/a").as_str(), bench.list().len()), ("one", 1));
    assert!(!bench.at("small/deep").exists());
    bench.ok("write_file", &json!({ "path": "small/a", "content": "two" }));
}

#[test]
fn a_deleted_working_directory_is_an_error() {
    let mut bench = Workbench::new();
    fs::remove_dir(&bench.root).unwrap();
    for (tool, input) in [
        ("read_file", json!({ "path": "a" })),
        ("patch", json!({ "path": "a", "edits": [{ "old": "a", "new": "b" }] })),
        ("list_files", json!({})),
        ("search_files", json!({ "pattern": "x" })),
        ("terminal", json!({ "command": "ls" })),
    ] {
        let said = bench.fail(tool, &input);
        let is_clear = said.contains("no longer exists") || said.contains("does not exist");
        assert!(is_clear, "{tool}: {said}");
    }
}

#[test]
fn an_error_says_what_is_wrong_with_the_input() {
    let mut bench = Workbench::new();
    for (tool, input, expected) in [
        ("read_file", json!({}), "missing field `path`"),
        ("read_file", json!({ "path": "a", "line": 3 }), "unknown field `line`"),
        ("read_file", json!({ "path": 3 }), "expected a string"),
        ("read_file", json!("a"), "invalid input"),
        ("write_file", json!({ "path": "a" }), "missing field `content`"),
        ("patch", json!({ "path": "a", "edits": [{ "old": "x" }] }), "missing field `new`"),
        ("terminal", json!({ "cmd": "ls" }), "unknown field `cmd`"),
        ("todo", json!({ "items": [{ "text": "a", "status": "later" }] }), "unknown variant"),
    ] {
        let said = bench.fail(tool, &input);
        assert!(said.contains(expected), "{tool} {input}: {said}");
    }
    assert!(bench.list().is_empty());
}

#[test]
fn the_list_of_steps_is_shown() {
    let mut bench = Workbench::new();
    let items = json!([
        { "text": "a", "status": "done" },
        { "text": "b", "status": "in_progress" },
        { "text": "c", "status": "pending" },
    ]);
    assert_eq!(bench.ok("todo", &json!({ "items": items })), "[x] a\n[>] b\n[ ] c");
    assert_eq!(bench.ok("todo", &json!({ "items": [] })), "the list is empty");
}

#[test]
fn the_descriptions_of_all_tools_are_short() {
    let bench = Workbench::new();
    let specs = bench.tools.specs();
    let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "read_file",
            "write_file",
            "patch",
            "list_files",
            "search_files",
            "terminal",
            "process",
            "todo"
        ]
    );
    let size: usize = specs.iter().map(|spec| serde_json::to_string(spec).unwrap().len()).sum();
    assert!(size < 4000, "{size}");
}
