//! Claude Code logs: one line per message block, mixed with the agent's own records.

use serde_json::Value;
use takeback_ledger::Tokens;

use super::entry_writer::{
    EntryRef, MessageParts, SessionFacts, text_field, time_field, token_field,
};
use super::{ReadContext, anthropic_content};

/// Reads one line.
pub(super) fn read_line(line: &Value, context: &mut ReadContext<'_>) {
    match line["type"].as_str() {
        Some("user") => read_user(line, context),
        Some("assistant") => read_assistant(line, context),
        Some("attachment") => read_attachment(line, context),
        Some("ai-title") => read_title(line, "aiTitle", context),
        Some("custom-title") => read_title(line, "customTitle", context),
        _ => {}
    }
}

/// Identifies the entry that a line holds. Also adds the entry's session, unless the previous line
/// belongs to the same session. A subagent's entries carry the session id of its parent.
fn entry_ref(line: &Value, context: &mut ReadContext<'_>) -> Option<EntryRef> {
    let (parent, uuid) = (text_field(line, "sessionId")?, text_field(line, "uuid")?);
    let is_child = line["isSidechain"] == true;
    let child = text_field(line, "agentId").unwrap_or_else(|| "sidechain".to_owned());
    let (session, parent) = match is_child {
        true => (format!("{parent}/{child}"), Some(parent)),
        false => (parent, None),
    };
    let time = time_field(line, "timestamp");
    if context.state.introduced.as_ref() != Some(&session) {
        let facts = SessionFacts {
            workspace: text_field(line, "cwd"),
            branch: text_field(line, "gitBranch").filter(|branch| branch != "HEAD"),
            parent,
            ..SessionFacts::default()
        };
        context.out.push_session(&session, time, facts);
        context.state.introduced = Some(session.clone());
    }
    Some(EntryRef { session, origin: uuid, time })
}

fn read_user(line: &Value, context: &mut ReadContext<'_>) {
    if line["isMeta"] == true {
        return;
    }
    let Some(entry) = entry_ref(line, context) else { return };
    let mut parts = anthropic_content::split_content(&line["message"]["content"]);
    for result in &mut parts.results {
        result.tool = context.state.tool_of_call(&result.call);
    }
    context.out.push_results(&entry, &parts.results);
    if line["isCompactSummary"] == true {
        return context.out.push_summary(entry, &parts.texts.join("\n"));
    }
    parts.texts = parts.texts.into_iter().filter_map(typed_text).collect();
    match parts.texts.as_slice() {
        [text] if text.starts_with("[Request interrupted by user") => {
            context.out.push_system(entry, text);
        }
        _ => context.out.push_user(entry, &parts),
    }
}

/// Extracts the user's own words from the text of an entry in a Claude Code log. Returns `None` if
/// the user typed nothing.
fn typed_text(text: String) -> Option<String> {
    let inside = |tag: &str| {
        let (_, rest) = text.split_once(&format!("<{tag}>"))?;
        Some(rest.split_once(&format!("</{tag}>"))?.0.trim())
    };
    if let Some(command) = inside("command-name") {
        let arguments = inside("command-args").unwrap_or_default();
        return Some(format!("{command} {arguments}").trim().to_owned());
    }
    if let Some(command) = inside("bash-input") {
        return Some(format!("! {command}"));
    }
    // Text that begins with one of these is the output of a local command, or is meant for the
    // model.
    const NOT_TYPED: [&str; 5] = [
        "<local-command-",
        "<bash-stdout>",
        "<bash-stderr>",
        "<system-reminder>",
        "<task-notification>",
    ];
    let is_typed = !NOT_TYPED.iter().any(|tag| text.trim_start().starts_with(tag));
    is_typed.then_some(text)
}

fn read_assistant(line: &Value, context: &mut ReadContext<'_>) {
    let Some(entry) = entry_ref(line, context) else { return };
    let message = &line["message"];
    let parts = anthropic_content::split_content(&message["content"]);
    for call in &parts.calls {
        context.state.remember_call(&call.id, &call.tool);
    }
    context.out.push_assistant(entry.clone(), &parts, text_field(message, "stop_reason"));
    // Each line of a response repeats the token counts so far.
    let model = text_field(message, "model").filter(|model| model != "<synthetic>");
    if let (Some(response), Some(model)) = (text_field(message, "id"), model) {
        let (spent, is_first) =
            context.state.count_tokens(&response, read_tokens(&message["usage"]));
        context.out.push_usage(&entry, spent.to_usage(Some(&model), i64::from(is_first)));
    }
}

fn read_tokens(usage: &Value) -> Tokens {
    let reasoning = token_field(&usage["output_tokens_details"], "thinking_tokens");
    Tokens {
        input: token_field(usage, "input_tokens"),
        // The output count includes reasoning.
        output: (token_field(usage, "output_tokens") - reasoning).max(0),
        cache_read: token_field(usage, "cache_read_input_tokens"),
        cache_write: token_field(usage, "cache_creation_input_tokens"),
        reasoning,
    }
}

/// Reads a prompt that the user sent while the agent was working.
fn read_attachment(line: &Value, context: &mut ReadContext<'_>) {
    let attachment = &line["attachment"];
    let is_prompt = attachment["commandMode"].as_str().is_none_or(|mode| mode == "prompt");
    if attachment["type"] != "queued_command" || !is_prompt {
        return;
    }
    let prompt = anthropic_content::split_content(&attachment["prompt"]);
    let prompt =
        MessageParts { texts: prompt.texts.into_iter().filter_map(typed_text).collect(), ..prompt };
    if let Some(entry) = entry_ref(line, context) {
        context.out.push_user(entry, &prompt);
    }
}

fn read_title(line: &Value, key: &str, context: &mut ReadContext<'_>) {
    if let (Some(session), Some(title)) = (text_field(line, "sessionId"), text_field(line, key)) {
        context.out.push_session(
            &session,
            None,
            SessionFacts { title: Some(title), ..SessionFacts::default() },
        );
    }
}
