//! `takeback sessions show`: shows one session, as text or in the format of an API.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::Value;
use takeback_ledger::{
    Ledger, MessageFilter, MessageRecord, SessionRecord, Time, Transcript, replay,
};

use super::message_view::MessageView;
use super::text;
use crate::context::Context;
use crate::failure::Failure;
use crate::logs;
use crate::output;

/// Show a session with its messages
///
/// Tool calls are folded to one line each, and their results to the first lines.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback sessions show 'Fix Docker Build'
  takeback sessions show 4f2a --around 12            the messages around number 12
  takeback sessions show 4f2a --full                 with whole tool calls, and edits as diffs
  takeback sessions show 4f2a --format openai > messages.json")]
pub(super) struct Arguments {
    /// The session: its id, the beginning of its id, or its title
    #[arg(value_name = "SESSION")]
    session: String,
    /// Show only the messages around this one
    #[arg(long, value_name = "MESSAGE", conflicts_with = "format")]
    around: Option<i64>,
    /// Show tool calls and their results in full
    #[arg(long, conflicts_with = "format")]
    full: bool,
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
        ShowFormat::Text => {
            let transcript = ledger.transcript(&id)?;
            let cost = describe_cost(&transcript, context);
            print_transcript(&transcript, cost, arguments)?;
        }
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

/// The number of messages that `--around` shows before and after the given message.
const AROUND: usize = 5;

fn print_transcript(
    transcript: &Transcript,
    cost: Option<String>,
    arguments: &Arguments,
) -> Result<(), Failure> {
    let (session, messages) = (&transcript.session, &transcript.messages);
    let shown = match arguments.around {
        None => 0..messages.len(),
        Some(number) => {
            let at = messages.iter().position(|message| message.seq == number);
            let at = at.ok_or_else(|| no_message(number, messages))?;
            at.saturating_sub(AROUND)..messages.len().min(at + AROUND + 1)
        }
    };
    println!("{}", session.title.as_deref().map_or("(no title)".into(), output::disarm));
    session_facts(session, cost).iter().for_each(|(name, value)| println!("  {name:<10} {value}"));
    print_omitted(shown.start, "earlier");
    let view = MessageView::new(arguments.full);
    messages[shown.clone()].iter().for_each(|message| view.print(message));
    print_omitted(messages.len() - shown.end, "later");
    Ok(())
}

fn print_omitted(number: usize, which: &str) {
    if number > 0 {
        println!("\n… {}", output::count(number, &format!("{which} message")));
    }
}

fn no_message(number: i64, messages: &[MessageRecord]) -> Failure {
    let failure = Failure::new(format!("the session has no message {number}"));
    match (messages.first(), messages.last()) {
        (Some(first), Some(last)) => {
            failure.hint(format!("its messages have numbers from {} to {}", first.seq, last.seq))
        }
        _ => failure,
    }
}

/// Describes the cost of a session: the reported one, or an estimate from the prices of its models.
fn describe_cost(transcript: &Transcript, context: &Context) -> Option<String> {
    let session = &transcript.session;
    if let Some(known) = text::session_cost(session) {
        return Some(known);
    }
    let prices = context.prices();
    let own = session.tokens.to_usage(session.model.as_deref(), 0);
    let parts = if transcript.usage.is_empty() { own.as_slice() } else { &transcript.usage };
    let mut cost = 0.0;
    for part in parts.iter().filter(|part| part.tokens.total() > 0) {
        match prices.cost(&part.model, part.tokens) {
            Some(price) => cost += price,
            None => {
                let model = if part.model.is_empty() { "its model" } else { &part.model };
                let model = output::disarm(model);
                return Some(format!("unknown (no price for {model}: `takeback help prices`)"));
            }
        }
    }
    (cost > 0.0).then(|| format!("about {}", text::format_dollars(cost)))
}

/// Returns the properties of a session, as names and values.
fn session_facts(session: &SessionRecord, cost: Option<String>) -> Vec<(&'static str, String)> {
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
        ("cost", cost),
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
