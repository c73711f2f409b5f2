//! A session as Markdown. All that was said stands in fences: whatever is in it, headings, HTML
//! or fences of its own, the structure around it is ours.

use std::fmt::{self, Write};

use super::view::{self, Fact, Kind, Piece};
use crate::{EffectRecord, MessageRecord, SessionRecord, Transcript};

pub(super) fn write(transcript: &Transcript) -> String {
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
    writeln!(page, "# {}\n", inline(view::title(session)))?;
    for (name, fact) in view::facts(session) {
        let value = match fact {
            Fact::Text(text) => inline(&text),
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
    write!(page, "\n## {}. {}", message.seq, inline(&message.role))?;
    if let Some(time) = message.timestamp {
        write!(page, ", {}", time.rfc3339())?;
    }
    let marks = view::marks(message);
    if !marks.is_empty() {
        write!(page, " ({})", marks.join(", "))?;
    }
    page.push('\n');
    view::pieces(message).iter().try_for_each(|piece| write_piece(page, piece))
}

fn write_piece(page: &mut String, piece: &Piece) -> fmt::Result {
    let (label, language) = match &piece.kind {
        Kind::Reasoning => return write_details(page, "Reasoning", &piece.text),
        Kind::Text => (None, "markdown"),
        Kind::Call(name) => (Some(labelled("Calls", name)), "json"),
        Kind::Result(name) => (Some(labelled("Result of", name)), "text"),
        Kind::Data => (Some("Data".to_owned()), "json"),
    };
    if let Some(label) = label {
        writeln!(page, "\n{label}")?;
    }
    page.push('\n');
    write_fenced(page, language, &piece.text)
}

fn labelled(what: &str, name: &str) -> String {
    match inline(name) {
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
        write!(page, "\n**{}**, turn {}", inline(&effect.kind), effect.turn)?;
        if let Some(time) = effect.time {
            write!(page, ", {}", time.rfc3339())?;
        }
        page.push_str("\n\n");
        write_fenced(page, "text", &effect.command)?;
    }
    Ok(())
}

/// In a fence that is longer than any run of backticks in the text.
fn write_fenced(page: &mut String, language: &str, text: &str) -> fmt::Result {
    let text = view::visible(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    writeln!(page, "{fence}{language}\n{text}{end}{fence}")
}

/// Text within a line of ours, where no character has a meaning.
fn inline(text: &str) -> String {
    let mut line = String::new();
    for character in view::visible_line(text).chars() {
        if is_special(character) {
            line.push('\\');
        }
        line.push(character);
    }
    // Renderers make links of bare addresses.
    line.replace("://", ":\\/\\/")
}

/// Punctuation that means something within a line.
fn is_special(character: char) -> bool {
    matches!(
        character,
        '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '&' | '#' | '~' | '|' | '!' | '$' | '@'
    )
}
