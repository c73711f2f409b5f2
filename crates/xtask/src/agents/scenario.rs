//! The scenario for every agent, from installing takeback to uninstalling it.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use takeback_agents::find_rewind;
use takeback_script::Request;

use super::in_terminal::rewind_in_terminal;
use super::model::{DIRECTORY, DONE, FILE, FORK_JOB, GREETING, INTRODUCTION, JOBS, Job, WORK};
use super::program::{RollbackCommand, Turn};
use super::sandbox::Sandbox;
use super::snapshot::Snapshot;
use crate::Failure;

/// Text that occurs in every notice about several files, and nowhere else in the scenario.
pub(super) const NOTICE: &str = "What you know about them is out of date";
/// Text that takeback prints after a rollback, and that occurs nowhere else in the scenario.
const ROLLED_BACK: &str = "`takeback rollback undo` takes this back";
/// Text that takeback prints instead of rolling back when an agent runs without a user.
const WITHHELD: &str = "Nothing was changed: the agent runs without a user";

/// The state of the project before each step, and the id of the checkpoint that must contain this
/// state.
struct Steps {
    before_writing: (Snapshot, String),
    before_removing: (Snapshot, String),
}

pub(crate) fn play_scenario(sandbox: &Sandbox) -> Result<(), Failure> {
    // Agents complete their configuration when they are used for the first time.
    sandbox.run_turn(Turn::First(INTRODUCTION), "introduction")?;
    sandbox.stop_agent()?;
    let plain = sandbox.snapshot_home()?;
    install_takeback(sandbox)?;
    let wired = sandbox.snapshot_home()?;
    uninstall_takeback(sandbox)?;
    sandbox.snapshot_home()?.must_be(&plain, "the configuration, installed and uninstalled")?;
    install_takeback(sandbox)?;
    sandbox.snapshot_home()?.must_be(&wired, "the configuration, installed again")?;
    let played = play_turns(sandbox);
    sandbox.stop_agent()?;
    played?;
    uninstall_takeback(sandbox)?;
    // Only the paths that the installation changed are compared. The agent itself writes to other
    // paths.
    let touched = |snapshot: Snapshot| snapshot.where_differ(&plain, &wired);
    let left = touched(sandbox.snapshot_home()?);
    left.must_be(&touched(plain.clone()), "the configuration at the end")?;
    sandbox.check_package()
}

fn install_takeback(sandbox: &Sandbox) -> Result<(), Failure> {
    sandbox.run_takeback(&["install", sandbox.program.name, "--user", "--yes"], "install")
}

fn uninstall_takeback(sandbox: &Sandbox) -> Result<(), Failure> {
    sandbox.run_takeback(&["uninstall", sandbox.program.name, "--user", "--yes"], "uninstall")
}

fn play_turns(sandbox: &Sandbox) -> Result<(), Failure> {
    let steps = if sandbox.program.can_continue {
        let steps = do_work(sandbox)?;
        must_be_in_ledger(sandbox, DONE, "assistant")?;
        roll_back(sandbox, &steps.before_writing)?;
        check_notice(sandbox)?;
        steps
    } else {
        do_work_with_pause(sandbox)?
    };
    must_be_in_ledger(sandbox, WORK, "user")?;
    // The checkpoint in the middle of the turn can also be restored. The conversation is not
    // rewound to that point, because the model would then repeat the rest of the turn.
    roll_back_files(sandbox, &steps.before_removing)?;
    type_rollback(sandbox, &steps.before_writing)?;
    if sandbox.program.can_continue && find_rewind(sandbox.program.name).is_some() {
        take_conversation_back(sandbox)?;
    }
    rewind_in_terminal(sandbox)
}

/// Takes back the second of two turns, and reverses this rollback. Checks after each step that the
/// agent's own conversation matches the files.
fn take_conversation_back(sandbox: &Sandbox) -> Result<(), Failure> {
    let [kept, gone] = &JOBS;
    // Some agents find a conversation only in the directory in which it was started.
    let below = sandbox.project().join(DIRECTORY);
    sandbox.run_turn_in(&below, Turn::First(kept.prompt), "kept")?;
    must_be_in_ledger(sandbox, kept.answer, "assistant")?;
    sandbox.run_turn_in(&below, Turn::Next(gone.prompt), "gone")?;
    must_be_in_ledger(sandbox, gone.answer, "assistant")?;
    let before = sandbox.snapshot_home()?;
    let done = sandbox.query_takeback(&["rollback", "1", "--yes"], "take-back")?;
    must_have_files(sandbox, [true, false])?;
    sandbox.snapshot_home()?.must_keep_logs_of(&before)?;
    let asked = continue_conversation(sandbox, &done, "continued")?;
    must_mention(&asked, &[(kept, true), (gone, false)])?;
    let undone = sandbox.query_takeback(&["rollback", "undo", "--yes"], "bring-back")?;
    must_have_files(sandbox, [true, true])?;
    let asked = continue_conversation(sandbox, &undone, "forward")?;
    must_mention(&asked, &[(kept, true), (gone, true)])?;
    fork_conversation(sandbox)
}

/// Forks the state before the second turn into another directory. Checks that the agent continues
/// its own conversation there, with the files from before the second turn, and that the project
/// does not change.
fn fork_conversation(sandbox: &Sandbox) -> Result<(), Failure> {
    let [kept, gone] = &JOBS;
    let fork = sandbox.directory().join("fork");
    let (project, home) = (sandbox.snapshot_project()?, sandbox.snapshot_home()?);
    let words = ["fork", "1", &fork.display().to_string()];
    let made = sandbox.query_takeback(&words, "fork")?;
    let is_there = |job: &Job| fork.join(job.file).exists();
    if !is_there(kept) || is_there(gone) {
        return Err(format!(
            "the files in the fork are not those from before the second turn:\n{made:#}"
        ));
    }
    let turn = find_turn(&made["resume"], FORK_JOB.prompt)?;
    let (_, requests) = sandbox.run_turn_in(&turn.directory, turn.as_turn(), "forked")?;
    let is_asked = |request: &Request| request.count_text(FORK_JOB.prompt) > 0;
    let asked = requests.into_iter().find(is_asked).ok_or("the model was not asked in the fork")?;
    must_mention(&asked, &[(kept, true), (gone, false)])?;
    if !fork.join(DIRECTORY).join(FORK_JOB.file).exists() {
        return Err("the shell of the fork ran in another directory".to_owned());
    }
    sandbox.snapshot_project()?.must_be(&project, "the project after work in its fork")?;
    sandbox.snapshot_home()?.must_keep_logs_of(&home)?;
    must_be_in_ledger(sandbox, FORK_JOB.answer, "assistant")?;
    must_be_in_ledger(sandbox, kept.answer, "assistant")
}

/// A turn that continues a conversation in the way that takeback describes after a rollback or a
/// fork.
struct NamedTurn {
    directory: PathBuf,
    session: String,
    file: String,
    prompt: &'static str,
}

impl NamedTurn {
    fn as_turn(&self) -> Turn<'_> {
        Turn::At { session: &self.session, file: &self.file, prompt: self.prompt }
    }
}

/// Prepares a turn that continues a conversation. `resume` is takeback's description of how to do
/// so.
fn find_turn(resume: &Value, prompt: &'static str) -> Result<NamedTurn, Failure> {
    let session = resume["session"].as_str();
    let session = session.ok_or_else(|| format!("no conversation to continue:\n{resume:#}"))?;
    let argv = resume["argv"].as_array();
    let file = argv.and_then(|argv| argv.last()?.as_str()).unwrap_or_default();
    let directory = PathBuf::from(resume["cwd"].as_str().unwrap_or_default());
    Ok(NamedTurn { directory, session: session.to_owned(), file: file.to_owned(), prompt })
}

fn must_have_files(sandbox: &Sandbox, expected: [bool; 2]) -> Result<(), Failure> {
    for (job, expected) in JOBS.iter().zip(expected) {
        if sandbox.project().join(job.file).exists() != expected {
            return Err(format!("{} exists although it should not, or is missing", job.file));
        }
    }
    Ok(())
}

/// Sends another prompt to the conversation that the output of a rollback names. Returns the
/// request that contains the prompt.
fn continue_conversation(sandbox: &Sandbox, done: &Value, name: &str) -> Result<Request, Failure> {
    let moved = done["sessions"].as_array().cloned().unwrap_or_default();
    let resume = moved.iter().find(|moved| moved["resume"]["session"].is_string());
    let resume = resume.ok_or_else(|| format!("no conversation to continue:\n{done:#}"))?;
    let turn = find_turn(&resume["resume"], GREETING)?;
    let (_, requests) = sandbox.run_turn_in(&turn.directory, turn.as_turn(), name)?;
    let is_greeting = |request: &Request| request.count_text(GREETING) > 0;
    requests.into_iter().find(is_greeting).ok_or_else(|| "the model was not greeted".into())
}

/// Fails unless a request contains the prompts and answers of the jobs marked `true`, and no prompt
/// or answer of the other jobs.
pub(crate) fn must_mention(request: &Request, jobs: &[(&Job, bool)]) -> Result<(), Failure> {
    for (job, expected) in jobs {
        for text in [job.prompt, job.answer] {
            if (request.count_text(text) > 0) != *expected {
                let is = if *expected { "lacks" } else { "contains" };
                return Err(format!("the continued conversation {is} {text:?}"));
            }
        }
    }
    Ok(())
}

/// Runs a turn that writes a file and then removes a directory.
fn do_work(sandbox: &Sandbox) -> Result<Steps, Failure> {
    let start = sandbox.snapshot_project()?;
    sandbox.run_turn(Turn::First(WORK), "work")?;
    check_steps(sandbox, start)
}

/// Runs the turn with a rollback in the middle. An agent that cannot continue conversations can get
/// a notice only during a turn.
fn do_work_with_pause(sandbox: &Sandbox) -> Result<Steps, Failure> {
    let start = sandbox.snapshot_project()?;
    let (end, begun) = sandbox.model.begin_pause();
    thread::scope(|scope| {
        let turn = scope.spawn(|| {
            let turn = sandbox.run_turn(Turn::First(WORK), "work");
            // If the agent ended its turn too early, the pause never began. Dropping the pause
            // wakes the thread that is waiting for it.
            drop(sandbox.model.take_pause());
            turn
        });
        let steps = begun.recv().map_err(|_| "the model did not reach the end of its work".into());
        let steps = steps.and_then(|()| check_steps_and_roll_back(sandbox, start));
        drop(end);
        let (_, requests) = turn.join().map_err(|_| "the turn was cut off")??;
        let last = requests.last().ok_or("the model was not asked")?;
        must_be_told_once(last, &requests)?;
        steps
    })
}

fn check_steps_and_roll_back(sandbox: &Sandbox, start: Snapshot) -> Result<Steps, Failure> {
    let steps = check_steps(sandbox, start)?;
    roll_back(sandbox, &steps.before_writing)?;
    Ok(steps)
}

/// Checks the project and the checkpoints after the turn.
fn check_steps(sandbox: &Sandbox, start: Snapshot) -> Result<Steps, Failure> {
    let end = sandbox.snapshot_project()?;
    if !end.has_file(FILE.0, FILE.1) {
        return Err(format!("{} was not written", FILE.0));
    }
    let written = start.clone().with_path_of(FILE.0, &end);
    end.must_be(&written.clone().without_path(DIRECTORY), "the project after the work")?;
    let list = sandbox.query_takeback(&["rollback", "--steps"], "list")?;
    let steps = list["checkpoints"][0]["steps"].as_array().cloned().unwrap_or_default();
    let id = |number: usize| steps.get(number).and_then(|step| step["id"].as_str());
    match (id(0), id(1), steps.len()) {
        (Some(first), Some(second), 2) => Ok(Steps {
            before_writing: (start, first.to_owned()),
            before_removing: (written, second.to_owned()),
        }),
        _ => Err(format!("expected two checkpoints of one turn:\n{list:#}")),
    }
}

/// Fails unless a search finds this message exactly once. Waits until a search finds it, because
/// the agent's own log is read in the background.
pub(crate) fn must_be_in_ledger(sandbox: &Sandbox, said: &str, role: &str) -> Result<(), Failure> {
    let query = format!("\"{said}\"");
    let words = ["sessions", "search", &query, "--role", role, "--undone"];
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let found = sandbox.query_takeback(&words, "search")?;
        let results = found["results"].as_array().cloned().unwrap_or_default();
        match &results[..] {
            [result] if result["source"] == sandbox.program.name => return Ok(()),
            [] if Instant::now() < deadline => thread::sleep(Duration::from_millis(100)),
            _ => return Err(format!("expected {said:?} once in the ledger:\n{found:#}")),
        }
    }
}

fn roll_back(sandbox: &Sandbox, (files, checkpoint): &(Snapshot, String)) -> Result<(), Failure> {
    sandbox.run_takeback(&["rollback", checkpoint, "--yes"], "rollback")?;
    sandbox.snapshot_project()?.must_be(files, "the project after a rollback")
}

fn roll_back_files(
    sandbox: &Sandbox,
    (files, checkpoint): &(Snapshot, String),
) -> Result<(), Failure> {
    sandbox.run_takeback(&["rollback", checkpoint, "--yes", "--files-only"], "rollback-files")?;
    sandbox.snapshot_project()?.must_be(files, "the project after a rollback of files")
}

/// Checks that the next prompt includes the notice about the rollback.
fn check_notice(sandbox: &Sandbox) -> Result<(), Failure> {
    let (_, requests) = sandbox.run_turn(Turn::Next(GREETING), "greeting")?;
    let is_greeting = |request: &&Request| request.count_text(GREETING) > 0;
    let first = requests.iter().find(is_greeting).ok_or("the model was not greeted")?;
    must_be_told_once(first, &requests)
}

/// Fails unless this request contains the notice exactly once. Later requests repeat the
/// conversation, so they may contain the notice as well, but only once each.
fn must_be_told_once(asked: &Request, all: &[Request]) -> Result<(), Failure> {
    let told = asked.count_text(NOTICE);
    if told != 1 {
        return Err(format!("the model is told about the rollback {told} times instead of once"));
    }
    match all.iter().any(|request| request.count_text(NOTICE) > 1) {
        true => Err("the model is told about the rollback again later".to_owned()),
        false => Ok(()),
    }
}

/// Rolls back by typing a command inside the agent.
fn type_rollback(
    sandbox: &Sandbox,
    (files, checkpoint): &(Snapshot, String),
) -> Result<(), Failure> {
    let prompt = format!("{} {checkpoint}", sandbox.program.command.typed_prefix());
    let turn = match sandbox.program.command {
        RollbackCommand::None => return Ok(()),
        RollbackCommand::Own => Turn::Command(checkpoint),
        RollbackCommand::Withheld { .. } | RollbackCommand::Told(_) => Turn::Next(&prompt),
    };
    let present = sandbox.snapshot_project()?;
    let (said, requests) = sandbox.run_turn(turn, "typed")?;
    let said = said.all_text();
    let expected = match sandbox.program.command {
        RollbackCommand::Withheld { .. } => &present,
        _ => files,
    };
    sandbox
        .snapshot_project()?
        .must_be(expected, "the project after a rollback that was typed in the agent")?;
    let is_right = match sandbox.program.command {
        RollbackCommand::Withheld { is_shown, .. } => {
            if !requests.is_empty() {
                return Err(format!(
                    "the model was asked {} times, but should not be asked",
                    requests.len()
                ));
            }
            said.contains(WITHHELD) == is_shown
        }
        _ => requests.iter().any(|request| request.count_text(ROLLED_BACK) == 1),
    };
    match is_right {
        true => Ok(()),
        false => {
            Err(format!("the result of the rollback is not shown where it should be:\n{said}"))
        }
    }
}
