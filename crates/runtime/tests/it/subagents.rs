//! Tests of subagents: they work in parallel, and report to their parent.

use serde_json::json;
use takeback_ledger::ParentKind;
use takeback_runtime::{Pause, TurnOutcome};
use takeback_script::{Fault, Reply, Request, Server, ToolCall};

use crate::support::{Recorder, Scratch};

/// Plays a model that delegates the writing of two files to two subagents. Also plays the models of
/// the subagents.
pub(crate) fn delegator(request: &Request) -> Reply {
    let text = request.last_text().to_owned();
    match (text.as_str(), request.last_result()) {
        ("delegate", None) => {
            let call = |name: &str| ToolCall {
                id: String::new(),
                name: "subagent".into(),
                input: json!({ "prompt": format!("write {name}") }),
            };
            Reply { calls: vec![call("a.txt"), call("b.txt")], ..Reply::default() }
        }
        ("delegate", Some(_)) => Reply::text("Both are done."),
        (prompt, None) => {
            let path = prompt.trim_start_matches("write ");
            Reply::call("write_file", json!({ "path": path, "content": path }))
        }
        (prompt, Some(_)) => Reply::text(format!("I did: {prompt}")),
    }
}

#[test]
fn subagents_work_in_parallel_and_report_to_their_parent() {
    let scratch = Scratch::new();
    let server = Server::start(delegator).unwrap();
    let mut task = scratch.begin(&server.url(), "t1");
    let pause = task.prompt("delegate", &Recorder::default()).unwrap();
    assert_eq!(pause, Pause::TurnEnded(TurnOutcome::Complete));
    assert_eq!((scratch.read("a.txt"), scratch.read("b.txt")), ("a.txt".into(), "b.txt".into()));
    let mut conversation = scratch.conversation("takeback:t1");
    conversation[2..4].sort();
    assert_eq!(
        conversation,
        [
            "user: delegate",
            "assistant:  [subagent subagent]",
            "tool: I did: write a.txt",
            "tool: I did: write b.txt",
            "assistant: Both are done.",
        ]
    );
    let ledger = scratch.ledger();
    let descendants = ledger.descendants("takeback:t1").unwrap();
    assert_eq!(descendants.len(), 2);
    let is_subagent = |kind| kind == Some(ParentKind::Subagent);
    assert!(descendants.iter().all(|child| is_subagent(child.session.parent_kind)));
    // Two requests of the parent, and two of each subagent.
    assert_eq!(task.state().tokens.input, 600);
    assert_eq!(ledger.session("takeback:t1").unwrap().tokens.input, 200);
}

#[test]
fn a_subagent_that_fails_does_not_stop_the_others() {
    let scratch = Scratch::new();
    let server = Server::start(|request: &Request| match request.last_text() {
        "write b.txt" => Reply::fault(Fault::response(401, "{}")),
        _ => delegator(request),
    })
    .unwrap();
    let mut task = scratch.begin(&server.url(), "t1");
    task.prompt("delegate", &Recorder::default()).unwrap();
    assert_eq!((scratch.read("a.txt"), scratch.read("b.txt")), ("a.txt".into(), String::new()));
    let conversation = scratch.conversation("takeback:t1").join("\n");
    assert!(conversation.contains("the subagent failed"), "{conversation}");
    assert!(conversation.contains("I did: write a.txt"), "{conversation}");
}
