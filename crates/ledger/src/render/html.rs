//! Rendering sessions as one HTML page. All text from a session passes through [`escape`].

use std::fmt::{self, Write};

use super::view::{self, Fact, Piece, PieceKind};
use crate::{EffectRecord, MessageRecord, SessionRecord, Time, Transcript};

const STYLE: &str = include_str!("style.css");

/// The number of lines above which a call, a result or other data is collapsed.
const LONG_LINES: usize = 20;
/// The number of bytes above which a call, a result or other data is collapsed.
const LONG_BYTES: usize = 2_000;

/// The content security policy. With it, even text that evaded the escaping could not run or load
/// anything.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

pub(super) fn render(transcripts: &[Transcript]) -> String {
    let mut page = String::new();
    // Writing to a string does not fail.
    let _ = write_page(&mut page, transcripts);
    page
}

fn write_page(page: &mut String, transcripts: &[Transcript]) -> fmt::Result {
    let title = match transcripts {
        [transcript] => escape_line(view::session_title(&transcript.session)),
        _ => format!("{} sessions", transcripts.len()),
    };
    write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n"
    )?;
    if transcripts.len() > 1 {
        write_contents(page, &title, transcripts)?;
    }
    page.push_str("<main>\n");
    transcripts.iter().try_for_each(|transcript| write_session(page, transcript))?;
    page.push_str("</main>\n</body>\n</html>\n");
    Ok(())
}

fn write_contents(page: &mut String, title: &str, transcripts: &[Transcript]) -> fmt::Result {
    write!(page, "<nav>\n<h1>{title}</h1>\n<ol>\n")?;
    for Transcript { session, .. } in transcripts {
        let (anchor, title) = (session_anchor(session), escape_line(view::session_title(session)));
        write!(page, "<li><a href=\"#{anchor}\">{title}</a>")?;
        if let Some(time) = session.started_at {
            write!(page, " {}", time_element(time))?;
        }
        page.push_str("</li>\n");
    }
    page.push_str("</ol>\n</nav>\n");
    Ok(())
}

fn write_session(page: &mut String, transcript: &Transcript) -> fmt::Result {
    let session = &transcript.session;
    let title = escape_line(view::session_title(session));
    write!(page, "<article id=\"{}\">\n<header>\n<h2>{title}</h2>\n", session_anchor(session))?;
    page.push_str("<dl>\n");
    for (name, fact) in view::session_facts(session) {
        let value = match fact {
            Fact::Text(text) => escape_line(&text),
            Fact::Time(time) => time_element(time),
        };
        writeln!(page, "<dt>{name}</dt><dd>{value}</dd>")?;
    }
    page.push_str("</dl>\n</header>\n");
    if let Some(prompt) = session.system_prompt.as_ref().filter(|text| !text.trim().is_empty()) {
        write_folded(page, "System prompt", prompt)?;
    }
    for (place, message) in transcript.messages.iter().enumerate() {
        write_message(page, session, place, message)?;
    }
    write_effects(page, &transcript.effects)?;
    page.push_str("</article>\n");
    Ok(())
}

fn write_message(
    page: &mut String,
    session: &SessionRecord,
    place: usize,
    message: &MessageRecord,
) -> fmt::Result {
    let marks = view::message_marks(message);
    let class: Vec<&str> =
        ["message", role_class(&message.role)].into_iter().chain(marks.clone()).collect();
    // A message that was never in a ledger has no number.
    let seq = if message.seq == 0 { place as i64 + 1 } else { message.seq };
    let anchor = format!("{}-{seq}", encode_id(&session.id));
    writeln!(page, "<section class=\"{}\" id=\"{anchor}\">", class.join(" "))?;
    write!(page, "<h3><a href=\"#{anchor}\">{seq}. {}</a>", escape_line(&message.role))?;
    if let Some(time) = message.timestamp {
        write!(page, " {}", time_element(time))?;
    }
    for mark in marks {
        write!(page, " <strong class=\"mark\">{mark}</strong>")?;
    }
    page.push_str("</h3>\n");
    view::message_pieces(message).iter().try_for_each(|piece| write_piece(page, piece))?;
    page.push_str("</section>\n");
    Ok(())
}

fn write_piece(page: &mut String, Piece { kind, text }: &Piece) -> fmt::Result {
    let is_long = text.len() > LONG_BYTES || text.lines().count() > LONG_LINES;
    let label = match kind {
        PieceKind::Text => {
            return writeln!(page, "<pre class=\"text\">{}</pre>", escape_preformatted(text));
        }
        PieceKind::Reasoning => return write_folded(page, "Reasoning", text),
        PieceKind::Call(name) => tool_label("Calls", name),
        PieceKind::Result(name) => tool_label("Result of", name),
        PieceKind::Data => "Data".to_owned(),
    };
    if is_long {
        let label = format!("{label}, {} lines", text.lines().count());
        return write_folded(page, &label, text);
    }
    writeln!(page, "<p class=\"label\">{label}</p>")?;
    writeln!(page, "<pre class=\"data\">{}</pre>", escape_preformatted(text))
}

fn tool_label(what: &str, name: &str) -> String {
    match escape_line(name) {
        name if name.is_empty() => format!("{what} a tool"),
        name => format!("{what} <strong>{name}</strong>"),
    }
}

/// Writes collapsed text, which the reader can expand. `label` is HTML.
fn write_folded(page: &mut String, label: &str, text: &str) -> fmt::Result {
    let text = escape_preformatted(text);
    writeln!(
        page,
        "<details><summary>{label}</summary>\n<pre class=\"data\">{text}</pre></details>"
    )
}

fn write_effects(page: &mut String, effects: &[EffectRecord]) -> fmt::Result {
    if effects.is_empty() {
        return Ok(());
    }
    page.push_str("<section class=\"effects\">\n<h3>Effects that cannot be reversed</h3>\n<ul>\n");
    for effect in effects {
        write!(page, "<li>{}, turn {}", escape_line(&effect.kind), effect.turn)?;
        if let Some(time) = effect.time {
            write!(page, ", {}", time_element(time))?;
        }
        writeln!(page, "<pre class=\"data\">{}</pre></li>", escape_preformatted(&effect.command))?;
    }
    page.push_str("</ul>\n</section>\n");
    Ok(())
}

fn time_element(time: Time) -> String {
    let time = time.rfc3339();
    format!("<time datetime=\"{time}\">{time}</time>")
}

fn role_class(role: &str) -> &'static str {
    match role {
        "user" => "user",
        "assistant" => "assistant",
        "tool" | "function" => "tool",
        "system" | "developer" => "system",
        _ => "other",
    }
}

/// Returns the anchor of a session. It differs from the anchor of every message.
fn session_anchor(session: &SessionRecord) -> String {
    format!("~~{}", encode_id(&session.id))
}

/// Encodes the id of a session for an anchor. No two ids have the same encoding.
fn encode_id(id: &str) -> String {
    let mut name = String::new();
    for byte in id.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'-') {
            name.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(name, "~{byte:02x}");
        }
    }
    name
}

/// Escapes text for a `pre` element. Adds a line break at the start, because browsers drop the
/// first line break in the element.
fn escape_preformatted(text: &str) -> String {
    format!("\n{}", escape(&view::make_visible(text)))
}

fn escape_line(text: &str) -> String {
    escape(&view::make_visible_line(text))
}

/// Escapes text for HTML, between tags and in quoted attributes.
fn escape(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            character => html.push(character),
        }
    }
    html
}
