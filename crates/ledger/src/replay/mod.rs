//! Replaying a stored conversation: building the messages of the next request to a model.
//!
//! The stored messages may have any form: the agent may have been killed in the middle of the
//! session, an importer may have left odd data, and the blocks may be those of another API. The
//! result is always valid for the API. There are three steps: `reading` reads messages of every
//! form, `pairing` matches each call with its result, and one writer per API writes the request.
//!
//! Text for which the API has no field becomes user text, with a note about where it came from.
//! Nothing is lost silently. Only the following is left out: `session_meta` messages (agents' notes
//! to themselves), binary data in a form that the API does not support, and reasoning that the API
//! would not accept.

mod anthropic;
mod calls;
mod ids;
mod openai;
mod pairing;
mod parts;
mod reading;
mod responses;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use serde_json::Value;

pub(crate) use self::parts::without_binary;

use crate::{MessageRecord, SessionRecord};

/// Builds the messages of a request to an OpenAI-style chat completions API, system prompt first.
///
/// `messages` are the current messages, in order. Reasoning and Codex items are passed on as they
/// were stored, for the providers that expect them back.
pub fn openai(session: &SessionRecord, messages: &[MessageRecord]) -> Value {
    openai::write_messages(pairing::pair_results(reading::read_items(session, messages)))
}

/// Builds the system prompt and messages of a request to Anthropic's Messages API: `{"system": …,
/// "messages": […]}`. `system` is a string, and is left out if there is no system prompt.
///
/// `messages` are the current messages, in order.
///
/// ```
/// use serde_json::json;
/// use takeback_ledger::{MessageRecord, SessionRecord, replay};
///
/// let session = SessionRecord { system_prompt: Some("Be brief.".into()), ..Default::default() };
/// let prompt =
///     MessageRecord { role: "user".into(), content: Some("Tidy up".into()), ..Default::default() };
/// let request = replay::anthropic(&session, &[prompt]);
/// assert_eq!(request["system"], "Be brief.");
/// assert_eq!(request["messages"][0]["role"], "user");
/// ```
pub fn anthropic(session: &SessionRecord, messages: &[MessageRecord]) -> Value {
    anthropic::write_request(pairing::pair_results(reading::read_items(session, messages)))
}

/// Builds the instructions and the input of a request to OpenAI's Responses API: `{"instructions":
/// …, "input": […]}`. `instructions` is a string, and is left out if there is no system prompt.
///
/// `messages` are the current messages, in order. Reasoning is passed on if it came from this API
/// and is encrypted, so that the API does not have to store the conversation.
pub fn responses(session: &SessionRecord, messages: &[MessageRecord]) -> Value {
    responses::write_request(pairing::pair_results(reading::read_items(session, messages)))
}
