//! Droid logs: messages in Anthropic's format, mixed with messages from hooks.

use serde_json::Value;
use takeback_base::foreign;
use takeback_ledger::Tokens;

use super::entry_writer::{EntryRef, SessionFacts, text_field, time_field, token_field};
use super::{ReadContext, anthropic_content};

/// Reads one line.
pub(super) fn read_line(line: &Value, context: &mut ReadContext<'_>) {
    match line["type"].as_str() {
        Some("session_start") => read_session(line, context),
        Some("message") => read_message(line, context),
        Some("compaction_state") => {
            if let (Some(entry), Some(summary)) =
                (entry_ref(line, context), text_field(line, "summaryText"))
            {
                context.out.push_summary(entry, &summary);
            }
        }
        Some("agent_turn_outcome") => read_usage(line, context),
        _ => {}
    }
}

/// The maximum size of the settings file, which is read for every turn.
const MAX_SETTINGS: u64 = 256 << 10;

/// Reads the number of tokens that a turn used. Droid keeps the session's total in a file next to
/// the log.
fn read_usage(line: &Value, context: &mut ReadContext<'_>) {
    let (Some(session), Some(turn)) = (context.state.session.clone(), text_field(line, "turnId"))
    else {
        return;
    };
    let path = context.path.with_extension("settings.json");
    let settings = foreign::read_regular(&path, MAX_SETTINGS).ok();
    let settings = settings.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    let usage = &settings.unwrap_or_default()["tokenUsage"];
    let total = Tokens {
        input: token_field(usage, "inputTokens"),
        output: token_field(usage, "outputTokens"),
        cache_read: token_field(usage, "cacheReadTokens"),
        cache_write: token_field(usage, "cacheCreationTokens"),
        reasoning: token_field(usage, "thinkingTokens"),
    };
    let (spent, _) = context.state.count_tokens("session", total);
    let entry = EntryRef { session, origin: turn, time: None };
    let model = context.state.model.clone();
    context.out.push_usage(&entry, spent.to_usage(model.as_deref(), 0));
}

fn entry_ref(line: &Value, context: &ReadContext<'_>) -> Option<EntryRef> {
    let session = context.state.session.clone()?;
    Some(EntryRef { session, origin: text_field(line, "id")?, time: time_field(line, "timestamp") })
}

fn read_session(line: &Value, context: &mut ReadContext<'_>) {
    let Some(own) = text_field(line, "id") else { return };
    let facts = SessionFacts {
        workspace: text_field(line, "cwd"),
        // A title that Droid chose is just the beginning of the first prompt.
        title: text_field(line, "title").filter(|_| line["isSessionTitleManuallySet"] == true),
        parent: text_field(line, "callingSessionId"),
        ..SessionFacts::default()
    };
    context.out.push_session(&own, None, facts);
    context.state.session = Some(own);
}

fn read_message(line: &Value, context: &mut ReadContext<'_>) {
    let message = &line["message"];
    // If only the user or only the model sees a message, it comes from a hook or is a reminder.
    if message["visibility"].as_str().is_some_and(|who| who != "both") {
        return;
    }
    let Some(entry) = entry_ref(line, context) else { return };
    let mut parts = anthropic_content::split_content(&message["content"]);
    for call in &parts.calls {
        context.state.remember_call(&call.id, &call.tool);
    }
    for result in &mut parts.results {
        result.tool = context.state.tool_of_call(&result.call);
    }
    context.out.push_results(&entry, &parts.results);
    match message["role"].as_str() {
        Some("user") => {
            parts.texts.retain(|text| !text.trim_start().starts_with("<system-reminder>"));
            context.out.push_user(entry, &parts);
        }
        Some("assistant") => {
            let model = text_field(message, "modelId");
            if model.is_some() && context.state.model != model {
                let facts = SessionFacts { model: model.clone(), ..SessionFacts::default() };
                context.out.push_session(&entry.session, entry.time, facts);
                context.state.model = model;
            }
            context.out.push_assistant(entry, &parts, None);
        }
        _ => {}
    }
}
