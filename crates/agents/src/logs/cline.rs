//! Cline logs: a document of messages in Anthropic's format. More facts about the session are in
//! other files next to the log.

use serde_json::Value;
use takeback_base::foreign;
use takeback_ledger::Tokens;

use super::entry_writer::{
    EntryRef, SessionFacts, list_items, text_field, time_field, token_field,
};
use super::{ReadContext, anthropic_content, log_identity};

/// The value of `kind` in a message that is a summary.
const SUMMARY_KIND: &str = "compaction_summary";

/// Reads the new messages in a document.
pub(super) fn read_document(document: &Value, context: &mut ReadContext<'_>) {
    let Some(session) = text_field(document, "sessionId") else { return };
    let messages = list_items(&document["messages"]);
    let facts = read_facts(context);
    if context.state.learn_facts(&facts) {
        let first = messages.first().and_then(|message| time_field(message, "ts"));
        context.out.push_session(&session, first, facts);
    }
    let mut summary = read_new_summary(&session, context);
    for (index, message) in context.state.take_new_entries(messages) {
        if let Some(summary) = summary.take_if(|summary| summary.message_count <= index) {
            context.out.push_summary(summary.entry, &summary.text);
        }
        read_message(&session, message, context);
    }
    if let Some(summary) = summary {
        context.out.push_summary(summary.entry, &summary.text);
    }
}

/// Reads another file that belongs to the session. The log is `<id>.messages.json`, and the names
/// of the other files also begin with `<id>`.
fn read_file_beside(context: &ReadContext<'_>, ending: &str) -> Value {
    let name = context.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let path = context.path.with_file_name(name.replace(".messages.json", ending));
    let value = foreign::read_regular(&path, foreign::MAX_TEXT)
        .ok()
        .filter(|bytes| !foreign::has_too_many_values(bytes))
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    value.unwrap_or_default()
}

/// A summary that the model sees in place of the first messages.
struct CompactionSummary {
    /// The number of messages that the summary replaces.
    message_count: usize,
    entry: EntryRef,
    text: String,
}

/// Reads the latest summary, if it is new. The summary is in a separate file; the messages that it
/// replaces stay in the log.
fn read_new_summary(session: &str, context: &mut ReadContext<'_>) -> Option<CompactionSummary> {
    let compaction = read_file_beside(context, ".compaction.json");
    let is_summary = |message: &&Value| message["metadata"]["kind"] == SUMMARY_KIND;
    let about = &list_items(&compaction["messages"]).iter().find(is_summary)?["metadata"];
    let text = text_field(about, "summary")?;
    let origin = format!("summary/{}", log_identity::content_identity(text.as_bytes()));
    if context.state.summary.as_ref() == Some(&origin) {
        return None;
    }
    context.state.summary = Some(origin.clone());
    let message_count = compaction["source_message_count"].as_u64().unwrap_or(0) as usize;
    let entry =
        EntryRef { session: session.to_owned(), origin, time: time_field(about, "generatedAt") };
    Some(CompactionSummary { message_count, entry, text })
}

fn read_facts(context: &ReadContext<'_>) -> SessionFacts {
    let about = read_file_beside(context, ".json");
    SessionFacts {
        workspace: text_field(&about, "cwd").or_else(|| text_field(&about, "workspace_root")),
        branch: text_field(&about["metadata"]["git"], "branch"),
        model: text_field(&about, "model"),
        // A title that equals the first prompt was not chosen by the user.
        title: text_field(&about["metadata"], "title").filter(|title| about["prompt"] != **title),
        parent: text_field(&about, "parent_session_id"),
    }
}

fn read_message(session: &str, message: &Value, context: &mut ReadContext<'_>) {
    let Some(id) = text_field(message, "id") else { return };
    let entry =
        EntryRef { session: session.to_owned(), origin: id, time: time_field(message, "ts") };
    let mut parts = anthropic_content::split_content(&message["content"]);
    context.out.push_results(&entry, &parts.results);
    if message["metadata"]["kind"] == SUMMARY_KIND {
        return context.out.push_summary(entry, &parts.texts.join("\n"));
    }
    match message["role"].as_str() {
        Some("user") => {
            parts.texts = parts.texts.iter().map(|text| typed_text(text)).collect();
            context.out.push_user(entry, &parts);
        }
        Some("assistant") => {
            context.out.push_assistant(entry.clone(), &parts, None);
            let model = text_field(&message["modelInfo"], "id");
            context.count_tokens(&entry, read_tokens(&message["metrics"]), model.as_deref());
        }
        _ => {}
    }
}

/// Extracts the user's input from the tag around it.
fn typed_text(text: &str) -> String {
    let inside = text
        .trim()
        .strip_prefix("<user_input")
        .and_then(|rest| rest.split_once('>')?.1.strip_suffix("</user_input>"));
    inside.unwrap_or(text).to_owned()
}

fn read_tokens(metrics: &Value) -> Tokens {
    let (cache_read, cache_write) =
        (token_field(metrics, "cacheReadTokens"), token_field(metrics, "cacheWriteTokens"));
    Tokens {
        input: (token_field(metrics, "inputTokens") - cache_read - cache_write).max(0),
        output: token_field(metrics, "outputTokens"),
        cache_read,
        cache_write,
        reasoning: 0,
    }
}
