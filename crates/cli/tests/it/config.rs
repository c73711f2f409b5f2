//! `takeback config set`, `unset`, `edit` and `path`.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

use crate::agent::configure;
use crate::pseudo_terminal::PseudoTerminal;
use crate::session::{Session, said};

fn read_config(session: &Session) -> String {
    fs::read_to_string(session.base().join(".takeback/config.toml")).unwrap_or_default()
}

#[test]
fn a_setting_is_changed_in_place_and_returned_to_its_default() {
    let mut session = Session::new();
    configure(
        &session,
        "# mine\n[checkpoints]\nmax_snapshots = 7 # few\n\n[profiles.work]\nchat.approve = \"ask\"\n",
    );
    session.takeback(&["config", "set", "max_snapshots", "100"]);
    session.takeback(&["config", "set", "checkpoints.exclude", "*.iso", "*.img"]);
    session.takeback(&["config", "set", "exclude", "*.iso"]);
    session.takeback(&["config", "set", "chat.provider", "ollama", "--profile", "local"]);
    session.takeback(&["config", "set", "providers.mine.prices.input", "2"]);
    session.takeback(&["config", "set", "ledger.redact", "true"]);
    session.takeback(&["config", "unset", "redact"]);
    session.takeback(&["config", "unset", "redact"]);
    session.assert(
        r#"
$ takeback config set max_snapshots 100
checkpoints.max_snapshots = 100  (was 7)
$ takeback config set checkpoints.exclude *.iso *.img
checkpoints.exclude = ["*.iso","*.img"]  (was [])
$ takeback config set exclude *.iso
checkpoints.exclude = ["*.iso"]  (was ["*.iso","*.img"])
$ takeback config set chat.provider ollama --profile local
chat.provider = "ollama"  (was null)
$ takeback config set providers.mine.prices.input 2
providers.mine.prices.input = 2.0  (was null)
$ takeback config set ledger.redact true
ledger.redact = true  (was false)
$ takeback config unset redact
ledger.redact = false  (was true)
$ takeback config unset redact
ledger.redact = false  (as before)
"#,
    );
    assert_eq!(
        read_config(&session),
        "# mine\n[checkpoints]\nmax_snapshots = 100 # few\nexclude = [\"*.iso\"]\n\n\
         [profiles.work]\nchat.approve = \"ask\"\n\n[profiles.local.chat]\nprovider = \"ollama\"\n\n\
         [providers.mine.prices]\ninput = 2\n"
    );
}

#[test]
fn a_command_with_a_wrong_setting_or_value_changes_nothing() {
    let mut session = Session::new();
    let text = "[checkpoints]\nmax_files = 7\n";
    configure(&session, text);
    session.takeback(&["config", "set", "max_fils", "1"]);
    session.takeback(&["config", "set", "max_files", "many"]);
    session.takeback(&["config", "set", "granularity", "call"]);
    session.takeback(&["config", "set", "protection.mirror", "backup"]);
    session.takeback(&["config", "unset", "model.chat"]);
    session.assert(
        "
$ takeback config set max_fils 1
! error: there is no setting `max_fils`
! hint: did you mean `max_files`? `takeback config` lists all settings
[exit Some(1)]
$ takeback config set max_files many
! error: ~/.takeback/config.toml, line 2: invalid type: string \"many\", expected u64
! hint: `max_files` is a whole number: in a workspace with more files, only the paths that calls name are captured
[exit Some(1)]
$ takeback config set granularity call
! error: ~/.takeback/config.toml, line 3: unknown variant `call`, expected `step` or `turn`
! hint: `granularity` is step or turn: a checkpoint before each mutating call, or only before the first one of a turn
[exit Some(1)]
$ takeback config set protection.mirror backup
! error: ~/.takeback/config.toml: mirror must be an absolute path
! hint: write the whole path, or begin it with ~/
[exit Some(1)]
$ takeback config unset model.chat
! error: there is no setting `model.chat`
! hint: did you mean `model`? `takeback config` lists all settings
[exit Some(1)]
",
    );
    assert_eq!(read_config(&session), text);
}

#[test]
fn a_malformed_file_is_not_overwritten() {
    let session = Session::new();
    let text = "[checkpoints\nmax_files = 7\n";
    configure(&session, text);
    let output = session.output(&["config", "set", "max_files", "9"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("config.toml, line 1"), "{output:?}");
    assert_eq!(read_config(&session), text);
}

#[test]
fn unset_keeps_every_comment() {
    let session = Session::new();
    let text = "# my settings\n\n[checkpoints]\n# for the laptop\nmax_files = 7\n# more\n";
    configure(&session, text);
    assert!(session.output(&["config", "unset", "max_files"]).status.success());
    let left = "# my settings\n\n[checkpoints]\n# for the laptop\n# more\n";
    assert_eq!(read_config(&session), left);
}

#[test]
fn no_change_is_lost_if_many_are_made_at_once() {
    let session = Session::new();
    let running: Vec<_> = (0..8)
        .map(|number| {
            let key = format!("prices.m{number}.input");
            session.start(&["config", "set", &key, "1"])
        })
        .collect();
    for mut child in running {
        assert!(child.wait().unwrap().success());
    }
    let text = read_config(&session);
    assert_eq!(text.matches("input = 1").count(), 8, "{text}");
}

#[test]
fn an_edit_does_not_overwrite_a_change_made_meanwhile() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_files = 7\n");
    let editor = session.base().join("editor.sh");
    let config = session.base().join(".takeback/config.toml");
    let script = format!(
        "sed -i s/7/8/ \"$1\"\nprintf '[ledger]\\nredact = true\\n' > '{}'\n",
        config.display()
    );
    fs::write(&editor, script).unwrap();
    let mut command = session.command(&["config", "edit"]);
    command.env("EDITOR", format!("sh {}", editor.display()));
    let Some(terminal) = PseudoTerminal::start(&command, 100, 30) else { return };
    let (status, screen, _) = terminal.wait_for_end();
    assert!(!status.success());
    assert!(screen.contains("another process has changed config.toml in the meantime"), "{screen}");
    assert_eq!(read_config(&session), "[ledger]\nredact = true\n");
    let kept = session.base().join(".takeback/config.edited.toml");
    assert_eq!(fs::read_to_string(kept).unwrap(), "[checkpoints]\nmax_files = 8\n");
}

#[test]
fn a_linked_file_stays_a_link() {
    let session = Session::new();
    let (home, dotfiles) = (session.base().join(".takeback"), session.base().join("dotfiles"));
    fs::create_dir_all(&home).unwrap();
    fs::write(&dotfiles, "").unwrap();
    symlink(&dotfiles, home.join("config.toml")).unwrap();
    assert!(session.output(&["config", "set", "strict", "true"]).status.success());
    assert_eq!(fs::read_to_string(&dotfiles).unwrap(), "[checkpoints]\nstrict = true\n");
    assert!(home.join("config.toml").is_symlink());
}

#[test]
fn the_path_is_printed_even_before_there_is_a_file() {
    let session = Session::new();
    let path = session.base().join(".takeback/config.toml").display().to_string();
    assert_eq!(session.json(&["config", "path"]), json!({ "file": path }));
}

#[test]
fn mistakes_made_in_the_editor_can_be_corrected_before_they_take_effect() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_files = 7\n");
    // The first edit makes a mistake, and the second one corrects it.
    let editor = session.base().join("editor.sh");
    fs::write(
        &editor,
        "if grep -q many \"$1\"; then sed -i s/many/9/ \"$1\"; else sed -i 's/7/\"many\"/' \"$1\"; fi\n\
         sed -i 's/\"9\"/9/' \"$1\"\n",
    )
    .unwrap();
    let mut command = session.command(&["config", "edit"]);
    command.env("EDITOR", format!("sh {}", editor.display()));
    let Some(mut terminal) = PseudoTerminal::start(&command, 100, 30) else { return };
    let screen = terminal.wait_for("Edit again? [y/N]");
    assert!(screen.contains("line 2: invalid type"), "{screen}");
    assert_eq!(read_config(&session), "[checkpoints]\nmax_files = 7\n");
    terminal.press("y\r");
    let (status, screen, _) = terminal.wait_for_end();
    assert!(status.success() && screen.contains("The new settings are in effect."), "{screen}");
    assert_eq!(read_config(&session), "[checkpoints]\nmax_files = 9\n");
    let left = fs::read_dir(session.base().join(".takeback")).unwrap().flatten();
    let copies = left.filter(|entry| entry.file_name().to_string_lossy().starts_with("config-"));
    assert_eq!(copies.count(), 0, "the copy is removed");
}
