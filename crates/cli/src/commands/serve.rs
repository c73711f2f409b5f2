//! `takeback serve`: serves the history as web pages.

mod agent;

use std::fs;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use clap::{ArgGroup, Args};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use takeback_ledger::Tokens;
use takeback_undo::Opened;
use takeback_web::{
    Certificate, Checkup, Error, Home, Problem, Reach, Server, ServerOptions, Stopper,
};

use self::agent::ServedAgent;
use super::doctor;
use super::fleet::ResidentShipper;
use super::rpc::{Stamp, read_stamp};
use crate::context::Context;
use crate::failure::Failure;
use crate::logs;
use crate::output;

/// Show the history in a browser
///
/// Serves pages, only on this machine by default: the timeline of all workspaces, every turn with
/// its files, diff, conversation and effects, rollback and undo with a preview, sessions and
/// search, and a chat with takeback's own agent. Interrupted turns of that agent continue
/// immediately. The first line of the output is the link; it works until the server ends. There is
/// an HTTP API at the same address; docs/serve.md describes it.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback serve --open            open the pages in the browser
  takeback serve --port 4567
  takeback serve --listen 192.168.0.7 --tls-cert desk.pem --tls-key desk.key
                                   for other machines, encrypted
  takeback serve --listen 192.168.0.7 --insecure
                                   for other machines, without encryption")]
#[command(group(ArgGroup::new("way").args(["tls_cert", "insecure"])))]
pub(crate) struct Arguments {
    /// The port; 0 for any free one
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u16,
    /// Open the pages in the browser
    #[arg(long)]
    open: bool,
    /// Listen on this address instead of 127.0.0.1; needs --tls-cert, or --insecure
    #[arg(long, value_name = "ADDRESS", requires = "way")]
    listen: Option<IpAddr>,
    /// Encrypt connections with this certificate; the file may also contain its chain (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Serve other machines without encryption; anyone who can read the traffic gets in
    #[arg(long, requires = "listen")]
    insecure: bool,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let ip = arguments.listen.unwrap_or(Ipv4Addr::LOCALHOST.into());
    let address = SocketAddr::from((ip, arguments.port));
    // An invalid configuration is reported immediately, and the pages use the valid part of it.
    context.opened_anyway()?;
    let home = Arc::new(ServedHome::new(context));
    let server = Server::bind(ServerOptions {
        address,
        certificate: read_certificate(arguments, context)?,
        reach: if ip.is_loopback() { Reach::Loopback } else { Reach::Network },
        token: make_secret()?,
        cookie: make_secret()?,
        chat: Arc::new(ServedAgent::new(home.clone(), context)),
        home,
        zone: jiff::tz::TimeZone::system(),
        user_home: context.user_home().and_then(|home| home.canonicalize().ok()),
    });
    let server = server.map_err(|error| {
        Failure::new(format!("cannot listen on {address}"))
            .because(&error)
            .hint("choose another port with --port, or omit the option to get a free one")
    })?;
    let link = server.link();
    let _shipper = ResidentShipper::start(context);
    stop_on_signals(server.stopper())?;
    if context.globals.json {
        // Print the JSON on one line, so that a program can read it while the server keeps running.
        println!("{}", serde_json::json!({ "url": link }));
    } else {
        println!("{link}");
        println!(
            "The link opens your history until you stop the server with Ctrl-C. Do not share it."
        );
    }
    // A program that has started the server may be waiting for the link.
    let _ = std::io::stdout().flush();
    if arguments.open {
        open_browser(&link);
    }
    server.run().map_err(|error| Failure::new("cannot serve").because(&error))?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the certificate and its key, if the user names them.
fn read_certificate(
    arguments: &Arguments,
    context: &Context,
) -> Result<Option<Certificate>, Failure> {
    let (Some(chain), Some(key)) = (&arguments.tls_cert, &arguments.tls_key) else {
        return Ok(None);
    };
    let read = |path: &PathBuf| {
        let path = context.directory.join(path);
        fs::read(&path).map_err(|error| {
            Failure::new(format!("cannot read {}", path.display())).because(&error)
        })
    };
    Ok(Some(Certificate::from_pem(&read(chain)?, &read(key)?)?))
}

/// Generates a secret of 256 random bits.
fn make_secret() -> Result<String, Failure> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        Failure::new("cannot get random numbers from the system").because(&error)
    })?;
    Ok(takeback_base::hex::encode(&bytes))
}

/// Stops the server at the first signal: a running turn stays open, and the next server continues
/// it. A second signal ends the process immediately; the next command finishes or reverts a restore
/// that was cut off.
fn stop_on_signals(stopper: Stopper) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::new("cannot listen for signals").because(&error);
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
    let wait = move || {
        for (number, signal) in signals.forever().enumerate() {
            match number {
                0 => stopper.stop(),
                // The default action of these signals is to end the process.
                _ => drop(signal_hook::low_level::emulate_default_handler(signal)),
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(wait).map_err(failed)?;
    Ok(())
}

/// Opens a link in the user's browser.
fn open_browser(link: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let started = Command::new(program)
        .arg(link)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if started.is_err() {
        output::warn(&format!("cannot run {program}; open the link yourself"));
    }
}

/// Takeback's home, as the server uses it.
pub(super) struct ServedHome(Mutex<(Context, Option<Stamp>)>);

impl ServedHome {
    pub(super) fn new(context: &Context) -> ServedHome {
        ServedHome(Mutex::new((context.in_directory(&context.directory), None)))
    }

    /// Returns a context whose home is open. Opens the home again if another process has replaced
    /// its configuration or its store.
    pub(super) fn context(&self) -> Result<Context, Failure> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (context, stamp) = &mut *state;
        let now = read_stamp(&context.home);
        if *stamp != Some(now) {
            context.reopen();
            *stamp = Some(now);
        }
        context.opened_anyway()?;
        context.prices();
        Ok(context.in_directory(&context.directory))
    }
}

impl Home for ServedHome {
    fn open(&self) -> Result<Arc<Opened>, Problem> {
        let context = self.context().map_err(describe)?;
        context.opened_arc().cloned().map_err(describe)
    }

    fn catch_up(&self) {
        if let Ok(context) = self.context() {
            logs::catch_up_ledger(&context);
        }
    }

    fn check_up(&self, is_thorough: bool) -> Result<Checkup, Problem> {
        let context = self.context().map_err(describe)?;
        doctor::check_up(&context, is_thorough).map_err(describe)
    }

    fn price(&self, model: &str, tokens: Tokens) -> Option<f64> {
        self.context().ok()?.prices().cost(model, tokens)
    }

    fn explain(&self, error: Error) -> Problem {
        describe(match error {
            Error::Compare(error) => error.into(),
            Error::Delete(error) => error.into(),
            Error::Find(error) => error.into(),
            Error::Label(error) => error.into(),
            Error::Ledger(error) => error.into(),
            Error::Open(error) => error.into(),
            Error::Prune(error) => error.into(),
            Error::Rollback(error) => error.into(),
            Error::Show(error) => error.into(),
            Error::Status(error) => error.into(),
            Error::Store(error) => error.into(),
            Error::Take(error) => error.into(),
            Error::Task(error) => error.into(),
        })
    }
}

fn describe(failure: Failure) -> Problem {
    let Failure { message, causes, hint, .. } = failure;
    Problem { causes, hint, ..Problem::new(500, message) }
}
