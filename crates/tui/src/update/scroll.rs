//! Scrolling in the right pane.

use crate::model::Model;
use crate::model::pane::Tab;
use crate::view::{find_file_row, line_of_file, pane_length};

impl Model {
    /// Scrolls the right pane, or selects another file. A distance of 0 only makes the position
    /// valid again.
    pub(super) fn scroll_pane(&mut self, distance: isize) {
        let height = self.layout().body_height();
        if self.pane.tab == Tab::Files {
            let last = self.pane.files().len().saturating_sub(1);
            self.pane.file = self.pane.file.saturating_add_signed(distance).min(last);
            let line = line_of_file(self);
            // The heading of the first directory stays visible.
            let top = if line <= 1 { 0 } else { line };
            self.pane.top = self.pane.top.min(top).max((line + 1).saturating_sub(height));
            return;
        }
        if let Some(path) = &self.pane.goal
            && let Some(row) = find_file_row(&self.pane, path)
        {
            (self.pane.top, self.pane.goal) = (row, None);
        }
        let last = pane_length(self).saturating_sub(height);
        self.pane.top = self.pane.top.saturating_add_signed(distance).min(last);
    }
}
