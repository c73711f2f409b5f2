//! `takeback serve`, as a process: its link, its token, and how it ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::session::Session;

/// A running server, which ends with the test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the server and returns its link.
fn start(session: &Session, arguments: &[&str]) -> (Served, String) {
    let words: Vec<&str> = ["serve"].iter().chain(arguments).copied().collect();
    let mut child = session.command(&words).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (Served(child), line.trim_end().to_owned())
}

fn get(port: u16, path: &str, header: &str) -> String {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n");
    socket.write_all(format!("{head}{header}\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_first_line_is_the_link_and_ctrl_c_ends_the_server() {
    let session = Session::new();
    session.write("a.txt", "one\n");
    session.output(&["checkpoint", "--reason", "by hand"]);
    let (mut served, link) = start(&session, &[]);
    let rest = link.strip_prefix("http://127.0.0.1:").unwrap();
    let (port, token) = rest.split_once("/?token=").unwrap();
    let port: u16 = port.parse().unwrap();
    assert_eq!(token.len(), 64, "{link}");

    assert!(get(port, "/", "").starts_with("HTTP/1.1 401"));
    let let_in = get(port, &format!("/?token={token}"), "");
    assert!(let_in.starts_with("HTTP/1.1 303"), "{let_in}");
    assert!(let_in.contains("HttpOnly") && !let_in.contains(&format!("={token};")), "{let_in}");
    let bearer = format!("authorization: Bearer {token}\r\n");
    let page = get(port, "/", &bearer);
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("by hand"), "{page}");
    // An error has the same hint as on the command line.
    let workspace = page.split("/w/").nth(1).unwrap().split(['"', '/']).next().unwrap();
    let missing = get(port, &format!("/api/v1/checkpoints/{workspace}/abcdef0"), &bearer);
    assert!(missing.starts_with("HTTP/1.1 404"), "{missing}");
    assert!(missing.contains("`takeback list` lists the checkpoints"), "{missing}");

    let id = Pid::from_raw(i32::try_from(served.0.id()).unwrap()).unwrap();
    kill_process(id, Signal::INT).unwrap();
    assert!(served.0.wait().unwrap().success());
}

#[test]
fn two_servers_have_different_secrets() {
    let session = Session::new();
    let (_first, one) = start(&session, &["--port", "0"]);
    let (_second, two) = start(&session, &["--json"]);
    assert!(two.starts_with("{\"url\":\"http://127.0.0.1:"), "{two}");
    let token =
        |link: &str| link.split("token=").nth(1).unwrap().trim_end_matches("\"}").to_owned();
    assert_ne!(token(&one), token(&two));
}
