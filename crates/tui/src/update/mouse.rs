//! The mouse: a click selects, and the wheel scrolls.

use ratatui::layout::{Position, Rect};

use crate::layout::Layout;
use crate::model::Model;
use crate::model::pane::Tab;
use crate::view::{file_at_line, tab_at};

impl Model {
    pub(super) fn click(&mut self, column: u16, row: u16) {
        if self.dialog.is_some() {
            return;
        }
        self.note = None;
        let layout = self.layout();
        if self.reader.is_some() {
            return self.click_in_reader(layout, column, row);
        }
        let is_in =
            |area: Option<Rect>| area.filter(|area| area.contains(Position::new(column, row)));
        if let Some(list) = is_in(layout.list) {
            let line = self.list.top + usize::from(row - list.y);
            self.is_pane_focused &= !self.list.select_line(line);
        } else if let Some(tabs) = is_in(layout.tabs) {
            if let Some(tab) = tab_at(self, usize::from(column - tabs.x)) {
                self.show_tab(tab);
            }
        } else if let Some(body) = is_in(layout.body) {
            self.is_pane_focused = true;
            let line = self.pane.top + usize::from(row - body.y);
            if self.pane.tab == Tab::Files
                && let Some(file) = file_at_line(self, line)
            {
                // The first click selects the file. The second click adds it to the chosen files,
                // or removes it from them.
                if self.pane.file == file {
                    self.pane.toggle_file();
                }
                self.pane.file = file;
            }
        }
    }

    pub(super) fn wheel(&mut self, column: u16, row: u16, lines: isize) {
        let layout = self.layout();
        let is_in =
            |area: Option<Rect>| area.is_some_and(|area| area.contains(Position::new(column, row)));
        if self.dialog.is_some() {
            return;
        }
        if let Some(reader) = &mut self.reader {
            match is_in(layout.list) {
                true => reader.move_by(lines.signum()),
                false => {
                    reader.conversation_top = reader.conversation_top.saturating_add_signed(lines);
                }
            }
            return;
        }
        if is_in(layout.list) {
            self.list.move_by(lines);
        } else if is_in(layout.body) {
            self.scroll_pane(lines);
        }
    }

    fn click_in_reader(&mut self, layout: Layout, column: u16, row: u16) {
        let Some(reader) = &mut self.reader else { return };
        let list = layout.list.filter(|list| list.contains(Position::new(column, row)));
        if let Some(list) = list {
            // Each session takes two lines.
            let at = reader.top + usize::from(row - list.y) / 2;
            if reader.found.ready().is_some_and(|found| at < found.len()) {
                (reader.at, reader.is_pane_focused) = (at, false);
            }
        } else if layout.body.is_some() {
            reader.is_pane_focused = reader.selected().is_some();
        }
    }
}
