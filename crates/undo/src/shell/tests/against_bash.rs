//! Compares the analysis with bash and the real programs: the tests run commands that the analysis
//! calls read-only, and check that nothing changes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::{analyze, disguises, reading};

/// Creates a directory with a repository and some files.
fn make_repository() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let setup = "git init -q -b main . && git config user.email a@b && git config user.name a && \
         printf 'one\\ntwo\\nthree\\n' > a.txt && printf 'b,2\\na,1\\n' > b.csv && mkdir src && \
         echo 'fn main() {}' > src/main.rs && echo '{\"a\":1}' > c.json && git add . && \
         git commit -qm first && git tag v1 && echo four >> a.txt && git stash -q && \
         echo five >> a.txt && tar cf t.tar a.txt && git status >/dev/null";
    assert!(run_in_bash(dir.path(), setup), "bash and git are needed");
    dir
}

fn run_in_bash(dir: &Path, script: &str) -> bool {
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

/// Reads every file below a directory.
fn read_files(dir: &Path) -> BTreeMap<String, Option<Vec<u8>>> {
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
                // The index is left out: git refreshes it even when it only reads.
                found.insert(name, fs::read(&path).ok());
            }
        }
    }
    found
}

/// Returns true if a command can be run here safely and quickly: it needs no network and no daemon.
fn is_runnable(command: &str) -> bool {
    #[rustfmt::skip]
    const NOT: &[&str] = &[
        "curl", "docker", "kubectl", "podman", "gh ", "npm", "ping", "dig", "host ", "sudo", "ssh",
        "tail -f", "sleep", "yes", "systemctl", "journalctl", "crontab", "nslookup", "ls-remote",
        "remote show", "/etc", "dmesg", "locate", "pip", "--follow", "go ", "read",
    ];
    !NOT.iter().any(|word| command.contains(word))
}

#[test]
fn commands_that_count_as_reading_change_nothing() {
    let dir = make_repository();
    let before = read_files(dir.path());
    let mut count = 0;
    for (command, ..) in reading::READING.iter().chain(disguises::ROWS).filter(|row| !row.1) {
        if is_runnable(command) {
            run_in_bash(dir.path(), command);
            assert!(read_files(dir.path()) == before, "{command}");
            count += 1;
        }
    }
    assert!(count > 150, "only {count} were run");
}

/// Scripts in which `@` is replaced with other text. Depending on its position, that text may or
/// may not run.
#[rustfmt::skip]
const PLACES: &[&str] = &[
    "echo '@'", "echo \"@\"", "cat <<'E'\n@\nE\n", "cat <<E\n@\nE\n", "cat <<-E\n@\n\tE\n",
    "cat <<\"E\" <<F\n@\nE\n@\nF\n", "echo a # @", "echo a#@", "echo \\@", "echo $'@'",
    "echo \"${x:-@}\"", "echo ${x:-@}", "echo ${x%@}", "case a in @) ls;; esac",
    "case @ in a) ls;; esac", "[[ a == @ ]]", "[[ a =~ @ ]]", "x=@", "x=(@)", "echo `echo @`",
    "echo \"`echo @`\"", "echo $(echo @)", "echo \"$(echo '@')\"", "eval 'echo @'",
    "eval \"echo '@'\"", "bash -c 'echo @'", "bash -c \"echo '@'\"", "f() { echo @; }; f",
    "for x in @; do echo \"$x\"; done", "if [ a = '@' ]; then ls; fi", "echo @", "cat <(echo @)",
    "{ echo '@'; }", "(echo \"@\")", "echo a \\\n@", "cat <<< '@'", "echo {@}", "echo $((1))@",
    "ls 2>&1 '@'", "echo $(cat <<'E'\n@\nE\n)", "echo a | xargs -I% echo '@'", "! echo @",
    "find . -name '@'", "find . -exec echo '@' ';'", "printf '@'", "command echo @",
    "sed -n '@' /dev/null", "sed 's/a/@/' /dev/null", "echo a | sed -n '@p'", "awk '@'",
    "echo a | awk '{ print \"@\" }'", "test '@'", "[ -n \"@\" ]", "echo ~@", "echo *@",
];

/// Pieces of the text that replaces `@`.
#[rustfmt::skip]
const PIECES: &[&str] = &[
    "touch m", "touch m", "> m", "'", "\"", "\\", "\\\n", "\n", ";", " ", "&", "|", "$(", ")", "`",
    "E", "\nE\n", "-E", "#", "}", "{", "(", "$", "<<E", "<<'E'\n", "a", "$x", "$((", "))", "[", "]",
    "/", "w m", "e", "s/a/touch m/e", "1", "\t", "\r", "%", "!", "=", "]]", ";;", "esac", "in", "*",
    "$'", "${", "system(\"touch m\")", "done", "fi", "do", "<(", ">", "é", "p;w m\n",
];

/// Generates scripts that contain `touch m` where it may or may not run. Most of them look
/// harmless, because only scripts that the analysis calls read-only are run in bash.
fn random_scripts() -> impl Strategy<Value = String> {
    let places = prop::sample::select(PLACES);
    let piece = prop::sample::select(PIECES);
    let hidden = prop::collection::vec(piece, 0..7).prop_map(|pieces| pieces.concat());
    let part = (places, hidden).prop_map(|(place, hidden)| place.replace('@', &hidden));
    prop::collection::vec(part, 1..4).prop_map(|parts| parts.join("\n"))
}

/// Returns true if files appear when bash runs the script.
fn creates_files(script: &str) -> bool {
    let dir = tempfile::tempdir().unwrap();
    run_in_bash(dir.path(), script);
    fs::read_dir(dir.path()).unwrap().next().is_some()
}

proptest! {
    #![proptest_config(super::random_config(1500))]

    #[test]
    fn bash_agrees_about_random_scripts(script in random_scripts()) {
        // A plain POSIX shell parses some constructs differently.
        let plain = format!("sh -c '{}'", script.replace('\'', "'\\''"));
        for script in [script, plain] {
            if !analyze(&script).mutates && script.contains('m') {
                prop_assert!(!creates_files(&script), "{script:?}");
            }
        }
    }
}
