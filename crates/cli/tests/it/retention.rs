//! Limits on age, number and size; clearing; workspaces that are moved or deleted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::agent::{Agent, configure, eventually, everything, noise, rows, steps};
use crate::session::Session;

fn store_path(session: &Session) -> PathBuf {
    session.base().join(".takeback/checkpoints/store")
}

/// Returns the total size of all files in a directory, as `du` counts it.
fn disk_usage(directory: &Path) -> u64 {
    let mut du = Command::new("du");
    du.args(["--apparent-size", "--block-size=1", "-a"]).arg(directory);
    let lines = String::from_utf8(du.output().unwrap().stdout).unwrap();
    let files = lines.lines().filter_map(|line| line.split_once('\t'));
    files
        .filter(|(_, path)| Path::new(path).is_file())
        .map(|(size, _)| size.parse::<u64>().unwrap())
        .sum()
}

/// Runs `takeback` with `--json`. The command must succeed.
fn run_json(session: &Session, arguments: &[&str]) -> Value {
    let output = session.output(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Creates a workspace beside the project. Writes the given contents into its only file one after
/// another, and takes a checkpoint after each.
fn workspace_with_checkpoints(session: &Session, name: &str, contents: &[Vec<u8>]) -> PathBuf {
    let path = session.base().join(name);
    fs::create_dir_all(&path).unwrap();
    for content in contents {
        fs::write(path.join("file"), content).unwrap();
        run_json(session, &["-C", path.to_str().unwrap(), "checkpoint"]);
    }
    path
}

fn count_checkpoints(session: &Session, path: &Path) -> usize {
    let list = session.json(&["checkpoints"])["workspaces"].clone();
    let found = list.as_array().unwrap().iter().find(|known| known["path"] == json!(path));
    found.map_or(0, |known| known["checkpoints"].as_u64().unwrap() as usize)
}

/// Pretends that takeback ran on each of the last `days` days, including today.
fn see_days(session: &Session, days: i64) {
    let now = jiff::Timestamp::now();
    let day = |ago: i64| now - jiff::SignedDuration::from_hours(24 * ago);
    let lines: String = (0..days).map(|ago| format!("{}\n", day(ago).strftime("%F"))).collect();
    fs::write(session.base().join(".takeback/checkpoints/days"), lines).unwrap();
}

/// Creates a workspace with checkpoints from 2020 that are imported from Hermes, and sets the time
/// at which the workspace was last seen.
fn old_workspace(session: &Session, name: &str, days_ago: i64) -> PathBuf {
    let path = session.base().join(name);
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("file"), name).unwrap();
    let repository = session.base().join(format!("hermes-{name}/0123456789abcdef"));
    fs::create_dir_all(&repository).unwrap();
    let git = |arguments: &[&str]| {
        let status = Command::new("git")
            .args(["-c", "user.name=x", "-c", "user.email=x@y"])
            .args(arguments)
            .current_dir(&path)
            .env("GIT_DIR", &repository)
            .env("GIT_WORK_TREE", &path)
            .env("GIT_COMMITTER_DATE", "2020-01-02T03:04:05Z")
            .env("GIT_AUTHOR_DATE", "2020-01-02T03:04:05Z")
            .status();
        assert!(status.unwrap().success(), "git {arguments:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "-A", "."]);
    git(&["commit", "-q", "-m", "of old"]);
    fs::write(repository.join("HERMES_WORKDIR"), path.to_str().unwrap()).unwrap();
    run_json(session, &["checkpoints", "import", repository.parent().unwrap().to_str().unwrap()]);
    for entry in fs::read_dir(store_path(session).join("workspaces")).unwrap() {
        let file = entry.unwrap().path().join("workspace.json");
        let mut info: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        if info["path"] == json!(path) {
            let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as i64;
            info["last_seen"] = json!(now - days_ago * 86_400_000);
            fs::write(file, info.to_string()).unwrap();
        }
    }
    see_days(session, 100);
    path
}

#[test]
fn workspaces_unused_for_long_are_pruned() {
    let session = Session::new();
    session.write("a", "1");
    run_json(&session, &["checkpoint"]);
    let (old, recent) = (old_workspace(&session, "old", 31), old_workspace(&session, "recent", 29));
    assert_eq!((count_checkpoints(&session, &old), count_checkpoints(&session, &recent)), (1, 1));
    let pruned = run_json(&session, &["checkpoints", "prune"]);
    assert_eq!(pruned["workspaces"][0]["path"], json!(old));
    assert_eq!(pruned["workspaces"][0]["because"], "unused for too long");
    assert_eq!((count_checkpoints(&session, &old), count_checkpoints(&session, &recent)), (0, 1));
    run_json(&session, &["checkpoints", "prune", "--retention-days", "28"]);
    assert_eq!(count_checkpoints(&session, &recent), 0);
    assert_eq!(rows(&session).len(), 1);
    assert_eq!(session.json(&["checkpoints", "verify"])["whole"], true);
}

/// In Myrm, a missing workspace lost its history immediately, even if its disk had only been
/// unmounted.
#[test]
fn an_orphan_is_kept_for_the_retention_period() {
    let session = Session::new();
    let gone = workspace_with_checkpoints(&session, "gone", &[b"1".to_vec()]);
    let old = old_workspace(&session, "old", 31);
    let seen = old_workspace(&session, "seen", 1);
    for path in [&gone, &old, &seen] {
        fs::rename(path, path.with_extension("unmounted")).unwrap();
    }
    assert_eq!(session.json(&["checkpoints"])["workspaces"][0]["state"], "orphan");
    run_json(&session, &["checkpoints", "prune", "--keep-orphans"]);
    assert_eq!([&gone, &old, &seen].map(|path| count_checkpoints(&session, path)), [1, 1, 1]);
    configure(&session, "[checkpoints]\ndelete_orphans = false\n");
    run_json(&session, &["checkpoints", "prune"]);
    assert_eq!(count_checkpoints(&session, &old), 1);
    configure(&session, "");
    let pruned = run_json(&session, &["checkpoints", "prune"]);
    assert_eq!(pruned["workspaces"][0]["because"], "gone for too long");
    assert_eq!([&gone, &old, &seen].map(|path| count_checkpoints(&session, path)), [1, 0, 1]);
    fs::rename(gone.with_extension("unmounted"), &gone).unwrap();
    fs::write(gone.join("file"), "2").unwrap();
    run_json(&session, &["-C", gone.to_str().unwrap(), "rollback", "1"]);
    assert_eq!(fs::read_to_string(gone.join("file")).unwrap(), "1");
}

#[test]
fn the_oldest_rows_beyond_the_limit_are_pruned() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_snapshots = 3\nauto_prune = false\n");
    for content in ["1", "2", "3", "4", "5"] {
        session.write("a", content);
        session.output(&["checkpoint", "--reason", content]);
    }
    let pruned = run_json(&session, &["checkpoints", "prune"]);
    assert_eq!(pruned["workspaces"][0]["checkpoints"], 2);
    let rows = rows(&session);
    let reasons: Vec<_> = rows.iter().map(|row| row["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["5", "4", "3"]);
}

#[test]
fn steps_of_older_turns_are_pruned_before_rows() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_snapshots = 4\n");
    let mut agent = Agent::new(&session, "s1");
    for turn in ["1", "2", "3", "4"] {
        agent.hears(turn);
        for step in ["a", "b", "c"] {
            agent.writes("file", &format!("{turn}{step}"));
        }
        agent.is_done();
    }
    run_json(&session, &["checkpoints", "prune"]);
    let rows = rows(&session);
    let left: Vec<_> = rows.iter().map(|row| steps(row).len()).collect();
    assert_eq!(left, [3, 3, 1, 1]);
    session.output(&["rollback", "4"]);
    assert!(!session.project().join("file").exists());
}

#[test]
fn pinned_checkpoints_are_never_pruned() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_snapshots = 1\n");
    fs::write(session.project().join("a"), noise(1, 600_000)).unwrap();
    session.output(&["checkpoint", "--name", "keep", "--pin"]);
    for content in ["2", "3"] {
        session.write("a", content);
        session.output(&["checkpoint"]);
    }
    run_json(&session, &["checkpoints", "prune", "--retention-days", "0", "--max-size-mb", "0"]);
    let rows = rows(&session);
    let names: Vec<_> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(names, ["keep"]);
    session.output(&["rollback", "keep"]);
    assert_eq!(fs::read(session.project().join("a")).unwrap(), noise(1, 600_000));
}

/// In Hermes and Myrm, the store could exceed its limit, or pruning freed no space.
#[test]
fn the_oldest_checkpoints_are_pruned_first_until_the_size_limit_is_met() {
    let session = Session::new();
    let contents =
        |from: u64| (from..from + 5).map(|seed| noise(seed, 200_000)).collect::<Vec<_>>();
    let one = workspace_with_checkpoints(&session, "one", &contents(1));
    let two = workspace_with_checkpoints(&session, "two", &contents(11));
    assert!(disk_usage(&store_path(&session)) > 2_000_000);
    let pruned = run_json(&session, &["checkpoints", "prune", "--max-size-mb", "1"]);
    let left = disk_usage(&store_path(&session));
    assert!(left <= 1 << 20, "{left}");
    assert_eq!(pruned["bytes_after"], left);
    assert_eq!(pruned["over_limit"], false);
    // Checkpoints of the two workspaces are evicted alternately, so that neither loses all of them.
    let left = [&one, &two].map(|path| count_checkpoints(&session, path));
    assert!(left == [2, 2] || left == [2, 3], "no more than needed is deleted: {left:?}");
    assert_eq!(session.json(&["checkpoints", "verify"])["whole"], true);
    let two = two.to_str().unwrap();
    fs::write(format!("{two}/file"), "").unwrap();
    run_json(&session, &["-C", two, "rollback", "2"]);
    assert_eq!(fs::read(format!("{two}/file")).unwrap(), noise(14, 200_000));
}

#[test]
fn the_newest_row_of_a_workspace_is_never_evicted() {
    let session = Session::new();
    let paths: Vec<_> = (0..12)
        .map(|seed| {
            workspace_with_checkpoints(&session, &format!("p{seed:02}"), &[noise(seed, 200_000)])
        })
        .collect();
    let pruned = run_json(&session, &["checkpoints", "prune", "--max-size-mb", "1"]);
    assert_eq!((&pruned["over_limit"], &pruned["workspaces"]), (&json!(true), &json!([])));
    assert!(paths.iter().all(|path| count_checkpoints(&session, path) == 1));
}

#[test]
fn the_newest_safety_checkpoint_is_never_evicted() {
    let session = Session::new();
    let file = session.project().join("a");
    for seed in 1..4 {
        fs::write(&file, noise(seed, 400_000)).unwrap();
        session.output(&["checkpoint"]);
    }
    fs::write(&file, noise(9, 400_000)).unwrap();
    run_json(&session, &["rollback", "2"]);
    assert_eq!(fs::read(&file).unwrap(), noise(2, 400_000));
    run_json(&session, &["checkpoints", "prune", "--max-size-mb", "0"]);
    assert_eq!(rows(&session).len(), 1);
    run_json(&session, &["rollback", "undo"]);
    assert_eq!(fs::read(&file).unwrap(), noise(9, 400_000));
}

#[test]
fn a_checkpoint_with_a_name_is_never_pruned() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_snapshots = 1\n");
    session.write("a", "1");
    session.output(&["checkpoint", "--name", "keep"]);
    for content in ["2", "3"] {
        session.write("a", content);
        session.output(&["checkpoint"]);
    }
    run_json(&session, &["checkpoints", "prune", "--retention-days", "0", "--max-size-mb", "0"]);
    let rows = rows(&session);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["name"], "keep");
}

#[test]
fn doctor_and_prune_agree_about_the_size() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_total_size_mb = 1\nauto_prune = false\n");
    let problems = |session: &Session| session.json(&["doctor"])["problems"].clone();
    for seed in 1..3 {
        fs::write(session.project().join("a"), noise(seed, 1_500_000)).unwrap();
        session.output(&["checkpoint"]);
    }
    let found = problems(&session);
    assert!(found[0]["hint"].as_str().unwrap().contains("checkpoints prune"), "{found}");
    let pruned = run_json(&session, &["checkpoints", "prune"]);
    assert_eq!((&pruned["over_limit"], rows(&session).len()), (&json!(true), 1));
    // Another prune could not help, so doctor does not suggest one.
    let found = problems(&session);
    assert!(found[0]["message"].as_str().unwrap().contains("everything left is"), "{found}");
    assert!(found[0]["hint"].as_str().unwrap().contains("max_total_size_mb"), "{found}");
}

#[test]
fn orphans_are_removed_at_once_on_request() {
    let session = Session::new();
    session.write("a", "1");
    run_json(&session, &["checkpoint"]);
    let gone = workspace_with_checkpoints(&session, "gone", &[b"1".to_vec()]);
    fs::remove_dir_all(&gone).unwrap();
    run_json(&session, &["checkpoints", "prune"]);
    assert_eq!(count_checkpoints(&session, &gone), 1);
    let pruned = run_json(&session, &["checkpoints", "prune", "--orphans"]);
    assert_eq!(pruned["workspaces"][0]["because"], "the directory is gone");
    assert_eq!((count_checkpoints(&session, &gone), rows(&session).len()), (0, 1));
    let both = session.output(&["checkpoints", "prune", "--orphans", "--keep-orphans"]);
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn a_single_checkpoint_over_the_limit_stays_and_is_reported() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_total_size_mb = 1\n");
    fs::write(session.project().join("a"), noise(1, 2 << 20)).unwrap();
    session.output(&["checkpoint"]);
    let pruned = run_json(&session, &["checkpoints", "prune"]);
    assert_eq!((&pruned["over_limit"], rows(&session).len()), (&json!(true), 1));
    let status = String::from_utf8(session.output(&["checkpoints"]).stdout).unwrap();
    assert!(status.contains("The store is over its limit"), "{status}");
}

#[test]
fn an_open_call_does_not_protect_an_older_row_with_the_same_files() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_snapshots = 2\n");
    session.write("a", "0");
    let mut agent = Agent::new(&session, "s1");
    agent.turn("1", "a", "1");
    agent.turn("2", "a", "0");
    let mut waiting = Agent::new(&session, "s2");
    waiting.hears("wait");
    waiting.begins("Bash", json!({ "command": "make" }));
    for number in ["3", "4", "5"] {
        agent.turn(number, "a", number);
    }
    run_json(&session, &["checkpoints", "prune"]);
    let prompts: Vec<Value> = rows(&session).iter().map(|row| row["prompt"].clone()).collect();
    assert_eq!(prompts, [json!("5"), json!("4"), json!("wait")]);
}

#[test]
fn a_dry_run_changes_nothing_and_names_what_would_be_pruned() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_snapshots = 2\n");
    workspace_with_checkpoints(
        &session,
        "one",
        &(1..6).map(|seed| noise(seed, 300_000)).collect::<Vec<_>>(),
    );
    old_workspace(&session, "old", 40);
    let arguments = ["checkpoints", "prune", "--max-size-mb", "0"];
    // First run a read-only command, because such a command may also write caches to the store.
    session.output(&["checkpoints"]);
    let before = everything(&store_path(&session));
    let predicted = run_json(&session, &[&arguments[..], &["--dry-run"]].concat());
    assert!(everything(&store_path(&session)) == before, "a dry run changes nothing");
    assert_eq!(predicted["dry_run"], true);
    let done = run_json(&session, &arguments);
    assert_eq!(predicted["workspaces"], done["workspaces"]);
}

#[test]
fn status_has_the_documented_shape() {
    let session = Session::new();
    let empty = session.json(&["checkpoints"]);
    assert_eq!((&empty["total_bytes"], &empty["workspaces"]), (&json!(0), &json!([])));
    assert!(!session.base().join(".takeback").exists(), "reading creates nothing");
    session.write("a", "1");
    session.output(&["checkpoint"]);
    let archive = session.base().join(".takeback/checkpoints/legacy-20990101-000000");
    fs::create_dir(&archive).unwrap();
    fs::write(archive.join("x"), "12345").unwrap();
    for status in [session.json(&["checkpoints"]), session.json(&["checkpoints", "list"])] {
        assert_eq!(status["home"], json!(session.base().join(".takeback")));
        assert_eq!(status["store_bytes"], disk_usage(&store_path(&session)));
        assert_eq!(
            status["total_bytes"],
            disk_usage(&session.base().join(".takeback/checkpoints"))
        );
        assert_eq!(status["legacy"], json!([{ "name": "legacy-20990101-000000", "bytes": 5 }]));
        let touched = status["workspaces"][0]["last_touched"].clone();
        assert!(touched.as_str().unwrap().ends_with('Z'));
        assert_eq!(
            status["workspaces"],
            json!([{ "path": session.project(), "checkpoints": 1, "last_touched": touched,
                     "state": "live" }])
        );
    }
}

#[test]
fn clearing_asks_for_confirmation() {
    let mut session = Session::new();
    session.write("a", "1");
    session.output(&["checkpoint", "--pin"]);
    let archive = session.base().join(".takeback/checkpoints/legacy-20990101-000000");
    fs::create_dir(&archive).unwrap();
    for command in ["clear", "clear-legacy"] {
        let output = session.output(&["checkpoints", command]);
        assert_eq!(output.status.code(), Some(1));
        let seen = String::from_utf8(output.stderr).unwrap();
        assert!(seen.contains("nothing was deleted; pass --force"), "{seen}");
        assert_eq!(run_json(&session, &["checkpoints"])["legacy"].as_array().unwrap().len(), 1);
    }
    assert!(archive.exists() && rows(&session).len() == 1);
    session.takeback(&["checkpoints", "clear-legacy", "-f"]);
    assert!(!archive.exists() && rows(&session).len() == 1);
    assert!(session.output(&["checkpoints", "clear", "-f"]).status.success());
    assert_eq!(run_json(&session, &["checkpoints"])["workspaces"], json!([]));
    session.takeback(&["checkpoints", "clear-legacy"]);
    session.assert(
        "
$ takeback checkpoints clear-legacy -f
Deleted 1 archive of older stores (0 B).
$ takeback checkpoints clear-legacy
There are no archives of older stores.
",
    );
    assert_eq!(session.read("a"), "1");
    assert!(session.output(&["checkpoint"]).status.success());
}

#[test]
fn clearing_archives_needs_no_confirmation_if_there_are_none() {
    let session = Session::new();
    let cleared = run_json(&session, &["checkpoints", "clear-legacy"]);
    assert_eq!(cleared, json!({ "archives": 0, "bytes": 0 }));
}

#[test]
fn history_follows_a_workspace_that_was_moved() {
    let mut session = Session::new();
    let old = session.base().join("old");
    fs::create_dir(&old).unwrap();
    fs::write(old.join("a"), "1").unwrap();
    let mut agent = Agent::new(&session, "s1");
    agent.cwd = old.clone();
    agent.turn("one", "a", "2");
    agent.hears("two");
    agent.pretends("git push");
    agent.is_done();
    // Wait until the background processes are done with the old directory.
    eventually("counts", || {
        let rows = session.json(&["-C", "../old", "rollback"])["checkpoints"].clone();
        rows[1]["files_changed"] == 1
    });
    fs::rename(&old, session.base().join("new")).unwrap();
    session.takeback(&["checkpoints", "move", "../nowhere", "../new"]);
    session.takeback(&["checkpoints", "move", "../old", "../new"]);
    // A workspace that is known only by its old path would be treated as an orphan and lose its
    // history.
    let known = session.json(&["checkpoints"])["workspaces"].clone();
    let new = fs::canonicalize(session.base()).unwrap().join("new");
    assert_eq!(known.as_array().unwrap().len(), 1, "{known}");
    assert_eq!((&known[0]["path"], &known[0]["state"]), (&json!(new), &json!("live")));
    session.takeback(&["-C", "../new", "rollback", "2", "--files-only"]);
    session.assert(
        "
$ takeback checkpoints move ../nowhere ../new
! error: no checkpoints for ~/project/../nowhere
! hint: `takeback checkpoints` lists the workspaces that have checkpoints; name the old path first
[exit Some(1)]
$ takeback checkpoints move ../old ../new
Moved the history of ~/old to ~/new.
$ takeback -C ../new rollback 2 --files-only
Restored:
  a
⚠ These publish effects cannot be reversed:
  publish: git push
Restored 1 file. `takeback rollback undo` takes this back.
",
    );
    assert_eq!(fs::read_to_string(session.base().join("new/a")).unwrap(), "1");
    assert_eq!(count_checkpoints(&session, &old), 0);
}

#[test]
fn an_older_layout_is_set_aside_and_can_be_imported() {
    let session = Session::new();
    let old = old_workspace(&session, "old", 0);
    session.output(&["checkpoints", "clear", "-f"]);
    // Recreate the older layout, as takeback finds it when it runs for the first time.
    let checkpoints = session.base().join(".takeback/checkpoints");
    fs::remove_dir_all(&checkpoints).unwrap();
    fs::create_dir(&checkpoints).unwrap();
    let repository = session.base().join("hermes-old/0123456789abcdef");
    fs::rename(&repository, checkpoints.join("0123456789abcdef")).unwrap();
    session.write("a", "1");
    session.output(&["checkpoint"]);
    let status = session.json(&["checkpoints"]);
    let legacy = status["legacy"].as_array().unwrap();
    assert_eq!(legacy.len(), 1);
    let name = legacy[0]["name"].as_str().unwrap();
    assert!(checkpoints.join(name).join("0123456789abcdef/HEAD").exists());
    let imported = run_json(&session, &["checkpoints", "import"]);
    assert_eq!(imported["projects"][0]["checkpoints"], 1);
    assert_eq!(count_checkpoints(&session, &old), 1);
    fs::write(old.join("file"), "changed").unwrap();
    run_json(&session, &["-C", old.to_str().unwrap(), "rollback", "1"]);
    assert_eq!(fs::read_to_string(old.join("file")).unwrap(), "old");
    // Old archives are pruned; the timestamp in an archive's name shows its age.
    see_days(&session, 100);
    fs::create_dir(checkpoints.join("legacy-20200101-000000-2")).unwrap();
    fs::rename(checkpoints.join(name), checkpoints.join("legacy-20200101-000000")).unwrap();
    fs::create_dir(checkpoints.join("legacy-20990101-000000")).unwrap();
    let pruned = run_json(&session, &["checkpoints", "prune"]);
    assert_eq!(pruned["legacy"], json!(["legacy-20200101-000000", "legacy-20200101-000000-2"]));
    assert!(!checkpoints.join("legacy-20200101-000000").exists());
    assert!(checkpoints.join("legacy-20990101-000000").exists());
}

#[test]
fn a_busy_workspace_is_left_for_the_next_run() {
    let session = Session::new();
    let one = workspace_with_checkpoints(&session, "one", &[b"1".to_vec()]);
    let workspaces = fs::read_dir(store_path(&session).join("workspaces")).unwrap();
    let lock = workspaces.map(|entry| entry.unwrap().path().join("lock")).next().unwrap();
    // This command holds the lock of the workspace until it ends.
    let mut user = Command::new("flock")
        .arg("--no-fork")
        .arg(&lock)
        .args(["sh", "-c", "echo locked; exec sleep 60"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said_so = [0; 6];
    std::io::Read::read_exact(user.stdout.as_mut().unwrap(), &mut said_so).unwrap();
    let prune = ["checkpoints", "prune", "--retention-days", "0"];
    assert_eq!(run_json(&session, &prune)["busy"], json!([one]));
    assert_eq!(count_checkpoints(&session, &one), 1);
    user.kill().unwrap();
    user.wait().unwrap();
    assert_eq!(run_json(&session, &prune)["busy"], json!([]));
    assert_eq!(count_checkpoints(&session, &one), 0);
}

/// An agent that dies during a call never reports the end of that call.
#[test]
fn a_call_that_never_ended_is_pruned_eventually() {
    let session = Session::new();
    let mut agent = Agent::new(&session, "s1");
    agent.hears("one");
    agent.begins("Write", json!({ "path": "a" }));
    let prune = ["checkpoints", "prune", "--retention-days", "0"];
    run_json(&session, &prune);
    assert_eq!(rows(&session).len(), 1, "a row is needed while its call may be running");
    for workspace in fs::read_dir(store_path(&session).join("workspaces")).unwrap() {
        for entry in everything(&workspace.unwrap().path()) {
            let Ok(mut note) = serde_json::from_slice::<Value>(&entry.2) else { continue };
            if note["call"] == "c1" {
                let of_2020 = match &note["time"] {
                    Value::Number(time) if time.is_f64() => json!(1_577_934_245.5),
                    _ => json!(1_577_934_245_000_i64),
                };
                note["time"] = of_2020;
                fs::write(&entry.0, note.to_string()).unwrap();
            }
        }
    }
    see_days(&session, 3);
    run_json(&session, &prune);
    assert_eq!(rows(&session).len(), 0, "a call of 2020 is no longer running");
}

#[test]
fn pruning_runs_automatically_when_due() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_snapshots = 2\nmin_interval_hours = 0\n");
    for content in ["1", "2", "3", "4"] {
        session.write("a", content);
        session.output(&["checkpoint"]);
    }
    eventually("two rows", || {
        session.output(&["checkpoint"]);
        rows(&session).len() <= 3
    });
}

#[test]
fn max_snapshots_is_enforced_soon_after_each_turn() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_snapshots = 2\n");
    let mut agent = Agent::new(&session, "s1");
    for turn in ["1", "2", "3", "4", "5"] {
        agent.turn(turn, "a", turn);
    }
    eventually("old rows are gone", || rows(&session).len() == 2);
    for content in ["6", "7"] {
        session.write("a", content);
        session.output(&["checkpoint"]);
    }
    assert_eq!(rows(&session).len(), 2, "the limit also applies to manual checkpoints");
}

#[test]
fn the_size_cap_is_enforced_soon_after_each_turn() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_total_size_mb = 1\n");
    let mut agent = Agent::new(&session, "s1");
    for seed in 1..6 {
        agent.hears("go on");
        let call = agent.begins("Write", json!({ "path": "a" }));
        fs::write(session.project().join("a"), noise(seed, 400_000)).unwrap();
        agent.finishes(&call);
        agent.is_done();
    }
    eventually("the store fits", || disk_usage(&store_path(&session)) <= 1 << 20);
    assert!(!rows(&session).is_empty());
}

#[test]
fn the_size_cap_is_enforced_during_a_long_turn() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_total_size_mb = 1\n");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("go on and on");
    for seed in 1..7 {
        let call = agent.begins("Write", json!({ "path": "a" }));
        fs::write(session.project().join("a"), noise(seed, 400_000)).unwrap();
        agent.finishes(&call);
    }
    eventually("the store fits", || disk_usage(&store_path(&session)) <= 1 << 20);
}

#[test]
fn prune_does_not_say_that_nothing_exceeds_the_limits_while_the_store_is_too_large() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_total_size_mb = 1\nauto_prune = false\n");
    fs::write(session.project().join("a"), noise(1, 3 << 20)).unwrap();
    session.output(&["checkpoint"]);
    for options in [&["checkpoints", "prune"][..], &["checkpoints", "prune", "--dry-run"]] {
        let said = String::from_utf8(session.output(options).stdout).unwrap();
        assert!(said.contains("Still over the limit"), "{said}");
        assert!(!said.contains("Nothing exceeds"), "{said}");
    }
}

/// The store stays over its limit if nothing can be evicted. Takeback must not try again after
/// every turn.
#[test]
fn pruning_is_not_repeated_while_it_cannot_help() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_total_size_mb = 1\n");
    fs::write(session.project().join("a"), noise(1, 3 << 20)).unwrap();
    session.output(&["checkpoint"]);
    let pruned = run_json(&session, &["checkpoints", "prune"]);
    assert_eq!(pruned["over_limit"], true);
    session.write("b", "1");
    assert!(session.output(&["checkpoint"]).status.success());
    let last = session.base().join(".takeback/checkpoints/.last_prune");
    // Taking the checkpoints also started upkeep in the background, and that process may prune
    // once.
    eventually("upkeep that prunes nothing", || {
        let before = fs::read(&last).unwrap();
        session.output(&["checkpoints", "upkeep"]);
        fs::read(&last).unwrap() == before
    });
}

#[test]
fn a_notice_follows_a_workspace_that_was_moved() {
    let session = Session::new();
    let (old, new) = (session.base().join("old"), session.base().join("new"));
    fs::create_dir(&old).unwrap();
    fs::write(old.join("a"), "1").unwrap();
    let mut agent = Agent::new(&session, "s1");
    agent.cwd = old.clone();
    agent.turn("one", "a", "2");
    eventually("counts", || {
        session.json(&["-C", "../old", "rollback"])["checkpoints"][0]["files_changed"] == 1
    });
    run_json(&session, &["-C", "../old", "rollback", "1", "--files-only"]);
    fs::rename(&old, &new).unwrap();
    run_json(&session, &["checkpoints", "move", "../old", "../new"]);
    let mut client = crate::rpc_client::Client::new(&session);
    let notices = client.call("notices.take", json!({ "agent": "mine", "session": "s1" }));
    assert_eq!(notices["notices"][0]["workspace"], json!(new), "{notices}");
}

#[test]
fn the_history_of_a_single_file_can_be_moved() {
    let session = Session::new();
    let (old, new) = (session.base().join("notes.txt"), session.base().join("moved/notes.txt"));
    fs::write(&old, "1").unwrap();
    let mut agent = Agent::new(&session, "s1");
    agent.hears("edit it");
    let call = agent.begins("Write", json!({ "path": old }));
    fs::write(&old, "2").unwrap();
    agent.finishes(&call);
    agent.is_done();
    assert_eq!(count_checkpoints(&session, &old), 1);
    fs::create_dir(new.parent().unwrap()).unwrap();
    fs::rename(&old, &new).unwrap();
    let (from, to) = (old.to_str().unwrap(), new.to_str().unwrap());
    let renamed = session.output(&["checkpoints", "move", from, "../moved/other.txt"]);
    assert_eq!(renamed.status.code(), Some(1));
    run_json(&session, &["checkpoints", "move", from, to]);
    assert_eq!((count_checkpoints(&session, &old), count_checkpoints(&session, &new)), (0, 1));
    run_json(&session, &["-C", to, "rollback", "1", "--files-only"]);
    assert_eq!(fs::read_to_string(&new).unwrap(), "1");
}

#[test]
fn the_home_of_hermes_can_be_elsewhere() {
    let session = Session::new();
    let old = old_workspace(&session, "old", 0);
    session.output(&["checkpoints", "clear", "-f"]);
    let hermes = session.base().join("my-hermes");
    fs::create_dir(&hermes).unwrap();
    fs::rename(session.base().join("hermes-old"), hermes.join("checkpoints")).unwrap();
    let mut import = session.command(&["checkpoints", "import"]);
    assert!(import.env("HERMES_HOME", &hermes).status().unwrap().success());
    assert_eq!(count_checkpoints(&session, &old), 1);
    // The error names the database that is missing from `HERMES_HOME`.
    let mut import = session.command(&["sessions", "import", "--from", "hermes"]);
    let output = import.env("HERMES_HOME", &hermes).output().unwrap();
    assert!(crate::session::said(&output).contains("my-hermes"), "{output:?}");
}

/// Two sessions that end at the same time start two prunes.
#[test]
fn concurrent_prunes_evict_no_more_than_a_single_one() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_total_size_mb = 1\nauto_prune = false\n");
    let contents = (1..9).map(|seed| noise(seed, 200_000)).collect::<Vec<_>>();
    let one = workspace_with_checkpoints(&session, "one", &contents);
    let mut prunes: Vec<_> = (0..4).map(|_| session.start(&["checkpoints", "prune"])).collect();
    assert!(prunes.iter_mut().all(|prune| prune.wait().unwrap().success()));
    let left = count_checkpoints(&session, &one);
    assert!((4..=5).contains(&left), "{left}");
}

#[test]
fn the_first_import_finds_an_older_layout() {
    let session = Session::new();
    let old = old_workspace(&session, "old", 0);
    let checkpoints = session.base().join(".takeback/checkpoints");
    fs::remove_dir_all(&checkpoints).unwrap();
    fs::create_dir(&checkpoints).unwrap();
    let repository = session.base().join("hermes-old/0123456789abcdef");
    fs::rename(&repository, checkpoints.join("0123456789abcdef")).unwrap();
    let imported = run_json(&session, &["checkpoints", "import"]);
    assert_eq!(imported["projects"][0]["checkpoints"], 1);
    assert_eq!(count_checkpoints(&session, &old), 1);
}
