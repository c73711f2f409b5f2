//! `takeback` and `takeback sessions` on a terminal: the screens, as a user sees and uses them.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use unicode_width::UnicodeWidthStr;

use crate::agent::Agent;
use crate::pseudo_terminal::PseudoTerminal;
use crate::session::Session;

/// The sequences that enter and leave the alternate screen.
const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";

/// Simulates two turns of an agent.
fn worked() -> Session {
    let session = Session::new();
    session.write("src/cart.py", "class Cart:\n    pass\n");
    let mut agent = Agent::new(&session, "s1");
    agent.turn("add a discount", "src/cart.py", "class Cart:\n    discount = 10\n");
    agent.hears("write the changelog");
    agent.writes("CHANGES.md", "- one\n");
    agent.pretends("git push");
    agent.is_done();
    session
}

/// Starts takeback in a terminal, and waits until it shows the plan for the newest turn.
fn start(session: &Session, columns: u16, rows: u16) -> Option<PseudoTerminal> {
    start_with(session, columns, rows, &[])
}

fn start_with(
    session: &Session,
    columns: u16,
    rows: u16,
    variables: &[(&str, &str)],
) -> Option<PseudoTerminal> {
    let mut command = session.command(&[]);
    command.envs(variables.iter().copied());
    let terminal = PseudoTerminal::start(&command, columns, rows)?;
    terminal.wait_for("deletes 1 file");
    Some(terminal)
}

/// Returns the lines of a screen, with the ages of one and two minutes replaced by `now`.
fn lines(screen: &str) -> String {
    let mut text = String::new();
    for line in screen.lines() {
        text.push_str(line.replace("   1m ", "  now ").replace("   2m ", "  now ").trim_end());
        text.push('\n');
    }
    text
}

#[test]
fn the_screen_ends_when_its_terminal_is_closed() {
    let session = worked();
    let Some(status) = PseudoTerminal::close_after(&session.command(&[]), "write the changelog")
    else {
        return;
    };
    assert!(status.code().is_some(), "{status}");
}

#[test]
fn the_screen_fits_narrow_and_wide_terminals() {
    let session = worked();
    let Some(terminal) = start(&session, 80, 14) else { return };
    let expected = "
 ~/project                                                        2 checkpoints
 Today
 mine  s1
 ●  now  mine      write the changelog ▸                  1 file     +1       ⚠
 ○  now  mine      add a discount                         1 file     +1    −1





────────────────────────────────────────────────────────────────────────────────
 Enter: deletes 1 file, takes back 1 message
 ⚠ effects that stay: publish
 Enter roll back  u undo, keep mine  → open  Space files  ? help  q quit
";
    terminal.wait_until(expected, |screen| lines(screen) == expected[1..]);
    drop(terminal);
    let terminal = start(&session, 100, 14).unwrap();
    let expected = "
 ~/project                                                                            2 checkpoints
 Today                                            │ Files 1  Diff  Conversation  Effects 1  Coverage
 mine  s1                                         │
 ●  now  write the changelog ▸         +1       ⚠ │ ./
 ○  now  add a discount                +1    −1   │ [ ] + CHANGES.md                  +1        mine
                                                  │
                                                  │
                                                  │
                                                  │
                                                  │
──────────────────────────────────────────────────┴─────────────────────────────────────────────────
 Roll back to before this turn: deletes 1 file, takes back 1 message
 ⚠ effects that stay: publish
 Enter roll back  u undo, keep mine  → open  Space files  / filter  d diff  ? help  q quit
";
    terminal.wait_until(expected, |screen| lines(screen) == expected[1..]);
}

#[test]
fn a_rollback_and_its_reversal_each_take_only_a_few_keys() {
    let session = worked();
    let Some(mut terminal) = start(&session, 100, 24) else { return };
    terminal.press("\r");
    terminal.wait_for("[ Roll back to before this turn ]");
    // The safe answer is preselected.
    terminal.press("\r");
    terminal.wait_for("Nothing was changed.");
    assert!(session.exists("CHANGES.md"));
    terminal.press("\r");
    terminal.wait_for("[ Roll back to before this turn ]");
    terminal.press("\u{1b}[C\r");
    terminal.wait_for("Rolled back: deleted 1 file, took back 1 message. U takes that back.");
    assert!(!session.exists("CHANGES.md"));
    terminal.press("U");
    terminal.wait_for("[ Take that back ]");
    terminal.press("\t\r");
    terminal.wait_for("Took that back: restored 1 file");
    assert_eq!(session.read("CHANGES.md"), "- one\n");
    terminal.press("q");
    let (status, screen, output) = terminal.wait_for_end();
    assert!(status.success());
    // The terminal is restored, and the result stays readable.
    assert!(output.contains(ENTER) && output.contains(LEAVE), "{output:?}");
    assert!(output[output.rfind(LEAVE).unwrap()..].contains("\u{1b}[?25h"), "{output:?}");
    assert!(screen.contains("Took that back: restored 1 file"), "{screen}");
}

#[test]
fn ctrl_c_restores_the_terminal() {
    let session = worked();
    let Some(mut terminal) = start(&session, 100, 24) else { return };
    terminal.press("\u{3}");
    let (status, screen, output) = terminal.wait_for_end();
    assert!(status.success() && output.contains(LEAVE), "{output:?}");
    assert_eq!(screen.trim(), "");
    assert!(session.exists("CHANGES.md"));
}

#[test]
fn a_signal_restores_the_terminal() {
    let session = worked();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let Some(terminal) = start(&session, 100, 24) else { return };
        terminal.signal(signal);
        let (status, screen, output) = terminal.wait_for_end();
        assert!(status.success() && output.contains(LEAVE), "{signal:?}: {output:?}");
        assert_eq!(screen.trim(), "", "{signal:?}");
    }
}

#[test]
fn a_stopped_screen_restores_the_terminal_and_can_be_continued() {
    let session = worked();
    let Some(mut terminal) = start(&session, 100, 24) else { return };
    let is_left = |screen: &str| !screen.contains("Coverage");
    // A key suspends the screen the first time, and a signal from another program the second time.
    terminal.press("\u{1a}");
    terminal.wait_until("the terminal as it was", is_left);
    terminal.wait_for_stop();
    terminal.signal(Signal::CONT);
    terminal.wait_for("Coverage");
    terminal.signal(Signal::TSTP);
    terminal.wait_until("the terminal as it was", is_left);
    terminal.wait_for_stop();
    terminal.signal(Signal::CONT);
    terminal.wait_for("Coverage");
    terminal.press("q");
    let (status, _, output) = terminal.wait_for_end();
    assert!(status.success());
    let last = |text: &str| output.rfind(text).unwrap();
    assert!(last(LEAVE) > last(ENTER), "{output:?}");
}

#[test]
fn pasted_text_restores_nothing() {
    let session = worked();
    let Some(mut terminal) = start(&session, 100, 24) else { return };
    // If this text were treated as keystrokes, it would open the question, and choose and confirm
    // the second answer.
    terminal.press("\u{1b}[200~\rl\r\u{1b}[201~");
    terminal.wait_for("Pasted text was ignored");
    assert!(session.exists("CHANGES.md"));
}

#[test]
fn the_screen_adapts_to_the_size_of_the_terminal_and_shows_new_turns() {
    let session = worked();
    let Some(mut terminal) = start(&session, 80, 24) else { return };
    terminal.resize(120, 30);
    terminal.wait_for("Coverage");
    let mut agent = Agent::new(&session, "s2");
    agent.turn("meanwhile", "new", "1\n");
    let screen = terminal.wait_for("meanwhile");
    assert!(screen.contains("write the changelog"), "{screen}");
    terminal.resize(60, 16);
    let screen = terminal.wait_until("one pane", |screen| !screen.contains("Coverage"));
    assert!(screen.lines().all(|line| line.width() <= 60), "{screen}");
}

#[test]
fn the_filter_and_the_help_and_the_search_work() {
    let session = worked();
    let Some(mut terminal) = start(&session, 100, 30) else { return };
    terminal.press("/cart.py");
    terminal.wait_until("the filter", |screen| !screen.contains("write the changelog"));
    terminal.press("\u{1b}");
    terminal.wait_for("write the changelog");
    terminal.press("?");
    terminal.wait_for("undo only this turn, and keep your own edits");
    terminal.press(" s");
    terminal.wait_for("Search everything ever said:");
    terminal.press("discount");
    let screen = terminal.wait_for("1 message");
    assert!(screen.contains("user: add a discount"), "{screen}");
}

#[test]
fn the_pager_gets_the_whole_diff_and_the_screen_continues_afterwards() {
    let session = worked();
    let pager = session.base().join("pager");
    fs::write(&pager, "#!/bin/sh\ncat > \"$HOME/paged\"\n").unwrap();
    fs::set_permissions(&pager, fs::Permissions::from_mode(0o755)).unwrap();
    let variables = [("TAKEBACK_PAGER", pager.to_str().unwrap())];
    let Some(mut terminal) = start_with(&session, 100, 24, &variables) else { return };
    terminal.press("d?");
    terminal.wait_for("Keys (any key closes this)");
    let paged = fs::read_to_string(session.base().join("paged")).unwrap();
    assert!(paged.contains("+- one"), "{paged}");
}

#[test]
fn the_screen_honors_the_no_color_variable_and_locales_without_unicode() {
    let session = worked();
    let variables = [("NO_COLOR", "1"), ("LANG", "C")];
    let Some(mut terminal) = start_with(&session, 100, 24, &variables) else { return };
    let screen = terminal.wait_for("CHANGES.md");
    assert!(screen.is_ascii(), "{screen}");
    terminal.press("q");
    let (_, _, output) = terminal.wait_for_end();
    let colors = ["\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m", "\u{1b}[36m", "\u{1b}[38;5;"];
    assert!(!colors.iter().any(|color| output.contains(color)), "{output:?}");
}

#[test]
fn sessions_are_browsed_and_read() {
    let session = worked();
    let command = session.command(&["sessions"]);
    let Some(mut terminal) = PseudoTerminal::start(&command, 100, 24) else { return };
    terminal.wait_for("1 session");
    terminal.press("\r");
    terminal.wait_for("add a discount");
    terminal.press("q");
    assert!(terminal.wait_for_end().0.success());
}

#[test]
fn lists_are_printed_where_a_screen_is_not_wanted() {
    let session = worked();
    for (arguments, variables) in [
        (vec!["--no-pager"], vec![]),
        (vec!["list"], vec![]),
        (vec!["--steps"], vec![]),
        (vec!["--json"], vec![]),
        (vec![], vec![("TERM", "dumb")]),
    ] {
        let mut command = session.command(&arguments);
        command.envs(variables);
        let Some(terminal) = PseudoTerminal::start(&command, 100, 120) else { return };
        let (status, screen, output) = terminal.wait_for_end();
        assert!(status.success() && !output.contains(ENTER), "{arguments:?}: {output:?}");
        assert!(screen.contains("write the changelog"), "{arguments:?}: {screen}");
    }
}
