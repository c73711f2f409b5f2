use std::io::{self, Write};
use std::num::NonZero;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use takeback_ledger::Tokens;
use takeback_runtime::TurnOutcome;
use takeback_runtime::model::RequestedCall;
use takeback_runtime::tools::ToolOutput;

use super::keyboard::QuietKeyboard;
use super::*;
use crate::output::{LiveRegion, Size};
use crate::pseudo_terminal::PseudoTerminal;

/// A terminal that remembers what was written to it.
#[derive(Clone)]
struct Tape {
    parser: Arc<Mutex<vt100::Parser>>,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl Tape {
    fn new(columns: u16, rows: u16) -> Tape {
        let number = |number| NonZero::new(number).unwrap();
        let parser = vt100::Parser::new(number(rows), number(columns), 1_000);
        Tape { parser: Arc::new(Mutex::new(parser)), bytes: Arc::default() }
    }

    /// Returns the text on the screen.
    fn screen(&self) -> String {
        let contents = self.parser.lock().unwrap().screen().contents();
        contents.trim_end().to_owned() + "\n"
    }

    fn written(&self) -> String {
        String::from_utf8(self.bytes.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Tape {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.parser.lock().unwrap().process(bytes);
        self.bytes.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn nobody(_: &str) -> Asked {
    Asked::NoUser
}

/// Creates a front end on a terminal that is 40 columns wide.
fn live(ask: impl Fn(&str) -> Asked + Send + Sync + 'static) -> (TerminalFrontEnd, Tape) {
    let tape = Tape::new(40, 30);
    let screen = Screen::Live {
        out: Box::new(tape.clone()),
        size: || Size { columns: 40, rows: 30 },
        has_colors: true,
        region: LiveRegion::default(),
    };
    (TerminalFrontEnd::on(screen, Box::new(ask)), tape)
}

fn call(id: &str, name: &str, arguments: &str) -> RequestedCall {
    RequestedCall { id: id.into(), name: name.into(), arguments: arguments.into() }
}

fn output(text: &str, is_error: bool) -> ToolOutput {
    ToolOutput { text: text.into(), is_error, ..ToolOutput::default() }
}

fn start(front: &TerminalFrontEnd, call: &RequestedCall) {
    front.show(&TurnEvent::CallStarted { call, subagent: None });
}

fn end(front: &TerminalFrontEnd, call: &RequestedCall, output: &ToolOutput) {
    front.show(&TurnEvent::CallEnded { call, output, subagent: None });
}

fn end_turn(front: &TerminalFrontEnd, outcome: &TurnOutcome) {
    front.show(&TurnEvent::TurnEnded { outcome, tokens: Tokens::default(), cost: None });
}

#[test]
fn a_turn_is_shown_as_it_happens() {
    let (front, tape) = live(nobody);
    front.show(&TurnEvent::Reasoning("I should look at the tests."));
    assert_eq!(tape.screen(), "I should look at the tests.\n");
    front.show(&TurnEvent::Text("I look at the **te"));
    assert_eq!(tape.screen(), "I look at the **te\n");
    front.show(&TurnEvent::Text("sts**."));
    let test = call("1", "terminal", r#"{"command": "cargo test\n--all"}"#);
    start(&front, &test);
    let started = "I look at the tests.\n\n… terminal cargo test --all\n";
    assert_eq!(tape.screen(), started);
    front.show(&TurnEvent::CallOutput { call: "1", text: "Compiling\n10 %\r20 %" });
    assert_eq!(tape.screen(), format!("{started}  Compiling\n  20 %\n"));
    let read = call("2", "read_file", r#"{"path": "src/main.rs"}"#);
    start(&front, &read);
    end(&front, &test, &output("a\nb\nc", false));
    end(&front, &read, &output("no such file", true));
    front.show(&TurnEvent::Text("Done."));
    let tokens = Tokens { input: 1200, cache_read: 10_000, output: 50, ..Tokens::default() };
    let outcome = &TurnOutcome::Complete;
    front.show(&TurnEvent::TurnEnded { outcome, tokens, cost: Some(0.0123) });
    let expected = "\
I look at the tests.

✓ terminal cargo test --all  3 lines
✗ read_file src/main.rs  no such file

Done.

11,200 tokens in (10,000 cached), 50
out · $0.0123
";
    assert_eq!(tape.screen(), expected, "\n{}", tape.screen());
}

#[test]
fn the_calls_of_subagents_run_side_by_side() {
    let (front, tape) = live(nobody);
    let (one, two) = (call("a", "terminal", r#"{"command": "x"}"#), call("b", "todo", "{}"));
    front.show(&TurnEvent::CallStarted { call: &one, subagent: Some(1) });
    front.show(&TurnEvent::CallStarted { call: &two, subagent: Some(2) });
    front.show(&TurnEvent::CallOutput { call: "a", text: "one" });
    front.show(&TurnEvent::CallOutput { call: "b", text: "two" });
    front.show(&TurnEvent::CallOutput { call: "unknown", text: "lost" });
    assert_eq!(tape.screen(), "… [1] terminal x\n  one\n… [2] todo\n  two\n");
    let ended = output("", false);
    front.show(&TurnEvent::CallEnded { call: &two, output: &ended, subagent: Some(2) });
    assert_eq!(tape.screen(), "✓ [2] todo\n… [1] terminal x\n  one\n");
    end_turn(&front, &TurnOutcome::Cancelled);
    assert_eq!(tape.screen(), "✓ [2] todo\n– [1] terminal x  stopped\n\nStopped.\n");
}

#[test]
fn the_output_of_a_running_call_is_bounded_and_disarmed() {
    let (front, tape) = live(nobody);
    let run = call("1", "terminal", "not json \u{1b}[2J");
    start(&front, &run);
    for number in 0..300 {
        let text = format!("\u{1b}[32mline {number}\u{1b}[0m of the output\u{7}\n");
        front.show(&TurnEvent::CallOutput { call: "1", text: &text });
    }
    let screen = tape.screen();
    assert_eq!(screen.lines().count(), 6, "{screen}");
    let expected = "… terminal not json \\u{1b}[2J\n  line 295 of the output\n";
    assert!(screen.starts_with(expected), "{screen}");
    assert!(!tape.written().contains("\u{1b}[2J") && !tape.written().contains('\u{7}'));
}

#[test]
fn an_answer_continues_below_the_note_about_its_interruption() {
    let (front, tape) = live(nobody);
    front.show(&TurnEvent::Text("First.\n\n```\nlet a = 1;\nlet b"));
    front.show(&TurnEvent::Continuing { because: "the connection was cut" });
    front.show(&TurnEvent::Text(" = 2;\n```\nEnd."));
    let wait = Duration::from_millis(2500);
    front.show(&TurnEvent::Retrying { because: "overloaded", wait });
    front.show(&TurnEvent::FailedOver { because: "overloaded", provider: "openai" });
    front.show(&TurnEvent::Warning("no checkpoint protects /srv"));
    front.show(&TurnEvent::Compressed { session: "chat:2" });
    end_turn(&front, &TurnOutcome::Partial { because: "too many cuts".into() });
    let expected = "\
First.

  let a = 1;

the connection was cut; asking for the
rest of the answer

  let b = 2;

overloaded; trying again in 2.5 s
(Ctrl-C stops)
overloaded; openai takes over
warning: no checkpoint protects /srv
Older turns were summarized; the
conversation continues as chat:2

End.

The answer is incomplete: too many cuts
";
    assert_eq!(tape.screen(), expected, "\n{}", tape.screen());
}

#[test]
fn the_end_of_a_turn_says_its_outcome() {
    let because = || "the key is wrong".to_owned();
    for (outcome, expected) in [
        (
            TurnOutcome::Failed { because: because(), is_limited: false },
            "The turn failed: the key is wrong\n",
        ),
        (
            TurnOutcome::Blocked { because: because() },
            "The turn is waiting for you: the key is\nwrong\n",
        ),
        (TurnOutcome::Cancelled, "Stopped.\n"),
        (TurnOutcome::Complete, "\n"),
    ] {
        let (front, tape) = live(nobody);
        end_turn(&front, &outcome);
        assert_eq!(tape.screen(), expected);
    }
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let (front, tape) = live(nobody);
    let long = call("1", "terminal", &format!(r#"{{"command": "{}"}}"#, "日本 word ".repeat(40)));
    start(&front, &long);
    front.show(&TurnEvent::CallOutput { call: "1", text: &"x".repeat(500) });
    end(&front, &long, &output(&"y".repeat(500), true));
    front.show(&TurnEvent::Warning(&"z ".repeat(100)));
    let parser = tape.parser.lock().unwrap();
    let rows: Vec<bool> = (0..30).map(|row| parser.screen().row_wrapped(row)).collect();
    assert!(!rows.contains(&true), "{}", parser.screen().contents());
}

#[test]
fn without_colors_only_the_cursor_is_moved() {
    let tape = Tape::new(40, 30);
    let screen = Screen::Live {
        out: Box::new(tape.clone()),
        size: || Size { columns: 40, rows: 30 },
        has_colors: false,
        region: LiveRegion::default(),
    };
    let front = TerminalFrontEnd::on(screen, Box::new(nobody));
    front.show(&TurnEvent::Text("**bold** *x"));
    front.show(&TurnEvent::Text("* `code`"));
    front.show(&TurnEvent::Warning("w"));
    end_turn(&front, &TurnOutcome::Complete);
    let written = tape.written();
    let is_style = |rest: &str| {
        let end = rest.find(|letter: char| letter.is_ascii_alphabetic());
        end.is_some_and(|end| rest[end..].starts_with('m'))
    };
    assert!(!written.split("\u{1b}[").skip(1).any(is_style), "{written:?}");
    assert_eq!(tape.screen(), "warning: w\n\nbold x code\n");
}

#[test]
fn a_pipe_gets_the_answer_as_it_was_written() {
    let (answer, notes) = (Tape::new(80, 24), Tape::new(80, 24));
    let (first, second) = (Box::new(answer.clone()), Box::new(notes.clone()));
    let screen = Screen::Plain { answer: first, notes: second, is_in_line: false };
    let front = TerminalFrontEnd::on(screen, Box::new(nobody));
    front.show(&TurnEvent::Text("# Ti"));
    assert_eq!(answer.written(), "# Ti", "it is not held back");
    front.show(&TurnEvent::Text("tle\n\n\tcode \u{1b}[2J"));
    let read = call("1", "read_file", r#"{"path": "a"}"#);
    start(&front, &read);
    end(&front, &read, &output("x", false));
    front.show(&TurnEvent::Text("*end*"));
    end_turn(&front, &TurnOutcome::Cancelled);
    assert_eq!(answer.written(), "# Title\n\n\tcode \\u{1b}[2J\n*end*\n");
    let notes = anstream::adapter::strip_str(&notes.written()).to_string();
    assert_eq!(notes, "✓ read_file a  x\nStopped.\n");
}

/// Asks about a call, and gives these answers one after another. Returns the final answer and the
/// screen.
fn ask(arguments: &str, remember: Option<&str>, answers: &'static [&str]) -> (Answer, String) {
    let next = Mutex::new(answers.iter());
    let (front, tape) = live(move |_| {
        next.lock().unwrap().next().map_or(Asked::NoUser, |text| Asked::Text((*text).to_owned()))
    });
    let push = call("1", "terminal", arguments);
    let question = Question { call: &push, because: "has an effect", remember };
    let answer = front.approve(&question);
    (answer, tape.screen())
}

#[test]
fn answers_to_questions_are_understood() {
    let arguments = r#"{"command": "git push"}"#;
    let deny = |reason: &str| Answer::Deny(reason.to_owned());
    for (answers, expected) in [
        (&["y"][..], Answer::Allow),
        (&[" Yes "], Answer::Allow),
        (&["a"], Answer::AllowAlways),
        (&[""], deny("the user said no")),
        (&["n"], deny("the user said no")),
        (&["use a branch"], deny("the user said: use a branch")),
        (&[], Answer::Later),
    ] {
        assert_eq!(ask(arguments, Some("git push"), answers).0, expected, "{answers:?}");
    }
    // Without a prefix to remember, "always" is not a valid answer.
    assert_eq!(ask(arguments, None, &["a", "always", "y"]).0, Answer::Allow);
    let push = call("1", "terminal", arguments);
    let mut question = Question { call: &push, because: "", remember: Some("git push") };
    let prompt = "  [y]es  [a]lways for \"git push\"  [N]o, or what to do instead: ";
    assert_eq!(prompt_of(&question), prompt);
    question.remember = None;
    assert_eq!(prompt_of(&question), "  [y]es  [N]o, or what to do instead: ");
}

#[test]
fn a_question_shows_the_whole_command() {
    let command = (1..=15).map(|number| format!("step {number} \u{1b}")).collect::<Vec<_>>();
    let arguments = serde_json::json!({
        "command": command.join("\n"), "timeout": 5, "content": "line\n".repeat(50)
    });
    let (_, screen) = ask(&arguments.to_string(), None, &["n"]);
    for number in 1..=15 {
        assert!(screen.contains(&format!("step {number} \\u{{1b}}\n")), "{screen}");
    }
    assert!(screen.starts_with("? terminal\n  command: step 1"), "{screen}");
    assert!(screen.contains("  timeout: 5\n"), "{screen}");
    assert!(screen.contains("  … (41 more lines)\n"), "{screen}");
    assert!(screen.ends_with("  because it has an effect\n"), "{screen}");
}

#[test]
fn nothing_is_drawn_while_the_user_is_asked() {
    let tape_of_question = Arc::new(Mutex::new(None::<(Arc<TerminalFrontEnd>, Tape)>));
    let inner = tape_of_question.clone();
    let (front, tape) = live(move |_| {
        let (front, tape): (Arc<TerminalFrontEnd>, Tape) = inner.lock().unwrap().clone().unwrap();
        let before = tape.written();
        front.show(&TurnEvent::Text("from another thread"));
        front.show(&TurnEvent::Warning("w"));
        assert_eq!(tape.written(), before);
        Asked::Text("y".into())
    });
    let front = Arc::new(front);
    *tape_of_question.lock().unwrap() = Some((front.clone(), tape.clone()));
    let push = call("1", "terminal", "{}");
    let question = Question { call: &push, because: "b", remember: None };
    assert_eq!(front.approve(&question), Answer::Allow);
    assert_eq!(tape.screen(), "? terminal\n  because it b\nwarning: w\n\nfrom another thread\n");
    *tape_of_question.lock().unwrap() = None;
}

/// Asks about a call while typed keys are not echoed on the screen. Other tests run this in a
/// terminal.
#[test]
#[ignore = "other tests run it in a terminal"]
fn ask_in_a_terminal() {
    if std::env::var_os("TAKEBACK_TEST_ASK").is_none() {
        return;
    }
    let is_interrupted = Arc::new(AtomicBool::new(false));
    let flag = is_interrupted.clone();
    signal_hook::flag::register(signal_hook::consts::SIGINT, flag).unwrap();
    let front = TerminalFrontEnd::new();
    let quiet = QuietKeyboard::start();
    let push = call("1", "terminal", r#"{"command": "git push"}"#);
    front.show(&TurnEvent::Text("Some *text*.\n\nReady"));
    // Wait for the test that started this process: it presses keys while the turn runs, and then
    // creates this file.
    while !Path::new(&std::env::var_os("TAKEBACK_TEST_ASK").unwrap()).exists() {
        std::thread::yield_now();
    }
    let question = Question { call: &push, because: "publishes", remember: Some("git push") };
    let answer = front.approve(&question);
    drop(quiet);
    // The signal reaches the process soon, but not at once.
    while std::env::var_os("TAKEBACK_TEST_SIGNAL").is_some()
        && !is_interrupted.load(Ordering::SeqCst)
    {
        std::thread::yield_now();
    }
    let is_interrupted = is_interrupted.load(Ordering::SeqCst);
    writeln!(io::stdout(), "answer: {answer:?}, interrupted: {is_interrupted}").unwrap();
}

/// Runs [`ask_in_a_terminal`], and presses the keys in `before` before the question appears, and
/// those in `keys` afterward. Returns the screen, or `None` if this machine cannot start a
/// pseudo-terminal.
fn ask_with_keys(before: &str, keys: &str) -> Option<String> {
    let directory = tempfile::tempdir().unwrap();
    let ready = directory.path().join("ready");
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = "commands::chat::terminal::tests::ask_in_a_terminal";
    command.args(["--exact", name, "--ignored", "--nocapture"]).env("TAKEBACK_TEST_ASK", &ready);
    if keys.contains('\u{3}') {
        command.env("TAKEBACK_TEST_SIGNAL", "1");
    }
    let mut terminal = PseudoTerminal::start(&command, 70, 30)?;
    terminal.wait_for("Some text.\n\nReady");
    terminal.press(before);
    std::fs::write(&ready, "").unwrap();
    terminal.wait_for("what to do instead: ");
    terminal.press(keys);
    let (status, screen, _) = terminal.wait_for_end();
    assert!(status.success(), "{screen}");
    Some(screen)
}

#[test]
fn a_question_is_asked_on_a_terminal() {
    let Some(screen) = ask_with_keys("", "a\r") else { return };
    let expected = "\
Some text.

Ready

? terminal
  command: git push
  because it publishes
  [y]es  [a]lways for \"git push\"  [N]o, or what to do instead: a
answer: AllowAlways, interrupted: false
";
    assert!(screen.contains(expected), "{screen}");
}

#[test]
fn keys_pressed_before_a_question_do_not_answer_it() {
    let Some(screen) = ask_with_keys("y\ry\r", "n\r") else { return };
    assert!(screen.contains("answer: Deny(\"the user said no\"), interrupted: false"), "{screen}");
    assert!(screen.contains("\nReady\n"), "the keys are not shown: {screen}");
}

#[test]
fn ctrl_c_in_a_question_interrupts_the_turn() {
    let Some(screen) = ask_with_keys("", "ye\u{3}") else { return };
    assert!(screen.contains("answer: Later, interrupted: true"), "{screen}");
    let screen = ask_with_keys("", "\u{4}").unwrap();
    assert!(screen.contains("answer: Later, interrupted: false"), "{screen}");
}
