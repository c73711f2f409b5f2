//! `takeback hook`: what agents run when something happens.
//!
//! Whatever goes wrong inside, the agent must not notice: exit code 0, and nothing on standard
//! output but what its model has to be told.

use std::io::{Read, Write};
use std::process::ExitCode;

use clap::Args;
use takeback_agents::{AGENTS, Agent, ParsedPayload, find_agent, notice_text, parse_payload};
use takeback_undo::rollback::take_notices;
use takeback_undo::{Deadline, Opened, ReportedEvent, Turn, TurnId, hook};

use super::slash;
use crate::background;
use crate::context::Context;
use crate::fired;
use crate::output;
use crate::reporting::{self, PendingReport, Waited, workspace_of};

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
    /// Refuse a call that cannot be protected, as `strict = true` does; `generic`: exit code 1
    #[arg(long)]
    strict: bool,
    /// The agent was told to go on already: the turn it was in, as JSON
    #[arg(long, hide = true)]
    late: Option<String>,
}

/// More than this is nothing that an agent says.
const MAX_INPUT: u64 = 256 << 20;

/// The result of handling an event.
struct EventOutcome {
    failures: Vec<String>,
    /// True if the user wants a call refused rather than unprotected.
    is_strict: bool,
    /// True if the event is a call that can still be refused.
    is_refusable: bool,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> ExitCode {
    let Some(agent) = find_agent(&arguments.agent) else {
        return give_up(&format!("there is no agent {:?}: it is {}", arguments.agent, names()));
    };
    let EventOutcome { failures, is_strict, is_refusable } = handle(agent, arguments, context);
    failures.iter().for_each(|failure| eprintln!("takeback: {}", output::disarm(failure)));
    if failures.is_empty() || !is_strict || !is_refusable {
        return ExitCode::SUCCESS;
    }
    let (answer, code) = agent.refusal_output(&failures.join("; "));
    // If it cannot be said, there is nobody to say it to.
    answer.iter().for_each(|answer| drop(print(answer)));
    ExitCode::from(code)
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

fn handle(agent: &Agent, arguments: &Arguments, context: &Context) -> EventOutcome {
    let mut outcome =
        EventOutcome { failures: Vec::new(), is_strict: arguments.strict, is_refusable: false };
    let mut input = Vec::new();
    let read = std::io::stdin().lock().take(MAX_INPUT).read_to_end(&mut input);
    let heard = match read {
        Ok(_) => parse_payload(agent, arguments.event.as_deref(), &input, &context.directory)
            .map_err(|error| error.to_string()),
        Err(error) => Err(format!("cannot read the event: {error}")),
    };
    // Going back is possible also where nothing is captured.
    if let Ok(Some(ParsedPayload::Slash { command: slash, directory })) = &heard {
        let text = slash::answer(slash, directory, context);
        outcome.failures.extend(print(&agent.answer_output(&text)).err());
        return outcome;
    }
    let Some((opened, failures)) = reporting::open(context) else { return outcome };
    outcome.failures = failures;
    outcome.is_strict |= opened.settings().strict;
    // What cannot be read may be a call only if that was said elsewhere. Our own format asks for
    // the code of whatever fails.
    outcome.is_refusable =
        agent.name == "generic" || agent.is_before_tool(arguments.event.as_deref());
    fired::now(&context.home, agent.name);
    let heard = heard.unwrap_or_else(|message| {
        outcome.failures.push(message);
        None
    });
    let directory = match &heard {
        Some(ParsedPayload::Report { report, .. }) => report.directory.clone(),
        _ => context.directory.clone(),
    };
    let note = |failure: &String| {
        opened.note_failure(&workspace_of(&opened, &directory), failure);
    };
    outcome.failures.iter().for_each(note);
    // Nothing: it cannot be read, or is something that this version does not know.
    let Some(ParsedPayload::Report { report, event, log }) = heard else { return outcome };
    outcome.is_refusable |= matches!(report.event, ReportedEvent::BeforeTool(_));
    let unknown = || Turn { id: TurnId::Number(0), number: 0 };
    let turn = |json: &String| serde_json::from_str(json).unwrap_or_else(|_| unknown());
    let is_late = arguments.late.is_some();
    let deadline = match arguments.late.as_ref().map(turn) {
        Some(turn) => {
            background::detach();
            Deadline::passed_in(turn)
        }
        None => Deadline::open(),
    };
    let pending = PendingReport::start(&opened, &report, deadline);
    match pending.wait() {
        Waited::Done(handled) => {
            pending.spawn_follow_up(context, &handled, log.as_deref());
            outcome.failures.extend(handled.failures);
        }
        Waited::TooLong { message } => {
            // This process ends, and with it what it began; another one does it again, and says so
            // when it is done.
            let turn = hook::current_turn(&opened, &report).unwrap_or_else(unknown);
            let turn = serde_json::to_string(&turn).expect("plain data becomes JSON");
            let mut words = vec!["hook", agent.name];
            words.extend(arguments.event.as_deref());
            words.extend(["--late", turn.as_str()]);
            outcome.failures.push(
                match background::start(context, &context.directory, words, Some(&input)) {
                    Ok(()) => message,
                    Err(error) => format!("{message}, if that can be started: {error}"),
                },
            );
        }
        Waited::Broken { message } => outcome.failures.push(message.into()),
    }
    // An agent does not read what comes with a failure.
    let fails = outcome.is_strict && outcome.is_refusable && !outcome.failures.is_empty();
    if !is_late && !fails && agent.can_notify_on(event) {
        // What cannot be looked up now is told later.
        if let Err(failure) = tell(agent, event, &opened, &report.session_id()) {
            note(&failure);
            outcome.failures.push(failure);
        }
    }
    outcome
}

/// Tells the model what happened to its files behind its back: once, and nothing else.
fn tell(agent: &Agent, event: &str, opened: &Opened, session: &str) -> Result<(), String> {
    let notices = take_notices(opened, session)?;
    let answer = notice_text(&notices).and_then(|text| agent.notice_output(event, &text));
    if let Some(answer) = answer {
        let lost = |error| format!("the model could not be told what changed: {error}");
        print(&answer).map_err(lost)?;
    }
    Ok(())
}

fn print(answer: &str) -> Result<(), String> {
    let mut stdout = std::io::stdout().lock();
    let written = writeln!(stdout, "{answer}").and_then(|()| stdout.flush());
    written.map_err(|error| error.to_string())
}
