//! Measuring `takeback rpc`: a process that serves an agent for as long as the agent runs.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use super::cases::{FLOOR, Subject};
use super::hook::with_agent;
use super::ledger::corpus::Corpus;
use super::measure::{Contender, Times, measure_time, take_turns};
use super::takeback::{Home, Program};
use super::trees::Shape;
use super::{Bench, floor};
use crate::Failure;

pub(crate) const SHAPE: Shape = Shape::Source(10_000);

/// The name of the figure for a request before a tool call that may change files, when nothing has
/// changed.
pub(crate) const TOOL_BEFORE: &str = "tool.before";
/// The name of the figure for appended messages.
pub(crate) const APPENDS: &str = "rpc messages.append";
/// The name of the figure for a search that finds nothing.
pub(crate) const SEARCH_MISS: &str = "rpc search without a hit";

pub(crate) fn measure_rpc(bench: &mut Bench, on: &mut Subject) -> Result<(), Failure> {
    let mut client = RpcClient::start(&bench.program, &Home::new(&bench.scratch)?)?;
    let count = if bench.options.quick { 1_000 } else { 5_000 };
    let rate = measure_appends(&mut client, count)?;
    bench.report.add_figure(SHAPE, APPENDS, rate, "/s");
    let misses = measure_misses(&mut client, count / 10)?;
    bench.report.add_figure(SHAPE, SEARCH_MISS, misses.median(), "ms");

    let mut calls = 0;
    let mut call_before = || {
        calls += 1;
        let call =
            json!({ "call": calls.to_string(), "tool": "Bash", "input": { "command": "make" } });
        client.request_report("tool.before", &with_agent(&call, &on.tree.root))
    };
    // The second run rereads files that were written just before the first one, so only later runs
    // take the usual time.
    call_before()?;
    call_before()?;
    let contenders: Vec<Contender<'_>> = vec![
        (FLOOR, Box::new(|| measure_time(|| floor::lstat_all(&on.tree.files)))),
        (TOOL_BEFORE, Box::new(|| measure_time(&mut call_before))),
    ];
    let times = take_turns(2 * bench.options.rounds(), contenders)?;
    bench.report.add_times(SHAPE, "hook rpc", times);
    Ok(())
}

/// Appends messages one by one. Returns the number of messages per second.
fn measure_appends(client: &mut RpcClient, count: usize) -> Result<f64, Failure> {
    let mut corpus = Corpus::new();
    // User messages are left out, because they are reported as the prompts of turns.
    let messages = std::iter::from_fn(|| Some(corpus.next_message()))
        .filter(|message| message.role != "user")
        .map(|message| {
            let mut json = message.to_json();
            let session = json["session"].take();
            json.as_object_mut().expect("a message is an object").remove("session");
            json!({ "agent": "bench", "session": session, "messages": [json] })
        });
    let requests: Vec<Value> = messages.take(count).collect();
    rustix::fs::sync();
    let start = Instant::now();
    for request in &requests {
        client.request("messages.append", request)?;
    }
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

/// Measures searches for words that are in no message.
fn measure_misses(client: &mut RpcClient, count: usize) -> Result<Times, Failure> {
    let mut times = Times::new(SEARCH_MISS);
    for number in 0..count {
        let params = json!({ "query": format!("unfindable{number}x") });
        times.add_round(measure_time(|| {
            let answer = client.request("sessions.search", &params)?;
            match answer["results"].as_array().is_some_and(Vec::is_empty) {
                true => Ok(()),
                false => Err(format!("a search should find nothing, but it found {answer}")),
            }
        })?);
    }
    Ok(times)
}

/// The agent's side of `takeback rpc`.
pub(crate) struct RpcClient {
    /// The input of the process. Closing it ends the process.
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl RpcClient {
    pub(crate) fn start(program: &Program, home: &Home) -> Result<RpcClient, Failure> {
        let mut command = program.rpc_command(home);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let child = child.map_err(|error| format!("cannot run {command:?}: {error}"))?;
        let (Some(input), Some(output)) = (child.stdin, child.stdout) else {
            return Err(format!("no pipes to {command:?}"));
        };
        Ok(RpcClient { input, output: BufReader::new(output) })
    }

    /// Sends a request and returns the result.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Result<Value, Failure> {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let mut answer = String::new();
        let sent = self.input.write_all(format!("{request}\n").as_bytes());
        let received = sent.and_then(|()| self.output.read_line(&mut answer));
        received.map_err(|error| format!("rpc: {error}"))?;
        let mut parsed: Value = serde_json::from_str(&answer)
            .map_err(|error| format!("rpc answered {answer:?}: {error}"))?;
        match parsed.get("error") {
            Some(error) => Err(format!("rpc: {method} failed: {error}")),
            None => Ok(parsed["result"].take()),
        }
    }

    /// Reports an event. The request must succeed, without any failed checkpoint.
    pub(crate) fn request_report(&mut self, method: &str, params: &Value) -> Result<(), Failure> {
        let result = self.request(method, params)?;
        match result["failures"].as_array().is_some_and(Vec::is_empty) {
            true => Ok(()),
            false => Err(format!("rpc: {method} answered {result}")),
        }
    }
}
