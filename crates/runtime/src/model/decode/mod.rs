//! Decoding the replies of the three APIs.

mod anthropic;
mod chat;
mod responses;
#[cfg(test)]
mod tests;
mod usage;

use serde_json::Value;

use self::anthropic::AnthropicDecoder;
use self::chat::ChatDecoder;
use self::responses::ResponsesDecoder;
use super::ApiKind;
use super::draft::{OnDelta, ReplyDraft};
use super::failure::ErrorReport;
use super::sse::SseEvent;

/// A decoder for the replies of one API.
pub(crate) enum Decoder {
    Chat(ChatDecoder),
    Responses(ResponsesDecoder),
    Anthropic(AnthropicDecoder),
}

impl Decoder {
    /// Creates a decoder for one reply.
    pub(crate) fn new(kind: ApiKind) -> Decoder {
        match kind {
            ApiKind::Openai => Decoder::Chat(ChatDecoder::default()),
            ApiKind::Responses => Decoder::Responses(ResponsesDecoder::default()),
            ApiKind::Anthropic => Decoder::Anthropic(AnthropicDecoder::default()),
        }
    }

    /// Decodes an event of a stream.
    pub(crate) fn decode_event(
        &mut self,
        event: &SseEvent,
        draft: &mut ReplyDraft,
        on_delta: &mut OnDelta<'_>,
    ) {
        let data = event.data.trim();
        if data == "[DONE]" {
            draft.is_done = true;
            return;
        }
        // Some servers send something other than JSON to keep the connection alive.
        if !data.starts_with('{') {
            return;
        }
        let Ok(value) = serde_json::from_str::<Value>(data) else {
            draft.fail_with(ErrorReport::from_message(
                "the server sent an event that is not valid JSON",
            ));
            return;
        };
        if let Some(report) = find_error(event, &value) {
            draft.fail_with(report);
            return;
        }
        match self {
            Decoder::Chat(decoder) => decoder.decode_chunk(&value, draft, on_delta),
            Decoder::Responses(decoder) => decoder.decode_event(&value, draft, on_delta),
            Decoder::Anthropic(decoder) => decoder.decode_event(&value, draft, on_delta),
        }
    }

    /// Decodes a reply that came in one piece.
    pub(crate) fn decode_whole(
        &mut self,
        value: &Value,
        draft: &mut ReplyDraft,
        on_delta: &mut OnDelta<'_>,
    ) {
        let is_error = value.get("error").is_some_and(|error| !error.is_null());
        if is_error || value["type"] == "error" || value["object"] == "error" {
            draft.fail_with(ErrorReport::find_error(value).unwrap_or_default());
            return;
        }
        match self {
            Decoder::Chat(decoder) => decoder.decode_chunk(value, draft, on_delta),
            Decoder::Responses(decoder) => decoder.decode_whole(value, draft, on_delta),
            Decoder::Anthropic(decoder) => decoder.decode_whole(value, draft, on_delta),
        }
        draft.is_done = true;
    }

    /// Completes the draft once the stream has ended, for whatever reason.
    pub(crate) fn complete_draft(&mut self, draft: &mut ReplyDraft) {
        match self {
            Decoder::Chat(decoder) => decoder.complete_draft(draft),
            Decoder::Responses(decoder) => decoder.complete_draft(draft),
            Decoder::Anthropic(decoder) => decoder.complete_draft(draft),
        }
    }
}

/// Finds an error in an event. Even a stream that begins normally can contain one.
fn find_error(event: &SseEvent, value: &Value) -> Option<ErrorReport> {
    let has_error = value.get("error").is_some_and(|error| !error.is_null());
    let is_error = has_error
        || event.name == "error"
        || value["type"] == "error"
        || value["type"] == "response.failed"
        || value["object"] == "error";
    is_error.then(|| ErrorReport::find_error(value).unwrap_or_default())
}

/// Returns the text of a field, if it is not empty.
fn text_field<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str().filter(|text| !text.is_empty())
}

/// Returns the elements of a field that is a list. Any other value is treated as an empty list.
fn list_field<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns the arguments of a call as text. Most servers send text, and some send an object.
fn arguments_text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
