//! Cline: a document of messages as Anthropic's API has them; what else is known of the session is
//! in a file beside it.

use std::fs;

use serde_json::Value;

use super::document::new_ones;
use super::page::{At, Facts, list, text, time, tokens};
use super::state::Tokens;
use super::{Reading, anthropic};

pub(super) fn read(document: &Value, reading: &mut Reading<'_>) {
    let Some(session) = text(document, "sessionId") else { return };
    let messages = list(&document["messages"]);
    if reading.state.introduced.as_ref() != Some(&session) {
        let first = messages.first().and_then(|message| time(message, "ts"));
        let facts = facts(reading);
        reading.out.session(&session, first, facts);
        reading.state.introduced = Some(session.clone());
    }
    let last = reading.state.last.take();
    for entry in new_ones(messages, last.as_deref()) {
        message(&session, entry, reading);
    }
    reading.state.last = messages.last().and_then(|message| text(message, "id"));
}

/// `<id>.messages.json` has `<id>.json` beside it.
fn facts(reading: &Reading<'_>) -> Facts {
    let name = reading.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let beside = reading.path.with_file_name(name.replace(".messages.json", ".json"));
    let about = fs::read(beside).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let about: Value = about.unwrap_or_default();
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
    match message["role"].as_str() {
        Some("user") => {
            parts.texts = parts.texts.iter().map(|text| said(text)).collect();
            reading.out.user(at, &parts);
        }
        Some("assistant") => {
            reading.out.assistant(at.clone(), &parts, None);
            let model = text(&message["modelInfo"], "id");
            reading.out.usage(&at, usage(&message["metrics"]).usage(model.as_deref(), 1));
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
