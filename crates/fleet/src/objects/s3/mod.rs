//! A bucket of a server that speaks the S3 protocol.
//!
//! Only four requests are needed: GET, PUT with `If-None-Match: *`, DELETE and ListObjectsV2. Their
//! keys consist of letters, digits and `-_./`, so neither URLs nor XML need more than is here.

mod answer;
mod sign;

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};
use takeback_base::errors::error_chain;
use takeback_base::hex;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, SendBody, http};

use self::answer::{Answer, classify_error, parse_listing};
use self::sign::{Credentials, Signable, percent_encode, sign};
use super::bucket::{Bucket, Content, LimitedReader, Listing};
use super::error::ObjectsError;

/// The number of times that a request is made if the server cannot be reached or is overloaded.
const ATTEMPTS: u32 = 4;

/// The time after which a connection that does not move counts as lost.
const STALL: Duration = Duration::from_secs(60);

/// The maximum length of an answer that is held in memory, in bytes.
const MAX_ANSWER: u64 = 64 << 20;

/// The keys and the server for S3, usually taken from the environment.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct S3Access {
    pub access_key: Option<String>,
    pub secret_key: Option<String>,
    pub session_token: Option<String>,
    /// The region; `us-east-1` by default.
    pub region: Option<String>,
    /// The address of a server other than Amazon's.
    pub endpoint: Option<String>,
}

/// A bucket on a server.
pub(crate) struct S3Bucket {
    agent: Agent,
    credentials: Credentials,
    region: String,
    /// The scheme and the host, such as `https://bucket.s3.eu-west-1.amazonaws.com`.
    origin: String,
    host: String,
    /// The beginning of all paths, percent-encoded: the bucket, unless the host names it.
    base: String,
    prefix: String,
    target: String,
    bytes_per_second: Option<u64>,
}

/// A request without its signature.
struct Call<'a> {
    method: http::Method,
    /// The key of an object, or `None` for the bucket.
    key: Option<&'a str>,
    query: String,
    headers: Vec<(String, String)>,
    content: Content<'a>,
}

impl S3Bucket {
    pub(crate) fn open(
        bucket: &str,
        prefix: &str,
        access: &S3Access,
        bytes_per_second: Option<u64>,
    ) -> Result<S3Bucket, ObjectsError> {
        let (Some(access_key), Some(secret_key)) = (&access.access_key, &access.secret_key) else {
            return Err(ObjectsError::NoCredentials);
        };
        let credentials = Credentials {
            access_key: access_key.clone(),
            secret_key: secret_key.clone(),
            session_token: access.session_token.clone(),
        };
        let region = access.region.clone().unwrap_or_else(|| "us-east-1".to_owned());
        let (origin, base) = match &access.endpoint {
            Some(endpoint) => (endpoint.trim_end_matches('/').to_owned(), format!("/{bucket}")),
            // A certificate for `*.s3.region.amazonaws.com` is not valid for a name with a dot.
            None if bucket.contains('.') => {
                (format!("https://s3.{region}.amazonaws.com"), format!("/{bucket}"))
            }
            None => (format!("https://{bucket}.s3.{region}.amazonaws.com"), String::new()),
        };
        let uri: http::Uri = origin.parse().map_err(|_| bad_endpoint(&origin))?;
        let host = uri.authority().map(ToString::to_string);
        let host = host.filter(|_| matches!(uri.scheme_str(), Some("http" | "https")));
        let host = host.filter(|_| matches!(uri.path(), "" | "/"));
        let host = host.ok_or_else(|| bad_endpoint(&origin))?;
        let agent = make_agent(uri.scheme_str() == Some("https"));
        let target = format!("the bucket {bucket} at {host}");
        let prefix = prefix.to_owned();
        Ok(S3Bucket {
            agent,
            credentials,
            region,
            origin,
            host,
            base,
            prefix,
            target,
            bytes_per_second,
        })
    }

    /// Makes a request, several times if the server cannot be reached or is overloaded.
    fn run(&self, call: &Call<'_>) -> Result<Answer, ObjectsError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let failure = match self.run_once(call) {
                Ok(answer) if answer.status < 500 && answer.status != 429 => return Ok(answer),
                Ok(answer) => self.explain(answer),
                Err(error @ ObjectsError::Unreachable { .. }) => error,
                Err(error) => return Err(error),
            };
            if attempt == ATTEMPTS {
                return Err(failure);
            }
            std::thread::sleep(Duration::from_millis(100 << attempt));
        }
    }

    fn run_once(&self, call: &Call<'_>) -> Result<Answer, ObjectsError> {
        let now = SystemTime::now();
        let request = self.signed_request(call, now)?;
        let response = self.agent.run(request).map_err(|error| self.unreachable(&error))?;
        let (head, body) = response.into_parts();
        let text = |name: &str| Some(head.headers.get(name)?.to_str().ok()?.to_owned());
        let date = text("date").and_then(|date| answer::parse_http_date(&date));
        Ok(Answer {
            status: head.status.as_u16(),
            date,
            sent: now.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64,
            body: Box::new(body.into_reader()),
        })
    }

    fn signed_request(
        &self,
        call: &Call<'_>,
        now: SystemTime,
    ) -> Result<http::Request<SendBody<'static>>, ObjectsError> {
        let path = match call.key {
            None => format!("{}/", self.base.trim_end_matches('/')),
            Some(key) => {
                let full = format!("{}{key}", self.prefix);
                let parts: Vec<String> = full.split('/').map(percent_encode).collect();
                format!("{}/{}", self.base, parts.join("/"))
            }
        };
        let computed;
        let digest = match call.content {
            Content::File { digest, .. } => digest,
            Content::Bytes(bytes) => {
                computed = hex::encode(&Sha256::digest(bytes));
                &computed
            }
        };
        let time = answer::format_time(now);
        let mut headers = call.headers.clone();
        headers.push(("host".to_owned(), self.host.clone()));
        headers.push(("x-amz-content-sha256".to_owned(), digest.to_owned()));
        headers.push(("x-amz-date".to_owned(), time.clone()));
        if let Some(token) = &self.credentials.session_token {
            headers.push(("x-amz-security-token".to_owned(), token.clone()));
        }
        let signable = Signable {
            method: call.method.as_str(),
            path: &path,
            query: &call.query,
            headers: headers.clone(),
            digest,
        };
        let authorization = sign(&signable, &self.credentials, &self.region, &time);
        headers.push(("authorization".to_owned(), authorization));
        let question = if call.query.is_empty() { "" } else { "?" };
        let uri = format!("{}{path}{question}{}", self.origin, call.query);
        let mut request = http::Request::builder().method(call.method.clone()).uri(uri);
        for (name, value) in &headers {
            request = request.header(name, value);
        }
        let has_body = call.method == http::Method::PUT;
        let body = match has_body {
            false => SendBody::none(),
            true => {
                request = request.header("content-length", call.content.length());
                let content = LimitedReader::new(call.content.open()?, self.bytes_per_second);
                SendBody::from_owned_reader(content)
            }
        };
        request.body(body).map_err(|_| ObjectsError::NoCredentials)
    }

    fn unreachable(&self, error: &ureq::Error) -> ObjectsError {
        let source = io::Error::other(error_chain(error));
        ObjectsError::Unreachable { target: self.target.clone(), source }
    }

    /// Turns an answer that is an error into the reason for it.
    fn explain(&self, answer: Answer) -> ObjectsError {
        let (status, date, sent) = (answer.status, answer.date, answer.sent);
        let mut text = Vec::new();
        let _ = answer.body.take(MAX_ANSWER).read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text);
        classify_error(&self.target, status, &text, date.map(|date| sent - date))
    }
}

impl Bucket for S3Bucket {
    fn target(&self) -> &str {
        &self.target
    }

    fn download(&self, key: &str, out: &mut dyn Write) -> Result<bool, ObjectsError> {
        let call = Call {
            method: http::Method::GET,
            key: Some(key),
            query: String::new(),
            headers: Vec::new(),
            content: Content::Bytes(b""),
        };
        let answer = self.run(&call)?;
        if answer.status == 200 {
            let mut body = answer.body;
            return match io::copy(&mut body, out) {
                Ok(_) => Ok(true),
                Err(source) => {
                    Err(ObjectsError::Unreachable { target: self.target.clone(), source })
                }
            };
        }
        let status = answer.status;
        match self.explain(answer) {
            // An object is missing, but the bucket exists.
            ObjectsError::Missing { .. } if status == 404 => Ok(false),
            error => Err(error),
        }
    }

    fn create(&self, key: &str, content: &Content<'_>) -> Result<bool, ObjectsError> {
        let content = match content {
            Content::Bytes(bytes) => Content::Bytes(bytes),
            Content::File { path, length, digest } => {
                Content::File { path, length: *length, digest }
            }
        };
        let headers = vec![("if-none-match".to_owned(), "*".to_owned())];
        let (key, query) = (Some(key), String::new());
        let call = Call { method: http::Method::PUT, key, query, headers, content };
        let answer = self.run(&call)?;
        match answer.status {
            200 | 201 => Ok(true),
            412 => Ok(false),
            _ => Err(self.explain(answer)),
        }
    }

    fn remove(&self, key: &str) -> Result<(), ObjectsError> {
        let call = Call {
            method: http::Method::DELETE,
            key: Some(key),
            query: String::new(),
            headers: Vec::new(),
            content: Content::Bytes(b""),
        };
        let answer = self.run(&call)?;
        match answer.status {
            200 | 204 => Ok(()),
            _ => match self.explain(answer) {
                ObjectsError::Missing { .. } => Ok(()),
                error => Err(error),
            },
        }
    }

    fn list(&self, prefix: &str) -> Result<Listing, ObjectsError> {
        let full = format!("{}{prefix}", self.prefix);
        let mut listing = Listing::default();
        let mut token: Option<String> = None;
        loop {
            let mut query = String::new();
            if let Some(token) = &token {
                query = format!("continuation-token={}&", percent_encode(token));
            }
            query.push_str(&format!("list-type=2&prefix={}", percent_encode(&full)));
            let call = Call {
                method: http::Method::GET,
                key: None,
                query,
                headers: Vec::new(),
                content: Content::Bytes(b""),
            };
            let answer = self.run(&call)?;
            if answer.status != 200 {
                return Err(self.explain(answer));
            }
            listing.now = answer.date.unwrap_or(0);
            let mut text = String::new();
            answer.body.take(MAX_ANSWER).read_to_string(&mut text).map_err(|source| {
                ObjectsError::Unreachable { target: self.target.clone(), source }
            })?;
            let page = parse_listing(&text, &self.prefix)
                .ok_or_else(|| ObjectsError::NotS3 { target: self.target.clone() })?;
            listing.objects.extend(page.objects);
            token = page.next;
            if token.is_none() {
                listing.objects.sort_by(|a, b| a.key.cmp(&b.key));
                return Ok(listing);
            }
        }
    }
}

fn bad_endpoint(endpoint: &str) -> ObjectsError {
    ObjectsError::BadAddress(format!(
        "{endpoint:?} is not the address of a server: expected https://host or http://host:port"
    ))
}

fn make_agent(is_secure: bool) -> Agent {
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        // A redirect would need another signature.
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
