//! When a chat begins, offers to continue the tasks that were interrupted in this directory.

use takeback_ledger::{MessageFilter, TaskFilter};
use takeback_runtime::TaskView;

use super::terminal::keyboard::ask_for_key;
use super::{Conversation, with_front_end};
use crate::background;
use crate::commands::open_tasks::{OpenGoal, find_open_goals, find_open_tasks};
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// The maximum number of characters of a prompt that are shown.
const PROMPT_LENGTH: usize = 60;

/// Continues the goals and conversations that were interrupted in this directory. Goals continue in
/// the background. A conversation continues without a question if the settings say so, and
/// otherwise only if the user agrees.
pub(super) fn take_up(conversation: &mut Conversation) -> Result<(), Failure> {
    if conversation.session().is_some() {
        return continue_turn(conversation);
    }
    let context = conversation.context();
    let workspace = context.directory.canonicalize().ok();
    let workspace = workspace.map(|directory| directory.display().to_string());
    let filter = TaskFilter { workspace: workspace.clone(), ..TaskFilter::default() };
    let mut tasks = find_open_tasks(filter, context)?;
    for open in find_open_goals(&tasks, context)? {
        tasks.retain(|task| task.id != open.goal.task);
        if context.ledger()?.task(&open.goal.task)?.workspace == workspace {
            take_up_goal(&open, context);
        }
    }
    if conversation.is_resumed_automatically() {
        // Continue the newest task last: the user stays in the conversation that is continued last.
        for task in tasks.iter().rev().filter(|task| task.state == "interrupted") {
            say(conversation.context(), &describe(task, conversation.context()));
            take_up_task(task, conversation);
        }
        return Ok(());
    }
    let Some(newest) = tasks.first() else { return Ok(()) };
    let told = describe(newest, context);
    let later = format!("`takeback tasks resume {}` continues it.", newest.id);
    if !context.asks() {
        say(context, &format!("{told} {later}"));
        return Ok(());
    }
    println!("{told}");
    match agrees() {
        true => take_up_task(newest, conversation),
        false => println!("{later}"),
    }
    Ok(())
}

/// Continues an interrupted task. If that fails, reports why; the chat then begins without the
/// task.
fn take_up_task(task: &TaskView, conversation: &mut Conversation) {
    let done = conversation.resume_task(&task.id).and_then(|()| proceed(conversation));
    if let Err(failure) = done {
        failure.report(conversation.context().globals.json);
    }
}

/// Offers to continue the last turn of the conversation if it was interrupted. If the user
/// declines, ends the turn.
pub(super) fn continue_turn(conversation: &mut Conversation) -> Result<(), Failure> {
    if !conversation.is_interrupted() {
        return Ok(());
    }
    let is_asked = conversation.context().asks() && !conversation.is_resumed_automatically();
    if is_asked {
        println!("The last turn of this conversation is not over.");
    }
    match !is_asked || agrees() {
        true => proceed(conversation),
        false => conversation.give_up_turn(),
    }
}

fn proceed(conversation: &mut Conversation) -> Result<(), Failure> {
    let is_json = conversation.context().globals.json;
    with_front_end(is_json, |front| conversation.proceed(front)).map(drop)
}

/// Asks whether to continue. The user answers with a single key.
fn agrees() -> bool {
    output::flush();
    let key = ask_for_key("Continue it? [Y/n] ");
    let is_agreed = matches!(key, Some(b'y' | b'Y' | b'\r' | b'\n'));
    output::ask(if is_agreed { "yes\n" } else { "no\n" });
    is_agreed
}

/// Starts a background process that continues an interrupted goal. A goal that is waiting for an
/// approval is left to the user.
fn take_up_goal(open: &OpenGoal, context: &Context) {
    let id = &open.goal.id;
    let objective = output::shorten(&output::join_lines(&open.goal.objective), PROMPT_LENGTH);
    let goal = format!("Goal {id} (“{objective}”)");
    if open.state == "waiting" {
        return say(context, &format!("{goal} is waiting for your answer: /goal resume {id}"));
    }
    match background::spawn_goal(context, id, true) {
        Ok(()) => say(context, &format!("{goal} continues in the background: /goal show {id}")),
        Err(error) => output::warn(&format!("goal {id} cannot continue: {error}")),
    }
}

/// Describes a conversation that was interrupted or is waiting for the user's answer.
fn describe(task: &TaskView, context: &Context) -> String {
    let prompt = find_prompt(task, context).map(|prompt| format!(" (“{prompt}”)"));
    let prompt = prompt.unwrap_or_default();
    let session = output::disarm(&task.session);
    match task.state.as_str() {
        "waiting" => format!("{session}{prompt} is waiting for your answer."),
        _ => format!("{session}{prompt} was interrupted in the middle of a turn."),
    }
}

/// Returns the beginning of the last prompt of a task.
fn find_prompt(task: &TaskView, context: &Context) -> Option<String> {
    let messages = context.ledger().ok()?.messages(&task.session, MessageFilter::Current).ok()?;
    let prompt = messages.iter().rev().find(|message| message.role == "user")?;
    let text = prompt.content.as_ref()?.as_str()?;
    Some(output::shorten(&output::join_lines(text), PROMPT_LENGTH))
}

/// Prints a note to the user. The note is not part of the conversation.
fn say(context: &Context, text: &str) {
    if !context.globals.json {
        eprintln!("{text}");
    }
}
