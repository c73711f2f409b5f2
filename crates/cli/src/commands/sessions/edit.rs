//! `takeback sessions title`, `fork`, `rewind`, `unrewind`: change one session.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use takeback_ledger::{Ledger, LedgerError, RewindOutcome, Time, TitleError};

use crate::context::Context;
use crate::failure::Failure;
use crate::logs;
use crate::output;

/// Set or remove the title of a session
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback sessions title 4f2a 'Fix Docker Build'
  takeback sessions title 4f2a 'Fix Docker Build' --next
  takeback sessions title 4f2a ''                 remove the title")]
pub(super) struct TitleArguments {
    /// The session: its id, the beginning of its id, or its title
    #[arg(value_name = "SESSION")]
    session: String,
    /// The new title; '' removes the old one
    #[arg(value_name = "TITLE")]
    title: String,
    /// If the title is taken, use the next one in its series: 'Fix Docker Build #2'
    #[arg(long)]
    next: bool,
}

#[derive(Serialize)]
pub(crate) struct TitleView {
    session: String,
    title: Option<String>,
}

/// Sets the title of a session. A blank title removes the current one. With `next`, a title that is
/// already taken is replaced by the next one in its series.
pub(crate) fn set_title(
    ledger: &mut Ledger,
    session: &str,
    title: &str,
    next: bool,
) -> Result<TitleView, Failure> {
    let session = ledger.resolve(session)?;
    let title = Some(title).filter(|title| !title.trim().is_empty());
    match (ledger.set_title(&session, title), title) {
        (Err(LedgerError::Title(TitleError::Taken { title, .. })), Some(_)) if next => {
            let title = ledger.next_title(&title)?;
            ledger.set_title(&session, Some(&title))?;
        }
        (set, _) => set?,
    }
    let title = ledger.session(&session)?.title;
    Ok(TitleView { session, title })
}

pub(super) fn run_title(
    arguments: &TitleArguments,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let TitleArguments { session, title, next } = arguments;
    let view = set_title(&mut *logs::current_ledger(context)?, session, title, *next)?;
    if output::answers_json(&view, context) {
        return Ok(ExitCode::SUCCESS);
    }
    let id = output::disarm(&view.session);
    match view.title {
        Some(title) => println!("Set the title of {id} to {}.", output::disarm(&title)),
        None => println!("Removed the title of {id}."),
    }
    Ok(ExitCode::SUCCESS)
}

/// Copy a session up to a message, to take it in a different direction
///
/// The original is not changed. `takeback sessions show` shows the numbers of messages.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback sessions fork 4f2a --at 6")]
pub(super) struct ForkArguments {
    /// The session: its id, the beginning of its id, or its title
    #[arg(value_name = "SESSION")]
    session: String,
    /// The number of the last message to copy
    #[arg(long, value_name = "N")]
    at: i64,
}

#[derive(Serialize)]
pub(crate) struct ForkView {
    session: String,
    parent: String,
    at: i64,
    title: Option<String>,
}

/// Copies a session up to and including the message `at`.
pub(crate) fn fork_session(
    ledger: &mut Ledger,
    session: &str,
    at: i64,
    now: Time,
) -> Result<ForkView, Failure> {
    let parent = ledger.resolve(session)?;
    let fork = ledger.fork(&parent, at, &new_id()?, now)?;
    Ok(ForkView { session: fork.id, parent, at, title: fork.title })
}

pub(super) fn run_fork(arguments: &ForkArguments, context: &Context) -> Result<ExitCode, Failure> {
    let view = fork_session(
        &mut *logs::current_ledger(context)?,
        &arguments.session,
        arguments.at,
        context.now(),
    )?;
    if context.globals.json {
        output::print_json(&view);
        return Ok(ExitCode::SUCCESS);
    }
    let title = view.title.map(|title| format!(" ({})", output::disarm(&title)));
    println!("Forked as {}{}.", view.session, title.unwrap_or_default());
    Ok(ExitCode::SUCCESS)
}

/// Generates a random id for a new session.
fn new_id() -> Result<String, Failure> {
    let random = getrandom::u64()
        .map_err(|error| Failure::new("the system provides no random numbers").because(&error))?;
    Ok(format!("takeback:{random:016x}"))
}

/// Take back the last turns of a conversation
///
/// The messages are marked as undone. `takeback sessions unrewind` can restore them until the
/// conversation continues. Files are not changed; `takeback rollback` also restores files.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback sessions rewind 4f2a              the last turn
  takeback sessions rewind 4f2a --turns 3
  takeback sessions unrewind 4f2a            restore it")]
pub(super) struct RewindArguments {
    /// The session: its id, the beginning of its id, or its title
    #[arg(value_name = "SESSION")]
    session: String,
    /// The number of turns to take back
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    turns: u32,
}

pub(super) fn run_rewind(
    arguments: &RewindArguments,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let mut ledger = logs::current_ledger(context)?;
    let session = ledger.resolve(&arguments.session)?;
    let undone = ledger.rewind_turns(&session, arguments.turns as usize, context.now())?;
    print_rewind(&RewindView::new(session, undone), "Rewound", context);
    Ok(ExitCode::SUCCESS)
}

/// Restore the messages that the last rewind took back
///
/// Works only until the conversation continues.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback sessions unrewind 4f2a")]
pub(super) struct UnrewindArguments {
    /// The session: its id, the beginning of its id, or its title
    #[arg(value_name = "SESSION")]
    session: String,
}

pub(super) fn run_unrewind(
    arguments: &UnrewindArguments,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let mut ledger = logs::current_ledger(context)?;
    let session = ledger.resolve(&arguments.session)?;
    let redone = ledger.unrewind(&session, context.now())?;
    print_rewind(&RewindView::new(session, redone), "Restored", context);
    Ok(ExitCode::SUCCESS)
}

/// The messages that a rewind took back, or that an unrewind restored.
#[derive(Serialize)]
pub(crate) struct RewindView {
    session: String,
    messages: usize,
    turns: usize,
    from_message: i64,
    /// The user's prompt in the first of these messages.
    prompt: Option<String>,
}

impl RewindView {
    pub(crate) fn new(session: String, undone: RewindOutcome) -> RewindView {
        let RewindOutcome { messages, turns, from_seq, prompt } = undone;
        RewindView { session, messages, turns, from_message: from_seq, prompt }
    }
}

fn print_rewind(view: &RewindView, done: &str, context: &Context) {
    const PROMPT_LENGTH: usize = 200;
    if context.globals.json {
        output::print_json(view);
        return;
    }
    println!(
        "{done} {} ({}), from message {} on.",
        output::count(view.turns, "turn"),
        output::count(view.messages, "message"),
        view.from_message
    );
    if let Some(prompt) = &view.prompt {
        let line = prompt.split_whitespace().collect::<Vec<_>>().join(" ");
        println!("The prompt was: {}", output::disarm(&output::shorten(&line, PROMPT_LENGTH)));
    }
}
