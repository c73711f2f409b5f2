//! Ignored files that git replaces: a rollback brings them back, but keeps what the user changed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use rusqlite::Connection;
use takeback_undo::Destination;
use takeback_undo::rollback::RollbackView;

use crate::support::Scratch;

/// Runs a script as an agent's shell does.
fn run(directory: &Path, script: &str) {
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(directory);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "me").env(format!("GIT_{role}_EMAIL"), "me@x");
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Creates a repository that ignores `.env`, with a branch `other` that tracks it.
fn with_repository() -> Scratch {
    let scratch = Scratch::new();
    make_repository(&scratch.project());
    scratch.write(".env", "mine\n");
    scratch
}

fn make_repository(directory: &Path) {
    run(
        directory,
        "git init -q -b main
         printf '.env\\n*.db*\\n' > .gitignore; echo 1 > a; cp a .env.example
         git add .; git commit -qm one
         git checkout -q -b other; echo theirs > .env; git add -f .env; git commit -qm two
         git checkout -q main",
    );
}

/// Plays a turn with one call, which runs a script that takeback cannot analyze.
fn play_script(scratch: &Scratch, prompt: &str, script: &str) {
    scratch.play_turn_of("s", prompt, || run(&scratch.project(), script));
}

fn guarded(view: &RollbackView) -> Vec<String> {
    view.guarded.iter().map(ToString::to_string).collect()
}

/// Commands that replace a file and leave it untracked by git.
const REPLACING: [&str; 6] = [
    "git restore --source=other .env",
    "git checkout -q other -- .env && git reset -q",
    "git reset -q --hard other && git reset -q --soft main && git reset -q",
    "git checkout -qf other && git rm -q --cached .env",
    "git checkout -qf other && git symbolic-ref HEAD refs/heads/main && git reset -q",
    "git checkout-index --help >/dev/null 2>&1; git read-tree other && git checkout-index -fa \
     && git read-tree main",
];

#[test]
fn an_ignored_file_that_git_replaced_comes_back() {
    for script in REPLACING {
        for is_packed in [false, true] {
            let scratch = with_repository();
            if is_packed {
                run(&scratch.project(), "git gc -q");
            }
            play_script(&scratch, "one", script);
            assert_eq!(scratch.read(".env"), "theirs\n", "{script}");
            let view = scratch.roll_back("1");
            assert_eq!(scratch.read(".env"), "mine\n", "{script}");
            assert_eq!(guarded(&view), Vec::<String>::new());
            scratch.carry_out(Destination::BeforeLastRollback);
            assert_eq!(scratch.read(".env"), "theirs\n", "{script}");
            scratch.carry_out(Destination::BeforeLastUndo);
            assert_eq!(scratch.read(".env"), "mine\n", "{script}");
        }
    }
}

#[test]
fn a_replaced_file_in_a_nested_repository_or_a_linked_work_tree_comes_back() {
    let scratch = with_repository();
    let inner = scratch.project().join("inner");
    fs::create_dir(&inner).unwrap();
    make_repository(&inner);
    scratch.write("inner/.env", "mine, too\n");
    play_script(&scratch, "one", "cd inner; git restore --source=other .env");
    scratch.roll_back("1");
    assert_eq!(
        (scratch.read(".env"), scratch.read("inner/.env")),
        ("mine\n".into(), "mine, too\n".into())
    );

    let scratch = Scratch::new();
    let original = scratch.base().join("original");
    fs::create_dir(&original).unwrap();
    make_repository(&original);
    fs::remove_dir(scratch.project()).unwrap();
    run(&original, "git worktree add -q ../project -b tree main");
    scratch.write(".env", "mine\n");
    play_script(&scratch, "one", "git restore --source=other .env");
    scratch.roll_back("1");
    assert_eq!(scratch.read(".env"), "mine\n");
}

#[test]
fn an_edit_by_the_user_after_the_replacement_is_kept() {
    let scratch = with_repository();
    play_script(&scratch, "one", REPLACING[0]);
    scratch.write(".env", "mine, edited\n");
    let view = scratch.roll_back("1");
    assert_eq!(guarded(&view), [".env"]);
    assert_eq!(scratch.read(".env"), "mine, edited\n");
}

#[test]
fn a_file_that_the_user_edited_before_the_replacement_comes_back_as_edited() {
    let scratch = with_repository();
    scratch.play_turn("one", "a", "2\n");
    scratch.write(".env", "mine, edited\n");
    play_script(&scratch, "two", REPLACING[0]);
    run(&scratch.project(), "git branch -f third other && git checkout -q third -- a");
    play_script(&scratch, "three", "git restore --source=other a");
    scratch.roll_back("3");
    assert_eq!((scratch.read("a"), scratch.read(".env")), ("1\n".into(), "mine, edited\n".into()));
    scratch.carry_out(Destination::BeforeLastRollback);
    assert_eq!(scratch.read(".env"), "theirs\n");
}

#[test]
fn a_file_that_is_replaced_twice_comes_back() {
    let scratch = with_repository();
    let commit = "git checkout -q -b third main; git rm -q --cached --ignore-unmatch .env;
                  git checkout -qf other; git checkout -q -b last; echo last > .env;
                  git commit -qam last; git checkout -q main";
    run(&scratch.project(), commit);
    scratch.write(".env", "mine\n");
    play_script(&scratch, "one", REPLACING[0]);
    play_script(&scratch, "two", "git restore --source=last .env");
    assert_eq!(scratch.read(".env"), "last\n");
    scratch.roll_back("2");
    assert_eq!(scratch.read(".env"), "mine\n");
}

/// A guarded file has at most 1 MB. A larger one is captured only because the command may replace
/// it.
#[test]
fn a_large_file_that_git_replaced_comes_back_and_the_rollback_can_be_undone() {
    let scratch = with_repository();
    let large = "mine\n".repeat(300_000);
    scratch.write(".env", &large);
    let script = "git restore --source=other -- .";
    scratch.begin_turn("s", "one");
    let call = scratch.begin_script("s", "c1", script);
    run(&scratch.project(), script);
    scratch.end_call("s", call);
    scratch.end_turn("s");
    assert_eq!(scratch.read(".env"), "theirs\n");
    scratch.roll_back("1");
    assert_eq!(scratch.read(".env"), large);
    scratch.carry_out(Destination::BeforeLastRollback);
    assert_eq!(scratch.read(".env"), "theirs\n");
    scratch.carry_out(Destination::BeforeLastUndo);
    assert_eq!(scratch.read(".env"), large);
}

/// The template is in git, so its content alone does not show who copied it.
#[test]
fn a_file_that_the_user_copied_from_a_template_is_kept() {
    let scratch = with_repository();
    scratch.play_turn("one", "b", "1\n");
    fs::copy(scratch.project().join(".env.example"), scratch.project().join(".env")).unwrap();
    scratch.play_turn("two", "b", "2\n");
    let view = scratch.roll_back("2");
    assert_eq!((guarded(&view), scratch.read(".env")), (vec![".env".into()], "1\n".into()));
}

#[test]
fn an_edit_made_while_a_call_waits_for_permission_is_kept() {
    let scratch = with_repository();
    scratch.begin_turn("s", "one");
    let call = scratch.begin_script("s", "c1", "git pull");
    scratch.write(".env", "mine, edited while waiting\n");
    scratch.write("a", "pulled\n");
    scratch.end_call("s", call);
    scratch.end_turn("s");
    let view = scratch.roll_back("1");
    assert_eq!(guarded(&view), [".env"]);
    assert_eq!(
        (scratch.read("a"), scratch.read(".env")),
        ("1\n".into(), "mine, edited while waiting\n".into())
    );
}

#[test]
fn a_replaced_file_is_left_as_it_is_if_the_end_of_the_call_is_unknown() {
    let scratch = Scratch::with_reported_ends();
    make_repository(&scratch.project());
    scratch.write(".env", "mine\n");
    scratch.begin_turn("s", "one");
    scratch.begin_script("s", "c1", "make");
    run(&scratch.project(), REPLACING[0]);
    let view = scratch.roll_back("1");
    assert_eq!((guarded(&view), scratch.read(".env")), (vec![".env".into()], "theirs\n".into()));
}

/// A database without its own log, or with the log of another state, is useless.
#[test]
fn a_replaced_database_comes_back_only_together_with_its_log() {
    let scratch = with_repository();
    let path = scratch.project().join("dev.db");
    let insert = |connection: &Connection, value: &str| {
        connection
            .execute_batch(&format!(
                "create table if not exists t(x); insert into t values ('{value}')"
            ))
            .unwrap();
    };
    insert(&Connection::open(&path).unwrap(), "theirs");
    run(
        &scratch.project(),
        "git checkout -q other && git add -f dev.db && git commit -qm db && git checkout -qf main",
    );
    fs::write(scratch.project().join(".env"), "mine\n").unwrap();
    let connection = Connection::open(&path).unwrap();
    insert(&connection, "mine");
    drop(connection);
    play_script(&scratch, "one", "git restore --source=other dev.db");
    // The user's program continues with the replaced database, and writes to a write-ahead log.
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("pragma journal_mode = wal").unwrap();
    insert(&connection, "later");
    let view = scratch.roll_back("1");
    assert!(guarded(&view).contains(&"dev.db".to_owned()), "{:?}", guarded(&view));
    let check: String =
        connection.query_row("pragma integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    let rows: i64 = connection.query_row("select count(*) from t", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 2);
}

#[test]
fn the_mode_of_a_replaced_file_comes_back() {
    let scratch = with_repository();
    let mode = || scratch.project().join(".env").metadata().unwrap().permissions().mode() & 0o777;
    fs::set_permissions(scratch.project().join(".env"), fs::Permissions::from_mode(0o600)).unwrap();
    play_script(&scratch, "one", REPLACING[0]);
    scratch.roll_back("1");
    assert_eq!((scratch.read(".env"), mode()), ("mine\n".into(), 0o600));
}

/// Git converts the line endings of this repository's files when it writes them.
#[test]
fn a_replaced_file_with_converted_line_endings_comes_back() {
    let scratch = with_repository();
    run(&scratch.project(), "git config core.autocrlf true");
    play_script(&scratch, "one", REPLACING[0]);
    assert_eq!(scratch.read(".env"), "theirs\r\n");
    scratch.roll_back("1");
    assert_eq!(scratch.read(".env"), "mine\n");
}
