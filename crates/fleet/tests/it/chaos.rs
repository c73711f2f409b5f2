//! Eight machines that work while the database, the connections and the machines themselves fail.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use takeback_fleet::{FleetJournal, FleetSettings, JoinOptions, LeaseSeconds};
use takeback_ledger::{LogError, LoggedTask, TaskLog};
use takeback_runtime::{AdoptOptions, Agent, NewSession, Task, TaskError, adopt_task};
use takeback_script::{Reply, Request, Server as Model};

use crate::machine::{Machine, ledger_records, open_fleet, open_ledger, shipped_records};
use crate::proxy::Proxy;
use crate::server::{PASSWORD, Server};
use crate::worker::{Silent, build_agent};

const MACHINES: usize = 8;

/// One of the machines, with everything that its processes need to know.
struct Place {
    machine: Machine,
    project: tempfile::TempDir,
    number: usize,
}

/// A switch that keeps the model from answering the first machine. `is_holding` is true once a
/// request is waiting.
#[derive(Default)]
struct Hold {
    is_on: AtomicBool,
    is_holding: AtomicBool,
}

/// Starts a model that runs one command and then ends the turn. The command appends the last word
/// of the prompt to the log.
fn model(log: PathBuf, hold: Arc<Hold>) -> Model {
    Model::start(move |request: &Request| match request.last_result() {
        Some(_) => Reply::text("Done."),
        None => {
            let word = request.last_text().rsplit(' ').next().unwrap_or_default().to_owned();
            while word.starts_with("m0-") && hold.is_on.load(Ordering::SeqCst) {
                hold.is_holding.store(true, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(10));
            }
            let command = format!("echo {word} >> {}", log.display());
            Reply::call("terminal", json!({ "command": command }))
        }
    })
    .unwrap()
}

fn settings(name: &str, address: &str) -> FleetSettings {
    FleetSettings {
        name: Some(name.into()),
        postgres: Some(address.into()),
        lease_seconds: LeaseSeconds::try_from(1).unwrap(),
        ..FleetSettings::default()
    }
}

/// Works as one of the machines until the file `stop` appears.
#[test]
fn a_machine_works() {
    let Ok(home) = std::env::var("CHAOS_HOME") else { return };
    let [name, address, url, project, stop] = ["NAME", "ADDRESS", "URL", "PROJECT", "STOP"]
        .map(|it| std::env::var(format!("CHAOS_{it}")).unwrap());
    let (home, project) = (Path::new(&home), Path::new(&project));
    let settings = settings(&name, &address);
    let agent = build_agent(home, &settings, &url, |_| {});
    let log = FleetJournal::new(open_fleet(home, &settings)).unwrap();
    let mut machine = Machine { ledger: open_ledger(&home.join("state.db")), home: None, settings };
    let process = std::process::id();
    for round in 0.. {
        if Path::new(&stop).exists() {
            return;
        }
        for number in 0..5 {
            machine.say(&format!("claude:{name}"), "user", &format!("{process} {round} {number}"));
        }
        let fleet = open_fleet(home, &machine.settings);
        let _ = fleet.sync(&mut machine.ledger, crate::machine::at(1), &|_| {});
        for task in log.list().unwrap_or_default() {
            continue_elsewhere(&agent, project, &task);
        }
        let id = format!("{name}-{process}-{round}");
        let Ok(mut task) = Task::begin(agent.clone(), project, NewSession::default(), &id) else {
            continue;
        };
        let _ = task.prompt(&format!("write {id}"), &Silent);
    }
}

/// Continues a task whose machine is silent. Returns true if its turn is over afterwards.
fn continue_elsewhere(agent: &Arc<Agent>, project: &Path, task: &LoggedTask) -> bool {
    if task.state != "interrupted" {
        return task.state == "idle";
    }
    let options = AdoptOptions { directory: Some(project), accepts_files: true };
    let proceed = || -> Result<(), TaskError> {
        adopt_task(agent, &task.id, options)?;
        Task::resume_task(agent.clone(), &task.id)?.proceed(&Silent).map(drop)
    };
    match proceed() {
        Ok(()) => true,
        // Another machine was faster, the silent machine is alive after all, or the database cannot
        // be reached.
        Err(
            TaskError::Log(LogError::Held { .. } | LogError::Away(_))
            | TaskError::TakenOver { .. }
            | TaskError::Elsewhere { .. }
            | TaskError::Live(_),
        ) => false,
        Err(error) => panic!("{}: {error:?}", task.id),
    }
}

impl Place {
    fn start(&self, url: &str, stop: &Path) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "chaos::a_machine_works", "--test-threads=1", "--nocapture"]);
        command
            .env("CHAOS_HOME", self.machine.home())
            .env("CHAOS_NAME", format!("m{}", self.number));
        command.env("CHAOS_ADDRESS", self.machine.settings.postgres.as_ref().unwrap());
        command
            .env("CHAOS_URL", url)
            .env("CHAOS_PROJECT", self.project.path())
            .env("CHAOS_STOP", stop);
        command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
    }
}

#[test]
fn everything_arrives_once_and_no_task_runs_twice() {
    let Some(mut server) = Server::start() else { return };
    let proxy = Proxy::start(server.port());
    let scratch = tempfile::tempdir().unwrap();
    let (log, stop) = (scratch.path().join("log"), scratch.path().join("stop"));
    let hold = Arc::new(Hold::default());
    let model = model(log.clone(), hold.clone());
    let mut key = None;
    let mut places = Vec::new();
    for number in 0..MACHINES {
        // Every second machine connects through the proxy, which cuts connections.
        let direct = server.tcp_address(PASSWORD, "fleet");
        let port = format!(":{}/", server.port());
        let address = match number % 2 {
            0 => direct.replace(&port, &format!(":{}/", proxy.port())),
            _ => direct,
        };
        let mut machine = Machine::new(&format!("m{number}"), &address);
        machine.settings = settings(&format!("m{number}"), &address);
        let options = JoinOptions { key: key.clone(), ..JoinOptions::default() };
        key = machine.join(&options).unwrap().new_key.or(key);
        places.push(Place { machine, project: tempfile::tempdir().unwrap(), number });
    }
    let mut processes: Vec<Child> =
        places.iter().map(|place| place.start(&model.url(), &stop)).collect();
    // The failures interrupt the machines at different points in each run.
    let pause = |milliseconds| std::thread::sleep(Duration::from_millis(milliseconds));
    for round in 0..12_usize {
        pause(400);
        let victim = round * 3 % MACHINES;
        match round % 4 {
            0 | 2 => {
                processes[victim].kill().unwrap();
                processes[victim].wait().unwrap();
                processes[victim] = places[victim].start(&model.url(), &stop);
            }
            1 => proxy.cut(),
            _ => {
                server.kill();
                pause(500);
                server.resume();
            }
        }
    }
    // The first machine never comes back, and certainly leaves a task behind.
    hold.is_on.store(true, Ordering::SeqCst);
    while !hold.is_holding.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(10));
    }
    processes[0].kill().unwrap();
    hold.is_on.store(false, Ordering::SeqCst);
    fs::write(&stop, "").unwrap();
    for (number, mut process) in processes.into_iter().enumerate() {
        if number == 0 {
            process.wait().unwrap();
        } else {
            assert!(process.wait().unwrap().success(), "machine {number} failed");
        }
    }
    let last = &places[1];
    let agent = build_agent(last.machine.home(), &last.machine.settings, &model.url(), |_| {});
    let journal =
        FleetJournal::new(open_fleet(last.machine.home(), &last.machine.settings)).unwrap();
    let project = last.project.path();
    while !journal.list().unwrap().iter().all(|task| continue_elsewhere(&agent, project, task)) {}

    let tasks = server.query("SELECT count(*) FROM takeback.tasks WHERE state = 'idle'");
    assert_eq!(tasks, server.query("SELECT count(*) FROM takeback.tasks"));
    assert!(tasks.parse::<usize>().unwrap() >= MACHINES, "{tasks} tasks");
    let log = fs::read_to_string(&log).unwrap();
    let distinct: BTreeSet<&str> = log.lines().collect();
    assert_eq!(log.lines().count(), distinct.len(), "a task ran twice: {log}");
    let moved = server.query("SELECT count(*) FROM takeback.tasks WHERE from_seq > 0");
    assert_ne!(moved, "0", "no task was taken over");
    for place in &mut places {
        place.machine.sync().unwrap();
        let name = format!("m{}", place.number);
        assert_eq!(
            shipped_records(&server, &name),
            ledger_records(&place.machine.ledger),
            "{name}"
        );
        assert_eq!(place.machine.waiting(), 0);
    }
}
