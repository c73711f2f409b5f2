//! Gemini CLI: a message is written again when more of it is known, and all of them when a session
//! goes on. Older versions keep a document.

use std::fs;

use serde_json::Value;

use super::page::{At, Call, Facts, Outcome, Parts, list, text, time, tokens};
use super::state::Tokens;
use super::{Reading, google};

pub(super) fn read(line: &Value, reading: &mut Reading<'_>) {
    if line["sessionId"].is_string() {
        return header(line, reading);
    }
    let set = &line["$set"];
    if let (Some(session), Some(title)) = (reading.state.session.clone(), text(set, "summary")) {
        reading.out.session(&session, None, Facts { title: Some(title), ..Facts::default() });
    }
    for line in list(&set["messages"]) {
        if let Some(summary) = summary(line) {
            // Behind it are messages that have been told, some of them under other names.
            if let Some(at) = at(line, reading) {
                reading.out.summary(at, &summary);
            }
            return;
        }
        message(line, reading);
    }
    if line["id"].is_string() {
        message(line, reading);
    }
}

/// What stands for all that was said before, if this is it.
fn summary(line: &Value) -> Option<String> {
    let said = google::parts(&line["content"]).texts.join("\n");
    (line["type"] == "user" && said.contains("<state_snapshot>")).then_some(said)
}

pub(super) fn read_document(document: &Value, reading: &mut Reading<'_>) {
    header(document, reading);
    for (_, line) in reading.state.take(list(&document["messages"])) {
        message(line, reading);
    }
}

fn header(line: &Value, reading: &mut Reading<'_>) {
    let Some(own) = text(line, "sessionId") else { return };
    // A subagent's log is in a directory that is named after the session it works for.
    let directory = reading.path.parent();
    let parent = directory
        .filter(|_| line["kind"] == "subagent")
        .and_then(|directory| Some(directory.file_name()?.to_str()?.to_owned()));
    let session = match &parent {
        Some(parent) => format!("{parent}/{own}"),
        None => own,
    };
    if reading.state.session.as_ref() != Some(&session) {
        let root = reading.path.ancestors().skip(1).take(3).find_map(|directory| {
            let root = fs::read_to_string(directory.join(".project_root")).ok()?;
            Some(root.trim().to_owned()).filter(|root| !root.is_empty())
        });
        let title = text(line, "summary");
        let facts = Facts { workspace: root, parent, title, ..Facts::default() };
        reading.out.session(&session, time(line, "startTime"), facts);
        reading.state.session = Some(session);
    }
}

fn at(line: &Value, reading: &Reading<'_>) -> Option<At> {
    let (session, origin) = (reading.state.session.clone()?, text(line, "id")?);
    Some(At { session, origin, time: time(line, "timestamp") })
}

fn message(line: &Value, reading: &mut Reading<'_>) {
    let Some(at) = at(line, reading) else { return };
    let mut parts = google::parts(&line["content"]);
    results(&at, &std::mem::take(&mut parts.results), reading);
    match line["type"].as_str() {
        Some("user") => {
            let shown = &line["displayContent"];
            let said = if shown.is_null() { parts } else { google::parts(shown) };
            let first = said.texts.first().map(|text| text.trim_start()).unwrap_or_default();
            if !first.starts_with("<session_context>") {
                reading.out.user(at, &said);
            }
        }
        Some("gemini") => {
            parts.thoughts = list(&line["thoughts"]).iter().filter_map(thought).collect();
            let called = list(&line["toolCalls"]);
            let mut calls = std::mem::take(&mut parts.calls);
            for call in called.iter().filter_map(call) {
                if !calls.iter().any(|known| known.id == call.id) {
                    calls.push(call);
                }
            }
            reading.out.assistant(at.clone(), &parts, None);
            // They come later than what was said, and under the same name.
            let calls = Parts { calls, ..Parts::default() };
            reading.out.assistant(at.part("calls"), &calls, None);
            for called in called {
                let response = google::parts(&called["result"]);
                results(
                    &At { time: time(called, "timestamp"), ..at.clone() },
                    &response.results,
                    reading,
                );
            }
            let model = text(line, "model");
            reading.count(&at, usage(&line["tokens"]), model.as_deref());
        }
        _ => {}
    }
}

/// Results are told twice, in two messages: they are known by their calls alone.
fn results(at: &At, results: &[Outcome], reading: &mut Reading<'_>) {
    let at = At { origin: "result".to_owned(), ..at.clone() };
    reading.out.results(&at, results);
}

fn thought(thought: &Value) -> Option<String> {
    let parts = [text(thought, "subject"), text(thought, "description")];
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join(": ");
    (!text.is_empty()).then_some(text)
}

fn call(call: &Value) -> Option<Call> {
    let tool = text(call, "name").unwrap_or_default();
    Some(Call { id: text(call, "id")?, tool, input: call["args"].clone() })
}

fn usage(usage: &Value) -> Tokens {
    let cached = tokens(usage, "cached");
    Tokens {
        // It counts what was cached, too.
        input: (tokens(usage, "input") - cached).max(0),
        output: tokens(usage, "output"),
        cache_read: cached,
        cache_write: 0,
        reasoning: tokens(usage, "thoughts"),
    }
}
