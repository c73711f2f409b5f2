//! Slash commands: `/rollback`, `/search`, `/model` and the like.
//!
//! Every front end gets the same answers from [`answer_line`]: the terminal, and other programs
//! through the method `slash` of `takeback rpc`. A command that concerns a running conversation is
//! returned as an action, which the front end carries out.

use std::path::Path;

use serde::Serialize;
use takeback_agents::{SlashCommand, split_words};

use super::input::SlashNames;
use crate::commands::slash::{run_slash_command, run_takeback};
use crate::context::Context;
use crate::output;

/// The commands, with a description for `/help`.
pub(crate) const COMMANDS: SlashNames = &[
    ("rollback", "list checkpoints, or return to one: /rollback 2"),
    ("undo", "take back the last turn, and keep your own edits"),
    ("redo", "reverse the last rollback or undo"),
    ("diff", "show what changed since a checkpoint: /diff 1"),
    ("fork", "continue in a copy of this conversation: /fork [TURN]"),
    ("resume", "continue another session: /resume SESSION"),
    ("goal", "start, list, pause or resume goals: /goal start …"),
    ("tasks", "list the tasks of all sessions"),
    ("sessions", "list sessions"),
    ("search", "search what all agents said and did: /search WORDS"),
    ("cost", "show the tokens and the cost of this session"),
    ("model", "show the model, or ask another one: /model NAME"),
    ("title", "name this session: /title TEXT"),
    ("compress", "summarize older turns"),
    ("help", "list the commands"),
    ("quit", "leave"),
];

/// The answer to a command that needs a session.
const NO_SESSION: &str = "there is no conversation yet";

/// The answer to a slash command.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct SlashAnswer {
    /// The text to show; empty if there is only an action.
    pub(crate) text: String,
    /// What the front end has to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) action: Option<SlashAction>,
}

/// A change of the conversation that the front end carries out.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum SlashAction {
    /// Continue in a copy of the conversation up to a turn, or of all of it.
    Fork { turn: Option<String> },
    /// Continue another session.
    Resume { session: String },
    /// Ask another model from now on, or show the current one.
    Model { name: Option<String> },
    /// Summarize older turns.
    Compress,
    /// Leave.
    Quit,
}

/// Answers a line that begins with a slash. `session` is the conversation that it was typed in.
/// Returns `None` if the line is not a command.
pub(crate) fn answer_line(
    line: &str,
    session: Option<&str>,
    directory: &Path,
    context: &Context,
) -> Option<SlashAnswer> {
    let words = split_words(line.strip_prefix('/')?);
    let (name, rest) = words.split_first()?;
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    let run = |words: &[&str]| text(run_takeback(words.iter().copied(), directory, context));
    Some(match (name.as_str(), rest.as_slice()) {
        ("rollback" | "undo", _) => {
            let arguments = rest.iter().map(|word| (*word).to_owned()).collect();
            let slash = SlashCommand::new(name, arguments)?;
            text(run_slash_command(&slash, directory, context, false))
        }
        ("redo", []) => run(&["redo"]),
        ("diff", rest) => run(&[&["diff"], rest].concat()),
        ("tasks", []) => run(&["tasks"]),
        ("sessions", rest) => run(&[&["sessions", "list"], rest].concat()),
        ("search", rest) => run(&[&["search"], rest].concat()),
        ("goal", rest) => run(&[&["goal"], rest].concat()),
        ("cost", []) => text(describe_cost(session, context)),
        ("title", []) => text("usage: /title TEXT".to_owned()),
        ("title", words) => match session {
            Some(session) => run(&["sessions", "title", session, &words.join(" ")]),
            None => text(NO_SESSION.to_owned()),
        },
        ("fork", []) => action(SlashAction::Fork { turn: None }),
        ("fork", [turn]) => action(SlashAction::Fork { turn: Some((*turn).to_owned()) }),
        ("resume", [session]) => action(SlashAction::Resume { session: (*session).to_owned() }),
        ("resume", []) => run(&["sessions", "list"]),
        ("model", []) => action(SlashAction::Model { name: None }),
        ("model", [name]) => action(SlashAction::Model { name: Some((*name).to_owned()) }),
        ("compress", []) => action(SlashAction::Compress),
        ("quit" | "exit", []) => action(SlashAction::Quit),
        ("help", _) => text(help()),
        (name, _) if COMMANDS.iter().any(|(known, _)| *known == name) => {
            text(format!("/{name}: {}", describe(name)))
        }
        (name, _) => text(unknown(name)),
    })
}

fn text(text: String) -> SlashAnswer {
    SlashAnswer { text, action: None }
}

fn action(action: SlashAction) -> SlashAnswer {
    SlashAnswer { text: String::new(), action: Some(action) }
}

/// Describes what a session has cost so far.
fn describe_cost(session: Option<&str>, context: &Context) -> String {
    let Some(session) = session else { return NO_SESSION.to_owned() };
    let record = context.ledger().and_then(|ledger| Ok(ledger.session(session)?));
    match record {
        Err(failure) => failure.to_string(),
        Ok(record) => {
            let tokens = record.tokens;
            let cost = match record.estimated_cost_usd {
                Some(cost) => format!("${cost:.4}"),
                None => "the prices of this model are unknown".to_owned(),
            };
            let requests =
                output::count(usize::try_from(record.api_call_count).unwrap_or(0), "request");
            format!("{requests}, {} tokens in, {} out: {cost}", tokens.input, tokens.output)
        }
    }
}

fn describe(name: &str) -> &'static str {
    COMMANDS.iter().find(|(known, _)| *known == name).map_or("", |(_, about)| about)
}

fn help() -> String {
    let line = |(name, about): &(&str, &str)| format!("/{name:<9} {about}");
    COMMANDS.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn unknown(name: &str) -> String {
    let names = COMMANDS.iter().map(|(name, _)| *name);
    match takeback_base::text::find_similar(name, names) {
        Some(nearest) => format!("there is no /{name}; did you mean /{nearest}?"),
        None => format!("there is no /{name}; /help lists the commands"),
    }
}
