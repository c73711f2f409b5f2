//! The tool `fetch_url`: the text of a page or a file on the web. It is off by default.

mod addresses;
mod html;

use std::io::Read;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use takeback_base::errors::error_chain;
use takeback_base::text::disarm;
use takeback_undo::ToolWork;
use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, ResponseExt};

use self::addresses::PublicResolver;
use super::text::{cut_text, find_binary_kind};
use super::{Tool, ToolContext, ToolOutput, ToolSpec, input};

/// The maximum number of bytes that are read from a response.
const MAX_BODY: u64 = 4 << 20;

/// The maximum number of bytes of text that the model reads.
const MAX_TEXT: usize = 64 * 1024;

const MAX_REDIRECTS: u32 = 5;
const MAX_TIME: Duration = Duration::from_secs(30);

/// The settings of `fetch_url`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchSettings {
    /// True if addresses of this machine and of private networks are allowed.
    pub allow_private: bool,
}

/// The tool that fetches a page.
pub(super) struct FetchUrl {
    pub(super) settings: FetchSettings,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    url: String,
}

impl Tool for FetchUrl {
    fn spec(&self) -> ToolSpec {
        let properties = json!({ "url": { "type": "string" } });
        input::describe_tool("fetch_url", "Fetches the text of a web page.", &properties, &["url"])
    }

    fn work(&self, _: &Value, _: &ToolContext<'_>) -> ToolWork {
        ToolWork::Reads
    }

    fn run(&self, input: &Value, context: &ToolContext<'_>) -> ToolOutput {
        self.fetch(input, context).into()
    }
}

impl FetchUrl {
    fn fetch(&self, input: &Value, context: &ToolContext<'_>) -> Result<ToolOutput, String> {
        let Input { url } = input::parse_input(input)?;
        let uri = parse_url(&url)?;
        let agent = build_agent(&self.settings);
        let (send, receive) = mpsc::channel();
        let stop = (agent.clone(), send.clone());
        // Looking up a name cannot be interrupted, so it happens in a thread that is left behind if
        // the call is cancelled. The thread ends at its time limit.
        thread::Builder::new()
            .spawn(move || send.send(Some(request(&agent, &uri))).ok())
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        let _guard = context.cancel.on_cancel(move || {
            // The cancellation is sent first, because the thread will report the interrupted
            // request as an error.
            stop.1.send(None).ok();
            stop.0.clone().shutdown();
        });
        match receive.recv() {
            Ok(Some(result)) => result.map_err(|error| format!("cannot fetch {url}: {error}")),
            Ok(None) | Err(_) => Err("cancelled".to_owned()),
        }
    }
}

/// Parses a URL, and checks that it can be fetched.
fn parse_url(url: &str) -> Result<Uri, String> {
    let refuse = |why: &str| Err(format!("not a valid URL: {why}"));
    let uri: Uri = match url.trim().parse() {
        Ok(uri) => uri,
        Err(error) => return refuse(&format!("{error}")),
    };
    match (uri.scheme_str(), uri.authority()) {
        (Some("http" | "https"), Some(authority)) if authority.as_str().contains('@') => {
            refuse("it contains a user name")
        }
        (Some("http" | "https"), Some(authority)) if !authority.host().is_empty() => Ok(uri),
        _ => refuse("it must begin with http:// or https://"),
    }
}

/// Returns the host of a URL, if the URL can be fetched.
pub(crate) fn find_host(url: &str) -> Option<String> {
    parse_url(url).ok()?.host().map(str::to_ascii_lowercase)
}

fn build_agent(settings: &FetchSettings) -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(MAX_REDIRECTS)
        // A proxy would connect to addresses that are not checked.
        .proxy(None)
        .timeout_global(Some(MAX_TIME))
        .user_agent(concat!("takeback/", env!("CARGO_PKG_VERSION")))
        .tls_config(tls_config())
        .build();
    let resolver = PublicResolver::new(settings.allow_private);
    Agent::with_parts(config, DefaultConnector::default(), resolver)
}

/// Returns the TLS settings, with the certificates of the system, which are loaded only once.
fn tls_config() -> TlsConfig {
    static CONFIG: OnceLock<TlsConfig> = OnceLock::new();
    let load = || {
        let native = rustls_native_certs::load_native_certs().certs;
        let certificates: Vec<Certificate<'static>> =
            native.iter().map(|found| Certificate::from_der(found).to_owned()).collect();
        TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&certificates))
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .build()
    };
    CONFIG.get_or_init(load).clone()
}

/// Makes the request, and turns the response into text.
fn request(agent: &Agent, uri: &Uri) -> Result<ToolOutput, String> {
    let response = agent.get(uri).call().map_err(|error| error_chain(&error))?;
    let status = response.status();
    let target = response.get_uri().clone();
    let kind = response.body().mime_type().unwrap_or_default().to_ascii_lowercase();
    if !is_text(&kind) {
        return Err(format!("the response is not text, but {}", disarm(&kind)));
    }
    let mut bytes = Vec::new();
    let reader = response.into_body().into_with_config().lossy_utf8(true).limit(u64::MAX).reader();
    reader.take(MAX_BODY).read_to_end(&mut bytes).map_err(|error| error_chain(&error))?;
    if let Some(kind) = find_binary_kind(&bytes) {
        return Err(format!("the response is not text: {kind}"));
    }
    let body = String::from_utf8_lossy(&bytes);
    let text = match kind.contains("html") {
        true => html::to_text(&body),
        false => body.into_owned(),
    };
    let mut shown = String::new();
    if target != *uri {
        shown.push_str(&format!("[redirected to {target}]\n"));
    }
    if !status.is_success() {
        shown.push_str(&format!("[HTTP status {status}]\n"));
    }
    shown.push_str(cut_text(&text, MAX_TEXT));
    if text.len() > MAX_TEXT || bytes.len() as u64 == MAX_BODY {
        shown.push_str("\n[the rest is left out]");
    }
    Ok(ToolOutput { is_error: !status.is_success(), ..ToolOutput::success(shown) })
}

/// Returns true if a media type is text. A response without a type is judged by its content.
fn is_text(kind: &str) -> bool {
    let is_known = ["json", "xml", "javascript", "ecmascript", "yaml", "toml", "x-sh"];
    kind.is_empty()
        || kind.starts_with("text/")
        || is_known.iter().any(|known| kind.contains(known))
}
