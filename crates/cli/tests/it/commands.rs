//! The commands, their options, and their help.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::{Value, json};

use crate::agent::with_two_turns;
use crate::session::{Session, said, tell_skipped};

#[test]
fn options_that_do_not_apply_are_refused() {
    let mut session = with_two_turns();
    session.takeback(&["rollback", "undo", "--files-only"]);
    session.takeback(&["rollback", "1", "--steps", "--full"]);
    session.takeback(&["rollback", "diff", "1", "--dry-run"]);
    session.takeback(&["rollback", "--dry-run", "diff", "1"]);
    session.takeback(&["list", "--turn", "1"]);
    session.takeback(&["undo", "3"]);
    session.takeback(&["redo", "src"]);
    session.takeback(&["rollback", "--files-only"]);
    session.takeback(&["rollback", "1", "--files-only", "--chat-only"]);
    session.takeback(&["status", "--bundle", "x"]);
    session.assert(
        "
$ takeback rollback undo --files-only
! error: unexpected argument '--files-only' found
! hint: --files-only is an option of `takeback rollback`
! Usage: takeback rollback undo [OPTIONS]
[exit Some(2)]
$ takeback rollback 1 --steps --full
! error: unexpected argument '--steps' found
! hint: --steps is an option of `takeback list`
! Usage: takeback rollback <CHECKPOINT> [PATH]...
[exit Some(2)]
$ takeback rollback diff 1 --dry-run
! error: unexpected argument '--dry-run' found
! hint: --dry-run is an option of `takeback rollback`, `takeback rollback undo` and `takeback rollback redo`
! Usage: takeback rollback diff <CHECKPOINT> [CHECKPOINT|PATH]... [-- <PATH>...]
[exit Some(2)]
$ takeback rollback --dry-run diff 1
! error: unexpected argument '--dry-run' found
! hint: --dry-run is an option of `takeback rollback`, `takeback rollback undo` and `takeback rollback redo`
! Usage: takeback rollback diff [OPTIONS] <CHECKPOINT> [CHECKPOINT|PATH]... [-- <PATH>...]
[exit Some(2)]
$ takeback list --turn 1
! error: unexpected argument '--turn' found
! hint: --turn is an option of `takeback undo`
! Usage: takeback list [OPTIONS]
[exit Some(2)]
$ takeback undo 3
! error: `undo` takes no checkpoint
! hint: `takeback undo --turn 3` takes back one turn; `takeback rollback 3` returns to the state before it
[exit Some(1)]
$ takeback redo src
! error: `rollback redo` takes no paths
! hint: `takeback rollback CHECKPOINT PATH` restores single files
[exit Some(1)]
$ takeback rollback --files-only
! error: the following required arguments were not provided: <CHECKPOINT>
! hint: `takeback list` lists the checkpoints
! Usage: takeback rollback --files-only <CHECKPOINT> [PATH]...
[exit Some(2)]
$ takeback rollback 1 --files-only --chat-only
! error: the argument '--files-only' cannot be used with '--chat-only'
! Usage: takeback rollback --files-only <CHECKPOINT> [PATH]...
[exit Some(2)]
$ takeback status --bundle x
! error: unexpected argument '--bundle' found
! hint: --bundle is an option of `takeback doctor`
! Usage: takeback status [OPTIONS]
[exit Some(2)]
",
    );
    assert_eq!(session.read("src/cart.py"), "1\n");
    let error = &session.json(&["rollback", "undo", "--files-only"])["error"];
    assert_eq!(error["message"], "unexpected argument '--files-only' found");
    assert_eq!(error["hint"], "--files-only is an option of `takeback rollback`");
}

#[test]
fn options_can_precede_the_subcommand() {
    let session = with_two_turns();
    assert_eq!(session.json(&["rollback", "--dry-run", "1"])["restored"], json!(["config.py"]));
    assert!(session.output(&["rollback", "--yes", "1"]).status.success());
    assert_eq!(session.read("config.py"), "old\n");
    assert_eq!(session.json(&["rollback", "--dry-run", "undo"])["restored"], json!(["config.py"]));
    assert_eq!(session.read("config.py"), "old\n");
    assert!(session.output(&["rollback", "-v", "--yes", "undo"]).status.success());
    assert_eq!(session.read("config.py"), "new\n");
    assert!(session.output(&["redo", "--yes"]).status.success());
    assert_eq!(session.read("config.py"), "old\n");
}

#[test]
fn the_error_for_an_unknown_command_suggests_the_nearest_one() {
    let mut session = Session::new();
    session.takeback(&["lst"]);
    session.takeback(&["rolback", "1"]);
    session.takeback(&["serach", "x"]);
    session.takeback(&["sessions", "rewnd"]);
    session.takeback(&["checkpoints", "lits"]);
    session.assert(
        "
$ takeback lst
! error: unknown command 'lst'
! hint: did you mean `takeback list`?
! Usage: takeback [OPTIONS] [COMMAND]
[exit Some(2)]
$ takeback rolback 1
! error: unknown command 'rolback'
! hint: did you mean `takeback rollback`?
! Usage: takeback [OPTIONS] [COMMAND]
[exit Some(2)]
$ takeback serach x
! error: unknown command 'serach'
! hint: did you mean `takeback search`?
! Usage: takeback [OPTIONS] [COMMAND]
[exit Some(2)]
$ takeback sessions rewnd
! error: unknown command 'rewnd'
! hint: did you mean `takeback sessions rewind`?
! Usage: takeback sessions [OPTIONS] <COMMAND>
[exit Some(2)]
$ takeback checkpoints lits
! error: unknown command 'lits'
! hint: did you mean `takeback checkpoints status`?
! Usage: takeback checkpoints [OPTIONS] <COMMAND>
[exit Some(2)]
",
    );
}

#[test]
fn command_names_are_refused_for_checkpoints() {
    let mut session = Session::new();
    session.write("a", "1");
    for name in ["undo", "redo", "list", "diff", "show", "status", "search", "help"] {
        let output = session.output(&["checkpoint", "--name", name]);
        assert_eq!(output.status.code(), Some(1), "{name}");
    }
    session.takeback(&["rollback", "--", "list"]);
    session.takeback(&["checkpoint", "--name", "list"]);
    session.assert(
        "
$ takeback rollback -- list
! error: \"list\" is not a checkpoint
! hint: give a number from the list, a name, or at least 6 digits of an id
[exit Some(1)]
$ takeback checkpoint --name list
! error: \"list\" cannot be the name of a checkpoint: the word is a command
! hint: use letters, digits and dashes, as in `before-refactoring`
[exit Some(1)]
",
    );
}

#[test]
fn search_is_also_a_top_level_command() {
    let session = with_two_turns();
    let found = session.json(&["search", "cart"]);
    assert_eq!(found["total"], json!(1));
    assert_eq!(session.json(&["sessions", "search", "cart"]), found);
}

#[test]
fn help_is_grouped_and_has_examples() {
    let mut session = Session::new();
    session.takeback(&["--help"]);
    session.takeback(&["rollback", "--help"]);
    session.takeback(&["redo", "-h"]);
    session.assert(
        "
$ takeback --help
Takes back what an AI agent did, in your files and in its conversation, together

Usage: takeback [OPTIONS] [COMMAND]

Everyday:
  list         List the checkpoints of this workspace, newest first
  show         Show a turn or checkpoint in full
  diff         Show what changed since a checkpoint, or between two
  rollback     Return to a checkpoint, or undo a rollback
  undo         Take back what the agent changed in its last turn, and keep everything else
  redo         Redo what `takeback rollback undo` undid
  checkpoint   Take a checkpoint of this workspace now
  fork         Branch off from an earlier moment, in a new directory
  compare      Compare the files of two directories, and the cost of the agents' work there
  resume       Continue a conversation of any agent, in its directory
  search       Search all messages, tool names and tool calls
  status       Show the state of this workspace, the store and the agents on one page
  report       Show what your agents did today, on another day, or in a week
  serve        Show the history in a browser
  export       Write a turn, a session or a day to one file that you can share

Setup and maintenance:
  install      Install takeback into agents: hooks, and a /rollback command
  uninstall    Remove takeback from the configuration of agents
  doctor       Check that everything works: agents, hooks, store, ledger
  sessions     List, show, search and edit the sessions of all agents
  checkpoints  Maintain the store of all checkpoints
  config       Show or change the settings
  fleet        Share one ledger and all checkpoints between many machines
  completions  Complete commands, checkpoints, sessions and settings in your shell
  explain      Explain whether takeback expects a shell command to change files
  demo         Try takeback on a scratch project

takeback's own agent:
  chat         Talk to takeback's own agent, which can always continue where it stopped
  tasks        List the tasks of takeback's own agent, and continue or stop one
  goal         Let takeback's own agent work on a goal until it is reached or its budget is spent

For agents:
  run          Run a command between two checkpoints: for agents without hooks
  acp          Protect any agent that an editor runs over the Agent Client Protocol
  hook         Report what an agent does: one JSON object on standard input
  rpc          Serve an agent for as long as it runs: JSON-RPC 2.0, one message per line
  mcp          Let the model of an agent look at the history, over the Model Context Protocol

Global options:
  -C <DIR>              Work as if started in DIR
      --home <DIR>      Takeback's own directory [default: $TAKEBACK_HOME or ~/.takeback]
      --profile <NAME>  Use the settings in [profiles.NAME] of config.toml [default:
                        $TAKEBACK_PROFILE]
      --json            Print one JSON document instead of text
  -y, --yes             Skip the confirmation
  -v, --verbose         List all paths instead of the first few
      --color <WHEN>    Color the output [default: auto] [possible values: auto, always, never]
      --no-pager        Do not use a pager for long output [the pager: $TAKEBACK_PAGER, $PAGER, or
                        less]
  -h, --help            Print this help
  -V, --version         Print the version

Examples:
  takeback install claude           protect what Claude Code does from now on
  takeback                          browse the history of this directory, and take things back
  takeback rollback 1               return to the newest checkpoint
  takeback rollback 1 src/main.rs   only this file
  takeback rollback undo            undo the rollback
  takeback undo                     take back only what the agent changed in its last turn
  takeback checkpoint --reason 'before the big refactoring'
  takeback fork 1 ../try            try something else from there, in another directory
  takeback search chat-send         search the sessions of all agents
  takeback demo                     see it work on a scratch project

Topics: `takeback help` explains turns, safety, conversations, effects, coverage, patterns, privacy,
prices and exit-codes.
$ takeback rollback --help
Return to a checkpoint, or undo a rollback

Returns the workspace to a checkpoint and the conversation to the point before its turn, or restores
only the given files and directories. The current state is saved first, so that `takeback rollback
undo` can restore it. Without arguments, lists the checkpoints.

Usage: takeback rollback [OPTIONS] <CHECKPOINT> [PATH]...
       takeback rollback <COMMAND>

Commands:
  list  List the checkpoints of this workspace, newest first
  diff  Show what changed since a checkpoint, or between two
  undo  Undo the last rollback, or the last `takeback undo`; repeat to go further back
  redo  Redo what `takeback rollback undo` undid
  help  Print this message or the help of the given subcommand(s)

Arguments:
  <CHECKPOINT>
          The number, name or id of a checkpoint

  [PATH]...
          Only these files and directories; '*.py' matches in all directories

Options:
      --dry-run
          Show what would happen and change nothing

      --files-only
          Do not change the conversation

      --chat-only
          Do not change the files

      --index
          Also restore what was staged in the workspace's own git repository

      --skip-blocked
          Skip paths that cannot be restored, and restore the rest

      --workspace-only
          Do not touch files outside the workspace

      --resume
          Afterwards, start the agent to continue the conversation from that point

Global options:
  -C <DIR>
          Work as if started in DIR

      --home <DIR>
          Takeback's own directory [default: $TAKEBACK_HOME or ~/.takeback]

      --profile <NAME>
          Use the settings in [profiles.NAME] of config.toml [default: $TAKEBACK_PROFILE]

      --json
          Print one JSON document instead of text

  -y, --yes
          Skip the confirmation

  -v, --verbose
          List all paths instead of the first few

      --color <WHEN>
          Color the output
          
          [default: auto]
          [possible values: auto, always, never]

      --no-pager
          Do not use a pager for long output [the pager: $TAKEBACK_PAGER, $PAGER, or less]

  -h, --help
          Print this help

Examples:
  takeback rollback 2                     return to number 2 of the list
  takeback rollback 2.3                   to before the third step of that turn
  takeback rollback good src docs/a.md    only these files and directories
  takeback rollback 2 '*.py'              only files that match
  takeback rollback 2 --dry-run           show what would happen
  takeback rollback 2 --resume            then continue the conversation in the agent
  takeback rollback -- list               to the checkpoint called list
  takeback rollback undo                  back to before the last rollback; repeat to go further
  takeback rollback redo                  the reverse of that
$ takeback redo -h
Redo what `takeback rollback undo` undid

Usage: takeback redo [OPTIONS]

Options:
      --dry-run         Show what would happen and change nothing
      --skip-blocked    Skip paths that cannot be restored, and restore the rest
      --workspace-only  Do not touch files outside the workspace

Global options:
  -C <DIR>              Work as if started in DIR
      --home <DIR>      Takeback's own directory [default: $TAKEBACK_HOME or ~/.takeback]
      --profile <NAME>  Use the settings in [profiles.NAME] of config.toml [default:
                        $TAKEBACK_PROFILE]
      --json            Print one JSON document instead of text
  -y, --yes             Skip the confirmation
  -v, --verbose         List all paths instead of the first few
      --color <WHEN>    Color the output [default: auto] [possible values: auto, always, never]
      --no-pager        Do not use a pager for long output [the pager: $TAKEBACK_PAGER, $PAGER, or
                        less]
  -h, --help            Print this help

Examples:
  takeback rollback undo        back to before the last rollback
  takeback redo                 the reverse of that
  takeback redo --dry-run       show what would happen
",
    );
    let help = session.output(&["--help"]).stdout;
    assert_eq!(session.output(&["help"]).stdout, help);
    for command in ["list", "show", "diff", "undo", "search", "status", "run", "install"] {
        let output = session.output(&[command, "--help"]);
        assert!(output.status.success(), "{command}");
        let help = String::from_utf8(output.stdout).unwrap();
        for part in ["Examples:\n", "Global options:\n", "--no-pager"] {
            assert!(help.contains(part), "{command}: {help}");
        }
        let asked = session.output(&["help", command]).stdout;
        assert_eq!(String::from_utf8(asked).unwrap(), help, "{command}");
    }
}

#[test]
fn a_command_without_json_output_refuses_the_json_option_with_a_json_error() {
    let session = Session::new();
    let output = session.output(&["demo", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(answer["error"]["message"].is_string(), "{answer}");
}

#[test]
fn wrong_usage_is_reported_in_json_on_request() {
    let session = Session::new();
    let output = session.output(&["--json", "nonsense"]);
    assert_eq!(output.status.code(), Some(2));
    let seen: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(seen["error"]["message"], "unknown command 'nonsense'");
}

#[test]
fn a_checkpoint_of_an_unchanged_workspace_adds_no_row() {
    let session = Session::new();
    session.write("a", "1");
    let first = session.json(&["checkpoint"]);
    assert_eq!(first["new"], true);
    let second = session.json(&["checkpoint"]);
    assert_eq!((&second["new"], &second["id"]), (&serde_json::json!(false), &first["id"]));
    let text = String::from_utf8(session.output(&["checkpoint"]).stdout).unwrap();
    assert!(text.contains("Nothing has changed since checkpoint"), "{text}");
    assert_eq!(crate::agent::rows(&session).len(), 1);
    for wish in [["--reason", "x"], ["--name", "n"]] {
        assert_eq!(session.json(&[&["checkpoint"], &wish[..]].concat())["new"], true);
    }
    assert_eq!(session.json(&["checkpoint", "--pin"])["new"], true);
    session.write("a", "2");
    assert_eq!(session.json(&["checkpoint"])["new"], true);
    assert_eq!(crate::agent::rows(&session).len(), 5);
}

#[test]
fn the_colors_of_usage_errors_follow_the_color_option() {
    let session = Session::new();
    let colored = |arguments: &[&str]| {
        let output = session.command(arguments).env("NO_COLOR", "1").output().unwrap();
        output.stderr.contains(&0x1b)
    };
    assert!(!colored(&["--wrong"]));
    assert!(colored(&["--color", "always", "--wrong"]));
    assert!(colored(&["--color=always", "--wrong"]));
    assert!(!colored(&["--color=never", "--wrong"]));
}

/// If other users can write to the home, they could plant states that a rollback would restore.
#[test]
fn a_home_that_others_can_write_to_is_refused() {
    let session = Session::new();
    session.write("a.txt", "1");
    let home = session.base().join(".takeback");
    assert!(session.output(&["checkpoint"]).status.success());
    for mode in [0o720, 0o702] {
        fs::set_permissions(&home, fs::Permissions::from_mode(mode)).unwrap();
        let output = session.output(&["rollback", "1"]);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("other users can write to takeback's home"), "{text}");
        assert!(text.contains(&format!("chmod go-w {}", home.display())), "{text}");
    }
    fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(session.output(&["list"]).status.success());
}

#[test]
fn the_home_of_another_user_is_refused() {
    let session = Session::new();
    fs::create_dir(session.base().join(".takeback")).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=64321", "--clear-groups", env!("CARGO_BIN_EXE_takeback"), "status"]);
    command.current_dir("/").env("HOME", session.base());
    let is_open = fs::set_permissions(session.base(), fs::Permissions::from_mode(0o755)).is_ok();
    match command.output() {
        Ok(output) if is_open && !said(&output).contains("setpriv:") => {
            assert!(said(&output).contains("belongs to another user"), "{}", said(&output));
            assert_eq!(output.status.code(), Some(1));
        }
        _ => tell_skipped("setpriv cannot become another user"),
    }
}
