//! Shows the state of the screen.

mod conversation;
mod dialog;
mod diff;
mod empty;
mod facts;
mod files;
mod foot;
mod head;
mod help;
mod list;
mod pane;
mod reader;
mod text;

pub(crate) use self::conversation::{count_conversation, find_message_row};
pub(crate) use self::files::{file_at_line, line_of_file};
pub(crate) use self::pane::{find_file_row, pane_length, tab_at};
pub(crate) use self::text::wrap;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::Line;

use crate::model::Model;
use crate::model::dialog::Dialog;
use crate::theme::{Ink, Theme};

/// Draws the whole screen.
pub(crate) fn draw(model: &Model, theme: Theme, buffer: &mut Buffer) {
    let layout = model.layout();
    if let Some(reader) = &model.reader {
        reader::draw(model, reader, theme, buffer);
        if let Some(Dialog::Help) = model.dialog {
            help::draw(theme, buffer);
        }
        return theme.restrict(buffer);
    }
    head::draw(model, theme, layout.head, buffer);
    if let Some(area) = layout.list {
        match empty::describe(model) {
            Some(lines) => put_lines(buffer, area, &lines),
            None => list::draw(model, theme, area, buffer),
        }
    }
    if let (Some(tabs), Some(body)) = (layout.tabs, layout.body) {
        pane::draw(model, theme, tabs, body, buffer);
    }
    draw_rules(theme, layout.rule, layout.foot, buffer);
    foot::draw(model, theme, layout.foot, buffer);
    match &model.dialog {
        Some(Dialog::Confirm(confirm)) => dialog::draw_confirm(confirm, theme, buffer),
        Some(Dialog::Input(input)) => dialog::draw_input(input, theme, buffer),
        Some(Dialog::Help) => help::draw(theme, buffer),
        None => {}
    }
    theme.restrict(buffer);
}

/// Draws the line between the panes, and the line above the foot.
fn draw_rules(theme: Theme, rule: Option<u16>, foot: Rect, buffer: &mut Buffer) {
    if foot.is_empty() {
        return;
    }
    let style = theme.style(Ink::Faint);
    for x in foot.x..foot.right() {
        buffer.set_string(x, foot.y, "─", style);
    }
    if let Some(x) = rule {
        (1..foot.y).for_each(|y| buffer.set_string(x, y, "│", style));
        buffer.set_string(x, foot.y, "┴", style);
    }
}

/// Draws as many lines as fit into an area.
fn put_lines(buffer: &mut Buffer, area: Rect, lines: &[Line<'_>]) {
    for (y, line) in (area.y..area.bottom()).zip(lines) {
        buffer.set_line(area.x, y, line, area.width);
    }
}

/// Shows a line as selected. The line stands out more if its pane has the focus.
fn mark_selected(buffer: &mut Buffer, line: Rect, is_focused: bool) {
    if !is_focused {
        buffer.set_string(line.x, line.y, "▌", ratatui::style::Style::new());
        return;
    }
    for x in line.x..line.right() {
        let cell = &mut buffer[(x, line.y)];
        cell.fg = ratatui::style::Color::Reset;
        cell.modifier.remove(Modifier::DIM);
        cell.modifier.insert(Modifier::REVERSED);
    }
}

/// Clears an area, so that nothing below it shows through.
fn clear(buffer: &mut Buffer, area: Rect) {
    for y in area.y..area.bottom() {
        for x in area.x..area.right() {
            buffer[(x, y)].reset();
        }
    }
}
