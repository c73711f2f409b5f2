//! Goals: states, budgets, pauses, and processes that die.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use takeback_ledger::{Budget, GoalRecord, GoalState, GoalUpdate, Time};
use takeback_runtime::model::{Client, ClientOptions};
use takeback_runtime::{
    Agent, Answer, Cancel, FrontEnd, NewSession, PROCESS_ENDED, Question, Task, TurnEvent,
    cancel_task, list_goals, list_interrupted_goals,
};
use takeback_script::{Fault, Reply, Request, Server};

use crate::support::{Recorder, Scratch, build_agent, open};

const NOW: Time = Time(1);

fn agent(scratch: &Scratch, server: &Server) -> Arc<Agent> {
    let mut agent = build_agent(scratch.base(), &server.url());
    let options = ClientOptions { first_wait: Duration::ZERO, ..ClientOptions::default() };
    agent.client = Client::new(options);
    Arc::new(agent)
}

fn begin(scratch: &Scratch, server: &Server, budget: Budget) -> Task {
    let (agent, new) = (agent(scratch, server), NewSession::default());
    Task::begin_goal(agent, &scratch.project(), new, "g", "do it", budget).unwrap()
}

fn turns(count: i64) -> Budget {
    Budget { turns: Some(count), ..Budget::default() }
}

fn finish(status: &str) -> Reply {
    Reply::call("finish_goal", json!({ "status": status, "summary": "because" }))
}

fn reason(goal: &GoalRecord) -> &str {
    goal.reason.as_deref().unwrap_or_default()
}

fn prompts(scratch: &Scratch) -> Vec<String> {
    let conversation = scratch.conversation("takeback:g");
    let prompts = conversation.iter().filter_map(|line| line.strip_prefix("user: "));
    prompts.map(|prompt| prompt.chars().take(20).collect()).collect()
}

#[test]
fn a_goal_ends_when_the_model_says_so() {
    for (status, state) in [("reached", GoalState::Complete), ("blocked", GoalState::Blocked)] {
        let scratch = Scratch::new();
        let server = Server::start(move |request: &Request| match request.last_result() {
            None if request.last_text() == "do it" => Reply::text("I have begun."),
            None => finish(status),
            Some(_) => Reply::text("That is all."),
        })
        .unwrap();
        let mut task = begin(&scratch, &server, Budget::default());
        let goal = task.run_goal("g", None, &Recorder::default()).unwrap();
        assert_eq!((goal.state, reason(&goal)), (state, "because"));
        assert_eq!((goal.spent.turns, goal.spent.tokens), (2, 360));
        assert_eq!(prompts(&scratch), ["do it", "Continue working on "]);
        assert!(!task.is_interrupted());
    }
}

#[test]
fn a_spent_budget_allows_one_more_turn_and_a_new_run_begins_at_zero() {
    let scratch = Scratch::new();
    let server = Server::start(|_: &Request| Reply::text("Not yet.")).unwrap();
    let mut task = begin(&scratch, &server, turns(2));
    let goal = task.run_goal("g", None, &Recorder::default()).unwrap();
    assert_eq!(
        (goal.state, reason(&goal)),
        (GoalState::BudgetLimited, "3 of 2 turns have been used")
    );
    assert_eq!(prompts(&scratch), ["do it", "Continue working on ", "The budget for this "]);
    let goal = task.run_goal("g", Some(turns(1)), &Recorder::default()).unwrap();
    assert_eq!(goal.state, GoalState::BudgetLimited);
    assert_eq!((goal.spent_in_run.turns, goal.spent.turns), (2, 5));
    assert_eq!((goal.spent_in_run.tokens, goal.spent.tokens), (240, 600));
    assert_eq!(prompts(&scratch)[3..], ["Continue working on ", "The budget for this "]);
}

#[test]
fn a_turn_that_spends_the_budget_is_stopped_before_its_next_request() {
    let scratch = Scratch::new();
    let server = Server::start(|request: &Request| match request.last_text() {
        text if text.starts_with("The budget") => Reply::text("Cleaned up."),
        _ => Reply::call("list_files", json!({})),
    })
    .unwrap();
    let budget = Budget { tokens: Some(300), ..Budget::default() };
    let mut task = begin(&scratch, &server, budget);
    let goal = task.run_goal("g", None, &Recorder::default()).unwrap();
    assert_eq!(goal.state, GoalState::BudgetLimited);
    // Three requests of 120 tokens each exceed the budget, and the last turn needs one more
    // request.
    assert_eq!((goal.spent.tokens, goal.spent.turns), (480, 2));
    assert_eq!(prompts(&scratch), ["do it", "The budget for this "]);
}

#[test]
fn a_goal_stopped_by_a_rate_limit_can_be_resumed() {
    let scratch = Scratch::new();
    let is_limited = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let limited = is_limited.clone();
    let server = Server::start(move |request: &Request| {
        if limited.load(std::sync::atomic::Ordering::SeqCst) {
            return Reply::fault(Fault::response(429, r#"{"error":{"message":"slow down"}}"#));
        }
        match request.last_result() {
            None => finish("reached"),
            Some(_) => Reply::text("Done."),
        }
    })
    .unwrap();
    let mut task = begin(&scratch, &server, Budget::default());
    let goal = task.run_goal("g", None, &Recorder::default()).unwrap();
    assert_eq!((goal.state, reason(&goal)), (GoalState::UsageLimited, "slow down"));
    is_limited.store(false, std::sync::atomic::Ordering::SeqCst);
    let goal = task.run_goal("g", None, &Recorder::default()).unwrap();
    assert_eq!(goal.state, GoalState::Complete);
}

#[test]
fn a_call_that_waits_for_approval_blocks_the_goal_until_it_is_answered() {
    let scratch = Scratch::new();
    let server = Server::start(|request: &Request| match request.last_result() {
        None => Reply::call("terminal", json!({ "command": "git push origin main" })),
        Some(result) if result.text == "noted" => Reply::text("Done."),
        Some(_) => finish("reached"),
    })
    .unwrap();
    let mut task = begin(&scratch, &server, Budget::default());
    let goal = task.run_goal("g", None, &Recorder::default()).unwrap();
    assert_eq!((goal.state, reason(&goal)), (GoalState::Blocked, "a call waits for approval"));
    let front = Recorder::answering(Answer::Deny("not today".into()));
    let goal = task.run_goal("g", None, &front).unwrap();
    assert_eq!(goal.state, GoalState::Complete);
    assert_eq!(prompts(&scratch), ["do it"], "the turn went on");
}

/// A front end that runs a function as soon as text from the model arrives.
struct OnText<F: Fn() + Sync>(F);

impl<F: Fn() + Sync> FrontEnd for OnText<F> {
    fn show(&self, event: &TurnEvent<'_>) {
        if matches!(event, TurnEvent::Text(_)) {
            self.0();
        }
    }

    fn approve(&self, _: &Question<'_>) -> Answer {
        Answer::Later
    }
}

#[test]
fn a_goal_that_the_user_stops_is_paused_and_can_be_resumed() {
    let scratch = Scratch::new();
    let server = Server::start(|request: &Request| match request.last_result() {
        None if request.last_text() == "do it" => {
            Reply { text: "I look.".into(), ..Reply::call("list_files", json!({})) }
        }
        None => finish("reached"),
        Some(_) => Reply::text("Done."),
    })
    .unwrap();
    let mut task = begin(&scratch, &server, Budget::default());
    let cancel: Cancel = task.cancel().clone();
    let goal = task.run_goal("g", None, &OnText(|| cancel.cancel())).unwrap();
    assert_eq!((goal.state, reason(&goal)), (GoalState::Paused, "stopped by the user"));
    task.cancel().reset();
    let goal = task.run_goal("g", None, &Recorder::default()).unwrap();
    assert_eq!((goal.state, goal.spent.turns), (GoalState::Complete, 2));
}

#[test]
fn a_goal_keeps_the_state_that_another_process_gave_it() {
    for (state, word) in [(GoalState::Paused, "a break"), (GoalState::Cancelled, "given up")] {
        let scratch = Scratch::new();
        let server = Server::start(|request: &Request| match request.last_result() {
            Some(_) => finish("reached"),
            None => Reply { text: "I look.".into(), ..Reply::call("list_files", json!({})) },
        })
        .unwrap();
        let mut task = begin(&scratch, &server, Budget::default());
        let stop = || {
            let state = Some((state, Some(word.to_owned())));
            let update = GoalUpdate { goal: "g".into(), state, ..GoalUpdate::default() };
            scratch.ledger().update_goal(&update, NOW).unwrap();
            cancel_task(&Arc::new(open(scratch.base())), None, "g").unwrap();
        };
        let goal = task.run_goal("g", None, &OnText(stop)).unwrap();
        assert_eq!((goal.state, reason(&goal)), (state, word));
        assert_eq!(goal.spent.turns, 1, "the spending counts all the same");
    }
}

#[test]
fn a_goal_whose_process_died_is_stored_as_paused_and_continues_its_run() {
    let scratch = Scratch::new();
    let server = Server::start(|_: &Request| Reply::text("Not yet.")).unwrap();
    let task = begin(&scratch, &server, turns(2));
    // As long as the process is alive, the goal is active.
    assert_eq!(list_goals(&open(scratch.base())).unwrap()[0].state, GoalState::Active);
    drop(task);
    assert_eq!(scratch.ledger().goal("g").unwrap().state, GoalState::Active);
    let interrupted = list_interrupted_goals(&open(scratch.base())).unwrap();
    assert_eq!((interrupted[0].state, reason(&interrupted[0])), (GoalState::Paused, PROCESS_ENDED));
    assert_eq!(scratch.ledger().goal("g").unwrap(), interrupted[0]);
    let mut task = Task::resume_task(agent(&scratch, &server), "g").unwrap();
    let goal = task.continue_goal("g", &Recorder::default()).unwrap();
    assert_eq!((goal.state, goal.spent_in_run.turns), (GoalState::BudgetLimited, 3));
    // A goal that has ended stays unchanged.
    drop(task);
    assert_eq!(list_interrupted_goals(&open(scratch.base())).unwrap(), []);
    let mut task = Task::resume_task(agent(&scratch, &server), "g").unwrap();
    assert_eq!(task.continue_goal("g", &Recorder::default()).unwrap(), goal);
}

#[test]
fn loading_the_task_of_a_dead_process_pauses_its_goal() {
    let scratch = Scratch::new();
    let server = Server::start(|_: &Request| Reply::text("Not yet.")).unwrap();
    drop(begin(&scratch, &server, turns(1)));
    let _task = Task::resume_task(agent(&scratch, &server), "g").unwrap();
    let goal = scratch.ledger().goal("g").unwrap();
    assert_eq!((goal.state, reason(&goal)), (GoalState::Paused, PROCESS_ENDED));
}
