//! The messages of a turn, with tool calls that can be unfolded.

use std::ops::Range;

use ratatui::style::Modifier;
use ratatui::text::Line;
use takeback_undo::view::text::{absolute, clock, one_line};

use super::pane::describe_load;
use super::text::LineBuilder;
use crate::content::{Block, Message, ToolLine};
use crate::model::{Load, Model};
use crate::theme::{Ink, Theme};

/// A line of the conversation.
enum Row<'m> {
    Head(&'m Message),
    Text(&'m Line<'static>),
    Tool(&'m str, bool),
    Body(&'m ToolLine),
    Gap,
}

/// Lists the lines of messages.
fn list_rows(messages: &[Message], is_unfolded: bool) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for message in messages {
        if !rows.is_empty() {
            rows.push(Row::Gap);
        }
        rows.push(Row::Head(message));
        for block in &message.blocks {
            match block {
                Block::Text(lines) => rows.extend(lines.iter().map(Row::Text)),
                Block::Tool { head, body } => {
                    rows.push(Row::Tool(head, is_unfolded));
                    rows.extend(body.iter().filter(|_| is_unfolded).map(Row::Body));
                }
            }
        }
    }
    rows
}

/// Returns the number of lines of a conversation.
pub(crate) fn count_conversation(messages: &[Message], is_unfolded: bool) -> usize {
    list_rows(messages, is_unfolded).len()
}

/// Returns the line in which a message begins.
pub(crate) fn find_message_row(messages: &[Message], is_unfolded: bool, number: i64) -> usize {
    let is_head = |row: &Row<'_>| matches!(row, Row::Head(message) if message.number == number);
    list_rows(messages, is_unfolded).iter().position(is_head).unwrap_or(0)
}

/// A conversation, and the way in which it is shown.
pub(super) struct ConversationView<'a> {
    pub(super) model: &'a Model,
    pub(super) messages: &'a Load<Vec<Message>>,
    pub(super) is_unfolded: bool,
    pub(super) theme: Theme,
}

impl ConversationView<'_> {
    pub(super) fn render(&self, range: Range<usize>, width: usize) -> Vec<Line<'static>> {
        if let Some(lines) = describe_load(self.messages, self.theme) {
            return lines;
        }
        let messages = self.messages.ready().map_or(&[][..], Vec::as_slice);
        if messages.is_empty() {
            let why = "Hooks report prompts; answers come from the agent’s own log.";
            let lines = ["No conversation is known for this checkpoint.", why];
            return lines.map(|line| Line::styled(line, self.theme.style(Ink::Faint))).to_vec();
        }
        let rows = list_rows(messages, self.is_unfolded);
        let rows = rows.into_iter().skip(range.start).take(range.len());
        rows.map(|row| render_row(&row, self.model, self.theme, width)).collect()
    }
}

fn render_row(row: &Row<'_>, model: &Model, theme: Theme, width: usize) -> Line<'static> {
    let mut line = LineBuilder::new(width);
    match row {
        Row::Head(message) => {
            let role = one_line(&message.role);
            line.add(&role, theme.style(Ink::Strong).add_modifier(Modifier::UNDERLINED));
            if let Some(time) = message.time {
                let time = match model.has_absolute_times {
                    true => absolute(time, &model.zone),
                    false => clock(time, &model.zone),
                };
                line.add(&format!("  {time}"), theme.style(Ink::Faint));
            }
            line.add(&format!("  #{}", message.number), theme.style(Ink::Faint));
            for mark in &message.marks {
                line.add(&format!("  {mark}"), theme.style(Ink::Warning));
            }
        }
        Row::Text(text) => return (*text).clone(),
        Row::Tool(head, is_unfolded) => {
            line.add(if *is_unfolded { "▾ " } else { "▸ " }, theme.style(Ink::Key));
            line.add(head, theme.style(Ink::Faint));
        }
        Row::Body(ToolLine::Plain(text)) => {
            line.add(&format!("  {text}"), theme.style(Ink::Faint));
        }
        Row::Body(ToolLine::Removed(text)) => {
            line.add(&format!("− {text}"), theme.style(Ink::Removed));
        }
        Row::Body(ToolLine::Added(text)) => {
            line.add(&format!("+ {text}"), theme.style(Ink::Added));
        }
        Row::Gap => {}
    }
    line.build()
}
