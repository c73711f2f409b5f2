//! As much of HTTP/1.1 as clients of models speak.

use std::io::{self, Read, Write};

/// More than this is no request to a model.
const MAX_BODY: usize = 256 << 20;

/// A request, read to its end.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) method: String,
    /// With its query.
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Incoming {
    fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The path without its query.
    pub(crate) fn place(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }
}

/// Reads one request; `None` if the client has none.
pub(crate) fn read(stream: &mut (impl Read + Write)) -> io::Result<Option<Incoming>> {
    let mut bytes = Vec::new();
    let (mut incoming, end) = loop {
        if !read_more(stream, &mut bytes)? {
            return Ok(None);
        }
        if let Some(head) = head(&bytes)? {
            break head;
        }
    };
    let mut rest = bytes.split_off(end);
    if incoming.header("expect").is_some() {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let is_chunked = incoming.header("transfer-encoding").is_some();
    let length = incoming.header("content-length").and_then(|length| length.parse().ok());
    incoming.body = loop {
        if let Some(body) = body(&rest, is_chunked, length.unwrap_or(0))? {
            break body;
        }
        if rest.len() > MAX_BODY || !read_more(stream, &mut rest)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    };
    Ok(Some(incoming))
}

fn read_more(stream: &mut impl Read, bytes: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = [0; 16384];
    let count = stream.read(&mut buffer)?;
    bytes.extend_from_slice(&buffer[..count]);
    Ok(count > 0)
}

/// The head of a request and where it ends, if all of it is there.
fn head(bytes: &[u8]) -> io::Result<Option<(Incoming, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; 100];
    let mut parsed = httparse::Request::new(&mut headers);
    let end = match parsed.parse(bytes).map_err(invalid)? {
        httparse::Status::Complete(end) => end,
        httparse::Status::Partial => return Ok(None),
    };
    let headers = parsed
        .headers
        .iter()
        .map(|header| (header.name.to_owned(), String::from_utf8_lossy(header.value).into_owned()));
    let incoming = Incoming {
        headers: headers.collect(),
        method: parsed.method.unwrap_or_default().to_owned(),
        path: parsed.path.unwrap_or_default().to_owned(),
        body: Vec::new(),
    };
    Ok(Some((incoming, end)))
}

/// The body, if all of it is there.
fn body(bytes: &[u8], is_chunked: bool, length: usize) -> io::Result<Option<Vec<u8>>> {
    if !is_chunked {
        return Ok(bytes.get(..length).map(<[u8]>::to_vec));
    }
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let (skip, size) = match httparse::parse_chunk_size(&bytes[at..]) {
            Ok(httparse::Status::Complete(size)) => size,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(invalid("no size of a chunk")),
        };
        let start = at + skip;
        let end = start + usize::try_from(size).map_err(invalid)?;
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

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Answers in one piece.
pub(crate) fn answer(stream: &mut impl Write, status: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    )
}

/// Begins an answer in pieces.
pub(crate) fn begin_stream(stream: &mut impl Write) -> io::Result<()> {
    stream.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n\
          transfer-encoding: chunked\r\nconnection: close\r\n\r\n",
    )
}

/// One piece. An empty one is the end: without it, the client sees that it was cut off.
pub(crate) fn piece(stream: &mut impl Write, piece: &str) -> io::Result<()> {
    write!(stream, "{:x}\r\n{piece}\r\n", piece.len())?;
    stream.flush()
}
