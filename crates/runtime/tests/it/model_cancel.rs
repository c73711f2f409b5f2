//! Cancelling a request at each of its stages.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use takeback_runtime::Cancel;
use takeback_runtime::model::{ApiKind, AttemptEnd, Finish, Provider, Reply as ModelReply};
use takeback_script::{Reply, Server, StreamGate, StreamStep};

use crate::model_support::{
    APIS, Conversation, ask, ask_with, client, expected_reply, provider, text_and_call,
};

#[test]
fn a_request_can_be_cancelled_before_the_response_begins() {
    for kind in APIS {
        let (reach, reached) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let released = Mutex::new(released);
        let server = Server::start(move |_| {
            reach.send(()).unwrap();
            let _ = released.lock().unwrap().recv();
            Reply::text("late")
        })
        .unwrap();
        let cancel = Cancel::default();
        let canceller = thread::spawn({
            let cancel = cancel.clone();
            move || {
                reached.recv().unwrap();
                cancel.cancel();
            }
        });
        let outcome = ask_with(&client(), &provider(kind, &server), &Conversation::new(), &cancel);
        assert_eq!(outcome.attempt.end, AttemptEnd::Cancelled);
        assert_eq!(outcome.attempt.reply, ModelReply::default());
        canceller.join().unwrap();
        drop(release);
    }
}

#[test]
fn a_request_can_be_cancelled_in_the_middle_of_the_reply() {
    for kind in APIS {
        let (release, released) = mpsc::channel::<()>();
        let released = Mutex::new(released);
        let cancel = Cancel::default();
        let (cancel_inside, count) = (cancel.clone(), count_events_with_text(kind));
        let gate = StreamGate::new(move |event| {
            if event == count {
                cancel_inside.cancel();
                let _ = released.lock().unwrap().recv();
            }
            StreamStep::Send
        });
        let reply = Reply { gate: Some(gate), ..text_and_call() };
        let server = Server::start(move |_| reply.clone()).unwrap();
        let outcome = ask_with(&client(), &provider(kind, &server), &Conversation::new(), &cancel);
        assert_eq!(outcome.attempt.end, AttemptEnd::Cancelled);
        // Text that has not arrived yet may be lost, but text that was shown is kept.
        assert!(expected_reply().text.starts_with(&outcome.attempt.reply.text));
        assert_eq!(outcome.shown, outcome.attempt.reply.text);
        assert!(outcome.attempt.reply.calls.is_empty());
        drop(release);
    }
}

/// Returns the number of events after which the text is complete.
fn count_events_with_text(kind: ApiKind) -> usize {
    match kind {
        ApiKind::Openai => 3,
        ApiKind::Responses => 6,
        ApiKind::Anthropic => 4,
    }
}

#[test]
fn text_shown_before_the_cancellation_of_a_request_is_kept() {
    for kind in APIS {
        let (release, released) = mpsc::channel::<()>();
        let released = Mutex::new(released);
        let last = count_events_with_text(kind);
        let gate = StreamGate::new(move |event| {
            if event == last {
                let _ = released.lock().unwrap().recv();
            }
            StreamStep::Send
        });
        let reply = Reply { gate: Some(gate), ..text_and_call() };
        let server = Server::start(move |_| reply.clone()).unwrap();
        let (client, conversation, cancel) = (client(), Conversation::new(), Cancel::default());
        let mut shown = String::new();
        let attempt = client.request(
            &provider(kind, &server),
            &conversation.request(),
            &cancel,
            &mut |delta| {
                if let takeback_runtime::model::Delta::Text(text) = delta {
                    shown.push_str(text);
                }
                if shown == expected_reply().text {
                    cancel.cancel();
                }
            },
        );
        assert_eq!(attempt.end, AttemptEnd::Cancelled);
        assert_eq!(attempt.reply.text, "Häve a look.");
        drop(release);
    }
}

#[test]
fn a_cancelled_request_does_not_affect_the_others() {
    let (reach, reached) = mpsc::channel();
    let gates: Vec<_> = (0..2).map(|_| mpsc::channel::<()>()).collect();
    let (releases, waits): (Vec<_>, Vec<_>) = gates.into_iter().unzip();
    let waits = Mutex::new(waits);
    let server = Server::start(move |_| {
        let wait = waits.lock().unwrap().pop().unwrap();
        reach.send(()).unwrap();
        let _ = wait.recv();
        text_and_call()
    })
    .unwrap();
    let client = Arc::new(client());
    let provider = provider(ApiKind::Anthropic, &server);
    let cancels = [Cancel::default(), Cancel::default()];
    let threads: Vec<_> = cancels
        .iter()
        .map(|cancel| {
            let (client, provider, cancel) = (client.clone(), provider.clone(), cancel.clone());
            thread::spawn(move || {
                ask_with(&client, &provider, &Conversation::new(), &cancel).attempt
            })
        })
        .collect();
    reached.recv().unwrap();
    reached.recv().unwrap();
    cancels[0].cancel();
    let mut threads = threads.into_iter();
    assert_eq!(threads.next().unwrap().join().unwrap().end, AttemptEnd::Cancelled);
    drop(releases);
    let other = threads.next().unwrap().join().unwrap();
    assert_eq!(other.end, AttemptEnd::Finished(Finish::Stop));
    assert_eq!(other.reply.text, expected_reply().text);
}

#[test]
fn a_request_that_is_cancelled_before_it_begins_is_not_sent() {
    let server = Server::start(|_| Reply::text("hi")).unwrap();
    let provider = provider(ApiKind::Openai, &server);
    let cancel = Cancel::default();
    cancel.cancel();
    let outcome = ask_with(&client(), &provider, &Conversation::new(), &cancel);
    assert_eq!(outcome.attempt.end, AttemptEnd::Cancelled);
    assert!(server.requests().is_empty());
    cancel.reset();
    let outcome = ask_with(&client(), &provider, &Conversation::new(), &cancel);
    assert_eq!(outcome.attempt.end, AttemptEnd::Finished(Finish::Stop));
}

#[test]
fn a_cancelled_client_can_be_used_again() {
    let (reach, reached) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let server = Server::start(move |_| {
        reach.send(()).unwrap();
        let _ = released.lock().unwrap().recv();
        Reply::text("hello")
    })
    .unwrap();
    let (client, provider, cancel) = (client(), provider(APIS[0], &server), Cancel::default());
    thread::scope(|scope| {
        let first = scope.spawn(|| ask_with(&client, &provider, &Conversation::new(), &cancel));
        reached.recv().unwrap();
        cancel.cancel();
        assert_eq!(first.join().unwrap().attempt.end, AttemptEnd::Cancelled);
    });
    drop(release);
    assert_eq!(ask(&client, &provider).attempt.reply.text, "hello");
}

/// A server whose queue is full, so the system does not accept any more connections.
struct FullServer {
    address: SocketAddr,
    _listener: std::os::fd::OwnedFd,
    _clients: Vec<std::os::fd::OwnedFd>,
}

impl FullServer {
    fn start() -> FullServer {
        use rustix::net::{
            AddressFamily, SocketFlags, SocketType, bind, connect, getsockname, listen, socket_with,
        };
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let open = || {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap()
        };
        let listener = open();
        bind(&listener, &loopback).unwrap();
        listen(&listener, 0).unwrap();
        let address = SocketAddr::try_from(getsockname(&listener).unwrap()).unwrap();
        let clients = (0..8)
            .map(|_| {
                let client = open();
                let _ = connect(&client, &address);
                client
            })
            .collect();
        FullServer { address, _listener: listener, _clients: clients }
    }

    /// Counts the connections to this server that are still being established.
    fn count_connecting(&self) -> usize {
        let port = format!(":{:04X}", self.address.port());
        let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        let is_connecting = |line: &&str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields[2].ends_with(&port) && fields[3] == "02"
        };
        table.lines().skip(1).filter(is_connecting).count()
    }
}

#[test]
fn a_request_can_be_cancelled_while_it_connects() {
    let server = FullServer::start();
    let others = server.count_connecting();
    assert!(others > 0, "the queue is not full");
    let scripted = Server::start(|_| Reply::text("hi")).unwrap();
    let base_url = format!("http://{}/v1", server.address);
    let provider = Provider { base_url, ..provider(APIS[0], &scripted) };
    let cancel = Cancel::default();
    thread::scope(|scope| {
        let client = client();
        let request = scope.spawn({
            let (provider, cancel) = (&provider, &cancel);
            move || ask_with(&client, provider, &Conversation::new(), cancel)
        });
        while server.count_connecting() == others {
            assert!(!request.is_finished());
            thread::yield_now();
        }
        cancel.cancel();
        assert_eq!(request.join().unwrap().attempt.end, AttemptEnd::Cancelled);
        // The system is still trying to connect, which shows that the request did not wait for the
        // connection.
        assert!(server.count_connecting() > others);
    });
}
