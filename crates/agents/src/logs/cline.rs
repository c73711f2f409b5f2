//! Cline: a document of messages as Anthropic's API has them; what else is known of the session is
//! in files beside it.

use std::fs;

use serde_json::Value;

use super::page::{At, Facts, list, text, time, tokens};
use super::state::Tokens;
use super::{Reading, anthropic, identity};

/// The kind of message that a summary is.
const SUMMARY: &str = "compaction_summary";

pub(super) fn read(document: &Value, reading: &mut Reading<'_>) {
    let Some(session) = text(document, "sessionId") else { return };
    let messages = list(&document["messages"]);
    let facts = facts(reading);
    if reading.state.learn(&facts) {
        let first = messages.first().and_then(|message| time(message, "ts"));
        reading.out.session(&session, first, facts);
    }
    let mut summary = summary(&session, reading);
    for (place, entry) in reading.state.take(messages) {
        if let Some(summary) = summary.take_if(|summary| summary.behind <= place) {
            reading.out.summary(summary.at, &summary.text);
        }
        message(&session, entry, reading);
    }
    if let Some(summary) = summary {
        reading.out.summary(summary.at, &summary.text);
    }
}

/// `<id>.messages.json` has other files beside it.
fn beside(reading: &Reading<'_>, ending: &str) -> Value {
    let name = reading.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let path = reading.path.with_file_name(name.replace(".messages.json", ending));
    let value = fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    value.unwrap_or_default()
}

/// What stands for the first messages when the model is asked.
struct Summary {
    behind: usize,
    at: At,
    text: String,
}

/// The messages stay in the log; the summary is in a file of its own.
fn summary(session: &str, reading: &mut Reading<'_>) -> Option<Summary> {
    let compaction = beside(reading, ".compaction.json");
    let is_summary = |message: &&Value| message["metadata"]["kind"] == SUMMARY;
    let about = &list(&compaction["messages"]).iter().find(is_summary)?["metadata"];
    let text = text(about, "summary")?;
    let origin = format!("summary/{}", identity::of_bytes(text.as_bytes()));
    if reading.state.summary.as_ref() == Some(&origin) {
        return None;
    }
    reading.state.summary = Some(origin.clone());
    let behind = compaction["source_message_count"].as_u64().unwrap_or(0) as usize;
    let at = At { session: session.to_owned(), origin, time: time(about, "generatedAt") };
    Some(Summary { behind, at, text })
}

fn facts(reading: &Reading<'_>) -> Facts {
    let about = beside(reading, ".json");
    Facts {
        workspace: text(&about, "workspace_root").or_else(|| text(&about, "cwd")),
        branch: text(&about["metadata"]["git"], "branch"),
        model: text(&about, "model"),
        // Without a name of its own it is called what was said first.
        title: text(&about["metadata"], "title").filter(|title| about["prompt"] != **title),
        parent: text(&about, "parent_session_id"),
    }
}

fn message(session: &str, message: &Value, reading: &mut Reading<'_>) {
    let Some(id) = text(message, "id") else { return };
    let at = At { session: session.to_owned(), origin: id, time: time(message, "ts") };
    let mut parts = anthropic::parts(&message["content"]);
    reading.out.results(&at, &parts.results);
    if message["metadata"]["kind"] == SUMMARY {
        return reading.out.summary(at, &parts.texts.join("\n"));
    }
    match message["role"].as_str() {
        Some("user") => {
            parts.texts = parts.texts.iter().map(|text| said(text)).collect();
            reading.out.user(at, &parts);
        }
        Some("assistant") => {
            reading.out.assistant(at.clone(), &parts, None);
            let model = text(&message["modelInfo"], "id");
            reading.count(&at, usage(&message["metrics"]), model.as_deref());
        }
        _ => {}
    }
}

/// What the user typed is inside of a tag.
fn said(text: &str) -> String {
    let inside = text
        .trim()
        .strip_prefix("<user_input")
        .and_then(|rest| rest.split_once('>')?.1.strip_suffix("</user_input>"));
    inside.unwrap_or(text).to_owned()
}

fn usage(metrics: &Value) -> Tokens {
    let (cache_read, cache_write) =
        (tokens(metrics, "cacheReadTokens"), tokens(metrics, "cacheWriteTokens"));
    Tokens {
        input: (tokens(metrics, "inputTokens") - cache_read - cache_write).max(0),
        output: tokens(metrics, "outputTokens"),
        cache_read,
        cache_write,
        reasoning: 0,
    }
}
