//! Copilot CLI logs: a stream of events.

use serde_json::Value;
use takeback_ledger::Tokens;

use super::entry_writer::{
    EntryRef, LoggedCall, LoggedResult, MessageParts, SessionFacts, list_items, text_field,
    time_field, token_field,
};
use super::{ReadContext, anthropic_content};

/// Reads one line.
pub(super) fn read_line(line: &Value, context: &mut ReadContext<'_>) {
    let data = &line["data"];
    match line["type"].as_str() {
        Some("session.start") => read_session(line, data, context),
        Some("user.message") => read_user(line, data, context),
        Some("assistant.message") => read_assistant(line, data, context),
        Some("tool.execution_complete") => read_result(line, data, context),
        Some("session.usage_record") => {
            if let Some(entry) = entry_ref(line, &Value::Null, context) {
                let usage = &data["usage"];
                let model = text_field(usage, "model");
                context.out.push_usage(&entry, read_tokens(usage).to_usage(model.as_deref(), 1));
            }
        }
        Some("session.compaction_complete") => {
            let summary = text_field(data, "summaryContent");
            if let (Some(entry), Some(summary)) = (entry_ref(line, &Value::Null, context), summary)
            {
                context.out.push_summary(entry, &summary);
            }
        }
        Some("session.title_changed") => {
            if let (Some(entry), title @ Some(_)) =
                (entry_ref(line, &Value::Null, context), text_field(data, "title"))
            {
                context.out.push_session(
                    &entry.session,
                    entry.time,
                    SessionFacts { title, ..SessionFacts::default() },
                );
            }
        }
        _ => {}
    }
}

/// Identifies the entry that a line holds. A subagent's session is named after the call that
/// started it.
fn entry_ref(line: &Value, data: &Value, context: &mut ReadContext<'_>) -> Option<EntryRef> {
    let (own, origin) = (context.state.session.clone()?, text_field(line, "id")?);
    let time = time_field(line, "timestamp");
    let session = match text_field(data, "parentToolCallId") {
        None => own,
        Some(call) => {
            let session = format!("{own}/{call}");
            if context.state.introduced.as_ref() != Some(&session) {
                let facts = SessionFacts { parent: Some(own), ..SessionFacts::default() };
                context.out.push_session(&session, time, facts);
                context.state.introduced = Some(session.clone());
            }
            session
        }
    };
    Some(EntryRef { session, origin, time })
}

fn read_session(line: &Value, data: &Value, context: &mut ReadContext<'_>) {
    let Some(own) = text_field(data, "sessionId") else { return };
    let environment = &data["context"];
    let facts = SessionFacts {
        workspace: text_field(environment, "cwd"),
        branch: text_field(environment, "branch"),
        model: text_field(data, "selectedModel"),
        ..SessionFacts::default()
    };
    context.out.push_session(&own, time_field(line, "timestamp"), facts);
    context.state.session = Some(own);
}

fn read_user(line: &Value, data: &Value, context: &mut ReadContext<'_>) {
    // Messages that the agent sends on the user's behalf have a different source.
    if data["source"].as_str().is_some_and(|source| source != "user") {
        return;
    }
    let Some(entry) = entry_ref(line, data, context) else { return };
    let texts = text_field(data, "content").into_iter().collect();
    context.out.push_user(entry, &MessageParts { texts, ..MessageParts::default() });
}

fn read_assistant(line: &Value, data: &Value, context: &mut ReadContext<'_>) {
    let Some(entry) = entry_ref(line, data, context) else { return };
    let mut parts = MessageParts {
        texts: text_field(data, "content").into_iter().collect(),
        thoughts: text_field(data, "reasoningText").into_iter().collect(),
        ..MessageParts::default()
    };
    for request in list_items(&data["toolRequests"]) {
        let Some(id) = text_field(request, "toolCallId") else { continue };
        let tool = text_field(request, "name").unwrap_or_default();
        context.state.remember_call(&id, &tool);
        parts.calls.push(LoggedCall { id, tool, input: request["arguments"].clone() });
    }
    context.out.push_assistant(entry, &parts, None);
}

fn read_result(line: &Value, data: &Value, context: &mut ReadContext<'_>) {
    let (Some(entry), Some(call)) =
        (entry_ref(line, data, context), text_field(data, "toolCallId"))
    else {
        return;
    };
    let error = text_field(&data["error"], "message");
    let result = LoggedResult {
        tool: context.state.tool_of_call(&call),
        call,
        text: error.unwrap_or_else(|| anthropic_content::to_plain_text(&data["result"]["content"])),
        succeeded: match data["shellExecution"]["exitCode"].as_i64() {
            Some(code) => Some(code == 0),
            None => data["success"].as_bool(),
        },
    };
    context.out.push_results(&entry, &[result]);
}

fn read_tokens(usage: &Value) -> Tokens {
    let (cache_read, cache_write) =
        (token_field(usage, "cacheReadTokens"), token_field(usage, "cacheWriteTokens"));
    Tokens {
        // The input count includes cached tokens.
        input: (token_field(usage, "inputTokens") - cache_read - cache_write).max(0),
        output: token_field(usage, "outputTokens"),
        cache_read,
        cache_write,
        reasoning: token_field(usage, "reasoningTokens"),
    }
}
