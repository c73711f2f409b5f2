//! pi logs: the entries of a tree, in the order in which pi wrote them.

use std::path::Path;

use serde_json::Value;
use takeback_ledger::Tokens;

use super::entry_writer::{
    EntryRef, LoggedResult, SessionFacts, text_field, time_field, token_field,
};
use super::{ReadContext, anthropic_content};

/// Reads one line.
pub(super) fn read_line(line: &Value, context: &mut ReadContext<'_>) {
    match line["type"].as_str() {
        Some("session") => read_session(line, context),
        Some("message") => read_message(line, context),
        Some("compaction") => {
            if let (Some(entry), Some(summary)) =
                (entry_ref(line, context), text_field(line, "summary"))
            {
                context.out.push_summary(entry, &summary);
            }
        }
        Some("session_info") => {
            if let (Some(entry), title @ Some(_)) =
                (entry_ref(line, context), text_field(line, "name"))
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

/// Identifies the entry that a line holds. Entries from old versions have no ids and are identified
/// by their offset.
fn entry_ref(line: &Value, context: &ReadContext<'_>) -> Option<EntryRef> {
    let origin = text_field(line, "id").unwrap_or_else(|| format!("@{}", context.offset));
    Some(EntryRef {
        session: context.state.session.clone()?,
        origin,
        time: time_field(line, "timestamp"),
    })
}

fn read_session(line: &Value, context: &mut ReadContext<'_>) {
    let in_name = || {
        let name = Path::new(context.path).file_stem()?.to_str()?;
        Some(name.rsplit_once('_')?.1.to_owned())
    };
    let Some(own) = text_field(line, "id").or_else(in_name) else { return };
    let facts = SessionFacts { workspace: text_field(line, "cwd"), ..SessionFacts::default() };
    context.out.push_session(&own, time_field(line, "timestamp"), facts);
    context.state.session = Some(own);
}

fn read_message(line: &Value, context: &mut ReadContext<'_>) {
    let message = &line["message"];
    let Some(entry) = entry_ref(line, context) else { return };
    let parts = anthropic_content::split_content(&message["content"]);
    match message["role"].as_str() {
        Some("user") => context.out.push_user(entry, &parts),
        Some("assistant") => {
            context.out.push_assistant(entry.clone(), &parts, text_field(message, "stopReason"));
            let usage = &message["usage"];
            let spent = Tokens {
                input: token_field(usage, "input"),
                output: token_field(usage, "output"),
                cache_read: token_field(usage, "cacheRead"),
                cache_write: token_field(usage, "cacheWrite"),
                reasoning: token_field(usage, "reasoning"),
            };
            let spent =
                spent.to_usage(text_field(message, "model").as_deref(), 1).map(|mut spent| {
                    let cost = usage["cost"]["total"].as_f64().filter(|cost| *cost > 0.0);
                    spent.estimated_cost_usd = cost;
                    spent
                });
            context.out.push_usage(&entry, spent);
        }
        Some("toolResult") => {
            let Some(call) = text_field(message, "toolCallId") else { return };
            let result = LoggedResult {
                call,
                tool: text_field(message, "toolName"),
                text: anthropic_content::to_plain_text(&message["content"]),
                succeeded: message["isError"].as_bool().map(|is_error| !is_error),
            };
            context.out.push_results(&entry, &[result]);
        }
        // This is a command that the user ran.
        Some("bashExecution") => {
            let (command, output) = (text_field(message, "command"), text_field(message, "output"));
            let shown =
                format!("! {}\n{}", command.unwrap_or_default(), output.unwrap_or_default());
            context.out.push_system(entry, shown.trim_end());
        }
        _ => {}
    }
}
