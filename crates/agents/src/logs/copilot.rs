//! Copilot CLI: a stream of events.

use serde_json::Value;

use super::page::{At, Call, Facts, Outcome, Parts, list, text, time, tokens};
use super::state::Tokens;
use super::{Reading, anthropic};

pub(super) fn read(line: &Value, reading: &mut Reading<'_>) {
    let data = &line["data"];
    match line["type"].as_str() {
        Some("session.start") => session(line, data, reading),
        Some("user.message") => user(line, data, reading),
        Some("assistant.message") => assistant(line, data, reading),
        Some("tool.execution_complete") => complete(line, data, reading),
        Some("session.usage_record") => {
            if let Some(at) = at(line, &Value::Null, reading) {
                let usage = &data["usage"];
                let model = text(usage, "model");
                reading.out.usage(&at, spent(usage).usage(model.as_deref(), 1));
            }
        }
        Some("session.compaction_complete") => {
            let summary = text(data, "summaryContent");
            if let (Some(at), Some(summary)) = (at(line, &Value::Null, reading), summary) {
                reading.out.summary(at, &summary);
            }
        }
        Some("session.title_changed") => {
            if let (Some(at), title @ Some(_)) =
                (at(line, &Value::Null, reading), text(data, "title"))
            {
                reading.out.session(&at.session, at.time, Facts { title, ..Facts::default() });
            }
        }
        _ => {}
    }
}

/// Where an entry belongs: what a subagent does is named after the call that it works for.
fn at(line: &Value, data: &Value, reading: &mut Reading<'_>) -> Option<At> {
    let (own, origin) = (reading.state.session.clone()?, text(line, "id")?);
    let time = time(line, "timestamp");
    let session = match text(data, "parentToolCallId") {
        None => own,
        Some(call) => {
            let session = format!("{own}/{call}");
            if reading.state.introduced.as_ref() != Some(&session) {
                let facts = Facts { parent: Some(own), ..Facts::default() };
                reading.out.session(&session, time, facts);
                reading.state.introduced = Some(session.clone());
            }
            session
        }
    };
    Some(At { session, origin, time })
}

fn session(line: &Value, data: &Value, reading: &mut Reading<'_>) {
    let Some(own) = text(data, "sessionId") else { return };
    let context = &data["context"];
    let facts = Facts {
        workspace: text(context, "cwd"),
        branch: text(context, "branch"),
        model: text(data, "selectedModel"),
        ..Facts::default()
    };
    reading.out.session(&own, time(line, "timestamp"), facts);
    reading.state.session = Some(own);
}

fn user(line: &Value, data: &Value, reading: &mut Reading<'_>) {
    // The agent says things in the user's name, too, and says so.
    if data["source"].as_str().is_some_and(|source| source != "user") {
        return;
    }
    let Some(at) = at(line, data, reading) else { return };
    let texts = text(data, "content").into_iter().collect();
    reading.out.user(at, &Parts { texts, ..Parts::default() });
}

fn assistant(line: &Value, data: &Value, reading: &mut Reading<'_>) {
    let Some(at) = at(line, data, reading) else { return };
    let mut parts = Parts {
        texts: text(data, "content").into_iter().collect(),
        thoughts: text(data, "reasoningText").into_iter().collect(),
        ..Parts::default()
    };
    for request in list(&data["toolRequests"]) {
        let Some(id) = text(request, "toolCallId") else { continue };
        let tool = text(request, "name").unwrap_or_default();
        reading.state.call(&id, &tool);
        parts.calls.push(Call { id, tool, input: request["arguments"].clone() });
    }
    reading.out.assistant(at, &parts, None);
}

fn complete(line: &Value, data: &Value, reading: &mut Reading<'_>) {
    let (Some(at), Some(call)) = (at(line, data, reading), text(data, "toolCallId")) else {
        return;
    };
    let error = text(&data["error"], "message");
    let result = Outcome {
        tool: reading.state.tool(&call),
        call,
        text: error.unwrap_or_else(|| anthropic::plain(&data["result"]["content"])),
        succeeded: match data["shellExecution"]["exitCode"].as_i64() {
            Some(code) => Some(code == 0),
            None => data["success"].as_bool(),
        },
    };
    reading.out.results(&at, &[result]);
}

fn spent(usage: &Value) -> Tokens {
    let (cache_read, cache_write) =
        (tokens(usage, "cacheReadTokens"), tokens(usage, "cacheWriteTokens"));
    Tokens {
        // It counts what was cached, too.
        input: (tokens(usage, "inputTokens") - cache_read - cache_write).max(0),
        output: tokens(usage, "outputTokens"),
        cache_read,
        cache_write,
        reasoning: tokens(usage, "reasoningTokens"),
    }
}
