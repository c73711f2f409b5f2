//! The server: binds a port, serves requests, and stops without cutting off a restore.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use jiff::tz::TimeZone;
use tokio::runtime;
use tokio::sync::watch;

use crate::app::{App, Home};
use crate::chat::{ChatHost, take_up_interrupted};
use crate::guard::{Guard, Reach, check_request};
use crate::tls::{Certificate, TlsListener};
use crate::{api, assets, pages};

/// The maximum size of a request's body, in bytes.
const MAX_BODY: usize = 1 << 20;

/// The maximum number of requests that work on the store or the ledger at the same time.
const MAX_WORKERS: usize = 16;

/// The time that a stopping server waits for the steps of running turns: once before it interrupts
/// the turns, and once afterwards.
const PATIENCE: Duration = Duration::from_secs(3);

/// The values that the caller provides to start a server.
pub struct ServerOptions {
    /// The address to listen on. Port 0 means any free port.
    pub address: SocketAddr,
    /// The hosts that requests may name.
    pub reach: Reach,
    /// The certificate, if connections are encrypted.
    pub certificate: Option<Certificate>,
    /// The secret in the link that opens the pages. A new one is generated at each start.
    pub token: String,
    /// The secret in the cookie that a browser gets in exchange for the token.
    pub cookie: String,
    /// Takeback's home, which holds the ledger and the checkpoints.
    pub home: Arc<dyn Home>,
    /// Takeback's own agent, for conversations in the browser.
    pub chat: Arc<dyn ChatHost>,
    /// The time zone in which times are shown.
    pub zone: TimeZone,
    /// The user's home directory, which is shown as `~`.
    pub user_home: Option<PathBuf>,
}

/// A server whose port is open.
pub struct Server {
    listener: TcpListener,
    app: Arc<App>,
    guard: Arc<Guard>,
    certificate: Option<Certificate>,
    stopping: watch::Receiver<bool>,
    stopper: Stopper,
}

/// A handle that stops the server from another thread.
#[derive(Clone)]
pub struct Stopper(Arc<watch::Sender<bool>>);

impl Stopper {
    /// Stops the server. Requests that are being answered, and their restores, are finished first.
    /// Running turns stay open, and the next server continues them.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Server {
    /// Opens the port. Requests wait until [`Server::run`] answers them.
    pub fn bind(options: ServerOptions) -> io::Result<Server> {
        let ServerOptions { address, reach, certificate, token, cookie, .. } = options;
        let ServerOptions { home, chat, zone, user_home, .. } = options;
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stop, stopping) = watch::channel(false);
        let guard = Arc::new(Guard::new(address, reach, certificate.is_some(), token, cookie));
        let app = Arc::new(App::new(home, chat, zone, user_home, stopping.clone()));
        let stopper = Stopper(Arc::new(stop));
        Ok(Server { listener, app, guard, certificate, stopping, stopper })
    }

    /// Returns the link that opens the pages. The link contains the token.
    pub fn link(&self) -> String {
        self.guard.link()
    }

    /// Returns a handle that stops the server.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Answers requests until the server is stopped.
    pub fn run(self) -> io::Result<()> {
        let Server { listener, app, guard, certificate, mut stopping, stopper: _stopper } = self;
        let runtime = runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(MAX_WORKERS)
            .build()?;
        let router = make_router(app.clone(), guard);
        let finished = app.clone();
        let result = runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            tokio::spawn(app.clone().warm_up());
            let stopping_app = app.clone();
            let stopped = async move {
                // An error means that no stopper is left, so nothing can stop the server.
                let _ = stopping.wait_for(|is_stopping| *is_stopping).await;
                // A connection ends only once its stream has ended.
                stopping_app.rooms.begin_stop();
            };
            tokio::spawn(async move { app.work(take_up_interrupted).await });
            match certificate {
                None => axum::serve(listener, router).with_graceful_shutdown(stopped).await,
                Some(certificate) => {
                    let listener = TlsListener::start(listener, certificate)?;
                    axum::serve(listener, router).with_graceful_shutdown(stopped).await
                }
            }
        });
        finished.rooms.finish_stop(PATIENCE);
        // Dropping the runtime waits for work whose client has disconnected, such as a restore.
        drop(runtime);
        result
    }
}

fn make_router(app: Arc<App>, guard: Arc<Guard>) -> Router {
    Router::new()
        .merge(pages::routes())
        .merge(api::routes())
        .merge(assets::routes())
        .fallback(pages::not_found)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn_with_state(guard, check_request))
        .with_state(app)
}
