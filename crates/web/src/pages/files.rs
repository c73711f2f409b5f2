//! The changed files of a turn, grouped by directory, with check boxes.

use std::collections::BTreeMap;

use maud::{Markup, html};
use takeback_tree::{ChangeKind, RelPath, TreeChange};
use takeback_undo::view::is_image;

use crate::text;
use crate::view::timeline::Entry;
use crate::view::turn::TurnView;

/// The maximum number of files in an unfolded row of the timeline.
const CARD: usize = 5;

/// The number of blocks in the bar of a file.
const BLOCKS: u64 = 5;

/// Renders the turn's own changes with check boxes and, below them, the changes that others made
/// meanwhile.
pub(super) fn render(changes: &[TreeChange], others: &[TreeChange], turn: &TurnView) -> Markup {
    html! {
        @if changes.is_empty() { (render_nothing(turn)) } @else { (render_own(changes, turn)) }
        @if !others.is_empty() {
            section .others {
                h2 { "Changed by others meanwhile" }
                p .faint { "Another session, another program or you changed " (text::count(others.len() as u64, "file")) " while this turn was running. An undo of the turn keeps these changes; a rollback to before the turn takes them back, too." }
                (render_list(others))
            }
        }
    }
}

fn render_own(changes: &[TreeChange], turn: &TurnView) -> Markup {
    let agent = turn.checkpoint.agent.as_deref().filter(|_| turn.checkpoint.kind != "safety");
    let mut directories: BTreeMap<RelPath, Vec<&TreeChange>> = BTreeMap::new();
    for change in changes {
        let parent = change.path.parent().unwrap_or_else(RelPath::root);
        directories.entry(parent).or_default().push(change);
    }
    html! {
        div .files-tools .{ "hue-" (text::agent_hue(agent.unwrap_or_default())) } {
            label .all { input type="checkbox" data-all=""; "Select all" }
            span .faint { (text::count(changes.len() as u64, "file")) " changed" @if let Some(agent) = agent { " by " span .agent { (text::one_line(agent)) } } }
        }
        ul .files {
            @for (directory, files) in &directories {
                li .directory {
                    label .directory-name { input type="checkbox" data-directory=""; code { bdi { @if directory.is_root() { "/" } @else { (directory) "/" } } } }
                    ul { @for change in files { (render_file(change)) } }
                }
            }
        }
    }
}

fn render_nothing(turn: &TurnView) -> Markup {
    html! {
        div .empty {
            h2 { "No file changed" }
            @match turn.entry() {
                Some(Entry::Row(row)) if row.kind == "turn" => p { "The turn is still running, or its commands changed no files that are covered." },
                Some(Entry::Row(_)) => p { "There were no changes before the next checkpoint." },
                _ => p { "The Diff tab compares this state with the workspace as it is now." },
            }
        }
    }
}

fn render_file(change: &TreeChange) -> Markup {
    let name = String::from_utf8_lossy(change.path.name()).into_owned();
    let value = text::path_json(&change.path);
    html! {
        li .file data-path=(value) {
            label {
                input type="checkbox" name="path" value=(value);
                (kind_sign(&change.kind))
                code .name { bdi { (text::one_line(&name)) } }
                @if let Some(words) = describe(change) { span .faint { (words) } }
            }
            span .since {}
            (line_counts(change))
            (bar(change))
        }
    }
}

/// Describes a change in words, if the symbols for added, changed and deleted do not show it.
pub(super) fn describe(change: &TreeChange) -> Option<String> {
    match &change.kind {
        ChangeKind::Renamed { from } => Some(format!("renamed from {from}")),
        ChangeKind::ModeChanged => Some("permissions".into()),
        ChangeKind::KindChanged => Some("another kind of file".into()),
        _ if change.private => Some("private".into()),
        _ if change.binary && is_image(change) => Some("picture".into()),
        _ if change.binary => Some("not text".into()),
        _ => None,
    }
}

/// Renders the kind of change: a symbol, and a word for screen readers.
pub(super) fn kind_sign(kind: &ChangeKind) -> Markup {
    let (class, sign, word) = match kind {
        ChangeKind::Added => ("added", "+", "added"),
        ChangeKind::Deleted => ("removed", "−", "deleted"),
        ChangeKind::Renamed { .. } => ("moved", "→", "renamed"),
        _ => ("changed", "•", "changed"),
    };
    html! { span class={ "kind " (class) } title=(word) { span aria-hidden="true" { (sign) } span .hidden { (word) } } }
}

/// Renders the numbers of added and removed lines of a file.
pub(super) fn line_counts(change: &TreeChange) -> Markup {
    let Some(lines) = change.lines else { return html! { span .counts {} } };
    html! {
        span .counts {
            @if lines.insertions > 0 { span .added { "+" (text::group_digits(lines.insertions)) } }
            @if lines.deletions > 0 { " " span .removed { "−" (text::group_digits(lines.deletions)) } }
        }
    }
}

/// Renders five blocks that show the shares of added and removed lines.
fn bar(change: &TreeChange) -> Markup {
    let (added, removed) = change.lines.map_or((0, 0), |lines| (lines.insertions, lines.deletions));
    let total = added + removed;
    let blocks = total.min(BLOCKS);
    let green = (added * blocks).checked_div(total).unwrap_or(0).max(u64::from(added > 0));
    let red = blocks.saturating_sub(green);
    html! {
        span .blocks aria-hidden="true" {
            @for _ in 0..green { i .added {} }
            @for _ in 0..red { i .removed {} }
            @for _ in blocks..BLOCKS { i {} }
        }
    }
}

/// Renders all changed files, without check boxes.
pub(super) fn render_list(changes: &[TreeChange]) -> Markup {
    html! { ul .files .most { @for change in changes { (plain_row(change)) } } }
}

fn plain_row(change: &TreeChange) -> Markup {
    html! { li .file { (kind_sign(&change.kind)) code .name { bdi { (change.path) } } (line_counts(change)) (bar(change)) } }
}

/// Renders the files that a turn changed the most.
pub(super) fn render_card(changes: &[TreeChange]) -> Markup {
    let size =
        |change: &TreeChange| change.lines.map_or(0, |lines| lines.insertions + lines.deletions);
    let mut sorted: Vec<&TreeChange> = changes.iter().collect();
    sorted.sort_by_key(|change| std::cmp::Reverse(size(change)));
    let rest = sorted.len().saturating_sub(CARD);
    html! {
        ul .files .most {
            @for change in sorted.into_iter().take(CARD) { (plain_row(change)) }
        }
        @if rest > 0 { p .faint { "and " (text::count(rest as u64, "more file")) } }
    }
}
