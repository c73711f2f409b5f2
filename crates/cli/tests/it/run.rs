//! `takeback run`, `takeback explain` and `takeback config`.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::agent::{configure, eventually, hook_with, rows};
use crate::session::Session;

fn run(session: &Session, script: &str) -> Option<i32> {
    session.output(&["run", "--", "/bin/sh", "-c", script]).status.code()
}

#[test]
fn the_changes_of_a_command_between_two_checkpoints_can_be_taken_back() {
    let mut session = Session::new();
    session.write("a", "1\n");
    session.write("mine", "1\n");
    session.takeback(&["run", "/bin/sh", "-c", "echo out; echo err >&2; echo 2 > a; echo > new"]);
    session.write("mine", "2\n");
    session.takeback(&["rollback"]);
    session.takeback(&["undo"]);
    session.assert(
        "
$ takeback run /bin/sh -c echo out; echo err >&2; echo 2 > a; echo > new
out
! err
$ takeback rollback
Checkpoints for ~/project
  ●  1  <id>  <age>  run  “echo out; echo err >&2; echo 2 > a; echo > new”  2 files +2 −1  before run: echo out; echo err >&2; echo 2 > a; ech…

● now
takeback rollback 1  return files and conversation to the state before a row
takeback diff 1      show what changed since then
takeback undo        take back only the last turn, and keep your edits
$ takeback undo
Restored:
  a
Deleted:
  new
Conversation: 1 turn (1 message) taken back.
The prompt was:
  echo out; echo err >&2; echo 2 > a; echo > new
Restored 1 file and deleted 1. `takeback rollback undo` takes this back.
",
    );
    assert_eq!((session.read("a"), session.read("mine")), ("1\n".into(), "2\n".into()));
}

#[test]
fn the_exit_code_is_that_of_the_command() {
    let session = Session::new();
    for code in [0, 1, 3, 255] {
        assert_eq!(run(&session, &format!("exit {code}")), Some(code));
    }
    assert_eq!(run(&session, "kill -9 $$"), Some(137));
    assert_eq!(run(&session, "kill -TERM $$"), Some(143));
    let missing = session.output(&["run", "--", "/nonexistent/program", "x"]);
    assert_eq!(missing.status.code(), Some(127));
    let seen = String::from_utf8(missing.stderr).unwrap();
    assert!(seen.contains("cannot run /nonexistent/program"), "{seen}");
}

#[test]
fn options_after_the_command_belong_to_the_command() {
    let session = Session::new();
    let output = session.output(&["run", "/bin/echo", "--json", "-v", "--", "x"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "--json -v -- x\n");
}

#[test]
fn a_command_that_only_reads_also_adds_a_row() {
    let session = Session::new();
    session.output(&["run", "/bin/ls"]);
    let rows = rows(&session);
    assert_eq!((rows.len(), &rows[0]["agent"]), (1, &json!("run")));
}

/// Ctrl-C at a terminal reaches both takeback and the command. The changes are captured after the
/// command has ended.
#[test]
fn a_signal_ends_the_command_and_its_changes_are_captured() {
    let session = Session::new();
    session.write("a", "1");
    let script =
        "trap 'echo interrupted > a; exit 7' INT; echo > ready; while :; do sleep 0.05; done";
    let mut child = Command::new(env!("CARGO_BIN_EXE_takeback"))
        .args(["run", "--", "/bin/sh", "-c", script])
        .current_dir(session.project())
        .env_clear()
        .env("HOME", session.base())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group()
        .spawn()
        .unwrap();
    eventually("the command runs", || session.project().join("ready").exists());
    let group = format!("-{}", child.id());
    assert!(Command::new("kill").args(["-INT", "--", &group]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(7));
    assert_eq!(session.read("a"), "interrupted\n");
    session.output(&["undo"]);
    assert_eq!(session.read("a"), "1");
    assert!(!session.project().join("ready").exists());
}

/// Supervisors, and `timeout 10 takeback run …`, send the signal only to the process that they
/// started, not to its children.
#[test]
fn a_signal_to_takeback_reaches_the_command() {
    let session = Session::new();
    let script = "trap 'echo ended > a; exit 5' TERM; echo > ready; while :; do sleep 0.05; done";
    let mut child = Command::new(env!("CARGO_BIN_EXE_takeback"))
        .args(["run", "--", "/bin/sh", "-c", script])
        .current_dir(session.project())
        .env_clear()
        .env("HOME", session.base())
        .process_group()
        .spawn()
        .unwrap();
    eventually("the command runs", || session.project().join("ready").exists());
    let kill = |signal: &str, id: String| {
        Command::new("kill").args([signal, "--", &id]).status().unwrap();
    };
    kill("-TERM", child.id().to_string());
    let ended = (0..150).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        child.try_wait().unwrap().is_some()
    });
    kill("-KILL", format!("-{}", child.id()));
    assert!(ended, "the command is still running");
    assert_eq!(child.wait().unwrap().code(), Some(5));
    assert_eq!(session.read("a"), "ended\n");
}

#[test]
fn the_command_gets_its_input_and_its_directory() {
    let session = Session::new();
    session.write("Makefile", "");
    session.write("src/a", "1");
    let output = hook_with(&session.base(), &["run", "--", "/bin/cat"], b"through", &[]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "through");
    session.output(&["-C", "src", "run", "--", "/bin/sh", "-c", "echo 2 > a"]);
    assert_eq!(session.read("src/a"), "2\n");
    assert_eq!(rows(&session).len(), 2);
    session.output(&["undo"]);
    assert_eq!(session.read("src/a"), "1");
}

trait OwnGroup {
    fn process_group(&mut self) -> &mut Self;
}

impl OwnGroup for Command {
    fn process_group(&mut self) -> &mut Command {
        std::os::unix::process::CommandExt::process_group(self, 0)
    }
}

#[test]
fn the_effects_of_the_command_are_recorded() {
    let session = Session::new();
    session.write("a", "1");
    session.output(&["checkpoint"]);
    session.write("a", "2");
    // Neither command succeeds here, but an attempt is enough to be recorded as an effect.
    run(&session, "psql -c 'drop table x' 2>/dev/null; git push 2>/dev/null");
    let effects = session.json(&["rollback", "2", "--dry-run"])["effects"].clone();
    let kinds: Vec<_> = effects.as_array().unwrap().iter().map(|effect| &effect["kind"]).collect();
    assert_eq!(kinds, ["database", "publish"]);
}

#[test]
fn the_command_is_not_run_if_no_checkpoint_can_be_taken() {
    let mut session = Session::new();
    configure(&session, "[checkpoints]\nmax_files = 1\n");
    session.write("a", "1");
    session.write("b", "1");
    session.takeback(&["run", "/bin/rm", "a"]);
    session.assert(
        "
$ takeback run /bin/rm a
! error: no checkpoint could be taken; the command was not run
!   because: ~/project: the workspace has more than 1 files to capture
! hint: fix the problem, or run the command without takeback
[exit Some(1)]
",
    );
    assert_eq!(session.read("a"), "1");
    let home = Session::new();
    fs::write(home.base().join(".takeback"), "in the way").unwrap();
    home.write("a", "1");
    assert_eq!(home.output(&["run", "/bin/rm", "a"]).status.code(), Some(1));
    assert_eq!(home.read("a"), "1");
}

#[test]
fn explain_has_the_documented_shape() {
    let session = Session::new();
    assert_eq!(
        session.json(&["explain", "psql -c 'drop table x' > ../out"]),
        json!({
            "mutates": true,
            "because": "`> ../out` writes a file",
            "effects": [{ "kind": "database", "command": "psql -c 'drop table x' > ../out" }],
            "paths": [session.base().join("out")],
            "outside": [session.base().join("out")],
            "sweeps": [],
            "unknown": [],
            "history": [],
            "bounded": false,
        })
    );
    let harmless = session.json(&["explain", "git status 2>&1 | head"]);
    assert_eq!(harmless["mutates"], false);
    assert_eq!((&harmless["effects"], &harmless["outside"]), (&json!([]), &json!([])));
    assert!(!harmless["because"].as_str().unwrap().is_empty());
    assert_eq!(
        session.json(&["explain", "if ("])["mutates"],
        true,
        "an invalid command counts as mutating"
    );
    assert!(!session.base().join(".takeback").exists(), "explaining creates nothing");
}

fn setting<'v>(config: &'v Value, key: &str) -> &'v Value {
    let settings = config["settings"].as_array().unwrap();
    settings.iter().find(|setting| setting["key"] == key).unwrap()
}

#[test]
fn config_says_where_each_value_comes_from() {
    let session = Session::new();
    let config = session.json(&["config"]);
    for (key, value) in [
        ("enabled", json!(true)),
        ("granularity", json!("step")),
        ("max_snapshots", json!(50)),
        ("max_total_size_mb", json!(2048)),
        ("max_file_size_mb", json!(10)),
        ("max_guarded_kb", json!(1024)),
        ("max_named_mb", json!(512)),
        ("max_files", json!(200_000)),
        ("timeout_ms", json!(3000)),
        ("exclude", json!([])),
        ("include", json!([])),
        ("auto_prune", json!(true)),
        ("retention_days", json!(30)),
        ("delete_orphans", json!(true)),
        ("min_interval_hours", json!(24)),
    ] {
        let setting = setting(&config, &format!("checkpoints.{key}"));
        assert_eq!((&setting["value"], &setting["source"]), (&value, &json!("default")), "{key}");
    }
    configure(
        &session,
        "# mine\n[checkpoints]\n\nmax_snapshots = 7\nexclude = [\n  \"*.iso\",\n]\ngranularity = \"turn\"\n",
    );
    let config = session.json(&["config"]);
    assert_eq!(config["file"], json!(session.base().join(".takeback/config.toml")));
    for (key, line) in [("max_snapshots", 4), ("exclude", 5), ("granularity", 8)] {
        let source = &setting(&config, &format!("checkpoints.{key}"))["source"];
        assert_eq!(*source, format!("config.toml, line {line}"));
    }
    let off =
        hook_with(&session.base(), &["config", "--json"], b"", &[("TAKEBACK_CHECKPOINTS", "0")]);
    let off: Value = serde_json::from_slice(&off.stdout).unwrap();
    assert_eq!(setting(&off, "checkpoints.enabled")["value"], false);
}

#[test]
fn errors_in_the_configuration_name_the_line() {
    let mut session = Session::new();
    for text in [
        "[checkpoints]\nenabled = true\nunknown = 1\n",
        "[checkpoints]\n\nmax_files = \"many\"\n",
        "[checkpoints]\ngranularity = \"call\"\n",
        "[checkpoints]\nretention_days = -1\n",
        "[wrong]\n",
        "[checkpoints]\nenabled = \n",
    ] {
        configure(&session, text);
        session.takeback(&["config"]);
    }
    let output = session.output(&["checkpoint"]);
    assert_eq!(output.status.code(), Some(1), "a checkpoint needs a valid configuration");
    session.assert(
        "
$ takeback config
! error: ~/.takeback/config.toml, line 3: unknown field `unknown`, expected one of `enabled`, `granularity`, `max_snapshots`, `max_total_size_mb`, `max_file_size_mb`, `max_guarded_kb`, `max_named_mb`, `max_files`, `timeout_ms`, `strict`, `exclude`, `include`, `private`, `auto_prune`, `retention_days`, `delete_orphans`, `min_interval_hours`
! hint: fix the file, or remove it to use the defaults
[exit Some(1)]
$ takeback config
! error: ~/.takeback/config.toml, line 3: invalid type: string \"many\", expected u64
! hint: `max_files` is a whole number: in a workspace with more files, only the paths that calls name are captured
[exit Some(1)]
$ takeback config
! error: ~/.takeback/config.toml, line 2: unknown variant `call`, expected `step` or `turn`
! hint: `granularity` is step or turn: a checkpoint before each mutating call, or only before the first one of a turn
[exit Some(1)]
$ takeback config
! error: ~/.takeback/config.toml, line 2: invalid value: integer `-1`, expected u64
! hint: `retention_days` is a whole number: the time for which an unused workspace keeps its history
[exit Some(1)]
$ takeback config
! error: ~/.takeback/config.toml, line 1: unknown field `wrong`, expected one of `checkpoints`, `ledger`, `protection`, `fleet`, `chat`, `prices`, `providers`
! hint: fix the file, or remove it to use the defaults
[exit Some(1)]
$ takeback config
! error: ~/.takeback/config.toml, line 2: string values must be quoted, expected literal string
! hint: fix the file, or remove it to use the defaults
[exit Some(1)]
",
    );
}

#[test]
fn closing_the_terminal_ends_the_command() {
    let session = Session::new();
    let script = "trap 'echo ended > a; exit 5' HUP; echo > ready; while :; do sleep 0.05; done";
    let mut child = session.start(&["run", "--", "/bin/sh", "-c", script]);
    eventually("the command runs", || session.project().join("ready").exists());
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
    eventually("it ended", || child.try_wait().unwrap().is_some());
    assert_eq!((child.wait().unwrap().code(), session.read("a")), (Some(5), "ended\n".into()));
    session.json(&["undo"]);
    assert!(!session.project().join("a").exists());
}

#[test]
fn a_command_that_cannot_be_run_leaves_no_call_open() {
    let session = Session::new();
    session.write("plain", "no program");
    for (command, code) in [("no-such-program", 127), ("./plain", 126)] {
        assert_eq!(session.output(&["run", command]).status.code(), Some(code), "{command}");
    }
    let open = fs::read_dir(session.workspace_directory().join("notes/open"));
    assert_eq!(open.map_or(0, Iterator::count), 0);
}
