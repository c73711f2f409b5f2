//! Eight processes that append to the same database at the same time.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use takeback_ledger::{MessageRecord, Which};

use super::figures::Figures;
use super::ours::{self, milliseconds};
use super::python::{self, Contender};
use crate::Failure;
use crate::bench::scratch::failed;
use crate::bench::takeback::explain;
use crate::bench::this_program;

pub(crate) const WRITERS: usize = 8;

/// The argument that makes this program one of the writers.
pub(crate) const WRITER: &str = "bench-ledger-writer";

/// What the writers say of themselves, all together.
pub(crate) struct Written {
    stored: Vec<u64>,
    failures: u64,
    worst: f64,
    seconds: f64,
}

impl Written {
    /// `counts` is how many messages of each writer are really there.
    pub(crate) fn report(&self, figures: &mut Figures, who: &'static str, counts: &[u64]) {
        let lost =
            self.stored.iter().zip(counts).map(|(stored, count)| stored.saturating_sub(*count));
        let all = self.stored.iter().sum::<u64>();
        let stage = "8 writers";
        figures.add(stage, who, "/s", all as f64 / self.seconds);
        figures.add(stage, who, "failures", self.failures as f64);
        figures.add(stage, who, "lost", lost.sum::<u64>() as f64);
        figures.add(stage, who, "max ms", self.worst);
    }
}

pub(crate) fn ours(
    database: &Path,
    messages: &Path,
    seconds: u64,
) -> Result<(Written, Vec<u64>), Failure> {
    let this = this_program()?;
    let commands = (0..WRITERS).map(|number| {
        let mut command = Command::new(&this);
        command.arg(WRITER).arg(database).arg(messages);
        command.args([number.to_string(), seconds.to_string()]);
        command
    });
    let written = together(commands.collect(), seconds)?;
    let ledger = ours::open(database)?;
    let count = |number| {
        let messages = ledger.messages(&session(number), Which::All).map_err(explain)?;
        Ok(messages.len() as u64)
    };
    Ok((written, (0..WRITERS).map(count).collect::<Result<_, Failure>>()?))
}

pub(crate) fn theirs(
    contender: &Contender,
    database: &Path,
    messages: &Path,
    seconds: u64,
) -> Result<(Written, Vec<u64>), Failure> {
    let commands = (0..WRITERS).map(|number| {
        let mut command = contender.driver("write", database);
        command.arg(messages).args([number.to_string(), seconds.to_string()]);
        command
    });
    let written = together(commands.collect(), seconds)?;
    let counts = python::answer(contender.driver("count", database).arg(WRITERS.to_string()))?;
    let counts = counts["counts"].as_array().into_iter().flatten().filter_map(Value::as_u64);
    Ok((written, counts.collect()))
}

/// Starts all writers, lets them go when all are ready, and waits for what they say.
fn together(commands: Vec<Command>, seconds: u64) -> Result<Written, Failure> {
    let mut writers = Vec::new();
    for mut command in commands {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child =
            command.spawn().map_err(|error| format!("cannot run {command:?}: {error}"))?;
        let mut says = BufReader::new(child.stdout.take().ok_or("a writer without a voice")?);
        line(&mut says)?;
        writers.push((child, says));
    }
    for (child, _) in &mut writers {
        let mut ear = child.stdin.take().ok_or("a writer without an ear")?;
        ear.write_all(b"go\n").map_err(|error| format!("a writer does not listen: {error}"))?;
    }
    let mut written =
        Written { stored: Vec::new(), failures: 0, worst: 0.0, seconds: seconds as f64 };
    for (child, says) in writers {
        let said = finish(child, says)?;
        written.stored.push(said["stored"].as_u64().unwrap_or(0));
        written.failures += said["failures"].as_u64().unwrap_or(0);
        written.worst = written.worst.max(said["worst_ms"].as_f64().unwrap_or(0.0));
    }
    Ok(written)
}

fn finish(mut child: Child, mut says: BufReader<ChildStdout>) -> Result<Value, Failure> {
    let said = line(&mut says)?;
    let status = child.wait().map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("a writer failed: {status}"));
    }
    serde_json::from_str(&said).map_err(|error| format!("a writer said {said:?}: {error}"))
}

fn line(says: &mut impl BufRead) -> Result<String, Failure> {
    let mut line = String::new();
    says.read_line(&mut line).map_err(|error| format!("a writer does not speak: {error}"))?;
    if line.is_empty() { Err("a writer died".to_owned()) } else { Ok(line) }
}

fn session(number: usize) -> String {
    format!("writer:{number}")
}

/// One writer: `<database> <messages> <number> <seconds>`.
pub(crate) fn write(arguments: &[&str]) -> Result<(), Failure> {
    let [database, messages, number, seconds] = arguments[..] else {
        return Err(format!("{WRITER} is for the benchmark alone"));
    };
    let number: usize = number.parse().map_err(|error| format!("{number}: {error}"))?;
    let seconds: u64 = seconds.parse().map_err(|error| format!("{seconds}: {error}"))?;
    let records = read(Path::new(messages))?;
    let mut ledger = ours::open(Path::new(database))?;
    let session = session(number);
    ours::create_session(&mut ledger, &session)?;
    println!("ready");
    line(&mut std::io::stdin().lock())?;

    let (mut stored, mut failures, mut worst) = (0_u64, 0_u64, Duration::ZERO);
    let start = Instant::now();
    let mut before = start;
    for record in records.iter().cycle() {
        match ledger.append(&session, std::slice::from_ref(record), ours::now()) {
            Ok(_) => stored += 1,
            Err(_) => failures += 1,
        }
        worst = worst.max(before.elapsed());
        before = Instant::now();
        if start.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
    }
    drop(ledger);
    let worst = milliseconds(worst);
    println!("{}", json!({ "stored": stored, "failures": failures, "worst_ms": worst }));
    Ok(())
}

fn read(file: &Path) -> Result<Vec<MessageRecord>, Failure> {
    let text = std::fs::read_to_string(file).map_err(failed("read", file))?;
    let parse = |line: &str| {
        let mut message: MessageRecord =
            serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
        // The session's name is not part of the message.
        message.extra.clear();
        Ok(message)
    };
    text.lines().map(parse).collect()
}
