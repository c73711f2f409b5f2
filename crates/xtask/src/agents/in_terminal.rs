//! The part of the scenario that needs a terminal: the open agent continues an earlier
//! conversation.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use takeback_script::Request;

use super::model::{FORK_JOB, TERMINAL_JOBS};
use super::program::{TerminalUse, WayBack};
use super::sandbox::Sandbox;
use super::scenario::{must_be_in_ledger, must_mention};
use super::terminal::Terminal;
use crate::Failure;

/// The prompt after the rollback.
const NEXT: &str = "Please say hello to visitor-three";

/// The model's answer to `NEXT`.
const HELLO: &str = "Hello.";

/// The line that makes the conversation go forward, and the prompt after it.
const FORWARD: &str = "/rollback undo";
const LAST: &str = "Please say hello to visitor-four";

/// The prompt that is sent in a copy of the conversation.
const COPY_PROMPT: &str = "Please say hello to visitor-five";

/// The longest time to wait for the agent.
const PATIENCE: Duration = Duration::from_secs(120);

/// Takes back the second of two turns while the agent is open in a terminal. The next prompt in
/// this terminal must continue the first turn. If the agent can go forward again, it then does so.
pub(crate) fn rewind_in_terminal(sandbox: &Sandbox) -> Result<(), Failure> {
    let Some(used) = &sandbox.program.terminal else { return Ok(()) };
    let [kept, gone] = &TERMINAL_JOBS;
    let mut terminal = sandbox.start_terminal(&sandbox.project(), used.words, "terminal")?;
    begin(&mut terminal, used)?;
    for job in &TERMINAL_JOBS {
        terminal.submit(job.prompt, || sandbox.find_request(0, job.prompt))?;
        terminal.wait_until(job.answer, |screen| screen.contains(job.answer))?;
        must_be_in_ledger(sandbox, job.answer, "assistant")?;
    }
    let (home, requests) = (sandbox.snapshot_home()?, sandbox.count_requests());
    go_back(sandbox, &mut terminal, &used.way)?;
    let is_gone = || (!sandbox.project().join(gone.file).exists()).then_some(());
    wait_for("the file of the second job is still there", is_gone)?;
    if !matches!(used.way, WayBack::InPlace { .. }) {
        terminal.wait_until("the earlier conversation", |screen| {
            screen.contains(kept.answer) && !screen.contains(gone.answer)
        })?;
    }
    if let WayBack::PrintedLine = used.way {
        terminal.wait_until("the input", |screen| screen.contains(used.ready))?;
    }
    sandbox.snapshot_home()?.must_extend_logs_of(&home)?;
    let asked: Request = terminal.submit(NEXT, || sandbox.find_request(requests, NEXT))?;
    must_mention(&asked, &[(kept, true)])?;
    // A session that keeps its id is told which prompt was taken back.
    let told = asked.count_text(&format!("took back the prompt “{}”", gone.prompt));
    if asked.count_text(gone.prompt) > told || asked.count_text(gone.answer) > 0 {
        return Err(format!("the continued conversation contains {:?}", gone.prompt));
    }
    go_forward(sandbox, &mut terminal, &used.way)?;
    let is_asked = |line: &str| sandbox.find_request(requests, line).is_some();
    if let Some(line) = lines_of(&used.way).into_iter().find(|line| is_asked(line)) {
        return Err(format!("the model was asked about {line:?}"));
    }
    drop(terminal);
    match sandbox.program.can_continue {
        true => Ok(()),
        // Without a terminal, this agent cannot continue a conversation, so its copies have not
        // been tested yet.
        false => continue_copies(sandbox, used),
    }
}

/// Takes back the second of two turns while the agent is not running, and forks the conversation
/// into another directory. Continues both copies in a terminal.
fn continue_copies(sandbox: &Sandbox, used: &TerminalUse) -> Result<(), Failure> {
    let [kept, gone] = &TERMINAL_JOBS;
    let home = sandbox.snapshot_home()?;
    let resume = roll_back_elsewhere(sandbox)?;
    let fork = sandbox.directory().join("fork");
    let words = ["fork", "1", &fork.display().to_string()];
    let made = sandbox.query_takeback(&words, "terminal-fork")?;
    let copies = [
        (&resume, COPY_PROMPT, HELLO, "copy"),
        (&made["resume"], FORK_JOB.prompt, FORK_JOB.answer, "copy-fork"),
    ];
    for (resume, prompt, answer, name) in copies {
        let argv = resume["argv"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let words: Vec<&str> = argv.skip(1).chain(used.words.iter().copied()).collect();
        let directory = Path::new(resume["cwd"].as_str().unwrap_or_default());
        let requests = sandbox.count_requests();
        let mut terminal = sandbox.start_terminal(directory, &words, name)?;
        terminal.wait_until("the earlier conversation", |screen| {
            screen.contains(kept.answer) && !screen.contains(gone.answer)
        })?;
        let asked = terminal.submit(prompt, || sandbox.find_request(requests, prompt))?;
        must_mention(&asked, &[(kept, true), (gone, false)])?;
        terminal.wait_until(answer, |screen| screen.contains(answer))?;
    }
    if !fork.join(FORK_JOB.file).exists() {
        return Err("the shell of the fork ran in another directory".to_owned());
    }
    sandbox.snapshot_home()?.must_extend_logs_of(&home)
}

/// Lists the lines that takeback answers without the model.
fn lines_of(way: &WayBack) -> Vec<&'static str> {
    match *way {
        WayBack::Command(line) => vec![line, FORWARD],
        WayBack::InPlace { typed, forward, .. } => [typed].into_iter().chain(forward).collect(),
        WayBack::PrintedLine => Vec::new(),
    }
}

/// Makes the open conversation go back.
fn go_back(sandbox: &Sandbox, terminal: &mut Terminal, way: &WayBack) -> Result<(), Failure> {
    match *way {
        WayBack::Command(line) => terminal.type_line(line),
        WayBack::InPlace { typed, shown, logs, .. } => {
            terminal.type_line(typed)?;
            terminal.wait_until(shown, |screen| screen.contains(shown))?;
            let Some(logs) = logs.map(|logs| sandbox.home().join(logs)) else { return Ok(()) };
            wait_for("the conversation did not go back", || has_later_log(&logs).then_some(()))
        }
        WayBack::PrintedLine => {
            let resume = roll_back_elsewhere(sandbox)?;
            let line = resume["typed"].as_str();
            let line = line.ok_or_else(|| format!("there is no line to type:\n{resume:#}"))?;
            terminal.type_line(line)
        }
    }
}

/// Makes the open conversation go forward again, if the agent can do that. The next prompt must
/// continue the whole conversation.
fn go_forward(sandbox: &Sandbox, terminal: &mut Terminal, way: &WayBack) -> Result<(), Failure> {
    let line = match *way {
        WayBack::Command(_) => FORWARD,
        WayBack::InPlace { forward: Some(line), .. } => line,
        WayBack::InPlace { forward: None, .. } | WayBack::PrintedLine => return Ok(()),
    };
    let [kept, gone] = &TERMINAL_JOBS;
    terminal.wait_until(HELLO, |screen| screen.contains(HELLO))?;
    must_be_in_ledger(sandbox, NEXT, "user")?;
    let requests = sandbox.count_requests();
    let path = sandbox.project().join(gone.file);
    terminal.submit(line, || path.exists().then_some(()))?;
    terminal.wait_until(gone.answer, |screen| screen.contains(gone.answer))?;
    if let WayBack::InPlace { .. } = way {
        terminal.wait_until("the answer", |screen| screen.contains("restored."))?;
    }
    let asked = terminal.submit(LAST, || sandbox.find_request(requests, LAST))?;
    // Going forward also takes back the prompt that was sent after going back.
    match asked.count_text(NEXT) {
        0 => must_mention(&asked, &[(kept, true), (gone, true)]),
        _ => Err(format!("the continued conversation contains {NEXT:?}")),
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

/// Rolls back outside the agent. Returns the part of the result that says how to continue the
/// agent's conversation.
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
