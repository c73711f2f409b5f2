//! Codex: what went to and came from its model, and events beside that.

use serde_json::{Value, json};

use super::page::{At, Call, Facts, Outcome, Parts, list, text, time, tokens};
use super::state::Tokens;
use super::{Reading, anthropic};

pub(super) fn read(line: &Value, reading: &mut Reading<'_>) {
    let payload = &line["payload"];
    match line["type"].as_str() {
        Some("session_meta") => session(line, payload, reading),
        Some("turn_context") => reading.state.model = text(payload, "model"),
        Some("response_item") => item(line, payload, reading),
        Some("event_msg") => event(line, payload, reading),
        Some("compacted") => {
            if let Some(at) = at(line, reading) {
                let summary = text(payload, "message");
                reading.out.summary(at, summary.as_deref().unwrap_or("(summed up by the model)"));
            }
        }
        _ => {}
    }
}

/// Newer versions count their lines; in older ones a line is known by its place.
fn at(line: &Value, reading: &Reading<'_>) -> Option<At> {
    let origin = match line["ordinal"].as_u64() {
        Some(ordinal) => format!("#{ordinal}"),
        None => format!("@{}", reading.offset),
    };
    Some(At { session: reading.state.session.clone()?, origin, time: time(line, "timestamp") })
}

/// The first one is the log's own; a fork has its origin's behind it.
fn session(line: &Value, payload: &Value, reading: &mut Reading<'_>) {
    if reading.state.session.is_some() {
        return;
    }
    let Some(thread) = text(payload, "id") else { return };
    let spawn = &payload["source"]["subagent"]["thread_spawn"];
    let parent = text(spawn, "parent_thread_id")
        .or_else(|| text(payload, "session_id"))
        .filter(|parent| *parent != thread);
    let session = match &parent {
        Some(parent) => format!("{parent}/{thread}"),
        None => thread,
    };
    let facts = Facts {
        workspace: text(payload, "cwd"),
        branch: text(&payload["git"], "branch"),
        parent,
        ..Facts::default()
    };
    let began = time(payload, "timestamp").or_else(|| time(line, "timestamp"));
    reading.out.session(&session, began, facts);
    reading.state.session = Some(session);
}

fn item(line: &Value, payload: &Value, reading: &mut Reading<'_>) {
    let Some(at) = at(line, reading) else { return };
    match payload["type"].as_str() {
        Some("message") => message(at, payload, reading),
        Some("function_call") => call(at, payload, "arguments", reading),
        Some("custom_tool_call") => call(at, payload, "input", reading),
        Some("local_shell_call") => {
            let mut payload = payload.clone();
            payload["name"] = json!("local_shell");
            call(at, &payload, "action", reading);
        }
        Some("function_call_output" | "custom_tool_call_output") => output(&at, payload, reading),
        Some("reasoning") => {
            let thoughts = list(&payload["summary"]).iter().filter_map(|part| text(part, "text"));
            let parts = Parts { thoughts: thoughts.collect(), ..Parts::default() };
            reading.out.assistant(at, &parts, None);
        }
        _ => {}
    }
}

fn message(at: At, payload: &Value, reading: &mut Reading<'_>) {
    let mut parts = Parts::default();
    for block in list(&payload["content"]) {
        match block["type"].as_str() {
            Some("input_text" | "output_text" | "text") => parts.texts.extend(text(block, "text")),
            Some("input_image") => {
                parts.attachments.push(json!({ "type": "image", "source": { "type": "omitted" } }));
            }
            _ => {}
        }
    }
    match payload["role"].as_str() {
        Some("user") if is_said(payload, &parts) => reading.out.user(at, &parts),
        Some("assistant") => reading.out.assistant(at, &parts, None),
        _ => {}
    }
}

/// Whether the user said it, and not the agent in their name.
fn is_said(payload: &Value, parts: &Parts) -> bool {
    let kinds = &payload["internal_chat_message_metadata_passthrough"]["content_item_kinds"];
    if !list(kinds).is_empty() {
        let is_users = |kind: &Value| kind.as_str().is_some_and(|kind| kind.starts_with("user."));
        return list(kinds).iter().any(is_users);
    }
    const NOT_SAID: [&str; 6] = [
        "<environment_context>",
        "<user_instructions>",
        "# AGENTS.md instructions",
        "<permissions instructions>",
        "<turn_aborted>",
        "<skill",
    ];
    let first = parts.texts.first().map(|text| text.trim_start()).unwrap_or_default();
    !NOT_SAID.iter().any(|mark| first.starts_with(mark))
}

fn call(at: At, payload: &Value, input: &str, reading: &mut Reading<'_>) {
    let Some(id) = text(payload, "call_id") else { return };
    let tool = text(payload, "name").unwrap_or_default();
    reading.state.call(&id, &tool);
    let calls = vec![Call { id, tool, input: payload[input].clone() }];
    reading.out.assistant(at, &Parts { calls, ..Parts::default() }, None);
}

fn output(at: &At, payload: &Value, reading: &mut Reading<'_>) {
    let Some(call) = text(payload, "call_id") else { return };
    let output = &payload["output"];
    // Older versions wrap what a command printed, and its exit code, into JSON.
    let wrapped = output.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let code = wrapped.as_ref().and_then(|wrapped| wrapped["metadata"]["exit_code"].as_i64());
    let printed = wrapped.as_ref().and_then(|wrapped| text(wrapped, "output"));
    let result = Outcome {
        tool: reading.state.tool(&call),
        call,
        text: printed.unwrap_or_else(|| match output {
            Value::Object(_) => anthropic::plain(&output["content"]),
            output => anthropic::plain(output),
        }),
        succeeded: code.map(|code| code == 0).or_else(|| output["success"].as_bool()),
    };
    reading.out.results(at, &[result]);
}

fn event(line: &Value, payload: &Value, reading: &mut Reading<'_>) {
    let Some(at) = at(line, reading) else { return };
    match payload["type"].as_str() {
        Some("token_count") => {
            // The count of the whole session: the same one may be told several times.
            let total = &payload["info"]["total_token_usage"];
            if total.is_object() {
                let (spent, _) = reading.state.count("session", usage(total));
                let model = reading.state.model.clone();
                reading.out.usage(&at, spent.usage(model.as_deref(), 1));
            }
        }
        Some("turn_aborted") => {
            let reason = text(payload, "reason").unwrap_or_else(|| "aborted".to_owned());
            reading.out.aside(at, &format!("[turn {reason}]"));
        }
        Some("thread_name_updated") => {
            let title = text(payload, "thread_name");
            reading.out.session(&at.session, at.time, Facts { title, ..Facts::default() });
        }
        _ => {}
    }
}

fn usage(total: &Value) -> Tokens {
    let (cache_read, cache_write) =
        (tokens(total, "cached_input_tokens"), tokens(total, "cache_write_input_tokens"));
    Tokens {
        // It counts what was cached, too.
        input: (tokens(total, "input_tokens") - cache_read - cache_write).max(0),
        output: tokens(total, "output_tokens"),
        cache_read,
        cache_write,
        reasoning: tokens(total, "reasoning_output_tokens"),
    }
}
