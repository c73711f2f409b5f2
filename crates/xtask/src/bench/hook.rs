//! Measuring how long an agent waits: the whole hook, from the start of its process to its end,
//! including what it writes to the ledger.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::cases::{FLOOR, GIT_VERSION, Subject};
use super::measure::{Contender, measure_time, take_turns};
use super::rpc::RpcClient;
use super::takeback::Home;
use super::trees::Shape;
use super::{Bench, floor, process};
use crate::Failure;

pub(crate) const SHAPES: [Shape; 2] = [Shape::Source(1_000), Shape::Source(10_000)];

/// The name of the figure for the hook before a tool call that may change files, when nothing has
/// changed.
pub(crate) const BEFORE: &str = "before";
const AFTER: &str = "after";
/// The name of the figure for the hook before a call that only reads.
const READING: &str = "before, reading";
/// The name of the figure for a request to a long-running process before a call that may change
/// files.
const RPC: &str = "before, rpc";

pub(crate) fn measure_hook(bench: &mut Bench, on: &mut Subject) -> Result<(), Failure> {
    let agent = Agent { bench, home: Home::new(&bench.scratch)?, tree: &on.tree.root };
    agent.send_event(&json!({ "event": "turn_start", "prompt": "make it faster" }))?;
    // The second run rereads files that were written just before the first one, so only later runs
    // take the usual time.
    for call in ["first", "second"] {
        agent.send_call("before_tool", call, "make")?;
        agent.send_call("after_tool", call, "make")?;
    }
    let mut version = process::clean_command("git");
    version.arg("--version");
    let mut rpc = RpcClient::start(&bench.program, &agent.home)?;
    let (mut begun, mut ended, mut read, mut asked) = (0, 0, 0, 0);
    let contenders: Vec<Contender<'_>> = vec![
        (GIT_VERSION, Box::new(|| measure_time(|| process::run_to_end(&mut version)))),
        (
            BEFORE,
            Box::new(|| {
                begun += 1;
                measure_time(|| agent.send_call("before_tool", &begun.to_string(), "make"))
            }),
        ),
        (
            AFTER,
            Box::new(|| {
                ended += 1;
                measure_time(|| agent.send_call("after_tool", &ended.to_string(), "make"))
            }),
        ),
        (
            READING,
            Box::new(|| {
                read += 1;
                measure_time(|| agent.send_call("before_tool", &format!("r{read}"), "git status"))
            }),
        ),
        (
            RPC,
            Box::new(|| {
                asked += 1;
                let call = json!({
                    "call": format!("p{asked}"), "tool": "Bash", "input": { "command": "make" },
                });
                let params = with_agent(&call, &on.tree.root);
                measure_time(|| rpc.request_report("tool.before", &params))
            }),
        ),
        (FLOOR, Box::new(|| measure_time(|| floor::lstat_all(&on.tree.files)))),
    ];
    let times = take_turns(2 * bench.options.rounds(), contenders)?;
    let median = |who| {
        let found = times.iter().find(|times| times.contender == who);
        found.map_or(f64::NAN, super::measure::Times::median)
    };
    let beyond = median(BEFORE) - 2.0 * median(FLOOR);
    bench.report.add_figure(on.tree.shape, "hook beyond 2 × lstat", beyond, "ms");
    bench.report.add_times(on.tree.shape, "hook", times);
    Ok(())
}

/// An agent that uses hooks.
struct Agent<'a> {
    bench: &'a Bench,
    home: Home,
    tree: &'a Path,
}

impl Agent<'_> {
    fn send_call(&self, event: &str, call: &str, command: &str) -> Result<(), Failure> {
        self.send_event(&json!({
            "event": event, "call": call, "tool": "Bash", "input": { "command": command },
        }))
    }

    fn send_event(&self, event: &Value) -> Result<(), Failure> {
        let event = with_agent(event, self.tree);
        run_with_input(
            &mut self.bench.program.hook_command(&self.home),
            event.to_string().as_bytes(),
        )
    }
}

/// Adds the fields that all of the agent's events have.
pub(crate) fn with_agent(event: &Value, tree: &Path) -> Value {
    let mut event = event.clone();
    event["agent"] = "bench".into();
    event["session"] = "1".into();
    event["cwd"] = tree.display().to_string().into();
    event
}

/// Runs a command with this input.
fn run_with_input(command: &mut Command, input: &[u8]) -> Result<(), Failure> {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    let mut child = child.map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input).map_err(|error| error.to_string())?;
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("failed ({status})")) }
}
