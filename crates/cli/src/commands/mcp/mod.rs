//! `takeback mcp`: lets the model of any agent look at the history, over the Model Context
//! Protocol.
//!
//! Nothing is restored without the user's approval: the server asks through the agent's own dialog,
//! or answers with a command for the user to type.

mod messages;
mod restore;
mod tools;

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use self::messages::{INVALID_PARAMS, METHOD_NOT_FOUND, Message, PARSE_ERROR, RpcError};
use super::rpc::input::{Event, Input};
use crate::context::Context;
use crate::failure::Failure;

/// Let the model of an agent look at the history, over the Model Context Protocol
///
/// The model can list checkpoints, read diffs, search conversations, and ask what a command may
/// change. A rollback needs the user's approval: takeback asks through the agent if it can, and
/// otherwise answers with a command for the user to type.
#[derive(Args)]
#[command(after_help = "\
Examples:
  claude mcp add takeback -- takeback mcp
  codex mcp add takeback -- takeback mcp
  gemini mcp add takeback takeback mcp
  takeback -C ~/code/shop mcp")]
pub(crate) struct Arguments {}

/// The versions of the protocol that this server speaks, newest first.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// Advice for the model.
const INSTRUCTIONS: &str = "\
takeback keeps a checkpoint of this workspace from before each tool call that may change files. Use \
these tools to find out what changed and when, to search earlier conversations, and, if the user \
wants something back, to offer a rollback. A rollback happens only if the user approves it.";

pub(crate) fn run(_: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let input =
        Input::new().map_err(|error| Failure::new("cannot listen for signals").because(&error))?;
    let context = context.in_directory(&context.directory);
    let mut server = Server { context, input, can_ask: false, waiting: VecDeque::new(), asked: 0 };
    match server.serve_all() {
        // The agent has ended, so it is normal for the server to end as well.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Failure::new("cannot talk to the agent").because(&error)),
        Ok(()) => Ok(ExitCode::SUCCESS),
    }
}

/// A running server. It handles one message at a time.
struct Server {
    context: Context,
    input: Input,
    /// True if the agent can ask its user on the server's behalf.
    can_ask: bool,
    /// The messages that arrived while the user was being asked.
    waiting: VecDeque<Message>,
    /// The number of questions so far.
    asked: u64,
}

/// The outcome of a request.
enum Outcome {
    Result(Value),
    Error(RpcError),
    /// The agent no longer wants an answer.
    Cancelled,
}

impl Server {
    fn serve_all(&mut self) -> io::Result<()> {
        loop {
            let message = match self.waiting.pop_front() {
                Some(message) => message,
                None => match self.receive()? {
                    Some(message) => message,
                    None => return Ok(()),
                },
            };
            if let Message::Request { id, method, params } = message {
                self.answer(&id, &method, &params)?;
            }
        }
    }

    /// Waits for the next message. Returns `None` at the end of the input.
    fn receive(&mut self) -> io::Result<Option<Message>> {
        loop {
            match self.input.next_event(None)? {
                Event::End => return Ok(None),
                Event::Idle => {}
                Event::TooLongLine => {
                    send(&messages::error(&Value::Null, PARSE_ERROR, "the line is too long"))?;
                }
                Event::Line(line) if line.trim_ascii().is_empty() => {}
                Event::Line(line) => match messages::parse(&line) {
                    Ok(message) => return Ok(Some(message)),
                    Err(error) => {
                        send(&messages::error(&error.id, error.code, &error.message))?;
                    }
                },
            }
        }
    }

    fn answer(&mut self, id: &Value, method: &str, params: &Value) -> io::Result<()> {
        let outcome = match method {
            "initialize" => Outcome::Result(self.initialize(params)),
            "ping" => Outcome::Result(json!({})),
            "tools/list" => Outcome::Result(json!({ "tools": tools::describe_all() })),
            "tools/call" => self.call_tool(id, params)?,
            _ => Outcome::Error(RpcError {
                id: id.clone(),
                code: METHOD_NOT_FOUND,
                message: format!("unknown method {method:?}"),
            }),
        };
        match outcome {
            Outcome::Result(result) => {
                send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }))
            }
            Outcome::Error(error) => send(&messages::error(id, error.code, &error.message)),
            Outcome::Cancelled => Ok(()),
        }
    }

    fn initialize(&mut self, params: &Value) -> Value {
        self.can_ask = match params["capabilities"].get("elicitation") {
            // An agent that lists no ways of asking supports forms, which are the only way in older
            // versions of the protocol.
            Some(Value::Object(ways)) => ways.is_empty() || ways.contains_key("form"),
            _ => false,
        };
        let wanted = params["protocolVersion"].as_str().unwrap_or_default();
        let version = VERSIONS.iter().find(|known| **known == wanted).unwrap_or(&VERSIONS[0]);
        json!({
            "protocolVersion": version,
            "capabilities": { "tools": {} },
            "serverInfo": {
                "name": "takeback", "title": "takeback", "version": env!("CARGO_PKG_VERSION"),
            },
            "instructions": INSTRUCTIONS,
        })
    }

    fn call_tool(&mut self, id: &Value, params: &Value) -> io::Result<Outcome> {
        let name = params["name"].as_str().unwrap_or_default();
        // Another process may have changed the settings or replaced the store.
        self.context.reopen();
        // A configuration that cannot be read is reported by the tools that need it.
        let _ = self.context.opened();
        let arguments = params.get("arguments").filter(|given| !given.is_null());
        let arguments = arguments.cloned().unwrap_or_else(|| json!({}));
        let answer = if name == restore::NAME {
            match restore::restore(self, id, arguments)? {
                Some(answer) => answer,
                None => return Ok(Outcome::Cancelled),
            }
        } else if let Some(answer) = tools::call(name, arguments, &self.context) {
            answer
        } else {
            return Ok(Outcome::Error(RpcError {
                id: id.clone(),
                code: INVALID_PARAMS,
                message: format!("unknown tool {name:?}"),
            }));
        };
        // Other processes can repair the ledger while it is closed.
        self.context.close_ledger();
        Ok(Outcome::Result(answer.into_json()))
    }
}

fn send(message: &Value) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{message}")?;
    output.flush()
}
