//! Processes that work on tasks and die: journals, messages, usage and goals always agree.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

use serde_json::{Value, json};
use takeback_ledger::{
    AppendedMessage, Event, GoalRecord, GoalUpdate, Lease, Ledger, LedgerError, LedgerOptions,
    MessageFilter, Spending, TaskChange, TaskFilter, TaskRecord, Tokens, UsageRecord,
};

use crate::support::{
    FOREVER, Fixture, at, child_arguments, message, random_below, run_again, session, task,
};

/// Creates the session, task and goal that one process works with. All have the same id.
fn create_work(ledger: &mut Ledger, id: &str) {
    ledger.create_session(&session(id), at(0)).unwrap();
    let task = TaskRecord { session: id.into(), ..task(id) };
    ledger.create_task(&task, at(0)).unwrap();
    let goal = GoalRecord { id: id.into(), task: id.into(), ..GoalRecord::default() };
    ledger.create_goal(&goal, at(0)).unwrap();
}

/// Makes one step: two messages, usage, spending, two journal entries, and sometimes a subagent.
/// Returns the number of the last journal entry.
fn make_step(ledger: &mut Ledger, lease: &Lease, step: i64) -> Result<i64, LedgerError> {
    let id = lease.task();
    let answer = format!("answer {step} {}", "words of all kinds ".repeat(20));
    let usage = UsageRecord {
        model: "m".into(),
        api_call_count: 1,
        tokens: Tokens { input: 10, ..Tokens::default() },
        ..UsageRecord::default()
    };
    let events = [
        Event::Messages {
            session: id.into(),
            messages: vec![message("user", &format!("ask {step}")), message("assistant", &answer)],
        },
        Event::Usage { session: id.into(), usage },
    ];
    let cost = GoalUpdate {
        goal: id.into(),
        spent: Spending { tokens: 10, turns: 1, ..Spending::default() },
        ..GoalUpdate::default()
    };
    let subagent =
        TaskRecord { session: id.into(), parent: Some(id.into()), ..task(&format!("{id}-{step}")) };
    let change = TaskChange {
        events: &events,
        new_tasks: if step % 5 == 0 { std::slice::from_ref(&subagent) } else { &[] },
        goal: Some(&cost),
        ..TaskChange::default()
    };
    let entries = |messages: &[AppendedMessage]| {
        vec![
            json!({ "step": step, "ask": messages[0].seq, "answer": messages[1].seq }),
            json!({ "end": step }),
        ]
    };
    let outcome = ledger.append_journal(lease, &change, entries, at(step))?;
    Ok(outcome.entries[1].seq)
}

/// Works on a task and acknowledges each step, until the process is killed or has made as many
/// steps as the argument says.
fn work_and_acknowledge(path: &Path, argument: &str) {
    let (id, count) = argument.split_once(' ').unwrap();
    let options = LedgerOptions { durable: count.len() > 3, ..LedgerOptions::default() };
    let mut ledger = Ledger::open(path, &options).unwrap();
    let lease = ledger.take_lease(id, at(1)).unwrap();
    let loaded = ledger.load_task(id).unwrap();
    let mut step = loaded.snapshot.map_or(0, |snapshot| snapshot.state["steps"].as_i64().unwrap());
    step += loaded.entries.iter().filter(|entry| entry.entry["end"].is_i64()).count() as i64;
    let last = step + count.parse::<i64>().unwrap();
    while step < last {
        step += 1;
        let seq = make_step(&mut ledger, &lease, step).unwrap();
        // The parent has read enough, and has closed the pipe.
        if writeln!(std::io::stdout(), "\nacknowledged {step}").is_err() {
            return;
        }
        if step % 7 == 0 {
            ledger.write_snapshot(&lease, seq, &json!({ "steps": step }), at(step)).unwrap();
        }
    }
}

fn start_worker(test: &str, path: &Path, argument: &str) -> Child {
    run_again(test, path, argument).stdout(Stdio::piped()).spawn().unwrap()
}

/// Reads until the child has acknowledged `count` steps or has ended. Returns the number of the
/// last acknowledged step.
fn read_acknowledged(child: &mut Child, count: u64) -> i64 {
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let steps = lines.map_while(Result::ok).filter_map(|line| {
        line.strip_prefix("acknowledged ").map(|step| step.parse::<i64>().unwrap())
    });
    let mut last = 0;
    for (seen, step) in (1..).zip(steps) {
        last = step;
        if seen == count {
            break;
        }
    }
    last
}

/// Asserts that every step is recorded either completely or not at all. Returns the number of
/// steps.
fn assert_consistent(ledger: &Ledger, id: &str) -> i64 {
    let entries: Vec<Value> =
        ledger.read_journal(id, 0).unwrap().into_iter().map(|entry| entry.entry).collect();
    let messages = ledger.messages(id, MessageFilter::All).unwrap();
    let steps = entries.len() as i64 / 2;
    assert_eq!((entries.len() % 2, messages.len() as i64), (0, 2 * steps));
    for (step, pair) in (1..).zip(entries.chunks(2)) {
        let (ask, answer) = (2 * step - 1, 2 * step);
        assert_eq!(pair[0], json!({ "step": step, "ask": ask, "answer": answer }));
        assert_eq!(pair[1], json!({ "end": step }));
        let text =
            |seq: i64| messages[seq as usize - 1].content.as_ref().unwrap().as_str().unwrap();
        assert_eq!(text(ask), format!("ask {step}"));
        assert!(text(answer).starts_with(&format!("answer {step} ")));
    }
    let session = ledger.session(id).unwrap();
    assert_eq!((session.api_call_count, session.tokens.input), (steps, 10 * steps));
    let spent = ledger.goal(id).unwrap().spent;
    assert_eq!((spent.turns, spent.tokens), (steps, 10 * steps));
    let children = TaskFilter { parent: Some(id.into()), ..TaskFilter::default() };
    assert_eq!(ledger.tasks(&children).unwrap().len() as i64, steps / 5);
    steps
}

#[test]
fn a_killed_process_leaves_no_incomplete_step() {
    if let Some((path, argument)) = child_arguments() {
        return work_and_acknowledge(&path, &argument);
    }
    let mut fixture = Fixture::new();
    create_work(&mut fixture.ledger, "k");
    let mut last = 0;
    for round in 1..=12 {
        // Odd rounds sync each commit.
        let count = if round % 2 == 0 { "999" } else { "100000" };
        let argument = format!("k {count}");
        let test = "task_processes::a_killed_process_leaves_no_incomplete_step";
        let mut child = start_worker(test, &fixture.path(), &argument);
        last = read_acknowledged(&mut child, 1 + random_below(150)).max(last);
        child.kill().unwrap();
        child.wait().unwrap();
        let steps = assert_consistent(&fixture.ledger, "k");
        assert!(steps >= last, "{steps} of {last}");
        assert!(fixture.ledger.running_tasks().unwrap().is_empty(), "the kernel freed the lock");
        assert_eq!(fixture.ledger.task("k").unwrap().epoch, round);
        let loaded = fixture.ledger.load_task("k").unwrap();
        if let Some(snapshot) = loaded.snapshot {
            assert_eq!(snapshot.seq, 2 * snapshot.state["steps"].as_i64().unwrap());
            assert_eq!(loaded.entries.len() as i64, 2 * steps - snapshot.seq);
        }
    }
    let report = fixture.ledger.verify(&|_, _| {}).unwrap();
    assert!(report.whole, "{:?}", report.problems);
}

#[test]
fn eight_processes_that_work_on_separate_tasks_lose_nothing() {
    if let Some((path, argument)) = child_arguments() {
        return work_and_acknowledge(&path, &argument);
    }
    let mut fixture = Fixture::new();
    let ids: Vec<String> = (0..8).map(|number| format!("w{number}")).collect();
    ids.iter().for_each(|id| create_work(&mut fixture.ledger, id));
    let test = "task_processes::eight_processes_that_work_on_separate_tasks_lose_nothing";
    let mut children: Vec<Child> =
        ids.iter().map(|id| start_worker(test, &fixture.path(), &format!("{id} 60"))).collect();
    for (child, id) in children.iter_mut().zip(&ids) {
        assert_eq!(read_acknowledged(child, u64::MAX), 60);
        assert!(child.wait().unwrap().success(), "{id} failed");
    }
    for id in &ids {
        assert_eq!(assert_consistent(&fixture.ledger, id), 60);
    }
    assert!(fixture.ledger.verify(&|_, _| {}).unwrap().whole);
}

/// Takes the lease as often as the argument says. Each time, makes a step that consists of two
/// appends.
fn compete_for_lease(path: &Path, argument: &str) {
    let (name, count) = argument.split_once(' ').unwrap();
    let mut left: u32 = count.parse().unwrap();
    let mut ledger = Ledger::open(path, &LedgerOptions::default()).unwrap();
    ledger.set_wait(FOREVER);
    while left > 0 {
        let lease = match ledger.take_lease("t", at(1)) {
            Err(LedgerError::TaskRunning(_)) => {
                std::thread::yield_now();
                continue;
            }
            lease => lease.unwrap(),
        };
        for part in ["begin", "end"] {
            let entry = json!([part, name, left]);
            ledger.append_journal(&lease, &TaskChange::default(), |_| vec![entry], at(1)).unwrap();
        }
        left -= 1;
    }
}

#[test]
fn processes_that_compete_for_a_lease_never_overlap() {
    if let Some((path, argument)) = child_arguments() {
        return compete_for_lease(&path, &argument);
    }
    let fixture = Fixture::with_task();
    let test = "task_processes::processes_that_compete_for_a_lease_never_overlap";
    let children: Vec<Child> =
        (0..4).map(|name| start_worker(test, &fixture.path(), &format!("{name} 25"))).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let entries = fixture.ledger.read_journal("t", 0).unwrap();
    assert_eq!(entries.len(), 200);
    for (epoch, pair) in (1..).zip(entries.chunks(2)) {
        assert_eq!((pair[0].epoch, pair[1].epoch), (epoch, epoch));
        assert_eq!((&pair[0].entry[0], &pair[1].entry[0]), (&json!("begin"), &json!("end")));
        assert_eq!(pair[0].entry[1], pair[1].entry[1]);
    }
}

/// Makes a step whenever a line arrives, and answers with the result.
fn step_on_command(path: &Path) {
    let mut ledger = Ledger::open(path, &LedgerOptions::default()).unwrap();
    let lease = ledger.take_lease("t", at(1)).unwrap();
    let mut out = std::io::stdout();
    for (step, _) in (1..).zip(std::io::stdin().lines().map_while(Result::ok)) {
        let answer = match make_step(&mut ledger, &lease, step) {
            Ok(_) => "written".to_owned(),
            Err(error) => format!("{error:?}"),
        };
        writeln!(out, "\nanswer {answer}").unwrap();
    }
}

fn read_answer(lines: &mut Lines<BufReader<ChildStdout>>) -> String {
    let answer =
        |line: std::io::Result<String>| line.unwrap().strip_prefix("answer ").map(str::to_owned);
    lines.find_map(answer).unwrap()
}

#[test]
fn a_process_whose_lease_was_seized_writes_nothing_more() {
    if let Some((path, _)) = child_arguments() {
        return step_on_command(&path);
    }
    let mut fixture = Fixture::new();
    create_work(&mut fixture.ledger, "t");
    let test = "task_processes::a_process_whose_lease_was_seized_writes_nothing_more";
    let mut child = run_again(test, &fixture.path(), "")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut commands = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    writeln!(commands, "step").unwrap();
    assert_eq!(read_answer(&mut lines), "written");

    let refused = fixture.ledger.take_lease("t", at(2));
    assert!(matches!(refused, Err(LedgerError::TaskRunning(_))), "{refused:?}");
    let lease = fixture.ledger.seize_lease("t", at(3)).unwrap();
    writeln!(commands, "step").unwrap();
    let answer = read_answer(&mut lines);
    assert_eq!(answer, r#"Fenced { task: "t", epoch: 1, current: 2 }"#);
    assert_eq!(assert_consistent(&fixture.ledger, "t"), 1);
    make_step(&mut fixture.ledger, &lease, 2).unwrap();
    assert_eq!(assert_consistent(&fixture.ledger, "t"), 2);
    drop(commands);
    child.wait().unwrap();
    assert_eq!(fixture.ledger.running_tasks().unwrap().len(), 1, "the new lease has its own lock");
}
