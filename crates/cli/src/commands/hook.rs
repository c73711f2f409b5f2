//! `takeback hook`: handles an event that an agent reports.
//!
//! A failure must not disturb the agent: except in strict mode, the exit code is 0 unless a call is
//! refused. Standard output carries only messages for the model and for the user.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use takeback_agents::{
    AGENTS, Agent, ParsedPayload, find_agent, parse_payload, tampering_text, warning_text,
};
use takeback_undo::rollback::{notice_text, take_notices};
use takeback_undo::{Deadline, Opened, Report, ReportedEvent, Turn, TurnId, Unprotected, hook};

use super::slash;
use crate::background;
use crate::context::{self, Context};
use crate::event_input::{TimedInput, read_event};
use crate::fired;
use crate::output;
use crate::reporting::{
    self, PendingReport, ReportView, Waited, strict_refusal, tampering_refusal, workspace_of,
};
use crate::takeover::{self, HookDuty};

/// Report what an agent does: one JSON object on standard input
///
/// `takeback install` makes agents run this. For an agent of your own, `generic` reads {"event":
/// "session_start" | "turn_start" | "before_tool" | "after_tool" | "turn_end" | "session_end",
/// "agent", "session", "parent", "turn", "call", "tool", "input", "outcome", "cwd", "prompt",
/// "model"}. In "input", {"command": "…"} marks a shell command, and {"path": "…"} names a file.
#[derive(Args)]
#[command(after_help = "\
Examples:
  echo '{\"event\": \"turn_start\", \"agent\": \"mine\", \"session\": \"1\", \"prompt\": \"tidy up\"}' | takeback hook generic
  echo '{\"event\": \"before_tool\", \"agent\": \"mine\", \"session\": \"1\", \"tool\": \"bash\", \"input\": {\"command\": \"rm -rf src\"}}' | takeback hook generic")]
pub(crate) struct Arguments {
    #[arg(value_name = "AGENT", help = format!("The agent that sends the event: {}", agent_names()))]
    agent: String,
    /// The name of the event, for agents whose JSON does not include it
    event: Option<String>,
    /// Refuse a call that cannot be protected, as with `strict = true`; `generic` exits with 1
    #[arg(long)]
    strict: bool,
    /// The turn of a call that the agent is no longer waiting for, as JSON
    #[arg(long, hide = true)]
    late: Option<String>,
    /// Another process refuses the call if this one ends abnormally
    #[arg(long, hide = true)]
    supervised: bool,
}

/// The maximum number of problems that are printed.
const MAX_PRINTED: usize = 50;

/// The maximum size of an event, in bytes.
const MAX_INPUT: u64 = 256 << 20;

/// The result of handling an event.
#[derive(Default)]
struct EventOutcome {
    failures: Vec<String>,
    unprotected: Vec<Unprotected>,
    /// True in strict mode, which refuses unprotected calls.
    is_strict: bool,
    /// True if the event is a call that can still be refused.
    is_refusable: bool,
    /// The answer that `generic` prints as JSON.
    view: ReportView,
}

impl EventOutcome {
    /// True if the agent is told not to run the tool.
    fn is_refused(&self) -> bool {
        let is_unsafe = self.unprotected.iter().any(|lost| !lost.is_replaceable);
        let is_missed = self.is_strict && (!self.failures.is_empty() || is_unsafe);
        self.is_refusable && (self.view.refused || is_missed)
    }

    /// Describes why the call is refused.
    fn refusal_reason(&self) -> String {
        if self.view.refused {
            return tampering_refusal(&self.view.tampering);
        }
        let problems = self.problems();
        let reasons = &problems[..problems.len().min(MAX_PRINTED)];
        strict_refusal(reasons)
    }

    /// Lists everything that went wrong. Unprotected paths are listed if they are new, or if they
    /// are the reason for a refusal.
    fn problems(&self) -> Vec<String> {
        let is_refused = self.is_refused();
        let is_listed = |lost: &&Unprotected| match is_refused {
            true => !lost.is_replaceable,
            false => lost.is_new,
        };
        let mut problems = self.failures.clone();
        for lost in self.unprotected.iter().filter(is_listed).map(ToString::to_string) {
            if !problems.contains(&lost) {
                problems.push(lost);
            }
        }
        problems
    }
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> ExitCode {
    let agent = find_agent(&arguments.agent).filter(|agent| !agent.is_editor());
    let Some(agent) = agent else {
        let message = format!("unknown agent {:?}: use {}", arguments.agent, agent_names());
        return give_up(&message);
    };
    let settings = reporting::open(context).map(|(opened, _)| opened.settings().clone());
    let limit = settings.as_ref().map_or(0, |settings| settings.timeout_ms);
    let input = TimedInput::stdin(Duration::from_millis(limit));
    let input = read_event(input.take(MAX_INPUT));
    let is_strict = || settings.is_some_and(|settings| arguments.strict || settings.strict);
    if let Ok(input) = &input
        && arguments.late.is_none()
        && !arguments.supervised
        && is_strict()
        && let Ok(status) = run_supervised(input)
    {
        return judge_supervised(agent, arguments, context, input, status);
    }
    let mut outcome = handle_event(agent, arguments, context, input);
    print_problems(&outcome.problems());
    let (is_refused, reason) = (outcome.is_refused(), outcome.refusal_reason());
    if is_refused && outcome.view.refused {
        eprintln!("{}", output::disarm(&reason));
    }
    if agent.name == "generic" && context.globals.json {
        outcome.view.unprotected = outcome.unprotected.iter().map(Into::into).collect();
        outcome.view.failures = outcome.failures.clone();
        outcome.view.refused = is_refused;
        output::print_json(&outcome.view);
    }
    if !is_refused {
        return ExitCode::SUCCESS;
    }
    let (answer, code) = agent.refusal_output(&reason);
    // An agent that does not read the answer still sees the exit code.
    answer.iter().for_each(|answer| drop(print_answer(answer)));
    ExitCode::from(code)
}

/// Handles the event in another process. In strict mode, a call must not be allowed just because
/// the process that handles it is killed or runs out of memory.
fn run_supervised(input: &[u8]) -> io::Result<ExitStatus> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(std::env::args_os().skip(1)).arg("--supervised").stdin(Stdio::piped());
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // If this fails, the process has ended early, and its exit status shows that.
        let _ = stdin.write_all(input);
    }
    child.wait()
}

/// Passes on the exit code of the supervised process, or refuses the call if that process ended
/// abnormally.
fn judge_supervised(
    agent: &Agent,
    arguments: &Arguments,
    context: &Context,
    input: &[u8],
    status: ExitStatus,
) -> ExitCode {
    let event = arguments.event.as_deref();
    let reason = format!("takeback ended abnormally, and strict mode refuses such calls: {status}");
    let (answer, code) = agent.refusal_output(&reason);
    match status.code() {
        Some(0) => return ExitCode::SUCCESS,
        Some(refused) if refused == i32::from(code) => return ExitCode::from(code),
        _ => {}
    }
    let is_call = match parse_payload(agent, event, input, &context.directory) {
        Ok(Some(ParsedPayload::Report { report, .. })) => {
            matches!(report.event, ReportedEvent::BeforeTool(_))
        }
        Ok(_) => false,
        Err(_) => agent.is_before_tool(event),
    };
    eprintln!("takeback: ended abnormally, {status}");
    if !is_call && agent.name != "generic" {
        return ExitCode::SUCCESS;
    }
    answer.iter().for_each(|answer| drop(print_answer(answer)));
    ExitCode::from(code)
}

fn print_problems(problems: &[String]) {
    let (listed, more) = problems.split_at(problems.len().min(MAX_PRINTED));
    listed.iter().for_each(|problem| eprintln!("takeback: {}", output::disarm(problem)));
    if !more.is_empty() {
        eprintln!("takeback: and {} more", more.len());
    }
}

fn agent_names() -> String {
    let agents = AGENTS.iter().filter(|agent| !agent.is_editor());
    agents.map(|agent| agent.name).collect::<Vec<_>>().join(", ")
}

/// True if the command line, valid or not, names this command.
pub(crate) fn is_asked_for() -> bool {
    let mut words = std::env::args_os().skip(1);
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("-C" | "--home" | "--profile" | "--color" | "--end-after") => drop(words.next()),
            Some(option) if option.starts_with('-') => {}
            word => return word == Some("hook"),
        }
    }
    false
}

/// Reports an error that kept the hook from doing anything. The exit code is never 2, because 2
/// tells many agents to refuse the tool call.
pub(crate) fn give_up(message: &str) -> ExitCode {
    eprintln!("takeback: {}", output::disarm_lines(message.trim_end()));
    let is_strict = std::env::args_os().any(|word| word == "--strict");
    if is_strict { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn handle_event(
    agent: &Agent,
    arguments: &Arguments,
    context: &Context,
    input: io::Result<Vec<u8>>,
) -> EventOutcome {
    let mut outcome = EventOutcome { is_strict: arguments.strict, ..EventOutcome::default() };
    let (input, heard) = parse_event(agent, arguments, context, input);
    // A rollback works even if checkpoints are switched off.
    if let Ok(Some(ParsedPayload::Slash { command: slash, directory, log, session })) = &heard {
        let is_headless = agent.is_headless(context::variable, log.as_deref());
        let context = &context.typed_in(session.as_deref());
        let text = slash::run_slash_command(slash, directory, context, is_headless);
        outcome.failures.extend(print_answer(&agent.answer_output(&text)).err());
        return outcome;
    }
    let Some((opened, failures)) = reporting::open(context) else { return outcome };
    outcome.failures = failures;
    outcome.view.enabled = true;
    outcome.is_strict |= opened.settings().strict;
    // An event that cannot be parsed counts as a call only if the hook's argument names an event
    // that comes before a call. In strict mode, `generic` exits with 1 after any failure.
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
    for failure in &outcome.failures {
        opened.note_failure(&workspace_of(&opened, &directory), failure);
    }
    // There is no report if the event cannot be read or is unknown to this version.
    let Some(ParsedPayload::Report { mut report, event, log }) = heard else { return outcome };
    let proxy = context.variable(takeover::VARIABLE).map(PathBuf::from);
    if takeover::join_session(proxy.as_deref(), &mut report) == HookDuty::Nothing {
        return outcome;
    }
    outcome.is_refusable |= matches!(report.event, ReportedEvent::BeforeTool(_));
    outcome.view.session = report.session_id();
    let hook = HookRun { agent, arguments, context, opened: &opened, report: &report };
    hook.handle_report(&input, log.as_deref(), &mut outcome);
    // If the call is refused, the refusal is the hook's only output.
    if arguments.late.is_none() && !outcome.is_refused() {
        // If notices cannot be read, they stay pending until the next event.
        if let Err(failure) = hook.print_output(event, &outcome) {
            opened.note_failure(&workspace_of(&opened, &directory), &failure);
            outcome.failures.push(failure);
        }
    }
    outcome
}

/// Parses the event. Also returns its text, in case another process has to repeat the work.
#[allow(clippy::type_complexity, reason = "the caller destructures the result immediately")]
fn parse_event(
    agent: &Agent,
    arguments: &Arguments,
    context: &Context,
    input: io::Result<Vec<u8>>,
) -> (Vec<u8>, Result<Option<ParsedPayload>, String>) {
    let input = match input {
        Ok(input) => input,
        Err(error) => return (Vec::new(), Err(format!("cannot read the event: {error}"))),
    };
    let heard = parse_payload(agent, arguments.event.as_deref(), &input, &context.directory);
    let heard = match heard {
        // For all other agents, an event that takeback does not need is not an error.
        Ok(None) if agent.name == "generic" => {
            let names: Vec<&str> = agent.events.iter().map(|(name, _)| *name).collect();
            Err(format!("unknown event: use {}", names.join(", ")))
        }
        heard => heard.map_err(|error| error.to_string()),
    };
    (input, heard)
}

/// A report that this process handles.
struct HookRun<'a> {
    agent: &'a Agent,
    arguments: &'a Arguments,
    context: &'a Context,
    opened: &'a Arc<Opened>,
    report: &'a Report,
}

impl HookRun<'_> {
    /// Handles the report, and waits for the result no longer than the agent does.
    fn handle_report(&self, input: &[u8], log: Option<&Path>, outcome: &mut EventOutcome) {
        let turn = |json: &String| serde_json::from_str(json).unwrap_or_else(|_| unknown_turn());
        let deadline = match self.arguments.late.as_ref().map(turn) {
            Some(turn) => {
                background::detach_from_terminal();
                Deadline::passed_in(turn)
            }
            None => Deadline::open(),
        };
        // A late call is already running, so it can no longer be refused.
        if self.arguments.late.is_none() {
            outcome.view.note_tampering(self.opened, self.report);
        }
        // A refused call is protected as well, in case the agent runs it anyway.
        let pending = PendingReport::start(self.opened, self.report, deadline);
        match pending.wait() {
            Waited::Done(handled) => {
                pending.spawn_follow_up(self.context, &handled, log);
                outcome.failures.extend(handled.failures);
                outcome.unprotected = handled.unprotected;
                (outcome.view.checkpoints, outcome.view.missed) =
                    (handled.checkpoints, handled.missed);
            }
            Waited::TooLong { message } => {
                (outcome.view.late, outcome.view.missed) = (true, true);
                outcome.failures.push(self.repeat_later(input, &message));
            }
            Waited::Broken { message } => {
                outcome.view.missed = true;
                outcome.failures.push(message.into());
            }
        }
    }

    /// Starts another process that repeats the work, because the thread that is doing the work ends
    /// with this process. Returns the text of the failure to report. Once the work is done, the new
    /// process withdraws the failure.
    fn repeat_later(&self, input: &[u8], message: &str) -> String {
        let turn = hook::current_turn(self.opened, self.report).unwrap_or_else(unknown_turn);
        let turn = serde_json::to_string(&turn).expect("plain data becomes JSON");
        let mut words = vec!["hook", self.agent.name];
        words.extend(self.arguments.event.as_deref());
        words.extend(["--late", turn.as_str()]);
        let directory = &self.context.directory;
        match background::spawn_takeback(self.context, directory, words, Some(input)) {
            Ok(()) => format!("{message}; the work continues in the background"),
            Err(error) => {
                format!("{message}, and the background process could not be started: {error}")
            }
        }
    }

    /// Prints pending notices for the model, and a warning for the user about unprotected paths.
    fn print_output(&self, event: &str, outcome: &EventOutcome) -> Result<(), String> {
        let session = self.report.session_id();
        let mut notice = None;
        if self.agent.can_notify_on(event) {
            notice = notice_text(&take_notices(self.opened, &session)?);
        }
        let is_call = matches!(self.report.event, ReportedEvent::BeforeTool(_));
        let warning = is_call.then(|| self.write_warning(outcome)).flatten();
        let output = self.agent.combined_output(event, notice.as_deref(), warning.as_deref());
        let lost = |error| format!("cannot tell the model which files were restored: {error}");
        output.map_or(Ok(()), |output| print_answer(&output).map_err(lost))
    }

    /// Composes a warning about problems that the user has not yet been told about.
    fn write_warning(&self, outcome: &EventOutcome) -> Option<String> {
        let new: Vec<&Unprotected> =
            outcome.unprotected.iter().filter(|lost| lost.is_new).collect();
        let is_told = |failure: &&String| {
            outcome.unprotected.iter().any(|lost| lost.to_string() == **failure)
        };
        let others = outcome.failures.iter().filter(|failure| !is_told(failure));
        let others: Vec<String> = others.filter(|_| outcome.view.missed).cloned().collect();
        let is_new = hook::remember_causes(self.opened, &self.report.session_id(), &others);
        let others: Vec<String> = others
            .into_iter()
            .zip(is_new)
            .filter(|(_, is_new)| *is_new)
            .map(|(text, _)| text)
            .collect();
        let tampering = &outcome.view.tampering;
        let tampering = (!tampering.is_empty()).then(|| tampering_text(tampering));
        let texts: Vec<String> = tampering.into_iter().chain(warning_text(&new, &others)).collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }
}

fn unknown_turn() -> Turn {
    Turn { id: TurnId::Number(0), number: 0, prompted: None }
}

fn print_answer(answer: &str) -> Result<(), String> {
    let mut stdout = std::io::stdout().lock();
    let written = writeln!(stdout, "{answer}").and_then(|()| stdout.flush());
    written.map_err(|error| error.to_string())
}
