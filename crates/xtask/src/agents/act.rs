//! What is tested, in one go: from the installation to its end.

use std::thread;
use std::time::{Duration, Instant};

use takeback_script::Request;

use super::programs::{Command, Turn};
use super::script::{DIRECTORY, DONE, FILE, GREETING, INTRODUCTION, WORK};
use super::snapshot::Snapshot;
use super::stage::Stage;
use crate::Failure;

/// What every notice of several files has, and nothing else that is said here.
const NOTICE: &str = "What you know about them is out of date";
/// What takeback says after a rollback, and nothing else that is said here.
const ROLLED_BACK: &str = "`takeback rollback undo` takes this back";

/// The project as it was before each step, and the checkpoints that must hold that.
struct Steps {
    before_writing: (Snapshot, String),
    before_removing: (Snapshot, String),
}

pub(crate) fn all(stage: &Stage) -> Result<(), Failure> {
    // An agent puts its configuration in order when it is used for the first time.
    stage.turn(Turn::First(INTRODUCTION), "introduction")?;
    stage.leave()?;
    let plain = stage.configuration()?;
    install(stage)?;
    let wired = stage.configuration()?;
    uninstall(stage)?;
    stage.configuration()?.must_be(&plain, "the configuration, installed and uninstalled")?;
    install(stage)?;
    stage.configuration()?.must_be(&wired, "the configuration, installed again")?;
    let played = play(stage);
    stage.leave()?;
    played?;
    uninstall(stage)?;
    // Elsewhere the agent itself wrote meanwhile.
    let touched = |snapshot: Snapshot| snapshot.where_differ(&plain, &wired);
    let left = touched(stage.configuration()?);
    left.must_be(&touched(plain.clone()), "the configuration at the end")?;
    stage.look_at_package()
}

fn install(stage: &Stage) -> Result<(), Failure> {
    stage.takeback(&["install", stage.program.name, "--user", "--yes"], "install")
}

fn uninstall(stage: &Stage) -> Result<(), Failure> {
    stage.takeback(&["uninstall", stage.program.name, "--user", "--yes"], "uninstall")
}

fn play(stage: &Stage) -> Result<(), Failure> {
    let steps = if stage.program.can_continue {
        let steps = work(stage)?;
        must_be_in_ledger(stage, DONE, "assistant")?;
        rollback(stage, &steps.before_writing)?;
        greet(stage)?;
        steps
    } else {
        work_with_pause(stage)?
    };
    must_be_in_ledger(stage, WORK, "user")?;
    // The other checkpoint is as good.
    rollback(stage, &steps.before_removing)?;
    type_rollback(stage, &steps.before_writing)
}

/// A turn that writes a file and then removes a directory.
fn work(stage: &Stage) -> Result<Steps, Failure> {
    let start = stage.files()?;
    stage.turn(Turn::First(WORK), "work")?;
    steps(stage, start)
}

/// The same with a rollback in the middle of the turn: the only time at which an agent whose
/// conversations cannot go on can be told something.
fn work_with_pause(stage: &Stage) -> Result<Steps, Failure> {
    let start = stage.files()?;
    let (end, begun) = stage.script.pause();
    thread::scope(|scope| {
        let turn = scope.spawn(|| {
            let turn = stage.turn(Turn::First(WORK), "work");
            // If the model was not asked that far, there is no pause to wait for.
            drop(stage.script.take_pause());
            turn
        });
        let steps = begun.recv().map_err(|_| "the model did not get to the end of its work".into());
        let steps = steps.and_then(|()| steps_with_rollback(stage, start));
        drop(end);
        let (_, requests) = turn.join().map_err(|_| "the turn was cut off")??;
        let last = requests.last().ok_or("the model was not asked")?;
        must_be_told_once(last, &requests)?;
        steps
    })
}

fn steps_with_rollback(stage: &Stage, start: Snapshot) -> Result<Steps, Failure> {
    let steps = steps(stage, start)?;
    rollback(stage, &steps.before_writing)?;
    Ok(steps)
}

/// What the agent did, and the checkpoints that its hooks made.
fn steps(stage: &Stage, start: Snapshot) -> Result<Steps, Failure> {
    let end = stage.files()?;
    if !end.has_file(FILE.0, FILE.1) {
        return Err(format!("{} was not written", FILE.0));
    }
    let written = start.clone().with(FILE.0, &end);
    end.must_be(&written.clone().without(DIRECTORY), "the project after the work")?;
    let list = stage.ask(&["rollback", "--steps"], "list")?;
    let steps = list["checkpoints"][0]["steps"].as_array().cloned().unwrap_or_default();
    let id = |number: usize| steps.get(number).and_then(|step| step["id"].as_str());
    match (id(0), id(1), steps.len()) {
        (Some(first), Some(second), 2) => Ok(Steps {
            before_writing: (start, first.to_owned()),
            before_removing: (written, second.to_owned()),
        }),
        _ => Err(format!("there should be two checkpoints of one turn:\n{list:#}")),
    }
}

/// What was said is found, once: by a search, when the agent's own log has been read.
fn must_be_in_ledger(stage: &Stage, said: &str, role: &str) -> Result<(), Failure> {
    let query = format!("\"{said}\"");
    let words = ["sessions", "search", &query, "--role", role, "--undone"];
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let found = stage.ask(&words, "search")?;
        let results = found["results"].as_array().cloned().unwrap_or_default();
        match &results[..] {
            [result] if result["source"] == stage.program.name => return Ok(()),
            // It is read in the background.
            [] if Instant::now() < deadline => thread::sleep(Duration::from_millis(100)),
            _ => return Err(format!("{said:?} should be in the ledger once:\n{found:#}")),
        }
    }
}

fn rollback(stage: &Stage, (files, checkpoint): &(Snapshot, String)) -> Result<(), Failure> {
    stage.takeback(&["rollback", checkpoint, "--yes"], "rollback")?;
    stage.files()?.must_be(files, "the project after a rollback")
}

/// The next thing that the user says comes with what the model has to know.
fn greet(stage: &Stage) -> Result<(), Failure> {
    let (_, requests) = stage.turn(Turn::Next(GREETING), "greeting")?;
    let is_greeting = |request: &&Request| request.count_text(GREETING) > 0;
    let first = requests.iter().find(is_greeting).ok_or("the model was not greeted")?;
    must_be_told_once(first, &requests)
}

/// What was said stays in the conversation, so it is in whatever is asked later as well: once.
fn must_be_told_once(asked: &Request, all: &[Request]) -> Result<(), Failure> {
    let told = asked.count_text(NOTICE);
    if told != 1 {
        return Err(format!("the model should be told once what went back, not {told} times"));
    }
    match all.iter().any(|request| request.count_text(NOTICE) > 1) {
        true => Err("later, the model is told more than once what went back".to_owned()),
        false => Ok(()),
    }
}

/// A rollback that is typed inside the agent.
fn type_rollback(stage: &Stage, (files, checkpoint): &(Snapshot, String)) -> Result<(), Failure> {
    let prompt = format!("{} {checkpoint}", stage.program.command.typed());
    let turn = match stage.program.command {
        Command::None => return Ok(()),
        Command::Own => Turn::Command(checkpoint),
        Command::Answered { .. } | Command::Told(_) => Turn::Next(&prompt),
    };
    let (said, requests) = stage.turn(turn, "typed")?;
    let said = said.all();
    stage.files()?.must_be(files, "the project after a rollback that was typed in the agent")?;
    let is_right = match stage.program.command {
        Command::Answered { is_shown, .. } => {
            if !requests.is_empty() {
                return Err(format!("no model should be asked, but {} were", requests.len()));
            }
            said.contains(ROLLED_BACK) == is_shown
        }
        _ => requests.iter().any(|request| request.count_text(ROLLED_BACK) == 1),
    };
    match is_right {
        true => Ok(()),
        false => Err(format!("what came of it is not said where it should be:\n{said}")),
    }
}
