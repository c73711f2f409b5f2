//! Rendering a session as Markdown. Text from the session is fenced or escaped, so headings, HTML
//! or fences in it do not change the structure of the page.

use std::fmt::{self, Write};

use super::view::{self, Fact, Piece, PieceKind};
use crate::{EffectRecord, MessageRecord, SessionRecord, Transcript};

pub(super) fn render(transcript: &Transcript) -> String {
    let mut page = String::new();
    // Writing to a string does not fail.
    let _ = write_transcript(&mut page, transcript);
    page
}

fn write_transcript(page: &mut String, transcript: &Transcript) -> fmt::Result {
    write_head(page, &transcript.session)?;
    for message in &transcript.messages {
        write_message(page, message)?;
    }
    write_effects(page, &transcript.effects)
}

fn write_head(page: &mut String, session: &SessionRecord) -> fmt::Result {
    writeln!(page, "# {}\n", escape_inline(view::session_title(session)))?;
    for (name, fact) in view::session_facts(session) {
        let value = match fact {
            Fact::Text(text) => escape_inline(&text),
            Fact::Time(time) => time.rfc3339(),
        };
        writeln!(page, "- {name}: {value}")?;
    }
    match &session.system_prompt {
        Some(prompt) if !prompt.trim().is_empty() => write_details(page, "System prompt", prompt),
        _ => Ok(()),
    }
}

fn write_message(page: &mut String, message: &MessageRecord) -> fmt::Result {
    write!(page, "\n## {}. {}", message.seq, escape_inline(&message.role))?;
    if let Some(time) = message.timestamp {
        write!(page, ", {}", time.rfc3339())?;
    }
    let marks = view::message_marks(message);
    if !marks.is_empty() {
        write!(page, " ({})", marks.join(", "))?;
    }
    page.push('\n');
    view::message_pieces(message).iter().try_for_each(|piece| write_piece(page, piece))
}

fn write_piece(page: &mut String, piece: &Piece) -> fmt::Result {
    let (label, language) = match &piece.kind {
        PieceKind::Reasoning => return write_details(page, "Reasoning", &piece.text),
        PieceKind::Text => (None, "markdown"),
        PieceKind::Call(name) => (Some(tool_label("Calls", name)), "json"),
        PieceKind::Result(name) => (Some(tool_label("Result of", name)), "text"),
        PieceKind::Data => (Some("Data".to_owned()), "json"),
    };
    if let Some(label) = label {
        writeln!(page, "\n{label}")?;
    }
    page.push('\n');
    write_fenced(page, language, &piece.text)
}

fn tool_label(what: &str, name: &str) -> String {
    match escape_inline(name) {
        name if name.is_empty() => format!("{what} a tool"),
        name => format!("{what} **{name}**"),
    }
}

fn write_details(page: &mut String, summary: &str, text: &str) -> fmt::Result {
    writeln!(page, "\n<details><summary>{summary}</summary>\n")?;
    write_fenced(page, "text", text)?;
    writeln!(page, "\n</details>")
}

fn write_effects(page: &mut String, effects: &[EffectRecord]) -> fmt::Result {
    if effects.is_empty() {
        return Ok(());
    }
    writeln!(page, "\n## Effects that cannot be reversed")?;
    for effect in effects {
        write!(page, "\n**{}**, turn {}", escape_inline(&effect.kind), effect.turn)?;
        if let Some(time) = effect.time {
            write!(page, ", {}", time.rfc3339())?;
        }
        page.push_str("\n\n");
        write_fenced(page, "text", &effect.command)?;
    }
    Ok(())
}

/// Writes text in a fence that is longer than any run of backticks in it.
fn write_fenced(page: &mut String, language: &str, text: &str) -> fmt::Result {
    let text = view::make_visible(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    writeln!(page, "{fence}{language}\n{text}{end}{fence}")
}

/// Escapes text within a line of the page.
fn escape_inline(text: &str) -> String {
    let mut line = String::new();
    for character in view::make_visible_line(text).chars() {
        if is_special(character) {
            line.push('\\');
        }
        line.push(character);
    }
    // Renderers turn bare addresses into links.
    line.replace("://", ":\\/\\/")
}

/// True for punctuation that has a meaning within a line of Markdown.
fn is_special(character: char) -> bool {
    matches!(
        character,
        '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '&' | '#' | '~' | '|' | '!' | '$' | '@'
    )
}
