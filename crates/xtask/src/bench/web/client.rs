//! A small HTTP client that keeps its connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use crate::Failure;

/// The number of connections that send requests at the same time.
const CONNECTIONS: usize = 4;

pub(super) struct Client {
    port: u16,
    header: String,
    reader: BufReader<TcpStream>,
    body: Vec<u8>,
}

impl Client {
    pub(super) fn connect(port: u16, header: &str) -> Result<Client, Failure> {
        let failed = |error: std::io::Error| format!("cannot connect: {error}");
        let socket = TcpStream::connect(("127.0.0.1", port)).map_err(failed)?;
        socket.set_nodelay(true).map_err(failed)?;
        socket.set_read_timeout(Some(Duration::from_secs(60))).map_err(failed)?;
        let reader = BufReader::with_capacity(1 << 16, socket);
        Ok(Client { port, header: header.to_owned(), reader, body: Vec::new() })
    }

    /// Fetches a page, which must exist.
    pub(super) fn get(&mut self, path: &str) -> Result<String, Failure> {
        self.ask(path).map_err(|error| format!("{path}: {error}"))?;
        String::from_utf8(self.body.clone()).map_err(|error| error.to_string())
    }

    fn ask(&mut self, path: &str) -> Result<(), Failure> {
        let (port, header) = (self.port, &self.header);
        let request = format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n{header}\r\n");
        let failed = |error: std::io::Error| error.to_string();
        self.reader.get_mut().write_all(request.as_bytes()).map_err(failed)?;
        let mut length = 0;
        let mut line = String::new();
        self.reader.read_line(&mut line).map_err(failed)?;
        if !line.starts_with("HTTP/1.1 200") {
            return Err(line);
        }
        loop {
            line.clear();
            self.reader.read_line(&mut line).map_err(failed)?;
            match line.trim_end().split_once(':') {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.trim().parse().unwrap_or(0);
                }
                Some(_) => {}
                None => break,
            }
        }
        self.body.resize(length, 0);
        self.reader.read_exact(&mut self.body).map_err(failed)
    }
}

/// Requests a page over several connections for some time. Returns the number of answers per
/// second.
pub(super) fn measure_rate(
    port: u16,
    path: &str,
    header: &str,
    time: Duration,
) -> Result<f64, Failure> {
    // The first answers are not measured, because they fill caches.
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut client = Client::connect(port, header)?;
        client.get(path)?;
        clients.push(client);
    }
    let start = Instant::now();
    let counts: Vec<Result<usize, Failure>> = thread::scope(|scope| {
        let ask = |mut client: Client| {
            let mut count = 0;
            while start.elapsed() < time {
                client.ask(path)?;
                count += 1;
            }
            Ok(count)
        };
        let threads: Vec<_> =
            clients.into_iter().map(|client| scope.spawn(move || ask(client))).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err("a client crashed".into()))
        };
        threads.into_iter().map(join).collect()
    });
    let mut total = 0;
    for count in counts {
        total += count?;
    }
    Ok(total as f64 / start.elapsed().as_secs_f64())
}
