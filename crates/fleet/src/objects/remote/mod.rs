//! Buckets on servers. This module contains the code that all kinds of object storage share:
//! connections, retries, the rate limit, and the reasons for errors. Each kind implements
//! [`Protocol`] for the rest.
//!
//! Keys consist only of letters, digits and `-_./`, so they need little escaping in URLs and XML.

mod answer;
mod protocol;
#[cfg(test)]
mod tests;
mod xml;

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use takeback_base::errors::error_chain;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, SendBody, http};

use self::answer::{Answer, Refusal, explain, find_meaning};
pub(super) use self::answer::{format_http_date, parse_http_date, to_timestamp};
pub(super) use self::protocol::{
    ErrorBody, ErrorMeaning, Operation, Page, Protocol, Request, encode, encode_key,
};
pub(super) use self::xml::{find_element, parse_error, split_elements};
use super::access::Provider;
use super::bucket::{Bucket, Content, LimitedReader, Listing};
use super::error::ObjectsError;

/// The maximum number of times that a request is made if the server cannot be reached or is
/// overloaded.
const ATTEMPTS: u32 = 4;

/// The time after which a connection that makes no progress is considered lost.
const STALL: Duration = Duration::from_secs(60);

/// The maximum length of an answer that is held in memory, in bytes.
const MAX_ANSWER: u64 = 64 << 20;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// The scheme and the host, such as `https://storage.example`.
    root: String,
    /// The host, with its port.
    pub(super) host: String,
    /// The path in the server's address, without a slash at its end. The paths of all requests
    /// begin with it.
    pub(super) path: String,
}

impl Origin {
    pub(super) fn parse(endpoint: &str) -> Result<Origin, ObjectsError> {
        let invalid = || {
            ObjectsError::BadAddress(format!(
                "{endpoint:?} is not the address of a server: \
                 expected https://host or http://host:port"
            ))
        };
        let uri: http::Uri = endpoint.parse().map_err(|_| invalid())?;
        let scheme = uri.scheme_str().filter(|scheme| matches!(*scheme, "http" | "https"));
        let (Some(scheme), Some(host)) = (scheme, uri.authority()) else { return Err(invalid()) };
        if uri.query().is_some() {
            return Err(invalid());
        }
        let path = uri.path().trim_end_matches('/').to_owned();
        Ok(Origin { root: format!("{scheme}://{host}"), host: host.to_string(), path })
    }
}

/// A bucket on a server.
pub(super) struct RemoteBucket {
    agent: Agent,
    origin: Origin,
    provider: Provider,
    protocol: Box<dyn Protocol>,
    /// Empty, or a path that ends with a slash.
    prefix: String,
    target: String,
    bytes_per_second: Option<u64>,
}

impl RemoteBucket {
    /// Returns a bucket. `name` is the bucket's name in messages to the user.
    pub(super) fn new(
        provider: Provider,
        origin: Origin,
        protocol: Box<dyn Protocol>,
        name: &str,
        prefix: &str,
        bytes_per_second: Option<u64>,
    ) -> RemoteBucket {
        let agent = make_agent(origin.root.starts_with("https:"));
        let target = format!("{name} at {}", origin.host);
        let prefix = prefix.to_owned();
        RemoteBucket { agent, origin, provider, protocol, prefix, target, bytes_per_second }
    }

    fn full_key(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// Makes a request. Repeats it several times if the server cannot be reached or is overloaded.
    fn run(
        &self,
        operation: &Operation<'_>,
        content: &Content<'_>,
    ) -> Result<Answer, ObjectsError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let failure = match self.run_once(operation, content) {
                Ok(answer) if self.is_temporary(answer.status) => self.explain(operation, answer).1,
                Ok(answer) => return Ok(answer),
                Err(error @ ObjectsError::Unreachable { .. }) => error,
                Err(error) => return Err(error),
            };
            if attempt == ATTEMPTS {
                return Err(failure);
            }
            std::thread::sleep(Duration::from_millis(100 << attempt));
        }
    }

    fn is_temporary(&self, status: u16) -> bool {
        status >= 500 || matches!(status, 408 | 429) || self.protocol.is_temporary(status)
    }

    fn run_once(
        &self,
        operation: &Operation<'_>,
        content: &Content<'_>,
    ) -> Result<Answer, ObjectsError> {
        let now = SystemTime::now();
        let request = self.make_request(operation, content, now)?;
        let response = self.agent.run(request).map_err(|error| self.unreachable(&error))?;
        let (head, body) = response.into_parts();
        let date = head.headers.get("date").and_then(|date| parse_http_date(date.to_str().ok()?));
        Ok(Answer {
            status: head.status.as_u16(),
            date,
            sent: now.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64,
            body: Box::new(body.into_reader()),
        })
    }

    fn make_request(
        &self,
        operation: &Operation<'_>,
        content: &Content<'_>,
        now: SystemTime,
    ) -> Result<http::Request<SendBody<'static>>, ObjectsError> {
        let mut request = self.protocol.make_request(operation);
        self.protocol.authorize(&mut request, content, now)?;
        let query = request.encoded_query();
        let question = if query.is_empty() { "" } else { "?" };
        let uri = format!("{}{}{question}{query}", self.origin.root, request.path);
        let mut built = http::Request::builder().method(request.method).uri(uri);
        for (name, value) in request.headers {
            built = built.header(name, value);
        }
        let body = match operation {
            Operation::Create { .. } => {
                built = built.header("content-length", content.length());
                let content = LimitedReader::new(content.open()?, self.bytes_per_second);
                SendBody::from_owned_reader(content)
            }
            _ => SendBody::none(),
        };
        // Only the credentials can contain characters that are not allowed in a request.
        built.body(body).map_err(|_| ObjectsError::NoCredentials { provider: self.provider })
    }

    fn unreachable(&self, error: &ureq::Error) -> ObjectsError {
        let source = io::Error::other(error_chain(error));
        ObjectsError::Unreachable { target: self.target.clone(), source }
    }

    /// Determines the meaning of an answer that is an error. Also returns the error to report.
    fn explain(
        &self,
        operation: &Operation<'_>,
        answer: Answer,
    ) -> (Option<ErrorMeaning>, ObjectsError) {
        let ahead = answer.date.map(|date| answer.sent - date);
        let mut body = Vec::new();
        let _ = answer.body.take(MAX_ANSWER).read_to_end(&mut body);
        let body = String::from_utf8_lossy(&body).into_owned();
        let refusal = Refusal { status: answer.status, body, ahead };
        let (meaning, reason) = find_meaning(self.protocol.as_ref(), operation, &refusal);
        (meaning, explain(self.provider, &self.target, meaning, reason, ahead))
    }

    /// Reads a page of a listing. Returns the page and the time on the server's clock.
    fn list_page(&self, prefix: &str, page: Option<&str>) -> Result<(Page, i64), ObjectsError> {
        let operation = Operation::List { prefix, page };
        let answer = self.run(&operation, &Content::Bytes(b""))?;
        if answer.status != 200 {
            return Err(self.explain(&operation, answer).1);
        }
        let now = answer.date.unwrap_or(0);
        let mut text = String::new();
        answer
            .body
            .take(MAX_ANSWER)
            .read_to_string(&mut text)
            .map_err(|source| ObjectsError::Unreachable { target: self.target.clone(), source })?;
        let page = self.protocol.parse_page(&text);
        let page = page.ok_or_else(|| ObjectsError::NotStorage { target: self.target.clone() })?;
        Ok((page, now))
    }
}

impl Bucket for RemoteBucket {
    fn target(&self) -> &str {
        &self.target
    }

    fn download(&self, key: &str, out: &mut dyn Write) -> Result<bool, ObjectsError> {
        let key = self.full_key(key);
        let operation = Operation::Download { key: &key };
        let mut answer = self.run(&operation, &Content::Bytes(b""))?;
        if answer.status == 200 {
            let target = || self.target.clone();
            return match io::copy(&mut answer.body, out) {
                Ok(_) => Ok(true),
                Err(source) => Err(ObjectsError::Unreachable { target: target(), source }),
            };
        }
        match self.explain(&operation, answer) {
            (Some(ErrorMeaning::NoObject), _) => {
                if self.protocol.confuses_missing() {
                    self.list_page(&key, None)?;
                }
                Ok(false)
            }
            (_, error) => Err(error),
        }
    }

    fn create(&self, key: &str, content: &Content<'_>) -> Result<bool, ObjectsError> {
        let key = self.full_key(key);
        let operation = Operation::Create { key: &key };
        let answer = self.run(&operation, content)?;
        if matches!(answer.status, 200 | 201) {
            return Ok(true);
        }
        match self.explain(&operation, answer) {
            (Some(ErrorMeaning::Exists), _) => Ok(false),
            (_, error) => Err(error),
        }
    }

    fn remove(&self, key: &str) -> Result<(), ObjectsError> {
        let key = self.full_key(key);
        let operation = Operation::Remove { key: &key };
        let answer = self.run(&operation, &Content::Bytes(b""))?;
        if matches!(answer.status, 200 | 202 | 204) {
            return Ok(());
        }
        match self.explain(&operation, answer) {
            (Some(ErrorMeaning::NoObject), _) => Ok(()),
            (_, error) => Err(error),
        }
    }

    fn list(&self, prefix: &str) -> Result<Listing, ObjectsError> {
        let full = self.full_key(prefix);
        let mut listing = Listing::default();
        let mut next: Option<String> = None;
        loop {
            let (page, now) = self.list_page(&full, next.as_deref())?;
            listing.now = now;
            for mut object in page.objects {
                let Some(key) = object.key.strip_prefix(&self.prefix) else {
                    return Err(ObjectsError::NotStorage { target: self.target.clone() });
                };
                object.key = key.to_owned();
                // `listing.now` has only whole seconds, so the time of creation is rounded down as
                // well.
                object.created -= object.created.rem_euclid(1000);
                listing.objects.push(object);
            }
            next = page.next;
            if next.is_none() {
                listing.objects.sort_by(|a, b| a.key.cmp(&b.key));
                return Ok(listing);
            }
        }
    }
}

fn make_agent(is_secure: bool) -> Agent {
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        // A redirected request would need a new signature.
        .max_redirects(0)
        .timeout_resolve(Some(STALL))
        .timeout_connect(Some(STALL))
        .timeout_per_read(Some(STALL))
        .timeout_per_write(Some(STALL))
        .user_agent("takeback");
    if is_secure {
        let found = rustls_native_certs::load_native_certs();
        let certificates: Vec<Certificate<'static>> =
            found.certs.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        config = config.tls_config(
            TlsConfig::builder()
                .root_certs(RootCerts::Specific(Arc::new(certificates)))
                .unversioned_rustls_crypto_provider(provider)
                .build(),
        );
    }
    config.build().new_agent()
}
