//! What is tested, in one go: from the installation to its end.

use std::sync::mpsc;

use takeback_script::Request;

use super::programs::{Command, Turn};
use super::script::{DIRECTORY, FILE, GREETING, WORK};
use super::snapshot::Snapshot;
use super::stage::Stage;
use crate::Failure;

/// What every notice begins with, and nothing else that is said here.
const NOTICE: &str = "What you know of them is out of date";
/// What takeback says after a rollback, and nothing else that is said here.
const ROLLED_BACK: &str = "`takeback rollback undo` takes this back";

/// The project as it was before each step, and the checkpoints that must hold that.
struct Steps {
    before_writing: (Snapshot, String),
    before_removing: (Snapshot, String),
}

pub(crate) fn all(stage: &Stage) -> Result<(), Failure> {
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
    let left = stage.configuration()?;
    left.clone().only_paths_of(&plain).must_be(&plain, "the configuration at the end")?;
    let ours = wired.paths_beyond(&plain);
    let theirs = left.paths_beyond(&plain);
    match ours.iter().find(|path| theirs.contains(path) && !stage.home().join(path).is_dir()) {
        Some(path) => Err(format!("{} is left after uninstall", path.display())),
        None => Ok(()),
    }
}

fn install(stage: &Stage) -> Result<(), Failure> {
    stage.takeback(&["install", stage.program.name, "--user", "--yes"], "install").map(drop)
}

fn uninstall(stage: &Stage) -> Result<(), Failure> {
    stage.takeback(&["uninstall", stage.program.name, "--user", "--yes"], "uninstall").map(drop)
}

fn play(stage: &Stage) -> Result<(), Failure> {
    let steps = if stage.program.can_continue {
        let steps = work(stage)?;
        rollback(stage, &steps.before_writing)?;
        greet(stage)?;
        steps
    } else {
        work_interrupted(stage)?
    };
    // The other checkpoint is as good.
    rollback(stage, &steps.before_removing)?;
    type_rollback(stage, &steps.before_writing)
}

/// A turn that writes a file and then removes a directory.
fn work(stage: &Stage) -> Result<Steps, Failure> {
    let start = stage.files()?;
    stage.turn(Turn::First(WORK), "work")?;
    let written = start.clone().with(FILE.0, FILE.1);
    let end = written.clone().without(DIRECTORY);
    stage.files()?.must_be(&end, "the project after the turn")?;
    steps(stage, start, written)
}

/// The same, with a rollback while the model thinks, because that is the only time at which such an
/// agent can be told something.
fn work_interrupted(stage: &Stage) -> Result<Steps, Failure> {
    let start = stage.files()?;
    let written = start.clone().with(FILE.0, FILE.1);
    let (sender, outcome) = mpsc::channel();
    std::thread::scope(|scope| {
        let (reached, reaches) = mpsc::channel();
        let (done, is_done) = mpsc::channel::<()>();
        stage.script.interrupt(Box::new(move || {
            // Whoever waits is gone if the agent failed.
            let _ = reached.send(());
            let _ = is_done.recv();
        }));
        let (start, written) = (&start, &written);
        scope.spawn(move || {
            if reaches.recv().is_err() {
                return;
            }
            let rolled_back = steps(stage, start.clone(), written.clone()).and_then(|steps| {
                stage
                    .files()?
                    .must_be(&written.clone().without(DIRECTORY), "the project so far")?;
                rollback(stage, &steps.before_writing)?;
                Ok(steps)
            });
            let _ = sender.send(rolled_back);
            let _ = done.send(());
        });
        let turn = stage.turn(Turn::First(WORK), "work");
        // If the model was never asked that far, nobody waits any more.
        stage.script.interrupt(Box::new(|| {}));
        let (_, requests) = turn?;
        let last = requests.last().ok_or("the model was not asked")?;
        must_be_told_once(last, &requests)
    })?;
    outcome.recv().map_err(|_| "the model was not asked what comes after its work")?
}

/// The checkpoints that the agent's hooks made.
fn steps(stage: &Stage, start: Snapshot, written: Snapshot) -> Result<Steps, Failure> {
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

fn rollback(stage: &Stage, (files, checkpoint): &(Snapshot, String)) -> Result<(), Failure> {
    stage.takeback(&["rollback", checkpoint, "--yes"], "rollback")?;
    stage.files()?.must_be(files, "the project after a rollback")
}

/// The next thing that the user says comes with what the model has to know.
fn greet(stage: &Stage) -> Result<(), Failure> {
    let (_, requests) = stage.turn(Turn::Next(GREETING), "greeting")?;
    let is_greeting = |request: &&Request| request.count(GREETING) > 0;
    let first = requests.iter().find(is_greeting).ok_or("the model was not greeted")?;
    must_be_told_once(first, &requests)
}

fn must_be_told_once(asked: &Request, all: &[Request]) -> Result<(), Failure> {
    if asked.count(NOTICE) != 1 {
        let told = asked.count(NOTICE);
        return Err(format!("the model should be told once, not {told} times:\n{asked:#?}"));
    }
    match all.iter().find(|request| request.count(NOTICE) > 1) {
        Some(request) => Err(format!("the model is told more than once:\n{request:#?}")),
        None => Ok(()),
    }
}

/// A rollback that is typed inside the agent.
fn type_rollback(stage: &Stage, (files, checkpoint): &(Snapshot, String)) -> Result<(), Failure> {
    let turn = Turn::Next(&format!("{} {checkpoint}", stage.program.command.typed()));
    let turn = match stage.program.command {
        Command::None => return Ok(()),
        Command::Own(_) => Turn::Command(checkpoint),
        _ => turn,
    };
    let (said, requests) = stage.turn(turn, "typed")?;
    stage.files()?.must_be(files, "the project after a rollback that was typed in the agent")?;
    let is_shown = said.contains(ROLLED_BACK);
    let is_told = requests.iter().any(|request| request.count(ROLLED_BACK) > 0);
    let shown = match stage.program.command {
        Command::Answered { is_shown: wanted, .. } => {
            if !requests.is_empty() {
                return Err(format!("no model should be asked:\n{requests:#?}"));
            }
            is_shown == wanted
        }
        _ => is_told,
    };
    match shown {
        true => Ok(()),
        false => Err(format!("what came of it is not said where it should be:\n{said}")),
    }
}
