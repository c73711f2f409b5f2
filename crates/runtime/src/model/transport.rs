//! One HTTP request in a thread of its own, so that the calling thread can stop waiting at any
//! time.
//!
//! A blocked read ends when its connection is shut down. But a name lookup or a TCP connect cannot
//! be interrupted; the thread that is waiting for it is left behind, and ends at its time limit.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use takeback_base::errors::error_chain;
use ureq::{Agent, SendBody, http};

use super::response::Headers;
use super::{AttemptFailure, BodyReader, FailureKind};
use crate::cancel::{Cancel, CancelGuard};

/// The number of pieces that can be queued for the calling thread. A longer queue would only use
/// more memory.
const MAX_WAITING: usize = 16;

const BUFFER: usize = 32 << 10;

/// A piece of a response.
#[derive(Debug)]
pub(crate) enum Piece {
    Head { status: u16, headers: Headers },
    Body(Vec<u8>),
    End,
    Failed(AttemptFailure),
    Cancelled,
}

/// A request that has been started.
pub(crate) struct Exchange {
    pieces: Receiver<Piece>,
    agent: Agent,
    is_cancelled: Arc<AtomicBool>,
    _guard: CancelGuard,
}

impl Exchange {
    /// Starts a request. The agent must not be in use for another request, because stopping the
    /// exchange shuts down all connections of the agent.
    pub(crate) fn start(
        agent: Agent,
        request: http::Request<BodyReader>,
        stall: Duration,
        cancel: &Cancel,
    ) -> Result<Exchange, AttemptFailure> {
        let (sender, pieces) = mpsc::sync_channel(MAX_WAITING);
        let sender = Arc::new(sender);
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let guard = cancel.on_cancel({
            let (sender, is_cancelled) = (Arc::downgrade(&sender), is_cancelled.clone());
            move || {
                is_cancelled.store(true, Ordering::SeqCst);
                wake_receiver(&sender);
            }
        });
        let worker = agent.clone();
        let work = move || {
            let host = request.uri().host().unwrap_or_default().to_owned();
            let last = match run_request(&worker, request, &sender) {
                Ok(()) => Piece::End,
                Err(error) => Piece::Failed(describe_error(error, &host, stall)),
            };
            // The calling thread may no longer be listening.
            let _ = sender.send(last);
        };
        let spawned = thread::Builder::new().name("model".to_owned()).spawn(work);
        spawned.map_err(|error| {
            connection_failure(format!("cannot start a thread for the request: {error}"))
        })?;
        Ok(Exchange { pieces, agent, is_cancelled, _guard: guard })
    }

    /// Waits for the next piece of the response. Returns `None` if none arrives within `limit`.
    pub(crate) fn next_piece(&self, limit: Option<Duration>) -> Option<Piece> {
        let received = match limit {
            Some(limit) => self.pieces.recv_timeout(limit),
            None => self.pieces.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        if self.is_cancelled.load(Ordering::SeqCst) {
            return Some(Piece::Cancelled);
        }
        match received {
            Ok(piece) => Some(piece),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                Some(Piece::Failed(connection_failure("the request was not finished".to_owned())))
            }
        }
    }

    /// Returns the agent, so that it can be used for another request. The response must have been
    /// read to its end.
    pub(crate) fn release_agent(self) -> Agent {
        self.agent
    }

    /// Closes the connection, which ends the thread that is still reading from it.
    pub(crate) fn stop(self) {
        self.agent.shutdown();
    }
}

/// Wakes up the calling thread. If the channel is full, that thread is not waiting anyway.
fn wake_receiver(sender: &Weak<SyncSender<Piece>>) {
    if let Some(sender) = sender.upgrade() {
        let _ = sender.try_send(Piece::Cancelled);
    }
}

fn run_request(
    agent: &Agent,
    request: http::Request<BodyReader>,
    sender: &SyncSender<Piece>,
) -> Result<(), ureq::Error> {
    let response = agent.run(request.map(SendBody::from_owned_reader))?;
    let (head, body) = response.into_parts();
    let pairs = head.headers.iter();
    let pairs = pairs.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    let headers = Headers::from_pairs(pairs);
    if sender.send(Piece::Head { status: head.status.as_u16(), headers }).is_err() {
        return Ok(());
    }
    let mut reader = body.into_reader();
    let mut buffer = vec![0; BUFFER];
    loop {
        let count = match reader.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            result => result?,
        };
        let is_over = count == 0 || sender.send(Piece::Body(buffer[..count].to_vec())).is_err();
        if is_over {
            return Ok(());
        }
    }
}

fn connection_failure(message: String) -> AttemptFailure {
    AttemptFailure { kind: FailureKind::Connection, status: None, message, retry_after: None }
}

/// Describes an error of the connection.
fn describe_error(error: ureq::Error, host: &str, stall: Duration) -> AttemptFailure {
    let (kind, message) = match error {
        ureq::Error::Timeout(ureq::Timeout::PerRead | ureq::Timeout::PerWrite) => {
            let seconds = stall.as_secs_f64();
            (FailureKind::Stalled, format!("nothing came from {host} for {seconds} seconds"))
        }
        ureq::Error::Timeout(_) => (FailureKind::Connection, format!("{host} does not answer")),
        ureq::Error::HostNotFound => {
            (FailureKind::Connection, format!("cannot find the host {host}"))
        }
        error @ (ureq::Error::BadUri(_) | ureq::Error::Http(_)) => {
            (FailureKind::Rejected, format!("invalid request: {}", error_chain(&error)))
        }
        error => {
            // A retry does not make a certificate valid.
            let is_untrusted = is_untrusted(&error);
            let kind = if is_untrusted { FailureKind::Rejected } else { FailureKind::Connection };
            let cause = match &error {
                ureq::Error::Io(error) => error_chain(error),
                error => error_chain(error),
            };
            (kind, format!("the connection to {host} failed: {cause}"))
        }
    };
    AttemptFailure { kind, ..connection_failure(message) }
}

/// True if the certificate of the server is not valid.
fn is_untrusted(error: &ureq::Error) -> bool {
    let is_invalid = |error: &rustls::Error| matches!(error, rustls::Error::InvalidCertificate(_));
    match error {
        ureq::Error::Rustls(error) => is_invalid(error),
        ureq::Error::Io(error) => {
            error.get_ref().and_then(|inner| inner.downcast_ref()).is_some_and(is_invalid)
        }
        _ => false,
    }
}
