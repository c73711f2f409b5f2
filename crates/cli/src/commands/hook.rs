//! `takeback hook`: handles an event that an agent reports.
//!
//! No failure may disturb the agent: the exit code is 0, and standard output has nothing but
//! messages for the model.

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
/// `takeback install` makes agents run this. For an agent of your own, `generic` reads {"event": "session_start" | "turn_start" | "before_tool" | "after_tool" | "turn_end" |
/// "session_end", "agent", "session", "parent", "turn", "call", "tool", "input", "outcome", "cwd",
/// "prompt", "model"}. {"command": "…"} in "input" marks a shell call, {"path": "…"} a file.
#[derive(Args)]
#[command(after_help = "\
Examples:
  echo '{\"event\": \"turn_start\", \"agent\": \"mine\", \"session\": \"1\", \"prompt\": \"tidy up\"}' | takeback hook generic
  echo '{\"event\": \"before_tool\", \"agent\": \"mine\", \"session\": \"1\", \"tool\": \"bash\", \"input\": {\"command\": \"rm -rf src\"}}' | takeback hook generic")]
pub(crate) struct Arguments {
    #[arg(value_name = "AGENT", help = format!("The agent whose format is read: {}", agent_names()))]
    agent: String,
    /// The name of the event, for agents whose JSON does not have it
    event: Option<String>,
    /// Refuse a call that cannot be protected, like `strict = true`; `generic` exits with 1
    #[arg(long)]
    strict: bool,
    /// The turn of a call that the agent no longer waits for, as JSON
    #[arg(long, hide = true)]
    late: Option<String>,
}

/// The largest event that is read.
const MAX_INPUT: u64 = 256 << 20;

/// The result of handling an event.
struct EventOutcome {
    failures: Vec<String>,
    /// True if the user prefers a refused call to an unprotected one.
    is_strict: bool,
    /// True if the event is a call that can still be refused.
    is_refusable: bool,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> ExitCode {
    let Some(agent) = find_agent(&arguments.agent) else {
        let message = format!("unknown agent {:?}: use {}", arguments.agent, agent_names());
        return give_up(&message);
    };
    let EventOutcome { failures, is_strict, is_refusable } =
        handle_event(agent, arguments, context);
    failures.iter().for_each(|failure| eprintln!("takeback: {}", output::disarm(failure)));
    if failures.is_empty() || !is_strict || !is_refusable {
        return ExitCode::SUCCESS;
    }
    let (answer, code) = agent.refusal_output(&failures.join("; "));
    // An agent that does not read the answer still sees the exit code.
    answer.iter().for_each(|answer| drop(print_answer(answer)));
    ExitCode::from(code)
}

fn agent_names() -> String {
    AGENTS.iter().map(|agent| agent.name).collect::<Vec<_>>().join(", ")
}

/// True if the arguments, valid or not, name this command.
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

/// Reports an error that kept the hook from doing anything. The exit code is not 2, which tells many
/// agents to refuse the tool call.
pub(crate) fn give_up(message: &str) -> ExitCode {
    eprintln!("takeback: {}", output::disarm_lines(message.trim_end()));
    let is_strict = std::env::args_os().any(|word| word == "--strict");
    if is_strict { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn handle_event(agent: &Agent, arguments: &Arguments, context: &Context) -> EventOutcome {
    let mut outcome =
        EventOutcome { failures: Vec::new(), is_strict: arguments.strict, is_refusable: false };
    let mut input = Vec::new();
    let read = std::io::stdin().lock().take(MAX_INPUT).read_to_end(&mut input);
    let heard = match read {
        Ok(_) => parse_payload(agent, arguments.event.as_deref(), &input, &context.directory)
            .map_err(|error| error.to_string()),
        Err(error) => Err(format!("cannot read the event: {error}")),
    };
    // A rollback works even if checkpoints are switched off.
    if let Ok(Some(ParsedPayload::Slash { command: slash, directory })) = &heard {
        let text = slash::run_slash_command(slash, directory, context);
        outcome.failures.extend(print_answer(&agent.answer_output(&text)).err());
        return outcome;
    }
    let Some((opened, failures)) = reporting::open(context) else { return outcome };
    outcome.failures = failures;
    outcome.is_strict |= opened.settings().strict;
    // An unreadable event counts as a call only if its name says so. `generic` exits with
    // 1 after any failure.
    outcome.is_refusable =
        agent.name == "generic" || agent.is_before_tool(arguments.event.as_deref());
    fired::record_run(&context.home, agent.name);
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
    // There is no report if the event is unreadable or unknown to this version.
    let Some(ParsedPayload::Report { report, event, log }) = heard else { return outcome };
    outcome.is_refusable |= matches!(report.event, ReportedEvent::BeforeTool(_));
    let unknown = || Turn { id: TurnId::Number(0), number: 0 };
    let turn = |json: &String| serde_json::from_str(json).unwrap_or_else(|_| unknown());
    let is_late = arguments.late.is_some();
    let deadline = match arguments.late.as_ref().map(turn) {
        Some(turn) => {
            background::detach_from_terminal();
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
            // The work ends with this process. Another process repeats it and withdraws the failure
            // when it is done.
            let turn = hook::current_turn(&opened, &report).unwrap_or_else(unknown);
            let turn = serde_json::to_string(&turn).expect("plain data becomes JSON");
            let mut words = vec!["hook", agent.name];
            words.extend(arguments.event.as_deref());
            words.extend(["--late", turn.as_str()]);
            outcome.failures.push(
                match background::spawn_takeback(context, &context.directory, words, Some(&input)) {
                    Ok(()) => message,
                    Err(error) => format!("{message}, but it could not be started: {error}"),
                },
            );
        }
        Waited::Broken { message } => outcome.failures.push(message.into()),
    }
    // An agent does not read the output of a hook that fails.
    let fails = outcome.is_strict && outcome.is_refusable && !outcome.failures.is_empty();
    if !is_late && !fails && agent.can_notify_on(event) {
        // Notices that cannot be read now wait for the next event.
        if let Err(failure) = print_notices(agent, event, &opened, &report.session_id()) {
            note(&failure);
            outcome.failures.push(failure);
        }
    }
    outcome
}

/// Takes the notices that wait for a session, and prints them for the model.
fn print_notices(agent: &Agent, event: &str, opened: &Opened, session: &str) -> Result<(), String> {
    let notices = take_notices(opened, session)?;
    let answer = notice_text(&notices).and_then(|text| agent.notice_output(event, &text));
    if let Some(answer) = answer {
        let lost = |error| format!("cannot tell the model which files were restored: {error}");
        print_answer(&answer).map_err(lost)?;
    }
    Ok(())
}

fn print_answer(answer: &str) -> Result<(), String> {
    let mut stdout = std::io::stdout().lock();
    let written = writeln!(stdout, "{answer}").and_then(|()| stdout.flush());
    written.map_err(|error| error.to_string())
}
