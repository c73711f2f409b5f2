//! The state of one workspace or of all workspaces, shown beside the timeline when no turn is
//! selected.

use std::sync::Arc;

use jiff::Timestamp;
use maud::{Markup, html};
use takeback_undo::RowView;

use super::layout::{note, relative_time, take_back_button};
use super::timeline::describe_rollback;
use crate::app::Work;
use crate::problem::WorkError;
use crate::text;
use crate::view::timeline::{Entry, Timeline};

/// The maximum number of paths that are listed. The other paths are only counted.
const LISTED: usize = 12;

pub(super) fn render(work: &Work, workspace: Option<&str>) -> Result<Markup, WorkError> {
    match workspace {
        Some(id) => Ok(render_workspace(work, work.timeline(id)?.as_ref())),
        None => render_all(work),
    }
}

fn rows(timeline: &Timeline) -> impl Iterator<Item = &RowView> {
    timeline.entries.iter().filter_map(|entry| match entry {
        Entry::Row(row) => Some(row.as_ref()),
        Entry::Rollback(_) => None,
    })
}

fn render_workspace(work: &Work, timeline: &Timeline) -> Markup {
    let now = text::timestamp(work.opened.now());
    let count = rows(timeline).count() as u64;
    let back = rows(timeline).filter(|row| row.taken_back).count() as u64;
    html! {
        article .overview {
            h1 { bdi { (work.app.tilde(&timeline.path)) } }
            p .meta {
                (text::count(count, "checkpoint"))
                @if back > 0 { span { (text::group_digits(back)) " taken back" } }
                @if let Some(newest) = timeline.entries.first() { span { "last change " (relative_time(newest.time(), now)) } }
            }
            p { button type="button" .small data-label="take" data-workspace=(timeline.id) { "Take a checkpoint now" } }
            @for failure in work.failures(Some(&timeline.path)) {
                (note("warning", &html! { p { @if failure.checkpoint { "Checkpoints failed: " } (text::one_line(&failure.message)) } }))
            }
            @if !timeline.working.is_empty() {
                (note("info", &html! { p { "An agent is working here now. A rollback would change files while the agent is using them." } }))
            }
            @if let Some(last) = timeline.last_rollback() {
                section .card {
                    h2 { "Last action" }
                    p { (describe_rollback(last)) " " (relative_time(last.time.parse().unwrap_or_default(), now)) "." }
                    p { (take_back_button(&timeline.id, last.action)) }
                }
            }
            section .card {
                h2 { "How to go back" }
                p { "Choose a turn. You see what it changed, and can roll back to before it, undo only this turn, or restore single files. Nothing changes before you confirm, and every rollback can be taken back." }
                p .faint { kbd { "j" } " " kbd { "k" } " move · " kbd { "Enter" } " opens · " kbd { "?" } " shows all keys" }
            }
            (render_uncovered(timeline))
        }
    }
}

/// Renders the paths that the newest checkpoint does not cover.
fn render_uncovered(timeline: &Timeline) -> Markup {
    let Some(newest) = rows(timeline).next().filter(|row| row.uncovered.count > 0) else {
        return html! {};
    };
    let paths = &newest.uncovered.paths;
    html! {
        section .card {
            h2 { "Not protected" }
            p { "No rollback changes these paths, because they are not captured." }
            ul .paths { @for path in paths.iter().take(LISTED) { li { code { bdi { (path) } } } } }
            @if paths.len() > LISTED {
                p .faint { "and " (text::group_digits((paths.len() - LISTED) as u64)) " more. The Coverage tab of a turn lists all of them with the reasons." }
            }
        }
    }
}

/// Renders a workspace in the list of all workspaces: its path, and the last event there.
fn render_summary(work: &Work, timeline: &Timeline, now: Timestamp) -> Markup {
    let newest = timeline.entries.first();
    let agent = match newest {
        Some(Entry::Row(row)) => row.agent.as_deref().unwrap_or_default(),
        _ => "",
    };
    html! {
        li .{ "hue-" (text::agent_hue(agent)) } { a href={ "/w/" (timeline.id) } {
            span .path { bdi { (work.app.tilde(&timeline.path)) } }
            span .meta {
                @if !timeline.working.is_empty() { span .badge .live { "working now" } }
                (text::count(rows(timeline).count() as u64, "checkpoint"))
                @if let Some(newest) = newest { span { (relative_time(newest.time(), now)) } }
            }
            @match newest {
                Some(Entry::Row(row)) => span .last-turn {
                    @if !agent.is_empty() { span .agent { (text::one_line(agent)) } " " }
                    (text::shorten(&text::one_line(row.prompt.as_deref().unwrap_or(&row.reason)), 200))
                },
                Some(Entry::Rollback(rollback)) => span .last-turn { (describe_rollback(rollback)) },
                None => {},
            }
        } }
    }
}

fn render_all(work: &Work) -> Result<Markup, WorkError> {
    let now = text::timestamp(work.opened.now());
    let mut timelines: Vec<Arc<Timeline>> = work.all_timelines()?;
    timelines.sort_by_key(|timeline| std::cmp::Reverse(timeline.entries.first().map(Entry::time)));
    Ok(html! {
        article .overview {
            h1 { "All workspaces" }
            @for failure in work.failures(None) {
                (note("warning", &html! { p { (work.app.tilde(&failure.workspace.0)) ": " (text::one_line(&failure.message)) } }))
            }
            @if timelines.is_empty() { p .faint { "No workspace has checkpoints yet." } }
            ul .workspaces { @for timeline in &timelines { (render_summary(work, timeline, now)) } }
        }
    })
}
