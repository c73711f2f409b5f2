//! Imports of files that are designed to exhaust memory, time or space, and imports that are
//! killed.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::json;

use crate::session::{Session, said};
use crate::sessions::write_file;

/// Runs `takeback` with at most 3 GB of memory. The time limit matters only if the test fails.
fn run_limited(session: &Session, arguments: &[&str]) -> Output {
    let script = r#"ulimit -v 3000000; exec "$@""#;
    let takeback = env!("CARGO_BIN_EXE_takeback");
    Command::new("sh")
        .args(["-c", script, "sh", takeback, "--end-after", "120"])
        .args(arguments)
        .current_dir(session.project())
        .env_clear()
        .env("HOME", session.base())
        .env("PATH", "/bin:/usr/bin")
        .output()
        .unwrap()
}

/// Returns the directory in which imports keep their copies.
fn copies(session: &Session) -> PathBuf {
    session.base().join(".takeback/import-copies")
}

#[test]
fn a_line_of_3_gb_is_refused_and_the_lines_before_it_are_imported() {
    let session = Session::new();
    let line =
        json!({ "id": "a", "source": "x", "messages": [{ "role": "user", "content": "hi" }] });
    let path = write_file(&session, "s.jsonl", &format!("{line}\n{{\"id\":\"b"));
    // This is a sparse file, which takes up no space.
    fs::File::options().write(true).open(&path).unwrap().set_len(3 << 30).unwrap();
    let output = run_limited(&session, &["sessions", "import", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    let path = path.display();
    assert_eq!(
        told,
        format!(
            "error: line 2 of {path} is longer than 512 MB\n\
             hint: 1 session before line 2 was imported; remove the line to import the rest\n"
        )
    );
    assert_eq!(session.json(&["sessions", "show", "a"])["messages"][0]["content"], "hi");
}

#[test]
fn lines_that_need_too_much_memory_or_are_nested_too_deeply_are_refused() {
    let session = Session::new();
    // Once parsed, this would take up gigabytes of memory.
    let wide = format!("{{\"id\":\"wide\",\"x\":[{}0]}}", "{\"\":0},".repeat(4_000_000));
    let deep = format!("{{\"id\":\"deep\",\"x\":{}", "[".repeat(1_000_000));
    let path = write_file(&session, "s.jsonl", &format!("{wide}\n{deep}\n"));
    let output = run_limited(&session, &["sessions", "import", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[0], "error: line 1: the session has more than 2000000 JSON values");
    assert!(
        lines[1].starts_with("error: line 2: not a session: recursion limit exceeded"),
        "{told}"
    );
    assert_eq!(lines.len(), 2);
}

#[test]
fn errors_in_very_many_lines_are_counted() {
    let session = Session::new();
    let path = write_file(&session, "s.jsonl", &"x\n".repeat(1_000));
    let output = run_limited(&session, &["sessions", "import", path.to_str().unwrap()]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(told.lines().count(), 101);
    assert!(told.ends_with("error: 900 more lines could not be imported\n"), "{told}");
    let output = session.output(&["--json", "sessions", "import", path.to_str().unwrap()]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((report["bad"].as_array().unwrap().len(), &report["more_bad"]), (100, &json!(900)));
}

#[test]
fn a_message_of_50_mb_is_imported() {
    let session = Session::new();
    let line = json!({ "id": "a", "source": "x",
        "messages": [{ "role": "user", "content": "0".repeat(50 << 20) }] });
    let path = write_file(&session, "s.jsonl", &line.to_string());
    let output = run_limited(&session, &["sessions", "import", path.to_str().unwrap()]);
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(told, "Read 1 session, 1 of them new. Added 1 message.\n");
}

/// Writes a Hermes repository, as git would. Its working directory does not exist.
fn write_repository(directory: &Path) {
    let run = |arguments: &[&str], input: &str| {
        let mut git = Command::new("git")
            .arg("--git-dir")
            .arg(directory)
            .args(arguments)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_NAME"), "a")))
            .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_EMAIL"), "a@b")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        git.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = git.wait_with_output().unwrap();
        assert!(output.status.success(), "{arguments:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    fs::create_dir_all(directory).unwrap();
    run(&["init", "-q", "--bare", "-b", "main"], "");
    let file = run(&["hash-object", "-w", "--stdin"], "content");
    let tree = run(&["mktree"], &format!("100644 blob {file}\ta\n"));
    let commit = run(&["commit-tree", "-m", "x", &tree], "");
    run(&["update-ref", "refs/heads/main", &commit], "");
    run(&["pack-refs", "--all"], "");
    fs::write(directory.join("HERMES_WORKDIR"), "/gone/project\n").unwrap();
}

#[test]
fn pipes_and_devices_in_a_foreign_repository_are_not_read() {
    for name in [
        "HEAD",
        "config",
        "packed-refs",
        "refs/heads/other",
        "info/exclude",
        "HERMES_WORKDIR",
        "objects/info/alternates",
        "objects/pack/pack-1.idx",
        "objects/pack/multi-pack-index",
    ] {
        for target in ["pipe", "/dev/zero"] {
            let session = Session::new();
            let repository = session.base().join("checkpoints/0123456789abcdef");
            write_repository(&repository);
            let path = repository.join(name);
            let _ = fs::remove_file(&path);
            match target {
                "pipe" => assert!(Command::new("mkfifo").arg(&path).status().unwrap().success()),
                _ => symlink(target, &path).unwrap(),
            }
            let output = run_limited(&session, &["checkpoints", "import", "../checkpoints"]);
            let told = said(&output);
            // The import does not need the files in `pack/`, because the repository has only loose
            // objects.
            if name.contains("pack/") {
                assert_eq!(output.status.code(), Some(0), "{name} {target}: {told}");
                continue;
            }
            assert_eq!(output.status.code(), Some(1), "{name} {target}: {told}");
            assert!(told.contains(&format!("{name}: it is not a regular file")), "{told}");
            let store = session.base().join(".takeback/checkpoints/store");
            for directory in ["tmp", "objects/pack", "workspaces"] {
                let left = fs::read_dir(store.join(directory)).unwrap();
                assert_eq!(left.count(), 0, "{name} {target}: {directory}");
            }
        }
    }
}

/// Writes a Hermes database with one session.
fn write_database(session: &Session) -> PathBuf {
    let path = session.base().join("state.db");
    let sql = "CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT);
        CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT);
        INSERT INTO sessions VALUES ('a', 'x');
        INSERT INTO messages VALUES (1, 'a', 'user', 'hello there');";
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    path
}

#[test]
fn a_database_with_an_endless_view_is_refused_and_leaves_nothing_behind() {
    let session = Session::new();
    let path = write_database(&session);
    let view = "DROP TABLE messages; CREATE VIEW messages (rowid, session_id, role) AS
        WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x, x, x FROM c;";
    Connection::open(&path).unwrap().execute_batch(view).unwrap();
    let import = ["sessions", "import", "--from", "hermes", path.to_str().unwrap()];
    let output = run_limited(&session, &import);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        format!(
            "error: cannot read the Hermes database {}: `messages` is a view, not a table\n\
             hint: nothing was imported; check where the file comes from\n",
            path.display()
        )
    );
    assert!(!copies(&session).exists());
    assert_eq!(session.json(&["sessions"])["sessions"], json!([]));
}

/// Starts an import, and returns once the import has made its copy. The import then waits, because
/// `ledger` holds a lock.
fn start_import(session: &Session, path: &Path, ledger: &Connection) -> Child {
    ledger.execute_batch("BEGIN IMMEDIATE").unwrap();
    let import = session.start(&["sessions", "import", "--from", "hermes", path.to_str().unwrap()]);
    let end = Instant::now() + Duration::from_secs(60);
    let has_copy = || {
        let made = fs::read_dir(copies(session)).into_iter().flatten().flatten();
        made.into_iter().any(|copy| {
            let copy = fs::metadata(copy.path().join("state.db"));
            copy.is_ok_and(|copy| copy.len() == fs::metadata(path).unwrap().len())
        })
    };
    while !has_copy() {
        assert!(Instant::now() < end, "no copy was made");
        std::thread::yield_now();
    }
    import
}

/// Creates the ledger and opens it.
fn open_ledger(session: &Session) -> Connection {
    let path = write_file(session, "other.jsonl", &json!({ "id": "b", "source": "x" }).to_string());
    let output = session.output(&["sessions", "import", path.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    Connection::open(session.base().join(".takeback/state.db")).unwrap()
}

#[test]
fn the_next_command_removes_the_copy_of_a_killed_import() {
    for next in [&["status"][..], &["list"], &["sessions"]] {
        let session = Session::new();
        let (path, ledger) = (write_database(&session), open_ledger(&session));
        let mut import = start_import(&session, &path, &ledger);
        import.kill().unwrap();
        import.wait().unwrap();
        assert!(copies(&session).exists());
        ledger.execute_batch("ROLLBACK").unwrap();
        session.output(next);
        assert!(!copies(&session).exists(), "{next:?}");
    }
}

#[test]
fn the_copy_of_a_running_import_is_not_removed() {
    let session = Session::new();
    let (path, ledger) = (write_database(&session), open_ledger(&session));
    let mut import = start_import(&session, &path, &ledger);
    session.output(&["list"]);
    assert!(copies(&session).exists());
    ledger.execute_batch("ROLLBACK").unwrap();
    assert!(import.wait().unwrap().success());
    assert!(!copies(&session).exists());
    assert_eq!(session.json(&["sessions", "show", "a"])["messages"][0]["content"], "hello there");
}
