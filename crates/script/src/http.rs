//! The part of HTTP/1.1 that model clients use.

use std::io::{self, Read, Write};

/// The maximum size of a request body.
const MAX_BODY: usize = 256 << 20;

/// A complete HTTP request.
#[derive(Debug)]
pub(crate) struct HttpRequest {
    pub(crate) method: String,
    /// The path with its query.
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl HttpRequest {
    fn header(&self, name: &str) -> Option<&str> {
        find_header(&self.headers, name)
    }

    /// Returns the path without its query.
    pub(crate) fn path_only(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }
}

/// Finds the value of a header.
pub(crate) fn find_header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let mut headers = headers.iter();
    headers.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// Reads one request. Returns `None` if the client closed the connection before it sent a complete
/// head.
pub(crate) fn read_request(stream: &mut (impl Read + Write)) -> io::Result<Option<HttpRequest>> {
    let mut bytes = Vec::new();
    let (mut request, end) = loop {
        if !read_more(stream, &mut bytes)? {
            return Ok(None);
        }
        if let Some(head) = parse_head(&bytes)? {
            break head;
        }
    };
    let mut rest = bytes.split_off(end);
    if request.header("expect").is_some() {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let is_chunked = request.header("transfer-encoding").is_some();
    let length = request.header("content-length").and_then(|length| length.parse().ok());
    request.body = loop {
        if let Some(body) = parse_body(&rest, is_chunked, length.unwrap_or(0))? {
            break body;
        }
        if rest.len() > MAX_BODY || !read_more(stream, &mut rest)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    };
    Ok(Some(request))
}

fn read_more(stream: &mut impl Read, bytes: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = [0; 16384];
    let count = stream.read(&mut buffer)?;
    bytes.extend_from_slice(&buffer[..count]);
    Ok(count > 0)
}

/// Parses the head of a request. Also returns the offset of its end. Returns `None` if the head is
/// incomplete.
fn parse_head(bytes: &[u8]) -> io::Result<Option<(HttpRequest, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; 100];
    let mut parsed = httparse::Request::new(&mut headers);
    let end = match parsed.parse(bytes).map_err(invalid_data)? {
        httparse::Status::Complete(end) => end,
        httparse::Status::Partial => return Ok(None),
    };
    let headers = parsed
        .headers
        .iter()
        .map(|header| (header.name.to_owned(), String::from_utf8_lossy(header.value).into_owned()));
    let request = HttpRequest {
        headers: headers.collect(),
        method: parsed.method.unwrap_or_default().to_owned(),
        path: parsed.path.unwrap_or_default().to_owned(),
        body: Vec::new(),
    };
    Ok(Some((request, end)))
}

/// Parses the body of a request. Returns `None` if the body is incomplete.
fn parse_body(bytes: &[u8], is_chunked: bool, length: usize) -> io::Result<Option<Vec<u8>>> {
    if !is_chunked {
        return Ok(bytes.get(..length).map(<[u8]>::to_vec));
    }
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let (skip, size) = match httparse::parse_chunk_size(&bytes[at..]) {
            Ok(httparse::Status::Complete(size)) => size,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(invalid_data("missing chunk size")),
        };
        let start = at + skip;
        let end = start + usize::try_from(size).map_err(invalid_data)?;
        if bytes.len() < end + 2 {
            return Ok(None);
        }
        if size == 0 {
            return Ok(Some(body));
        }
        body.extend_from_slice(&bytes[start..end]);
        at = end + 2;
    }
}

fn invalid_data(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Sends a response in one piece.
pub(crate) fn send_response(stream: &mut impl Write, status: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    )
}

/// Sends a response with custom headers.
pub(crate) fn send_with_headers(
    stream: &mut impl Write,
    status: u16,
    headers: &[(String, String)],
    body: &str,
) -> io::Result<()> {
    write!(stream, "HTTP/1.1 {status} Scripted\r\n")?;
    let has_type = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if !has_type {
        stream.write_all(b"content-type: application/json\r\n")?;
    }
    headers.iter().try_for_each(|(name, value)| write!(stream, "{name}: {value}\r\n"))?;
    write!(stream, "content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

/// Begins a chunked response.
pub(crate) fn begin_stream(stream: &mut impl Write) -> io::Result<()> {
    stream.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n\
          transfer-encoding: chunked\r\nconnection: close\r\n\r\n",
    )
}

/// Sends one chunk. An empty chunk ends the response; without it, the client sees that the stream
/// was cut off.
pub(crate) fn send_chunk(stream: &mut impl Write, chunk: &str) -> io::Result<()> {
    write!(stream, "{:x}\r\n{chunk}\r\n", chunk.len())?;
    stream.flush()
}
