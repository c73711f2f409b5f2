//! One turn, step, checkpoint or rollback: its head, its tabs, and the buttons that take it back.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use takeback_tree::{Head, RelPath, StoreError, TreeChange};
use takeback_undo::view::{DiffView, diff_file, image_type, is_image};

use super::layout::{Shell, note, panes, relative_time};
use super::timeline::{counts, describe_rollback, encode};
use super::{PageProblem, PageResult, conversation, diff, files, render_list};
use crate::api::Params;
use crate::app::{App, Work};
use crate::problem::{Problem, WorkError};
use crate::text;
use crate::view::filter::{Filter, FilterQuery};
use crate::view::timeline::Entry;
use crate::view::turn::{Compared, TurnView};

/// The parameters of a turn's address.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct TurnQuery {
    tab: String,
    /// The state to compare with: `turn`, `now`, or the id of a checkpoint.
    to: String,
    /// `1` to show both sides of a diff beside each other.
    split: String,
    /// `1` to leave out changes that affect only spaces.
    loose: String,
    part: String,
}

/// The parameters of the address of one file in a diff.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct FileQuery {
    /// The path, as JSON: a string, or an object if it is not UTF-8.
    path: String,
    to: String,
    split: String,
    loose: String,
    /// `1` to show all unchanged lines.
    whole: String,
    /// `old` or `new`, for a picture.
    side: String,
}

/// The largest picture that is shown, in bytes.
const MAX_PICTURE: u64 = 32 << 20;

/// The tabs of a turn, each with its name in the address, its label and its key.
const TABS: [(&str, &str, &str); 5] = [
    ("files", "Files", "f"),
    ("diff", "Diff", "d"),
    ("conversation", "Conversation", "c"),
    ("effects", "Effects", "e"),
    ("coverage", "Coverage", "v"),
];

pub(super) async fn show(
    State(app): State<Arc<App>>,
    Path((workspace, id)): Path<(String, String)>,
    Params(query): Params<TurnQuery>,
) -> PageResult {
    let page = app.work(move |work| {
        let turn = work.turn(&workspace, &id)?;
        let detail = render_turn(work, &workspace, &turn, &query)?;
        if query.part == "detail" {
            return Ok(detail);
        }
        let filter = Filter::new(FilterQuery::default(), &work.app.zone)?;
        let list = render_list(work, Some(&workspace), &filter, Some(turn.checkpoint.id))?;
        let shell = Shell::new(work, Some(&workspace))?;
        let title = text::shorten(&subject_of(&turn), 60);
        Ok(shell.render(&title, "timeline", &panes("show-detail", &list, &detail)))
    });
    Ok(page.await?)
}

pub(super) async fn show_file(
    State(app): State<Arc<App>>,
    Path((workspace, id)): Path<(String, String)>,
    Params(query): Params<FileQuery>,
) -> PageResult {
    let page = app.work(move |work| {
        let change = find_change(work, &workspace, &id, &query)?;
        let store = work.workspace(&workspace)?.store();
        let view = DiffView {
            is_whole: query.whole == "1",
            is_loose: query.loose == "1",
            ..DiffView::default()
        };
        let options = diff::Options { is_split: query.split == "1", view };
        let body = diff_file(store, &change, view).map_err(StoreError::from)?;
        let (path, to) = (encode(&query.path), encode(&query.to));
        let image =
            |side: &str| format!("/w/{workspace}/c/{id}/image?path={path}&to={to}&side={side}");
        Ok(diff::render_content(&body, options, &image))
    });
    Ok(page.await?)
}

/// Finds the change of one file.
fn find_change(
    work: &Work,
    workspace: &str,
    id: &str,
    query: &FileQuery,
) -> Result<TreeChange, WorkError> {
    let path: RelPath = serde_json::from_str(&query.path)
        .map_err(|error| Problem::invalid(format!("path: {error}")))?;
    let compared = Compared::parse(&query.to);
    let changes = work.changes(workspace, id, &compared, std::slice::from_ref(&path))?;
    let change = changes.into_iter().find(|change| change.path == path);
    change.ok_or_else(|| Problem::not_found("file in this diff").into())
}

/// Serves the old or the new version of a picture. The contents of other kinds of files are never
/// served unchanged.
pub(super) async fn show_image(
    State(app): State<Arc<App>>,
    Path((workspace, id)): Path<(String, String)>,
    Params(query): Params<FileQuery>,
) -> Result<Response, PageProblem> {
    let image = app.work(move |work| {
        let change = find_change(work, &workspace, &id, &query)?;
        let side = if query.side == "old" { change.from } else { change.to };
        let side = side.filter(|side| is_image(&change) && side.size <= MAX_PICTURE);
        let side = side.ok_or_else(|| Problem::not_found("picture"))?;
        let store = work.workspace(&workspace)?.store();
        let bytes = store.blob(&side.oid).map_err(StoreError::from)?;
        let kind = image_type(&bytes).ok_or_else(|| Problem::not_found("picture"))?;
        Ok((kind, bytes))
    });
    let (kind, bytes) = image.await?;
    Ok(([(CONTENT_TYPE, kind)], bytes).into_response())
}

/// Shows the five files that a turn changed the most, for the turn's unfolded row in the timeline.
pub(super) async fn show_card(
    State(app): State<Arc<App>>,
    Path((workspace, id)): Path<(String, String)>,
) -> PageResult {
    let page = app.work(move |work| {
        let changes = work.changes(&workspace, &id, &Compared::Turn, &[])?;
        Ok(files::render_card(&changes))
    });
    Ok(page.await?)
}

/// Returns the prompt of a turn, or the reason for a checkpoint, as one line.
pub(super) fn subject_of(turn: &TurnView) -> String {
    match turn.entry() {
        Some(Entry::Rollback(rollback)) => describe_rollback(rollback),
        _ => text::one_line(turn.checkpoint.prompt.as_deref().unwrap_or(&turn.checkpoint.reason)),
    }
}

fn render_turn(
    work: &Work,
    workspace: &str,
    turn: &TurnView,
    query: &TurnQuery,
) -> Result<Markup, WorkError> {
    let tab =
        TABS.iter().map(|(name, ..)| *name).find(|name| *name == query.tab).unwrap_or("files");
    let id = turn.checkpoint.id.to_string();
    let compared = Compared::parse(&query.to);
    let address = format!("/w/{workspace}/c/{id}");
    let body = match tab {
        "diff" => {
            let changes = work.changes(workspace, &id, &compared, &[])?;
            let store = work.workspace(workspace)?.store();
            let view = DiffView { is_loose: query.loose == "1", ..DiffView::default() };
            let options = diff::Options { is_split: query.split == "1", view };
            let page = diff::DiffPage { address: &address, turn, compared: &compared, options };
            page.render(store, &changes)?
        }
        "conversation" => {
            let messages = work.turn_messages(workspace, &turn.checkpoint.id)?;
            conversation::render_turn(messages.as_deref(), turn, &work.app.zone)
        }
        "effects" => render_effects(turn),
        "coverage" => render_coverage(turn),
        _ => {
            let own = work.changes(workspace, &id, &Compared::Turn, &[])?;
            files::render(&own, &work.others_changes(workspace, &id)?, turn)
        }
    };
    Ok(html! {
        article .detail data-checkpoint=(id) data-workspace=(workspace) {
            (render_head(work, turn))
            nav .tabs aria-label="Parts of this turn" {
                @for (name, label, key) in TABS {
                    a href={ (address) "?tab=" (name) } aria-current=[(name == tab).then_some("page")] data-tab="" data-key=(key) {
                        (label)
                        @if let Some(number) = tab_number(turn, name) { " " span .number { (number) } }
                    }
                }
            }
            div .tab .{ "tab-" (tab) } { (body) }
            (render_restore(turn, workspace))
        }
    })
}

fn tab_number(turn: &TurnView, tab: &str) -> Option<String> {
    let number = match (tab, turn.entry()) {
        ("files", Some(Entry::Row(row))) => usize::try_from(row.files_changed?).ok()?,
        ("effects", _) => turn.checkpoint.effects.len(),
        ("coverage", _) => turn.checkpoint.uncovered.len(),
        _ => return None,
    };
    Some(text::group_digits(number as u64)).filter(|_| number > 0)
}

fn render_head(work: &Work, turn: &TurnView) -> Markup {
    let view = &turn.checkpoint;
    let now = text::timestamp(work.opened.now());
    let time: Timestamp = view.time.parse().unwrap_or_default();
    let is_back = matches!(turn.entry(), Some(Entry::Row(row)) if row.taken_back);
    let is_here = turn.timeline.current() == Some(view.id);
    let prompt = view.prompt.as_deref().map(str::trim_end);
    let agent = view.agent.as_deref().unwrap_or_default();
    html! {
        header .turn-head .back[is_back] .{ "hue-" (text::agent_hue(agent)) } {
            p .to-list { a href={ "/w/" (turn.timeline.id) } data-close="" { "← Timeline" } }
            @if let Some(Entry::Rollback(rollback)) = turn.entry() {
                h1 { (describe_rollback(rollback)) }
            } @else if let Some(prompt) = prompt {
                @if prompt.lines().count() > 4 || prompt.len() > 400 {
                    details .prompt { summary { h1 { (text::shorten(&text::one_line(prompt), 200)) } } p .whole { (text::visible(prompt)) } }
                } @else {
                    h1 .prompt { (text::visible(prompt)) }
                }
            } @else {
                h1 { (text::visible(&view.reason)) }
            }
            p .meta {
                @if !agent.is_empty() { span .agent { (text::one_line(agent)) } }
                span title=(text::absolute(time, &work.app.zone)) { (relative_time(time, now)) }
                @if let Some(Entry::Row(row)) = turn.entry() { (counts(row)) }
                @if is_here { span .badge .now { "● here now" } }
                @if is_back { span .badge { "taken back" } }
                @if view.kind == "manual" { span .badge { "◆ by hand" } }
                @if view.kind == "safety" { span .badge { "◇ safety checkpoint" } }
                @if let Some(name) = &view.name { span .badge .name { (text::one_line(name)) } }
                @if view.pinned { span .badge title="It is never pruned" { "pinned" } }
                @if view.late { span .badge .warn { "⚠ late" } }
                @if let Some(session) = &view.session { a href={ "/sessions/" (encode(session)) } { "Session" } }
                code .id title=(view.id) { (&view.id.to_string()[..7]) }
            }
            (render_actions(turn))
            @if turn.is_step() {
                p .step-note { "Before step " (view.number.as_deref().unwrap_or("")) ": " (text::one_line(view.reason.strip_prefix("before ").unwrap_or(&view.reason))) }
            }
        }
    }
}

/// Renders the buttons that change the checkpoint itself, and the link that exports it.
fn render_actions(turn: &TurnView) -> Markup {
    let (view, workspace) = (&turn.checkpoint, &turn.timeline.id);
    let name = view.name.as_deref().unwrap_or_default();
    let button = |label: &str, value: &str, words: &str| {
        html! { button type="button" .small .quiet data-label=(label) data-value=(value) data-workspace=(workspace) data-checkpoint=(view.id) { (words) } }
    };
    html! {
        p .actions {
            (button("name", name, if name.is_empty() { "Name" } else { "Rename" }))
            (button("pin", if view.pinned { "true" } else { "false" }, if view.pinned { "Unpin" } else { "Pin" }))
            (button("delete", "", "Delete…"))
            a .button .small .quiet href={ "/w/" (workspace) "/c/" (view.id) "/export" } download="" { "Export as a file" }
        }
    }
}

pub(super) fn render_effects(turn: &TurnView) -> Markup {
    let view = &turn.checkpoint;
    html! {
        @if view.effects.is_empty() {
            p .faint { "No effects outside the files were found in this turn." }
        } @else {
            (note("warning", &html! { p { "No rollback reverses what these commands did outside the files." } }))
            ul .effects {
                @for effect in &view.effects {
                    li { span .badge .warn { "⚠ " (text::one_line(&effect.kind)) } pre { code { (text::visible(&effect.command)) } } }
                }
            }
        }
        h2 { "The git repository" }
        dl .facts {
            dt { "Then" } dd { (describe_head(view.repository.as_ref())) }
            dt { "Now" } dd { (describe_head(turn.head.as_ref())) }
        }
        @if view.repository.is_some() && turn.head.is_some() && view.repository != turn.head {
            p { "HEAD has moved since. A rollback restores the files, and shows the git command that moves HEAD back." }
        }
    }
}

fn describe_head(head: Option<&Head>) -> Markup {
    let Some(head) = head else { return html! { span .faint { "no repository" } } };
    let commit =
        head.commit.as_deref().map_or("no commit", |commit| commit.get(..10).unwrap_or(commit));
    html! {
        code { (commit) }
        @match &head.branch {
            Some(branch) => { " on " (text::one_line(branch)) },
            None => " (detached)",
        }
    }
}

pub(super) fn render_coverage(turn: &TurnView) -> Markup {
    let view = &turn.checkpoint;
    html! {
        @if let Some(files) = view.files { p { "This checkpoint holds " (text::count(files, "file")) "." } }
        @if !view.unsettled.is_empty() {
            (note("warning", &html! {
                p { "These databases were written to while they were captured, and may be inconsistent:" }
                ul { @for path in &view.unsettled { li { code { bdi { (path) } } } } }
            }))
        }
        @if view.uncovered.is_empty() {
            p .faint { "Nothing in this workspace was left out." }
        } @else {
            p { "These paths are not protected. A rollback leaves them as they are." }
            table .coverage {
                thead { tr { th { "Path" } th { "Why" } } }
                tbody { @for found in &view.uncovered { tr { td { code { bdi { (found.path) } } } td { (text::one_line(&found.reason.to_string())) } } } }
            }
        }
    }
}

/// Renders the foot of the page: the choice of what to take back, the live plan, and the button.
/// Scripts fill it in.
fn render_restore(turn: &TurnView, workspace: &str) -> Markup {
    let view = &turn.checkpoint;
    let back = match view.kind {
        "manual" => "Roll back to this checkpoint",
        "safety" => "Return to before this rollback",
        _ if turn.is_step() => "Roll back to before this step",
        _ => "Roll back to before this turn",
    };
    let can_undo = matches!(turn.entry(), Some(Entry::Row(row)) if row.kind == "turn");
    html! {
        form .restore data-workspace=(workspace) data-checkpoint=(view.id) hidden {
            fieldset {
                legend .hidden { "What to take back" }
                label { input type="radio" name="action" value="rollback" data-label=(back) checked; (back) }
                @if can_undo {
                    label { input type="radio" name="action" value="undo" data-label="Undo this turn, keep my edits"; "Undo this turn, keep my edits" }
                }
                label { input type="radio" name="action" value="files" data-label="Restore selected files" disabled; "Restore selected files" }
            }
            p .plan role="status" aria-live="polite" { "Comparing with the workspace…" }
            button .danger type="submit" disabled { (back) "…" }
        }
        noscript { p .note { "Restoring needs JavaScript. In a terminal: " code { "takeback rollback " (&view.id.to_string()[..10]) } } }
    }
}
