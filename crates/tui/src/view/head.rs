//! The first line: the workspace, and its current state.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use takeback_base::columns::width_of;
use takeback_undo::view::text;
use takeback_undo::view::text::{agent_of, count, relative};

use super::text::LineBuilder;
use crate::model::{Load, Model};
use crate::theme::{Ink, Theme};

pub(super) fn draw(model: &Model, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let width = usize::from(area.width);
    let (state, ink) = describe_state(model);
    let mut line = LineBuilder::new(width);
    let room = width.saturating_sub(width_of(&state) + 2);
    line.add_filled(&format!(" {}", model.place), theme.style(Ink::Strong), room);
    line.add("  ", theme.style(Ink::Text)).add(&state, theme.style(ink));
    buffer.set_line(area.x, area.y, &line.build(), area.width);
}

/// Describes the current state: a working agent, a problem, the last rollback, or the number of
/// checkpoints.
fn describe_state(model: &Model) -> (String, Ink) {
    let past = match &model.past {
        Load::Ready(past) => past,
        Load::Failed(_) => return ("⚠ cannot be read ".into(), Ink::Warning),
        _ => return ("reading … ".into(), Ink::Faint),
    };
    if let Some(session) = past.working.first() {
        return (format!("● {} is working now ", agent_of(session)), Ink::Here);
    }
    match past.timeline.last_rollback() {
        Some(last) => {
            let time = last.time.parse().unwrap_or_default();
            let when = match relative(time, model.now).as_str() {
                "now" => "just now".to_owned(),
                since => format!("{since} ago"),
            };
            (format!("◇ {} {when} ", text::describe_action(last.action)), Ink::Faint)
        }
        None => {
            (format!("{} ", count(past.timeline.entries.len() as u64, "checkpoint")), Ink::Faint)
        }
    }
}
