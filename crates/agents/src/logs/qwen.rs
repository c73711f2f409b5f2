//! Qwen Code logs: records like Claude Code's, with content in Google's format.

use serde_json::Value;
use takeback_ledger::Tokens;

use super::entry_writer::{
    EntryRef, SessionFacts, list_items, text_field, time_field, token_field,
};
use super::{ReadContext, google_content};

/// Reads one line.
pub(super) fn read_line(line: &Value, context: &mut ReadContext<'_>) {
    match line["type"].as_str() {
        Some("user") => read_user(line, context),
        Some("assistant") => read_assistant(line, context),
        Some("tool_result") => read_result(line, context),
        Some("system") => read_system(line, context),
        _ => {}
    }
}

fn entry_ref(line: &Value, context: &mut ReadContext<'_>) -> Option<EntryRef> {
    let (session, uuid) = (text_field(line, "sessionId")?, text_field(line, "uuid")?);
    let time = time_field(line, "timestamp");
    if context.state.introduced.as_ref() != Some(&session) {
        let (workspace, branch) = (text_field(line, "cwd"), text_field(line, "gitBranch"));
        context.out.push_session(
            &session,
            time,
            SessionFacts { workspace, branch, ..SessionFacts::default() },
        );
        context.state.introduced = Some(session.clone());
    }
    Some(EntryRef { session, origin: uuid, time })
}

fn read_user(line: &Value, context: &mut ReadContext<'_>) {
    // The agent also sends messages on the user's behalf, to continue a turn.
    let is_typed = line["provenance"].as_str().is_none_or(|who| who == "real_user");
    if !is_typed {
        return;
    }
    let Some(entry) = entry_ref(line, context) else { return };
    let mut parts = google_content::split_content(&line["message"]["parts"]);
    match text_field(&line["systemPayload"], "displayText") {
        Some(shown) => parts.texts = vec![shown],
        None => parts.texts.retain(|text| !text.starts_with("<qwen:")),
    }
    context.out.push_user(entry, &parts);
}

fn read_assistant(line: &Value, context: &mut ReadContext<'_>) {
    let Some(entry) = entry_ref(line, context) else { return };
    let parts = google_content::split_content(&line["message"]["parts"]);
    context.out.push_assistant(entry.clone(), &parts, None);
    let model = text_field(line, "model");
    context
        .out
        .push_usage(&entry, read_tokens(&line["usageMetadata"]).to_usage(model.as_deref(), 1));
}

fn read_result(line: &Value, context: &mut ReadContext<'_>) {
    let Some(entry) = entry_ref(line, context) else { return };
    let mut parts = google_content::split_content(&line["message"]["parts"]);
    let status = line["toolCallResult"]["status"].as_str();
    if let ([result], Some(status)) = (parts.results.as_mut_slice(), status) {
        result.succeeded = Some(status == "success");
    }
    context.out.push_results(&entry, &parts.results);
}

fn read_system(line: &Value, context: &mut ReadContext<'_>) {
    let payload = &line["systemPayload"];
    match line["subtype"].as_str() {
        Some("chat_compression") => {
            let history = list_items(&payload["compressedHistory"]);
            let texts_of = |content: &Value| google_content::split_content(&content["parts"]).texts;
            let summary = history.iter().flat_map(texts_of).next().unwrap_or_default();
            if let Some(entry) = entry_ref(line, context).filter(|_| !summary.is_empty()) {
                context.out.push_summary(entry, &summary);
            }
        }
        Some("custom_title") => {
            if let (Some(entry), title @ Some(_)) =
                (entry_ref(line, context), text_field(payload, "customTitle"))
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

fn read_tokens(usage: &Value) -> Tokens {
    let cached = token_field(usage, "cachedContentTokenCount");
    let input = token_field(usage, "promptTokenCount");
    let output = token_field(usage, "candidatesTokenCount");
    let reasoning = token_field(usage, "thoughtsTokenCount");
    // Most APIs include reasoning in the output count, but Gemini's API does not. The total shows
    // which is the case.
    let is_separate = token_field(usage, "totalTokenCount") == input + output + reasoning;
    Tokens {
        // The input count includes cached tokens.
        input: (input - cached).max(0),
        output: if is_separate { output } else { (output - reasoning).max(0) },
        cache_read: cached,
        cache_write: 0,
        reasoning,
    }
}
