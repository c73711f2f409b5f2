//! What a script makes the model say.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// What the model answers.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// What it says.
    pub text: String,
    /// The tools that it wants used, after what it says.
    pub calls: Vec<Call>,
    /// What the answer is said to have taken.
    pub usage: Usage,
    /// Asked before each event of a stream.
    pub gate: Option<Gate>,
}

/// A tool that the model wants used.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Made up by the server, if it is empty.
    pub id: String,
    /// The tool.
    pub name: String,
    /// What it is given; a plain text for tools that take no JSON.
    pub input: Value,
}

/// How many tokens an answer took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Those that were read.
    pub input: u64,
    /// Those that were written.
    pub output: u64,
}

impl Default for Usage {
    fn default() -> Usage {
        Usage { input: 100, output: 20 }
    }
}

/// Lets a stream's events through: it is given the number of the next one. It may wait before it
/// answers, and so slow the stream.
#[derive(Clone)]
pub struct Gate(Arc<dyn Fn(usize) -> Flow + Send + Sync>);

impl Gate {
    /// A gate that asks this.
    pub fn new(pass: impl Fn(usize) -> Flow + Send + Sync + 'static) -> Gate {
        Gate(Arc::new(pass))
    }

    pub(crate) fn pass(&self, event: usize) -> Flow {
        (self.0)(event)
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Gate")
    }
}

/// What becomes of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The event is sent.
    On,
    /// The connection is closed instead, in the middle of the answer.
    Cut,
}

impl Reply {
    /// The model says this.
    pub fn text(text: impl Into<String>) -> Reply {
        Reply { text: text.into(), ..Reply::default() }
    }

    /// The model wants a tool used.
    pub fn call(name: impl Into<String>, input: Value) -> Reply {
        let call = Call { id: String::new(), name: name.into(), input };
        Reply { calls: vec![call], ..Reply::default() }
    }
}
