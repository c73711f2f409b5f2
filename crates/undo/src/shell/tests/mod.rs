//! Tests of the analysis: tables of commands, comparisons with bash and the real programs, and
//! arbitrary input.

mod against_bash;
mod any_input;
mod changing;
mod disguises;
mod effects;
mod reading;

use std::path::{Path, PathBuf};

use super::{EffectKind, ScriptAnalysis, ScriptContext, analyze_script};

/// A command, whether it may change files, and its effects.
type Row = (&'static str, bool, &'static [EffectKind]);

fn analyze(script: &str) -> ScriptAnalysis {
    let context = ScriptContext {
        directory: Path::new("/srv/app/src"),
        workspace: Path::new("/srv/app"),
        home: Some(Path::new("/home/me")),
    };
    analyze_script(script, &context)
}

fn outside_paths(script: &str) -> Vec<PathBuf> {
    analyze(script).outside
}

fn effect_kinds(analysis: &ScriptAnalysis) -> Vec<EffectKind> {
    analysis.effects.iter().map(|effect| effect.kind).collect()
}

/// Checks all rows, and lists every failure.
fn check_rows(rows: &[Row]) {
    let mut wrong = Vec::new();
    for (command, mutates, effects) in rows {
        let analysis = analyze(command);
        if analysis.mutates != *mutates {
            wrong.push(format!(
                "{command:?}: mutates={} because {}",
                analysis.mutates, analysis.because
            ));
        }
        if effect_kinds(&analysis) != *effects {
            wrong.push(format!("{command:?}: effects {:?}", effect_kinds(&analysis)));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

#[test]
fn reading_commands_are_recognized() {
    check_rows(reading::READING);
}

#[test]
fn changing_commands_are_recognized() {
    check_rows(changing::CHANGING);
}

#[test]
fn effects_are_recognized() {
    check_rows(effects::EFFECTS);
}

#[test]
fn disguises_are_seen_through() {
    check_rows(disguises::ROWS);
}

#[test]
fn there_are_enough_rows() {
    let rows = [reading::READING, changing::CHANGING, effects::EFFECTS, disguises::ROWS];
    assert!(rows.iter().map(|rows| rows.len()).sum::<usize>() >= 400);
}

#[test]
fn an_effect_names_its_command_only() {
    let commands = |script: &str| -> Vec<String> {
        analyze(script).effects.into_iter().map(|effect| effect.command).collect()
    };
    assert_eq!(commands("cd x && git push  origin main | tee log"), ["git push  origin main"]);
    assert_eq!(commands("bash -c 'ls; psql -f a.sql'"), ["psql -f a.sql"]);
    assert_eq!(commands("sudo docker rm web"), ["sudo docker rm web"]);
    assert_eq!(commands("x=$(curl -d a=1 http://h)"), ["curl -d a=1 http://h"]);
    assert_eq!(commands("git commit -m a; git commit -m a"), ["git commit -m a"]);
}

#[test]
fn the_reason_is_a_short_sentence() {
    let because = |script: &str| analyze(script).because;
    assert_eq!(because("rm x"), "`rm` changes files");
    assert_eq!(because("ls > out.txt"), "`> out.txt` writes a file");
    assert_eq!(because("ls | wc -l"), "every command in it only reads");
    assert_eq!(because("# nothing"), "it runs nothing");
    assert_eq!(because("ls 'a"), "it cannot be parsed: a quote is not closed");
    assert_eq!(because("frobnicate x"), "`frobnicate` is not known to be read-only");
    assert_eq!(because("$CMD x"), "the name of a command is only known at run time");
    assert_eq!(because("git stash"), "`git stash` may change something");
    assert_eq!(because("git -C x push"), "`git push` may change something");
    assert_eq!(because("sort -o x y"), "`sort` with these arguments may change something");
    assert_eq!(because("PATH=. ls"), "it sets `PATH`, which can change what programs do");
    assert_eq!(because("nohup ls"), "`nohup` may do more than run that command");
    assert_eq!(because("ls; bash -c 'cat y; rm x'"), "`rm` changes files");
    assert_eq!(because("git --exec-path=x log"), "`git` with these arguments may change something");
}

#[test]
fn paths_outside_are_found() {
    let paths = |script: &str| -> Vec<String> {
        outside_paths(script).into_iter().map(|path| path.to_string_lossy().into_owned()).collect()
    };
    assert_eq!(paths("rm /etc/hosts"), ["/etc/hosts"]);
    assert_eq!(paths("rm ../x ../../y ../../../z"), ["/srv/y", "/z"]);
    assert_eq!(paths("rm -rf /srv/app/target"), Vec::<String>::new());
    assert_eq!(paths("rm /srv/apple"), ["/srv/apple"]);
    assert_eq!(
        paths("touch ~/a \"$HOME/b\" ${HOME}/c '~/d'"),
        ["/home/me/a", "/home/me/b", "/home/me/c"]
    );
    assert_eq!(paths("echo x >> ~/.bashrc"), ["/home/me/.bashrc"]);
    assert_eq!(paths("ls 2>/dev/null >/tmp/../tmp/o"), ["/tmp/o"]);
    assert_eq!(paths("cat /etc/passwd"), Vec::<String>::new());
    assert_eq!(paths("cat /etc/passwd && touch x"), Vec::<String>::new());
    assert_eq!(paths("cd /tmp && rm x"), ["/tmp/x"]);
    assert_eq!(paths("cd /tmp; npm install"), ["/tmp"]);
    assert_eq!(paths("(cd /tmp); rm x"), Vec::<String>::new());
    assert_eq!(paths("cd /tmp && cd - && rm x"), Vec::<String>::new());
    assert_eq!(paths("cd && rm x"), ["/home/me/x"]);
    assert_eq!(paths("cd .. && rm x"), Vec::<String>::new());
    assert_eq!(paths("cd ../.. && rm x"), ["/srv/x"]);
    assert_eq!(paths("if true; then cd /tmp; fi; rm x"), Vec::<String>::new());
    assert_eq!(paths("rm /tmp/*.log /tmp/$x \"/tmp/$y\" ~root/x"), Vec::<String>::new());
    assert_eq!(paths("rm /a /b /a"), ["/a", "/b"]);
    assert_eq!(paths("sudo rm /a; bash -c 'rm /b'"), ["/a", "/b"]);
    assert_eq!(paths("find . -name x -exec cp {} /backup \\;"), ["/backup"]);
    assert_eq!(paths("sed -i '/foo/d' /etc/fstab"), ["/etc/fstab"]);
    assert_eq!(paths("sed -i -e '/foo/d' x"), Vec::<String>::new());
    assert_eq!(paths("dd if=/dev/zero of=/var/x"), ["/var/x"]);
    assert_eq!(paths("git clone https://example.com/x"), Vec::<String>::new());
    assert_eq!(paths("git clone https://example.com/x /opt/x"), ["/opt/x"]);
    assert_eq!(paths("docker run -v /a:/b image"), Vec::<String>::new());
    assert_eq!(paths("git commit -m /x"), Vec::<String>::new());
    assert_eq!(paths("/usr/bin/touch x"), Vec::<String>::new());
    assert_eq!(paths("echo x > /dev/null"), Vec::<String>::new());
    assert_eq!(paths("rm {/a,/b}"), Vec::<String>::new());
}

#[test]
fn an_analysis_is_written_as_json() {
    let json = serde_json::to_value(analyze("git push; rm /x")).unwrap();
    assert_eq!(
        json,
        serde_json::json!({
            "mutates": true,
            "because": "`git push` may change something",
            "effects": [{ "kind": "publish", "command": "git push" }],
            "paths": ["/x"],
            "outside": ["/x"],
            "sweeps": [],
            "unknown": [],
        })
    );
}
