//! The server: accepts connections, routes requests and keeps the log.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};

use crate::event_stream::StreamEvent;
use crate::fault::{self, CutWriter, Fault};
use crate::http::{self, HttpRequest};
use crate::reply::{Reply, StreamStep};
use crate::request::{Provider, Request};
use crate::{anthropic_messages, gemini, openai_chat, openai_responses};

type Script = dyn Fn(&Request) -> Reply + Send + Sync;

/// A scripted model on the loopback interface. Dropping it stops the server.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

/// A request in the server's log.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct LoggedRequest {
    pub method: String,
    /// The path with its query.
    pub path: String,
    pub headers: Vec<(String, String)>,
    /// The parsed request to the model; `None` if the client did not ask for a reply.
    pub request: Option<Request>,
    /// The status of the response, unless a fault in the reply sets a different one.
    pub status: &'static str,
}

impl LoggedRequest {
    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        http::find_header(&self.headers, name)
    }
}

struct Shared {
    script: Box<Script>,
    log: Mutex<Vec<LoggedRequest>>,
    is_stopped: AtomicBool,
    reply_count: AtomicUsize,
}

/// The endpoint of a request.
enum Endpoint {
    /// A reply from the model.
    Reply(Request),
    /// A token count.
    TokenCount(Provider),
    ModelList,
    Unknown,
}

impl Server {
    /// Starts a server whose model replies according to the script.
    pub fn start(script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> io::Result<Server> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            script: Box::new(script),
            log: Mutex::default(),
            is_stopped: AtomicBool::new(false),
            reply_count: AtomicUsize::new(0),
        });
        let acceptor = thread::spawn({
            let shared = shared.clone();
            move || accept_connections(&listener, &shared)
        });
        Ok(Server { address, shared, acceptor: Some(acceptor) })
    }

    /// Returns the address of the server: `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns all requests so far.
    pub fn log(&self) -> Vec<LoggedRequest> {
        self.shared.lock_log().clone()
    }

    /// Returns all requests so far that asked the model for a reply.
    pub fn requests(&self) -> Vec<Request> {
        self.log().into_iter().filter_map(|entry| entry.request).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::SeqCst);
        // Wakes up the thread that accepts connections. If this fails, that thread has already
        // ended.
        drop(TcpStream::connect(self.address));
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

impl Shared {
    fn lock_log(&self) -> std::sync::MutexGuard<'_, Vec<LoggedRequest>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn accept_connections(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.is_stopped.load(Ordering::SeqCst) {
            return;
        }
        let Ok(mut stream) = stream else { continue };
        let shared = shared.clone();
        thread::spawn(move || {
            // A client that has closed its connection needs no response.
            let _ = serve_request(&mut stream, &shared);
        });
    }
}

/// Serves the only request of a connection. The response tells the client that the connection will
/// be closed.
fn serve_request(stream: &mut TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let Some(incoming) = http::read_request(stream)? else { return Ok(()) };
    let endpoint = find_endpoint(&incoming);
    let status = if matches!(endpoint, Endpoint::Unknown) { "404 Not Found" } else { "200 OK" };
    let request = match &endpoint {
        Endpoint::Reply(request) => Some(request.clone()),
        _ => None,
    };
    let HttpRequest { method, path, headers, .. } = incoming;
    shared.lock_log().push(LoggedRequest { method, path, headers, request, status });
    match endpoint {
        Endpoint::Reply(request) => {
            let number = shared.reply_count.fetch_add(1, Ordering::SeqCst) + 1;
            let reply = add_call_ids((shared.script)(&request), number);
            let mut stream = CutWriter::new(stream, reply.fault.as_ref());
            send_reply(&mut stream, &request, &reply, &format!("{number:06}"))
        }
        Endpoint::TokenCount(Provider::Gemini) => {
            http::send_response(stream, status, &json!({ "totalTokens": 100 }).to_string())
        }
        Endpoint::TokenCount(_) => {
            http::send_response(stream, status, &json!({ "input_tokens": 100 }).to_string())
        }
        Endpoint::ModelList => http::send_response(
            stream,
            status,
            &json!({ "object": "list", "data": [] }).to_string(),
        ),
        Endpoint::Unknown => {
            let error = json!({ "type": "not_found_error", "message": "not found" });
            http::send_response(stream, status, &json!({ "error": error }).to_string())
        }
    }
}

/// Finds the endpoint of a request by its path.
fn find_endpoint(incoming: &HttpRequest) -> Endpoint {
    let path = incoming.path_only();
    if incoming.method != "POST" {
        return if path.ends_with("/models") { Endpoint::ModelList } else { Endpoint::Unknown };
    }
    let body: Value = serde_json::from_slice(&incoming.body).unwrap_or_default();
    // Clients put different prefixes in front of the version.
    let name = path.rsplit_once("/v1").map_or(path, |(_, name)| name);
    match name {
        "/messages" => Endpoint::Reply(anthropic_messages::parse_request(body)),
        "/messages/count_tokens" => Endpoint::TokenCount(Provider::Anthropic),
        "/responses" => Endpoint::Reply(openai_responses::parse_request(body)),
        "/chat/completions" => Endpoint::Reply(openai_chat::parse_request(body)),
        _ => match path.rsplit_once("/models/").and_then(|(_, rest)| rest.split_once(':')) {
            Some((model, "generateContent")) => {
                Endpoint::Reply(gemini::parse_request(model, false, body))
            }
            Some((model, "streamGenerateContent")) => {
                Endpoint::Reply(gemini::parse_request(model, true, body))
            }
            Some((_, "countTokens")) => Endpoint::TokenCount(Provider::Gemini),
            _ => Endpoint::Unknown,
        },
    }
}

/// Assigns a unique id to each call that has none.
fn add_call_ids(mut reply: Reply, number: usize) -> Reply {
    for (index, call) in reply.calls.iter_mut().enumerate() {
        if call.id.is_empty() {
            call.id = format!("call_{number:06}_{index}");
        }
    }
    reply
}

fn send_reply(
    stream: &mut impl Write,
    request: &Request,
    reply: &Reply,
    id: &str,
) -> io::Result<()> {
    match &reply.fault {
        Some(Fault::Response { status, headers, body }) => {
            http::send_with_headers(stream, *status, headers, body)
        }
        fault if !request.stream || *fault == Some(Fault::NoStream) => {
            http::send_response(stream, "200 OK", &build_whole(request, reply, id).to_string())
        }
        _ => send_events(stream, &build_events(request, reply, id), reply),
    }
}

fn build_whole(request: &Request, reply: &Reply, id: &str) -> Value {
    match request.provider {
        Provider::Anthropic => anthropic_messages::build_reply(id, request, reply),
        Provider::Responses => openai_responses::build_reply(id, request, reply),
        Provider::Chat => openai_chat::build_reply(id, request, reply),
        Provider::Gemini => gemini::build_reply(id, request, reply),
    }
}

fn build_events(request: &Request, reply: &Reply, id: &str) -> Vec<StreamEvent> {
    let mut events = match request.provider {
        Provider::Anthropic => anthropic_messages::build_events(id, request, reply),
        Provider::Responses => openai_responses::build_events(id, request, reply),
        Provider::Chat => openai_chat::build_events(id, request, reply),
        Provider::Gemini => gemini::build_events(id, request, reply),
    };
    if let Some(Fault::ErrorEvent { after, kind, message }) = &reply.fault {
        events.truncate(*after);
        events.push(fault::error_event(request.provider, kind, message));
    }
    events
}

fn send_events(stream: &mut impl Write, events: &[StreamEvent], reply: &Reply) -> io::Result<()> {
    http::begin_stream(stream)?;
    for (number, event) in events.iter().enumerate() {
        if reply.gate.as_ref().is_some_and(|gate| gate.decide(number) == StreamStep::Cut) {
            return Ok(());
        }
        http::send_chunk(stream, &event.to_text())?;
    }
    http::send_chunk(stream, "")
}
