//! Writing the requests of a long conversation without writing the whole conversation again each
//! time.

use std::collections::HashSet;
use std::io::{self, Read};
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};
use takeback_base::hex;
use takeback_ledger::{MessageRecord, SessionRecord};

use super::super::estimate::estimate_message;
use super::super::{ModelRequest, Provider};
use super::{list_name, mark_messages, write_frame, write_messages};

/// The number of messages above which the older ones become part of the prefix.
const MAX_REST: usize = 24;

/// The number of most recent prompts that are never part of the prefix. Some of them are marked for
/// the provider's cache.
const PROMPTS_IN_REST: usize = 4;

/// The maximum length of a call id that every API accepts.
const MAX_ID: usize = 40;

/// The body of a request, as it is sent. Its beginning is shared with other requests, because it
/// may contain a long conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestBody {
    beginning: Arc<String>,
    rest: Arc<String>,
    digest: String,
}

impl RequestBody {
    /// Returns the JSON text.
    pub fn json(&self) -> String {
        [self.beginning.as_str(), self.rest.as_str()].concat()
    }

    /// Returns the length of the JSON text in bytes.
    pub(crate) fn length(&self) -> usize {
        self.beginning.len() + self.rest.len()
    }

    /// Returns a reader of the JSON text.
    pub(crate) fn reader(&self) -> BodyReader {
        BodyReader { parts: [self.beginning.clone(), self.rest.clone()], position: 0 }
    }

    /// Returns the SHA-256 of the JSON text, in hexadecimal.
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

impl From<&Value> for RequestBody {
    fn from(body: &Value) -> RequestBody {
        let json = body.to_string();
        let digest = hex::encode(&Sha256::digest(&json));
        RequestBody { beginning: Arc::default(), rest: Arc::new(json), digest }
    }
}

/// A reader of a request's body. It copies nothing in advance.
pub(crate) struct BodyReader {
    parts: [Arc<String>; 2],
    /// The number of bytes that have been read.
    position: usize,
}

impl Read for BodyReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let [beginning, rest] = &self.parts;
        let mut unread = match self.position.checked_sub(beginning.len()) {
            Some(position) => &rest.as_bytes()[position..],
            None => &beginning.as_bytes()[self.position..],
        };
        let count = unread.read(buffer)?;
        self.position += count;
        Ok(count)
    }
}

/// The beginning of a conversation, written for one model. It consists of whole turns that no later
/// message refers to, so its form does not depend on what follows.
#[derive(Default)]
pub(crate) struct ConversationPrefix {
    /// The provider, the model, and the number of the last result that is left out.
    key: (String, String, i64),
    count: usize,
    /// The number of the last message, which shows whether the conversation is still the same.
    last_seq: i64,
    /// The beginning of the body, up to the last message of the prefix.
    json: Arc<String>,
    hasher: Sha256,
    prompt: Option<Value>,
    tokens: u64,
    call_ids: HashSet<String>,
}

impl ConversationPrefix {
    /// Returns the number of messages in the prefix.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns the estimated number of tokens in the prefix.
    pub(crate) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Adds older messages of a conversation to the prefix. `prepare` adapts the messages for
    /// requests. For example, it leaves out the results up to the message `cleared`.
    pub(crate) fn extend(
        &mut self,
        provider: &Provider,
        session: &SessionRecord,
        messages: &[MessageRecord],
        cleared: i64,
        prepare: impl Fn(&mut [MessageRecord]),
    ) {
        let key = (provider.name.clone(), provider.model.clone(), cleared);
        let is_same = self.key == key
            && (self.count == 0
                || messages.get(self.count - 1).is_some_and(|last| last.seq == self.last_seq));
        if !is_same {
            *self = ConversationPrefix { key, ..ConversationPrefix::default() };
        }
        while messages.len() - self.count > MAX_REST
            && let Some(end) = find_end(&messages[self.count..])
            && let Some(ids) = self.list_new_ids(&messages[self.count..self.count + end])
        {
            let mut turns = messages[self.count..self.count + end].to_vec();
            prepare(&mut turns);
            self.add_turns(provider, session, turns, ids);
        }
        if self.count > 0 && self.read_ids(&messages[self.count..]).is_none() {
            let key = std::mem::take(&mut self.key);
            *self = ConversationPrefix { key, ..ConversationPrefix::default() };
        }
    }

    /// Reads the ids of calls. Returns `None` if a request would change one of them, for example
    /// because it occurs twice.
    fn read_ids(&self, messages: &[MessageRecord]) -> Option<HashSet<String>> {
        let calls = messages.iter().filter_map(|message| message.tool_calls.as_ref()?.as_array());
        let mut ids = HashSet::new();
        for call in calls.flatten() {
            let id = call["id"].as_str().filter(|id| is_plain(id))?.to_owned();
            if self.call_ids.contains(&id) || !ids.insert(id) {
                return None;
            }
        }
        Some(ids)
    }

    /// Reads the ids of the calls in whole turns. Returns `None` if the turns must not become part
    /// of the prefix, for example because a result is missing.
    fn list_new_ids(&self, turns: &[MessageRecord]) -> Option<HashSet<String>> {
        let ids = self.read_ids(turns)?;
        let results = turns.iter().filter(|message| message.role == "tool");
        let results: Option<Vec<&String>> =
            results.map(|message| message.tool_call_id.as_ref()).collect();
        let results = results?;
        (results.len() == ids.len() && results.into_iter().all(|id| ids.contains(id)))
            .then_some(ids)
    }

    fn add_turns(
        &mut self,
        provider: &Provider,
        session: &SessionRecord,
        mut turns: Vec<MessageRecord>,
        ids: HashSet<String>,
    ) {
        let nothing = SessionRecord::default();
        let is_first = self.count == 0;
        self.tokens += turns.iter().map(estimate_message).sum::<u64>();
        self.count += turns.len();
        self.last_seq = turns.last().map_or(0, |last| last.seq);
        self.call_ids.extend(ids);
        // The last message of a request can have a different form, so a placeholder is added after
        // it.
        turns.push(MessageRecord {
            role: "user".to_owned(),
            content: Some("…".into()),
            ..MessageRecord::default()
        });
        let session = if is_first { session } else { &nothing };
        let mut written = write_messages(provider, session, &turns);
        written.list.pop();
        let mut json = String::new();
        if is_first {
            self.prompt = written.prompt;
            json = format!("{{\"{}\":[", list_name(provider.kind));
        }
        for (index, message) in written.list.iter().enumerate() {
            if index > 0 || !is_first {
                json.push(',');
            }
            json.push_str(&message.to_string());
        }
        self.hasher.update(&json);
        // The previous request has usually been sent and dropped, so this changes the text in place
        // instead of copying it.
        Arc::make_mut(&mut self.json).push_str(&json);
    }

    /// Writes a request. `request` contains only the messages after the prefix.
    pub(crate) fn write_request(
        &self,
        provider: &Provider,
        request: &ModelRequest<'_>,
    ) -> RequestBody {
        let nothing = SessionRecord::default();
        let is_first = self.count == 0;
        let session = if is_first { request.session } else { &nothing };
        let mut written = write_messages(provider, session, request.messages);
        mark_messages(provider.kind, &mut written.list);
        let prompt = if is_first { written.prompt } else { self.prompt.clone() };
        let frame = Value::Object(write_frame(provider, request, prompt)).to_string();
        let mut rest = String::new();
        if is_first {
            rest = format!("{{\"{}\":[", list_name(provider.kind));
        }
        for (index, message) in written.list.iter().enumerate() {
            if index > 0 || !is_first {
                rest.push(',');
            }
            rest.push_str(&message.to_string());
        }
        // The frame is never an empty object, so a field follows the comma.
        rest.push_str("],");
        rest.push_str(&frame[1..]);
        let digest = hex::encode(&self.hasher.clone().chain_update(&rest).finalize());
        RequestBody { beginning: self.json.clone(), rest: Arc::new(rest), digest }
    }
}

/// Finds the end of the longest series of turns that can be added to the prefix. The last message
/// of these turns must be a plain answer, and the message after it must be a prompt.
fn find_end(messages: &[MessageRecord]) -> Option<usize> {
    let prompts = messages.iter().enumerate().filter(|(_, message)| message.role == "user");
    let prompts: Vec<usize> = prompts.map(|(at, _)| at).collect();
    let old = &prompts[..prompts.len().saturating_sub(PROMPTS_IN_REST - 1)];
    old.iter().rev().copied().find(|at| *at > 0 && is_plain_answer(&messages[at - 1]))
}

fn is_plain_answer(message: &MessageRecord) -> bool {
    let has_text = matches!(&message.content, Some(Value::String(text)) if !text.trim().is_empty());
    message.role == "assistant" && message.tool_calls.is_none() && has_text
}

fn is_plain(id: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=MAX_ID).contains(&id.len()) && id.bytes().all(is_usual)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::super::{ApiKind, Prices, ToolSpec};
    use super::super::build_request;
    use super::*;

    fn provider(kind: ApiKind) -> Provider {
        Provider {
            name: "p".into(),
            kind,
            base_url: "http://127.0.0.1/v1".into(),
            key: None,
            model: "m".into(),
            context_window: 1_000,
            max_output: 100,
            prices: Some(Prices::default()),
        }
    }

    fn message(role: &str, text: &str) -> MessageRecord {
        MessageRecord {
            role: role.into(),
            content: Some(text.into()),
            finish_reason: Some("stop".into()),
            ..MessageRecord::default()
        }
    }

    /// Builds a turn of the given kind.
    fn turn(number: usize, kind: u8) -> Vec<MessageRecord> {
        let id = if kind == 5 { "same".to_owned() } else { format!("call_{number}") };
        let function = json!({ "name": "t", "arguments": "{\"a\":1}" });
        let call = MessageRecord {
            content: None,
            tool_calls: Some(json!([{ "id": id, "type": "function", "function": function }])),
            ..message("assistant", "")
        };
        let result = MessageRecord { tool_call_id: Some(id), ..message("tool", "r") };
        let prompt = message("user", &format!("prompt {number}"));
        let answer = message("assistant", "answer \n");
        match kind {
            0 => vec![prompt, answer],
            1 => vec![prompt, call, result, answer],
            2 => vec![message("system", "a notice"), prompt, answer],
            3 => vec![prompt, call, result],
            4 => vec![prompt, call],
            5 => vec![prompt, call, result, answer],
            6 => vec![prompt],
            _ => vec![prompt, message("assistant", "cut"), message("assistant", "rest")],
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]
        /// A conversation that is written bit by bit is the same as one that is written in one
        /// piece.
        #[test]
        fn a_conversation_written_in_parts_equals_one_written_at_once(
            kinds in prop::collection::vec(prop_oneof![9 => 0u8..3, 1 => 3u8..8], 20..70),
            grows_by in 5usize..40,
        ) {
            let session =
                SessionRecord { system_prompt: Some("Be brief.".into()), ..SessionRecord::default() };
            let tool =
                ToolSpec { name: "t".into(), description: "d".into(), schema: json!({ "a": 1 }) };
            let turns = kinds.iter().enumerate().map(|(number, kind)| turn(number, *kind));
            let mut messages: Vec<MessageRecord> = turns.flatten().collect();
            (1..).zip(&mut messages).for_each(|(seq, message)| message.seq = seq);
            for kind in [ApiKind::Openai, ApiKind::Responses, ApiKind::Anthropic] {
                let provider = provider(kind);
                let mut prefix = ConversationPrefix::default();
                for end in (1..=messages.len()).step_by(grows_by) {
                    let all = &messages[..end];
                    prefix.extend(&provider, &session, all, 0, |_| {});
                    let request = |messages| ModelRequest {
                        session: &session,
                        messages,
                        tools: std::slice::from_ref(&tool),
                        max_output: 64,
                    };
                    let body = prefix.write_request(&provider, &request(&all[prefix.count()..]));
                    let parsed: Value = serde_json::from_reader(body.reader()).unwrap();
                    prop_assert_eq!(parsed, build_request(&provider, &request(all)));
                    prop_assert_eq!(body.json().len(), body.length());
                    let digest = hex::encode(&Sha256::digest(body.json()));
                    prop_assert_eq!(body.digest(), digest);
                }
            }
        }
    }

    #[test]
    fn only_a_few_messages_of_a_long_conversation_are_written_again() {
        let mut messages: Vec<MessageRecord> =
            (0..200).flat_map(|number| turn(number, 1)).collect();
        (1..).zip(&mut messages).for_each(|(seq, message)| message.seq = seq);
        let mut prefix = ConversationPrefix::default();
        let session = SessionRecord::default();
        prefix.extend(&provider(ApiKind::Openai), &session, &messages, 0, |_| {});
        assert!(messages.len() - prefix.count() <= MAX_REST, "{}", prefix.count());
        // After a rollback, the conversation is a different one.
        messages.truncate(10);
        prefix.extend(&provider(ApiKind::Openai), &session, &messages, 0, |_| {});
        assert_eq!(prefix.count(), 0);
    }
}
