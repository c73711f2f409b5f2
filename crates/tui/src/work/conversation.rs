//! Renders the messages of a turn for the width of the pane.

use ratatui::text::Line;
use takeback_ledger::MessageRecord;
use takeback_ledger::render::{Piece, PieceKind, message_marks, message_pieces};
use takeback_tree::Oid;
use takeback_undo::Opened;
use takeback_undo::history::read_turn_messages;
use takeback_undo::view::text::list_edited_lines;
use takeback_undo::view::text::{count, describe_input, one_line, timestamp, visible};

use super::Work;
use super::ansi::parse_line;
use crate::content::{Block, Message, ToolLine};
use crate::host::Error;
use crate::view::wrap;

/// The maximum length of a text that is rendered, in bytes.
const MAX_TEXT: usize = 100_000;

/// The maximum number of lines of an unfolded tool call.
const MAX_TOOL: usize = 200;

/// The maximum width of text. Longer lines are hard to read.
const MAX_COLUMNS: usize = 88;

impl Work {
    pub(super) fn read_conversation(
        &self,
        opened: &Opened,
        id: &Oid,
        columns: usize,
    ) -> Result<Vec<Message>, Error> {
        let (_, history) = self.history(opened)?;
        let mut rows = history.rows();
        let row = rows.find(|row| row.steps().any(|step| step.pin.id == *id));
        let Some(row) = row else { return Ok(Vec::new()) };
        let messages = read_turn_messages(opened, &row)?.map(|found| found.messages);
        Ok(self.render_messages(&messages.unwrap_or_default(), columns))
    }

    /// Renders messages for a pane of the given width.
    pub(super) fn render_messages(
        &self,
        messages: &[MessageRecord],
        columns: usize,
    ) -> Vec<Message> {
        let columns = columns.min(MAX_COLUMNS);
        let render = |message: &MessageRecord| Message {
            role: message.role.clone(),
            number: message.seq,
            time: message.timestamp.map(timestamp),
            marks: message_marks(message).iter().map(|mark| name_mark(mark)).collect(),
            blocks: message_pieces(message)
                .iter()
                .map(|piece| self.render_piece(piece, &message.role, columns))
                .collect(),
        };
        messages.iter().map(render).collect()
    }

    fn render_piece(&self, piece: &Piece, role: &str, columns: usize) -> Block {
        let text = shorten(&piece.text);
        match &piece.kind {
            PieceKind::Text if role == "assistant" => {
                let lines = self.host.render_markdown(&visible(text), columns);
                Block::Text(lines.iter().map(|line| parse_line(line, self.has_colors)).collect())
            }
            PieceKind::Text => {
                let text = visible(text).replace('\t', "    ");
                let lines = wrap(text.trim_end(), columns);
                Block::Text(lines.into_iter().map(Line::raw).collect())
            }
            PieceKind::Reasoning => {
                Block::Tool { head: "Reasoning".into(), body: plain_lines(text) }
            }
            PieceKind::Call(name) => {
                let head = format!("{}  {}", one_line(name), one_line(&describe_input(text)));
                Block::Tool { head, body: edit_lines(text).unwrap_or_else(|| plain_lines(text)) }
            }
            PieceKind::Result(name) => {
                let lines = count(text.lines().count() as u64, "line");
                let of =
                    if name.is_empty() { String::new() } else { format!(" of {}", one_line(name)) };
                Block::Tool { head: format!("Result{of}  {lines}"), body: plain_lines(text) }
            }
            PieceKind::Data => Block::Tool { head: "Data".into(), body: plain_lines(text) },
        }
    }
}

fn name_mark(mark: &str) -> String {
    if mark == "undone" { "taken back".to_owned() } else { mark.to_owned() }
}

fn shorten(text: &str) -> &str {
    match text.char_indices().find(|(at, _)| *at >= MAX_TEXT) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

fn plain_lines(text: &str) -> Vec<ToolLine> {
    let mut lines: Vec<ToolLine> = shown_lines(text).take(MAX_TOOL).map(ToolLine::Plain).collect();
    let left = text.lines().count().saturating_sub(MAX_TOOL);
    if left > 0 {
        lines.push(ToolLine::Plain(format!("… and {} more", count(left as u64, "line"))));
    }
    lines
}

fn shown_lines(text: &str) -> impl Iterator<Item = String> {
    let text = visible(text).replace('\t', "    ");
    text.lines().map(str::to_owned).collect::<Vec<_>>().into_iter()
}

/// Lists the lines that a call to an editing tool removes and adds. Returns `None` if the call is
/// not an edit.
fn edit_lines(arguments: &str) -> Option<Vec<ToolLine>> {
    let (old, new) = list_edited_lines(arguments)?;
    let shown = |line: String| visible(&line).replace('\t', "    ");
    let removed = old.into_iter().take(MAX_TOOL).map(|line| ToolLine::Removed(shown(line)));
    let added = new.into_iter().take(MAX_TOOL).map(|line| ToolLine::Added(shown(line)));
    Some(removed.chain(added).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_is_shown_as_a_diff() {
        let call = r#"{"file_path": "a", "old_string": "x\ny", "new_string": "z"}"#;
        let (removed, added) = (
            |text: &str| ToolLine::Removed(text.into()),
            |text: &str| ToolLine::Added(text.into()),
        );
        assert_eq!(edit_lines(call).unwrap(), [removed("x"), removed("y"), added("z")]);
        assert_eq!(edit_lines(r#"{"command": "ls"}"#), None);
        assert_eq!(edit_lines("not json"), None);
    }
}
