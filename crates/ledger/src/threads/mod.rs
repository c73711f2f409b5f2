//! Threads: conversations of apps that keep the state of their graph in the ledger.
//!
//! The app is a LangGraph program, or works like one: after each step, it stores the whole state of
//! a thread. A state refers to the values of its channels, and states share values. Only the app
//! can read the content of states and values.

mod delete;
mod read;
mod write;

pub(crate) use self::read::check_threads;
pub use self::read::{ThreadFilter, ThreadPage, ThreadPosition};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Time;

/// The maximum size of a state with its values, in bytes. A state has to fit into the answer to a
/// request.
pub const MAX_STATE_BYTES: i64 = 32 << 20;

/// The maximum size of all writes after a state, in bytes.
pub const MAX_WRITES_BYTES: i64 = 12 << 20;

/// The tables of threads.
pub(crate) const THREAD_TABLES: &[&str] =
    &["thread_states", "thread_channels", "thread_values", "thread_writes"];

/// The thread of an app, and the subgraph in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct ThreadKey {
    pub app: String,
    pub thread: String,
    /// The subgraph; empty for the graph itself.
    pub namespace: String,
}

/// Data in a format that only the app can read, and the name of the format.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Encoded {
    #[serde(rename = "type")]
    pub kind: String,
    /// The bytes; in JSON, as base64.
    #[serde(serialize_with = "write_base64", deserialize_with = "read_base64")]
    pub data: Vec<u8>,
}

fn write_base64<S: Serializer>(data: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(data))
}

fn read_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map_err(|error| D::Error::custom(format!("not base64: {error}")))
}

/// A channel of a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Channel {
    #[serde(rename = "channel")]
    pub name: String,
    pub version: String,
    /// The value; `None` in a new state if the parent's value applies.
    pub value: Option<Encoded>,
}

/// A state of a thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadState {
    /// The thread of the state.
    #[serde(flatten)]
    pub key: ThreadKey,
    /// The id that the app gave the state. Later states have greater ids.
    pub id: String,
    /// The id of the state that this one follows.
    pub parent: Option<String>,
    /// The time at which the ledger stored the state. Ignored in a state that is to be stored.
    pub time: Time,
    /// The id of the checkpoint that has the files as they were when the state was stored.
    pub files: Option<String>,
    /// A JSON object, by which states can be searched. `run_id` is the run that created the state.
    pub metadata: serde_json::Map<String, serde_json::Value>,
    /// The channels whose values follow from earlier states and their writes.
    pub deltas: Vec<String>,
    /// The state without the values of its channels.
    pub content: Encoded,
    /// The channels that have a value.
    pub channels: Vec<Channel>,
    /// The results of the tasks in the next step. Ignored in a state that is to be stored.
    pub writes: Vec<ThreadWrite>,
}

/// A result of a task in the step that follows a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct ThreadWrite {
    pub task: String,
    /// The location of the task in the graph. Writes take effect in the order of path, task and
    /// position.
    pub path: String,
    /// The position among the writes of the task; negative for errors, interrupts and similar
    /// results.
    pub position: i64,
    pub channel: String,
    pub value: Encoded,
}
