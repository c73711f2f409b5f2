//! Proxies that disturb requests to object storage.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The proxy's decision about a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    /// The server gets the request, but its answer is lost.
    LoseAnswer,
    LoseRequest,
}

/// A proxy that can lose requests and answers.
pub(crate) struct Proxy {
    pub(crate) port: u16,
}

impl Proxy {
    /// Starts a proxy. `judge` sees each request before the server does, and `finish` is called after
    /// a request or its answer was lost.
    pub(crate) fn start(
        server: u16,
        judge: impl Fn(&[u8]) -> Verdict + Send + Sync + 'static,
        finish: impl Fn() + Send + Sync + 'static,
    ) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (judge, finish) = (Arc::new(judge), Arc::new(finish));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (judge, finish) = (judge.clone(), finish.clone());
                std::thread::spawn(move || {
                    // An error means that one of the ends has closed the connection.
                    let _ = pass_on(client, server, &*judge, &*finish);
                });
            }
        });
        Proxy { port }
    }
}

/// Passes on the requests of one connection, each over its own connection to the server.
fn pass_on(
    mut client: TcpStream,
    server: u16,
    judge: &dyn Fn(&[u8]) -> Verdict,
    finish: &dyn Fn(),
) -> std::io::Result<()> {
    loop {
        let Some(request) = read_message(&mut client)? else { return Ok(()) };
        let verdict = judge(&request);
        let mut answer = Vec::new();
        if verdict != Verdict::LoseRequest {
            let mut upstream = TcpStream::connect(("127.0.0.1", server))?;
            upstream.write_all(&request)?;
            upstream.shutdown(Shutdown::Write)?;
            answer = read_message(&mut upstream)?.unwrap_or_default();
        }
        if verdict != Verdict::Pass {
            finish();
            return Ok(());
        }
        client.write_all(&answer)?;
    }
}

/// Reads a request or an answer with its body. Returns `None` at the end of the connection.
fn read_message(stream: &mut TcpStream) -> std::io::Result<Option<Vec<u8>>> {
    let mut message = Vec::new();
    if !read_until(stream, &mut message, b"\r\n\r\n")? {
        return Ok(None);
    }
    let head = String::from_utf8_lossy(&message).to_lowercase();
    if head.contains("\r\ntransfer-encoding: chunked\r\n") {
        // The last piece has the length zero.
        loop {
            let start = message.len();
            read_until(stream, &mut message, b"\r\n")?;
            let length = String::from_utf8_lossy(&message[start..]).trim().to_owned();
            let length = usize::from_str_radix(&length, 16).unwrap();
            read_exactly(stream, &mut message, length + 2)?;
            if length == 0 {
                return Ok(Some(message));
            }
        }
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length = length.map_or(0, |length| length.trim().parse().unwrap());
    read_exactly(stream, &mut message, length)?;
    Ok(Some(message))
}

/// Reads up to and including `end`. Returns false if the connection is closed before that.
fn read_until(stream: &mut TcpStream, out: &mut Vec<u8>, end: &[u8]) -> std::io::Result<bool> {
    let start = out.len();
    let mut byte = [0];
    while !out[start..].ends_with(end) {
        if stream.read(&mut byte)? == 0 {
            return Ok(false);
        }
        out.push(byte[0]);
    }
    Ok(true)
}

fn read_exactly(stream: &mut TcpStream, out: &mut Vec<u8>, length: usize) -> std::io::Result<()> {
    let start = out.len();
    out.resize(start + length, 0);
    stream.read_exact(&mut out[start..])
}

/// A proxy that kills a process when the process makes a certain request.
pub(crate) struct KillingProxy {
    pub(crate) port: u16,
    /// The number of requests that still pass.
    left: Arc<AtomicI64>,
    /// The process that is killed.
    victim: Arc<AtomicI64>,
}

impl KillingProxy {
    /// Starts a proxy that lets `passing` requests pass, and kills the process at the next request.
    /// If `forwards_last` is true, the server still gets that request, but its answer is lost.
    pub(crate) fn start(server: u16, passing: i64, forwards_last: bool) -> KillingProxy {
        let (left, victim) = (Arc::new(AtomicI64::new(passing)), Arc::new(AtomicI64::new(0)));
        let lost = if forwards_last { Verdict::LoseAnswer } else { Verdict::LoseRequest };
        let (counter, target) = (left.clone(), victim.clone());
        let judge = move |_: &[u8]| match counter.fetch_sub(1, Ordering::SeqCst) <= 0 {
            true => lost,
            false => Verdict::Pass,
        };
        let kill = move || {
            while target.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            let id = target.load(Ordering::SeqCst) as i32;
            let id = rustix::process::Pid::from_raw(id).unwrap();
            let _ = rustix::process::kill_process(id, rustix::process::Signal::KILL);
        };
        KillingProxy { port: Proxy::start(server, judge, kill).port, left, victim }
    }

    /// Sets the process that will be killed.
    pub(crate) fn aim_at(&self, process: &Child) {
        self.victim.store(i64::from(process.id()), Ordering::SeqCst);
    }

    /// True if the process was killed.
    pub(crate) fn has_killed(&self) -> bool {
        self.left.load(Ordering::SeqCst) < 0
    }
}
