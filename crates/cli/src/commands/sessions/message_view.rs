//! Prints messages as text for the terminal, with Markdown rendered and tool calls folded.

use std::io;

use takeback_ledger::MessageRecord;
use takeback_ledger::render::{Piece, PieceKind, message_pieces};
use takeback_undo::view::text::list_edited_lines;
use takeback_undo::view::text::{describe_input, one_line};

use super::text;
use crate::output::{self, Size, Style, paint, render_markdown};

/// The number of lines to which a long result is folded.
const FOLDED: usize = 3;

/// The maximum width of text. Longer lines are hard to read.
const WIDEST: usize = 100;

/// The width of a folded call if there is no terminal.
const USUAL: usize = 100;

/// The options for showing messages.
pub(super) struct MessageView {
    is_full: bool,
    /// The width of the terminal; `None` if something else reads the output.
    columns: Option<usize>,
}

impl MessageView {
    pub(super) fn new(is_full: bool) -> MessageView {
        let size = Size::of(io::stdout());
        MessageView { is_full, columns: size.map(|size| size.columns.min(WIDEST)) }
    }

    pub(super) fn print(&self, message: &MessageRecord) {
        let marks = [
            message.tool_name.as_deref().map(|name| format!(" {}", output::disarm(name))),
            message.timestamp.map(|time| format!("  {}", text::local_time(time))),
            message.undone.then(|| "  (undone)".to_owned()),
            message.compacted.then(|| "  (compacted)".to_owned()),
        ];
        let marks: String = marks.into_iter().flatten().collect();
        let head = format!("[{}] {}{marks}", message.seq, output::disarm(&message.role));
        println!("\n{}", paint(Style::Label, &head));
        for piece in message_pieces(message) {
            self.print_piece(&piece, &message.role);
        }
    }

    fn print_piece(&self, piece: &Piece, role: &str) {
        let text = piece.text.trim_end();
        match (&piece.kind, self.columns) {
            (PieceKind::Text, Some(columns)) if role == "assistant" => {
                let text = output::disarm_lines(text);
                render_markdown(&text, columns).iter().for_each(|line| println!("{line}"));
            }
            (PieceKind::Text, _) => println!("{}", output::disarm_lines(text)),
            (PieceKind::Call(name), _) => self.print_call(name, text),
            (PieceKind::Result(_), _) => self.print_body(text, FOLDED),
            (PieceKind::Reasoning, _) => {
                println!("{}", paint(Style::Faint, "▸ reasoning"));
                self.print_body(text, 0);
            }
            (PieceKind::Data, _) => {
                let kind = name_data(text);
                println!("{}", paint(Style::Faint, &format!("[{kind}]")));
                if self.is_full {
                    self.print_body(text, 0);
                }
            }
        }
    }

    /// Prints a call as one line and, if it is shown in full, its input. Edits are shown as diffs.
    fn print_call(&self, name: &str, arguments: &str) {
        let input = one_line(&describe_input(arguments));
        let line = format!("▸ {}  {input}", one_line(name));
        println!("{}", output::shorten(line.trim_end(), self.columns.unwrap_or(USUAL)));
        if !self.is_full {
            return;
        }
        let Some((removed, added)) = list_edited_lines(arguments) else {
            return self.print_body(arguments, 0);
        };
        for (sign, style, lines) in [("−", Style::Removed, removed), ("+", Style::Added, added)] {
            for line in lines {
                println!("  {}", paint(style, &format!("{sign} {}", output::disarm(&line))));
            }
        }
    }

    /// Prints the first lines of a text, or all lines if messages are shown in full.
    fn print_body(&self, text: &str, shown: usize) {
        let shown = if self.is_full { usize::MAX } else { shown };
        for line in text.lines().take(shown) {
            let line = format!("  {}", output::disarm(line));
            match self.is_full {
                true => println!("{line}"),
                false => println!("{}", output::shorten(&line, self.columns.unwrap_or(USUAL))),
            }
        }
        let left = text.lines().count().saturating_sub(shown);
        if left > 0 {
            let lines = output::count(left, if shown == 0 { "line" } else { "more line" });
            println!("  {}", paint(Style::Faint, &format!("… {lines} (--full)")));
        }
    }
}

/// Returns the kind of a piece of data, such as an image.
fn name_data(text: &str) -> String {
    let value: Option<serde_json::Value> = serde_json::from_str(text).ok();
    let kind = value.as_ref().and_then(|value| value.get("type")?.as_str());
    one_line(kind.unwrap_or("data"))
}
