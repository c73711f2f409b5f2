//! The process that the tests kill.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use takeback_runtime::{Agent, NewSession, Pause, Task, fault};
use takeback_script::Server;

use super::stories::{Story, find_story};
use crate::support::{Recorder, Scratch, build_agent};

const BASE: &str = "TAKEBACK_TEST_BASE";
const URL: &str = "TAKEBACK_TEST_URL";
const STORY: &str = "TAKEBACK_TEST_STORY";
const KILL_AT: &str = "TAKEBACK_TEST_KILL_AT";

/// Begins or continues the task of a story, and runs it to the end.
#[test]
#[ignore = "other tests start it"]
fn run_until_killed() {
    let Some(base) = std::env::var_os(BASE) else { return };
    if let Ok(nth) = std::env::var(KILL_AT) {
        fault::kill_at(nth.parse().unwrap());
    }
    let story = find_story(&std::env::var(STORY).unwrap());
    let mut agent = build_agent(Path::new(&base), &std::env::var(URL).unwrap());
    agent.provider.context_window = story.window;
    tell_story(story, agent.into(), Path::new(&base));
}

fn tell_story(story: &Story, agent: Arc<Agent>, base: &Path) {
    let front = Recorder::default();
    let ledger = agent.opened.ledger().unwrap();
    let is_begun = ledger.as_ref().is_some_and(|ledger| ledger.task("t1").is_ok());
    let has_goal = ledger.is_some_and(|ledger| ledger.goal("t1").is_ok());
    let mut task = match is_begun {
        true => Task::resume_task(agent, "t1").unwrap(),
        false => {
            let project = base.join("project").canonicalize().unwrap();
            Task::begin(agent, &project, NewSession::default(), "t1").unwrap()
        }
    };
    if let Some(budget) = story.budget {
        if !has_goal {
            task.create_goal("t1", story.prompts[0], budget).unwrap();
        }
        task.continue_goal("t1", &front).unwrap();
        return;
    }
    if task.is_interrupted() {
        task.proceed(&front).unwrap();
    }
    for prompt in story.prompts.iter().skip(task.state().turns as usize) {
        assert!(matches!(task.prompt(prompt, &front).unwrap(), Pause::TurnEnded(_)));
    }
}

/// Starts the process. If `kill_at` is set, the process kills itself at that point of the journal.
pub(super) fn start_child(
    story: &Story,
    scratch: &Scratch,
    server: &Server,
    kill_at: Option<i64>,
) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "kills::child::run_until_killed", "--ignored", "--quiet"]);
    command.env(BASE, scratch.base()).env(URL, server.url()).env(STORY, story.name);
    if let Some(nth) = kill_at {
        command.env(KILL_AT, nth.to_string());
    }
    command.stdout(Stdio::null()).spawn().unwrap()
}
