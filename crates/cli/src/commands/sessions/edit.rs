//! `takeback sessions title`, `fork`, `undo`, `redo`: changes to one session.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use takeback_ledger::{Ledger, Time, Undone};

use crate::context::Context;
use crate::failure::Failure;
use crate::logs;
use crate::output;

/// Give a session a title, or take it away
#[derive(Args)]
pub(super) struct TitleArguments {
    /// Its id, its title, or the beginning of its id
    #[arg(value_name = "SESSION")]
    session: String,
    /// The new title; "" takes the old one away
    #[arg(value_name = "TITLE")]
    title: String,
}

#[derive(Serialize)]
pub(crate) struct TitleView {
    session: String,
    title: Option<String>,
}

/// Gives it to a session; an empty one takes it away.
pub(crate) fn give_title(
    ledger: &mut Ledger,
    session: &str,
    title: &str,
) -> Result<TitleView, Failure> {
    let session = ledger.resolve(session)?;
    ledger.set_title(&session, Some(title).filter(|title| !title.trim().is_empty()))?;
    let title = ledger.session(&session)?.title;
    Ok(TitleView { session, title })
}

pub(super) fn title(arguments: &TitleArguments, context: &Context) -> Result<ExitCode, Failure> {
    let view =
        give_title(&mut *logs::current_ledger(context)?, &arguments.session, &arguments.title)?;
    if context.globals.json {
        output::print_json(&view);
        return Ok(ExitCode::SUCCESS);
    }
    let id = output::disarm(&view.session);
    match view.title {
        Some(title) => println!("{id} is called {} now.", output::disarm(&title)),
        None => println!("{id} has no title now."),
    }
    Ok(ExitCode::SUCCESS)
}

/// Copy a session up to a message, to go another way from there
#[derive(Args)]
pub(super) struct ForkArguments {
    /// Its id, its title, or the beginning of its id
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

/// Makes one of a session, up to a message.
pub(crate) fn make_fork(
    ledger: &mut Ledger,
    session: &str,
    at: i64,
    now: Time,
) -> Result<ForkView, Failure> {
    let parent = ledger.resolve(session)?;
    let fork = ledger.fork(&parent, at, &new_id()?, now)?;
    Ok(ForkView { session: fork.id, parent, at, title: fork.title })
}

pub(super) fn fork(arguments: &ForkArguments, context: &Context) -> Result<ExitCode, Failure> {
    let view = make_fork(
        &mut *logs::current_ledger(context)?,
        &arguments.session,
        arguments.at,
        context.now(),
    )?;
    if context.globals.json {
        output::print_json(&view);
        return Ok(ExitCode::SUCCESS);
    }
    let title = view.title.map(|title| format!(", {}", output::disarm(&title)));
    println!("Forked: {}{}.", view.session, title.unwrap_or_default());
    Ok(ExitCode::SUCCESS)
}

/// An id that no session has.
fn new_id() -> Result<String, Failure> {
    let random = getrandom::u64()
        .map_err(|error| Failure::new("the system has no random numbers").because(&error))?;
    Ok(format!("takeback:{random:016x}"))
}

/// Take back the last turns of a conversation
///
/// Their messages stay, marked as undone. Files are not touched: that is what `takeback rollback`
/// is for.
#[derive(Args)]
pub(super) struct UndoArguments {
    /// Its id, its title, or the beginning of its id
    #[arg(value_name = "SESSION")]
    session: String,
    /// How many turns
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    turns: u32,
}

pub(super) fn undo(arguments: &UndoArguments, context: &Context) -> Result<ExitCode, Failure> {
    let mut ledger = logs::current_ledger(context)?;
    let session = ledger.resolve(&arguments.session)?;
    let undone = ledger.undo_turns(&session, arguments.turns as usize, context.now())?;
    show(&UndoView::new(session, undone), "Undone", context);
    Ok(ExitCode::SUCCESS)
}

/// Take back the last undo
#[derive(Args)]
pub(super) struct RedoArguments {
    /// Its id, its title, or the beginning of its id
    #[arg(value_name = "SESSION")]
    session: String,
}

pub(super) fn redo(arguments: &RedoArguments, context: &Context) -> Result<ExitCode, Failure> {
    let mut ledger = logs::current_ledger(context)?;
    let session = ledger.resolve(&arguments.session)?;
    let redone = ledger.redo(&session, context.now())?;
    show(&UndoView::new(session, redone), "Redone", context);
    Ok(ExitCode::SUCCESS)
}

/// What an undo or a redo did.
#[derive(Serialize)]
pub(crate) struct UndoView {
    session: String,
    messages: usize,
    turns: usize,
    from_message: i64,
    /// What the user had said there.
    prompt: Option<String>,
}

impl UndoView {
    pub(crate) fn new(session: String, undone: Undone) -> UndoView {
        let Undone { messages, turns, from_seq, prompt } = undone;
        UndoView { session, messages, turns, from_message: from_seq, prompt }
    }
}

fn show(view: &UndoView, done: &str, context: &Context) {
    const PROMPT_LENGTH: usize = 200;
    if context.globals.json {
        output::print_json(view);
        return;
    }
    println!(
        "{done}: {} with {}, from message {} on.",
        output::count(view.turns, "turn"),
        output::count(view.messages, "message"),
        view.from_message
    );
    if let Some(prompt) = &view.prompt {
        let line = prompt.split_whitespace().collect::<Vec<_>>().join(" ");
        println!("The prompt was: {}", output::disarm(&output::shorten(&line, PROMPT_LENGTH)));
    }
}
