//! The event stream, and stopping the server.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;

use serde_json::json;

use crate::scratch::Scratch;

/// The number of signs of life after which a test stops waiting for an event. The server sends one
/// every 20 seconds.
const MAX_SIGNS_OF_LIFE: usize = 9;

/// Reads the next event: its name, id and data.
pub(crate) fn next_event(stream: &mut BufReader<TcpStream>) -> (String, u64, String) {
    let (mut name, mut id, mut data) = Default::default();
    let mut signs_of_life = 0;
    loop {
        let mut line = String::new();
        assert_ne!(stream.read_line(&mut line).unwrap(), 0, "the stream ended");
        // A comment.
        signs_of_life += usize::from(line.starts_with(':'));
        assert!(signs_of_life < MAX_SIGNS_OF_LIFE, "no event for three minutes");
        match line.trim_end().split_once(": ") {
            Some(("event", value)) => name = value.to_owned(),
            Some(("id", value)) => id = value.parse().unwrap(),
            Some(("data", value)) => data = value.to_owned(),
            // The end of an event. Before the first event, and between chunks, there are lines
            // without a field.
            None if line.trim_end().is_empty() && !String::is_empty(&name) => {
                return (name, id, data);
            }
            _ => {}
        }
    }
}

/// Reads events until one has this name.
pub(crate) fn wait_for(stream: &mut BufReader<TcpStream>, name: &str) -> (u64, String) {
    loop {
        let (found, id, data) = next_event(stream);
        if found == name {
            return (id, data);
        }
    }
}

#[test]
fn a_new_turn_is_announced_to_every_page() {
    let scratch = Scratch::new();
    scratch.play_turn("one", "make", || scratch.write("a", "1"));
    let browser = scratch.browser();
    let (status, mut first) = browser.stream("/api/v1/events");
    assert_eq!(status, 200);
    let (_, mut second) = browser.stream("/api/v1/events");
    let (greeting, _) = wait_for(&mut first, "ready");
    wait_for(&mut second, "ready");
    // The server checks the home for the first time only after it has sent `ready`.
    let plan = json!({ "workspace": scratch.workspace(), "checkpoint": newest(&scratch) });
    let digest = browser.post("/api/v1/plan", plan).json()["digest"].clone();
    assert_eq!(browser.post("/api/v1/apply", json!({ "digest": digest })).status, 200);
    for stream in [&mut first, &mut second] {
        let (id, data) = wait_for(stream, "workspace");
        assert!(id > greeting);
        assert!(data.contains(&scratch.workspace()), "{data}");
    }
}

fn newest(scratch: &Scratch) -> String {
    let list = scratch.browser().json("/api/v1/checkpoints");
    list["entries"][0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn changes_by_other_programs_are_noticed() {
    let scratch = Scratch::new();
    scratch.play_turn("one", "make", || scratch.write("a", "1"));
    let (_, mut stream) = scratch.browser().stream("/api/v1/events");
    wait_for(&mut stream, "ready");
    // The server is not told about these turns. The first turns may be over before the server
    // checks the home for the first time.
    let (sender, done) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let scratch = &scratch;
        scope.spawn(move || {
            for number in 0..200 {
                if done.recv_timeout(std::time::Duration::from_millis(100)).is_ok() {
                    return;
                }
                scratch.play_turn(&format!("turn {number}"), "make", || {
                    scratch.write("a", number.to_string());
                });
            }
        });
        let (_, data) = wait_for(&mut stream, "workspace");
        sender.send(()).unwrap();
        assert!(data.contains(&scratch.workspace()), "{data}");
    });
}

#[test]
fn a_client_that_reconnects_catches_up_or_learns_of_the_gap() {
    let scratch = Scratch::new();
    scratch.play_turn("one", "make", || scratch.write("a", "1"));
    let browser = scratch.browser();
    let (_, mut stream) = browser.stream("/api/v1/events");
    let (last, _) = wait_for(&mut stream, "ready");
    let plan = json!({ "workspace": scratch.workspace(), "checkpoint": newest(&scratch) });
    let digest = browser.post("/api/v1/plan", plan).json()["digest"].clone();
    assert_eq!(browser.post("/api/v1/apply", json!({ "digest": digest })).status, 200);

    let returned = browser.header("last-event-id", &last.to_string());
    let (_, mut stream) = returned.stream("/api/v1/events");
    let (name, id, data) = next_event(&mut stream);
    assert_eq!((name.as_str(), id), ("workspace", last + 1));
    assert!(data.contains(&scratch.workspace()), "{data}");

    let from_an_earlier_server = browser.header("last-event-id", "17");
    let (_, mut stream) = from_an_earlier_server.stream("/api/v1/events");
    assert_eq!(next_event(&mut stream).0, "gap");
    assert_eq!(browser.header("last-event-id", "x").get("/api/v1/events").status, 400);
}

#[test]
fn the_server_stops_even_if_streams_are_open() {
    let mut scratch = Scratch::new();
    scratch.play_turn("one", "make", || scratch.write("a", "1"));
    let (_, mut stream) = scratch.browser().stream("/api/v1/events");
    wait_for(&mut stream, "ready");
    scratch.stop();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
}
