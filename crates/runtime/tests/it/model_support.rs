//! Requests to the scripted model through each API.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;
use takeback_ledger::{MessageRecord, SessionRecord, Tokens};
use takeback_runtime::Cancel;
use takeback_runtime::model::{
    ApiKind, Attempt, Client, ClientOptions, Delta, ModelRequest, Provider, Reply as ModelReply,
    RequestedCall, ToolSpec, build_request,
};
use takeback_script::{Fault, Reply, Server};

pub(crate) const APIS: [ApiKind; 3] = [ApiKind::Openai, ApiKind::Responses, ApiKind::Anthropic];

pub(crate) const KEY: &str = "sk-secret-0123456789";

/// A time limit that no test reaches.
pub(crate) const NEVER: Duration = Duration::from_secs(600);

pub(crate) fn provider(kind: ApiKind, server: &Server) -> Provider {
    Provider {
        name: "scripted".to_owned(),
        kind,
        base_url: format!("{}/v1", server.url()),
        key: Some(KEY.to_owned()),
        model: "m".to_owned(),
        context_window: 100_000,
        max_output: 1_000,
        prices: None,
    }
}

pub(crate) fn client() -> Client {
    Client::new(ClientOptions {
        connect_timeout: NEVER,
        stall_timeout: NEVER,
        ..ClientOptions::default()
    })
}

pub(crate) fn user_message(text: &str) -> MessageRecord {
    MessageRecord {
        role: "user".to_owned(),
        content: Some(text.into()),
        ..MessageRecord::default()
    }
}

/// A conversation, and the tools that the model may call in it.
pub(crate) struct Conversation {
    pub(crate) session: SessionRecord,
    pub(crate) messages: Vec<MessageRecord>,
    pub(crate) tools: Vec<ToolSpec>,
}

impl Conversation {
    pub(crate) fn new() -> Conversation {
        let system_prompt = Some("Be brief.".to_owned());
        let schema = json!({ "type": "object", "properties": { "command": { "type": "string" } } });
        Conversation {
            session: SessionRecord { system_prompt, ..SessionRecord::default() },
            messages: vec![user_message("look around")],
            tools: vec![ToolSpec {
                name: "bash".to_owned(),
                description: "Runs a command".to_owned(),
                schema,
            }],
        }
    }

    pub(crate) fn request(&self) -> ModelRequest<'_> {
        ModelRequest {
            session: &self.session,
            messages: &self.messages,
            tools: &self.tools,
            max_output: 1_000,
        }
    }
}

/// An attempt, and the text that was shown while it was in progress.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) attempt: Attempt,
    pub(crate) shown: String,
    pub(crate) shown_calls: Vec<String>,
}

/// Sends a request with the usual conversation.
pub(crate) fn ask(client: &Client, provider: &Provider) -> Outcome {
    ask_with(client, provider, &Conversation::new(), &Cancel::default())
}

pub(crate) fn ask_with(
    client: &Client,
    provider: &Provider,
    conversation: &Conversation,
    cancel: &Cancel,
) -> Outcome {
    let (mut shown, mut shown_calls) = (String::new(), Vec::new());
    let mut on_delta = |delta: Delta<'_>| match delta {
        Delta::Text(text) => shown.push_str(text),
        Delta::Call { name } => shown_calls.push(name.to_owned()),
        Delta::Reasoning(_) => {}
    };
    let attempt = client.request(provider, &conversation.request(), cancel, &mut on_delta);
    Outcome { attempt, shown, shown_calls }
}

/// Sends a request to a new server that always answers with this reply.
pub(crate) fn ask_scripted(kind: ApiKind, reply: Reply) -> Outcome {
    let server = Server::start(move |_| reply.clone()).unwrap();
    ask(&client(), &provider(kind, &server))
}

pub(crate) fn text_and_call() -> Reply {
    let mut reply = Reply::call("bash", json!({ "command": "ls" }));
    reply.calls[0].id = "call_1".to_owned();
    Reply { text: "Häve a look.".to_owned(), ..reply }
}

/// Returns the reply that the client should build from `text_and_call`.
pub(crate) fn expected_reply() -> ModelReply {
    ModelReply {
        text: "Häve a look.".to_owned(),
        calls: vec![RequestedCall {
            id: "call_1".to_owned(),
            name: "bash".to_owned(),
            arguments: r#"{"command":"ls"}"#.to_owned(),
        }],
        usage: Some(Tokens { input: 100, output: 20, ..Tokens::default() }),
        ..ModelReply::default()
    }
}

/// Returns all bytes of the response to the usual request.
pub(crate) fn response_bytes(kind: ApiKind, reply: Reply) -> Vec<u8> {
    let server = Server::start(move |_| reply.clone()).unwrap();
    let provider = provider(kind, &server);
    let body = build_request(&provider, &Conversation::new().request()).to_string();
    let path = match kind {
        ApiKind::Openai => "chat/completions",
        ApiKind::Responses => "responses",
        ApiKind::Anthropic => "messages",
    };
    let mut stream = TcpStream::connect(server.url().trim_start_matches("http://")).unwrap();
    let length = body.len();
    let request =
        format!("POST /v1/{path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

pub(crate) fn with_fault(fault: Fault, reply: Reply) -> Reply {
    Reply { fault: Some(fault), ..reply }
}
