//! Measuring eight processes that append to the same database at the same time.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use takeback_ledger::{MessageFilter, MessageRecord};

use super::figures::Figures;
use super::ours::{self, milliseconds};
use super::python::{self, Contender};
use crate::Failure;
use crate::bench::scratch::io_failure;
use crate::bench::takeback::explain_error;
use crate::bench::this_program;

pub(crate) const WRITERS: usize = 8;

/// The argument that makes this program run as one of the writers.
pub(crate) const WRITER: &str = "bench-ledger-writer";

/// The combined reports of all writers.
pub(crate) struct WriterReports {
    stored: Vec<u64>,
    failures: u64,
    worst: f64,
    seconds: f64,
}

impl WriterReports {
    /// Adds the reports to the figures. `counts` holds, for each writer, the number of its messages
    /// that actually arrived in the database.
    pub(crate) fn add_to(&self, figures: &mut Figures, who: &'static str, counts: &[u64]) {
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

pub(crate) fn run_our_writers(
    database: &Path,
    messages: &Path,
    seconds: u64,
) -> Result<(WriterReports, Vec<u64>), Failure> {
    let this = this_program()?;
    let commands = (0..WRITERS).map(|number| {
        let mut command = Command::new(&this);
        command.arg(WRITER).arg(database).arg(messages);
        command.args([number.to_string(), seconds.to_string()]);
        command
    });
    let written = run_together(commands.collect(), seconds)?;
    let ledger = ours::open_ledger(database)?;
    let count = |number| {
        let messages =
            ledger.messages(&session_name(number), MessageFilter::All).map_err(explain_error)?;
        Ok(messages.len() as u64)
    };
    Ok((written, (0..WRITERS).map(count).collect::<Result<_, Failure>>()?))
}

pub(crate) fn run_their_writers(
    contender: &Contender,
    database: &Path,
    messages: &Path,
    seconds: u64,
) -> Result<(WriterReports, Vec<u64>), Failure> {
    let commands = (0..WRITERS).map(|number| {
        let mut command = contender.driver_command("write", database);
        command.arg(messages).args([number.to_string(), seconds.to_string()]);
        command
    });
    let written = run_together(commands.collect(), seconds)?;
    let counts =
        python::read_answer(contender.driver_command("count", database).arg(WRITERS.to_string()))?;
    let counts = counts["counts"].as_array().into_iter().flatten().filter_map(Value::as_u64);
    Ok((written, counts.collect()))
}

/// Starts all writers, lets them begin together once all are ready, and collects their reports.
fn run_together(commands: Vec<Command>, seconds: u64) -> Result<WriterReports, Failure> {
    let mut writers = Vec::new();
    for mut command in commands {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child =
            command.spawn().map_err(|error| format!("cannot run {command:?}: {error}"))?;
        let mut output = BufReader::new(child.stdout.take().ok_or("a writer has no output")?);
        read_line(&mut output)?;
        writers.push((child, output));
    }
    for (child, _) in &mut writers {
        let mut input = child.stdin.take().ok_or("a writer has no input")?;
        input.write_all(b"go\n").map_err(|error| format!("a writer cannot be started: {error}"))?;
    }
    let mut written =
        WriterReports { stored: Vec::new(), failures: 0, worst: 0.0, seconds: seconds as f64 };
    for (child, output) in writers {
        let said = finish_writer(child, output)?;
        written.stored.push(said["stored"].as_u64().unwrap_or(0));
        written.failures += said["failures"].as_u64().unwrap_or(0);
        written.worst = written.worst.max(said["worst_ms"].as_f64().unwrap_or(0.0));
    }
    Ok(written)
}

fn finish_writer(mut child: Child, mut output: BufReader<ChildStdout>) -> Result<Value, Failure> {
    let said = read_line(&mut output)?;
    let status = child.wait().map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("a writer failed: {status}"));
    }
    serde_json::from_str(&said).map_err(|error| format!("a writer said {said:?}: {error}"))
}

fn read_line(output: &mut impl BufRead) -> Result<String, Failure> {
    let mut line = String::new();
    output.read_line(&mut line).map_err(|error| format!("cannot read from a writer: {error}"))?;
    if line.is_empty() { Err("a writer died".to_owned()) } else { Ok(line) }
}

fn session_name(number: usize) -> String {
    format!("writer:{number}")
}

/// Runs as one writer, with the arguments `<database> <messages> <number> <seconds>`.
pub(crate) fn run_writer(arguments: &[&str]) -> Result<(), Failure> {
    let [database, messages, number, seconds] = arguments[..] else {
        return Err(format!("{WRITER} is only for the benchmark itself"));
    };
    let number: usize = number.parse().map_err(|error| format!("{number}: {error}"))?;
    let seconds: u64 = seconds.parse().map_err(|error| format!("{seconds}: {error}"))?;
    let records = read_records(Path::new(messages))?;
    let mut ledger = ours::open_ledger(Path::new(database))?;
    let session = session_name(number);
    ours::create_session(&mut ledger, &session)?;
    println!("ready");
    read_line(&mut std::io::stdin().lock())?;

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

fn read_records(file: &Path) -> Result<Vec<MessageRecord>, Failure> {
    let text = std::fs::read_to_string(file).map_err(io_failure("read", file))?;
    let parse = |line: &str| {
        let mut message: MessageRecord =
            serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
        // The session's name is not part of the message.
        message.extra.clear();
        Ok(message)
    };
    text.lines().map(parse).collect()
}
