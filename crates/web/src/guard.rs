//! Decides which requests are served, and adds the headers that limit what a browser does with the
//! pages.
//!
//! - The host must be one of the server's own. A foreign name that resolves to this address (DNS
//!   rebinding) is refused.
//! - A request from a page of another origin is refused, regardless of its method.
//! - Without the token or the cookie, nothing is served.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, LOCATION,
    ORIGIN, REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::pages;
use crate::problem::Problem;

/// The policy for pages: scripts and styles come only from this server's files, nothing is loaded
/// from elsewhere, and no other page can embed these pages.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; \
     frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types takeback";

/// The longest address that is accepted, in bytes.
const MAX_ADDRESS: usize = 16 << 10;

/// The hosts that a request may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Only this machine: `127.0.0.1`, `[::1]` and `localhost`.
    Loopback,
    /// Every numeric address, because the server listens on the network. A name is trusted only
    /// if connections are encrypted: the browser then compares it with the certificate.
    Network,
}

/// The server's secrets, and the hosts that requests may name.
pub(crate) struct Guard {
    address: SocketAddr,
    reach: Reach,
    is_encrypted: bool,
    token: String,
    cookie: String,
    cookie_name: String,
}

/// A reason to refuse a request.
enum Refusal {
    Host,
    Origin,
    Kind,
    Address,
    Token,
}

impl Guard {
    pub(crate) fn new(
        address: SocketAddr,
        reach: Reach,
        is_encrypted: bool,
        token: String,
        cookie: String,
    ) -> Guard {
        // Browsers send cookies to all ports of a host, so the cookies of two servers need
        // different names.
        let cookie_name = format!("takeback_{}", address.port());
        Guard { address, reach, is_encrypted, token, cookie, cookie_name }
    }

    pub(crate) fn link(&self) -> String {
        let Guard { address, token, .. } = self;
        let host = match address.ip() {
            ip if ip.is_unspecified() => SocketAddr::from(([127, 0, 0, 1], address.port())),
            _ => *address,
        };
        format!("{}://{host}/?token={token}", self.scheme())
    }

    fn scheme(&self) -> &'static str {
        if self.is_encrypted { "https" } else { "http" }
    }

    /// Returns true if the host is the server's own.
    fn knows_host(&self, host: &str) -> bool {
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()),
            _ => (host, Some(if self.is_encrypted { 443 } else { 80 })),
        };
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let is_known = match address {
            Ok(address) => address.is_loopback() || self.reach == Reach::Network,
            Err(_) if self.is_encrypted && self.reach == Reach::Network => true,
            Err(_) => name.eq_ignore_ascii_case("localhost"),
        };
        is_known && port == Some(self.address.port())
    }

    /// Checks everything except the token.
    fn check_sender(&self, request: &Request) -> Result<(), Refusal> {
        let headers = request.headers();
        let host = single_header(headers, HOST).filter(|host| self.knows_host(host));
        let host = host.ok_or(Refusal::Host)?;
        if request.uri().to_string().len() > MAX_ADDRESS {
            return Err(Refusal::Address);
        }
        let is_own = |origin: &str| origin.split_once("://") == Some((self.scheme(), host));
        if headers.contains_key(ORIGIN) && !single_header(headers, ORIGIN).is_some_and(is_own) {
            return Err(Refusal::Origin);
        }
        // Browsers report which site a request comes from. `none` means that the user typed the
        // address.
        let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
        let is_read = request.method() == Method::GET || request.method() == Method::HEAD;
        let is_fine = match site {
            None | Some(b"same-origin") => true,
            Some(b"none") => is_read,
            Some(_) => false,
        };
        if !is_fine {
            return Err(Refusal::Origin);
        }
        let kind = single_header(headers, CONTENT_TYPE).unwrap_or_default();
        let is_json = kind.split(';').next() == Some("application/json");
        // A browser lets a page on another site send JSON or use DELETE only if the server allows
        // it first.
        let is_asked = is_json || request.method() == Method::DELETE;
        if is_read || is_asked { Ok(()) } else { Err(Refusal::Kind) }
    }

    /// Returns true if the request has the cookie, or the token in its header.
    fn is_allowed(&self, headers: &HeaderMap) -> bool {
        let bearer = single_header(headers, AUTHORIZATION)
            .and_then(|value| value.strip_prefix("Bearer "))
            .is_some_and(|token| is_equal(token, &self.token));
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut cookies = cookies.flat_map(|value| value.split(';'));
        let is_cookie = |pair: &str| {
            let pair = pair.trim().split_once('=');
            pair.is_some_and(|(name, value)| {
                name == self.cookie_name && is_equal(value, &self.cookie)
            })
        };
        bearer || cookies.any(is_cookie)
    }

    /// Answers a request for the printed link: gives the browser a cookie, and removes the token
    /// from the address.
    fn let_in(&self, uri: &Uri) -> Option<Response> {
        let token = uri.query()?.split('&').find_map(|pair| pair.strip_prefix("token="))?;
        if uri.path() != "/" || !is_equal(token, &self.token) {
            return None;
        }
        let Guard { cookie_name, cookie, .. } = self;
        let secure = if self.is_encrypted { "; Secure" } else { "" };
        let cookie = format!("{cookie_name}={cookie}; Path=/; HttpOnly; SameSite=Strict{secure}");
        Some(
            (StatusCode::SEE_OTHER, [(LOCATION, "/".to_owned()), (SET_COOKIE, cookie)])
                .into_response(),
        )
    }
}

/// Returns the value of a header that occurs exactly once.
fn single_header(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    if values.next().is_none() { Some(value) } else { None }
}

/// Compares two secrets. The time that this takes does not depend on where they differ.
fn is_equal(given: &str, secret: &str) -> bool {
    let differences = given.bytes().zip(secret.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    given.len() == secret.len() && differences == 0
}

/// Serves a request if the guard allows it.
pub(crate) async fn check_request(
    State(guard): State<Arc<Guard>>,
    request: Request,
    next: Next,
) -> Response {
    let is_api = request.uri().path().starts_with("/api/");
    let mut response = match guard.check_sender(&request) {
        Err(refusal) => refusal.answer(is_api),
        Ok(()) if guard.is_allowed(request.headers()) => match guard.let_in(request.uri()) {
            Some(response) => response,
            None => next.run(request).await,
        },
        Ok(()) => guard.let_in(request.uri()).unwrap_or_else(|| Refusal::Token.answer(is_api)),
    };
    add_headers(response.headers_mut());
    response
}

fn add_headers(headers: &mut HeaderMap) {
    let fixed = [
        (CONTENT_SECURITY_POLICY, CONTENT_POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

impl Refusal {
    fn answer(self, is_api: bool) -> Response {
        let problem = match self {
            Refusal::Host => Problem::new(421, "this server does not answer to that host")
                .hint("open the link that `takeback serve` printed"),
            Refusal::Origin => Problem::new(403, "the request comes from another site")
                .hint("type or paste the link that `takeback serve` printed into the address bar"),
            Refusal::Kind => Problem::new(415, "the body must be application/json"),
            Refusal::Address => Problem::new(414, "the address is too long"),
            Refusal::Token => Problem::new(401, "this browser has no access")
                .hint("open the link that `takeback serve` printed; each start prints a new one"),
        };
        if is_api { problem.into_response() } else { pages::error_page(&problem).into_response() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(reach: Reach) -> Guard {
        Guard::new(([127, 0, 0, 1], 4000).into(), reach, false, "t".into(), "c".into())
    }

    #[test]
    fn only_the_names_and_addresses_of_this_machine_are_accepted_as_hosts() {
        let guard = guard(Reach::Loopback);
        for host in ["127.0.0.1:4000", "localhost:4000", "LOCALHOST:4000", "[::1]:4000"] {
            assert!(guard.knows_host(host), "{host}");
        }
        for host in [
            "",
            "localhost",
            "localhost:4001",
            "evil.example:4000",
            "localhost.evil.example:4000",
            "192.168.0.7:4000",
            "127.0.0.1",
            "127.0.0.1:",
            "127.0.0.1:4000:4000",
            "[::1]",
        ] {
            assert!(!guard.knows_host(host), "{host}");
        }
    }

    #[test]
    fn host_names_are_trusted_on_the_network_only_if_connections_are_encrypted() {
        let guard = guard(Reach::Network);
        assert!(guard.knows_host("192.168.0.7:4000"));
        assert!(!guard.knows_host("evil.example:4000"));
        // The browser compares the name with the certificate.
        let guard = Guard { is_encrypted: true, ..guard };
        assert!(guard.knows_host("desk.example:4000"));
        assert!(!guard.knows_host("desk.example:4001"));
    }

    #[test]
    fn a_part_of_the_secret_is_not_accepted_as_the_secret() {
        assert!(is_equal("abc", "abc"));
        assert!(!is_equal("ab", "abc"));
        assert!(!is_equal("", "abc"));
        assert!(!is_equal("abd", "abc"));
    }
}
