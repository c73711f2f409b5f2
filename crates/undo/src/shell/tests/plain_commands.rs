//! Scripts that are plain lists of commands, and scripts that only look plain.

use std::path::Path;

use crate::shell::{ScriptContext, list_plain_commands};

/// Lists the prefixes of the commands in a script, with `-` for a command without a prefix. Marks
/// commands that change nothing with a question mark.
fn list(script: &str) -> Option<String> {
    let context = ScriptContext {
        directory: Path::new("/srv/app/src"),
        workspace: Path::new("/srv/app"),
        home: Some(Path::new("/home/me")),
    };
    let commands = list_plain_commands(script, &context)?;
    let show = |prefix: Option<String>, mutates: bool| {
        format!("{}{}", prefix.unwrap_or("-".to_owned()), if mutates { "" } else { "?" })
    };
    let shown = commands.into_iter().map(|command| show(command.prefix, command.mutates));
    Some(shown.collect::<Vec<_>>().join(", "))
}

#[test]
fn commands_are_listed_by_program_and_verb() {
    for (script, expected) in [
        ("git push", "git push"),
        ("git  push   origin main", "git push"),
        ("'git' \"push\"", "git push"),
        ("git push 2>&1 | tail -5", "git push, -?"),
        ("git push > /dev/null", "git push"),
        ("git add . && git commit -m 'a b'", "git add, git commit"),
        ("git stash drop; git stash", "git stash drop, git stash"),
        ("git push origin \"refs/$x\"", "git push"),
        ("git add src/*.rs", "git add"),
        ("git status", "git status?"),
        ("npm run build || npm publish", "npm run build, npm publish"),
        ("gh pr create --title x", "gh pr create"),
        ("aws s3 rm s3://x", "aws s3 rm"),
        ("docker compose up -d", "docker compose up"),
        ("cd .. && git push", "-?, git push"),
        ("cd /srv/app/web\ngit push", "-?, git push"),
        ("! git push", "git push"),
        ("git push <<EOF\ntext\nEOF", "git push"),
        ("[ -f x ] && make install", "-?, make install"),
        ("", ""),
    ] {
        assert_eq!(list(script).as_deref(), Some(expected), "{script:?}");
    }
}

#[test]
fn a_command_without_a_clear_verb_has_no_prefix() {
    for script in [
        "git -C /other push",
        "git -c core.sshCommand=evil push",
        "git --git-dir=/other/.git push",
        "git",
        "git $verb",
        "./git push",
        "/usr/bin/git push",
        "/tmp/git push",
        "gh api",
        "gh --repo x pr create",
        "curl -d x http://host",
        "psql -c 'drop table x'",
        "rm -rf x",
        "ssh host reboot",
        "frobnicate push",
        "git push > file",
        "git push >> $file",
        "git push &> file",
        "GIT push",
    ] {
        let found = list(script);
        assert!(matches!(found.as_deref(), None | Some("-" | "-?")), "{script:?}: {found:?}");
    }
}

#[test]
fn a_script_that_could_change_the_meaning_of_its_words_is_not_plain() {
    for script in [
        "X=1 git push",
        "GIT_SSH_COMMAND=evil git push",
        "PATH=/tmp; git push",
        "export PATH=/tmp && git push",
        "unset X; git push",
        "set -e; git push",
        "sudo git push",
        "doas git push",
        "env X=1 git push",
        "env git push",
        "command git push",
        "builtin cd; git push",
        "exec git push",
        "nohup git push",
        "timeout 5 git push",
        "xargs git push",
        "find . -exec git push ;",
        "bash -c 'git push'",
        "bash script.sh && git push",
        "sh <<EOF\ngit push\nEOF",
        "eval git push",
        "source x && git push",
        ". x; git push",
        "alias git=evil; git push",
        "hash -p /tmp/evil git; git push",
        "enable -f x git; git push",
        "trap 'evil' EXIT; git push",
        "git push $(evil)",
        "git push `evil`",
        "git push \"$(evil)\"",
        "git push <(evil)",
        "git push ${x:-$(evil)}",
        "git push > \"$(evil)\"",
        "git push <<EOF\n$(evil)\nEOF",
        "git push $options",
        "git push \"$option\"",
        "git push {a,b}",
        "$git push",
        "git push &",
        "git() { evil; }; git push",
        "if true; then git push; fi",
        "for x in a; do git push; done",
        "(git push)",
        "{ git push; }",
        "cd /other && git push",
        "cd ../.. && git push",
        "cd .. && cd .. && git push",
        "cd && git push",
        "cd - && git push",
        "cd ~ && git push",
        "cd $x && git push",
        "pushd /other; git push",
        "read x; git push",
        "git push '",
    ] {
        assert_eq!(list(script), None, "{script:?}");
    }
}
