//! A bare axum server, for comparison.

use std::net::TcpListener;
use std::thread;

use axum::Router;
use axum::routing::get;
use tokio::runtime;

use crate::Failure;

/// Starts the server in a thread of its own, and returns the server's port. The server runs until
/// the process ends.
pub(super) fn start() -> Result<u16, Failure> {
    let failed = |error: std::io::Error| format!("cannot start the bare server: {error}");
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    let serve = move || {
        let built = runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let Ok(runtime) = built else { return };
        let router = Router::new().route("/", get(async || "hello"));
        let served = async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            axum::serve(listener, router).await
        };
        if let Err(error) = runtime.block_on(served) {
            eprintln!("the bare server ended: {error}");
        }
    };
    thread::Builder::new().name("hello".into()).spawn(serve).map_err(failed)?;
    Ok(port)
}
