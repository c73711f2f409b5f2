//! A TCP proxy on the loopback interface whose connections can be cut at any moment.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A running proxy.
pub(crate) struct Proxy {
    port: u16,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    /// Starts a proxy to a port of this machine.
    pub(crate) fn start(to: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let open: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let kept = open.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else { continue };
                let (Ok(back), Ok(forth)) = (client.try_clone(), server.try_clone()) else {
                    continue;
                };
                let pair = [client.try_clone(), server.try_clone()];
                kept.lock().unwrap().extend(pair.into_iter().flatten());
                thread::spawn(move || pass_on(client, forth));
                thread::spawn(move || pass_on(server, back));
            }
        });
        Proxy { port, open }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Cuts all connections.
    pub(crate) fn cut(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
