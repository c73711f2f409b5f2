//! The commands and their options: accepted arguments, refusals and output.

use serde_json::json;

use crate::agent::{Agent, configure};
use crate::session::Session;

/// A project in which an agent has worked for two turns.
fn with_two_turns() -> Session {
    let session = Session::new();
    session.write("config.py", "old\n");
    session.write("dist/x", "");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("add\n  the cart");
    agent.writes("src/app.py", "1\n2\n3\n");
    agent.writes("src/cart.py", "1\n");
    agent.pretends("psql shop -c 'drop table carts'");
    agent.is_done();
    agent.hears("rename the setting");
    agent.runs("sed -i s/old/new/ config.py");
    agent.is_done();
    session
}

#[test]
fn the_list_has_several_names() {
    let mut session = with_two_turns();
    session.takeback(&[]);
    session.assert(
        "
$ takeback
Checkpoints for ~/project
   1  <id>  <time>  before Bash: sed -i s/old/new/ config.py           (1 file, +1/−1)   “rename the setting”  1 path not covered
   2  <id>  <time>  before Write src/app.py                   3 steps  (2 files, +4/−0)  “add the cart”  ⚠ database  1 path not covered
",
    );
    let list = session.json(&["list"]);
    for other in [&["rollback"][..], &["rollback", "list"], &["ls"], &[]] {
        assert_eq!(session.json(other), list, "{other:?}");
    }
    session.takeback(&["list", "--steps"]);
    session.takeback(&["--steps"]);
    session.takeback(&["rollback", "--steps"]);
    session.assert(
        "
$ takeback list --steps
Checkpoints for ~/project
   1  <id>  <time>  before Bash: sed -i s/old/new/ config.py                 (1 file, +1/−1)   “rename the setting”  1 path not covered
 1.1  <id>  <time>    before Bash: sed -i s/old/new/ config.py
   2  <id>  <time>  before Write src/app.py                         3 steps  (2 files, +4/−0)  “add the cart”  ⚠ database  1 path not covered
 2.1  <id>  <time>    before Write src/app.py
 2.2  <id>  <time>    before Write src/cart.py
 2.3  <id>  <time>    before Bash: psql shop -c 'drop table carts'
$ takeback --steps
Checkpoints for ~/project
   1  <id>  <time>  before Bash: sed -i s/old/new/ config.py                 (1 file, +1/−1)   “rename the setting”  1 path not covered
 1.1  <id>  <time>    before Bash: sed -i s/old/new/ config.py
   2  <id>  <time>  before Write src/app.py                         3 steps  (2 files, +4/−0)  “add the cart”  ⚠ database  1 path not covered
 2.1  <id>  <time>    before Write src/app.py
 2.2  <id>  <time>    before Write src/cart.py
 2.3  <id>  <time>    before Bash: psql shop -c 'drop table carts'
$ takeback rollback --steps
Checkpoints for ~/project
   1  <id>  <time>  before Bash: sed -i s/old/new/ config.py                 (1 file, +1/−1)   “rename the setting”  1 path not covered
 1.1  <id>  <time>    before Bash: sed -i s/old/new/ config.py
   2  <id>  <time>  before Write src/app.py                         3 steps  (2 files, +4/−0)  “add the cart”  ⚠ database  1 path not covered
 2.1  <id>  <time>    before Write src/app.py
 2.2  <id>  <time>    before Write src/cart.py
 2.3  <id>  <time>    before Bash: psql shop -c 'drop table carts'
",
    );
}

#[test]
fn a_turn_is_shown_in_full() {
    let mut session = with_two_turns();
    session.takeback(&["show", "2"]);
    session.takeback(&["show", "2.2"]);
    session.takeback(&["show", "1"]);
    session.takeback(&["show", "3"]);
    session.assert(
        "
$ takeback show 2
Checkpoint 2  <id>  <time>
  reason   before Write src/app.py
  session  mine:s1, turn 1
  tool     Write
  covers   1 file
Prompt:
  add
    the cart
Steps:
  2.1  <time>  before Write src/app.py
  2.2  <time>  before Write src/cart.py
  2.3  <time>  before Bash: psql shop -c 'drop table carts'
Changed by the turn (2 files, +4/−0):
  src/app.py  (added, +3/−0)
  src/cart.py  (added, +1/−0)
No rollback reverses:
  database: psql shop -c 'drop table carts'
Not covered:
  dist  (excluded)
$ takeback show 2.2
Checkpoint 2.2  <id>  <time>
  reason   before Write src/cart.py
  session  mine:s1, turn 1
  tool     Write
  covers   2 files
Prompt:
  add
    the cart
Not covered:
  dist  (excluded)
$ takeback show 1
Checkpoint 1  <id>  <time>
  reason   before Bash: sed -i s/old/new/ config.py
  session  mine:s1, turn 2
  tool     Bash
  covers   3 files
Prompt:
  rename the setting
Steps:
  1.1  <time>  before Bash: sed -i s/old/new/ config.py
Changed by the turn (1 file, +1/−1):
  config.py  (modified, +1/−1)
Not covered:
  dist  (excluded)
$ takeback show 3
! error: no checkpoint 3: this workspace has 2
! hint: `takeback rollback` lists the checkpoints of this workspace
[exit Some(1)]
",
    );
    let view = session.json(&["show", "2"]);
    assert_eq!(view["number"], "2");
    assert_eq!(view["prompt"], "add\n  the cart");
    let changed = |at: usize| &view["changes"][at];
    assert_eq!((&changed(0)["path"], &changed(0)["kind"]), (&json!("src/app.py"), &json!("added")));
    assert_eq!(changed(1)["lines"], json!({ "insertions": 1, "deletions": 0 }));
    assert_eq!(view["effects"][0]["kind"], "database");
    assert_eq!(view["uncovered"][0]["path"], "dist");
    assert_eq!(view["steps"].as_array().unwrap().len(), 3);
}

#[test]
fn a_checkpoint_of_your_own_is_shown_in_full() {
    let mut session = Session::new();
    session.write("a", "1\n");
    let arguments = ["checkpoint", "--name", "good", "--pin", "--reason", "all tests pass"];
    session.takeback(&arguments);
    session.write("a", "2\n");
    session.takeback(&["checkpoint"]);
    session.takeback(&["show", "good"]);
    session.takeback(&["rollback", "good"]);
    session.assert(
        "
$ takeback checkpoint --name good --pin --reason all tests pass
Checkpoint <id> of 1 file.
$ takeback checkpoint
Checkpoint <id> of 1 file.
$ takeback show good
Checkpoint 2  <id>  <time>
  reason  all tests pass
  name    good
  pinned  yes: it is never pruned
  covers  1 file
Changed until the next checkpoint (1 file, +1/−1):
  a  (modified, +1/−1)
$ takeback rollback good
Restored:
  a
Done. `takeback rollback undo` takes this back.
",
    );
}

#[test]
fn two_checkpoints_can_be_compared() {
    let mut session = Session::new();
    session.write("a", "1\n");
    session.write("b", "1\n");
    session.takeback(&["checkpoint", "--name", "first"]);
    session.write("a", "2\n");
    session.takeback(&["checkpoint"]);
    session.write("b", "3\n");
    session.takeback(&["diff", "first", "1"]);
    session.takeback(&["diff", "1"]);
    session.takeback(&["diff", "first", "1", "b"]);
    session.takeback(&["diff", "2", "b"]);
    session.takeback(&["diff", "1", "first", "--", "a"]);
    session.takeback(&["diff", "1", "7"]);
    session.takeback(&["diff"]);
    session.assert(
        "
$ takeback checkpoint --name first
Checkpoint <id> of 2 files.
$ takeback checkpoint
Checkpoint <id> of 2 files.
$ takeback diff first 1
1 file, +1/−1 between <id> and <id>
Changed:
  a  (modified, +1/−1)

diff --git a/a b/a
index d00491f..0cfbf08 100644
--- a/a
+++ b/a
@@ -1 +1 @@
-1
+2
$ takeback diff 1
1 file, +1/−1 since <id>
Changed:
  b  (modified, +1/−1)

diff --git a/b b/b
index d00491f..00750ed 100644
--- a/b
+++ b/b
@@ -1 +1 @@
-1
+3
$ takeback diff first 1 b
Nothing changed between <id> and <id>.
$ takeback diff 2 b
1 file, +1/−1 since <id>
Changed:
  b  (modified, +1/−1)

diff --git a/b b/b
index d00491f..00750ed 100644
--- a/b
+++ b/b
@@ -1 +1 @@
-1
+3
$ takeback diff 1 first -- a
1 file, +1/−1 between <id> and <id>
Changed:
  a  (modified, +1/−1)

diff --git a/a b/a
index 0cfbf08..d00491f 100644
--- a/a
+++ b/a
@@ -1 +1 @@
-2
+1
$ takeback diff 1 7
! error: no checkpoint 7: this workspace has 2
! hint: `takeback rollback` lists the checkpoints of this workspace
[exit Some(1)]
$ takeback diff
! error: the following required arguments were not provided: <CHECKPOINT>
! hint: `takeback list` lists the checkpoints
! Usage: takeback diff <CHECKPOINT> [CHECKPOINT|PATH]... [-- <PATH>...]
[exit Some(2)]
",
    );
    let view = session.json(&["diff", "2", "1"]);
    let rows = session.json(&["list"]);
    assert_eq!(view["checkpoint"], rows["checkpoints"][1]["id"]);
    assert_eq!(view["to"], rows["checkpoints"][0]["id"]);
}

/// A word after the first checkpoint may be a second one or a path.
#[test]
fn a_path_that_looks_like_a_checkpoint_is_asked_about() {
    let mut session = Session::new();
    session.write("1", "1\n");
    session.write("facade/x", "1\n");
    session.takeback(&["checkpoint"]);
    session.write("1", "2\n");
    session.write("facade/x", "2\n");
    session.takeback(&["diff", "1", "1"]);
    session.takeback(&["diff", "1", "--", "1"]);
    session.takeback(&["diff", "1", "facade"]);
    session.assert(
        "
$ takeback checkpoint
Checkpoint <id> of 2 files.
$ takeback diff 1 1
! error: 1 is both a checkpoint and a path
! hint: write the path as ./1, or the checkpoint by its id
[exit Some(1)]
$ takeback diff 1 -- 1
1 file, +1/−1 since <id>
Changed:
  1  (modified, +1/−1)

diff --git a/1 b/1
index d00491f..0cfbf08 100644
--- a/1
+++ b/1
@@ -1 +1 @@
-1
+2
$ takeback diff 1 facade
1 file, +1/−1 since <id>
Changed:
  facade/x  (modified, +1/−1)

diff --git a/facade/x b/facade/x
index d00491f..0cfbf08 100644
--- a/facade/x
+++ b/facade/x
@@ -1 +1 @@
-1
+2
",
    );
}

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
! hint: `takeback undo --turn 3` takes back one turn, `takeback rollback 3` returns to before it
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
fn options_may_stand_before_the_subcommand() {
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
fn unknown_commands_suggest_the_nearest_one() {
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
fn names_of_commands_are_no_names_of_checkpoints() {
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
! hint: give its number in the list, its name, or at least 6 digits of its id
[exit Some(1)]
$ takeback checkpoint --name list
! error: \"list\" cannot be the name of a checkpoint: the word is a command
! hint: letters, digits and dashes, as in `before-refactoring`
[exit Some(1)]
",
    );
}

#[test]
fn the_status_is_one_page() {
    let mut session = with_two_turns();
    // The size of the store depends on the length of its paths.
    session.replace(|line| match line.split_once(" of at most 2.1 GB") {
        Some((_, rest)) => format!("Store        <size> of at most 2.1 GB{rest}"),
        None => line.to_owned(),
    });
    session.takeback(&["status"]);
    session.takeback(&["-C", "..", "status"]);
    configure(&session, "[checkpoints]\nenabled = false\n");
    session.takeback(&["status"]);
    session.assert(
        "
$ takeback status
Workspace    ~/project
Checkpoints  2
Newest       <time>  before Bash: sed -i s/old/new/ config.py  “rename the setting”
Store        <size> of at most 2.1 GB; 1 workspace
Agents       none found on this machine
$ takeback -C .. status
Workspace    none: this directory is not a project
Checkpoints  0
Store        <size> of at most 2.1 GB; 1 workspace
Agents       none found on this machine
$ takeback status
Workspace    ~/project
             checkpoints are switched off
Checkpoints  2
Newest       <time>  before Bash: sed -i s/old/new/ config.py  “rename the setting”
Store        <size> of at most 2.1 GB; 1 workspace
Agents       none found on this machine
",
    );
    let view = session.json(&["status"]);
    assert_eq!((&view["checkpoints"], &view["enabled"]), (&json!(2), &json!(false)));
    assert_eq!(view["newest"]["prompt"], "rename the setting");
}

#[test]
fn search_is_also_a_command_of_its_own() {
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
Takes back what an AI agent did: its files and its conversation, together

Usage: takeback [OPTIONS] [COMMAND]

Everyday:
  list         List the checkpoints of this workspace, newest first
  show         Show a turn or checkpoint in full
  diff         Show what changed since a checkpoint, or between two
  rollback     Return to a checkpoint, or undo a rollback
  undo         Take back what the agent changed in its last turn, and keep everything else
  redo         Redo what `takeback rollback undo` undid
  checkpoint   Take a checkpoint of this workspace now
  search       Search all messages, tool names and tool calls
  status       Show the state of this workspace, the store and the agents on one page

Looking after:
  install      Install takeback into agents: hooks, and a /rollback command
  uninstall    Remove takeback from the configuration of agents
  doctor       Check that everything works: agents, hooks, store, ledger
  sessions     List, show, search and edit the sessions of all agents
  checkpoints  Maintain the store of all checkpoints
  config       Show the settings in force and where each comes from
  explain      Explain a shell command: whether it changes files, and what cannot be undone
  demo         Watch takeback work on a scratch project

For agents:
  run          Run a command between two checkpoints: for agents without hooks
  hook         Report what an agent does: one JSON object on standard input
  rpc          Serve an agent for as long as it runs: JSON-RPC 2.0, one message per line

Global options:
  -C <DIR>            Work as if started in DIR
      --home <DIR>    Takeback's own directory [default: $TAKEBACK_HOME or ~/.takeback]
      --json          Print one JSON document instead of text
  -y, --yes           Skip the confirmation
  -v, --verbose       List all paths instead of the first few
      --color <WHEN>  When to use colours [default: auto] [possible values: auto, always, never]
      --no-pager      Do not use a pager for long output [the pager: $TAKEBACK_PAGER, $PAGER, or
                      less]
  -h, --help          Print help
  -V, --version       Print the version

Examples:
  takeback install claude           protect what Claude Code does from now on
  takeback                          list the checkpoints of this directory
  takeback rollback 1               return to the newest one
  takeback rollback 1 src/main.rs   only this file
  takeback rollback undo            undo the rollback
  takeback undo                     take back only what the agent changed in its last turn
  takeback checkpoint --reason 'before the big refactoring'
  takeback search chat-send         search the sessions of all agents
  takeback demo                     see it work on a scratch project
$ takeback rollback --help
Return to a checkpoint, or undo a rollback

Returns the workspace to a checkpoint, and the conversation to before that turn; or only the given
files and directories. The present state is saved first, so `takeback rollback undo` brings it back.
Without arguments, lists the checkpoints.

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
          Only these files and directories: names, not patterns

Options:
      --dry-run
          Show what would happen and change nothing

      --files-only
          Keep the conversation as it is

      --chat-only
          Keep the files as they are

      --index
          Also restore what was staged in the workspace's own git repository

Global options:
  -C <DIR>
          Work as if started in DIR

      --home <DIR>
          Takeback's own directory [default: $TAKEBACK_HOME or ~/.takeback]

      --json
          Print one JSON document instead of text

  -y, --yes
          Skip the confirmation

  -v, --verbose
          List all paths instead of the first few

      --color <WHEN>
          When to use colours
          
          [default: auto]
          [possible values: auto, always, never]

      --no-pager
          Do not use a pager for long output [the pager: $TAKEBACK_PAGER, $PAGER, or less]

  -h, --help
          Print help

Examples:
  takeback rollback 2                     return to number 2 of the list
  takeback rollback 2.3                   to before the third step of that turn
  takeback rollback good src docs/a.md    only these files and directories
  takeback rollback 2 --dry-run           show what would happen
  takeback rollback -- list               to the checkpoint called list
  takeback rollback undo                  back to before the last rollback; repeat to go further
  takeback rollback redo                  the reverse of that
$ takeback redo -h
Redo what `takeback rollback undo` undid

Usage: takeback redo [OPTIONS]

Options:
      --dry-run  Show what would happen and change nothing

Global options:
  -C <DIR>            Work as if started in DIR
      --home <DIR>    Takeback's own directory [default: $TAKEBACK_HOME or ~/.takeback]
      --json          Print one JSON document instead of text
  -y, --yes           Skip the confirmation
  -v, --verbose       List all paths instead of the first few
      --color <WHEN>  When to use colours [default: auto] [possible values: auto, always, never]
      --no-pager      Do not use a pager for long output [the pager: $TAKEBACK_PAGER, $PAGER, or
                      less]
  -h, --help          Print help

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
