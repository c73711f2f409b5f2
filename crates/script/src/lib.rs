//! A scripted model for tests: an HTTP server on the loopback interface whose replies come from a
//! script.
//!
//! The server implements the APIs of Anthropic (Messages), OpenAI (Responses and Chat Completions)
//! and Gemini, with and without streaming. The script receives the requests to all APIs in one
//! form, [`Request`], and the server logs them. Agents also ask for titles, quotas and similar
//! things at any time, so a script should base its replies on the content of a request, never on
//! the number of earlier requests.
//!
//! A reply can also fail in every way in which real servers fail: see [`Fault`], [`Finish`] and
//! [`StreamGate`].
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

mod anthropic_messages;
mod event_stream;
mod fault;
mod gemini;
mod http;
mod openai_chat;
mod openai_responses;
mod reply;
mod request;
mod server;

pub use fault::Fault;
pub use reply::{Finish, Reply, StreamGate, StreamStep, ToolCall, Usage};
pub use request::{Message, Provider, Request, Role, ToolResult};
pub use server::{LoggedRequest, Server};
