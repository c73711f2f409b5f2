//! Droid: messages as Anthropic's API has them, with those of hooks in between.

use std::fs;

use serde_json::Value;

use super::page::{At, Facts, text, time, tokens};
use super::state::Tokens;
use super::{Reading, anthropic};

pub(super) fn read(line: &Value, reading: &mut Reading<'_>) {
    match line["type"].as_str() {
        Some("session_start") => session(line, reading),
        Some("message") => message(line, reading),
        Some("compaction_state") => {
            if let (Some(at), Some(summary)) = (at(line, reading), text(line, "summaryText")) {
                reading.out.summary(at, &summary);
            }
        }
        Some("agent_turn_outcome") => usage(line, reading),
        _ => {}
    }
}

/// Tokens are counted in a file beside the log, all of them together.
fn usage(line: &Value, reading: &mut Reading<'_>) {
    let (Some(session), Some(turn)) = (reading.state.session.clone(), text(line, "turnId")) else {
        return;
    };
    let settings = fs::read(reading.path.with_extension("settings.json")).ok();
    let settings = settings.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    let usage = &settings.unwrap_or_default()["tokenUsage"];
    let total = Tokens {
        input: tokens(usage, "inputTokens"),
        output: tokens(usage, "outputTokens"),
        cache_read: tokens(usage, "cacheReadTokens"),
        cache_write: tokens(usage, "cacheCreationTokens"),
        reasoning: tokens(usage, "thinkingTokens"),
    };
    let (spent, _) = reading.state.count("session", total);
    let at = At { session, origin: turn, time: None };
    let model = reading.state.model.clone();
    reading.out.usage(&at, spent.usage(model.as_deref(), 0));
}

fn at(line: &Value, reading: &Reading<'_>) -> Option<At> {
    let session = reading.state.session.clone()?;
    Some(At { session, origin: text(line, "id")?, time: time(line, "timestamp") })
}

fn session(line: &Value, reading: &mut Reading<'_>) {
    let Some(own) = text(line, "id") else { return };
    let facts = Facts {
        workspace: text(line, "cwd"),
        // Otherwise it is what was said first.
        title: text(line, "title").filter(|_| line["isSessionTitleManuallySet"] == true),
        parent: text(line, "callingSessionId"),
        ..Facts::default()
    };
    reading.out.session(&own, None, facts);
    reading.state.session = Some(own);
}

fn message(line: &Value, reading: &mut Reading<'_>) {
    let message = &line["message"];
    // Only for the user or only for the model: hooks and reminders.
    if message["visibility"].as_str().is_some_and(|who| who != "both") {
        return;
    }
    let Some(at) = at(line, reading) else { return };
    let mut parts = anthropic::parts(&message["content"]);
    for call in &parts.calls {
        reading.state.call(&call.id, &call.tool);
    }
    for result in &mut parts.results {
        result.tool = reading.state.tool(&result.call);
    }
    reading.out.results(&at, &parts.results);
    match message["role"].as_str() {
        Some("user") => {
            parts.texts.retain(|text| !text.trim_start().starts_with("<system-reminder>"));
            reading.out.user(at, &parts);
        }
        Some("assistant") => {
            let model = text(message, "modelId");
            if model.is_some() && reading.state.model != model {
                let facts = Facts { model: model.clone(), ..Facts::default() };
                reading.out.session(&at.session, at.time, facts);
                reading.state.model = model;
            }
            reading.out.assistant(at, &parts, None);
        }
        _ => {}
    }
}
