//! Tasks that continue on another machine.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use serde_json::json;
use takeback_fleet::FleetSettings;
use takeback_ledger::LogError;
use takeback_runtime::{NewSession, Pause, Task, TaskError, TurnOutcome};
use takeback_script::{Reply, Request, Server as Model, StreamGate, StreamStep};

use crate::server::Server;
use crate::worker::{Silent, Worker, build_agent};

const COMPLETE: Pause = Pause::TurnEnded(TurnOutcome::Complete);

/// Ends the leases of all tasks, as if their time were up.
fn end_leases(server: &Server) {
    server.query("UPDATE takeback.tasks SET expires_at = clock_timestamp() - interval '1 second'");
}

/// Returns a model that writes a file, runs a long command, and then ends the turn.
fn careful_model(log: &Path) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
    let script = format!("echo run >> {}; sleep 30", log.display());
    move |request| match request.last_result() {
        None => Reply::call("write_file", json!({ "path": "note.txt", "content": "one" })),
        Some(result) if result.text.contains("created note.txt") => {
            Reply::call("terminal", json!({ "command": script }))
        }
        Some(result) => Reply::text(format!("I read: {}", result.text)),
    }
}

/// Works on a task in a process that the test kills.
#[test]
fn a_killed_worker_works() {
    let Ok(home) = std::env::var("WORKER_HOME") else { return };
    let settings = FleetSettings {
        name: Some("a".into()),
        postgres: std::env::var("WORKER_ADDRESS").ok(),
        ..FleetSettings::default()
    };
    let url = std::env::var("WORKER_URL").unwrap();
    let agent = build_agent(Path::new(&home), &settings, &url, |_| {});
    let project = std::env::var("WORKER_PROJECT").unwrap();
    let mut task = Task::begin(agent, Path::new(&project), NewSession::default(), "t1").unwrap();
    let pause = task.prompt("go", &Silent);
    panic!("the test did not kill this process: {pause:?} {:?}", task.last_answer());
}

#[test]
fn the_task_of_a_killed_machine_continues_elsewhere_and_runs_nothing_twice() {
    let Some(server) = Server::start() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let log = scratch.path().join("log");
    let model = Model::start(careful_model(&log)).unwrap();
    let (a, key) = Worker::join("a", &server.address(), &model.url(), None);
    let (b, _) = Worker::join("b", &server.address(), &model.url(), Some(&key));
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "tasks::a_killed_worker_works", "--test-threads=1"]);
    child.env("WORKER_HOME", a.machine.home()).env("WORKER_PROJECT", &a.project);
    child.env("WORKER_ADDRESS", server.address()).env("WORKER_URL", model.url());
    child.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = child.spawn().unwrap();
    while !log.exists() {
        assert!(child.try_wait().unwrap().is_none(), "the worker ended");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();

    let error = b.adopt("t1", false).unwrap_err();
    let TaskError::Log(LogError::Held { machine, seconds }) = error else { panic!("{error:?}") };
    assert!(machine == "a" && (1..=60).contains(&seconds), "{machine} {seconds}");
    end_leases(&server);
    let error = b.adopt("t1", false).unwrap_err();
    assert!(matches!(error, TaskError::OtherFiles { expected: Some(_), .. }), "{error:?}");
    fs::copy(a.project.join("note.txt"), b.project.join("note.txt")).unwrap();
    let adopted = b.adopt("t1", false).unwrap();
    assert_eq!((adopted.from.as_deref(), adopted.kept), (Some("a"), None));
    let mut task = b.resume("t1").unwrap();
    assert!(task.is_interrupted());
    assert_eq!(task.proceed(&Silent).unwrap(), COMPLETE);
    drop(task);
    let conversation = b.conversation("takeback:t1");
    assert_eq!(conversation[..3], ["user: go", "assistant: ", "tool: created note.txt (1 line)"]);
    assert!(conversation.last().unwrap().contains("unknown whether"), "{conversation:?}");
    assert_eq!(fs::read_to_string(&log).unwrap(), "run\n");

    // The first machine comes back. It has made no steps that the other machine lacks, so it only
    // catches up.
    let error = a.resume("t1").map(drop).unwrap_err();
    assert!(matches!(error, TaskError::Elsewhere { .. }), "{error:?}");
    let adopted = a.adopt("t1", true).unwrap();
    assert_eq!((adopted.from.as_deref(), adopted.kept), (Some("b"), None));
    assert_eq!(a.conversation("takeback:t1"), conversation);
    assert!(!a.resume("t1").unwrap().is_interrupted());
}

/// A gate that holds the model's answer back until it is opened.
#[derive(Default)]
struct Gate {
    is_waiting: AtomicBool,
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn reply(self: &Arc<Gate>, text: &str) -> Reply {
        let gate = self.clone();
        let decide = move |_| {
            gate.is_waiting.store(true, Ordering::SeqCst);
            let open = gate.is_open.lock().unwrap();
            drop(gate.opened.wait_while(open, |open| !*open).unwrap());
            StreamStep::Send
        };
        Reply { gate: Some(StreamGate::new(decide)), ..Reply::text(text) }
    }

    fn await_request(&self) {
        while !self.is_waiting.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    }

    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

/// Holds the first request back, and answers the others at once.
fn slow_then_quick(gate: &Arc<Gate>) -> Model {
    let (gate, is_first) = (gate.clone(), AtomicBool::new(true));
    Model::start(move |_: &Request| match is_first.swap(false, Ordering::SeqCst) {
        true => gate.reply("the late answer"),
        false => Reply::text("the answer"),
    })
    .unwrap()
}

#[test]
fn a_machine_that_was_cut_off_is_fenced_and_keeps_its_own_steps() {
    let Some(server) = Server::start() else { return };
    let gate = Arc::new(Gate::default());
    let model = slow_then_quick(&gate);
    let (a, key) = Worker::join("a", &server.address(), &model.url(), None);
    let (b, _) = Worker::join("b", &server.address(), &model.url(), Some(&key));
    let mut first = a.begin("t1");
    let error = std::thread::scope(|scope| {
        let turn = scope.spawn(|| first.prompt("go", &Silent));
        gate.await_request();
        end_leases(&server);
        b.adopt("t1", true).unwrap();
        let mut second = b.resume("t1").unwrap();
        assert_eq!(second.proceed(&Silent).unwrap(), COMPLETE);
        gate.open();
        turn.join().unwrap().unwrap_err()
    });
    let TaskError::TakenOver { machine, kept } = error else { panic!("{error:?}") };
    assert_eq!(machine, "b");
    let kept = kept.unwrap();
    drop(first);
    assert_eq!(a.conversation(&kept), ["user: go", "assistant: the late answer"]);
    assert_eq!(b.conversation("takeback:t1"), ["user: go", "assistant: the answer"]);
    let records = server.query("SELECT count(*) FROM takeback.journal WHERE position > 3");
    assert!(records.parse::<i64>().unwrap() > 0);

    // The first machine has both histories, and ships both.
    let adopted = a.adopt("t1", true).unwrap();
    assert_eq!(adopted.kept, None, "it was already kept");
    assert_eq!(a.conversation("takeback:t1"), b.conversation("takeback:t1"));
    let mut machine = a.machine;
    machine.sync().unwrap();
    let ids = server.query("SELECT string_agg(id, ' ' ORDER BY id) FROM takeback.sessions");
    assert_eq!(ids, format!("takeback:t1 {kept}"));
}

#[test]
fn a_task_waits_while_the_database_cannot_be_reached() {
    let Some(mut server) = Server::start() else { return };
    let gate = Arc::new(Gate::default());
    let model = slow_then_quick(&gate);
    let (a, key) = Worker::join("a", &server.address(), &model.url(), None);
    let (b, _) = Worker::join("b", &server.address(), &model.url(), Some(&key));
    let waits = Arc::new(Mutex::new(Vec::new()));
    let agent = a.watched_agent(&waits);
    let mut task = Task::begin(agent, &a.project, NewSession::default(), "t1").unwrap();
    std::thread::scope(|scope| {
        let turn = scope.spawn(|| task.prompt("go", &Silent));
        gate.await_request();
        server.kill();
        gate.open();
        while waits.lock().unwrap().is_empty() {
            std::thread::yield_now();
        }
        server.resume();
        assert_eq!(turn.join().unwrap().unwrap(), COMPLETE);
    });
    assert!(waits.lock().unwrap()[0].contains("cannot be reached"));
    assert_eq!(task.prompt("again", &Silent).unwrap(), COMPLETE);
    drop(task);
    b.adopt("t1", true).unwrap();
    assert_eq!(b.conversation("takeback:t1"), a.conversation("takeback:t1"));
}

#[test]
fn a_turn_that_cannot_reach_the_database_can_be_stopped_and_continued() {
    let Some(mut server) = Server::start() else { return };
    let gate = Arc::new(Gate::default());
    let model = slow_then_quick(&gate);
    let (a, _) = Worker::join("a", &server.address(), &model.url(), None);
    let waits = Arc::new(Mutex::new(Vec::new()));
    let agent = a.watched_agent(&waits);
    let mut task = Task::begin(agent, &a.project, NewSession::default(), "t1").unwrap();
    let cancel = task.cancel().clone();
    let error = std::thread::scope(|scope| {
        let turn = scope.spawn(|| task.prompt("go", &Silent));
        gate.await_request();
        server.kill();
        gate.open();
        while waits.lock().unwrap().is_empty() {
            std::thread::yield_now();
        }
        cancel.cancel();
        turn.join().unwrap().unwrap_err()
    });
    assert!(matches!(error, TaskError::Away(_)), "{error:?}");
    assert!(task.prompt("more", &Silent).is_err());
    drop(task);
    server.resume();
    let mut task = a.resume("t1").unwrap();
    assert_eq!(task.prompt("more", &Silent).unwrap(), COMPLETE);
    let expected =
        ["user: go", "assistant: the late answer", "user: more", "assistant: the answer"];
    assert_eq!(a.conversation("takeback:t1"), expected);
}

#[test]
fn a_rewind_travels_with_its_task() {
    let Some(server) = Server::start() else { return };
    let model = Model::start(|_: &Request| Reply::text("the answer")).unwrap();
    let (mut a, key) = Worker::join("a", &server.address(), &model.url(), None);
    let (b, _) = Worker::join("b", &server.address(), &model.url(), Some(&key));
    let mut task = a.begin("t1");
    task.prompt("one", &Silent).unwrap();
    task.prompt("two", &Silent).unwrap();
    a.machine.ledger.rewind_turns("takeback:t1", 1, crate::machine::at(9)).unwrap();
    task.prompt("three", &Silent).unwrap();
    drop(task);
    b.adopt("t1", true).unwrap();
    let conversation = b.conversation("takeback:t1");
    assert_eq!(
        conversation,
        ["user: one", "assistant: the answer", "user: three", "assistant: the answer"]
    );
    let mut task = b.resume("t1").unwrap();
    task.prompt("four", &Silent).unwrap();
    let turns = |worker: &Worker| worker.machine.ledger.turns("takeback:t1").unwrap().len();
    assert_eq!(turns(&b), turns(&a) + 1);
}

#[test]
fn a_deleted_session_is_deleted_from_the_shared_journal() {
    let Some(server) = Server::start() else { return };
    let model = Model::start(|_: &Request| Reply::text("the pineapple")).unwrap();
    let (mut a, key) = Worker::join("a", &server.address(), &model.url(), None);
    let (mut b, _) = Worker::join("b", &server.address(), &model.url(), Some(&key));
    for id in ["t1", "t2"] {
        a.begin(id).prompt("go", &Silent).unwrap();
    }
    b.adopt("t2", true).unwrap();
    drop(b.resume("t2").unwrap());
    let tasks = || server.query("SELECT string_agg(id, ' ' ORDER BY id) FROM takeback.tasks");
    assert_eq!(tasks(), "t1 t2");
    for id in ["takeback:t1", "takeback:t2"] {
        a.machine.ledger.delete_session(id).unwrap();
    }
    a.machine.sync().unwrap();
    assert_eq!(tasks(), "t2", "the other machine still has it");
    b.machine.ledger.delete_session("takeback:t2").unwrap();
    b.machine.sync().unwrap();
    assert_eq!(server.query("SELECT count(*) FROM takeback.journal"), "0");
}

#[test]
fn a_cancelled_turn_is_over_on_all_machines() {
    let Some(server) = Server::start() else { return };
    let gate = Arc::new(Gate::default());
    let model = slow_then_quick(&gate);
    let (a, _) = Worker::join("a", &server.address(), &model.url(), None);
    let mut task = a.begin("t1");
    std::thread::scope(|scope| {
        let cancel = task.cancel().clone();
        let turn = scope.spawn(|| task.prompt("go", &Silent));
        gate.await_request();
        cancel.suspend();
        cancel.cancel();
        assert_eq!(turn.join().unwrap().unwrap(), Pause::Suspended);
    });
    gate.open();
    drop(task);
    let state = || server.query("SELECT state FROM takeback.tasks");
    assert_eq!(state(), "running");
    let agent = a.agent();
    takeback_runtime::cancel_task(&agent.opened, agent.shared.as_ref(), "t1").unwrap();
    assert_eq!(state(), "idle");
    assert!(!a.resume("t1").unwrap().is_interrupted());
}
