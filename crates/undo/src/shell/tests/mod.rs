//! Tests of the analysis: tables of commands, comparisons with bash and the real programs, and
//! arbitrary input.

mod against_bash;
mod any_input;
mod bounded;
mod changing;
mod disguises;
mod effects;
mod plain_commands;
mod random_scripts;
mod reading;
mod targets;
mod targets_against_bash;

use std::path::Path;

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

use super::{EffectKind, ScriptAnalysis, ScriptContext, analyze_script};

/// Returns the configuration for a random test. Unless `TAKEBACK_SHELL_CASES` is set, the test runs
/// the same cases every time.
fn random_config(cases: u32) -> ProptestConfig {
    let wanted = std::env::var("TAKEBACK_SHELL_CASES").ok().and_then(|text| text.parse().ok());
    let default = ProptestConfig::default();
    let rng_seed = if wanted.is_some() { RngSeed::Random } else { default.rng_seed };
    let cases = wanted.unwrap_or(cases);
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..default }
}

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

fn effect_kinds(analysis: &ScriptAnalysis) -> Vec<EffectKind> {
    analysis.effects.iter().map(|effect| effect.kind).collect()
}

/// Checks all rows, and reports every failure.
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
fn disguised_commands_are_recognized() {
    check_rows(disguises::ROWS);
}

#[test]
fn the_tables_have_enough_rows() {
    let rows = [reading::READING, changing::CHANGING, effects::EFFECTS, disguises::ROWS];
    assert!(rows.iter().map(|rows| rows.len()).sum::<usize>() >= 400);
}

#[test]
fn an_effect_names_only_its_command() {
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
fn the_reason_is_a_short_clause() {
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
    assert_eq!(because("nohup ls"), "`nohup` may do more than run the command it is given");
    assert_eq!(because("ls; bash -c 'cat y; rm x'"), "`rm` changes files");
    assert_eq!(because("git --exec-path=x log"), "`git` with these arguments may change something");
}

#[test]
fn an_analysis_is_serialized_as_json() {
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
            "history": [],
            "bounded": false,
        })
    );
}

#[test]
fn a_descriptor_before_a_here_string_is_not_an_argument() {
    check_rows(&[
        ("awk 3<<<x 'BEGIN { system(\"touch m\") }'", true, &[]),
        ("awk 3<<<x '{ print }' f", false, &[]),
        ("sed 3<<<x -i s/a/b/ f", true, &[]),
        ("cat 3<<<x f", false, &[]),
        ("echo 3 <<<x", false, &[]),
    ]);
}

#[test]
fn a_script_on_another_descriptor_is_not_run() {
    check_rows(&[
        ("bash 0<<<'git push'", true, &[EffectKind::Publish]),
        ("bash 3<<<'git push'", true, &[]),
        ("bash 3<<EOF\ngit push\nEOF", true, &[]),
        ("bash <<<'git push' < script.sh", true, &[EffectKind::Publish]),
        ("bash <<<'git push' <<< ls", true, &[EffectKind::Publish]),
    ]);
}
