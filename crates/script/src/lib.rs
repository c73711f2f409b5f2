//! A model that says what a script tells it: an HTTP server on loopback, for tests.
//!
//! It understands the APIs of Anthropic (Messages), OpenAI (Responses and Chat Completions) and
//! Gemini, streamed and whole. Requests come to the script in one form, [`Request`], and are kept
//! in a log. Agents also ask for titles, quotas and the like whenever they please, so a script
//! decides by what a request contains, never by how many came before.
//!
//! ```
//! use takeback_script::{Reply, Server};
//!
//! let server = Server::start(|request| match request.last_result() {
//!     Some(_) => Reply::text("Done."),
//!     None => Reply::call("bash", serde_json::json!({ "command": "ls" })),
//! })?;
//! println!("{}", server.url());
//! # Ok::<(), std::io::Error>(())
//! ```

mod anthropic;
mod chat;
mod gemini;
mod http;
mod reply;
mod request;
mod responses;
mod server;
mod sse;

pub use reply::{Call, Flow, Gate, Reply, Usage};
pub use request::{Message, Provider, Request, Role, ToolResult};
pub use server::{Entry, Server};
