//! The interactive mode: prompts and slash commands until the user quits.

use std::io::IsTerminal;
use std::process::ExitCode;

use serde_json::json;
use takeback_runtime::{Pause, TurnOutcome};

use super::input::{PromptInput, PromptReader};
use super::interrupted::{continue_turn, take_up};
use super::{Conversation, with_front_end};
use crate::commands::goal;
use crate::failure::Failure;
use crate::output;
use crate::slash::{COMMANDS, SlashAction, SlashAnswer, SlashLine, answer_line};

/// Talks with the user until the user quits.
pub(super) fn talk(conversation: &mut Conversation) -> Result<ExitCode, Failure> {
    let context = conversation.context();
    let is_json = context.globals.json;
    let mut reader = PromptReader::new(&context.home, &context.directory, COMMANDS)?;
    take_up(conversation)?;
    // True after Ctrl-C. Another Ctrl-C ends the chat.
    let mut is_interrupted = false;
    loop {
        let prompt = match conversation.read_prompt(&mut reader)? {
            PromptInput::Text(prompt) => prompt,
            PromptInput::Interrupted if !is_interrupted => {
                println!("Press Ctrl-C again, or Ctrl-D, to quit.");
                is_interrupted = true;
                continue;
            }
            PromptInput::Interrupted | PromptInput::End => break,
        };
        let Some(answer) = answer_slash(&prompt, conversation) else {
            // One failed turn does not end the conversation.
            let turn = with_front_end(is_json, |front| conversation.prompt(&prompt, front));
            is_interrupted = matches!(turn, Ok(Pause::TurnEnded(TurnOutcome::Cancelled)));
            if let Err(failure) = turn {
                failure.report(is_json);
            }
            continue;
        };
        is_interrupted = false;
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

/// Answers a slash command. Returns `None` if the text is a prompt for the model.
fn answer_slash(text: &str, conversation: &Conversation) -> Option<SlashAnswer> {
    let (model, context) = (conversation.model(), conversation.context());
    // Lines that arrive through a pipe may not come from the user.
    let is_headless = !std::io::stdin().is_terminal() && !context.globals.yes;
    let line = SlashLine {
        text,
        session: conversation.session(),
        model: Some(&model),
        is_headless,
        is_busy: false,
    };
    answer_line(&line, context)
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
        Some(SlashAction::Resume { .. }) => continue_turn(conversation),
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

/// Makes the change that a slash command asks for. Returns the text that says what was done, unless
/// the answer already contains this text.
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
            goal::work(conversation, &id, goal::Run::New(None))?;
        }
        SlashAction::ResumeGoal { goal, budget } => {
            goal::resume_in(conversation, goal, *budget)?;
        }
    }
    Ok(None)
}
