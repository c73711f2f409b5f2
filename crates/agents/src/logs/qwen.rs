//! Qwen Code: Claude's records around Google's content.

use serde_json::Value;

use super::page::{At, Facts, list, text, time, tokens};
use super::state::Tokens;
use super::{Reading, google};

pub(super) fn read(line: &Value, reading: &mut Reading<'_>) {
    match line["type"].as_str() {
        Some("user") => user(line, reading),
        Some("assistant") => assistant(line, reading),
        Some("tool_result") => tool_result(line, reading),
        Some("system") => system(line, reading),
        _ => {}
    }
}

fn at(line: &Value, reading: &mut Reading<'_>) -> Option<At> {
    let (session, uuid) = (text(line, "sessionId")?, text(line, "uuid")?);
    let time = time(line, "timestamp");
    if reading.state.introduced.as_ref() != Some(&session) {
        let (workspace, branch) = (text(line, "cwd"), text(line, "gitBranch"));
        reading.out.session(&session, time, Facts { workspace, branch, ..Facts::default() });
        reading.state.introduced = Some(session.clone());
    }
    Some(At { session, origin: uuid, time })
}

fn user(line: &Value, reading: &mut Reading<'_>) {
    // The agent goes on in the user's name, too.
    let is_said = line["provenance"].as_str().is_none_or(|who| who == "real_user");
    if !is_said {
        return;
    }
    let Some(at) = at(line, reading) else { return };
    let mut parts = google::parts(&line["message"]["parts"]);
    match text(&line["systemPayload"], "displayText") {
        Some(shown) => parts.texts = vec![shown],
        None => parts.texts.retain(|text| !text.starts_with("<qwen:")),
    }
    reading.out.user(at, &parts);
}

fn assistant(line: &Value, reading: &mut Reading<'_>) {
    let Some(at) = at(line, reading) else { return };
    let parts = google::parts(&line["message"]["parts"]);
    reading.out.assistant(at.clone(), &parts, None);
    let model = text(line, "model");
    reading.out.usage(&at, usage(&line["usageMetadata"]).usage(model.as_deref(), 1));
}

fn tool_result(line: &Value, reading: &mut Reading<'_>) {
    let Some(at) = at(line, reading) else { return };
    let mut parts = google::parts(&line["message"]["parts"]);
    let status = line["toolCallResult"]["status"].as_str();
    if let ([result], Some(status)) = (parts.results.as_mut_slice(), status) {
        result.succeeded = Some(status == "success");
    }
    reading.out.results(&at, &parts.results);
}

fn system(line: &Value, reading: &mut Reading<'_>) {
    let payload = &line["systemPayload"];
    match line["subtype"].as_str() {
        Some("chat_compression") => {
            let history = list(&payload["compressedHistory"]);
            let said = |content: &Value| google::parts(&content["parts"]).texts;
            let summary = history.iter().flat_map(said).next().unwrap_or_default();
            if let Some(at) = at(line, reading).filter(|_| !summary.is_empty()) {
                reading.out.summary(at, &summary);
            }
        }
        Some("custom_title") => {
            if let (Some(at), title @ Some(_)) = (at(line, reading), text(payload, "customTitle")) {
                reading.out.session(&at.session, at.time, Facts { title, ..Facts::default() });
            }
        }
        _ => {}
    }
}

fn usage(usage: &Value) -> Tokens {
    let cached = tokens(usage, "cachedContentTokenCount");
    Tokens {
        // It counts what was cached, too.
        input: (tokens(usage, "promptTokenCount") - cached).max(0),
        output: tokens(usage, "candidatesTokenCount"),
        cache_read: cached,
        cache_write: 0,
        reasoning: tokens(usage, "thoughtsTokenCount"),
    }
}
