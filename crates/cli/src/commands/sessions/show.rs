//! `takeback sessions show`: one session, to read or to go on with.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::Value;
use takeback_ledger::{Ledger, MessageRecord, SessionRecord, Time, Transcript, Which, replay};

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
    /// Its id, its title, or the beginning of its id
    #[arg(value_name = "SESSION")]
    session: String,
    /// To read, all there is as JSON, or what a model would be sent
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Openai,
    Anthropic,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let ledger = logs::current_ledger(context)?;
    let id = ledger.resolve(&arguments.session)?;
    match arguments.format {
        Format::Text if !context.globals.json => show(&ledger.transcript(&id)?),
        Format::Text | Format::Json => output::print_json(&ledger.transcript(&id)?),
        Format::Openai => output::print_json(&conversation(&ledger, &id, replay::openai)?),
        Format::Anthropic => output::print_json(&conversation(&ledger, &id, replay::anthropic)?),
    }
    Ok(ExitCode::SUCCESS)
}

/// What a model would be sent.
pub(crate) fn conversation(
    ledger: &Ledger,
    id: &str,
    form: fn(&SessionRecord, &[MessageRecord]) -> Value,
) -> Result<Value, Failure> {
    Ok(form(&ledger.session(id)?, &ledger.messages(id, Which::Current)?))
}

fn show(transcript: &Transcript) {
    let session = &transcript.session;
    println!("{}", session.title.as_deref().map_or("(no title)".into(), output::disarm));
    head(session).iter().for_each(|(name, value)| println!("  {name:<10} {value}"));
    transcript.messages.iter().for_each(show_message);
}

fn head(session: &SessionRecord) -> Vec<(&'static str, String)> {
    let or_none = |text: &Option<String>| text.as_deref().map(output::disarm);
    let with = |text: String, more: Option<String>| match more {
        Some(more) => format!("{text} ({more})"),
        None => text,
    };
    let time = |time: Option<Time>| time.map(text::local);
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
        ("messages", Some(counts(session))),
        ("tokens", tokens(session)),
        ("cost", text::cost(session)),
        ("archived", session.archived.then(|| "yes".to_owned())),
    ];
    lines.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn counts(session: &SessionRecord) -> String {
    let calls = match session.tool_call_count {
        0 => String::new(),
        calls => format!(", {}", output::count(calls.try_into().unwrap_or_default(), "tool call")),
    };
    format!("{}{calls}", text::number(session.message_count))
}

fn tokens(session: &SessionRecord) -> Option<String> {
    let (input, output) = (session.tokens.input, session.tokens.output);
    let cached = match session.tokens.cache_read {
        0 => String::new(),
        cached => format!(", {} from the cache", text::number(cached)),
    };
    (input + output > 0)
        .then(|| format!("{} in, {} out{cached}", text::number(input), text::number(output)))
}

fn show_message(message: &MessageRecord) {
    let marks = [
        message.tool_name.as_deref().map(|name| format!(" {}", output::disarm(name))),
        message.timestamp.map(|time| format!("  {}", text::local(time))),
        message.undone.then(|| "  (undone)".to_owned()),
        message.compacted.then(|| "  (compacted)".to_owned()),
    ];
    let marks: String = marks.into_iter().flatten().collect();
    println!("\n[{}] {}{marks}", message.seq, output::disarm(&message.role));
    let mut parts = message.content.as_ref().map(content).unwrap_or_default();
    parts.extend(message.tool_calls.iter().flat_map(calls));
    for part in parts.iter().filter(|part| !part.is_empty()) {
        println!("{}", output::disarm_lines(part.trim_end_matches('\n')));
    }
}

/// Text, or an agent's list of blocks.
fn content(content: &Value) -> Vec<String> {
    match content {
        Value::Null => Vec::new(),
        Value::String(text) => vec![text.clone()],
        Value::Array(blocks) => blocks.iter().flat_map(block).collect(),
        other => vec![other.to_string()],
    }
}

fn block(block: &Value) -> Vec<String> {
    match block["type"].as_str() {
        Some("tool_use") => vec![call(&block["name"], &block["input"])],
        Some("tool_result") => content(&block["content"]),
        _ if block.is_string() => content(block),
        _ if block["text"].is_string() => content(&block["text"]),
        Some(kind) => vec![format!("[{kind}]")],
        None => vec![shorten(&block.to_string())],
    }
}

fn calls(calls: &Value) -> Vec<String> {
    let one = |value: &Value| {
        let function = if value["function"].is_object() { &value["function"] } else { value };
        let arguments = &function["arguments"];
        call(&function["name"], if arguments.is_null() { &function["input"] } else { arguments })
    };
    match calls {
        Value::Null => Vec::new(),
        Value::Array(calls) => calls.iter().map(one).collect(),
        other => vec![one(other)],
    }
}

fn call(name: &Value, arguments: &Value) -> String {
    let arguments = match arguments {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    format!("→ {}({})", name.as_str().unwrap_or("?"), shorten(&arguments))
}

/// Arguments may be whole files.
fn shorten(text: &str) -> String {
    const LENGTH: usize = 200;
    output::shorten(&text.replace('\n', " "), LENGTH)
}
