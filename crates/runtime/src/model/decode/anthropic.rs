//! Decoding replies of Anthropic's Messages API.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::super::Finish;
use super::super::draft::{CallDraft, OnDelta, ReplyDraft, ReplyEnd};
use super::super::failure::ErrorReport;
use super::super::write::block_order;
use super::{list_field, text_field, usage};

/// A decoder for one reply.
#[derive(Default)]
pub(crate) struct AnthropicDecoder {
    /// The blocks that have begun but not ended, by their index in the stream.
    open: HashMap<u64, Block>,
    /// The blocks that have ended, in order. Reasoning blocks are included only if they are signed
    /// or encrypted, because other reasoning blocks cannot be sent back.
    ended: Vec<Value>,
    end: Option<ReplyEnd>,
}

enum Block {
    /// A call, identified by its index in the draft.
    Call(usize),
    Thinking {
        text: String,
        signature: String,
    },
    Redacted(String),
    Text(String),
}

impl AnthropicDecoder {
    /// Decodes an event of a stream.
    pub(super) fn decode_event(
        &mut self,
        event: &Value,
        draft: &mut ReplyDraft,
        on_delta: &mut OnDelta<'_>,
    ) {
        let index = event["index"].as_u64().unwrap_or_default();
        match event["type"].as_str() {
            Some("message_start") => {
                draft.usage = usage::read_anthropic(&event["message"]["usage"], draft.usage);
            }
            Some("content_block_start") => {
                self.begin_block(index, &event["content_block"], draft, on_delta);
            }
            Some("content_block_delta") => {
                self.append_block(index, &event["delta"], draft, on_delta);
            }
            Some("content_block_stop") => self.end_block(index, draft),
            Some("message_delta") => {
                draft.usage = usage::read_anthropic(&event["usage"], draft.usage);
                self.read_stop_reason(&event["delta"]);
            }
            Some("message_stop") => self.finish_reply(draft),
            // A ping, or an event that this version does not know.
            _ => {}
        }
    }

    /// Decodes a reply that came in one piece.
    pub(super) fn decode_whole(
        &mut self,
        message: &Value,
        draft: &mut ReplyDraft,
        on_delta: &mut OnDelta<'_>,
    ) {
        draft.usage = usage::read_anthropic(&message["usage"], None);
        for (index, block) in (0..).zip(list_field(message, "content")) {
            self.begin_block(index, block, draft, on_delta);
            self.end_block(index, draft);
        }
        if message["type"] == "message" || message["stop_reason"].is_string() {
            self.read_stop_reason(message);
            self.finish_reply(draft);
        }
    }

    fn begin_block(
        &mut self,
        index: u64,
        block: &Value,
        draft: &mut ReplyDraft,
        on_delta: &mut OnDelta<'_>,
    ) {
        let text = |key: &str| text_field(block, key).unwrap_or_default().to_owned();
        let begun = match block["type"].as_str() {
            Some("text") => {
                draft.begin_text();
                draft.add_text(&text("text"), on_delta);
                Block::Text(text("text"))
            }
            Some("tool_use") => {
                // The input is normally empty here, and follows in pieces.
                let input = block["input"].as_object().filter(|input| !input.is_empty());
                let arguments = input.map(|input| json!(input).to_string()).unwrap_or_default();
                let call = CallDraft {
                    id: text("id"),
                    name: text("name"),
                    arguments,
                    ..CallDraft::default()
                };
                Block::Call(draft.begin_call(call, on_delta))
            }
            Some("thinking") => {
                draft.begin_reasoning();
                draft.add_reasoning(&text("thinking"), on_delta);
                Block::Thinking { text: text("thinking"), signature: text("signature") }
            }
            Some("redacted_thinking") => Block::Redacted(text("data")),
            _ => return,
        };
        self.open.insert(index, begun);
    }

    fn append_block(
        &mut self,
        index: u64,
        delta: &Value,
        draft: &mut ReplyDraft,
        on_delta: &mut OnDelta<'_>,
    ) {
        let piece = |key: &str| text_field(delta, key).unwrap_or_default();
        match (self.open.get_mut(&index), delta["type"].as_str()) {
            (Some(Block::Call(place)), Some("input_json_delta")) => {
                draft.calls()[*place].arguments.push_str(piece("partial_json"));
            }
            (Some(Block::Thinking { text, .. }), Some("thinking_delta")) => {
                text.push_str(piece("thinking"));
                draft.add_reasoning(piece("thinking"), on_delta);
            }
            (Some(Block::Thinking { signature, .. }), Some("signature_delta")) => {
                signature.push_str(piece("signature"));
            }
            (block, Some("text_delta")) => {
                if let Some(Block::Text(text)) = block {
                    text.push_str(piece("text"));
                }
                draft.add_text(piece("text"), on_delta);
            }
            _ => {}
        }
    }

    fn end_block(&mut self, index: u64, draft: &mut ReplyDraft) {
        match self.open.remove(&index) {
            Some(Block::Call(place)) => {
                let call = &mut draft.calls()[place];
                call.is_complete = true;
                // The call has no input.
                if call.arguments.is_empty() {
                    call.arguments.push_str("{}");
                }
                self.ended.push(block_order::call_marker(place));
            }
            Some(Block::Thinking { text, signature }) if !signature.is_empty() => self
                .ended
                .push(json!({ "type": "thinking", "thinking": text, "signature": signature })),
            Some(Block::Redacted(data)) if !data.is_empty() => {
                self.ended.push(json!({ "type": "redacted_thinking", "data": data }));
            }
            Some(Block::Text(text)) if !text.trim().is_empty() => {
                self.ended.push(block_order::text_marker(&text));
            }
            _ => {}
        }
    }

    fn read_stop_reason(&mut self, message: &Value) {
        let Some(reason) = text_field(message, "stop_reason") else { return };
        self.end = Some(match reason {
            "max_tokens" => ReplyEnd::Finished(Finish::Length),
            "refusal" => ReplyEnd::Finished(Finish::Refused),
            // Continuing requires a shorter conversation, not a higher output limit.
            "model_context_window_exceeded" => ReplyEnd::Failed(ErrorReport {
                codes: vec![reason.to_owned()],
                ..ErrorReport::from_message("the reply reached the end of the context window")
            }),
            _ => ReplyEnd::Finished(Finish::Stop),
        });
    }

    fn finish_reply(&mut self, draft: &mut ReplyDraft) {
        draft.set_end(self.end.take().unwrap_or(ReplyEnd::Finished(Finish::Stop)));
        draft.is_done = true;
    }

    /// Completes the draft once the stream has ended, for whatever reason.
    pub(super) fn complete_draft(&mut self, draft: &mut ReplyDraft) {
        let blocks = block_order::describe_order(std::mem::take(&mut self.ended));
        if !blocks.is_empty() {
            draft.details = Some(Value::Array(blocks));
        }
    }
}
