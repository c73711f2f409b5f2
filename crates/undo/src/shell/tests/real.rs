//! bash and the programs themselves as referees: what is said to only read is run, and then
//! nothing may have changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::{look, table};

/// A directory with a repository and some files.
fn scratch() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let setup = "git init -q -b main . && git config user.email a@b && git config user.name a && \
         printf 'one\\ntwo\\nthree\\n' > a.txt && printf 'b,2\\na,1\\n' > b.csv && mkdir src && \
         echo 'fn main() {}' > src/main.rs && echo '{\"a\":1}' > c.json && git add . && \
         git commit -qm first && git tag v1 && echo four >> a.txt && git stash -q && \
         echo five >> a.txt && tar cf t.tar a.txt && git status >/dev/null";
    assert!(run(dir.path(), setup), "bash and git are needed");
    dir
}

fn run(dir: &Path, script: &str) -> bool {
    let status = Command::new("timeout")
        .args(["5", "bash", "-c", script])
        .current_dir(dir)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// Every file below with its bytes.
fn content(dir: &Path) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.to_string_lossy().into_owned();
            if path.is_dir() {
                open.push(path);
                found.insert(name, None);
            } else if !name.ends_with(".git/index") {
                // git refreshes what it knows of the files there.
                found.insert(name, fs::read(&path).ok());
            }
        }
    }
    found
}

/// Whether running it here is safe and quick: nothing that needs a network or a daemon.
fn is_runnable(command: &str) -> bool {
    const NOT: &[&str] = &[
        "curl", "docker", "kubectl", "podman", "gh ", "npm", "ping", "dig", "host ", "sudo", "ssh",
        "tail -f", "sleep", "yes", "systemctl", "journalctl", "crontab", "nslookup", "ls-remote",
        "remote show", "/etc", "dmesg", "locate", "pip", "--follow", "go ", "read",
    ];
    !NOT.iter().any(|word| command.contains(word))
}

#[test]
fn what_is_said_to_read_changes_nothing() {
    let dir = scratch();
    let before = content(dir.path());
    let mut count = 0;
    for (command, ..) in table::READING.iter().chain(super::disguises::ROWS).filter(|row| !row.1) {
        if is_runnable(command) {
            run(dir.path(), command);
            assert!(content(dir.path()) == before, "{command}");
            count += 1;
        }
    }
    assert!(count > 150, "only {count} were run");
}

/// Whatever is put around `touch` and a redirection, if bash gets to run them, it must be noticed.
fn scripts() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "touch m", "> m", "echo a", "ls", " ", "\n", "; ", " & ", " && ", " || ", " | ", "(", ")",
        "{ ", "; }", "$(", ")", "`", "\"", "'", "\\", "\\\n", "#", "<<E\n", "\nE\n", "<<'E'\n",
        "<<-E\n", "<(", "${x:-", "}", "$((", "))", "1", "if ls; then ", "; fi", "for x in a; do ",
        "; done", "case a in a) ", ";; esac", "f() { ", "f", "[[ ", " ]]", "! ", "$'", "cat ", "=",
        "x=", "x=(", "$x", "eval ", "bash -c ", "xargs ", "command ", "-exec ", "find . ", "[", "]",
        "$", "\t", "E", "2>", "&1", ">&", "/dev/null", "~", "{a,b}", "*", "touch\\ m", "\r", "time ",
    ]);
    prop::collection::vec(piece, 1..14).prop_map(|pieces| pieces.concat())
}

/// What bash makes of a script: whether files appear where it runs.
fn leaves_something(script: &str) -> bool {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), script);
    fs::read_dir(dir.path()).unwrap().next().is_some()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("TAKEBACK_SHELL_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(3000)
    ))]

    #[test]
    fn bash_agrees_about_random_scripts(script in scripts()) {
        if !look(&script).mutates && script.contains('m') {
            if std::env::var_os("SHOW").is_some() { eprintln!("RUN {script:?}"); }
            prop_assert!(!leaves_something(&script), "{script:?}");
        }
    }
}
