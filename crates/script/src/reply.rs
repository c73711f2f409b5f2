//! The replies of a scripted model.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// A reply from the model.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Reply {
    pub text: String,
    /// The tool calls after the text.
    pub calls: Vec<ToolCall>,
    /// The token counts that the reply reports.
    pub usage: Usage,
    /// A gate that is called before each event of a stream.
    pub gate: Option<StreamGate>,
}

/// A tool call that the model asks for.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct ToolCall {
    /// The id of the call. The server generates one if it is empty.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The input of the tool; a plain string for tools that do not take JSON.
    pub input: Value,
}

/// The token counts of a request and its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Usage {
    pub input: u64,
    pub output: u64,
}

impl Default for Usage {
    fn default() -> Usage {
        Usage { input: 100, output: 20 }
    }
}

/// A function that decides what to do with each event of a stream, given the event's number. To
/// delay the stream, it may wait before it returns.
#[derive(Clone)]
pub struct StreamGate(Arc<dyn Fn(usize) -> StreamStep + Send + Sync>);

impl StreamGate {
    /// Creates a gate from a function.
    pub fn new(decide: impl Fn(usize) -> StreamStep + Send + Sync + 'static) -> StreamGate {
        StreamGate(Arc::new(decide))
    }

    pub(crate) fn decide(&self, event: usize) -> StreamStep {
        (self.0)(event)
    }
}

impl fmt::Debug for StreamGate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("StreamGate")
    }
}

/// The decision about a stream event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamStep {
    /// Send the event.
    Send,
    /// Close the connection in the middle of the reply instead.
    Cut,
}

impl Reply {
    /// Creates a reply that consists of a text.
    pub fn text(text: impl Into<String>) -> Reply {
        Reply { text: text.into(), ..Reply::default() }
    }

    /// Creates a reply that calls a tool.
    pub fn call(name: impl Into<String>, input: Value) -> Reply {
        let call = ToolCall { id: String::new(), name: name.into(), input };
        Reply { calls: vec![call], ..Reply::default() }
    }
}
