//! Everything that a user may get wrong, and what takeback says about it. All errors are in one
//! file, so that a change to their wording can be reviewed as a whole.

use crate::agent::configure;
use crate::session::Session;
use crate::sessions::with_examples;

/// Creates a project with a checkpoint of one file.
fn with_checkpoint() -> Session {
    let session = Session::new();
    session.write("a.py", "1\n");
    assert!(session.output(&["checkpoint", "--name", "good"]).status.success());
    session.write("a.py", "2\n");
    session
}

#[test]
fn errors_in_commands_and_options_say_what_was_probably_meant() {
    let mut session = Session::new();
    for words in [
        "lits",
        "histroy",
        "log",
        "revert 1",
        "restore a.py",
        "stats",
        "usage",
        "--jsn",
        "list --limit 3",
        "list now",
        "rollback",
        "rollback 1 --force",
        "diff",
        "undo --to 3",
        "undo --turn x",
        "checkpoint before the refactoring",
        "search",
        "search x --since soon",
        "search x --limit 0",
        "sessions sho x",
        "sessions show",
        "sessions stats --by month",
        "report --day someday",
        "completions tcsh",
        "config set max_files",
        "config get max_fils",
        "serve --port 99999",
        "export",
        "help turn",
        "help nonsense",
        "run",
        "hook",
        "goal start",
    ] {
        session.takeback(&words.split(' ').collect::<Vec<_>>());
    }
    session.assert(
        "
$ takeback lits
! error: unknown command 'lits'
! hint: did you mean `takeback list`?
! Usage: takeback [OPTIONS] [COMMAND]
[exit Some(2)]
$ takeback histroy
! error: unknown command 'histroy'
! hint: did you mean `takeback list`?
! Usage: takeback [OPTIONS] [COMMAND]
[exit Some(2)]
$ takeback log
! error: unknown command 'log'
! hint: did you mean `takeback list`?
! Usage: takeback [OPTIONS] [COMMAND]
[exit Some(2)]
$ takeback revert 1
! error: unknown command 'revert'
! hint: did you mean `takeback rollback`?
! Usage: takeback [OPTIONS] [COMMAND]
[exit Some(2)]
$ takeback restore a.py
! error: unknown command 'restore'
! hint: did you mean `takeback rollback`?
! Usage: takeback [OPTIONS] [COMMAND]
[exit Some(2)]
$ takeback stats
! error: unknown command 'stats'
! hint: did you mean `takeback sessions stats`?
! Usage: takeback [OPTIONS] [COMMAND]
[exit Some(2)]
$ takeback usage
! error: unknown command 'usage'
! hint: did you mean `takeback sessions stats`?
! Usage: takeback [OPTIONS] [COMMAND]
[exit Some(2)]
$ takeback --jsn
! error: unexpected argument '--jsn' found
! hint: a similar argument exists: '--json'
! Usage: takeback list --json
[exit Some(2)]
$ takeback list --limit 3
! error: unexpected argument '--limit' found
! hint: --limit is an option of `takeback search`
! Usage: takeback list [OPTIONS]
[exit Some(2)]
$ takeback list now
! error: unexpected argument 'now' found
! hint: `takeback list --help` shows examples
! Usage: takeback list [OPTIONS]
[exit Some(2)]
$ takeback rollback
No checkpoints for ~/project yet. They appear before an agent's next change.
`takeback install` adds takeback to your agents; `takeback checkpoint` takes one now.
$ takeback rollback 1 --force
! error: unexpected argument '--force' found
! hint: `takeback rollback --help` shows examples
! Usage: takeback rollback <CHECKPOINT> [PATH]...
[exit Some(2)]
$ takeback diff
! error: the following required arguments were not provided: <CHECKPOINT>
! hint: `takeback list` lists the checkpoints
! Usage: takeback diff <CHECKPOINT> [CHECKPOINT|PATH]... [-- <PATH>...]
[exit Some(2)]
$ takeback undo --to 3
! error: unexpected argument '--to' found
! hint: `takeback undo --help` shows examples
! Usage: takeback undo [OPTIONS]
[exit Some(2)]
$ takeback undo --turn x
! error: invalid value 'x' for '--turn <N>': not a whole number
[exit Some(2)]
$ takeback checkpoint before the refactoring
! error: unexpected argument 'before' found
! hint: give the reason as an option: --reason 'before the refactoring'
! Usage: takeback checkpoint [OPTIONS]
[exit Some(2)]
$ takeback search
! error: the following required arguments were not provided: <QUERY>...
! hint: `takeback search --help` shows examples
! Usage: takeback search <QUERY>...
[exit Some(2)]
$ takeback search x --since soon
! error: invalid value 'soon' for '--since <WHEN>': give a time span like 30m, 12h, 7d, 3w, 6mo or 1y, or a date like <date>
[exit Some(2)]
$ takeback search x --limit 0
! error: invalid value '0' for '--limit <N>': 0 is less than 1
[exit Some(2)]
$ takeback sessions sho x
! error: unknown command 'sho'
! hint: did you mean `takeback sessions show`?
! Usage: takeback sessions [OPTIONS] <COMMAND>
[exit Some(2)]
$ takeback sessions show
! error: the following required arguments were not provided: <SESSION>
! hint: `takeback sessions list` lists the sessions
! Usage: takeback sessions show <SESSION>
[exit Some(2)]
$ takeback sessions stats --by month
! error: invalid value 'month' for '--by <BY>' [possible values: model, day, workspace, agent, session]
[exit Some(2)]
$ takeback report --day someday
! error: invalid value 'someday' for '--day <DAY>': give today, yesterday, or a date like <date>
[exit Some(2)]
$ takeback completions tcsh
! error: unknown command 'tcsh'
! hint: did you mean `takeback completions zsh`?
! Usage: takeback completions [OPTIONS] <COMMAND>
[exit Some(2)]
$ takeback config set max_files
! error: the following required arguments were not provided: <VALUE>...
! hint: `takeback config set --help` shows examples
! Usage: takeback config set <SETTING> <VALUE>...
[exit Some(2)]
$ takeback config get max_fils
! error: there is no setting `max_fils`
! hint: did you mean `max_files`? `takeback config` lists all settings
[exit Some(1)]
$ takeback serve --port 99999
! error: invalid value '99999' for '--port <N>': 99999 is not between 0 and 65535
[exit Some(2)]
$ takeback export
! error: the following required arguments were not provided: --html <TURN|SESSION|DAY>
! hint: `takeback export --help` shows examples
! Usage: takeback export --html <TURN|SESSION|DAY>
[exit Some(2)]
$ takeback help turn
! error: unknown command 'turn'
! hint: did you mean `takeback help turns`?
! Usage: takeback [OPTIONS] [COMMAND]
[exit Some(2)]
$ takeback help nonsense
! error: unknown command 'nonsense'
! hint: the topics are: turns, safety, conversations, effects, coverage, patterns, privacy, prices, exit-codes
! Usage: takeback [OPTIONS] [COMMAND]
[exit Some(2)]
$ takeback run
! error: the following required arguments were not provided: <COMMAND>...
! hint: `takeback run --help` shows examples
! Usage: takeback run <COMMAND>...
[exit Some(2)]
$ takeback hook
! takeback: error: the following required arguments were not provided:
!   <AGENT>
! 
! Usage: takeback hook <AGENT> [EVENT]
! 
! For more information, try '--help'.
$ takeback goal start
! error: the following required arguments were not provided: <GOAL>...
! hint: `takeback goal start --help` shows examples
! Usage: takeback goal start <GOAL>...
[exit Some(2)]
",
    );
}

#[test]
fn errors_in_checkpoints_and_paths_say_what_exists() {
    let mut session = with_checkpoint();
    for words in [
        "rollback 9",
        "rollback 1.5",
        "rollback latest",
        "rollback abcdef",
        "rollback 1 missing.py --yes",
        "rollback 1 *.js",
        "rollback 1 /etc/passwd",
        "rollback 1 a.py --chat-only",
        "rollback undo",
        "redo",
        "undo",
        "undo --turn 1",
        "undo 1",
        "show 4",
        "diff 1 2 3",
        "checkpoint --name good",
        "checkpoint --name list",
        "checkpoints name 1 two words",
        "checkpoints delete 7",
        "fork 1",
        "fork 1 .",
        "compare . nowhere",
        "resume 1",
        "-C nowhere list",
        "-C a.py list",
        "--profile work list",
        "install cloude",
        "uninstall cloude",
        "explain",
        "explain rm -rf build",
        "tasks resume x",
        "sessions show x",
        "sessions show x --around 3",
        "doctor --bundle /nowhere/x.tar",
        "mcp now",
    ] {
        session.takeback(&words.split(' ').collect::<Vec<_>>());
    }
    session.assert(
        "
$ takeback rollback 9
! error: no checkpoint 9: this workspace has 1
! hint: `takeback list` lists the checkpoints of this workspace
[exit Some(1)]
$ takeback rollback 1.5
! error: checkpoint 1 has no step 5: it has 1
! hint: `takeback list --steps` lists the steps
[exit Some(1)]
$ takeback rollback latest
! error: \"latest\" is not a checkpoint
! hint: give a number from the list, a name, or at least 6 digits of an id
[exit Some(1)]
$ takeback rollback abcdef
! error: this workspace has no checkpoint abcdef
! hint: `takeback list` lists the checkpoints of this workspace
[exit Some(1)]
$ takeback rollback 1 missing.py --yes
! error: missing.py is neither in the checkpoint nor in the workspace
[exit Some(1)]
$ takeback rollback 1 *.js
! error: the rollback would change no file that matches *.js
! hint: `takeback diff CHECKPOINT` lists what has changed; a pattern such as '*.py' or 'src/**/test_?.py' is relative to the current directory
[exit Some(1)]
$ takeback rollback 1 /etc/passwd
! error: /etc/passwd is outside the workspace ~/project
! hint: give paths inside the workspace
[exit Some(1)]
$ takeback rollback 1 a.py --chat-only
! error: --chat-only takes no paths
! hint: drop --chat-only to restore files, or drop the paths
[exit Some(1)]
$ takeback rollback undo
! error: no rollback to undo in this workspace
[exit Some(1)]
$ takeback redo
! error: no undone rollback to redo in this workspace
[exit Some(1)]
$ takeback undo
! error: no turn left to undo in this workspace
! hint: `takeback list` lists the checkpoints of this workspace
[exit Some(1)]
$ takeback undo --turn 1
! error: checkpoint 1 was taken by hand: there is no turn to undo
! hint: `takeback list` lists the checkpoints of this workspace
[exit Some(1)]
$ takeback undo 1
! error: `undo` takes no checkpoint
! hint: `takeback undo --turn 1` takes back one turn; `takeback rollback 1` returns to the state before it
[exit Some(1)]
$ takeback show 4
! error: no checkpoint 4: this workspace has 1
! hint: `takeback list` lists the checkpoints of this workspace
[exit Some(1)]
$ takeback diff 1 2 3
! error: no checkpoint 2: this workspace has 1
! hint: `takeback list` lists the checkpoints of this workspace
[exit Some(1)]
$ takeback checkpoint --name good
! error: this workspace already has a checkpoint named \"good\"
! hint: choose another name
[exit Some(1)]
$ takeback checkpoint --name list
! error: \"list\" cannot be the name of a checkpoint: the word is a command
! hint: use letters, digits and dashes, as in `before-refactoring`
[exit Some(1)]
$ takeback checkpoints name 1 two words
! error: unexpected argument 'words' found
! hint: `takeback checkpoints name --help` shows examples
! Usage: takeback checkpoints name [OPTIONS] <CHECKPOINT> [NAME]
[exit Some(2)]
$ takeback checkpoints delete 7
! error: no checkpoint 7: this workspace has 1
! hint: `takeback list` lists the checkpoints of this workspace
[exit Some(1)]
$ takeback fork 1
Forked checkpoint <id> into ~/project-fork: 1 file.
The checkpoint belongs to no conversation; to fork one as well, use SESSION@CHECKPOINT.
Continue there: `cd ~/project-fork`
$ takeback fork 1 .
! error: ~/project is inside the workspace that is being forked
! hint: name a directory outside the workspace: a rollback of the workspace would delete the fork
[exit Some(1)]
$ takeback compare . nowhere
! error: nowhere is not a directory
[exit Some(1)]
$ takeback resume 1
! error: no session \"1\"
! hint: `takeback sessions list` lists the sessions
[exit Some(1)]
$ takeback -C nowhere list
Checkpoints for ~/project
  ●  1  <id>  <age>  taken by hand  [good]

● now
takeback rollback 1  return files and conversation to the state before a row
takeback diff 1      show what changed since then
takeback undo        take back only the last turn, and keep your edits
! warning: nowhere does not exist; using the workspace that it belongs to
$ takeback -C a.py list
No checkpoints for ~/project/a.py yet. They appear before an agent's next change.
`takeback install` adds takeback to your agents; `takeback checkpoint` takes one now.
Other workspaces have checkpoints:
  ~/project-fork
  ~/project
$ takeback --profile work list
Checkpoints for ~/project
  ●  1  <id>  <age>  taken by hand  [good]

● now
takeback rollback 1  return files and conversation to the state before a row
takeback diff 1      show what changed since then
takeback undo        take back only the last turn, and keep your edits
! warning: no profile `work` in ~/.takeback/config.toml; continuing with the valid settings
$ takeback install cloude
! error: takeback cannot be installed into \"cloude\"
! hint: did you mean `claude`?
[exit Some(1)]
$ takeback uninstall cloude
! error: takeback cannot be installed into \"cloude\"
! hint: did you mean `claude`?
[exit Some(1)]
$ takeback explain
! error: the following required arguments were not provided: <COMMAND>
! hint: `takeback explain --help` shows examples
! Usage: takeback explain <COMMAND>
[exit Some(2)]
$ takeback explain rm -rf build
! error: unexpected argument '-r' found
! hint: give the command as one argument: `takeback explain 'rm -rf build'`
! Usage: takeback explain [OPTIONS] <COMMAND>
[exit Some(2)]
$ takeback tasks resume x
! error: no task \"x\"
! hint: `takeback tasks --all` lists the tasks
[exit Some(1)]
$ takeback sessions show x
! error: no session \"x\"
! hint: `takeback sessions list` lists the sessions
[exit Some(1)]
$ takeback sessions show x --around 3
! error: no session \"x\"
! hint: `takeback sessions list` lists the sessions
[exit Some(1)]
$ takeback doctor --bundle /nowhere/x.tar
! error: cannot write /nowhere/x.tar
!   because: No such file or directory (os error 2)
[exit Some(1)]
$ takeback mcp now
! error: unexpected argument 'now' found
! hint: `takeback mcp --help` shows examples
! Usage: takeback mcp [OPTIONS]
[exit Some(2)]
",
    );
}

#[test]
fn errors_in_settings_say_what_is_expected() {
    let mut session = Session::new();
    for text in [
        "[checkpoints]\nmax_fils = 3\n",
        "[checkpoint]\nmax_files = 3\n",
        "[checkpoints]\nmax_files = \"many\"\n",
        "[checkpoints]\nmax_files = -1\n",
        "[checkpoints]\ngranularity = \"call\"\n",
        "[checkpoints\n",
        "[prices.x]\ninput = -1\n",
        "[prices.x]\ninputs = 1\n",
        "[profiles.work.checkpoints]\nstrct = true\n",
    ] {
        configure(&session, text);
        session.takeback(&["config"]);
    }
    configure(&session, "[profiles.work.checkpoints]\nstrict = true\n");
    session.takeback(&["config", "--profile", "wrk"]);
    session.takeback(&["config", "set", "max_files", "lots"]);
    session.takeback(&["config", "set", "prices.x.outptu", "1"]);
    session.takeback(&["config", "unset", "max"]);
    session.assert(
        "
$ takeback config
! error: ~/.takeback/config.toml, line 2: unknown field `max_fils`, expected one of `enabled`, `granularity`, `max_snapshots`, `max_total_size_mb`, `max_file_size_mb`, `max_guarded_kb`, `max_named_mb`, `max_files`, `timeout_ms`, `strict`, `exclude`, `include`, `private`, `auto_prune`, `retention_days`, `delete_orphans`, `min_interval_hours`
! hint: did you mean `max_files`?
[exit Some(1)]
$ takeback config
! error: ~/.takeback/config.toml, line 1: unknown field `checkpoint`, expected one of `checkpoints`, `ledger`, `protection`, `fleet`, `chat`, `prices`, `providers`
! hint: did you mean `checkpoints`?
[exit Some(1)]
$ takeback config
! error: ~/.takeback/config.toml, line 2: invalid type: string \"many\", expected u64
! hint: `max_files` is a whole number: in a workspace with more files, only the paths that calls name are captured
[exit Some(1)]
$ takeback config
! error: ~/.takeback/config.toml, line 2: invalid value: integer `-1`, expected u64
! hint: `max_files` is a whole number: in a workspace with more files, only the paths that calls name are captured
[exit Some(1)]
$ takeback config
! error: ~/.takeback/config.toml, line 2: unknown variant `call`, expected `step` or `turn`
! hint: `granularity` is step or turn: a checkpoint before each mutating call, or only before the first one of a turn
[exit Some(1)]
$ takeback config
! error: ~/.takeback/config.toml, line 1: unclosed table, expected `]`
! hint: fix the file, or remove it to use the defaults
[exit Some(1)]
$ takeback config
! error: ~/.takeback/config.toml, line 1: a price must be a number that is not negative
! hint: fix the file, or remove it to use the defaults
[exit Some(1)]
$ takeback config
! error: ~/.takeback/config.toml, line 2: unknown field `inputs`, expected one of `input`, `output`, `cache_read`, `cache_write`
! hint: did you mean `input`?
[exit Some(1)]
$ takeback config
! error: ~/.takeback/config.toml, line 2: unknown field `strct`, expected one of `enabled`, `granularity`, `max_snapshots`, `max_total_size_mb`, `max_file_size_mb`, `max_guarded_kb`, `max_named_mb`, `max_files`, `timeout_ms`, `strict`, `exclude`, `include`, `private`, `auto_prune`, `retention_days`, `delete_orphans`, `min_interval_hours`
! hint: did you mean `strict`?
[exit Some(1)]
$ takeback config --profile wrk
! error: no profile `wrk` in ~/.takeback/config.toml
! hint: did you mean `work`?
[exit Some(1)]
$ takeback config set max_files lots
! error: ~/.takeback/config.toml, line 5: invalid type: string \"lots\", expected u64
! hint: `max_files` is a whole number: in a workspace with more files, only the paths that calls name are captured
[exit Some(1)]
$ takeback config set prices.x.outptu 1
! error: there is no setting `prices.x.outptu`
! hint: did you mean `prices.NAME.output`? `takeback config` lists all settings
[exit Some(1)]
$ takeback config unset max
! error: there is no setting `max`
! hint: did you mean `max_files`? `takeback config` lists all settings
[exit Some(1)]
",
    );
}

#[test]
fn errors_in_arguments_for_sessions_say_what_exists() {
    let mut session = with_examples();
    for words in [
        "sessions show 4f2a --around 99",
        "sessions show 4f2 --around x",
        "sessions show 4f2a --around 2 --format json",
        "sessions title 4f2a --json",
        "search --workspace",
        "search",
    ] {
        session.takeback(&words.split(' ').collect::<Vec<_>>());
    }
    session.assert(
        "
$ takeback sessions show 4f2a --around 99
! error: the session has no message 99
! hint: its messages have numbers from 1 to 5
[exit Some(1)]
$ takeback sessions show 4f2 --around x
! error: invalid value 'x' for '--around <MESSAGE>': not a whole number
[exit Some(2)]
$ takeback sessions show 4f2a --around 2 --format json
! error: the argument '--around <MESSAGE>' cannot be used with '--format <FORMAT>'
! Usage: takeback sessions show --around <MESSAGE> <SESSION>
[exit Some(2)]
$ takeback sessions title 4f2a --json
{\"error\":{\"causes\":[],\"hint\":\"`takeback sessions title --help` shows examples\",\"message\":\"the following required arguments were not provided: <TITLE>\"}}
[exit Some(2)]
$ takeback search --workspace
! error: a value is required for '--workspace <DIR>' but none was supplied
[exit Some(2)]
$ takeback search
! error: the following required arguments were not provided: <QUERY>...
! hint: `takeback search --help` shows examples
! Usage: takeback search <QUERY>...
[exit Some(2)]
",
    );
}

#[test]
fn the_user_is_told_which_limit_left_paths_out() {
    let mut session = Session::new();
    configure(&session, "[checkpoints]\nmax_files = 1\n");
    session.write("a", "1");
    session.write("b", "1");
    session.takeback(&["checkpoint"]);
    session.takeback(&["status"]);
    session.assert(
        "
$ takeback checkpoint
! error: the workspace has more than 1 files to capture
! hint: is this the directory of one project? add build output to .gitignore, or raise max_files
[exit Some(1)]
$ takeback status
Workspace    ~/project
Checkpoints  0
Store        791 B of at most 2.1 GB; 0 workspaces
Agents       none found on this machine
",
    );
}
