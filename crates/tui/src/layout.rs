//! The areas of the screen.

use ratatui::layout::Rect;

/// The minimum width of a screen with two panes.
const TWO_PANES: u16 = 100;

/// The maximum width of the left pane.
const MAX_LIST: u16 = 90;

/// The areas of the screen. The right pane has a line with its tabs, and a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) head: Rect,
    pub(crate) list: Option<Rect>,
    /// The column of the line between the panes.
    pub(crate) rule: Option<u16>,
    pub(crate) tabs: Option<Rect>,
    pub(crate) body: Option<Rect>,
    pub(crate) foot: Rect,
}

impl Layout {
    /// Divides the screen. On a narrow screen, only the pane with the focus is shown. `foot` is the
    /// height of the foot, including the line above it.
    pub(crate) fn new((columns, rows): (u16, u16), is_pane_focused: bool, foot: u16) -> Layout {
        let foot_height = foot.min(rows.saturating_sub(2));
        let head = Rect::new(0, 0, columns, 1.min(rows));
        let foot = Rect::new(0, rows - foot_height, columns, foot_height);
        let middle = Rect::new(0, head.height, columns, rows - foot_height - head.height);
        let list_only =
            Layout { head, list: Some(middle), rule: None, tabs: None, body: None, foot };
        if columns < TWO_PANES {
            if !is_pane_focused {
                return list_only;
            }
            let inner = Rect { x: 1, width: columns.saturating_sub(1), ..middle };
            let (tabs, body) = split_pane(inner);
            return Layout { list: None, tabs: Some(tabs), body: Some(body), ..list_only };
        }
        let left = (columns / 2).min(MAX_LIST);
        let list = Rect { width: left, ..middle };
        let pane = Rect { x: left + 2, width: columns - left - 2, ..middle };
        let (tabs, body) = split_pane(pane);
        let (list, rule) = (Some(list), Some(left));
        Layout { head, list, rule, tabs: Some(tabs), body: Some(body), foot }
    }

    /// Returns the number of lines in the list.
    pub(crate) fn list_height(&self) -> usize {
        self.list.map_or(1, |list| usize::from(list.height)).max(1)
    }

    /// Returns the number of lines in the body of the right pane.
    pub(crate) fn body_height(&self) -> usize {
        self.body.map_or(1, |body| usize::from(body.height)).max(1)
    }

    /// Returns the number of columns in the body of the right pane.
    pub(crate) fn body_width(&self) -> usize {
        self.body.map_or(80, |body| usize::from(body.width)).max(1)
    }
}

/// Splits a pane into the line with the tabs, an empty line, and the body.
fn split_pane(pane: Rect) -> (Rect, Rect) {
    let tabs = Rect { height: pane.height.min(1), ..pane };
    let used = pane.height.min(2);
    (tabs, Rect { y: pane.y + used, height: pane.height - used, ..pane })
}
