//! The help: all keys, grouped by purpose.

use ratatui::buffer::Buffer;
use ratatui::text::{Line, Span};

use super::dialog::draw_panel;
use crate::theme::{Ink, Theme};

/// The keys, in groups.
const GROUPS: [(&str, &[(&str, &str)]); 4] = [
    (
        "Take back",
        &[
            ("Enter", "roll back to before this turn, or restore the selected files"),
            ("u", "undo only this turn, and keep your own edits"),
            ("U", "reverse the last rollback"),
            ("R", "repeat it"),
        ],
    ),
    (
        "Look",
        &[
            ("↑↓ j k", "move; PageUp, PageDown, g, G"),
            ("→ ←", "open the steps of a turn, go to the right pane and back"),
            ("Tab 1–5", "files, diff, conversation, effects, coverage"),
            ("Space", "select a file to restore; a selects all"),
            ("v", "the diff of this turn, or of all changes since then"),
            ("o", "open or fold tool calls"),
            ("d", "all changes since then, in the pager"),
            ("t", "the time of day, or how long ago"),
        ],
    ),
    (
        "Find",
        &[
            ("/", "filter by prompt, file or text"),
            ("s", "search everything that was ever said"),
            ("y", "copy the command that continues the conversation"),
        ],
    ),
    (
        "Keep",
        &[
            ("c", "take a checkpoint"),
            ("n", "name it"),
            ("p", "pin it, so that it is never pruned"),
            ("q Esc", "quit"),
        ],
    ),
];

/// The signs that the list uses, and their meanings.
const SIGNS: &str = " ● here now   ○ a turn   ◆ by hand   ◇ a rollback   ⚠ effects that stay   struck through: taken back";

pub(super) fn draw(theme: Theme, buffer: &mut Buffer) {
    let mut lines = Vec::new();
    let room = usize::from(buffer.area.height).saturating_sub(3);
    // On a small screen, the headings of the groups are left out.
    let total: usize = GROUPS.iter().map(|(_, keys)| keys.len() + 1).sum();
    for (title, keys) in GROUPS {
        if total < room {
            lines.push(Line::styled(format!(" {title}"), theme.style(Ink::Strong)));
        }
        for (key, words) in keys {
            lines.push(Line::from(vec![
                Span::styled(format!("  {key:<9}"), theme.style(Ink::Key)),
                Span::raw(*words),
            ]));
        }
    }
    lines.truncate(room);
    lines.push(Line::styled(SIGNS, theme.style(Ink::Faint)));
    draw_panel("Keys (any key closes this)", &lines, theme, buffer);
}
