//! The stories, each of which must have the same outcome whether or not its process is killed.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use takeback_ledger::Budget;
use takeback_script::{Fault, Finish, Reply, Request, StreamGate, StreamStep, ToolCall};

use crate::subagents::delegator;
use crate::support::Scratch;

/// A task for the agent, and the script of its model.
pub(super) struct Story {
    pub(super) name: &'static str,
    pub(super) prompts: &'static [&'static str],
    /// The budget of the goal, if the story has a goal. In that case, the goal's objective is the
    /// only prompt.
    pub(super) budget: Option<Budget>,
    /// The context window of the model, in tokens.
    pub(super) window: u64,
    pub(super) script: fn(&Request) -> Reply,
    pub(super) prepare: fn(&Scratch),
    /// True if a kill may change the conversation, because the model is told about the kill.
    pub(super) tells_of_kills: bool,
}

const USUAL: Story = Story {
    name: "",
    prompts: &["go"],
    budget: None,
    window: 100_000,
    script: |_| Reply::text("Done."),
    prepare: |_| {},
    tells_of_kills: false,
};

const NO_LIMIT: Budget = Budget { tokens: None, usd: None, time: None, turns: None };

pub(super) const STORIES: &[Story] = &[
    Story { name: "editor", prompts: &["first", "second"], script: editor, ..USUAL },
    Story { name: "subagents", prompts: &["delegate"], script: delegator, ..USUAL },
    Story {
        name: "goal",
        prompts: &["reach it"],
        budget: Some(NO_LIMIT),
        script: goal_keeper,
        ..USUAL
    },
    Story {
        name: "budget",
        prompts: &["never enough"],
        budget: Some(Budget { turns: Some(2), ..NO_LIMIT }),
        script: spender,
        ..USUAL
    },
    Story {
        name: "compression",
        prompts: &["one", "two", "three"],
        window: 2_600,
        script: talker,
        ..USUAL
    },
    Story {
        name: "long turn",
        window: 4_000,
        script: reader,
        prepare: |scratch| {
            for number in 0..6 {
                scratch
                    .write(&format!("{number}.txt"), &format!("{number} lorem ipsum ").repeat(90));
            }
        },
        ..USUAL
    },
    Story { name: "cut streams", script: stutterer, ..USUAL },
    Story { name: "command", script: appender, tells_of_kills: true, ..USUAL },
];

pub(super) fn find_story(name: &str) -> &'static Story {
    STORIES.iter().find(|story| story.name == name).unwrap()
}

impl Story {
    /// Creates a project for the story.
    pub(super) fn prepare(&self) -> Scratch {
        let scratch = Scratch::new();
        (self.prepare)(&scratch);
        scratch
    }
}

fn call(name: &str, input: serde_json::Value) -> ToolCall {
    ToolCall { id: String::new(), name: name.into(), input }
}

fn write(path: &str, content: &str) -> ToolCall {
    call("write_file", json!({ "path": path, "content": content }))
}

fn count_results(request: &Request) -> usize {
    request.messages.iter().map(|message| message.results.len()).sum()
}

/// Plays a model that lists files, writes two and edits one, in two turns.
fn editor(request: &Request) -> Reply {
    match count_results(request) {
        0 => Reply {
            text: "First I look.".into(),
            calls: vec![call("list_files", json!({})), write("a.txt", "one\n")],
            ..Reply::default()
        },
        2 => Reply { calls: vec![write("sub/b.txt", "b\n")], ..Reply::default() },
        3 if request.last_text() == "first" => Reply::text("The first part is done."),
        3 => {
            let edits = json!([{ "old": "one", "new": "two" }]);
            Reply::call("patch", json!({ "path": "a.txt", "edits": edits }))
        }
        _ => Reply::text("Everything is done."),
    }
}

/// Plays a model that writes a file in the first turn, and reports in the second.
fn goal_keeper(request: &Request) -> Reply {
    match (request.last_text(), request.last_result()) {
        ("reach it", None) => Reply { calls: vec![write("g.txt", "g")], ..Reply::default() },
        (_, Some(result)) if result.text == "noted" => Reply::text("The goal is reached."),
        ("reach it", Some(_)) => Reply::text("I have begun."),
        (_, _) => {
            Reply::call("finish_goal", json!({ "status": "reached", "summary": "it is written" }))
        }
    }
}

/// Plays a model that works until the budget is spent, and then leaves a note.
fn spender(request: &Request) -> Reply {
    let wraps_up = request.last_text().starts_with("The budget");
    match (wraps_up, request.last_result()) {
        (true, None) => Reply { calls: vec![write("left.txt", "the rest")], ..Reply::default() },
        (true, Some(_)) => Reply::text("The rest is in left.txt."),
        (false, _) => Reply::text("I am at it."),
    }
}

/// Plays a model whose answers soon fill the context window.
fn talker(request: &Request) -> Reply {
    match request.last_text() {
        text if text.starts_with("Summarize") => Reply::text("They talked."),
        text => Reply::text(format!("{text} ").repeat(400)),
    }
}

/// Plays a model that reads long files one after another. Together, the files do not fit into the
/// context window.
fn reader(request: &Request) -> Reply {
    if request.last_text().starts_with("Summarize") {
        return Reply::text("Some files are read.");
    }
    let read = |message: &takeback_script::Message| {
        let numbers = message.calls.iter().filter_map(|call| call.input["path"].as_str());
        numbers.filter_map(|path| path.split('.').next()?.parse::<usize>().ok()).max()
    };
    match request.messages.iter().filter_map(read).max().map_or(0, |last| last + 1) {
        6 => Reply::text("All files are read."),
        number => Reply {
            text: "So I read on. ".repeat(20),
            ..Reply::call("read_file", json!({ "path": format!("{number}.txt") }))
        },
    }
}

/// Answers every other request with an error. Some of the other replies are cut off.
fn stutterer(request: &Request) -> Reply {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    if COUNT.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
        let body = json!({ "error": { "type": "overloaded_error", "message": "busy" } });
        let headers = vec![("retry-after".into(), "0".into())];
        return Reply::fault(Fault::Response { status: 529, headers, body: body.to_string() });
    }
    let is_continued = request.count_text("cut off by a technical problem") > 0;
    let cut_at = |reply: Reply, last: usize| {
        let decide = move |event| if event > last { StreamStep::Cut } else { StreamStep::Send };
        Reply { gate: Some(StreamGate::new(decide)), ..reply }
    };
    match (count_results(request), is_continued) {
        (0, false) => {
            let calls = vec![write("a.txt", "never")];
            cut_at(Reply { text: "I write a file.".into(), calls, ..Reply::default() }, 3)
        }
        (0, true) => Reply { calls: vec![write("a.txt", "whole")], ..Reply::default() },
        (_, false) => Reply { finish: Finish::Length, ..Reply::text("It is ") },
        (_, true) => Reply::text("written."),
    }
}

/// Plays a model that runs a command. The command must not run twice.
fn appender(request: &Request) -> Reply {
    match request.last_result() {
        None => Reply::call("terminal", json!({ "command": "echo line >> log.txt" })),
        Some(_) => Reply::text("Done."),
    }
}

/// Reads the files of a project, with their paths.
pub(super) fn read_files(root: &Path) -> std::collections::BTreeMap<String, String> {
    let mut files = std::collections::BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().display().to_string();
                files.insert(name, std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    files
}
