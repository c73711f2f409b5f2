//! A small HTTP client, which sends exactly the headers that a test sets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

#[derive(Clone)]
pub(crate) struct Client {
    port: u16,
    headers: Vec<(String, String)>,
}

/// An answer from the server.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Client {
    pub(crate) fn new(port: u16) -> Client {
        let host = format!("127.0.0.1:{port}");
        Client { port, headers: vec![("host".into(), host)] }
    }

    /// Sets a header. Replaces an earlier header with the same name.
    pub(crate) fn header(&self, name: &str, value: &str) -> Client {
        let mut client = self.without(name);
        client.headers.push((name.into(), value.into()));
        client
    }

    pub(crate) fn without(&self, name: &str) -> Client {
        let mut client = self.clone();
        client.headers.retain(|(known, _)| known != name);
        client
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "")
    }

    /// Fetches a resource, and returns the status, the type and the content.
    pub(crate) fn get_bytes(&self, path: &str) -> (u16, String, Vec<u8>) {
        let mut reader = self.open("GET", path, "", "close");
        let (status, headers) = read_head(&mut reader);
        let mut body = Vec::new();
        reader.read_to_end(&mut body).unwrap();
        let kind = headers.into_iter().find(|(name, _)| name == "content-type");
        (status, kind.map(|(_, kind)| kind).unwrap_or_default(), body)
    }

    /// Fetches a page, which must exist.
    pub(crate) fn page(&self, path: &str) -> String {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.body
    }

    /// Fetches a JSON document, which must exist.
    pub(crate) fn json(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.json()
    }

    #[allow(clippy::needless_pass_by_value, reason = "callers write it in place")]
    pub(crate) fn post(&self, path: &str, body: Value) -> Answer {
        self.header("content-type", "application/json").send("POST", path, &body.to_string())
    }

    pub(crate) fn send(&self, method: &str, path: &str, body: &str) -> Answer {
        let mut reader = self.open(method, path, body, "close");
        let (status, headers) = read_head(&mut reader);
        let mut raw = Vec::new();
        reader.read_to_end(&mut raw).unwrap();
        let is_chunked = headers.iter().any(|(name, _)| name == "transfer-encoding");
        assert!(!is_chunked, "answers have a length");
        Answer { status, headers, body: String::from_utf8(raw).unwrap() }
    }

    /// Opens an event stream, reads the head of the response, and returns the status and the
    /// reader.
    pub(crate) fn stream(&self, path: &str) -> (u16, BufReader<TcpStream>) {
        let mut reader = self.open("GET", path, "", "keep-alive");
        let (status, _) = read_head(&mut reader);
        (status, reader)
    }

    fn open(&self, method: &str, path: &str, body: &str, connection: &str) -> BufReader<TcpStream> {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut request = format!("{method} {path} HTTP/1.1\r\nconnection: {connection}\r\n");
        for (name, value) in &self.headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        if method != "GET" {
            request.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        request.push_str("\r\n");
        request.push_str(body);
        socket.write_all(request.as_bytes()).unwrap();
        BufReader::new(socket)
    }
}

fn read_head(reader: &mut impl BufRead) -> (u16, Vec<(String, String)>) {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.unwrap_or_else(|| panic!("not an answer: {line:?}"));
    let mut headers = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line).unwrap();
        match line.trim_end().split_once(':') {
            Some((name, value)) => headers.push((name.to_lowercase(), value.trim().to_owned())),
            None => return (status, headers),
        }
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}
