//! Talking to a model: one request, streamed, over any of three APIs.

mod client;
mod decode;
mod draft;
mod estimate;
mod failure;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod message;
mod response;
mod sse;
mod transport;
mod write;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use takeback_ledger::{MessageRecord, SessionRecord, Tokens};

pub use self::client::{Client, ClientOptions};
pub(crate) use self::estimate::estimate_message;
pub use self::estimate::estimate_tokens;
pub use self::message::to_message;
pub(crate) use self::write::{BodyReader, ConversationPrefix};
pub use self::write::{RequestBody, build_request, request_digest};

/// The API of a model provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApiKind {
    /// OpenAI-compatible chat completions.
    Openai,
    /// OpenAI's Responses API.
    Responses,
    /// Anthropic's Messages API.
    Anthropic,
}

/// A model and the server that runs it.
#[derive(Clone, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Provider {
    pub name: String,
    pub kind: ApiKind,
    /// The part of the address before `/chat/completions`, `/responses` or `/messages`.
    pub base_url: String,
    /// The key; `None` if none is sent.
    pub key: Option<String>,
    pub model: String,
    /// The number of tokens that the model accepts, input and output together.
    pub context_window: u64,
    /// The maximum number of tokens in a reply.
    pub max_output: u64,
    pub prices: Option<Prices>,
}

impl fmt::Debug for Provider {
    /// Formats the provider without its key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .field("base_url", &self.base_url)
            .field("model", &self.model)
            .field("context_window", &self.context_window)
            .field("max_output", &self.max_output)
            .field("prices", &self.prices)
            .finish_non_exhaustive()
    }
}

/// Prices in US dollars per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Prices {
    pub input: f64,
    pub output: f64,
    pub cache_read: f64,
    pub cache_write: f64,
}

/// A tool as it is described to the model.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// The JSON schema of the input.
    pub schema: Value,
}

/// A request to a model.
#[derive(Clone, Copy, Debug)]
pub struct ModelRequest<'a> {
    /// The session, which contains the system prompt.
    pub session: &'a SessionRecord,
    /// The current messages, in order.
    pub messages: &'a [MessageRecord],
    /// The tools that the model may call.
    pub tools: &'a [ToolSpec],
    /// The maximum number of tokens in the reply.
    pub max_output: u64,
}

/// A piece of a reply, as it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Delta<'a> {
    Text(&'a str),
    Reasoning(&'a str),
    /// A tool call begins.
    Call {
        name: &'a str,
    },
}

/// A reply, whole or in part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Reply {
    pub text: String,
    /// The reasoning as plain text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// The reasoning in the provider's form, to be sent back with the next request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_details: Option<Value>,
    /// The complete tool calls. A call that was cut off is never among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<RequestedCall>,
    /// The number of tool calls that were cut off.
    #[serde(default)]
    pub cut_calls: usize,
    /// The token counts, if the provider reported them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Tokens>,
}

/// A tool call that a model asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct RequestedCall {
    pub id: String,
    pub name: String,
    /// The input as the model wrote it. It is not necessarily valid JSON.
    pub arguments: String,
}

/// The result of an attempt to get a reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// Everything that arrived.
    pub reply: Reply,
    /// The end of the attempt.
    pub end: AttemptEnd,
}

/// The end of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum AttemptEnd {
    /// The terminal event of the protocol arrived, so the reply is complete.
    Finished(Finish),
    /// The reply is missing or cut off.
    Failed(AttemptFailure),
    /// The user stopped the turn.
    Cancelled,
}

/// The reason that a model gives for the end of its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The model has finished its answer, or calls tools.
    Stop,
    /// The output limit was reached.
    Length,
    /// The provider refused to answer.
    Refused,
}

/// A failed attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct AttemptFailure {
    pub kind: FailureKind,
    /// The HTTP status, if there was a response.
    pub status: Option<u16>,
    /// The provider's message, or a description of the error.
    pub message: String,
    /// The time that the provider asks the client to wait.
    pub retry_after: Option<Duration>,
}

impl AttemptFailure {
    /// Creates the failure for a request that cannot be sent as it is.
    pub(crate) fn rejected(message: String) -> AttemptFailure {
        AttemptFailure { kind: FailureKind::Rejected, status: None, message, retry_after: None }
    }
}

/// The kinds of failures, each of which is handled differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The connection failed, was cut off, or ended without the terminal event.
    Connection,
    /// Nothing arrived for too long.
    Stalled,
    /// Too many requests (429).
    RateLimited,
    /// The provider is overloaded (529, `overloaded_error`).
    Overloaded,
    /// Any other server error (408, 5xx, an error event in a stream).
    Server,
    /// The conversation does not fit into the model's context window.
    Overflow,
    /// The provider does not accept the requested output limit.
    OutputLimit,
    /// The key is missing or wrong.
    Unauthorized,
    /// The provider does not know the model.
    UnknownModel,
    /// The provider rejects the request for a reason that is not listed here.
    Rejected,
}
