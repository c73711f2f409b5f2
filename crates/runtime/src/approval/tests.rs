//! The decision for each call, in each mode, with and without remembered answers.

use serde_json::json;
use takeback_undo::shell::analyze_script;

use super::*;

const WORKSPACE: &str = "/srv/app";
const DIRECTORY: &str = "/srv/app/src";

/// A decision, abbreviated.
#[derive(Debug, PartialEq, Eq)]
enum Short {
    Run,
    Ask,
    /// The user is asked, and the answer can be remembered.
    Remember(&'static str),
    Refuse,
}

use Short::{Ask, Refuse, Remember, Run};

/// A call in a test.
struct Call {
    tool: &'static str,
    input: Value,
    work: ToolWork,
    paths: Vec<PathBuf>,
}

fn script(script: &str) -> Call {
    Call {
        tool: "terminal",
        input: json!({ "command": script }),
        work: ToolWork::run_script(script),
        paths: Vec::new(),
    }
}

fn read(tool: &'static str, path: &str) -> Call {
    Call { tool, input: json!({ "path": path }), work: ToolWork::Reads, paths: vec![path.into()] }
}

fn write(path: &str) -> Call {
    let paths = vec![PathBuf::from(path)];
    let work = ToolWork::Changes { script: None, paths: paths.clone() };
    Call { tool: "write_file", input: json!({ "path": path }), work, paths }
}

fn fetch(url: &str) -> Call {
    let input = json!({ "url": url });
    Call { tool: "fetch_url", input, work: ToolWork::Reads, paths: Vec::new() }
}

fn decide_call(call: &Call, mode: ApprovalMode, remembered: &[&str], is_covered: bool) -> Decision {
    let (directory, workspace) = (Path::new(DIRECTORY), Path::new(WORKSPACE));
    let context = ScriptContext { directory, workspace, home: Some(Path::new("/home/me")) };
    let analysis = match &call.work {
        ToolWork::Shell { script, .. } => Some(analyze_script(script, &context)),
        _ => None,
    };
    let remembered = remembered.iter().map(ToString::to_string).collect();
    decide(&ApprovalRequest {
        mode,
        tool: call.tool,
        input: &call.input,
        work: &call.work,
        paths: &call.paths,
        analysis: analysis.as_ref(),
        directory,
        workspace,
        is_covered,
        remembered: &remembered,
    })
}

/// Checks a decision, and returns the reason.
#[track_caller]
fn check(call: &Call, mode: ApprovalMode, remembered: &[&str], expected: &Short) -> String {
    let decision = decide_call(call, mode, remembered, true);
    let (short, because) = match decision {
        Decision::Run => ("Run".to_owned(), String::new()),
        Decision::Ask { because, remember: None } => ("Ask".to_owned(), because),
        Decision::Ask { because, remember: Some(prefix) } => {
            (format!("Remember({prefix:?})"), because)
        }
        Decision::Refuse { because } => ("Refuse".to_owned(), because),
    };
    let what = format!("{mode:?} {} {} {remembered:?}: {because}", call.tool, call.input);
    assert_eq!(short, format!("{expected:?}"), "{what}");
    because
}

/// The decisions in the modes `Effects`, `Ask` and `Never`. The mode `Auto` refuses only the calls
/// that all other modes also refuse.
#[test]
fn every_call_gets_the_expected_decision_in_every_mode() {
    let rows: Vec<(Call, [Short; 3])> = vec![
        // Reading.
        (script("ls -l | wc -l"), [Run, Run, Run]),
        (script("cat /etc/passwd"), [Run, Run, Run]),
        (script("git status && git diff"), [Run, Run, Run]),
        (script(""), [Run, Run, Run]),
        (read("read_file", "/srv/app/a.rs"), [Run, Run, Run]),
        (read("list_files", "/srv/app"), [Run, Run, Run]),
        (read("read_file", "/etc/passwd"), [Remember("read /etc"), Remember("read /etc"), Refuse]),
        (
            read("search_files", "/usr/src"),
            [Remember("read /usr/src"), Remember("read /usr/src"), Refuse],
        ),
        (read("read_file", "/vmlinuz"), [Ask, Ask, Refuse]),
        (read("list_files", "/"), [Ask, Ask, Refuse]),
        (
            read("read_file", "/srv/app2/a.rs"),
            [Remember("read /srv/app2"), Remember("read /srv/app2"), Refuse],
        ),
        // Changes that a checkpoint covers.
        (write("/srv/app/a.rs"), [Run, Remember("write_file"), Run]),
        (script("rm -rf target"), [Run, Ask, Run]),
        (script("sed -i s/a/b/ x.rs"), [Run, Ask, Run]),
        (script("make clean"), [Run, Remember("make clean"), Run]),
        (script("cargo build"), [Run, Remember("cargo build"), Run]),
        (script("cargo build && cargo fmt"), [Run, Ask, Run]),
        (script("python3 x.py"), [Run, Ask, Run]),
        (script("echo x > out.txt"), [Run, Ask, Run]),
        (script("echo 'not closed"), [Run, Ask, Run]),
        // Changes outside the workspace.
        (write("/etc/hosts"), [Ask, Ask, Refuse]),
        (write("/srv/app2/x"), [Ask, Ask, Refuse]),
        (script("rm -rf ~"), [Ask, Ask, Refuse]),
        (script("rm -rf ../../other"), [Ask, Ask, Refuse]),
        (script("cp a.rs /tmp/x"), [Ask, Ask, Refuse]),
        (script("echo x >> ~/.bashrc"), [Ask, Ask, Refuse]),
        (script("cd / && git clean -fdx"), [Ask, Ask, Refuse]),
        // Changes that cannot be determined.
        (script("rm -rf \"$DIR\""), [Ask, Ask, Refuse]),
        (script("curl x | xargs rm"), [Ask, Ask, Refuse]),
        // Elevated privileges.
        (script("sudo systemctl restart nginx"), [Ask, Ask, Refuse]),
        (script("make && /usr/bin/sudo make install"), [Ask, Ask, Refuse]),
        (script("su -c reboot"), [Ask, Ask, Refuse]),
        // Effects.
        (script("git push"), [Remember("git push"), Remember("git push"), Refuse]),
        (
            script("git push --force origin main"),
            [Remember("git push"), Remember("git push"), Refuse],
        ),
        (script("npm publish"), [Remember("npm publish"), Remember("npm publish"), Refuse]),
        (script("gh pr create -t x"), [Remember("gh pr create"), Remember("gh pr create"), Refuse]),
        (script("git commit -m x && git push"), [Ask, Ask, Refuse]),
        (script("git push; git push --tags"), [Remember("git push"), Remember("git push"), Refuse]),
        (script("X=1 git push"), [Ask, Ask, Refuse]),
        (script("env X=1 git push"), [Ask, Ask, Refuse]),
        (script("git -C ../other push"), [Ask, Ask, Refuse]),
        (script("bash -c 'git push'"), [Ask, Ask, Refuse]),
        (script("echo $(git push)"), [Ask, Ask, Refuse]),
        (script("curl -d @x http://host"), [Ask, Ask, Refuse]),
        (script("psql -c 'drop table x'"), [Ask, Ask, Refuse]),
        // The web.
        (
            fetch("https://Docs.RS/x?y"),
            [Remember("fetch_url docs.rs"), Remember("fetch_url docs.rs"), Refuse],
        ),
        (fetch("file:///etc/passwd"), [Run, Run, Run]),
        // Takeback's own history.
        (script("takeback checkpoints clear"), [Refuse, Refuse, Refuse]),
    ];
    for (call, expected) in &rows {
        let modes = [ApprovalMode::Effects, ApprovalMode::Ask, ApprovalMode::Never];
        for (mode, expected) in modes.into_iter().zip(expected) {
            check(call, mode, &[], expected);
        }
        let in_auto = if expected[0] == Refuse { &Refuse } else { &Run };
        check(call, ApprovalMode::Auto, &[], in_auto);
    }
}

#[test]
fn a_command_with_a_remembered_prefix_needs_no_question() {
    let push = ["git push"];
    for (text, remembered, expected) in [
        ("git push", &push[..], Run),
        ("git push --force origin main", &push, Run),
        ("git  push 2>&1 | tail -1", &push, Run),
        ("cd .. && git push", &push, Run),
        ("cargo test && git push", &push, Run),
        ("git commit -m x && git push", &push, Remember("git commit")),
        ("git commit -m x && git push", &["git push", "git commit"], Run),
        ("git commit -m x && npm publish", &push, Ask),
        // The same program with a different verb.
        ("git pull", &push, Remember("git pull")),
        ("git push-all", &push, Run),
        ("git stash drop", &["git stash"], Remember("git stash drop")),
        // Scripts that contain the remembered command, but may do something else.
        ("git push; rm -rf ~", &push, Ask),
        ("git push && rm -rf \"$X\"", &push, Ask),
        ("git push | sudo tee x", &push, Ask),
        ("sudo git push", &push, Ask),
        ("env X=1 git push", &push, Ask),
        ("GIT_SSH_COMMAND=evil git push", &push, Ask),
        ("export GIT_SSH_COMMAND=evil; git push", &push, Ask),
        ("git push $(npm publish)", &push, Ask),
        ("git push `npm publish`", &push, Ask),
        ("git push \"$OPTIONS\"", &push, Ask),
        ("git -c core.sshCommand=evil push", &push, Ask),
        ("/tmp/git push", &push, Ask),
        ("cd ../../other && git push", &push, Ask),
        ("if true; then git push; fi", &push, Ask),
        ("git push & git push", &push, Ask),
        ("curl -d x http://host", &["curl"], Ask),
        ("takeback checkpoints clear", &["takeback checkpoints"], Refuse),
    ] {
        check(&script(text), ApprovalMode::Effects, remembered, &expected);
    }
}

#[test]
fn remembered_tools_and_hosts_and_directories_need_no_question() {
    let effects = ApprovalMode::Effects;
    check(&fetch("https://docs.rs/y"), effects, &["fetch_url docs.rs"], &Run);
    let other = Remember("fetch_url evil.docs.rs");
    check(&fetch("https://evil.docs.rs/y"), effects, &["fetch_url docs.rs"], &other);
    check(&read("read_file", "/usr/include/sys/x.h"), effects, &["read /usr/include"], &Run);
    let other = Remember("read /usr/include2");
    check(&read("read_file", "/usr/include2/x.h"), effects, &["read /usr/include"], &other);
    check(&write("/usr/include/x.h"), effects, &["read /usr/include", "write_file"], &Ask);
    check(&write("/srv/app/x"), ApprovalMode::Ask, &["write_file"], &Run);
    check(&script("make test"), ApprovalMode::Ask, &["make test"], &Run);
    check(&script("make test; rm x"), ApprovalMode::Ask, &["make test"], &Ask);
    check(&script("make test > x"), ApprovalMode::Ask, &["make test"], &Ask);
    check(&script("rm x"), ApprovalMode::Ask, &["terminal"], &Ask);
    check(&script("git push"), ApprovalMode::Never, &["git push"], &Run);
}

#[test]
fn without_checkpoints_every_change_needs_approval() {
    let decide = |call: &Call| decide_call(call, ApprovalMode::Effects, &[], false);
    let because = "may change files, and no checkpoint covers them".to_owned();
    let ask = Decision::Ask { because, remember: None };
    assert_eq!(decide(&write("/srv/app/x")), ask);
    assert_eq!(decide(&script("cargo build")), ask);
    assert_eq!(decide(&script("ls")), Decision::Run);
    assert_eq!(decide(&read("read_file", "/srv/app/x")), Decision::Run);
}

#[test]
fn a_reason_names_the_path_or_the_command_in_question() {
    let effects = ApprovalMode::Effects;
    for (call, expected, reason) in [
        (write("/etc/hosts"), Ask, "changes /etc/hosts, which is outside the workspace"),
        (
            read("read_file", "/etc/a\nb"),
            Remember("read /etc"),
            "reads /etc/a\\nb, which is outside the workspace",
        ),
        (
            script("ls; git push"),
            Remember("git push"),
            "runs `git push`, which no rollback can take back (publish)",
        ),
        (script("sudo ls"), Ask, "runs `sudo`, which can change the system"),
        (fetch("http://a.b/c"), Remember("fetch_url a.b"), "sends a request to a.b"),
        (
            script("takeback checkpoints clear"),
            Refuse,
            "runs `takeback checkpoints clear`, which deletes takeback's history",
        ),
    ] {
        assert_eq!(check(&call, effects, &[], &expected), reason);
    }
    let long = script(&format!("git push {}", "x".repeat(500)));
    let reason = check(&long, effects, &[], &Remember("git push"));
    assert!(reason.len() < 200, "{reason}");
    let refused = check(&script("git push"), ApprovalMode::Never, &[], &Refuse);
    assert!(refused.ends_with("; no user can approve the call in this session"), "{refused}");
}

#[test]
fn a_mode_is_written_as_one_word() {
    for (mode, word) in [
        (ApprovalMode::Effects, "effects"),
        (ApprovalMode::Ask, "ask"),
        (ApprovalMode::Auto, "auto"),
        (ApprovalMode::Never, "never"),
    ] {
        assert_eq!(serde_json::to_value(mode).unwrap(), json!(word));
        assert_eq!(serde_json::from_value::<ApprovalMode>(json!(word)).unwrap(), mode);
    }
    assert_eq!(ApprovalMode::default(), ApprovalMode::Effects);
}
