//! The changed files of a turn, grouped by directory, and who last edited each of them.

use std::ops::Range;

use ratatui::text::Line;
use takeback_base::columns::width_of;
use takeback_tree::{ChangeKind, RelPath, TreeChange};
use takeback_undo::view::text::one_line;

use super::pane::describe_load;
use super::text::{LineBuilder, short_number};
use crate::model::plan::Wanted;
use crate::model::{Model, SubjectKind};
use crate::theme::{Ink, Theme};

/// A line of the tab.
enum FileLine {
    Directory(RelPath),
    /// A file, by its index.
    File(usize),
}

/// Lists the lines: a heading for each directory, and its files. The changes must be sorted so that
/// the files of a directory are next to each other.
fn list_lines(changes: &[TreeChange]) -> Vec<FileLine> {
    let mut lines = Vec::new();
    let mut last = None;
    for (place, change) in changes.iter().enumerate() {
        let parent = change.path.parent().unwrap_or_else(RelPath::root);
        if last.as_ref() != Some(&parent) {
            lines.push(FileLine::Directory(parent.clone()));
            last = Some(parent);
        }
        lines.push(FileLine::File(place));
    }
    lines
}

pub(super) fn count_lines(model: &Model) -> usize {
    list_lines(model.pane.files()).len()
}

/// Returns the line of the selected file.
pub(crate) fn line_of_file(model: &Model) -> usize {
    let is_it =
        |line: &FileLine| matches!(line, FileLine::File(place) if *place == model.pane.file);
    list_lines(model.pane.files()).iter().position(is_it).unwrap_or(0)
}

/// Finds the file that a line shows.
pub(crate) fn file_at_line(model: &Model, line: usize) -> Option<usize> {
    match list_lines(model.pane.files()).get(line)? {
        FileLine::File(place) => Some(*place),
        FileLine::Directory(_) => None,
    }
}

pub(super) fn render(
    model: &Model,
    theme: Theme,
    range: Range<usize>,
    width: usize,
) -> Vec<Line<'static>> {
    if let Some(lines) = describe_load(&model.pane.details, theme) {
        return lines;
    }
    let changes = model.pane.files();
    if changes.is_empty() {
        return describe_nothing(model, theme);
    }
    let lines = list_lines(changes).into_iter().skip(range.start).take(range.len());
    lines
        .map(|line| match line {
            FileLine::Directory(path) => {
                let path = if path.is_root() { "./".to_owned() } else { format!("{path}/") };
                Line::styled(path, theme.style(Ink::Faint))
            }
            FileLine::File(place) => render_file(model, theme, &changes[place], width),
        })
        .collect()
}

fn describe_nothing(model: &Model, theme: Theme) -> Vec<Line<'static>> {
    let why = match model.subject().map(|subject| subject.kind) {
        Some(SubjectKind::Turn | SubjectKind::Step) => {
            "The turn is still running, or changed no files that are covered."
        }
        Some(SubjectKind::Manual) => "There were no changes before the next checkpoint.",
        _ => "It changed no files.",
    };
    vec![Line::raw("No file changed."), Line::styled(why, theme.style(Ink::Faint))]
}

fn render_file(model: &Model, theme: Theme, change: &TreeChange, width: usize) -> Line<'static> {
    let is_chosen = model.pane.chosen.contains(&change.path);
    let (sign, ink) = sign_of(&change.kind);
    let counts = change.lines.map_or((0, 0), |lines| (lines.insertions, lines.deletions));
    let number = |sign: &str, number: u64| match number {
        0 => String::new(),
        number => format!("{sign}{}", short_number(number)),
    };
    let whose = whose_edit(model, &change.path);
    let mut line = LineBuilder::new(width);
    let mark = if is_chosen { "[x] " } else { "[ ] " };
    line.add(mark, theme.style(if is_chosen { Ink::Key } else { Ink::Faint }));
    line.add(sign, theme.style(ink)).add(" ", theme.style(Ink::Text));
    let name = one_line(&String::from_utf8_lossy(change.path.name()));
    let note = describe(change).map(|note| format!("  {note}")).unwrap_or_default();
    let owner = whose.as_ref().map_or(0, |(words, _)| width_of(words) + 2);
    let room = line.left().saturating_sub(owner + 13);
    let name_room =
        room.saturating_sub(width_of(&note).min(room / 2)).max(width_of(&name).min(room));
    let name = takeback_base::columns::shorten(&name, name_room);
    let gap = room.saturating_sub(width_of(&name));
    line.add(&name, theme.style(Ink::Text));
    line.add_filled(&note, theme.style(Ink::Faint), gap);
    line.add_right(&number("+", counts.0), theme.style(Ink::Added), 7);
    line.add_right(&number("−", counts.1), theme.style(Ink::Removed), 6);
    if let Some((words, ink)) = whose {
        line.add("  ", theme.style(Ink::Text)).add(&words, theme.style(ink));
    }
    line.build()
}

/// Says who last edited a file, if the plan contains that information.
fn whose_edit(model: &Model, path: &RelPath) -> Option<(String, Ink)> {
    if !matches!(model.wanted, Some(Wanted::Rollback(_) | Wanted::Files(..))) {
        return None;
    }
    let view = model.plan.ready()?.planned.view();
    if view.others.contains(path) {
        let agent = model.timeline().zip(model.list.selected_entry());
        let agent =
            agent.and_then(|(timeline, place)| model.list.find_later_agent(timeline, place, path));
        let words = match agent {
            Some(agent) => format!("{}, since", one_line(agent)),
            None if model.list.has_paths() => "you, since".to_owned(),
            // It is not known yet which turns changed the file.
            None => "edited since".to_owned(),
        };
        return Some((words, Ink::Warning));
    }
    let agent = model.row().and_then(|row| row.agent.as_deref())?;
    let is_changed = view.restored.contains(path) || view.deleted.contains(path);
    is_changed.then(|| (one_line(agent), Ink::Faint))
}

/// Describes a change in words, if the sign alone does not say enough.
pub(super) fn describe(change: &TreeChange) -> Option<String> {
    match &change.kind {
        ChangeKind::Renamed { from } => Some(format!("renamed from {from}")),
        ChangeKind::ModeChanged => Some("permissions".into()),
        ChangeKind::KindChanged => Some("another kind of file".into()),
        _ if change.private => Some("private".into()),
        _ if change.binary => Some("not text".into()),
        _ => None,
    }
}

/// Returns the sign for the kind of a change.
pub(super) fn sign_of(kind: &ChangeKind) -> (&'static str, Ink) {
    match kind {
        ChangeKind::Added => ("+", Ink::Added),
        ChangeKind::Deleted => ("−", Ink::Removed),
        ChangeKind::Renamed { .. } => ("→", Ink::Key),
        _ => ("•", Ink::Warning),
    }
}
