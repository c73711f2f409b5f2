//! A proxy in front of the server. The checks cut its connections to simulate a network failure.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::Failure;

/// Another loopback address, so that the proxy can use the same port as the server. The server
/// accepts this address in the `Host` header.
const HOST: [u8; 4] = [127, 0, 0, 2];

/// A proxy in front of the server.
pub(crate) struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
}

#[derive(Default)]
struct Shared {
    is_cut: AtomicBool,
    sockets: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// Starts a proxy for the server at this origin.
    pub(crate) fn start(origin: &str) -> Result<Proxy, Failure> {
        let port = origin.rsplit(':').next().and_then(|port| port.parse().ok());
        let port: u16 = port.ok_or("the server has no port")?;
        let failed = |error: io::Error| format!("cannot start a proxy: {error}");
        let listener = TcpListener::bind(SocketAddr::from((HOST, port))).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(Shared::default());
        let own = shared.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // A browser whose connection fails tries again.
                let _ = own.connect(client, port);
            }
        });
        Ok(Proxy { shared, address })
    }

    /// Returns the address without a path.
    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Cuts all connections and refuses new ones, or allows connections again.
    pub(crate) fn set_cut(&self, is_cut: bool) {
        let mut sockets = self.shared.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.is_cut.store(is_cut, Ordering::SeqCst);
        for socket in sockets.drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    fn connect(&self, client: TcpStream, port: u16) -> io::Result<()> {
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_cut.load(Ordering::SeqCst) {
            return Ok(());
        }
        let server = TcpStream::connect(("127.0.0.1", port))?;
        for (from, to) in [(&client, &server), (&server, &client)] {
            let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
            thread::spawn(move || {
                let _ = io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Write);
            });
        }
        sockets.extend([client, server]);
        Ok(())
    }
}
