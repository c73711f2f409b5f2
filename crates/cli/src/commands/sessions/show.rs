//! `takeback sessions show`: shows one session, as text or in the format of an API.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::Value;
use takeback_ledger::{
    Ledger, MessageFilter, MessageRecord, SessionRecord, Time, Transcript, replay,
};

use super::text;
use crate::context::Context;
use crate::failure::Failure;
use crate::logs;
use crate::output;

/// Show a session with its messages
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback sessions show 'Fix Docker Build'
  takeback sessions show 4f2a --format openai > messages.json")]
pub(super) struct Arguments {
    /// The session: its id, the beginning of its id, or its title
    #[arg(value_name = "SESSION")]
    session: String,
    /// The format of the output [default: text]
    #[arg(long, value_enum)]
    format: Option<ShowFormat>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ShowFormat {
    /// Text to read in a terminal
    Text,
    /// Everything that the ledger has, as JSON
    Json,
    /// The conversation as OpenAI's API expects it, as JSON
    Openai,
    /// The conversation as Anthropic's API expects it, as JSON
    Anthropic,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let ledger = logs::current_ledger(context)?;
    let id = ledger.resolve(&arguments.session)?;
    match arguments.resolve_format(context)? {
        ShowFormat::Text => print_transcript(&ledger.transcript(&id)?),
        ShowFormat::Json => output::print_json(&ledger.transcript(&id)?),
        ShowFormat::Openai => output::print_json(&replay_session(&ledger, &id, replay::openai)?),
        ShowFormat::Anthropic => {
            output::print_json(&replay_session(&ledger, &id, replay::anthropic)?);
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl Arguments {
    fn resolve_format(&self, context: &Context) -> Result<ShowFormat, Failure> {
        match (self.format, context.globals.json) {
            (Some(ShowFormat::Text), true) => {
                Err(Failure::new("--json conflicts with --format text").hint("drop one of them"))
            }
            (Some(format), _) => Ok(format),
            (None, true) => Ok(ShowFormat::Json),
            (None, false) => Ok(ShowFormat::Text),
        }
    }
}

/// Returns the current conversation in the format of an API.
pub(crate) fn replay_session(
    ledger: &Ledger,
    id: &str,
    convert: fn(&SessionRecord, &[MessageRecord]) -> Value,
) -> Result<Value, Failure> {
    Ok(convert(&ledger.session(id)?, &ledger.messages(id, MessageFilter::Current)?))
}

fn print_transcript(transcript: &Transcript) {
    let session = &transcript.session;
    println!("{}", session.title.as_deref().map_or("(no title)".into(), output::disarm));
    session_facts(session).iter().for_each(|(name, value)| println!("  {name:<10} {value}"));
    transcript.messages.iter().for_each(print_message);
}

/// Returns the properties of a session, as names and values.
fn session_facts(session: &SessionRecord) -> Vec<(&'static str, String)> {
    let or_none = |text: &Option<String>| text.as_deref().map(output::disarm);
    let with = |text: String, more: Option<String>| match more {
        Some(more) => format!("{text} ({more})"),
        None => text,
    };
    let time = |time: Option<Time>| time.map(text::local_time);
    let parent = or_none(&session.parent_session_id)
        .map(|parent| with(parent, session.parent_kind.map(|kind| kind.as_str().to_owned())));
    let lines = [
        ("id", Some(output::disarm(&session.id))),
        ("source", Some(output::disarm(&session.source))),
        ("model", or_none(&session.model)),
        (
            "workspace",
            or_none(&session.workspace).map(|path| with(path, or_none(&session.git_branch))),
        ),
        ("parent", parent),
        ("started", time(session.started_at)),
        ("ended", time(session.ended_at).map(|time| with(time, or_none(&session.end_reason)))),
        ("messages", Some(count_messages(session))),
        ("tokens", count_tokens(session)),
        ("cost", text::session_cost(session)),
        ("archived", session.archived.then(|| "yes".to_owned())),
    ];
    lines.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn count_messages(session: &SessionRecord) -> String {
    let calls = match session.tool_call_count {
        0 => String::new(),
        calls => format!(", {}", output::count(calls.try_into().unwrap_or_default(), "tool call")),
    };
    format!("{}{calls}", text::group_digits(session.message_count))
}

fn count_tokens(session: &SessionRecord) -> Option<String> {
    let (input, output) = (session.tokens.input, session.tokens.output);
    let cached = match session.tokens.cache_read {
        0 => String::new(),
        cached => format!(", {} from the cache", text::group_digits(cached)),
    };
    (input + output > 0).then(|| {
        format!("{} in, {} out{cached}", text::group_digits(input), text::group_digits(output))
    })
}

fn print_message(message: &MessageRecord) {
    let marks = [
        message.tool_name.as_deref().map(|name| format!(" {}", output::disarm(name))),
        message.timestamp.map(|time| format!("  {}", text::local_time(time))),
        message.undone.then(|| "  (undone)".to_owned()),
        message.compacted.then(|| "  (compacted)".to_owned()),
    ];
    let marks: String = marks.into_iter().flatten().collect();
    println!("\n[{}] {}{marks}", message.seq, output::disarm(&message.role));
    let mut parts = message.content.as_ref().map(content_parts).unwrap_or_default();
    parts.extend(message.tool_calls.iter().flat_map(tool_calls));
    for part in parts.iter().filter(|part| !part.is_empty()) {
        println!("{}", output::disarm_lines(part.trim_end_matches('\n')));
    }
}

/// Splits the content of a message (a string or a list of blocks) into printable parts.
fn content_parts(content: &Value) -> Vec<String> {
    match content {
        Value::Null => Vec::new(),
        Value::String(text) => vec![text.clone()],
        Value::Array(blocks) => blocks.iter().flat_map(block_parts).collect(),
        other => vec![other.to_string()],
    }
}

fn block_parts(block: &Value) -> Vec<String> {
    match block["type"].as_str() {
        Some("tool_use") => vec![format_call(&block["name"], &block["input"])],
        Some("tool_result") => content_parts(&block["content"]),
        _ if block.is_string() => content_parts(block),
        _ if block["text"].is_string() => content_parts(&block["text"]),
        Some(kind) => vec![format!("[{kind}]")],
        None => vec![shorten_arguments(&block.to_string())],
    }
}

/// Formats the tool calls of a message, in the forms that agents use.
fn tool_calls(calls: &Value) -> Vec<String> {
    let one = |value: &Value| {
        let function = if value["function"].is_object() { &value["function"] } else { value };
        let arguments = &function["arguments"];
        format_call(
            &function["name"],
            if arguments.is_null() { &function["input"] } else { arguments },
        )
    };
    match calls {
        Value::Null => Vec::new(),
        Value::Array(calls) => calls.iter().map(one).collect(),
        other => vec![one(other)],
    }
}

fn format_call(name: &Value, arguments: &Value) -> String {
    let arguments = match arguments {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    format!("→ {}({})", name.as_str().unwrap_or("?"), shorten_arguments(&arguments))
}

/// Shortens arguments to one line of reasonable length, because they may be whole files.
fn shorten_arguments(text: &str) -> String {
    const WIDTH: usize = 200;
    output::shorten(&text.replace('\n', " "), WIDTH)
}
