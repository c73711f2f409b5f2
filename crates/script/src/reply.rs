//! The replies of a scripted model.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::event_stream::split_in_half;
use crate::fault::Fault;

/// A reply from the model.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Reply {
    /// The reasoning before the text. Each API sends it in its own form: signed, encrypted or
    /// plain.
    pub reasoning: String,
    pub text: String,
    /// The tool calls after the text.
    pub calls: Vec<ToolCall>,
    /// The reason why the reply ends.
    pub finish: Finish,
    /// The token counts that the reply reports.
    pub usage: Usage,
    /// True if the reply reports no token counts.
    pub hides_usage: bool,
    /// A gate that is called before each event of a stream.
    pub gate: Option<StreamGate>,
    /// A fault of the server.
    pub fault: Option<Fault>,
}

/// The reason why a reply ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Finish {
    /// The model has finished its answer, or calls tools.
    #[default]
    Complete,
    /// The output limit was reached. If there are calls, the last one is cut off in the middle of
    /// its input.
    Length,
    /// The provider refused to answer.
    Refusal,
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

    /// Decides what to do with the event that has this number.
    pub fn decide(&self, event: usize) -> StreamStep {
        (self.0)(event)
    }
}

impl fmt::Debug for StreamGate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("StreamGate")
    }
}

/// A decision on what to do with an event of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamStep {
    /// Send the event.
    Send,
    /// Close the connection in the middle of the reply instead.
    Cut,
}

impl Reply {
    /// Creates a reply that consists of text alone.
    pub fn text(text: impl Into<String>) -> Reply {
        Reply { text: text.into(), ..Reply::default() }
    }

    /// Creates a reply that calls a tool.
    pub fn call(name: impl Into<String>, input: Value) -> Reply {
        let call = ToolCall { id: String::new(), name: name.into(), input };
        Reply { calls: vec![call], ..Reply::default() }
    }

    /// Creates a reply that the server sends with a fault.
    pub fn fault(fault: Fault) -> Reply {
        Reply { fault: Some(fault), ..Reply::default() }
    }

    /// Returns the input of a call as JSON text, as far as the model wrote it.
    pub(crate) fn input_text(&self, index: usize) -> String {
        let input = self.calls[index].input.to_string();
        if self.is_cut_off(index) {
            return split_in_half(&input).next().unwrap_or_default().to_owned();
        }
        input
    }

    /// True if the output limit cuts off this call.
    pub(crate) fn is_cut_off(&self, index: usize) -> bool {
        self.finish == Finish::Length && index + 1 == self.calls.len()
    }
}
