//! Codex logs: the messages to and from its model, mixed with events.

use std::path::Path;

use serde_json::{Value, json};
use takeback_ledger::Tokens;

use super::entry_writer::{
    EntryRef, LoggedCall, LoggedResult, MessageParts, SessionFacts, list_items, text_field,
    time_field, token_field,
};
use super::{ReadContext, anthropic_content};

/// Reads one line.
pub(super) fn read_line(line: &Value, context: &mut ReadContext<'_>) {
    let payload = &line["payload"];
    match line["type"].as_str() {
        Some("session_meta") => read_session(line, payload, context),
        Some("turn_context") => context.state.model = text_field(payload, "model"),
        Some("response_item") => read_item(line, payload, context),
        Some("event_msg") => read_event(line, payload, context),
        Some("compacted") => {
            if let Some(entry) = entry_ref(line, context) {
                let summary = text_field(payload, "message");
                context
                    .out
                    .push_summary(entry, summary.as_deref().unwrap_or("(summarized by the model)"));
            }
        }
        _ => {}
    }
}

/// Identifies the entry that a line holds. Newer versions of Codex number their lines. A line
/// without a number is identified by its offset.
fn entry_ref(line: &Value, context: &ReadContext<'_>) -> Option<EntryRef> {
    let session = context.state.session.clone()?;
    let origin = match (line["ordinal"].as_u64(), generation(context.path, &session)) {
        (Some(ordinal), Some(generation)) => format!("#{ordinal}_{generation}"),
        (Some(ordinal), None) => format!("#{ordinal}"),
        (None, _) => format!("@{}", context.offset),
    };
    Some(EntryRef { session, origin, time: time_field(line, "timestamp") })
}

/// Returns the part of a log's name that distinguishes the log from the session's first log. When
/// the user rewinds a conversation inside Codex, Codex continues the conversation in another log.
/// The line numbers in that log continue from the point to which the user went back, so the same
/// numbers occur in both logs.
pub(crate) fn generation<'p>(path: &'p Path, session: &str) -> Option<&'p str> {
    let (name, generation) = path.file_stem()?.to_str()?.rsplit_once('_')?;
    name.ends_with(session.rsplit('/').next()?).then_some(generation)
}

/// Reads the facts about the session that the log belongs to. Only the first session record counts,
/// because the log of a fork also contains the record of the session that it was forked from.
fn read_session(line: &Value, payload: &Value, context: &mut ReadContext<'_>) {
    if context.state.session.is_some() {
        return;
    }
    let Some(thread) = text_field(payload, "id") else { return };
    let spawn = &payload["source"]["subagent"]["thread_spawn"];
    let parent = text_field(spawn, "parent_thread_id")
        .or_else(|| text_field(payload, "session_id"))
        .filter(|parent| *parent != thread);
    let session = match &parent {
        Some(parent) => format!("{parent}/{thread}"),
        None => thread,
    };
    let facts = SessionFacts {
        workspace: text_field(payload, "cwd"),
        branch: text_field(&payload["git"], "branch"),
        parent,
        ..SessionFacts::default()
    };
    let began = time_field(payload, "timestamp").or_else(|| time_field(line, "timestamp"));
    context.out.push_session(&session, began, facts);
    let base = &payload["history_base"];
    if let (Some(parent), Some(end)) =
        (text_field(base, "thread_id"), base["end_ordinal_exclusive"].as_u64())
        && parent != session
        && generation(context.path, &session).is_none()
    {
        context.out.push_fork(&session, &parent, end);
    }
    context.state.session = Some(session);
}

fn read_item(line: &Value, payload: &Value, context: &mut ReadContext<'_>) {
    let Some(entry) = entry_ref(line, context) else { return };
    match payload["type"].as_str() {
        Some("message") => read_message(entry, payload, context),
        Some("function_call") => read_call(entry, payload, "arguments", context),
        Some("custom_tool_call") => read_call(entry, payload, "input", context),
        Some("local_shell_call") => {
            let mut payload = payload.clone();
            payload["name"] = json!("local_shell");
            read_call(entry, &payload, "action", context);
        }
        Some("function_call_output" | "custom_tool_call_output") => {
            read_output(&entry, payload, context);
        }
        Some("reasoning") => {
            let thoughts =
                list_items(&payload["summary"]).iter().filter_map(|part| text_field(part, "text"));
            let parts = MessageParts { thoughts: thoughts.collect(), ..MessageParts::default() };
            context.out.push_assistant(entry, &parts, None);
        }
        _ => {}
    }
}

fn read_message(entry: EntryRef, payload: &Value, context: &mut ReadContext<'_>) {
    let mut parts = MessageParts::default();
    for block in list_items(&payload["content"]) {
        match block["type"].as_str() {
            Some("input_text" | "output_text" | "text") => {
                parts.texts.extend(text_field(block, "text"));
            }
            Some("input_image") => {
                parts.attachments.push(json!({ "type": "image", "source": { "type": "omitted" } }));
            }
            _ => {}
        }
    }
    match payload["role"].as_str() {
        Some("user") if is_typed(payload, &parts) => context.out.push_user(entry, &parts),
        Some("assistant") => context.out.push_assistant(entry, &parts, None),
        _ => {}
    }
}

/// True if the user typed the message. The agent also writes messages on the user's behalf.
fn is_typed(payload: &Value, parts: &MessageParts) -> bool {
    let kinds = &payload["internal_chat_message_metadata_passthrough"]["content_item_kinds"];
    if !list_items(kinds).is_empty() {
        let is_of_user = |kind: &Value| kind.as_str().is_some_and(|kind| kind.starts_with("user."));
        return list_items(kinds).iter().any(is_of_user);
    }
    const NOT_TYPED: [&str; 6] = [
        "<environment_context>",
        "<user_instructions>",
        "# AGENTS.md instructions",
        "<permissions instructions>",
        "<turn_aborted>",
        "<skill",
    ];
    let first = parts.texts.first().map(|text| text.trim_start()).unwrap_or_default();
    !NOT_TYPED.iter().any(|mark| first.starts_with(mark))
}

fn read_call(entry: EntryRef, payload: &Value, input: &str, context: &mut ReadContext<'_>) {
    let Some(id) = text_field(payload, "call_id") else { return };
    let tool = text_field(payload, "name").unwrap_or_default();
    context.state.remember_call(&id, &tool);
    let calls = vec![LoggedCall { id, tool, input: payload[input].clone() }];
    context.out.push_assistant(entry, &MessageParts { calls, ..MessageParts::default() }, None);
}

fn read_output(entry: &EntryRef, payload: &Value, context: &mut ReadContext<'_>) {
    let Some(call) = text_field(payload, "call_id") else { return };
    let output = &payload["output"];
    // Older versions wrap the output of a command and its exit code in JSON.
    let wrapped = output.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let code = wrapped.as_ref().and_then(|wrapped| wrapped["metadata"]["exit_code"].as_i64());
    let printed = wrapped.as_ref().and_then(|wrapped| text_field(wrapped, "output"));
    let result = LoggedResult {
        tool: context.state.tool_of_call(&call),
        call,
        text: printed.unwrap_or_else(|| match output {
            Value::Object(_) => anthropic_content::to_plain_text(&output["content"]),
            output => anthropic_content::to_plain_text(output),
        }),
        succeeded: code.map(|code| code == 0).or_else(|| output["success"].as_bool()),
    };
    context.out.push_results(entry, &[result]);
}

fn read_event(line: &Value, payload: &Value, context: &mut ReadContext<'_>) {
    let Some(entry) = entry_ref(line, context) else { return };
    match payload["type"].as_str() {
        Some("token_count") => {
            // This is a running total for the session. The same total may be logged several times.
            let total = &payload["info"]["total_token_usage"];
            if total.is_object() {
                let (spent, _) = context.state.count_tokens("session", read_tokens(total));
                let model = context.state.model.clone();
                context.out.push_usage(&entry, spent.to_usage(model.as_deref(), 1));
            }
        }
        Some("turn_aborted") => {
            let reason = text_field(payload, "reason").unwrap_or_else(|| "aborted".to_owned());
            context.out.push_system(entry, &format!("[turn {reason}]"));
        }
        Some("thread_name_updated") => {
            let title = text_field(payload, "thread_name");
            context.out.push_session(
                &entry.session,
                entry.time,
                SessionFacts { title, ..SessionFacts::default() },
            );
        }
        _ => {}
    }
}

fn read_tokens(total: &Value) -> Tokens {
    let (cache_read, cache_write) =
        (token_field(total, "cached_input_tokens"), token_field(total, "cache_write_input_tokens"));
    let reasoning = token_field(total, "reasoning_output_tokens");
    Tokens {
        // The input count includes cached tokens, and the output count includes reasoning.
        input: (token_field(total, "input_tokens") - cache_read - cache_write).max(0),
        output: (token_field(total, "output_tokens") - reasoning).max(0),
        cache_read,
        cache_write,
        reasoning,
    }
}
