//! Completions in real shells.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::agent::Agent;
use crate::pseudo_terminal::PseudoTerminal;
use crate::session::{Session, tell_skipped};

/// Creates a project with a named checkpoint, a turn, and a file that has changed since the
/// checkpoint.
fn worked() -> Session {
    let session = Session::new();
    session.write("src/main.rs", "1");
    let named = ["checkpoint", "--reason", "before", "--name", "good"];
    assert!(session.output(&named).status.success());
    let mut agent = Agent::new(&session, "s1");
    agent.hears("tidy up the imports");
    agent.writes("src/main.rs", "2");
    agent.is_done();
    session
}

/// Prepares a shell in which `takeback` is the program under test. Returns `None` if the shell is
/// not installed.
fn shell(name: &str, session: &Session) -> Option<Command> {
    if Command::new(name).arg("--version").output().is_err() {
        tell_skipped(&format!("the shell `{name}` is not installed"));
        return None;
    }
    let program = Path::new(env!("CARGO_BIN_EXE_takeback"));
    let mut path = OsString::from(program.parent().unwrap());
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap());
    let mut command = Command::new(name);
    command.env_clear().env("PATH", path).env("HOME", session.base()).env("TZ", "UTC");
    command.env("TERM", "xterm").current_dir(session.project());
    Some(command)
}

fn lines(command: &mut Command) -> Vec<String> {
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "nothing disturbs the typed line");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Returns the choices that bash offers for a line. `kind` is the type of the completion as bash
/// passes it: 9 for one Tab, 63 for two.
fn ask_bash(session: &Session, line: &str, kind: u32) -> Option<Vec<String>> {
    let mut bash = shell("bash", session)?;
    let script = format!(
        "source <(takeback completions bash)\nCOMP_LINE='{line}' COMP_POINT={} COMP_TYPE={kind}\n\
         COMP_WORDBREAKS=$' \\t\\n\"><=;|&(:'\n_takeback\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"",
        line.len()
    );
    Some(lines(bash.args(["--norc", "-c", &script])))
}

#[test]
fn bash_completes_commands_and_checkpoints_and_sessions_and_paths_and_settings() {
    let session = worked();
    let ask = |line: &str| ask_bash(&session, line, 9).unwrap();
    assert_eq!(ask("takeback rollb"), ["rollback"]);
    let offered = ask("takeback show ");
    assert!(
        ["1", "2", "good"].iter().all(|value| offered.contains(&(*value).into())),
        "{offered:?}"
    );
    assert_eq!(ask("takeback show g"), ["good"]);
    assert_eq!(ask("takeback rollback 1 s"), ["src/main.rs"]);
    assert_eq!(ask("takeback config set max_sn"), Vec::<String>::new());
    assert_eq!(ask("takeback config set checkpoints.max_sn"), ["checkpoints.max_snapshots"]);
    assert_eq!(ask("takeback install cla"), ["claude"]);
    // Once the line contains the colon, bash offers only the part after it.
    assert_eq!(ask("takeback sessions show mi"), ["mine:s1"]);
    assert_eq!(ask("takeback sessions show mine:"), ["s1"]);
    let elsewhere = format!("takeback -C {} show g", session.project().display());
    assert_eq!(ask(&elsewhere), ["good"]);
}

#[test]
fn two_tabs_in_bash_show_what_the_choices_mean() {
    let session = worked();
    let offered = ask_bash(&session, "takeback show ", 63).unwrap();
    let told = |value: &str, meaning: &str| {
        offered.iter().any(|line| line.starts_with(value) && line.contains(meaning))
    };
    assert!(told("1  (", "tidy up the imports"), "{offered:?}");
    assert!(told("good  (", "before"), "{offered:?}");
}

#[test]
fn fish_completes_checkpoints_with_their_prompts() {
    let session = worked();
    let Some(mut fish) = shell("fish", &session) else { return };
    let script = "takeback completions fish | source; complete -C 'takeback show '";
    let offered = lines(fish.args(["--no-config", "-c", script]));
    assert!(
        offered.iter().any(|line| line.starts_with("1\t") && line.contains("tidy up the imports")),
        "{offered:?}"
    );
}

#[test]
fn zsh_completes_checkpoints_with_their_prompts() {
    let session = worked();
    let Some(mut zsh) = shell("zsh", &session) else { return };
    assert!(session.output(&["completions", "install"]).status.success());
    fs::write(
        session.base().join(".zshrc"),
        "fpath=(~/.local/share/zsh/site-functions $fpath)\nautoload -U compinit\n\
         compinit -u -d ~/.zcompdump\nPS1='ready> '\n",
    )
    .unwrap();
    zsh.arg("-i");
    let Some(mut terminal) = PseudoTerminal::start(&zsh, 100, 40) else { return };
    terminal.wait_for("ready> ");
    terminal.press("takeback show \t");
    terminal.wait_for("tidy up the imports");
    terminal.press("\u{3}exit\r");
}

#[test]
fn the_scripts_are_installed_where_the_shells_look_for_them() {
    let session = Session::new();
    assert!(session.output(&["completions", "install"]).status.success());
    for (file, part) in [
        (".local/share/bash-completion/completions/takeback", "complete -o"),
        (".local/share/zsh/site-functions/_takeback", "#compdef takeback"),
        (".config/fish/completions/takeback.fish", "complete"),
    ] {
        let script = fs::read_to_string(session.base().join(file)).unwrap();
        assert!(script.contains(part), "{script}");
    }
}

#[test]
fn completing_in_a_directory_without_a_history_offers_nothing_and_creates_nothing() {
    let session = Session::new();
    assert_eq!(ask_bash(&session, "takeback sessions show m", 9).unwrap(), Vec::<String>::new());
    assert!(!session.base().join(".takeback").exists());
}
