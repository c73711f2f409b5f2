//! The client: sends requests to providers and returns what came of them.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::Value;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Proxy, http};

use super::response::{ReadEnd, ResponseReader};
use super::transport::{Exchange, Piece};
use super::{
    ApiKind, Attempt, AttemptEnd, AttemptFailure, Delta, FailureKind, ModelRequest, Provider,
    Reply, build_request, request_digest,
};
use crate::cancel::Cancel;

/// The number of connections that are kept for later requests.
const MAX_IDLE: usize = 8;

/// The time for which a connection is kept.
const IDLE_TIME: Duration = Duration::from_secs(60);

/// The version of the Messages API that the decoder knows.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// The options of a client.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The time in which a connection must be established.
    pub connect_timeout: Duration,
    /// The time without a single byte after which a request counts as stalled.
    pub stall_timeout: Duration,
    /// The name that servers see.
    pub user_agent: String,
    /// The address of a proxy.
    pub proxy: Option<String>,
    /// The hosts that are reached without the proxy, as in the variable `NO_PROXY`. Hosts on the
    /// loopback interface always are.
    pub no_proxy: String,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions {
            connect_timeout: Duration::from_secs(20),
            // Models that think, and local ones that read a long prompt, are silent for minutes.
            stall_timeout: Duration::from_secs(300),
            user_agent: concat!("takeback/", env!("CARGO_PKG_VERSION")).to_owned(),
            proxy: None,
            no_proxy: String::new(),
        }
    }
}

/// A client for model providers. It keeps connections, and many threads can use it at a time.
pub struct Client {
    options: ClientOptions,
    certificates: OnceLock<Result<RootCerts, String>>,
    /// Agents without a request, by the origin that they are connected to. Each request has an
    /// agent of its own, so that it can be cancelled alone.
    idle: Mutex<Vec<(String, Agent)>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    /// Creates a client. Nothing is connected until the first request.
    pub fn new(options: ClientOptions) -> Client {
        Client { options, certificates: OnceLock::new(), idle: Mutex::default() }
    }

    /// Asks a model for a reply and waits for its end. The pieces of the reply are passed to
    /// `on_delta` as they arrive.
    pub fn request(
        &self,
        provider: &Provider,
        request: &ModelRequest<'_>,
        cancel: &Cancel,
        on_delta: &mut dyn FnMut(Delta<'_>),
    ) -> Attempt {
        self.send(provider, &build_request(provider, request), cancel, on_delta)
    }

    /// Sends a request that [`build_request`] has built, as [`Client::request`] does.
    pub fn send(
        &self,
        provider: &Provider,
        body: &Value,
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
        body: &Value,
        cancel: &Cancel,
        on_delta: &mut dyn FnMut(Delta<'_>),
    ) -> Result<Attempt, AttemptFailure> {
        if cancel.is_cancelled() {
            return Ok(Attempt { reply: Reply::default(), end: AttemptEnd::Cancelled });
        }
        let request = build_http(provider, body)?;
        let origin = find_origin(request.uri());
        let agent = match self.take_idle(&origin) {
            Some(agent) => agent,
            None => self.make_agent(request.uri())?,
        };
        let exchange = Exchange::start(&agent, request, self.options.stall_timeout, cancel)?;
        let mut reader = ResponseReader::new(provider.kind, provider.key.as_deref());
        let end = loop {
            match exchange.next_piece(reader.patience()) {
                Some(Piece::Head { status, headers }) => reader.read_head(status, headers),
                Some(Piece::Body(bytes)) => reader.read_body(&bytes, on_delta),
                Some(Piece::End) => {
                    self.keep_idle(origin, agent);
                    return Ok(reader.finish(ReadEnd::Ended, on_delta));
                }
                Some(Piece::Failed(failure)) => break ReadEnd::Broken(failure),
                Some(Piece::Cancelled) => break ReadEnd::Cancelled,
                None => break ReadEnd::Ended,
            }
            if reader.is_hopeless() {
                break ReadEnd::Ended;
            }
        };
        // Ends the thread that still reads, and closes its connection.
        agent.shutdown();
        Ok(reader.finish(end, on_delta))
    }

    fn take_idle(&self, origin: &str) -> Option<Agent> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let place = idle.iter().rposition(|(known, _)| known == origin)?;
        Some(idle.remove(place).1)
    }

    fn keep_idle(&self, origin: String, agent: Agent) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() == MAX_IDLE {
            idle.remove(0);
        }
        idle.push((origin, agent));
    }

    fn make_agent(&self, uri: &http::Uri) -> Result<Agent, AttemptFailure> {
        let proxy = self.find_proxy(uri)?;
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            // A redirected request would lose its body, or send the key elsewhere.
            .max_redirects(0)
            .timeout_resolve(Some(self.options.connect_timeout))
            .timeout_connect(Some(self.options.connect_timeout))
            .timeout_per_read(Some(self.options.stall_timeout))
            .timeout_per_write(Some(self.options.stall_timeout))
            .user_agent(self.options.user_agent.as_str())
            .max_idle_age(IDLE_TIME)
            .proxy(proxy.clone());
        let is_secure_proxy = proxy.is_some_and(|proxy| proxy.uri().scheme_str() == Some("https"));
        if uri.scheme_str() == Some("https") || is_secure_proxy {
            config = config.tls_config(self.tls_config()?);
        }
        Ok(config.build().new_agent())
    }

    /// Returns the proxy for an address, if there is one.
    fn find_proxy(&self, uri: &http::Uri) -> Result<Option<Proxy>, AttemptFailure> {
        let Some(address) = &self.options.proxy else { return Ok(None) };
        if is_direct(uri.host().unwrap_or_default(), &self.options.no_proxy) {
            return Ok(None);
        }
        // The address may contain a password.
        let invalid = |_| rejected("the address of the proxy is invalid".to_owned());
        Proxy::new(address).map(Some).map_err(invalid)
    }

    /// Returns the settings for TLS, with the system's certificates.
    fn tls_config(&self) -> Result<TlsConfig, AttemptFailure> {
        let certificates = self.certificates.get_or_init(load_certificates).clone();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        Ok(TlsConfig::builder()
            .root_certs(certificates.map_err(rejected)?)
            .unversioned_rustls_crypto_provider(provider)
            .build())
    }
}

fn load_certificates() -> Result<RootCerts, String> {
    let found = rustls_native_certs::load_native_certs();
    let certificates: Vec<Certificate<'static>> =
        found.certs.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
    if certificates.is_empty() {
        let reasons: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        return Err(format!("this system has no root certificates {}", reasons.join("; ")));
    }
    Ok(RootCerts::Specific(Arc::new(certificates)))
}

/// True if a host is reached without the proxy.
fn is_direct(host: &str, exceptions: &str) -> bool {
    let host = host.trim_matches(['[', ']']).to_lowercase();
    let is_loopback = host == "localhost"
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    let mut exceptions = exceptions.split(',').map(|name| name.trim().to_lowercase());
    is_loopback
        || exceptions.any(|name| {
            let plain = name.trim_start_matches('*').trim_start_matches('.');
            let is_part = !plain.is_empty() && host.ends_with(&format!(".{plain}"));
            name == "*" || host == plain || is_part
        })
}

fn rejected(message: String) -> AttemptFailure {
    AttemptFailure { kind: FailureKind::Rejected, status: None, message, retry_after: None }
}

fn find_origin(uri: &http::Uri) -> String {
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    format!("{}://{authority}", uri.scheme_str().unwrap_or_default())
}

/// Builds the HTTP request. The errors contain neither the key nor a password in the address.
fn build_http(provider: &Provider, body: &Value) -> Result<http::Request<Vec<u8>>, AttemptFailure> {
    let path = match provider.kind {
        ApiKind::Openai => "chat/completions",
        ApiKind::Responses => "responses",
        ApiKind::Anthropic => "messages",
    };
    let url = format!("{}/{path}", provider.base_url.trim_end_matches('/'));
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return Err(rejected("base_url must begin with http:// or https://".to_owned()));
    }
    let uri: http::Uri = url.parse().map_err(|_| rejected("base_url is invalid".to_owned()))?;
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
        let mut value = http::HeaderValue::from_str(&value)
            .map_err(|_| rejected("the key contains characters that no key has".to_owned()))?;
        value.set_sensitive(true);
        request = request.header(name, value);
    }
    request
        .body(body.to_string().into_bytes())
        .map_err(|error| rejected(format!("invalid request: {error}")))
}

/// Assigns an id to each call that has none, or that shares one with another call. The ids follow
/// from the request, so they do not occur in the rest of the conversation.
fn add_call_ids(reply: &mut Reply, body: &Value) {
    let mut known = Vec::new();
    for (place, call) in reply.calls.iter_mut().enumerate() {
        if call.id.trim().is_empty() || known.contains(&call.id) {
            call.id = format!("call_{}_{place}", &request_digest(body)[..16]);
        }
        known.push(call.id.clone());
    }
}
