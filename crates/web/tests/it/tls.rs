//! Encrypted connections, with a certificate that the test trusts.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use takeback_web::{Certificate, CertificateError};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::scratch::{Scratch, TOKEN};

const CHAIN: &[u8] = include_bytes!("../fixtures/test.pem");
const KEY: &[u8] = include_bytes!("../fixtures/test.key");

fn connect(port: u16) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(CHAIN).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "127.0.0.1".try_into().unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    StreamOwned::new(client, socket)
}

fn ask(port: u16, path: &str, header: &str) -> String {
    let mut stream = connect(port);
    let head = format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n");
    stream.write_all(format!("{head}{header}\r\n").as_bytes()).unwrap();
    let mut answer = Vec::new();
    // After the whole answer, the server may close the connection without announcing it.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

#[test]
fn connections_are_encrypted_with_the_certificate() {
    let certificate = Certificate::from_pem(CHAIN, KEY).unwrap();
    let scratch = Scratch::with_certificate(Some(certificate));
    let (port, link) = (scratch.port(), scratch.link().to_owned());
    assert!(link.starts_with("https://127.0.0.1:"), "{link}");
    // A client that sends nothing does not keep the others waiting.
    let _silent = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let let_in = ask(port, &format!("/?token={TOKEN}"), "");
    assert!(let_in.starts_with("HTTP/1.1 303"), "{let_in}");
    assert!(let_in.contains("; SameSite=Strict; Secure"), "{let_in}");
    let bearer = format!("authorization: Bearer {TOKEN}\r\n");
    assert!(ask(port, "/api/v1/workspaces", &bearer).starts_with("HTTP/1.1 200"));
    let own = format!("{bearer}origin: https://127.0.0.1:{port}\r\n");
    assert!(ask(port, "/", &own).starts_with("HTTP/1.1 200"));
    let plain = format!("{bearer}origin: http://127.0.0.1:{port}\r\n");
    assert!(ask(port, "/", &plain).starts_with("HTTP/1.1 403"));
    // Nothing is served over an unencrypted connection.
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let head = format!("GET / HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n{bearer}\r\n");
    socket.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{:?}", String::from_utf8_lossy(&answer));
}

#[test]
fn files_without_a_certificate_are_refused() {
    let refusal = |chain: &[u8], key: &[u8]| Certificate::from_pem(chain, key).map(drop).err();
    assert!(matches!(refusal(b"", KEY), Some(CertificateError::NoCertificate)));
    assert!(matches!(refusal(CHAIN, b"no key"), Some(CertificateError::Key(_))));
    assert!(matches!(refusal(KEY, KEY), Some(CertificateError::NoCertificate)));
}
