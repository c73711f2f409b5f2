//! pi: entries of a tree, in the order in which they were written.

use std::path::Path;

use serde_json::Value;

use super::page::{At, Facts, Outcome, text, time, tokens};
use super::state::Tokens;
use super::{Reading, anthropic};

pub(super) fn read(line: &Value, reading: &mut Reading<'_>) {
    match line["type"].as_str() {
        Some("session") => session(line, reading),
        Some("message") => message(line, reading),
        Some("compaction") => {
            if let (Some(at), Some(summary)) = (at(line, reading), text(line, "summary")) {
                reading.out.summary(at, &summary);
            }
        }
        Some("session_info") => {
            if let (Some(at), title @ Some(_)) = (at(line, reading), text(line, "name")) {
                reading.out.session(&at.session, at.time, Facts { title, ..Facts::default() });
            }
        }
        _ => {}
    }
}

/// Old versions give no names to their entries: they are known by their places.
fn at(line: &Value, reading: &Reading<'_>) -> Option<At> {
    let origin = text(line, "id").unwrap_or_else(|| format!("@{}", reading.offset));
    Some(At { session: reading.state.session.clone()?, origin, time: time(line, "timestamp") })
}

fn session(line: &Value, reading: &mut Reading<'_>) {
    let in_name = || {
        let name = Path::new(reading.path).file_stem()?.to_str()?;
        Some(name.rsplit_once('_')?.1.to_owned())
    };
    let Some(own) = text(line, "id").or_else(in_name) else { return };
    let facts = Facts { workspace: text(line, "cwd"), ..Facts::default() };
    reading.out.session(&own, time(line, "timestamp"), facts);
    reading.state.session = Some(own);
}

fn message(line: &Value, reading: &mut Reading<'_>) {
    let message = &line["message"];
    let Some(at) = at(line, reading) else { return };
    let parts = anthropic::parts(&message["content"]);
    match message["role"].as_str() {
        Some("user") => reading.out.user(at, &parts),
        Some("assistant") => {
            reading.out.assistant(at.clone(), &parts, text(message, "stopReason"));
            let usage = &message["usage"];
            let spent = Tokens {
                input: tokens(usage, "input"),
                output: tokens(usage, "output"),
                cache_read: tokens(usage, "cacheRead"),
                cache_write: tokens(usage, "cacheWrite"),
                reasoning: tokens(usage, "reasoning"),
            };
            let spent = spent.usage(text(message, "model").as_deref(), 1).map(|mut spent| {
                let cost = usage["cost"]["total"].as_f64().filter(|cost| *cost > 0.0);
                spent.estimated_cost_usd = cost;
                spent
            });
            reading.out.usage(&at, spent);
        }
        Some("toolResult") => {
            let Some(call) = text(message, "toolCallId") else { return };
            let result = Outcome {
                call,
                tool: text(message, "toolName"),
                text: anthropic::plain(&message["content"]),
                succeeded: message["isError"].as_bool().map(|is_error| !is_error),
            };
            reading.out.results(&at, &[result]);
        }
        // The user runs a command.
        Some("bashExecution") => {
            let (command, output) = (text(message, "command"), text(message, "output"));
            let shown =
                format!("! {}\n{}", command.unwrap_or_default(), output.unwrap_or_default());
            reading.out.aside(at, shown.trim_end());
        }
        _ => {}
    }
}
