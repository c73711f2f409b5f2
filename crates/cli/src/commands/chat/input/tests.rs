use std::fs;
use std::io::{Cursor, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use super::helper::InputHelper;
use super::history::HistoryFile;
use super::*;
use crate::pseudo_terminal::PseudoTerminal;

const COMMANDS: SlashNames =
    &[("rollback", "return to a checkpoint"), ("resume", "continue a session"), ("quit", "leave")];

/// Reads prompts until the end of the input, and prints them. Other tests run this in a terminal.
#[test]
#[ignore = "other tests run it in a terminal"]
fn read_prompts_in_a_terminal() {
    let Some(home) = std::env::var_os("TAKEBACK_TEST_HOME").map(PathBuf::from) else { return };
    let mut reader = PromptReader::new(&home, &home, COMMANDS).unwrap();
    loop {
        let input = reader.read_prompt().unwrap();
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "read: {input:?}").unwrap();
        if input == PromptInput::End {
            return;
        }
    }
}

/// Starts [`read_prompts_in_a_terminal`]. Returns `None` if this machine cannot start a
/// pseudo-terminal.
fn start_reader(home: &Path) -> Option<PseudoTerminal> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = "commands::chat::input::tests::read_prompts_in_a_terminal";
    command.args(["--exact", name, "--ignored", "--nocapture"]).env("TAKEBACK_TEST_HOME", home);
    let terminal = PseudoTerminal::start(&command, 60, 30)?;
    wait_for_prompt(&terminal, "");
    Some(terminal)
}

/// Waits until the screen contains `text` and ends with a prompt. Keys that are pressed earlier
/// would be interpreted by the terminal instead of the editor.
#[track_caller]
fn wait_for_prompt(terminal: &PseudoTerminal, text: &str) {
    let is_ready = |screen: &str| {
        let last = screen.trim_end_matches('\n').lines().last();
        screen.contains(text) && last.is_some_and(|line| line.trim_end() == ">")
    };
    terminal.wait_until(&format!("{text:?} and a prompt"), is_ready);
}

#[test]
fn prompts_are_edited_and_remembered() {
    let home = tempfile::tempdir().unwrap();
    let Some(mut terminal) = start_reader(home.path()) else { return };
    // The Left and Backspace keys edit the text before Enter is pressed.
    terminal.press("hallo\u{1b}[D\u{1b}[D\u{1b}[D\u{7f}e\u{5}!\r");
    wait_for_prompt(&terminal, "read: Text(\"hello!\")");
    // The Up key brings the prompt back.
    terminal.press("\u{1b}[A\r");
    terminal.wait_until("twice", |screen| screen.matches("Text(\"hello!\")").count() == 2);
    wait_for_prompt(&terminal, "");
    terminal.press("\u{4}");
    let (status, screen, _) = terminal.wait_for_end();
    assert!(status.success() && screen.contains("read: End"), "{screen}");
    let mut terminal = start_reader(home.path()).unwrap();
    terminal.press("\u{1b}[A more\r");
    wait_for_prompt(&terminal, "Text(\"hello! more\")");
}

#[test]
fn a_prompt_can_have_several_lines() {
    let home = tempfile::tempdir().unwrap();
    let Some(mut terminal) = start_reader(home.path()) else { return };
    terminal.press("one\\\rtwo\u{1b}\rthree\r");
    wait_for_prompt(&terminal, r#"Text("one\ntwo\nthree")"#);
    // Line breaks and backslashes in pasted text do not end the prompt, and stay as they are.
    terminal.press("\u{1b}[200~make \\\r  all\r\u{1b}[201~now\r");
    wait_for_prompt(&terminal, r#"Text("make \\\n  all\nnow")"#);
}

#[test]
fn ctrl_c_clears_the_line_before_it_interrupts() {
    let home = tempfile::tempdir().unwrap();
    let Some(mut terminal) = start_reader(home.path()) else { return };
    terminal.press("not this\u{3}but this\r");
    wait_for_prompt(&terminal, "read: Text(\"but this\")");
    terminal.press("\u{3}");
    wait_for_prompt(&terminal, "read: Interrupted");
    terminal.press("  \r");
    terminal.wait_until("another prompt", |screen| screen.trim_end().ends_with(">   \n>"));
    terminal.press("\u{4}");
    let (_, screen, _) = terminal.wait_for_end();
    assert_eq!(screen.matches("read: ").count(), 3, "a blank line is no prompt: {screen}");
}

#[test]
fn commands_and_paths_are_completed_with_the_tab_key() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("source")).unwrap();
    fs::write(home.path().join("source/main.rs"), "").unwrap();
    let Some(mut terminal) = start_reader(home.path()) else { return };
    terminal.press("/ro\t2\r");
    wait_for_prompt(&terminal, "Text(\"/rollback 2\")");
    terminal.press("explain @so\tm\t\r");
    wait_for_prompt(&terminal, "Text(\"explain @source/main.rs\")");
}

#[test]
fn completions_are_found_only_where_they_belong() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["a.txt", "ab.txt", ".hidden", "with space", "armed\u{1b}"] {
        fs::write(directory.path().join(name), "").unwrap();
    }
    let helper = InputHelper::new(directory.path(), COMMANDS);
    let find = |before: &str| {
        let (start, found) = helper.find_completions(before);
        let found: Vec<String> = found.into_iter().map(|pair| pair.replacement).collect();
        (start, found.join(" "))
    };
    assert_eq!(find("/r"), (0, "/rollback  /resume ".into()));
    assert_eq!(find("/rollback "), (10, String::new()));
    assert_eq!(find("see /r"), (6, String::new()));
    assert_eq!(find("see @a"), (4, "@a.txt @ab.txt".into()));
    assert_eq!(find("@."), (0, "@.hidden".into()));
    assert_eq!(find("me@a"), (4, String::new()));
    assert_eq!(find("@no/such"), (0, String::new()));
}

#[test]
fn the_history_is_private_and_bounded_and_contains_no_secrets() {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path().join("home");
    let history = HistoryFile::new(&home);
    assert_eq!(history.load(), [""; 0]);
    let secret = "ghp_Q7hf72Kd02mVn41bXc9sLw83TzRp65AyEu1G";
    history.add("two\nlines \u{1b}");
    history.add(&format!("use {secret}"));
    history.add(" not this one");
    history.add(&"x".repeat(100_000));
    let path = home.join("chat-history");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!fs::read_to_string(&path).unwrap().contains(secret));
    let entries = history.load();
    assert_eq!((entries.len(), entries[0].as_str()), (2, "two\nlines \u{1b}"));
    assert!(entries[1].starts_with("use [redacted"), "{entries:?}");
    // If a line is incomplete, only that line is lost.
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"\"torn\n").unwrap();
    (0..3_000).for_each(|number| history.add(&format!("prompt {number}")));
    let entries = history.load();
    assert_eq!((entries.len(), entries[999].as_str()), (1_000, "prompt 2999"));
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1_000);
}

#[test]
fn each_line_of_a_pipe_is_a_prompt() {
    let input = Cursor::new(b"one\r\n\n  \ntwo".to_vec());
    let mut reader = PromptReader::Lines(Box::new(input));
    for expected in ["one", "two"] {
        assert_eq!(reader.read_prompt().unwrap(), PromptInput::Text(expected.into()));
    }
    assert_eq!(reader.read_prompt().unwrap(), PromptInput::End);
}

#[test]
fn a_prompt_that_cannot_be_used_is_an_error() {
    let message = |bytes: Vec<u8>| read_whole_prompt(Cursor::new(bytes)).unwrap_err().message;
    assert_eq!(message(b" \n".to_vec()), "the prompt on standard input is empty");
    assert_eq!(message(vec![0xff]), "the prompt is not UTF-8");
    assert_eq!(message(vec![b'x'; MAX_PROMPT + 1]), "the prompt is longer than 4.2 MB");
    assert_eq!(read_whole_prompt(Cursor::new("a\nb\n")).unwrap(), "a\nb\n");
    let mut long = PromptReader::Lines(Box::new(Cursor::new(vec![b'x'; MAX_PROMPT + 1])));
    assert_eq!(long.read_prompt().unwrap_err().message, "the prompt is longer than 4.2 MB");
}
