//! At a real terminal: the user sees what is about to happen and is asked for confirmation; rows
//! fit the width; long output goes to a pager.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use unicode_width::UnicodeWidthStr;

use crate::agent::{Agent, eventually, rows};
use crate::pseudo_terminal::PseudoTerminal;
use crate::session::{Session, tell_skipped};

/// Types an answer at a terminal that the program `script` creates. Returns `None` if that program
/// is not installed.
fn typed(session: &Session, arguments: &str, answer: &str) -> Option<(String, Option<i32>)> {
    let program = env!("CARGO_BIN_EXE_takeback");
    let child = Command::new("script")
        .args(["-qec", &format!("{program} {arguments}"), "/dev/null"])
        .current_dir(session.project())
        .env("HOME", session.base())
        .env("TZ", "UTC")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        tell_skipped("the program `script` is not installed");
        return None;
    };
    child.stdin.take().unwrap().write_all(answer.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    Some((String::from_utf8_lossy(&output.stdout).replace('\r', ""), output.status.code()))
}

fn worked() -> Session {
    let session = Session::new();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("one");
    agent.writes("a", "2");
    agent.pretends("git push");
    agent.is_done();
    session
}

#[test]
fn a_rollback_shows_its_plan_and_asks() {
    let session = worked();
    let Some((seen, code)) = typed(&session, "rollback 1", "n\n") else { return };
    assert_eq!((session.read("a"), code), ("2".into(), Some(0)), "{seen}");
    for part in [
        "Will restore 1 file.\nWill restore:\n  a\n",
        "cannot be reversed:\n  publish: git push\n",
        "Continue? [y]es  [k]eep my edits (undo)  [d]iff  [f]iles…  [N]o",
        "Nothing changed.\n",
    ] {
        assert!(seen.contains(part), "{part:?} in {seen}");
    }
    assert!(seen.contains("Conversation: 1 turn (1 message) will be taken back."), "{seen}");
    let (seen, code) = typed(&session, "rollback 1", "y\n").unwrap();
    assert_eq!((session.read("a"), code), ("1".into(), Some(0)), "{seen}");
    let result = "\nRestored 1 file. `takeback rollback undo` takes this back.\n";
    assert!(seen.ends_with(result), "{seen}");
    // The result does not repeat the plan.
    assert!(!seen.contains("Restored:"), "{seen}");
    assert_eq!(seen.matches("publish: git push").count(), 1, "{seen}");
}

#[test]
fn the_user_can_see_the_diff_and_choose_files_before_agreeing() {
    let session = worked();
    session.write("b", "new");
    let Some((seen, code)) = typed(&session, "rollback 1", "d\nf\nb\ny\n") else { return };
    assert_eq!(code, Some(0), "{seen}");
    assert!(seen.contains("@@ -1 +1 @@"), "{seen}");
    assert!(seen.contains("Will restore 1 file and delete 1."), "{seen}");
    assert!(
        seen.contains("Will delete 1 file. It has been edited since.\nWill delete:\n  b\n"),
        "{seen}"
    );
    assert_eq!((session.read("a"), session.exists("b")), ("2".into(), false), "{seen}");
}

#[test]
fn the_question_offers_to_keep_the_users_edits() {
    let session = worked();
    session.write("mine", "1");
    let Some((seen, code)) = typed(&session, "rollback 1", "k\ny\n") else { return };
    assert_eq!((session.read("a"), code), ("1".into(), Some(0)), "{seen}");
    assert_eq!(session.read("mine"), "1", "{seen}");
    assert!(seen.contains("Continue? [y]es  [N]o"), "{seen}");
}

/// An undo of only row 2 would keep the changes of the turn in row 1.
#[test]
fn keeping_edits_is_offered_only_for_the_last_turn() {
    let session = worked();
    Agent::new(&session, "s1").turn("two", "a", "3");
    let Some((seen, _)) = typed(&session, "rollback 2", "k\n") else { return };
    assert!(seen.contains("Continue? [y]es  [d]iff  [f]iles…  [N]o"), "{seen}");
    assert_eq!(session.read("a"), "3", "{seen}");
}

#[test]
fn a_rollback_offers_to_skip_what_is_in_the_way() {
    let session = worked();
    session.write("thing", "1");
    session.output(&["checkpoint"]);
    fs::remove_file(session.project().join("thing")).unwrap();
    session.write("thing/.git/HEAD", "x");
    session.write("a", "3");
    let question = "Skip the paths that cannot be restored, and restore the rest? [y/N]";
    let Some((seen, code)) = typed(&session, "rollback 1", "n\n") else { return };
    assert_eq!((session.read("a"), code), ("3".into(), Some(0)), "{seen}");
    assert!(seen.contains(question), "{seen}");
    let (seen, code) = typed(&session, "rollback 1", "y\n").unwrap();
    assert_eq!((session.read("a"), code), ("2".into(), Some(0)), "{seen}");
    assert!(seen.contains("Skipped, not changed:\n  thing/.git"), "{seen}");
}

#[test]
fn an_undo_shows_its_plan_and_asks() {
    let session = worked();
    let Some((seen, code)) = typed(&session, "undo", "\n") else { return };
    assert_eq!((session.read("a"), code), ("2".into(), Some(0)), "{seen}");
    assert!(seen.contains("Will restore:\n  a\n"), "{seen}");
    let (seen, code) = typed(&session, "undo --yes", "").unwrap();
    assert_eq!((session.read("a"), code), ("1".into(), Some(0)), "{seen}");
    assert!(!seen.contains("Continue?"), "{seen}");
}

#[test]
fn an_undo_asks_about_each_uncertain_file() {
    let session = Session::new();
    let mut agent = Agent::new(&session, "s1");
    for (tool, input) in [
        ("mcp__make__generate", json!({ "path": "a" })),
        ("Bash", json!({ "command": "echo 2 > a" })),
    ] {
        for name in ["a", "b", "c"] {
            session.write(name, "1");
        }
        agent.hears("generate");
        let call = agent.begins(tool, input);
        for name in ["a", "b", "c"] {
            session.write(name, "2");
        }
        agent.finishes(&call);
        agent.is_done();
        let Some((seen, code)) = typed(&session, "undo", "y\nn\ny\n") else { return };
        assert_eq!(code, Some(0), "{seen}");
        assert!(
            seen.contains("b (the call names other files): also take this change back"),
            "{seen}"
        );
        let contents = ["a", "b", "c"].map(|name| session.read(name));
        assert_eq!(contents, ["1", "1", "2"], "{tool}: {seen}");
    }
}

#[test]
fn clearing_asks_for_confirmation() {
    let session = worked();
    let Some((seen, code)) = typed(&session, "checkpoints clear", "n\n") else { return };
    assert_eq!((rows(&session).len(), code), (1, Some(0)), "{seen}");
    assert!(seen.contains("This cannot be undone."), "{seen}");
    let (seen, code) = typed(&session, "checkpoints clear", "y\n").unwrap();
    assert_eq!((rows(&session).len(), code), (0, Some(0)), "{seen}");
}

/// An agent continues to work while the user is thinking, so the plan is outdated.
#[test]
fn changes_that_are_made_while_the_user_is_thinking_are_not_overwritten() {
    let session = worked();
    let program = env!("CARGO_BIN_EXE_takeback");
    let Ok(mut child) = Command::new("script")
        .args(["-qec", &format!("{program} rollback 1"), "/dev/null"])
        .current_dir(session.project())
        .env("HOME", session.base())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
    else {
        tell_skipped("the program `script` is not installed");
        return;
    };
    let mut seen = Vec::new();
    let mut byte = [0];
    let mut stdout = child.stdout.take().unwrap();
    while !seen.ends_with(b"[N]o ") {
        std::io::Read::read_exact(&mut stdout, &mut byte).unwrap();
        seen.push(byte[0]);
    }
    let mut agent = Agent::new(&session, "s2");
    agent.turn("meanwhile", "new", "1");
    child.stdin.take().unwrap().write_all(b"y\n").unwrap();
    std::io::Read::read_to_end(&mut stdout, &mut seen).unwrap();
    let seen = String::from_utf8_lossy(&seen);
    assert_eq!(child.wait().unwrap().code(), Some(1), "{seen}");
    assert!(
        seen.contains("the workspace has changed in the meantime; nothing was restored"),
        "{seen}"
    );
    assert_eq!((session.read("a"), session.read("new")), ("2".into(), "1".into()));
}

#[test]
fn ctrl_c_at_a_question_changes_nothing() {
    let session = worked();
    let command = session.command(&["rollback", "1", "--color", "never"]);
    let Some(mut terminal) = PseudoTerminal::start(&command, 80, 30) else { return };
    let screen = terminal.wait_for("[N]o");
    assert!(screen.contains("Will restore:\n  a\n"), "{screen}");
    terminal.press("\u{3}");
    let (status, screen, _) = terminal.wait_for_end();
    assert!(!status.success(), "{screen}");
    assert_eq!(session.read("a"), "2");
    let mut terminal = PseudoTerminal::start(&command, 80, 30).unwrap();
    terminal.wait_for("[N]o");
    terminal.press("y\r");
    assert!(terminal.wait_for_end().0.success());
    assert_eq!(session.read("a"), "1");
}

/// A terminal of a given size, and the environment variables for the programs in it.
struct Terminal<'t> {
    columns: usize,
    rows: usize,
    variables: &'t [(&'t str, &'t str)],
}

impl Terminal<'_> {
    /// Starts takeback in the terminal. Returns `None` if `script` is not installed.
    fn start(&self, session: &Session, arguments: &str) -> Option<Child> {
        let (columns, rows) = (self.columns, self.rows);
        let program = env!("CARGO_BIN_EXE_takeback");
        let line = format!("stty cols {columns} rows {rows}; exec {program} {arguments}");
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).current_dir(session.project()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap());
        command.env("HOME", session.base()).env("TZ", "UTC").env("TERM", "xterm");
        command.envs(self.variables.iter().copied());
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        if child.is_err() {
            tell_skipped("the program `script` is not installed");
        }
        child.ok()
    }

    /// Types an answer and returns what the terminal shows, or `None` if `script` is not installed.
    fn show(&self, session: &Session, arguments: &str, answer: &str) -> Option<String> {
        let mut child = self.start(session, arguments)?;
        child.stdin.take().unwrap().write_all(answer.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let seen = String::from_utf8_lossy(&output.stdout).replace('\r', "");
        assert!(output.status.success(), "{seen}");
        Some(seen)
    }
}

/// Creates a pager from a shell script, and returns its path.
fn make_pager(session: &Session, script: &str) -> String {
    let path = session.base().join("pager");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

fn paged(session: &Session) -> Option<String> {
    fs::read_to_string(session.base().join("paged")).ok()
}

const COPY: &str = "cat > \"$HOME/paged\"; echo the pager is gone";

/// The number of lines in the list of [`with_long_list`]: a title, twelve rows, and five lines at
/// its foot.
const LONG_LIST: usize = 18;

/// Creates a project with more checkpoints than fit on a small screen.
fn with_long_list() -> Session {
    let session = Session::new();
    for number in 0..12 {
        session.write("a", &number.to_string());
        let output = session.output(&["checkpoint", "--reason", &format!("reason {number}")]);
        assert!(output.status.success());
    }
    session
}

#[test]
fn a_row_is_never_wider_than_the_terminal() {
    let session = Session::new();
    session.write("dist/x", "");
    for (name, prompt) in [
        ("s1", "カートのテストを書いて、それから設定の名前を変えてください"),
        (
            "s2",
            "add tests 👨\u{200d}👩\u{200d}👧 for e\u{301}ve\u{301}ry corner of the cart, please",
        ),
        ("s3", "push"),
    ] {
        let mut agent = Agent::new(&session, name);
        agent.hears(prompt);
        agent.writes(&format!("{name}/理由の長いファイル名.py"), "1");
        agent.pretends("git push origin main");
        agent.is_done();
    }
    for columns in [24, 40, 64, 80, 100, 160] {
        let terminal = Terminal { columns, rows: 50, variables: &[("NO_COLOR", "1")] };
        let Some(seen) = terminal.show(&session, "rollback --steps", "") else { return };
        // The title is not a row.
        for line in seen.lines().skip(1) {
            assert!(line.width() <= columns, "{columns}: {line}");
        }
    }
    let terminal = Terminal { columns: 80, rows: 50, variables: &[("NO_COLOR", "1")] };
    let seen = terminal.show(&session, "rollback", "").unwrap();
    // If a row is too long, other text is left out before the prompt is shortened.
    assert!(seen.contains("corner of the cart, please”  ⚠ publish"), "{seen}");
    assert!(!seen.contains("before Write"), "{seen}");
}

#[test]
fn a_turn_that_was_taken_back_is_struck_through_and_marked() {
    let session = worked();
    session.output(&["rollback", "1", "--yes"]);
    let terminal = Terminal { columns: 100, rows: 50, variables: &[] };
    let Some(seen) = terminal.show(&session, "list", "") else { return };
    assert!(seen.contains("\u{1b}[9m“one”"), "{seen}");
    let plain = String::from_utf8(session.output(&["list"]).stdout).unwrap();
    assert!(plain.contains("  ×  1  ") && plain.contains("\n× taken back\n"), "{plain}");
    session.output(&["redo"]);
    session.output(&["rollback", "undo"]);
    let plain = String::from_utf8(session.output(&["list"]).stdout).unwrap();
    assert!(plain.contains("  ●  1  ") && plain.contains("\n● now\n"), "{plain}");
}

#[test]
fn inside_an_agent_the_list_has_ten_rows() {
    let session = with_long_list();
    let seen = String::from_utf8(session.output(&["slash", "rollback"]).stdout).unwrap();
    assert_eq!(seen.matches("reason ").count(), 10, "{seen}");
    assert!(seen.contains("  … and 2 more (`takeback list` in a terminal shows all)\n"), "{seen}");
    assert!(seen.contains("\n/rollback 1 "), "{seen}");
}

#[test]
fn a_plan_with_many_files_shows_ten_of_them_and_the_number_of_the_others() {
    let session = worked();
    (0..331).for_each(|number| session.write(&format!("many/{number}"), "1"));
    let seen = session.output(&["rollback", "1", "--dry-run"]).stdout;
    let seen = String::from_utf8(seen).unwrap();
    assert!(seen.starts_with("Would restore 1 file and delete 331."), "{seen}");
    assert!(seen.contains("  … and 321 more (-v shows all)\n"), "{seen}");
    assert_eq!(seen.matches("  many/").count(), 19, "in two sections, with one directory: {seen}");
}

#[test]
fn rows_of_sessions_and_workspaces_fit_the_terminal() {
    let session = Session::new();
    fs::create_dir(session.base().join(".claude")).unwrap();
    for (name, prompt) in [
        ("s1", "カートのテストを書いて、それから設定の名前を変えてください"),
        ("s2", "add tests for every corner of the cart, and then rename the settings, please"),
    ] {
        let mut agent = Agent::new(&session, name);
        agent.turn(prompt, name, "1");
    }
    let title = "カートのテストを書いて、それから設定の名前を変える";
    session.json(&["sessions", "title", "mine:s1", title]);
    session.json(&["sessions", "fork", "mine:s1", "--at", "1"]);
    for columns in [32, 40, 64, 80, 160] {
        let terminal = Terminal { columns, rows: 50, variables: &[("NO_COLOR", "1")] };
        let commands = [
            ("sessions list", 3),
            ("sessions tree mine:s1", 2),
            ("sessions stats --by workspace", 2),
            ("checkpoints", 1),
            ("install", 1),
        ];
        for (arguments, rows) in commands {
            let Some(seen) = terminal.show(&session, arguments, "") else { return };
            let is_row = |line: &&str| arguments.starts_with("sessions") || line.starts_with("  ");
            let lines: Vec<&str> = seen.lines().filter(is_row).collect();
            assert_eq!(lines.len(), rows, "{arguments}: {seen}");
            for line in lines {
                assert!(line.width() <= columns, "{arguments}, {columns}: {line}");
            }
        }
    }
    let wide = Terminal { columns: 160, rows: 50, variables: &[("NO_COLOR", "1")] };
    let seen = wide.show(&session, "sessions list", "").unwrap();
    assert!(
        seen.contains(title) && seen.contains("“add tests for every corner of the cart"),
        "{seen}"
    );
}

#[test]
fn only_output_longer_than_the_screen_goes_into_a_pager() {
    let session = with_long_list();
    let pager = make_pager(&session, COPY);
    let variables = [("PAGER", "false"), ("TAKEBACK_PAGER", pager.as_str())];
    let terminal = Terminal { columns: 100, rows: 10, variables: &variables };
    for arguments in ["rollback --no-pager", "rollback --json", "rollback diff 1"] {
        let Some(seen) = terminal.show(&session, arguments, "") else { return };
        assert_eq!((paged(&session), seen.contains("the pager")), (None, false), "{seen}");
    }
    let dumb = Terminal { variables: &[variables[1], ("TERM", "dumb")], ..terminal };
    dumb.show(&session, "rollback", "").unwrap();
    session.output(&["rollback"]);
    assert_eq!(paged(&session), None);
    let seen = terminal.show(&session, "rollback", "").unwrap();
    assert_eq!(seen, "the pager is gone\n");
    let lines = paged(&session).unwrap();
    assert_eq!(lines.lines().count(), LONG_LIST, "{lines}");
    // The output is in color.
    assert!(lines.contains("\u{1b}[33m"), "{lines}");
}

#[test]
fn without_a_usable_pager_everything_is_printed() {
    let session = with_long_list();
    for pager in ["no-such-pager -x", "cat", ""] {
        let variables = [("PAGER", pager), ("NO_COLOR", "1")];
        let terminal = Terminal { columns: 100, rows: 10, variables: &variables };
        let Some(seen) = terminal.show(&session, "rollback", "") else { return };
        assert_eq!(seen.lines().count(), LONG_LIST, "{pager}: {seen}");
        assert!(!seen.contains("error"), "{pager}: {seen}");
    }
}

#[test]
fn closing_the_pager_early_is_not_an_error() {
    let session = with_long_list();
    session.write("a", &"a line\n".repeat(50_000));
    let pager = make_pager(&session, "head -n 1 > /dev/null; echo left");
    let variables = [("PAGER", pager.as_str())];
    let terminal = Terminal { columns: 100, rows: 10, variables: &variables };
    let Some(seen) = terminal.show(&session, "rollback diff 1 --full", "") else { return };
    assert_eq!(seen, "left\n");
}

#[test]
fn ctrl_c_in_the_pager_loses_no_output() {
    let session = with_long_list();
    let script = "trap '' INT; touch \"$HOME/begun\"; sleep 1; exec cat > \"$HOME/paged\"";
    let pager = make_pager(&session, script);
    let variables = [("PAGER", pager.as_str())];
    let terminal = Terminal { columns: 100, rows: 10, variables: &variables };
    let Some(mut child) = terminal.start(&session, "rollback") else { return };
    let mut keyboard = child.stdin.take().unwrap();
    eventually("the pager runs", || session.base().join("begun").exists());
    keyboard.write_all(b"\x03").unwrap();
    drop(keyboard);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(paged(&session).unwrap().lines().count(), LONG_LIST);
}

#[test]
fn a_long_plan_is_read_in_the_pager_before_the_question() {
    let session = Session::new();
    (0..15).for_each(|number| session.write(&format!("file-{number}"), "1"));
    session.output(&["checkpoint"]);
    (0..15).for_each(|number| session.write(&format!("file-{number}"), "2"));
    let pager = make_pager(&session, COPY);
    let variables = [("PAGER", pager.as_str())];
    let terminal = Terminal { columns: 100, rows: 10, variables: &variables };
    let Some(seen) = terminal.show(&session, "rollback 1", "y\n") else { return };
    assert_eq!(session.read("file-3"), "1");
    let gone = seen.find("the pager is gone").unwrap();
    assert!(gone < seen.find("Continue?").unwrap(), "{seen}");
}

#[test]
fn colors_are_used_where_they_are_wanted() {
    let session = worked();
    let has_colors = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_takeback"));
        command.arg("rollback").args(arguments).current_dir(session.project()).env_clear();
        command.env("HOME", session.base()).envs(variables.iter().copied());
        String::from_utf8(command.output().unwrap().stdout).unwrap().contains('\u{1b}')
    };
    assert!(!has_colors(&[], &[]));
    assert!(has_colors(&["--color", "always"], &[("NO_COLOR", "1")]));
    assert!(has_colors(&[], &[("CLICOLOR_FORCE", "1")]));
    assert!(!has_colors(&["--color", "never"], &[("CLICOLOR_FORCE", "1")]));
    assert!(!has_colors(&[], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
    let at_terminal = |variables| {
        let terminal = Terminal { columns: 100, rows: 50, variables };
        Some(terminal.show(&session, "rollback", "")?.contains('\u{1b}'))
    };
    let Some(has_colors) = at_terminal(&[]) else { return };
    assert!(has_colors);
    assert_eq!(at_terminal(&[("NO_COLOR", "1")]), Some(false));
    assert_eq!(at_terminal(&[("TERM", "dumb")]), Some(false));
}
