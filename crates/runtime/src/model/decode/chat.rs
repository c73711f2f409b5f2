//! Decoding replies of Chat Completions APIs.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::super::draft::{CallDraft, OnDelta, ReplyDraft, ReplyEnd};
use super::super::failure::ErrorReport;
use super::super::{Delta, Finish};
use super::{arguments_text, list_field, text_field, usage};

/// A decoder for one reply.
#[derive(Default)]
pub(crate) struct ChatDecoder {
    /// The call to which each index in the stream refers.
    by_index: HashMap<u64, usize>,
    /// The fields of the message that hold reasoning, as they are sent back.
    reasoning: Map<String, Value>,
    is_refused: bool,
}

impl ChatDecoder {
    /// Decodes a chunk of a stream, or a reply in one piece.
    pub(super) fn decode_chunk(
        &mut self,
        chunk: &Value,
        draft: &mut ReplyDraft,
        on_delta: &mut OnDelta<'_>,
    ) {
        let choices = list_field(chunk, "choices");
        let choice = choices.iter().find(|choice| choice["index"].as_u64().unwrap_or(0) == 0);
        let counts = [Some(&chunk["usage"]), choice.map(|choice| &choice["usage"])];
        if let Some(tokens) = counts.into_iter().flatten().find_map(usage::read_chat) {
            draft.usage = Some(tokens);
        }
        let Some(choice) = choice else { return };
        if let Some(message) = choice.get("delta").or_else(|| choice.get("message")) {
            self.decode_message(message, draft, on_delta);
        }
        if let Some(reason) = text_field(choice, "finish_reason") {
            self.read_finish(reason, choice, draft);
        }
    }

    fn decode_message(
        &mut self,
        message: &Value,
        draft: &mut ReplyDraft,
        on_delta: &mut OnDelta<'_>,
    ) {
        self.decode_reasoning(message, draft, on_delta);
        match &message["content"] {
            Value::String(text) => draft.add_text(text, on_delta),
            Value::Array(blocks) => decode_blocks(blocks, draft, on_delta),
            _ => {}
        }
        if let Some(refusal) = text_field(message, "refusal") {
            self.is_refused = true;
            draft.add_text(refusal, on_delta);
        }
        for call in list_field(message, "tool_calls") {
            self.decode_call(call, draft, on_delta);
        }
    }

    fn decode_reasoning(
        &mut self,
        message: &Value,
        draft: &mut ReplyDraft,
        on_delta: &mut OnDelta<'_>,
    ) {
        // Some servers send the text under both names.
        let names = ["reasoning_content", "reasoning"];
        let found = names.iter().find_map(|name| Some((*name, text_field(message, name)?)));
        if let Some((name, piece)) = found {
            draft.add_reasoning(piece, on_delta);
            if let Value::String(text) = self.reasoning.entry(name).or_insert_with(|| "".into()) {
                text.push_str(piece);
            }
        }
        for detail in list_field(message, "reasoning_details") {
            if let Value::Array(list) =
                self.reasoning.entry("reasoning_details").or_insert_with(|| json!([]))
            {
                merge_detail(list, detail);
            }
        }
    }

    /// Decodes a piece of a call, or a whole call. Servers differ in which fields they repeat and
    /// which they leave out.
    fn decode_call(&mut self, call: &Value, draft: &mut ReplyDraft, on_delta: &mut OnDelta<'_>) {
        let piece = CallDraft {
            id: text_field(call, "id").unwrap_or_default().to_owned(),
            name: text_field(&call["function"], "name").unwrap_or_default().to_owned(),
            arguments: arguments_text(call["function"].get("arguments")),
            is_complete: false,
        };
        let index = call["index"].as_u64();
        let known = match index {
            Some(index) => self.by_index.get(&index).copied(),
            None => draft.calls().len().checked_sub(1),
        };
        match known.filter(|known| continues_call(&draft.calls()[*known], &piece, index.is_some()))
        {
            Some(known) => append_call(&mut draft.calls()[known], piece, on_delta),
            None => {
                let place = draft.begin_call(piece, on_delta);
                let index = index.unwrap_or(u64::MAX - place as u64);
                self.by_index.insert(index, place);
            }
        }
    }

    fn read_finish(&self, reason: &str, choice: &Value, draft: &mut ReplyDraft) {
        let finish = match reason {
            "length" | "max_tokens" | "model_length" => Finish::Length,
            "content_filter" | "refusal" | "safety" | "sensitive" => Finish::Refused,
            "error" | "abort" | "network_error" | "insufficient_system_resource" => {
                let report = ErrorReport::find_error(choice).unwrap_or_else(|| {
                    ErrorReport::from_message(&format!("the server stopped the reply: {reason}"))
                });
                return draft.fail_with(report);
            }
            _ if self.is_refused => Finish::Refused,
            _ => Finish::Stop,
        };
        draft.set_end(ReplyEnd::Finished(finish));
    }

    /// Completes the draft once the stream has ended, for whatever reason.
    ///
    /// This API does not mark the end of a call. All calls of a reply that ended normally are
    /// complete. Otherwise, a call is complete if its JSON is valid and another call follows.
    pub(super) fn complete_draft(&mut self, draft: &mut ReplyDraft) {
        if !self.reasoning.is_empty() {
            draft.details = Some(Value::Object(std::mem::take(&mut self.reasoning)));
        }
        let is_whole = draft.end() == Some(&ReplyEnd::Finished(Finish::Stop));
        let last = draft.calls().len().saturating_sub(1);
        for (place, call) in draft.calls().iter_mut().enumerate() {
            call.is_complete = is_whole || (place < last && is_json(&call.arguments));
        }
    }
}

/// True if a piece belongs to a call that has already begun.
///
/// Normally, the index determines this. But some servers send several whole calls with the same
/// index or without an index, and some repeat the name and the id in every piece.
fn continues_call(known: &CallDraft, piece: &CallDraft, has_index: bool) -> bool {
    let has_ids = !known.id.is_empty() && !piece.id.is_empty();
    if has_ids && (has_index || known.id != piece.id) {
        return known.id == piece.id;
    }
    let is_new = known.name != piece.name || is_json(&known.arguments);
    piece.name.is_empty() || known.name.is_empty() || !is_new
}

fn append_call(call: &mut CallDraft, piece: CallDraft, on_delta: &mut OnDelta<'_>) {
    if call.id.is_empty() {
        call.id = piece.id;
    }
    if call.name.is_empty() && !piece.name.is_empty() {
        call.name = piece.name;
        on_delta(Delta::Call { name: &call.name });
    }
    call.arguments.push_str(&piece.arguments);
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// Decodes content in blocks, which a few servers send instead of text.
fn decode_blocks(blocks: &[Value], draft: &mut ReplyDraft, on_delta: &mut OnDelta<'_>) {
    for block in blocks {
        match block["type"].as_str() {
            Some("thinking") => {
                let texts = list_field(block, "thinking").iter();
                texts
                    .filter_map(|text| text_field(text, "text"))
                    .for_each(|text| draft.add_reasoning(text, on_delta));
            }
            _ => draft.add_text(text_field(block, "text").unwrap_or_default(), on_delta),
        }
    }
}

/// Adds a piece of reasoning in the form that a gateway uses. Pieces with the same index form one
/// block.
fn merge_detail(list: &mut Vec<Value>, piece: &Value) {
    let (Some(Value::Object(last)), Value::Object(piece)) = (list.last_mut(), piece) else {
        return list.push(piece.clone());
    };
    let is_same = |key: &str| last.get(key) == piece.get(key);
    if !is_same("type") || !is_same("index") {
        return list.push(Value::Object(piece.clone()));
    }
    for (key, value) in piece {
        match (last.get_mut(key), value) {
            (_, Value::Null) => {}
            (Some(Value::String(text)), Value::String(more))
                if matches!(key.as_str(), "text" | "summary" | "data") =>
            {
                text.push_str(more);
            }
            _ => {
                last.insert(key.clone(), value.clone());
            }
        }
    }
}
