//! Claude Code: one line per block of a message, with the agent's own records in between.

use serde_json::Value;

use super::page::{At, Facts, Parts, text, time, tokens};
use super::state::Tokens;
use super::{Reading, anthropic};

pub(super) fn read(line: &Value, reading: &mut Reading<'_>) {
    match line["type"].as_str() {
        Some("user") => user(line, reading),
        Some("assistant") => assistant(line, reading),
        Some("attachment") => attachment(line, reading),
        Some("ai-title") => title(line, "aiTitle", reading),
        Some("custom-title") => title(line, "customTitle", reading),
        _ => {}
    }
}

/// Where an entry belongs, and whose it is. A subagent's entries name the session of whoever
/// handed out the work.
fn at(line: &Value, reading: &mut Reading<'_>) -> Option<At> {
    let (parent, uuid) = (text(line, "sessionId")?, text(line, "uuid")?);
    let is_child = line["isSidechain"] == true;
    let child = text(line, "agentId").unwrap_or_else(|| "sidechain".to_owned());
    let (session, parent) = match is_child {
        true => (format!("{parent}/{child}"), Some(parent)),
        false => (parent, None),
    };
    let time = time(line, "timestamp");
    if reading.state.introduced.as_ref() != Some(&session) {
        let facts = Facts {
            workspace: text(line, "cwd"),
            branch: text(line, "gitBranch").filter(|branch| branch != "HEAD"),
            parent,
            ..Facts::default()
        };
        reading.out.session(&session, time, facts);
        reading.state.introduced = Some(session.clone());
    }
    Some(At { session, origin: uuid, time })
}

fn user(line: &Value, reading: &mut Reading<'_>) {
    if line["isMeta"] == true {
        return;
    }
    let Some(at) = at(line, reading) else { return };
    let mut parts = anthropic::parts(&line["message"]["content"]);
    for result in &mut parts.results {
        result.tool = reading.state.tool(&result.call);
    }
    reading.out.results(&at, &parts.results);
    if line["isCompactSummary"] == true {
        return reading.out.summary(at, &parts.texts.join("\n"));
    }
    parts.texts = parts.texts.into_iter().filter_map(said).collect();
    match parts.texts.as_slice() {
        [text] if text.starts_with("[Request interrupted by user") => reading.out.aside(at, text),
        _ => reading.out.user(at, &parts),
    }
}

/// What the user typed, of a text that stands for it.
fn said(text: String) -> Option<String> {
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
    // What local commands print, and what the agent reminds its model of.
    const NOT_SAID: [&str; 5] = [
        "<local-command-",
        "<bash-stdout>",
        "<bash-stderr>",
        "<system-reminder>",
        "<task-notification>",
    ];
    let is_said = !NOT_SAID.iter().any(|tag| text.trim_start().starts_with(tag));
    is_said.then_some(text)
}

fn assistant(line: &Value, reading: &mut Reading<'_>) {
    let Some(at) = at(line, reading) else { return };
    let message = &line["message"];
    let parts = anthropic::parts(&message["content"]);
    for call in &parts.calls {
        reading.state.call(&call.id, &call.tool);
    }
    reading.out.assistant(at.clone(), &parts, text(message, "stop_reason"));
    // Each line of a response repeats its usage so far.
    let model = text(message, "model").filter(|model| model != "<synthetic>");
    if let (Some(response), Some(model)) = (text(message, "id"), model) {
        let (spent, is_first) = reading.state.count(&response, usage(&message["usage"]));
        reading.out.usage(&at, spent.usage(Some(&model), i64::from(is_first)));
    }
}

fn usage(usage: &Value) -> Tokens {
    Tokens {
        input: tokens(usage, "input_tokens"),
        output: tokens(usage, "output_tokens"),
        cache_read: tokens(usage, "cache_read_input_tokens"),
        cache_write: tokens(usage, "cache_creation_input_tokens"),
        reasoning: tokens(&usage["output_tokens_details"], "thinking_tokens"),
    }
}

/// What the user said while the agent was at work.
fn attachment(line: &Value, reading: &mut Reading<'_>) {
    let attachment = &line["attachment"];
    let is_prompt = attachment["commandMode"].as_str().is_none_or(|mode| mode == "prompt");
    if attachment["type"] != "queued_command" || !is_prompt {
        return;
    }
    let prompt = anthropic::parts(&attachment["prompt"]);
    let prompt = Parts { texts: prompt.texts.into_iter().filter_map(said).collect(), ..prompt };
    if let Some(at) = at(line, reading) {
        reading.out.user(at, &prompt);
    }
}

fn title(line: &Value, key: &str, reading: &mut Reading<'_>) {
    if let (Some(session), Some(title)) = (text(line, "sessionId"), text(line, key)) {
        reading.out.session(&session, None, Facts { title: Some(title), ..Facts::default() });
    }
}
