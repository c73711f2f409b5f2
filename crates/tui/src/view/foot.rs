//! The foot: the plan for the selection, and the keys that work in the current state.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::text::LineBuilder;
use crate::model::pane::Tab;
use crate::model::plan::{list_warnings, summarize_plan};
use crate::model::{Load, Model, Note, NoteKind};
use crate::theme::{Ink, Theme};

/// The minimum width at which the foot says in full what Enter does.
const WIDE: usize = 100;

impl Model {
    /// Returns the height of the foot, including the line above it.
    pub(crate) fn foot_height(&self) -> u16 {
        if self.size.1 >= 14 { 4 } else { 3 }
    }
}

pub(super) fn draw(model: &Model, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let width = usize::from(area.width);
    let mut lines = match &model.note {
        Some(note) => render_note(note, theme, width),
        None => render_plan(model, theme, width),
    };
    let room = usize::from(area.height.saturating_sub(2));
    lines.resize(room, Line::default());
    lines.push(render_keys(model, theme, width));
    let below = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    super::put_lines(buffer, below, &lines);
}

/// Renders a note, wrapped to the width.
pub(super) fn render_note(note: &Note, theme: Theme, width: usize) -> Vec<Line<'static>> {
    let (mark, ink) = match note.kind {
        NoteKind::Warning => (" ⚠ ", Ink::Warning),
        NoteKind::Done => (" ✓ ", Ink::Strong),
    };
    let text = takeback_base::text::disarm(&note.text);
    let wrapped = super::text::wrap(&text, width.saturating_sub(4));
    let styled = |(place, line): (usize, String)| {
        let begin = if place == 0 { mark } else { "   " };
        Line::styled(format!("{begin}{line}"), theme.style(ink))
    };
    wrapped.into_iter().enumerate().map(styled).collect()
}

/// Says what Enter would do.
fn render_plan(model: &Model, theme: Theme, width: usize) -> Vec<Line<'static>> {
    let Some(wanted) = &model.wanted else { return Vec::new() };
    let mut line = LineBuilder::new(width);
    // On a narrow screen, the numbers are more important than these words, which the button also
    // shows.
    let words = if width < WIDE { "Enter".to_owned() } else { model.button_words(wanted) };
    line.add(&format!(" {words}: "), theme.style(Ink::Strong));
    let mut warnings = Vec::new();
    match &model.plan {
        Load::Ready(plan) => {
            let view = plan.planned.view();
            line.add(&summarize_plan(view), theme.style(Ink::Text));
            warnings = list_warnings(plan);
        }
        Load::Failed(problem) => {
            line.add(&problem.line(), theme.style(Ink::Warning));
        }
        Load::Idle | Load::Waiting => {
            line.add("comparing with the workspace …", theme.style(Ink::Faint));
        }
    }
    let mut lines = vec![line.build()];
    if !warnings.is_empty() {
        let mut line = LineBuilder::new(width);
        let text = takeback_base::text::disarm(&warnings.join(" · "));
        line.add(" ⚠ ", theme.style(Ink::Warning)).add(&text, theme.style(Ink::Warning));
        lines.push(line.build());
    }
    lines
}

/// Lists the keys that work in the current state, the most useful first.
fn render_keys(model: &Model, theme: Theme, width: usize) -> Line<'static> {
    let mut line = LineBuilder::new(width);
    line.add(" ", theme.style(Ink::Text));
    if model.is_filtering || !model.list.filter.is_empty() {
        line.add("/", theme.style(Ink::Key)).add(&model.list.filter, theme.style(Ink::Strong));
        let cursor = if model.is_filtering { "▌" } else { "" };
        line.add(cursor, theme.style(Ink::Key)).add("  ", theme.style(Ink::Text));
    }
    add_keys(&mut line, &list_keys(model), theme);
    line.build()
}

/// Adds as many keys as fit. The last two, usually those for help and for quitting, are always
/// added.
pub(super) fn add_keys(line: &mut LineBuilder, keys: &[(&str, &str)], theme: Theme) {
    let width = |(key, words): &(&str, &str)| key.chars().count() + words.chars().count() + 3;
    let (first, last) = keys.split_at(keys.len().saturating_sub(2));
    let reserved: usize = last.iter().map(width).sum();
    let mut room = line.left().saturating_sub(reserved);
    let fits = |key: &&(&str, &str)| {
        room = room.saturating_sub(width(key));
        room > 0
    };
    for (key, words) in first.iter().take_while(fits).chain(last) {
        line.add(key, theme.style(Ink::Key));
        line.add(&format!(" {words}  "), theme.style(Ink::Faint));
    }
}

fn list_keys(model: &Model) -> Vec<(&'static str, &'static str)> {
    if model.is_filtering {
        return vec![("Enter", "keep"), ("Esc", "show all"), ("↑↓", "move")];
    }
    let act = match model.pane.chosen.is_empty() {
        true => ("Enter", "roll back"),
        false => ("Enter", "restore selected"),
    };
    let undo = ("u", "undo, keep mine");
    let mut keys = match (model.is_pane_focused, model.pane.tab) {
        (false, _) if model.subject().is_none() => vec![("c", "checkpoint")],
        (false, _) => {
            vec![act, undo, ("→", "open"), ("Space", "files"), ("/", "filter"), ("d", "diff")]
        }
        (true, Tab::Files) => {
            vec![("Space", "select"), ("a", "all"), act, ("→", "diff"), ("←", "back")]
        }
        (true, Tab::Diff) => vec![("v", "this turn/since"), ("d", "pager"), act, ("←", "back")],
        (true, Tab::Conversation) => {
            vec![("o", "open calls"), ("y", "copy resume command"), ("←", "back")]
        }
        (true, _) => vec![("←", "back"), act],
    };
    let was_rolled_back = match &model.past {
        Load::Ready(past) => past.timeline.last_rollback().is_some(),
        _ => false,
    };
    keys.extend(was_rolled_back.then_some(("U", "take back")));
    keys.extend([("s", "search"), ("?", "help"), ("q", "quit")]);
    keys
}
