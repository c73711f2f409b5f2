//! Fetching pages from a server on the loopback interface.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;

use serde_json::json;
use takeback_runtime::tools::{FetchSettings, ToolSettings};

use crate::tools_support::Workbench;

/// Starts a server that answers every request with `answer(path)`. Returns its address.
fn serve(answer: impl Fn(&str, &mut TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let Some(Ok(first)) = lines.next() else { continue };
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            answer(first.split(' ').nth(1).unwrap(), &mut stream);
        }
    });
    format!("http://{address}")
}

fn respond(stream: &mut TcpStream, status: &str, headers: &str, body: &[u8]) {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    // The client may stop reading early.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
}

fn bench(allow_private: bool) -> Workbench {
    let fetch = Some(FetchSettings { allow_private });
    Workbench::with(&ToolSettings { fetch, ..ToolSettings::default() })
}

#[test]
fn fetching_web_pages_is_off_by_default() {
    assert!(Workbench::new().tools.get("fetch_url").is_none());
    assert!(bench(false).tools.get("fetch_url").is_some());
}

#[test]
fn a_page_is_fetched_as_text() {
    let url = serve(|path, stream| match path {
        "/page" => {
            respond(
                stream,
                "200 OK",
                "Content-Type: text/html\r\n",
                b"<h1>Hi</h1><p>a &amp; b</p>",
            );
        }
        "/latin" => {
            let kind = "Content-Type: text/plain; charset=iso-8859-1\r\n";
            respond(stream, "200 OK", kind, b"caf\xe9");
        }
        "/json" => respond(stream, "200 OK", "Content-Type: application/json\r\n", b"{\"a\": 1}"),
        "/plain" => respond(stream, "200 OK", "", b"just text"),
        "/bytes" => respond(stream, "200 OK", "", b"a\0b"),
        "/image" => respond(stream, "200 OK", "Content-Type: image/png\r\n", b"x"),
        "/large" => respond(stream, "200 OK", "Content-Type: text/plain\r\n", &[b'x'; 9_000_000]),
        "/moved" => respond(stream, "302 Found", "Location: /plain\r\n", b""),
        "/loop" => respond(stream, "302 Found", "Location: /loop\r\n", b""),
        "/file" => respond(stream, "302 Found", "Location: file:///etc/passwd\r\n", b""),
        _ => respond(stream, "404 Not Found", "Content-Type: text/plain\r\n", b"nothing here"),
    });
    let mut bench = bench(true);
    let mut fetch = |path: &str| bench.call("fetch_url", &json!({ "url": format!("{url}{path}") }));
    assert_eq!(fetch("/page").text, "# Hi\na & b");
    assert_eq!(fetch("/latin").text, "café");
    assert_eq!(fetch("/json").text, "{\"a\": 1}");
    assert_eq!(fetch("/plain").text, "just text");
    assert!(fetch("/bytes").text.contains("not text"));
    assert!(fetch("/image").text.contains("not text, but image/png"));
    let large = fetch("/large").text;
    assert!(large.len() < 70_000 && large.ends_with("x\n[the rest is left out]"));
    assert_eq!(fetch("/moved").text, format!("[redirected to {url}/plain]\njust text"));
    assert!(fetch("/loop").is_error && fetch("/file").is_error);
    let missing = fetch("/missing");
    assert!(missing.is_error);
    assert_eq!(missing.text, "[HTTP status 404 Not Found]\nnothing here");
}

#[test]
fn private_addresses_are_refused_unless_they_are_allowed() {
    let url = serve(|_, stream| respond(stream, "200 OK", "", b"secret"));
    let port = url.rsplit(':').next().unwrap();
    let mut bench = bench(false);
    for host in ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433"] {
        let url = format!("http://{host}:{port}/");
        let said = bench.fail("fetch_url", &json!({ "url": url }));
        assert!(!said.contains("secret"), "{host}: {said}");
        if matches!(host, "127.0.0.1" | "localhost") {
            assert!(said.contains("only private addresses"), "{host}: {said}");
        }
    }
}

#[test]
fn an_address_that_is_not_on_the_web_is_refused() {
    let mut bench = bench(true);
    for url in [
        "",
        "example.com",
        "file:///etc/passwd",
        "ftp://example.com/",
        "http://",
        "http://user:secret@example.com/",
        "http://a b/",
        "javascript:alert(1)",
    ] {
        let said = bench.fail("fetch_url", &json!({ "url": url }));
        assert!(said.starts_with("not a valid URL"), "{url}: {said}");
    }
}

#[test]
fn a_request_that_gets_no_answer_can_be_cancelled() {
    let (send, receive) = mpsc::channel();
    let url = serve(move |_, stream| send.send(stream.try_clone().unwrap()).unwrap());
    let mut bench = bench(true);
    let cancel = bench.cancel.clone();
    let waiting = thread::spawn(move || {
        let stream = receive.recv().unwrap();
        cancel.cancel();
        stream
    });
    assert_eq!(bench.fail("fetch_url", &json!({ "url": url })), "cancelled");
    drop(waiting.join().unwrap());
}
