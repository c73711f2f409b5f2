//! `takeback hook`: what agents run when something happens.
//!
//! Whatever goes wrong inside, the agent must not notice: nothing on standard output, exit code 0.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use serde_json::value::RawValue;
use takeback_undo::{Event, Handled, Report, ToolCall, Turn, TurnId};

use crate::background;
use crate::config::Config;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// Report what an agent does: one JSON object on standard input
///
/// {"event": "session_start" | "turn_start" | "before_tool" | "after_tool" | "turn_end" |
/// "session_end", "agent", "session", "parent", "turn", "call", "tool", "input", "outcome", "cwd",
/// "prompt", "model"}. {"command": "…"} in "input" marks a shell call, {"path": "…"} a file.
#[derive(Args)]
#[command(after_help = "\
Examples:
  echo '{\"event\": \"turn_start\", \"agent\": \"mine\", \"session\": \"1\", \"prompt\": \"tidy up\"}' | takeback hook generic
  echo '{\"event\": \"before_tool\", \"agent\": \"mine\", \"session\": \"1\", \"tool\": \"bash\", \"input\": {\"command\": \"rm -rf src\"}}' | takeback hook generic")]
pub(crate) struct Arguments {
    /// Whose format: `generic`
    #[arg(value_name = "AGENT", value_parser = ["generic"])]
    agent: String,
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
    let failures = match handle(arguments, context) {
        Ok(failures) => failures,
        Err(failure) => vec![failure.to_string()],
    };
    failures.iter().for_each(|failure| eprintln!("takeback: {}", output::disarm(failure)));
    match arguments.strict && !failures.is_empty() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
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
fn handle(arguments: &Arguments, context: &Context) -> Result<Vec<String>, Failure> {
    if context.is_switched_off() {
        return Ok(Vec::new());
    }
    // With a configuration that cannot be read, everything is protected as by default.
    let (config, mut failures) = match Config::read(&context.home) {
        Ok(config) => (config, Vec::new()),
        Err(failure) => (Config::default(), vec![failure.to_string()]),
    };
    let keeper = context.keeper_with(config);
    if !keeper.settings().enabled {
        return Ok(Vec::new());
    }
    let mut input = Vec::new();
    let read = std::io::stdin().lock().take(MAX_INPUT).read_to_end(&mut input);
    let report = match read {
        Ok(_) => report(&input, context),
        Err(error) => Err(format!("cannot read the event: {error}")),
    };
    let report = report.unwrap_or_else(|message| {
        failures.push(message);
        None
    });
    let place = report.as_ref().map_or(&context.directory, |report| &report.directory);
    let place = keeper.root(place).unwrap_or(place.clone());
    failures.iter().for_each(|failure| keeper.note_failure(&place, failure));
    // Nothing: it cannot be read, or is something that this version does not know.
    let Some(report) = report else { return Ok(failures) };
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
                Some(later) => background::later(context, &later),
                None => background::upkeep(context, &keeper),
            }
        }
        Err(mpsc::RecvTimeoutError::Timeout) => {
            // This process ends, and with it what it began; another one does it again, and says so
            // when it is done.
            keeper.note_missed(&place, LATE);
            let turn = keeper.current_turn(&report).unwrap_or_else(unknown);
            let turn = serde_json::to_string(&turn).expect("plain data becomes JSON");
            let words = ["hook", arguments.agent.as_str(), "--late", turn.as_str()];
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
    Ok(failures)
}

/// What was reported; nothing if it is of no interest. A field that is not what it should be, or
/// that cannot be read, is as good as none: what can be protected is protected.
fn report(input: &[u8], context: &Context) -> Result<Option<Report>, String> {
    let unreadable = |why: &str| format!("the event on standard input cannot be read: {why}");
    let wire: Fields = serde_json::from_slice(input)
        .or_else(|error| serde_json::from_slice(&mended(input)).map_err(|_| error))
        .map_err(|error| unreadable(&error.to_string()))?;
    let field = |key: &str| serde_json::from_str::<Value>(wire.get(key)?.get()).ok();
    let string = |key: &str| match field(key) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    let text = |key: &str| match field(key) {
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => string(key),
    };
    let event = string("event").ok_or_else(|| unreadable("it does not say which it is"))?;
    let call = ToolCall {
        id: text("call").filter(|id| !id.is_empty()),
        tool: text("tool").unwrap_or_default(),
        input: wire.get("input").map(|input| value(input)).unwrap_or_default(),
        always: false,
    };
    let outcome = field("outcome").filter(|outcome| !outcome.is_null());
    let outcome = outcome.map(|outcome| text("outcome").unwrap_or_else(|| outcome.to_string()));
    let event = match event.as_str() {
        "session_start" => Event::SessionStart,
        "turn_start" => Event::TurnStart { prompt: text("prompt").unwrap_or_default() },
        "before_tool" => Event::BeforeTool(call),
        "after_tool" => Event::AfterTool { call, outcome },
        "turn_end" => Event::TurnEnd,
        "session_end" => Event::SessionEnd,
        _ => return Ok(None),
    };
    let turn = match field("turn") {
        Some(Value::Number(number)) if number.is_i64() => number.as_i64().map(TurnId::Number),
        _ => text("turn").map(TurnId::Name),
    };
    Ok(Some(Report {
        agent: text("agent").filter(|agent| !agent.is_empty()).unwrap_or("generic".into()),
        session: text("session").unwrap_or("default".into()),
        parent: text("parent"),
        turn,
        directory: context.directory.join(string("cwd").map(PathBuf::from).unwrap_or_default()),
        model: text("model"),
        event,
    }))
}

/// The fields of an object, each to be read by itself.
type Fields = BTreeMap<String, Box<RawValue>>;

/// A value; of an object that cannot be read as a whole (too deep, numbers too large), what can.
fn value(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap_or_else(|_| {
        let fields: Fields = serde_json::from_str(raw.get()).unwrap_or_default();
        let fields = fields.into_iter();
        let read =
            fields.filter_map(|(key, raw)| Some((key, serde_json::from_str(raw.get()).ok()?)));
        Value::Object(read.collect())
    })
}

/// JSON as some agents write it: with a byte order mark, or with half of a character where they
/// cut a text.
fn mended(input: &[u8]) -> Vec<u8> {
    let input = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
    let surrogate = |at: usize, range: std::ops::Range<u32>| {
        let digits = input.get(at..at + 6)?.strip_prefix(b"\\u")?;
        let code = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        range.contains(&code).then_some(())
    };
    let (mut out, mut at) = (Vec::with_capacity(input.len()), 0);
    while at < input.len() {
        let length = match input[at] {
            b'\\' if surrogate(at, 0xd800..0xdc00).is_some() => {
                if surrogate(at + 6, 0xdc00..0xe000).is_some() { 12 } else { 0 }
            }
            b'\\' if surrogate(at, 0xdc00..0xe000).is_some() => 0,
            b'\\' => 2,
            _ => 1,
        };
        if length == 0 {
            out.extend_from_slice(br"\ufffd");
            at += 6;
        } else {
            let end = (at + length).min(input.len());
            out.extend_from_slice(&input[at..end]);
            at = end;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_characters_are_mended() {
        let text = |json: &[u8]| serde_json::from_slice::<Value>(&mended(json)).unwrap();
        assert_eq!(text(br#""a\ud83d""#), "a\u{fffd}");
        assert_eq!(text(br#""\udc00a""#), "\u{fffd}a");
        assert_eq!(text(br#""\ud83d\ude00\\ud83d""#), "\u{1f600}\\ud83d");
        assert_eq!(text(b"\xef\xbb\xbf\"a\""), "a");
    }
}
