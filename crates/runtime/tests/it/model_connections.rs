//! Connections: kept for later requests, and closed when the server does not end a response.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use takeback_runtime::Cancel;
use takeback_runtime::model::{ApiKind, AttemptEnd, Finish, Provider};
use takeback_script::{Reply, Server};

use crate::model_support::{
    APIS, Conversation, ask, ask_with, client, provider, response_bytes, text_and_call,
};

/// Reads a request, and returns false if the client has closed the connection instead.
fn read_request(reader: &mut BufReader<TcpStream>) -> bool {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or_default() == 0 {
            return false;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length: ") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            let mut body = vec![0; length];
            return reader.read_exact(&mut body).is_ok();
        }
    }
}

/// Returns a provider whose address is that of the listener.
fn provider_at(kind: ApiKind, listener: &TcpListener) -> Provider {
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    Provider { base_url, ..provider(kind, &Server::start(|_| Reply::default()).unwrap()) }
}

/// Returns the response to the usual request, from a server that keeps the connection open.
fn kept_response(kind: ApiKind) -> String {
    let response = String::from_utf8(response_bytes(kind, text_and_call())).unwrap();
    response.replacen("connection: close\r\n", "", 1)
}

#[test]
fn a_connection_is_reused() {
    for kind in APIS {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let provider = provider_at(kind, &listener);
        let response = kept_response(kind);
        let server = thread::spawn(move || {
            // All requests use the same connection.
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut count = 0;
            while count < 3 && read_request(&mut reader) {
                stream.write_all(response.as_bytes()).unwrap();
                count += 1;
            }
            count
        });
        let client = client();
        for _ in 0..3 {
            assert_eq!(ask(&client, &provider).attempt.end, AttemptEnd::Finished(Finish::Stop));
        }
        assert_eq!(server.join().unwrap(), 3);
    }
}

#[test]
fn a_reply_is_complete_even_if_the_server_does_not_end_the_response() {
    for kind in APIS {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let provider = provider_at(kind, &listener);
        let response = kept_response(kind);
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            assert!(read_request(&mut reader));
            let open = response.strip_suffix("0\r\n\r\n").unwrap();
            stream.write_all(open.as_bytes()).unwrap();
            // The client closes the connection, because it cannot be reused.
            !read_request(&mut reader)
        });
        let outcome = ask(&client(), &provider);
        assert_eq!(outcome.attempt.end, AttemptEnd::Finished(Finish::Stop));
        assert!(server.join().unwrap());
    }
}

#[test]
fn the_client_reconnects_to_a_server_that_has_closed_its_connections() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let provider = provider_at(ApiKind::Anthropic, &listener);
    let response = kept_response(ApiKind::Anthropic);
    let (close, closes) = std::sync::mpsc::channel::<()>();
    let (tell, told) = std::sync::mpsc::channel();
    let server = thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            assert!(read_request(&mut reader));
            stream.write_all(response.as_bytes()).unwrap();
            let _ = closes.recv();
            drop((stream, reader));
            tell.send(()).unwrap();
        }
    });
    let client = client();
    for _ in 0..2 {
        assert_eq!(ask(&client, &provider).attempt.end, AttemptEnd::Finished(Finish::Stop));
        close.send(()).unwrap();
        told.recv().unwrap();
    }
    server.join().unwrap();
}

#[test]
fn a_cancelled_request_closes_its_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let provider = provider_at(ApiKind::Responses, &listener);
    let cancel = Cancel::default();
    let server = thread::spawn({
        let cancel = cancel.clone();
        move || {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream);
            assert!(read_request(&mut reader));
            cancel.cancel();
            !read_request(&mut reader)
        }
    });
    let outcome = ask_with(&client(), &provider, &Conversation::new(), &cancel);
    assert_eq!(outcome.attempt.end, AttemptEnd::Cancelled);
    assert!(server.join().unwrap());
}
