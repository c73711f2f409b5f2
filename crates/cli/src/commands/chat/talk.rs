//! The interactive mode: prompts and slash commands until the user leaves.

use std::process::ExitCode;

use serde_json::json;

use super::input::{PromptInput, PromptReader};
use super::{Conversation, with_front_end};
use crate::commands::goal;
use crate::failure::Failure;
use crate::output;
use crate::slash::{COMMANDS, SlashAction, SlashAnswer, SlashLine, answer_line};

/// Talks with the user until the user leaves.
pub(super) fn talk(conversation: &mut Conversation) -> Result<ExitCode, Failure> {
    let context = conversation.context();
    let is_json = context.globals.json;
    let mut reader = PromptReader::new(&context.home, &context.directory, COMMANDS)?;
    continue_interrupted(conversation)?;
    loop {
        let prompt = match reader.read_prompt()? {
            PromptInput::Text(prompt) => prompt,
            PromptInput::Interrupted => continue,
            PromptInput::End => break,
        };
        let Some(answer) = answer_slash(&prompt, conversation) else {
            // One failed turn does not end the conversation.
            let turn = with_front_end(is_json, |front| conversation.prompt(&prompt, front));
            if let Err(failure) = turn {
                failure.report(is_json);
            }
            continue;
        };
        if answer.action == Some(SlashAction::Quit) {
            break;
        }
        if let Err(failure) = finish_answer(answer, conversation) {
            failure.report(is_json);
        }
        reader.set_directory(&conversation.context().directory);
        output::flush();
    }
    conversation.leave("left by the user");
    Ok(ExitCode::SUCCESS)
}

/// Answers a slash command. Returns `None` for a prompt.
fn answer_slash(text: &str, conversation: &Conversation) -> Option<SlashAnswer> {
    let model = conversation.model();
    let line = SlashLine {
        text,
        session: conversation.session(),
        model: Some(&model),
        is_headless: false,
    };
    answer_line(&line, conversation.context())
}

/// Makes the change that an answer asks for, and shows the answer.
fn finish_answer(mut answer: SlashAnswer, conversation: &mut Conversation) -> Result<(), Failure> {
    let action = answer.action.take();
    if let Some(action) = &action
        && let Some(text) = carry_out(action, conversation)?
    {
        answer.text = text;
    }
    show_answer(answer, conversation.context().globals.json);
    match action {
        Some(SlashAction::Resume { .. }) => continue_interrupted(conversation),
        _ => Ok(()),
    }
}

fn show_answer(answer: SlashAnswer, is_json: bool) {
    if is_json {
        let event = json!({ "event": "slash", "answer": answer.plain() });
        println!("{}", output::disarm_json(&event.to_string()));
    } else if !answer.text.is_empty() {
        println!("{}", answer.text);
    }
}

/// Offers to continue the last turn if it was interrupted.
fn continue_interrupted(conversation: &mut Conversation) -> Result<(), Failure> {
    if !conversation.is_interrupted() {
        return Ok(());
    }
    let is_wanted = conversation.is_resumed_automatically()
        || !conversation.context().asks()
        || output::is_agreed("The last turn was interrupted. Continue it?");
    if is_wanted {
        let is_json = conversation.context().globals.json;
        with_front_end(is_json, |front| conversation.proceed(front))?;
    } else {
        conversation.give_up_turn()?;
    }
    Ok(())
}

/// Makes the change that a slash command asks for. Returns the text that says what was done, unless
/// the answer already has it.
fn carry_out(
    action: &SlashAction,
    conversation: &mut Conversation,
) -> Result<Option<String>, Failure> {
    let is_json = conversation.context().globals.json;
    match action {
        SlashAction::Quit => {}
        SlashAction::Resume { session, directory } => {
            let directory = directory.as_ref().map(|directory| directory.0.as_path());
            conversation.enter(session.as_deref(), directory)?;
        }
        SlashAction::Model { name } => {
            conversation.change_model(name)?;
            return Ok(Some(format!("Now asking {}.", conversation.model())));
        }
        SlashAction::Compress => {
            let is_done = with_front_end(is_json, |front| conversation.compress(front))?;
            let nothing = "There are no older turns to summarize.";
            return Ok((!is_done).then(|| nothing.to_owned()));
        }
        SlashAction::StartGoal { objective, budget } => {
            let id = conversation.begin_goal(objective, *budget)?;
            goal::work(conversation, &id, None)?;
        }
        SlashAction::ResumeGoal { goal, budget } => {
            goal::resume_in(conversation, goal, *budget)?;
        }
    }
    Ok(None)
}
