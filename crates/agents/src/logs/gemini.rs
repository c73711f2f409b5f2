//! Gemini CLI logs. The agent logs a message again when the message grows, and logs all messages
//! again when a session is resumed. In older versions the whole log is one JSON document.

use std::path::Path;

use serde_json::Value;
use takeback_base::foreign;
use takeback_ledger::Tokens;

use super::entry_writer::{
    EntryRef, LoggedCall, LoggedResult, MessageParts, SessionFacts, list_items, text_field,
    time_field, token_field,
};
use super::{ReadContext, google_content};

/// The name of the file that contains the path of the project. The file is in a directory above the
/// log.
pub(crate) const PROJECT_ROOT: &str = ".project_root";

/// The maximum size of the file with the project's path.
const MAX_PATH: u64 = 64 << 10;

/// Reads one line.
pub(super) fn read_line(line: &Value, context: &mut ReadContext<'_>) {
    if line["sessionId"].is_string() {
        return read_header(line, context);
    }
    let set = &line["$set"];
    if let (Some(session), Some(title)) =
        (context.state.session.clone(), text_field(set, "summary"))
    {
        context.out.push_session(
            &session,
            None,
            SessionFacts { title: Some(title), ..SessionFacts::default() },
        );
    }
    for line in list_items(&set["messages"]) {
        if let Some(summary) = find_summary(line) {
            // Skip the messages after the summary: they were logged before, some of them under
            // other ids.
            if let Some(entry) = entry_ref(line, context) {
                context.out.push_summary(entry, &summary);
            }
            return;
        }
        read_message(line, context);
    }
    if line["id"].is_string() {
        read_message(line, context);
    }
}

/// Returns the text of the message if the message summarizes all earlier ones.
fn find_summary(line: &Value) -> Option<String> {
    let said = google_content::split_content(&line["content"]).texts.join("\n");
    (line["type"] == "user" && said.contains("<state_snapshot>")).then_some(said)
}

/// Reads the new messages in a document.
pub(super) fn read_document(document: &Value, context: &mut ReadContext<'_>) {
    read_header(document, context);
    for (_, line) in context.state.take_new_entries(list_items(&document["messages"])) {
        read_message(line, context);
    }
}

fn read_header(line: &Value, context: &mut ReadContext<'_>) {
    let Some(own) = text_field(line, "sessionId") else { return };
    // A subagent's log is in a directory that is named after the parent session.
    let directory = context.path.parent();
    let parent = directory
        .filter(|_| line["kind"] == "subagent")
        .and_then(|directory| Some(directory.file_name()?.to_str()?.to_owned()));
    let session = match &parent {
        Some(parent) => format!("{parent}/{own}"),
        None => own,
    };
    if context.state.session.as_ref() != Some(&session) {
        let root = find_project_root(context.path);
        let title = text_field(line, "summary");
        let facts = SessionFacts { workspace: root, parent, title, ..SessionFacts::default() };
        context.out.push_session(&session, time_field(line, "startTime"), facts);
        context.state.session = Some(session);
    }
}

/// Finds the working directory of the conversation in a log.
pub(crate) fn find_project_root(log: &Path) -> Option<String> {
    log.ancestors().skip(1).take(3).find_map(|directory| {
        let root = foreign::read_regular(&directory.join(PROJECT_ROOT), MAX_PATH).ok()?;
        Some(String::from_utf8(root).ok()?.trim().to_owned()).filter(|root| !root.is_empty())
    })
}

fn entry_ref(line: &Value, context: &ReadContext<'_>) -> Option<EntryRef> {
    let (session, origin) = (context.state.session.clone()?, text_field(line, "id")?);
    Some(EntryRef { session, origin, time: time_field(line, "timestamp") })
}

fn read_message(line: &Value, context: &mut ReadContext<'_>) {
    let Some(entry) = entry_ref(line, context) else { return };
    let mut parts = google_content::split_content(&line["content"]);
    push_results(&entry, &std::mem::take(&mut parts.results), context);
    match line["type"].as_str() {
        Some("user") => {
            let shown = &line["displayContent"];
            let said = if shown.is_null() { parts } else { google_content::split_content(shown) };
            let first = said.texts.first().map(|text| text.trim_start()).unwrap_or_default();
            if !first.starts_with("<session_context>") {
                context.out.push_user(entry, &said);
            }
        }
        Some("gemini") => {
            parts.thoughts =
                list_items(&line["thoughts"]).iter().filter_map(read_thought).collect();
            let called = list_items(&line["toolCalls"]);
            let mut calls = std::mem::take(&mut parts.calls);
            for call in called.iter().filter_map(read_call) {
                if !calls.iter().any(|known| known.id == call.id) {
                    calls.push(call);
                }
            }
            context.out.push_assistant(entry.clone(), &parts, None);
            // Gemini CLI logs the calls later, in a message with the same id, so the entry for the
            // calls needs an id of its own.
            let calls = MessageParts { calls, ..MessageParts::default() };
            context.out.push_assistant(entry.part("calls"), &calls, None);
            for called in called {
                let response = google_content::split_content(&called["result"]);
                push_results(
                    &EntryRef { time: time_field(called, "timestamp"), ..entry.clone() },
                    &response.results,
                    context,
                );
            }
            let model = text_field(line, "model");
            context.count_tokens(&entry, read_tokens(&line["tokens"]), model.as_deref());
        }
        _ => {}
    }
}

/// Adds results. Gemini CLI logs each result in two messages, so a result is identified only by its
/// call.
fn push_results(entry: &EntryRef, results: &[LoggedResult], context: &mut ReadContext<'_>) {
    let entry = EntryRef { origin: "result".to_owned(), ..entry.clone() };
    context.out.push_results(&entry, results);
}

fn read_thought(thought: &Value) -> Option<String> {
    let parts = [text_field(thought, "subject"), text_field(thought, "description")];
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join(": ");
    (!text.is_empty()).then_some(text)
}

fn read_call(call: &Value) -> Option<LoggedCall> {
    let tool = text_field(call, "name").unwrap_or_default();
    Some(LoggedCall { id: text_field(call, "id")?, tool, input: call["args"].clone() })
}

fn read_tokens(usage: &Value) -> Tokens {
    let cached = token_field(usage, "cached");
    Tokens {
        // The input count includes cached tokens.
        input: (token_field(usage, "input") - cached).max(0),
        output: token_field(usage, "output"),
        cache_read: cached,
        cache_write: 0,
        reasoning: token_field(usage, "thoughts"),
    }
}
