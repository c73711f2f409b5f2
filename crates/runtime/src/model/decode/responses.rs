//! Decoding replies of OpenAI's Responses API.

use std::collections::HashMap;

use serde_json::Value;

use super::super::Finish;
use super::super::draft::{CallDraft, OnDelta, ReplyDraft, ReplyEnd};
use super::{arguments_text, list_field, text_field, usage};

/// A decoder for one reply.
#[derive(Default)]
pub(crate) struct ResponsesDecoder {
    /// The index of each call in the draft, by the index of its item.
    calls: HashMap<u64, usize>,
    /// The indexes of the items whose text has arrived.
    texts: Vec<u64>,
    /// The reasoning items, which are sent back with the next requests.
    reasoning: Vec<Value>,
    is_refused: bool,
}

impl ResponsesDecoder {
    /// Decodes an event of a stream.
    pub(super) fn decode_event(
        &mut self,
        event: &Value,
        draft: &mut ReplyDraft,
        on_delta: &mut OnDelta<'_>,
    ) {
        let index = event["output_index"].as_u64().unwrap_or_default();
        let delta = text_field(event, "delta").unwrap_or_default();
        match event["type"].as_str().and_then(|kind| kind.strip_prefix("response.")) {
            Some("output_item.added") => self.begin_item(index, &event["item"], draft, on_delta),
            Some("output_text.delta") => self.add_text(index, delta, draft, on_delta),
            Some("refusal.delta") => {
                self.is_refused = true;
                self.add_text(index, delta, draft, on_delta);
            }
            Some("reasoning_summary_part.added") => draft.begin_reasoning(),
            Some("reasoning_summary_text.delta" | "reasoning_text.delta") => {
                draft.add_reasoning(delta, on_delta);
            }
            Some("function_call_arguments.delta") => {
                if let Some(place) = self.calls.get(&index) {
                    draft.calls()[*place].arguments.push_str(delta);
                }
            }
            Some("output_item.done") => self.end_item(index, &event["item"], draft, on_delta),
            Some(status @ ("completed" | "incomplete")) => {
                self.finish_reply(status, &event["response"], draft, on_delta);
            }
            _ => {}
        }
    }

    /// Decodes a reply that came in one piece.
    pub(super) fn decode_whole(
        &mut self,
        response: &Value,
        draft: &mut ReplyDraft,
        on_delta: &mut OnDelta<'_>,
    ) {
        if let Some(status @ ("completed" | "incomplete")) = response["status"].as_str() {
            self.finish_reply(status, response, draft, on_delta);
        }
    }

    fn begin_item(
        &mut self,
        index: u64,
        item: &Value,
        draft: &mut ReplyDraft,
        on_delta: &mut OnDelta<'_>,
    ) {
        match item["type"].as_str() {
            Some("message") => draft.begin_text(),
            Some("reasoning") => draft.begin_reasoning(),
            Some("function_call") => {
                let text = |key: &str| text_field(item, key).unwrap_or_default().to_owned();
                let call =
                    CallDraft { id: text("call_id"), name: text("name"), ..CallDraft::default() };
                self.calls.insert(index, draft.begin_call(call, on_delta));
            }
            _ => {}
        }
    }

    fn add_text(
        &mut self,
        index: u64,
        text: &str,
        draft: &mut ReplyDraft,
        on_delta: &mut OnDelta<'_>,
    ) {
        if !text.is_empty() && !self.texts.contains(&index) {
            self.texts.push(index);
        }
        draft.add_text(text, on_delta);
    }

    /// Ends an item. The item's final form contains everything, so this also works with servers
    /// that send no pieces.
    fn end_item(
        &mut self,
        index: u64,
        item: &Value,
        draft: &mut ReplyDraft,
        on_delta: &mut OnDelta<'_>,
    ) {
        match item["type"].as_str() {
            Some("message") if !self.texts.contains(&index) => {
                draft.begin_text();
                for part in list_field(item, "content") {
                    self.is_refused |= part["type"] == "refusal";
                    let text = text_field(part, "text").or_else(|| text_field(part, "refusal"));
                    self.add_text(index, text.unwrap_or_default(), draft, on_delta);
                }
            }
            Some("reasoning") => {
                if draft.has_no_reasoning() {
                    for part in
                        list_field(item, "summary").iter().chain(list_field(item, "content"))
                    {
                        draft.begin_reasoning();
                        draft.add_reasoning(text_field(part, "text").unwrap_or_default(), on_delta);
                    }
                }
                self.reasoning.push(item.clone());
            }
            Some("function_call") => self.end_call(index, item, draft, on_delta),
            _ => {}
        }
    }

    fn end_call(
        &mut self,
        index: u64,
        item: &Value,
        draft: &mut ReplyDraft,
        on_delta: &mut OnDelta<'_>,
    ) {
        if !self.calls.contains_key(&index) {
            self.begin_item(index, item, draft, on_delta);
        }
        let call = &mut draft.calls()[self.calls[&index]];
        let arguments = arguments_text(item.get("arguments"));
        if !arguments.is_empty() {
            call.arguments = arguments;
        }
        call.is_complete = !matches!(item["status"].as_str(), Some("incomplete" | "in_progress"));
    }

    fn finish_reply(
        &mut self,
        status: &str,
        response: &Value,
        draft: &mut ReplyDraft,
        on_delta: &mut OnDelta<'_>,
    ) {
        draft.usage = usage::read_responses(&response["usage"]).or(draft.usage);
        self.add_missing_items(response, draft, on_delta);
        let finish = match (status, response["incomplete_details"]["reason"].as_str()) {
            ("incomplete", Some("content_filter")) => Finish::Refused,
            ("incomplete", _) => Finish::Length,
            _ if self.is_refused => Finish::Refused,
            _ => Finish::Stop,
        };
        draft.set_end(ReplyEnd::Finished(finish));
        draft.is_done = true;
    }

    /// Adds the items that no event has completed. Some servers send them only in the last event.
    fn add_missing_items(
        &mut self,
        response: &Value,
        draft: &mut ReplyDraft,
        on_delta: &mut OnDelta<'_>,
    ) {
        let has_text = !self.texts.is_empty();
        let mut known_calls: Vec<usize> = Vec::new();
        for (number, item) in (0..).zip(list_field(response, "output")) {
            // The positions in this list can differ from the indexes in the stream.
            let index = u64::MAX - number;
            let is_known = match item["type"].as_str() {
                Some("function_call") => {
                    let place = find_call(draft.calls(), item, &known_calls);
                    known_calls.extend(place);
                    place.is_some_and(|place| {
                        self.calls.insert(index, place);
                        draft.calls()[place].is_complete
                    })
                }
                Some("reasoning") => self.reasoning.iter().any(|known| known["id"] == item["id"]),
                Some("message") => has_text,
                _ => true,
            };
            if !is_known {
                self.end_item(index, item, draft, on_delta);
                known_calls.extend(self.calls.get(&index));
            }
        }
    }

    /// Completes the draft once the stream has ended, for whatever reason.
    pub(super) fn complete_draft(&mut self, draft: &mut ReplyDraft) {
        if !self.reasoning.is_empty() {
            draft.details = Some(Value::Array(std::mem::take(&mut self.reasoning)));
        }
    }
}

/// Finds the call that an item describes, among the calls that no earlier item describes.
fn find_call(calls: &[CallDraft], item: &Value, known: &[usize]) -> Option<usize> {
    let id = text_field(item, "call_id").unwrap_or_default();
    (0..calls.len()).find(|place| calls[*place].id == id && !known.contains(place))
}
