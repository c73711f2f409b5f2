//! `cargo xtask bench fleet`: prints measurements, and never fails because of them.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use takeback_fleet::{FleetJournal, JoinOptions};
use takeback_ledger::{
    Event, JournalEntry, LogContent, LogRecord, MessageRecord, SearchOptions, SessionRecord,
    TaskLog, TaskStep, UsageRecord,
};

use crate::machine::{Machine, at};
use crate::server::Server;

/// Words of messages, from the most frequent to the rarest.
const WORDS: [&str; 16] = [
    "the",
    "file",
    "test",
    "error",
    "build",
    "function",
    "connection",
    "timeout",
    "migration",
    "parser",
    "cache",
    "token",
    "replica",
    "checksum",
    "quaternion",
    "zeppelin",
];

pub(crate) fn is_quick() -> bool {
    std::env::var_os("BENCH_QUICK").is_some()
}

pub(crate) fn print(name: &str, figure: impl std::fmt::Display) {
    let _ = writeln!(std::io::stdout(), "{name:60} {figure}");
}

/// Builds a message of about 300 bytes. A word of rank n is in about every n²-th message.
fn message(number: usize) -> MessageRecord {
    let mut text = format!("message {number}:");
    for word in 0..40 {
        let mixed = (number * 40 + word).wrapping_mul(2_654_435_761) >> 7;
        let rank = WORDS
            .iter()
            .enumerate()
            .rev()
            .find(|(rank, _)| mixed.is_multiple_of(rank * rank * 4 + 1));
        text.push(' ');
        text.push_str(rank.map_or("and", |(_, word)| word));
    }
    let role = ["user", "assistant", "tool", "assistant"][number % 4].to_owned();
    MessageRecord { role, content: Some(text.into()), ..MessageRecord::default() }
}

/// Adds messages to the ledger, 1,000 per session.
fn fill(machine: &mut Machine, first: usize, count: usize) {
    for start in (first..first + count).step_by(1_000) {
        let id = format!("claude:{start}");
        let record = SessionRecord {
            id: id.clone(),
            source: "claude".into(),
            workspace: Some("/work".into()),
            ..SessionRecord::default()
        };
        machine.ledger.create_session(&record, at(start as i64)).unwrap();
        let messages: Vec<_> = (start..start + 1_000).map(message).collect();
        machine.ledger.append(&id, &messages, at(start as i64)).unwrap();
    }
}

/// Returns the processor time that this process has used.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
}

fn percentile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort();
    times[(times.len() * percent / 100).min(times.len() - 1)].as_secs_f64() * 1e3
}

fn measure_shipping_and_search(server: &Server) -> Machine {
    let (mut machine, _) = Machine::first(&server.address());
    let (count, total) = if is_quick() { (20_000, 50_000) } else { (100_000, 1_000_000) };
    fill(&mut machine, 0, count);
    let (begun, used) = (Instant::now(), processor_time());
    let report = machine.sync().unwrap();
    let rate = count as f64 / begun.elapsed().as_secs_f64();
    let used = count as f64 / (processor_time() - used).as_secs_f64();
    print("shipping from one machine, messages/s (target 20,000)", format!("{rate:.0}"));
    print("  per second of the machine's own processor time", format!("{used:.0}"));
    print("  rows per batch", report.rows / report.batches.max(1));
    for first in (count..total).step_by(50_000) {
        fill(&mut machine, first, 50_000.min(total - first));
        machine.sync().unwrap();
    }
    server.query("ANALYZE");
    let fleet = machine.fleet();
    for (name, queries) in [
        ("rare words", ["zeppelin", "quaternion checksum", "\"replica token\""]),
        ("frequent words", ["error", "file test", "function OR parser"]),
        ("beginnings of words", ["migr*", "quat*", "conn* timeout"]),
        ("nothing", ["absent", "absent*", "the absent"]),
    ] {
        let (mut times, mut connecting) = (Vec::new(), Vec::new());
        for round in 0..10 {
            for query in queries {
                let begun = Instant::now();
                fleet.machines().unwrap();
                connecting.push(begun.elapsed());
                let begun = Instant::now();
                let options = SearchOptions { limit: 20, ..SearchOptions::default() };
                let found = fleet.search(query, &options, &|| false).unwrap();
                // The first round fills the caches.
                if round > 0 {
                    times.push(begun.elapsed());
                }
                assert_eq!(found.hits.is_empty(), name == "nothing", "{query}");
            }
        }
        let (half, most) = (percentile(&mut times, 50), percentile(&mut times, 95));
        let (least, worst) = (percentile(&mut connecting, 50), percentile(&mut connecting, 95));
        let name = format!("search over {total} messages, {name}, ms (target p95 50)");
        let alone = format!("a new connection alone: p50 {least:.1}, p95 {worst:.1}");
        print(&name, format!("p50 {half:.1}, p95 {most:.1}; {alone}"));
    }
    machine
}

fn measure_appends(server: &Server, key: &str) {
    let seconds = if is_quick() { 3 } else { 20 };
    let (count, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let journals: Vec<FleetJournal> = (0..8)
        .map(|number| {
            let mut machine = Machine::new(&format!("bench{number}"), &server.address());
            let key = Some(key.to_owned());
            machine.join(&JoinOptions { key, ..JoinOptions::default() }).unwrap();
            let journal = FleetJournal::new(machine.fleet()).unwrap();
            // The first request reads all the files of the machine's home that the journal needs.
            // The home is deleted when `machine` is dropped.
            journal.list().unwrap();
            journal
        })
        .collect();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for (number, journal) in journals.iter().enumerate() {
            let (count, is_over) = (&count, &is_over);
            scope.spawn(move || {
                let mut lease = journal.take(&format!("bench-{number}"), 1).unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    let next = step(lease.seq + 1);
                    journal.write(&mut lease, &next).unwrap();
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(Duration::from_secs(seconds));
        is_over.store(true, Ordering::Relaxed);
    });
    let rate = count.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64();
    print("fenced appends from 8 machines, per second (target 3,000)", format!("{rate:.0}"));
}

fn step(seq: i64) -> LogRecord {
    let messages = vec![message(usize::try_from(seq).unwrap())];
    let entry = JournalEntry {
        seq,
        epoch: 1,
        time: at(seq),
        masked: false,
        entry: json!({ "entry": "ended", "call": "c", "message": seq, "v": 1 }),
    };
    let step = TaskStep {
        time: at(seq),
        entries: vec![entry],
        events: vec![Event::Messages { session: "takeback:bench".into(), messages }],
        ..TaskStep::default()
    };
    LogRecord { tree: None, content: LogContent::Step(Box::new(step)) }
}

/// Measures the rows and bytes that an agent produces in an hour of work: 30 turns with 8 calls
/// each.
fn measure_hour(server: &Server, key: &str) {
    let mut machine = Machine::new("hour", &server.address());
    let key = Some(key.to_owned());
    machine.join(&JoinOptions { key, ..JoinOptions::default() }).unwrap();
    let size = "SELECT pg_total_relation_size('takeback.messages') + pg_total_relation_size('takeback.calls')
        + pg_total_relation_size('takeback.turns') + pg_total_relation_size('takeback.sessions')
        + pg_total_relation_size('takeback.usage') + pg_total_relation_size('takeback.effects')";
    let number = |sql: &str| server.query(sql).parse::<i64>().unwrap();
    server.query("VACUUM FULL");
    let before = number(size);
    let hours = 20;
    for hour in 0..hours {
        let session = format!("claude:hour{hour}");
        for turn in 0..30 {
            machine.say(
                &session,
                "user",
                &format!("turn {turn}: {}", "please look at this ".repeat(10)),
            );
            for call in 0..8 {
                let id = format!("{hour}-{turn}-{call}");
                let record = takeback_ledger::CallRecord {
                    call: id,
                    tool: "bash".into(),
                    input: Some(
                        json!({ "command": format!("grep -rn pattern{call} src | head -50") }),
                    ),
                    ..Default::default()
                };
                let usage = UsageRecord { model: "m".into(), ..UsageRecord::default() };
                let events = [
                    Event::Call { session: session.clone(), call: record },
                    Event::Usage { session: session.clone(), usage },
                ];
                machine.ledger.record(&events, Duration::from_secs(60), at(1)).unwrap();
                machine.say(
                    &session,
                    "assistant",
                    &format!("call {call}: {}", "I will look ".repeat(8)),
                );
                let lines: String = (0..40)
                    .map(|line| {
                        format!(
                            "src/file{line}.rs:{}: let x{line} = {};\n",
                            line * 7 + call,
                            turn * line
                        )
                    })
                    .collect();
                machine.say(&session, "tool", &lines);
            }
        }
    }
    let rows = machine.sync().unwrap().rows;
    server.query("VACUUM FULL");
    let bytes = number(size) - before;
    print("rows per agent-hour (30 turns with 8 calls each)", rows / hours);
    print("bytes in the database per agent-hour, indexes included", bytes / hours as i64);
}

/// Measures a hook alternately with and without a fleet.
fn measure_hook(server: &Server, key: &str, program: &Path) {
    let mut joined = Machine::new("hooks", &server.address());
    joined.join(&JoinOptions { key: Some(key.to_owned()), ..JoinOptions::default() }).unwrap();
    let config = format!("[fleet]\npostgres = \"{}\"\n", server.address());
    std::fs::write(joined.home().join("config.toml"), config).unwrap();
    let alone = Machine::new("alone", "postgres://unused.invalid/x");
    let work = tempfile::tempdir().unwrap();
    for number in 0..200 {
        std::fs::write(work.path().join(format!("file{number}")), "content").unwrap();
    }
    let hook = |home: &Path, call: usize| {
        let event = json!({ "event": "before_tool", "call": call.to_string(), "tool": "Bash",
            "agent": "bench", "session": "1", "cwd": work.path(), "input": { "command": "make" } });
        let mut command = Command::new(program);
        command.arg("--home").arg(home).args(["hook", "generic"]);
        let begun = Instant::now();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(event.to_string().as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
        begun.elapsed()
    };
    let rounds = if is_quick() { 40 } else { 200 };
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for call in 0..rounds + 5 {
        let times = [hook(joined.home(), call), hook(alone.home(), call)];
        if call >= 5 {
            with.push(times[0]);
            without.push(times[1]);
        }
    }
    let (with, without) = (percentile(&mut with, 50), percentile(&mut without, 50));
    let ratio = with / without;
    print(
        "hook with a fleet, against one without (target 1.05)",
        format!("{ratio:.3} × ({with:.1} / {without:.1} ms)"),
    );
}

#[test]
#[ignore = "a measurement; `cargo xtask bench fleet` runs it"]
fn measure() {
    let Some(server) = Server::start_durable() else { return };
    let machine = measure_shipping_and_search(&server);
    let key = std::fs::read_to_string(machine.home().join("fleet/key")).unwrap();
    let key = key.trim();
    measure_appends(&server, key);
    measure_hour(&server, key);
    match std::env::var_os("BENCH_PROGRAM") {
        Some(program) => measure_hook(&server, key, Path::new(&program)),
        None => print("hook with a fleet", "not measured: BENCH_PROGRAM is not set"),
    }
}
