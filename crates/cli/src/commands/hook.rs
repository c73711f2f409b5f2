//! `takeback hook`: what agents run when something happens.
//!
//! Whatever goes wrong inside, the agent must not notice: exit code 0, and nothing on standard
//! output but what its model has to be told.

use std::io::{Read, Write};
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use clap::Args;
use takeback_agents::{AGENTS, Agent, Heard, agent, notice_text, parse};
use takeback_undo::{Event, Handled, Keeper, Turn, TurnId};

use crate::background;
use crate::config::Config;
use crate::context::Context;
use crate::output;

/// Report what an agent does: one JSON object on standard input
///
/// Agents are made to run this by their configuration. For one that is not known, `generic` takes
/// {"event": "session_start" | "turn_start" | "before_tool" | "after_tool" | "turn_end" |
/// "session_end", "agent", "session", "parent", "turn", "call", "tool", "input", "outcome", "cwd",
/// "prompt", "model"}. {"command": "…"} in "input" marks a shell call, {"path": "…"} a file.
#[derive(Args)]
#[command(after_help = "\
Examples:
  echo '{\"event\": \"turn_start\", \"agent\": \"mine\", \"session\": \"1\", \"prompt\": \"tidy up\"}' | takeback hook generic
  echo '{\"event\": \"before_tool\", \"agent\": \"mine\", \"session\": \"1\", \"tool\": \"bash\", \"input\": {\"command\": \"rm -rf src\"}}' | takeback hook generic")]
pub(crate) struct Arguments {
    #[arg(value_name = "AGENT", help = format!("Whose format: {}", names()))]
    agent: String,
    /// What happened, for agents that do not say it in their JSON
    event: Option<String>,
    /// Fail with exit code 1 instead of going on unprotected
    #[arg(long)]
    strict: bool,
    /// The agent was told to go on already: the turn it was in, as JSON
    #[arg(long, hide = true)]
    late: Option<String>,
}

/// What is said, and remembered until the background is done, if a capture takes too long.
const LATE: &str = "not done within timeout_ms, so it went on in the background";

/// More than this is nothing that an agent says.
const MAX_INPUT: u64 = 256 << 20;

pub(crate) fn run(arguments: &Arguments, context: &Context) -> ExitCode {
    let failures = match agent(&arguments.agent) {
        Some(agent) => handle(agent, arguments, context),
        None => vec![format!("there is no agent {:?}: it is {}", arguments.agent, names())],
    };
    failures.iter().for_each(|failure| eprintln!("takeback: {}", output::disarm(failure)));
    match arguments.strict && !failures.is_empty() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

fn names() -> String {
    AGENTS.iter().map(|agent| agent.name).collect::<Vec<_>>().join(", ")
}

/// Whether the arguments, right or wrong, ask for a hook.
pub(crate) fn is_asked_for() -> bool {
    let mut words = std::env::args_os().skip(1);
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("-C" | "--home" | "--color") => drop(words.next()),
            Some(option) if option.starts_with('-') => {}
            word => return word == Some("hook"),
        }
    }
    false
}

/// Nothing could be done at all. To many agents 2 means: do not run the tool.
pub(crate) fn give_up(message: &str) -> ExitCode {
    eprintln!("takeback: {}", output::disarm_lines(message.trim_end()));
    let is_strict = std::env::args_os().any(|word| word == "--strict");
    if is_strict { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// What went wrong.
fn handle(agent: &Agent, arguments: &Arguments, context: &Context) -> Vec<String> {
    if context.is_switched_off() {
        return Vec::new();
    }
    // With a configuration that cannot be read, everything is protected as by default.
    let (config, mut failures) = match Config::read(&context.home) {
        Ok(config) => (config, Vec::new()),
        Err(failure) => (Config::default(), vec![failure.to_string()]),
    };
    let keeper = context.keeper_with(config);
    if !keeper.settings().enabled {
        return Vec::new();
    }
    let mut input = Vec::new();
    let read = std::io::stdin().lock().take(MAX_INPUT).read_to_end(&mut input);
    let heard = match read {
        Ok(_) => parse(agent, arguments.event.as_deref(), &input, &context.directory)
            .map_err(|error| error.to_string()),
        Err(error) => Err(format!("cannot read the event: {error}")),
    };
    let heard = heard.unwrap_or_else(|message| {
        failures.push(message);
        None
    });
    let place = heard.as_ref().map_or(&context.directory, |heard| &heard.report.directory);
    let place = keeper.root(place).unwrap_or(place.clone());
    failures.iter().for_each(|failure| keeper.note_failure(&place, failure));
    // Nothing: it cannot be read, or is something that this version does not know.
    let Some(Heard { report, event, log }) = heard else { return failures };
    let unknown = || Turn { id: TurnId::Number(0), number: 0 };
    let turn = |json: &String| serde_json::from_str(json).unwrap_or_else(|_| unknown());
    let late: Option<Turn> = arguments.late.as_ref().map(turn);
    // Only captures may take long; the rest waits for nothing but the ledger, and that not long.
    let captures = matches!(report.event, Event::BeforeTool(_) | Event::AfterTool { .. });
    let limit = Duration::from_millis(keeper.settings().timeout_ms);
    let is_late = late.is_some();
    if is_late {
        background::detach();
    }
    let (sender, receiver) = mpsc::channel();
    let keeper = Arc::new(keeper);
    let (worker, work) = (keeper.clone(), report.clone());
    thread::spawn(move || {
        let handled = match late {
            Some(turn) => worker.handle_late(&work, turn),
            None => worker.handle(&work),
        };
        // Nobody listens any more if it took too long.
        let _ = sender.send(handled);
    });
    let answer = if is_late || !captures {
        receiver.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected)
    } else {
        receiver.recv_timeout(limit)
    };
    match answer {
        Ok(Handled { failures: new, later, .. }) => {
            if is_late && new.is_empty() {
                keeper.withdraw_missed(&place, LATE);
            }
            failures.extend(new);
            match later {
                Some(later) => {
                    background::later(context, &later, &report.session_id(), log.as_deref());
                }
                None => background::upkeep(context, &keeper),
            }
        }
        Err(mpsc::RecvTimeoutError::Timeout) => {
            // This process ends, and with it what it began; another one does it again, and says so
            // when it is done.
            keeper.note_missed(&place, LATE);
            let turn = keeper.current_turn(&report).unwrap_or_else(unknown);
            let turn = serde_json::to_string(&turn).expect("plain data becomes JSON");
            let mut words = vec!["hook", agent.name];
            words.extend(arguments.event.as_deref());
            words.extend(["--late", turn.as_str()]);
            let message =
                format!("not done within {} ms: it goes on in the background", limit.as_millis());
            failures.push(
                match background::start(context, &context.directory, words, Some(&input)) {
                    Ok(()) => message,
                    Err(error) => format!("{message}, if that can be started: {error}"),
                },
            );
        }
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            let message = "something went wrong inside: please report this";
            keeper.note_missed(&place, message);
            failures.push(message.into());
        }
    }
    // An agent does not read what comes with a failure.
    let fails = arguments.strict && !failures.is_empty();
    if !is_late && !fails && agent.speaks_on(event) {
        // What cannot be told now is told later.
        if let Err(failure) = tell(agent, event, &keeper, &report.session_id()) {
            keeper.note_failure(&place, &failure);
            failures.push(failure);
        }
    }
    failures
}

/// Tells the model what happened to its files behind its back: once, and nothing else.
fn tell(agent: &Agent, event: &str, keeper: &Keeper, session: &str) -> Result<(), String> {
    let notices = keeper.take_notices(session)?;
    let answer = notice_text(&notices).and_then(|text| agent.say(event, &text));
    if let Some(answer) = answer {
        let mut stdout = std::io::stdout().lock();
        let written = writeln!(stdout, "{answer}").and_then(|()| stdout.flush());
        written.map_err(|error| format!("the model could not be told what changed: {error}"))?;
    }
    Ok(())
}
