//! HTTP agents, which hold connections. Each running request has an HTTP agent of its own.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Proxy, http};

use super::{AttemptFailure, ClientOptions};

/// The maximum number of idle HTTP agents that are kept, with their connections, for later
/// requests.
const MAX_IDLE: usize = 8;

/// The time for which an idle connection is kept.
const IDLE_TIME: Duration = Duration::from_secs(60);

/// A source of HTTP agents. Each request has an HTTP agent of its own and can therefore be
/// cancelled without affecting the others.
pub(super) struct AgentPool {
    options: ClientOptions,
    certificates: OnceLock<Result<RootCerts, String>>,
    /// Idle HTTP agents, by the origin that they are connected to.
    idle: Mutex<Vec<(String, Agent)>>,
}

impl AgentPool {
    /// Creates a pool without agents.
    pub(super) fn new(options: ClientOptions) -> AgentPool {
        AgentPool { options, certificates: OnceLock::new(), idle: Mutex::default() }
    }

    /// Returns the options of the client.
    pub(super) fn options(&self) -> &ClientOptions {
        &self.options
    }

    /// Returns the cell that holds the certificates. They are loaded when they are first needed.
    #[cfg(test)]
    pub(super) fn certificates(&self) -> &OnceLock<Result<RootCerts, String>> {
        &self.certificates
    }

    /// Takes an agent for a request to an address, preferably one that is already connected.
    pub(super) fn take_agent(&self, uri: &http::Uri) -> Result<Agent, AttemptFailure> {
        let origin = find_origin(uri);
        let mut idle = self.lock_idle();
        if let Some(place) = idle.iter().rposition(|(known, _)| *known == origin) {
            return Ok(idle.remove(place).1);
        }
        drop(idle);
        self.make_agent(uri)
    }

    /// Keeps an agent for later requests.
    pub(super) fn keep_agent(&self, uri: &http::Uri, agent: Agent) {
        let mut idle = self.lock_idle();
        if idle.len() == MAX_IDLE {
            idle.remove(0);
        }
        idle.push((find_origin(uri), agent));
    }

    fn lock_idle(&self) -> MutexGuard<'_, Vec<(String, Agent)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make_agent(&self, uri: &http::Uri) -> Result<Agent, AttemptFailure> {
        let proxy = self.find_proxy(uri)?;
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            // Following a redirect could drop the body, or send the key to another server.
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
        let invalid =
            |_| AttemptFailure::rejected("the address of the proxy is invalid".to_owned());
        Proxy::new(address).map(Some).map_err(invalid)
    }

    /// Returns the settings for TLS, with the system's certificates.
    fn tls_config(&self) -> Result<TlsConfig, AttemptFailure> {
        let certificates = self.certificates.get_or_init(load_certificates).clone();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        Ok(TlsConfig::builder()
            .root_certs(certificates.map_err(AttemptFailure::rejected)?)
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
pub(super) fn is_direct(host: &str, exceptions: &str) -> bool {
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

fn find_origin(uri: &http::Uri) -> String {
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    format!("{}://{authority}", uri.scheme_str().unwrap_or_default())
}
