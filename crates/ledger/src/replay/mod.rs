//! A stored conversation as the next request to a model would carry it.
//!
//! What was stored may be anything: a session was killed in the middle, an importer did not know
//! better, another API's blocks are in it. What comes out is always what the API takes. It goes
//! in three steps: `reading` understands every form, `pairing` gives each call its result,
//! and one writer per API puts it down.
//!
//! Text that has no proper place becomes text of the user's, with a word on what it was, so that
//! nothing is lost silently. Left out are only `session_meta` messages (notes of agents to
//! themselves), binary data that the API has no place for, and reasoning that the API would not
//! take back.

mod anthropic;
mod calls;
mod ids;
mod openai;
mod pairing;
mod parts;
mod reading;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use serde_json::Value;

pub(crate) use self::parts::without_binary;

use crate::{MessageRecord, SessionRecord};

/// The messages of a request to an OpenAI-style chat completions API, system prompt first.
///
/// `messages` are those the model is to see, in order. Reasoning and Codex's items are handed on
/// as they were stored, for the providers that want them back.
pub fn openai(session: &SessionRecord, messages: &[MessageRecord]) -> Value {
    openai::write(pairing::pair(reading::read(session, messages)))
}

/// What a request to Anthropic's Messages API carries: `{"system": …, "messages": […]}`, where
/// `system` is a string and left out if there is none.
///
/// `messages` are those the model is to see, in order.
pub fn anthropic(session: &SessionRecord, messages: &[MessageRecord]) -> Value {
    anthropic::write(pairing::pair(reading::read(session, messages)))
}
