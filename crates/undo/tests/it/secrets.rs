//! Secrets in an agent's commands stay out of takeback's own files.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use takeback_undo::{ReportedEvent, ToolCall, ToolWork, history};

use crate::support::Scratch;

const SECRET: &str = "Zq7w9XkT2mLp4vR8";

/// Lists the files below a directory that contain the secret.
fn find_leaks(directory: &Path) -> Vec<PathBuf> {
    let mut leaks = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            leaks.extend(find_leaks(&path));
        } else if fs::read(&path).unwrap().windows(SECRET.len()).any(|w| w == SECRET.as_bytes()) {
            leaks.push(path);
        }
    }
    leaks
}

fn play_script(scratch: &Scratch, script: &str) {
    scratch.begin_turn("s", &format!("My password is {SECRET}"));
    let call = ToolCall {
        id: Some(script.len().to_string()),
        tool: "bash".into(),
        input: json!({ "command": script }),
        work: ToolWork::run_script(script),
    };
    scratch.report("s", ReportedEvent::BeforeTool(call.clone()));
    scratch.write("a", &script.len().to_string());
    let outcome = Some(format!("error: access denied for https://me:{SECRET}@a.b/c"));
    scratch.report("s", ReportedEvent::AfterTool { call, outcome });
    scratch.end_turn("s");
}

#[test]
fn a_reason_does_not_repeat_a_password() {
    let scratch = Scratch::new();
    scratch.write("a", "1");
    play_script(&scratch, &format!("curl -u admin:{SECRET} -o a https://a.b/c"));
    let list = history::list_checkpoints(&scratch.opened, &scratch.project()).unwrap();
    let reason = &list.checkpoints[0].reason;
    assert!(reason.starts_with("before bash: curl -u admin:[redacted:"), "{reason}");
    assert!(!reason.contains(SECRET), "{reason}");
}

#[test]
fn no_file_contains_a_password_if_secrets_are_masked() {
    let scratch = Scratch::with_masking();
    scratch.write("a", "1");
    for script in [
        format!("curl -u admin:{SECRET} -o a https://a.b/c"),
        format!("mysql -u root -p{SECRET} shop < a"),
        format!("sshpass -p {SECRET} rsync --delete \"$DIR\" me@a.b:"),
        format!("rm -rf \"$DIR\"/https://me:{SECRET}@a.b/"),
    ] {
        play_script(&scratch, &script);
    }
    assert_eq!(find_leaks(scratch.base()), Vec::<PathBuf>::new());
}
