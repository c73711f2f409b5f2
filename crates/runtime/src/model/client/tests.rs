//! Connections over TLS and through a proxy.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use takeback_ledger::{MessageRecord, SessionRecord};
use ureq::tls::{Certificate, RootCerts};

use super::super::{FailureKind, Finish};
use super::agents::is_direct;
use super::*;

/// A certificate for 127.0.0.1 that no authority has signed.
const CERTIFICATE: &[u8] = include_bytes!("../../../tests/fixtures/tls/certificate.pem");
const KEY: &[u8] = include_bytes!("../../../tests/fixtures/tls/key.pem");

const REPLY: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 69\r\n\r\n\
    {\"choices\":[{\"message\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}    ]}";

fn provider(base_url: String) -> Provider {
    Provider {
        name: "p".to_owned(),
        kind: ApiKind::Openai,
        base_url,
        key: None,
        model: "m".to_owned(),
        context_window: 1_000,
        max_output: 100,
        prices: None,
    }
}

fn ask(client: &Client, provider: &Provider) -> Attempt {
    let message = MessageRecord {
        role: "user".to_owned(),
        content: Some("hi".into()),
        ..MessageRecord::default()
    };
    let request = ModelRequest {
        session: &SessionRecord::default(),
        messages: &[message],
        tools: &[],
        max_output: 10,
    };
    client.request(provider, &request, &Cancel::default(), &mut |_| {})
}

/// Reads a request and answers it. Returns the request.
fn answer(stream: &mut (impl Read + Write)) -> String {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !request.ends_with(b"}") {
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0);
        request.extend_from_slice(&buffer[..count]);
    }
    stream.write_all(REPLY.as_bytes()).unwrap();
    String::from_utf8(request).unwrap()
}

/// Starts a server with the certificate. It serves one connection.
fn start_tls_server() -> String {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(CERTIFICATE).unwrap()],
            PrivateKeyDer::from_pem_slice(KEY).unwrap(),
        )
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/v1", listener.local_addr().unwrap());
    thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut stream = StreamOwned::new(ServerConnection::new(Arc::new(config)).unwrap(), stream);
        // The client may reject the certificate.
        if stream.conn.complete_io(&mut stream.sock).is_ok() {
            answer(&mut stream);
        }
    });
    url
}

fn client_that_trusts(certificate: &[u8]) -> Client {
    let client = Client::new(ClientOptions::default());
    let certificate = Certificate::from_pem(certificate).unwrap();
    let roots = RootCerts::Specific(Arc::new(vec![certificate]));
    client.0.certificates().set(Ok(roots)).unwrap();
    client
}

#[test]
fn a_server_with_a_trusted_certificate_gets_the_request() {
    let attempt = ask(&client_that_trusts(CERTIFICATE), &provider(start_tls_server()));
    assert_eq!(attempt.end, AttemptEnd::Finished(Finish::Stop));
    assert_eq!(attempt.reply.text, "hi");
}

#[test]
fn a_server_with_an_untrusted_certificate_is_refused() {
    // This uses the system's certificates, if there are any.
    let attempt = ask(&Client::new(ClientOptions::default()), &provider(start_tls_server()));
    let AttemptEnd::Failed(failure) = attempt.end else { panic!("{:?}", attempt.end) };
    assert_eq!(failure.kind, FailureKind::Rejected);
    assert!(failure.message.contains("certificate"), "{}", failure.message);
}

#[test]
fn a_connection_to_a_server_without_tls_fails() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/v1", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let attempt = ask(&client_that_trusts(CERTIFICATE), &provider(url));
    let AttemptEnd::Failed(failure) = attempt.end else { panic!("{:?}", attempt.end) };
    assert_eq!(failure.kind, FailureKind::Connection);
    server.join().unwrap();
}

/// Reads the request for a tunnel up to its blank line.
fn read_tunnel_request(stream: &mut TcpStream) -> String {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        request.push(byte[0]);
    }
    String::from_utf8(request).unwrap()
}

#[test]
fn requests_to_a_remote_server_go_through_the_proxy() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let options = ClientOptions {
        proxy: Some(format!("http://me:secret@{}", listener.local_addr().unwrap())),
        ..ClientOptions::default()
    };
    let proxy = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let tunnel = read_tunnel_request(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        (tunnel, answer(&mut stream))
    });
    let attempt = ask(&Client::new(options), &provider("http://model.test/v1".to_owned()));
    assert_eq!(attempt.end, AttemptEnd::Finished(Finish::Stop));
    let (tunnel, request) = proxy.join().unwrap();
    assert!(tunnel.starts_with("CONNECT model.test:80 "), "{tunnel}");
    assert!(tunnel.to_lowercase().contains("proxy-authorization: basic "), "{tunnel}");
    assert!(request.starts_with("POST /v1/chat/completions "), "{request}");
}

#[test]
fn a_refusal_by_a_proxy_is_reported_without_the_password() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let options = ClientOptions {
        proxy: Some(format!("http://me:secret@{}", listener.local_addr().unwrap())),
        ..ClientOptions::default()
    };
    let proxy = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        read_tunnel_request(&mut stream);
        stream.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").unwrap();
    });
    let attempt = ask(&Client::new(options), &provider("http://model.test/v1".to_owned()));
    let AttemptEnd::Failed(failure) = attempt.end else { panic!("{:?}", attempt.end) };
    assert_eq!(failure.kind, FailureKind::Connection);
    assert!(!failure.message.contains("secret"), "{}", failure.message);
    proxy.join().unwrap();
}

#[test]
fn some_hosts_are_reached_without_the_proxy() {
    let cases = [
        ("localhost", "", true),
        ("127.0.0.1", "", true),
        ("[::1]", "", true),
        ("example.org", "", false),
        ("example.org", "a.com, example.org", true),
        ("api.example.org", "example.org", true),
        ("api.example.org", ".example.org", true),
        ("api.EXAMPLE.org", "*.example.ORG", true),
        ("badexample.org", "example.org", false),
        ("example.org", "*", true),
        ("example.org", ",", false),
    ];
    for (host, exceptions, expected) in cases {
        assert_eq!(is_direct(host, exceptions), expected, "{host} {exceptions}");
    }
}
