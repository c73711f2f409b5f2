//! The pages of conversations with takeback's own agent: the list, and a single conversation.

use std::collections::BTreeMap;
use std::path::Path as FilePath;
use std::sync::Arc;

use axum::extract::{Path, State};
use maud::{Markup, html};
use serde::Deserialize;
use takeback_ledger::{
    GoalState, ListOptions, MessageFilter, MessageRecord, ParentKind, SessionSummary, TaskFilter,
};
use takeback_runtime::{AGENT, TaskView, list_goals, list_open_tasks};
use takeback_undo::history::find_workspace;

use super::goals::render_goal;
use super::layout::{Shell, note, relative_time, with_code};
use super::sessions::{TurnPlace, find_checkpoints, render_summary};
use super::timeline::encode;
use super::{PageResult, conversation};
use crate::api::{ChatState, Params, read_chat};
use crate::app::{App, Work};
use crate::problem::{Problem, WorkError};
use crate::text;
use crate::view::goal::view_goal;

/// The number of conversations in the list.
const LISTED: usize = 30;

/// The number of messages that are shown. Older messages are on the page of the session.
const SHOWN: usize = 300;

/// The parameters of the list.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct HomeQuery {
    /// The workspace in which a new conversation begins.
    workspace: String,
}

/// The parameters of a conversation.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ChatQuery {
    part: String,
}

/// Shows the list of conversations, with a field to begin a new one.
pub(super) async fn home(
    State(app): State<Arc<App>>,
    Params(query): Params<HomeQuery>,
) -> PageResult {
    let page = app.work(move |work| {
        let workspace = Some(query.workspace.as_str()).filter(|id| !id.is_empty());
        let directory = match workspace {
            Some(id) => work.workspace(id)?.path,
            None => work.app.chat.directory(),
        };
        let content = html! {
            div .chat.new data-chat data-new-workspace=[workspace] {
                div .chat-main {
                    header .chat-head { h1 { "New conversation" } div .meta { "in " (choose_workspace(work, workspace, &directory)?) } }
                    (render_welcome())
                    div #live .messages role="log" aria-label="Answers to commands" {}
                    (render_composer(work, false))
                }
                (render_home_side(work)?)
            }
        };
        Ok(Shell::new(work, workspace)?.render("Chat", "chat", &content))
    });
    Ok(page.await?)
}

fn choose_workspace(
    work: &Work,
    chosen: Option<&str>,
    directory: &FilePath,
) -> Result<Markup, WorkError> {
    let own = work.app.chat.directory();
    let known = work.workspaces()?;
    Ok(html! {
        form .choose action="/chat" {
            select name="workspace" aria-label="Workspace" data-submit {
                option value="" selected[chosen.is_none()] { (work.app.tilde(&own)) }
                @for known in known.iter().filter(|known| known.path != own) {
                    option value=(known.id) selected[chosen == Some(known.id.as_str())] { (work.app.tilde(&known.path)) }
                }
            }
            noscript { button { "Choose" } }
            @if !directory.is_dir() { span .badge .warn { "⚠ not a directory" } }
        }
    })
}

fn render_welcome() -> Markup {
    html! {
        div .empty .welcome {
            h2 { "An agent whose work you can take back" }
            p { "A checkpoint is taken before every call that may change files. Calls that no rollback can reverse need your approval." }
            p .faint { kbd { "Enter" } " sends · " kbd { "Shift" } " " kbd { "Enter" } " begins a new line · " kbd { "/" } " lists the commands" }
        }
    }
}

/// Renders the field for the next prompt, and the button that sends it or stops the turn.
fn render_composer(work: &Work, is_busy: bool) -> Markup {
    html! {
        form .composer data-busy[is_busy] {
            ul #commands hidden aria-label="Commands" {
                @for (name, about) in work.app.chat.commands() {
                    li { button type="button" tabindex="-1" data-command=(name) { code { "/" (name) } span .faint { (with_code(about)) } } }
                }
            }
            p .working role="status" { "takeback is working…" }
            div .field {
                textarea name="prompt" rows="1" aria-label="Prompt or command" placeholder="Ask, or type / for commands" autocomplete="off" spellcheck="true" {}
                button .send { "Send" }
                button type="button" .stop data-stop { "Stop" }
            }
            p .connection #connection role="status" hidden { "The connection is lost. The conversation continues here as soon as the server answers." }
            noscript { p .faint { "To write here, enable JavaScript. `takeback chat` talks to the same agent in a terminal." } }
        }
    }
}

/// Renders the list of conversations, tasks and goals, which is shown beside the field that begins
/// a new conversation.
fn render_home_side(work: &Work) -> Result<Markup, WorkError> {
    let now = text::timestamp(work.opened.now());
    let open = list_open_tasks(&work.opened, TaskFilter::default())?;
    let goals = list_goals(&work.opened)?;
    let is_over = |state| matches!(state, GoalState::Complete | GoalState::Cancelled);
    let goals: Vec<_> = goals.iter().filter(|goal| !is_over(goal.state)).map(view_goal).collect();
    let busy = work.app.rooms.busy_sessions();
    let sessions = list_own_sessions(work)?;
    Ok(html! {
        aside .chat-side aria-label="Conversations" {
            @if !open.is_empty() {
                section .card { h2 { "To continue" } ul .tasks { @for task in &open { (render_open_task(work, task, now)) } } }
            }
            @if !goals.is_empty() {
                section .card { h2 { "Goals" } @for goal in &goals { (render_goal(goal)) } }
            }
            section .card {
                h2 { "Conversations" }
                @if sessions.is_empty() { p .faint { "None yet." } }
                ul .sessions { @for summary in &sessions {
                    @let mark = busy.get(&summary.session.id).copied();
                    (render_summary(work, summary, now, "/chat/", mark))
                } }
            }
        }
    })
}

fn list_own_sessions(work: &Work) -> Result<Vec<SessionSummary>, WorkError> {
    let options = ListOptions {
        sources: vec![AGENT.to_owned()],
        limit: Some(LISTED),
        ..ListOptions::default()
    };
    let mut sessions = match work.ledger()? {
        Some(ledger) => ledger.sessions(&options)?,
        None => Vec::new(),
    };
    // A subagent's session is a part of another conversation.
    sessions.retain(|found| found.session.parent_kind != Some(ParentKind::Subagent));
    Ok(sessions)
}

fn render_open_task(work: &Work, task: &TaskView, now: jiff::Timestamp) -> Markup {
    let words = match task.state.as_str() {
        "waiting" => "is waiting for your answer",
        _ => "was interrupted in the middle of a turn",
    };
    let place = task.workspace.as_deref().map(|path| work.app.tilde(FilePath::new(path)));
    html! {
        li {
            a href={ "/chat/" (encode(&task.session)) } { (text::one_line(&task.session)) }
            span .faint { " " (words) ", " (relative_time(text::timestamp(task.updated_at), now)) }
            @if let Some(place) = place { span .path .faint { bdi { (place) } } }
            div .row-buttons {
                button type="button" .small data-task-resume=(task.id) { "Continue" }
                button type="button" .small.quiet data-task-cancel=(task.id) { "End the turn" }
            }
        }
    }
}

/// Shows one conversation.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    Path(session): Path<String>,
    Params(query): Params<ChatQuery>,
) -> PageResult {
    let page = app.work(move |work| {
        work.catch_up();
        let state = read_chat(work, &session)?;
        match query.part.as_str() {
            "messages" => return render_messages(work, &state),
            "side" => return Ok(render_side(work, &state)),
            _ => {}
        }
        let title = text::shorten(&title_of(&state), 60);
        let directory = state.directory.as_deref().map(FilePath::new);
        let workspace = directory.and_then(|path| find_known(work, path));
        let content = html! {
            div .chat data-chat data-session=(state.session) {
                div .chat-main {
                    header .chat-head {
                        h1 { (title_of(&state)) }
                        p .meta {
                            a href="/chat" { "New conversation" }
                            @if let Some(id) = &workspace { a href={ "/w/" (id) } { "Timeline" } }
                            a href={ "/sessions/" (encode(&state.session)) } { "Session" }
                        }
                    }
                    (render_messages(work, &state)?)
                    div #live .messages role="log" aria-label="The current turn" {}
                    @if is_own(&state.session) { (render_composer(work, state.state == "running")) } @else { (render_foreign(&state)) }
                }
                (render_side(work, &state))
            }
        };
        Ok(Shell::new(work, workspace.as_deref())?.render(&title, "chat", &content))
    });
    Ok(page.await?)
}

fn find_known(work: &Work, directory: &FilePath) -> Option<String> {
    let id = find_workspace(&work.opened, directory).ok()?.id().to_string();
    work.workspace(&id).ok().map(|known| known.id().to_string())
}

fn is_own(session: &str) -> bool {
    text::agent_of(session) == AGENT
}

/// Returns the title of a conversation, or its first prompt.
fn title_of(state: &ChatState) -> String {
    let titles = [&state.title, &state.first_prompt, &Some(state.session.clone())];
    let mut titles = titles.into_iter().flatten().map(|title| text::one_line(title));
    titles.find(|title| !title.is_empty()).map_or_else(String::new, |t| text::shorten(&t, 120))
}

fn render_foreign(state: &ChatState) -> Markup {
    let agent = text::one_line(text::agent_of(&state.session));
    note(
        "info",
        &html! {
            p { "This is a conversation with " (agent) ". takeback’s own agent can continue in a copy of it." }
            p { button type="button" data-fork=(state.session) { "Continue in a copy" } }
        },
    )
}

/// Renders the messages that are in the ledger and not part of the running turn. Messages that were
/// taken back are folded.
fn render_messages(work: &Work, state: &ChatState) -> Result<Markup, WorkError> {
    let mut messages = {
        let ledger = work.opened.ledger()?.ok_or_else(|| Problem::not_found("session"))?;
        ledger.messages(&state.session, MessageFilter::All)?
    };
    messages.retain(|message| message.seq <= state.base);
    let left_out = messages.len().saturating_sub(SHOWN);
    let shown = &messages[left_out..];
    let places = find_checkpoints(work, &state.session)?;
    let is_same = |a: &MessageRecord, b: &MessageRecord| a.undone == b.undone;
    Ok(html! {
        div #history .messages data-base=(state.base) {
            @if left_out > 0 {
                p .more { a href={ "/sessions/" (encode(&state.session)) } { (text::count(left_out as u64, "earlier message")) } }
            }
            @for run in shown.chunk_by(is_same) {
                @if run[0].undone {
                    details .taken-back {
                        summary { (text::count(run.len() as u64, "message")) " taken back" }
                        @for message in run { (conversation::render_message(message, &work.app.zone)) }
                    }
                } @else {
                    @for message in run { (render_message(work, message, &places)) }
                }
            }
        }
    })
}

fn render_message(
    work: &Work,
    message: &MessageRecord,
    places: &BTreeMap<i64, TurnPlace>,
) -> Markup {
    if message.role != "user" {
        return conversation::render_message(message, &work.app.zone);
    }
    // A turn may begin with a notice that precedes the prompt.
    let place = places.get(&message.seq).or_else(|| places.get(&(message.seq - 1)));
    html! {
        div .turn-mark {
            @if let Some((workspace, turn)) = place { a href={ "/w/" (workspace) "/c/" (turn) } { span aria-hidden="true" { "◆" } " What this turn changed" } }
            button type="button" .small.quiet data-rewind=(message.seq) { "Return to before this prompt" }
        }
        (conversation::render_message(message, &work.app.zone))
    }
}

/// Renders the facts about a conversation: its state, its cost, its goals.
fn render_side(work: &Work, state: &ChatState) -> Markup {
    let directory = state.directory.as_deref().map(|path| work.app.tilde(FilePath::new(path)));
    html! {
        aside .chat-side aria-label="About this conversation" data-state=(state.state) {
            (render_state(state))
            section .card {
                h2 { "Conversation" }
                dl .facts {
                    @if let Some(directory) = directory { dt { "Directory" } dd { bdi { (directory) } } }
                    @if let Some(model) = &state.model { dt { "Model" } dd { (text::one_line(model)) } }
                    dt { "Tokens" }
                    dd { (text::group_digits(state.tokens_in.unsigned_abs())) " in, " (text::group_digits(state.tokens_out.unsigned_abs())) " out" }
                    dt { "Cost" }
                    dd { @match state.cost { Some(cost) => { "$" (format!("{cost:.4}")) }, None => span .faint { "unknown prices" } } }
                }
            }
            @if !state.goals.is_empty() {
                section .card { h2 { "Goals" } @for goal in &state.goals { (render_goal(goal)) } }
            }
        }
    }
}

/// Renders the state of a conversation, if the user should know about it.
fn render_state(state: &ChatState) -> Markup {
    let (words, can_continue) = match state.state.as_str() {
        "interrupted" => ("The last turn was interrupted. Nothing that it did is lost.", true),
        "waiting" => ("The last turn is waiting for your answer.", true),
        "elsewhere" => {
            ("Another process is working on this conversation. New messages appear here.", false)
        }
        _ => return html! {},
    };
    note(
        if can_continue { "warning" } else { "info" },
        &html! {
            p { (words) }
            @if can_continue { p .row-buttons { button type="button" .small data-resume { "Continue the turn" } } }
        },
    )
}
