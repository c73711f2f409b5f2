//! A model that answers immediately: first with a call, then with a text.
//!
//! The scripted model of the tests is not used here, because it keeps all requests, which would
//! take up most of the memory in use.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

use serde_json::json;

use crate::Failure;

/// The times that the model measures: when it sends its first token, and its processor time.
#[derive(Clone, Default)]
pub(super) struct ModelTimes {
    first_token: Arc<Mutex<Option<Instant>>>,
    /// The processor time of the model's thread in nanoseconds.
    work: Arc<AtomicU64>,
}

impl ModelTimes {
    /// Returns the time at which the model sent the first token of its last text.
    pub(super) fn first_token(&self) -> Option<Instant> {
        *self.first_token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the processor time of the model so far, in milliseconds.
    pub(super) fn work(&self) -> f64 {
        self.work.load(Ordering::SeqCst) as f64 / 1e6
    }
}

/// Starts a model, which runs until this program ends. Returns the address of the model.
pub(super) fn start_model(times: ModelTimes) -> Result<String, Failure> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            // If this fails, the agent notices it.
            let _ = answer(stream, number, &times);
            let work = clock_gettime(ClockId::ThreadCPUTime);
            let nanoseconds = work.tv_sec as u64 * 1_000_000_000 + work.tv_nsec as u64;
            times.work.store(nanoseconds, Ordering::SeqCst);
        }
    });
    Ok(format!("http://{address}"))
}

fn answer(mut stream: TcpStream, number: usize, times: &ModelTimes) -> io::Result<()> {
    stream.set_nodelay(true)?;
    read_request(&mut stream)?;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes())?;
    if number.is_multiple_of(2) {
        let content = format!("the text of turn {number}\n").repeat(4);
        let arguments = json!({ "path": "notes.txt", "content": content }).to_string();
        let function = json!({ "name": "write_file", "arguments": arguments });
        let call = json!({ "index": 0, "id": "c", "type": "function", "function": function });
        send(&mut stream, &json!({ "tool_calls": [call] }), "tool_calls")
    } else {
        let mut first_token = times.first_token.lock().unwrap_or_else(PoisonError::into_inner);
        *first_token = Some(Instant::now());
        drop(first_token);
        let text = format!("The notes of turn {number} are written, as you asked. ");
        send(&mut stream, &json!({ "content": text }), "stop")
    }
}

fn send(stream: &mut TcpStream, delta: &serde_json::Value, finish: &str) -> io::Result<()> {
    let usage = json!({ "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120 });
    let event = |choices: serde_json::Value| json!({ "id": "x", "choices": choices });
    let parts = [
        event(json!([{ "index": 0, "delta": delta }])),
        event(json!([{ "index": 0, "delta": {}, "finish_reason": finish }])),
        json!({ "id": "x", "choices": [], "usage": usage }),
    ];
    for part in parts {
        stream.write_all(format!("data: {part}\n\n").as_bytes())?;
    }
    stream.write_all(b"data: [DONE]\n\n")
}

/// Reads a request to its end.
fn read_request(stream: &mut TcpStream) -> io::Result<()> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 65536];
    loop {
        let count = stream.read(&mut buffer)?;
        bytes.extend_from_slice(&buffer[..count]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            continue;
        };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
        let mut rest = vec![0; (end + 4 + length).saturating_sub(bytes.len())];
        return stream.read_exact(&mut rest);
    }
}
