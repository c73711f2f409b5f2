//! The part of the scenario that needs a terminal: the open agent continues an earlier conversation.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use takeback_script::Request;

use super::model::TERMINAL_JOBS;
use super::program::{TerminalUse, WayBack};
use super::sandbox::Sandbox;
use super::scenario::{must_be_in_ledger, must_mention};
use super::terminal::Terminal;
use crate::Failure;

/// The prompt after the rollback.
const NEXT: &str = "Please say hello to visitor-three";

/// The longest time to wait for the agent.
const PATIENCE: Duration = Duration::from_secs(120);

/// Takes back the second of two turns while the agent is open in a terminal. The next prompt in this
/// terminal must continue the first turn.
pub(crate) fn rewind_in_terminal(sandbox: &Sandbox) -> Result<(), Failure> {
    let Some(used) = &sandbox.program.terminal else { return Ok(()) };
    let [kept, gone] = &TERMINAL_JOBS;
    let mut terminal = sandbox.start_terminal(used.words, "terminal")?;
    begin(&mut terminal, used)?;
    for job in &TERMINAL_JOBS {
        terminal.type_line(job.prompt)?;
        terminal.wait_until(job.answer, |screen| screen.contains(job.answer))?;
        must_be_in_ledger(sandbox, job.answer, "assistant")?;
    }
    match used.way {
        WayBack::Command(line) => terminal.type_line(line)?,
        WayBack::InPlace { typed, shown, logs } => {
            terminal.type_line(typed)?;
            terminal.wait_until(shown, |screen| screen.contains(shown))?;
            let logs = sandbox.home().join(logs);
            wait_for("the conversation was not rewound", || has_later_log(&logs).then_some(()))?;
        }
        WayBack::PrintedLine => {
            let resume = roll_back_elsewhere(sandbox)?;
            let line = resume["typed"].as_str();
            let line = line.ok_or_else(|| format!("there is no line to type:\n{resume:#}"))?;
            terminal.type_line(line)?;
        }
        WayBack::PrintedCommand { typed, printed } => {
            terminal.type_line(typed)?;
            let screen = terminal.wait_until(printed, |screen| screen.contains(printed))?;
            let rest = screen.split_once(printed).map_or("", |(_, rest)| rest);
            let id = rest.split('`').next().unwrap_or_default();
            drop(terminal);
            let words: Vec<&str> = printed.split_whitespace().skip(1).chain([id]).collect();
            let words = [&words, used.words].concat();
            terminal = sandbox.start_terminal(&words, "terminal-again")?;
        }
    }
    let is_gone = || (!sandbox.project().join(gone.file).exists()).then_some(());
    wait_for("the file of the second job is still there", is_gone)?;
    if !matches!(used.way, WayBack::InPlace { .. }) {
        terminal.wait_until("the earlier conversation", |screen| {
            screen.contains(kept.answer) && !screen.contains(gone.answer)
        })?;
    }
    terminal.type_line(NEXT)?;
    let asked: Request = wait_for("the model was not asked", || sandbox.find_request(NEXT))?;
    must_mention(&asked, &[(kept, true)])?;
    // A session that keeps its id is told which prompt was taken back.
    let told = asked.count_text(&format!("took back the prompt “{}”", gone.prompt));
    match asked.count_text(gone.prompt) > told || asked.count_text(gone.answer) > 0 {
        true => Err(format!("the continued conversation contains {:?}", gone.prompt)),
        false => Ok(()),
    }
}

/// Answers the questions that the agent asks when it starts, until it accepts input.
fn begin(terminal: &mut Terminal, used: &TerminalUse) -> Result<(), Failure> {
    for (question, keys) in used.questions {
        terminal.wait_until(question, |screen| screen.contains(question))?;
        terminal.answer_question(question, keys)?;
    }
    terminal.wait_until(used.ready, |screen| screen.contains(used.ready)).map(drop)
}

/// Returns true if a directory, or one below it, contains a log that continues another log.
fn has_later_log(directory: &Path) -> bool {
    let mut entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.any(|entry| match entry.path().is_dir() {
        true => has_later_log(&entry.path()),
        false => entry.file_name().to_string_lossy().contains('_'),
    })
}

/// Rolls back outside the agent. Returns the way to continue the agent's conversation.
fn roll_back_elsewhere(sandbox: &Sandbox) -> Result<Value, Failure> {
    let done = sandbox.query_takeback(&["rollback", "1", "--yes"], "terminal-rollback")?;
    match &done["sessions"][0]["resume"] {
        Value::Null => Err(format!("no conversation to continue:\n{done:#}")),
        resume => Ok(resume.clone()),
    }
}

fn wait_for<T>(problem: &str, find: impl Fn() -> Option<T>) -> Result<T, Failure> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match find() {
            Some(found) => return Ok(found),
            None if Instant::now() > deadline => return Err(problem.to_owned()),
            None => thread::sleep(Duration::from_millis(100)),
        }
    }
}
