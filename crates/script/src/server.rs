//! The server: connections, addresses, the log.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};

use crate::http::{self, Incoming};
use crate::reply::{Flow, Reply};
use crate::request::{Provider, Request};
use crate::{anthropic, chat, gemini, responses};

type Script = dyn Fn(&Request) -> Reply + Send + Sync;

/// A model on loopback. It is gone when this is dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

/// One request that came.
#[derive(Clone, Debug)]
pub struct Entry {
    /// GET, POST and so on.
    pub method: String,
    /// Where it went, with its query.
    pub path: String,
    /// What the model was asked, if it was the model that was asked.
    pub request: Option<Request>,
    /// The status of the answer.
    pub status: &'static str,
}

struct Shared {
    script: Box<Script>,
    log: Mutex<Vec<Entry>>,
    is_over: AtomicBool,
    answers: AtomicUsize,
}

/// What is wanted of an address.
enum Wanted {
    Answer(Request),
    /// How many tokens a request has.
    Count(Provider),
    Models,
    Nothing,
}

impl Server {
    /// Starts a server whose model says what the script tells it.
    pub fn start(script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> io::Result<Server> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            script: Box::new(script),
            log: Mutex::default(),
            is_over: AtomicBool::new(false),
            answers: AtomicUsize::new(0),
        });
        let acceptor = thread::spawn({
            let shared = shared.clone();
            move || accept(&listener, &shared)
        });
        Ok(Server { address, shared, acceptor: Some(acceptor) })
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Everything that came so far.
    pub fn log(&self) -> Vec<Entry> {
        self.shared.log().clone()
    }

    /// What the model was asked so far.
    pub fn requests(&self) -> Vec<Request> {
        self.log().into_iter().filter_map(|entry| entry.request).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // Wakes up the one who accepts. If that fails, nobody accepts any more.
        drop(TcpStream::connect(self.address));
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

impl Shared {
    fn log(&self) -> std::sync::MutexGuard<'_, Vec<Entry>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.is_over.load(Ordering::SeqCst) {
            return;
        }
        let Ok(mut stream) = stream else { continue };
        let shared = shared.clone();
        thread::spawn(move || {
            // A client that went away needs no answer.
            let _ = serve(&mut stream, &shared);
        });
    }
}

/// One connection carries one request: answers say so.
fn serve(stream: &mut TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let Some(incoming) = http::read(stream)? else { return Ok(()) };
    let wanted = wanted(&incoming);
    let status = if matches!(wanted, Wanted::Nothing) { "404 Not Found" } else { "200 OK" };
    let request = match &wanted {
        Wanted::Answer(request) => Some(request.clone()),
        _ => None,
    };
    let (method, path) = (incoming.method, incoming.path);
    shared.log().push(Entry { method, path, request, status });
    match wanted {
        Wanted::Answer(request) => {
            let number = shared.answers.fetch_add(1, Ordering::SeqCst) + 1;
            let reply = with_ids((shared.script)(&request), number);
            say(stream, &request, &reply, &format!("{number:06}"))
        }
        Wanted::Count(Provider::Gemini) => {
            http::answer(stream, status, &json!({ "totalTokens": 100 }).to_string())
        }
        Wanted::Count(_) => {
            http::answer(stream, status, &json!({ "input_tokens": 100 }).to_string())
        }
        Wanted::Models => {
            http::answer(stream, status, &json!({ "object": "list", "data": [] }).to_string())
        }
        Wanted::Nothing => {
            let error = json!({ "type": "not_found_error", "message": "not found" });
            http::answer(stream, status, &json!({ "error": error }).to_string())
        }
    }
}

fn wanted(incoming: &Incoming) -> Wanted {
    let place = incoming.place();
    if incoming.method != "POST" {
        return if place.ends_with("/models") { Wanted::Models } else { Wanted::Nothing };
    }
    let body: Value = serde_json::from_slice(&incoming.body).unwrap_or_default();
    // Clients differ in what they put in front.
    let name = place.rsplit_once("/v1").map_or(place, |(_, name)| name);
    match name {
        "/messages" => Wanted::Answer(anthropic::read(body)),
        "/messages/count_tokens" => Wanted::Count(Provider::Anthropic),
        "/responses" => Wanted::Answer(responses::read(body)),
        "/chat/completions" => Wanted::Answer(chat::read(body)),
        _ => match place.rsplit_once("/models/").and_then(|(_, rest)| rest.split_once(':')) {
            Some((model, "generateContent")) => Wanted::Answer(gemini::read(model, false, body)),
            Some((model, "streamGenerateContent")) => {
                Wanted::Answer(gemini::read(model, true, body))
            }
            Some((_, "countTokens")) => Wanted::Count(Provider::Gemini),
            _ => Wanted::Nothing,
        },
    }
}

/// Calls that have no id yet get one that is used nowhere else.
fn with_ids(mut reply: Reply, number: usize) -> Reply {
    for (index, call) in reply.calls.iter_mut().enumerate() {
        if call.id.is_empty() {
            call.id = format!("call_{number:06}_{index}");
        }
    }
    reply
}

fn say(stream: &mut TcpStream, request: &Request, reply: &Reply, id: &str) -> io::Result<()> {
    if !request.stream {
        let whole = match request.provider {
            Provider::Anthropic => anthropic::whole(id, request, reply),
            Provider::Responses => responses::whole(id, request, reply),
            Provider::Chat => chat::whole(id, request, reply),
            Provider::Gemini => gemini::whole(id, request, reply),
        };
        return http::answer(stream, "200 OK", &whole.to_string());
    }
    let events = match request.provider {
        Provider::Anthropic => anthropic::events(id, request, reply),
        Provider::Responses => responses::events(id, request, reply),
        Provider::Chat => chat::events(id, request, reply),
        Provider::Gemini => gemini::events(id, request, reply),
    };
    http::begin_stream(stream)?;
    for (number, event) in events.iter().enumerate() {
        if reply.gate.as_ref().is_some_and(|gate| gate.pass(number) == Flow::Cut) {
            return Ok(());
        }
        http::piece(stream, &event.wire())?;
    }
    http::piece(stream, "")
}
