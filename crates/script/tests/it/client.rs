//! A client that sends one request and reads the whole response.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;
use takeback_script::Server;

/// A response from the server.
pub(crate) struct Response {
    pub(crate) head: String,
    pub(crate) body: String,
    /// False if the stream was cut off.
    pub(crate) is_whole: bool,
}

fn exchange_bytes(server: &Server, raw: &str) -> Vec<u8> {
    let address = server.url().replace("http://", "");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(raw.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

pub(crate) fn send_raw(server: &Server, raw: &str) -> Response {
    let text = String::from_utf8(exchange_bytes(server, raw)).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let is_chunked = head.contains("transfer-encoding: chunked");
    let (body, is_whole) = if is_chunked { join_chunks(body) } else { (body.to_owned(), true) };
    Response { head: head.to_owned(), body, is_whole }
}

pub(crate) fn post_json(server: &Server, path: &str, body: &Value) -> Response {
    send_raw(server, &format_post(path, body))
}

/// Returns all bytes of the response to a request.
pub(crate) fn send_bytes(server: &Server, path: &str, body: &Value) -> Vec<u8> {
    exchange_bytes(server, &format_post(path, body))
}

fn format_post(path: &str, body: &Value) -> String {
    let body = body.to_string();
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}")
}

fn join_chunks(mut rest: &str) -> (String, bool) {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return (body, true);
        }
        body.push_str(&after[..size]);
        rest = &after[size + 2..];
    }
    (body, false)
}

impl Response {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Parses the data of every event in a stream.
    pub(crate) fn events(&self) -> Vec<Value> {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]")
            .map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }
}
