//! The client: sends requests to providers and returns their outcomes.

mod agents;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use ureq::http;

use self::agents::AgentPool;
use super::response::{ReadEnd, ResponseReader};
use super::transport::{Exchange, Piece};
use super::{
    ApiKind, Attempt, AttemptEnd, AttemptFailure, BodyReader, Delta, ModelRequest, Provider, Reply,
    RequestBody, build_request,
};
use crate::cancel::Cancel;

/// The version of the Messages API that the decoder knows.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// The options of a client.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The time within which a connection must be established.
    pub connect_timeout: Duration,
    /// The time without a single byte after which a request is considered stalled.
    pub stall_timeout: Duration,
    /// The time to wait after the first attempt that fails. The time doubles with each further
    /// failure.
    pub first_wait: Duration,
    /// The name that the client sends to servers.
    pub user_agent: String,
    /// The address of a proxy.
    pub proxy: Option<String>,
    /// The hosts that are reached without the proxy, as in the variable `NO_PROXY`. Hosts on the
    /// loopback interface are always reached directly.
    pub no_proxy: String,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions {
            connect_timeout: Duration::from_secs(20),
            // A model that is thinking, or a local one that is reading a long prompt, can be silent
            // for minutes.
            stall_timeout: Duration::from_secs(300),
            first_wait: Duration::from_secs(2),
            user_agent: concat!("takeback/", env!("CARGO_PKG_VERSION")).to_owned(),
            proxy: None,
            no_proxy: String::new(),
        }
    }
}

/// A client for model providers. It keeps connections open, and many threads can use it at the same
/// time.
pub struct Client(AgentPool);

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    /// Creates a client. The client does not connect to any server before the first request.
    pub fn new(options: ClientOptions) -> Client {
        Client(AgentPool::new(options))
    }

    /// Returns the time to wait after the first attempt that fails.
    pub(crate) fn first_wait(&self) -> Duration {
        self.0.options().first_wait
    }

    /// Asks a model for a reply and waits until the reply ends. The pieces of the reply are passed
    /// to `on_delta` as they arrive.
    pub fn request(
        &self,
        provider: &Provider,
        request: &ModelRequest<'_>,
        cancel: &Cancel,
        on_delta: &mut dyn FnMut(Delta<'_>),
    ) -> Attempt {
        self.send(provider, &(&build_request(provider, request)).into(), cancel, on_delta)
    }

    /// Sends a request that [`build_request`] has already built. Otherwise works like
    /// [`Client::request`].
    pub fn send(
        &self,
        provider: &Provider,
        body: &RequestBody,
        cancel: &Cancel,
        on_delta: &mut dyn FnMut(Delta<'_>),
    ) -> Attempt {
        let mut attempt = match self.send_request(provider, body, cancel, on_delta) {
            Ok(attempt) => attempt,
            Err(failure) => Attempt { reply: Reply::default(), end: AttemptEnd::Failed(failure) },
        };
        add_call_ids(&mut attempt.reply, body);
        attempt
    }

    fn send_request(
        &self,
        provider: &Provider,
        body: &RequestBody,
        cancel: &Cancel,
        on_delta: &mut dyn FnMut(Delta<'_>),
    ) -> Result<Attempt, AttemptFailure> {
        if cancel.is_cancelled() {
            return Ok(Attempt { reply: Reply::default(), end: AttemptEnd::Cancelled });
        }
        let request = build_http(provider, body)?;
        let uri = request.uri().clone();
        let agent = self.0.take_agent(&uri)?;
        let exchange = Exchange::start(agent, request, self.0.options().stall_timeout, cancel)?;
        let mut reader = ResponseReader::new(provider.kind, provider.key.as_deref());
        let end = loop {
            match exchange.next_piece(reader.patience()) {
                Some(Piece::Head { status, headers }) => reader.read_head(status, headers),
                Some(Piece::Body(bytes)) => reader.read_body(&bytes, on_delta),
                Some(Piece::End) => {
                    self.0.keep_agent(&uri, exchange.release_agent());
                    return Ok(reader.finish_attempt(ReadEnd::Ended, on_delta));
                }
                Some(Piece::Failed(failure)) => break ReadEnd::Broken(failure),
                Some(Piece::Cancelled) => break ReadEnd::Cancelled,
                None => break ReadEnd::Ended,
            }
            if reader.is_hopeless() {
                break ReadEnd::Ended;
            }
        };
        exchange.stop();
        Ok(reader.finish_attempt(end, on_delta))
    }
}

/// Builds the HTTP request. The errors contain neither the key nor a password from the address.
fn build_http(
    provider: &Provider,
    body: &RequestBody,
) -> Result<http::Request<BodyReader>, AttemptFailure> {
    let path = match provider.kind {
        ApiKind::Openai => "chat/completions",
        ApiKind::Responses => "responses",
        ApiKind::Anthropic => "messages",
    };
    let url = format!("{}/{path}", provider.base_url.trim_end_matches('/'));
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return Err(AttemptFailure::rejected(
            "base_url must begin with http:// or https://".to_owned(),
        ));
    }
    let uri: http::Uri =
        url.parse().map_err(|_| AttemptFailure::rejected("base_url is invalid".to_owned()))?;
    let mut request = http::Request::post(uri)
        .header("content-type", "application/json")
        .header("accept", "text/event-stream, application/json");
    if provider.kind == ApiKind::Anthropic {
        request = request.header("anthropic-version", ANTHROPIC_VERSION);
    }
    if let Some(key) = &provider.key {
        let (name, value) = match provider.kind {
            ApiKind::Anthropic => ("x-api-key", key.trim().to_owned()),
            _ => ("authorization", format!("Bearer {}", key.trim())),
        };
        let mut value = http::HeaderValue::from_str(&value).map_err(|_| {
            AttemptFailure::rejected(
                "the key contains characters that are not allowed in a key".to_owned(),
            )
        })?;
        value.set_sensitive(true);
        request = request.header(name, value);
    }
    request
        .header("content-length", body.length())
        .body(body.reader())
        .map_err(|error| AttemptFailure::rejected(format!("invalid request: {error}")))
}

/// Assigns an id to each call that has none, or that has the same id as an earlier call. The new
/// ids are derived from the request, so they do not occur in the rest of the conversation.
fn add_call_ids(reply: &mut Reply, body: &RequestBody) {
    let mut known = Vec::new();
    for (place, call) in reply.calls.iter_mut().enumerate() {
        if call.id.trim().is_empty() || known.contains(&call.id) {
            call.id = format!("call_{}_{place}", &body.digest()[..16]);
        }
        known.push(call.id.clone());
    }
}
