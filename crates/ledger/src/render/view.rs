//! The parts of a session that are shown, in both Markdown and HTML.

use std::fmt::Write;

use serde_json::Value;
use takeback_base::text::is_armed;

use crate::messages::text_of;
use crate::replay::without_binary;
use crate::{MessageRecord, SessionRecord, Time};

/// A piece of a message.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Piece {
    pub kind: PieceKind,
    pub text: String,
}

/// The kind of a piece.
#[derive(Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum PieceKind {
    Text,
    Reasoning,
    /// A call to the tool with this name.
    Call(String),
    /// The result of the tool or call with this name.
    Result(String),
    /// Anything else, as JSON.
    Data,
}

/// A fact about a session.
pub(super) enum Fact {
    Text(String),
    Time(Time),
}

/// Lists the known facts about a session.
pub(super) fn session_facts(session: &SessionRecord) -> Vec<(&'static str, Fact)> {
    let text = |text: &Option<String>| text.clone().map(Fact::Text);
    let number = |number: i64| (number != 0).then(|| Fact::Text(number.to_string()));
    let facts = [
        ("Session", Some(Fact::Text(session.id.clone()))),
        ("Source", Some(Fact::Text(session.source.clone()))),
        ("Model", text(&session.model)),
        ("Workspace", text(&session.workspace)),
        ("Branch", text(&session.git_branch)),
        ("Parent", parent(session).map(Fact::Text)),
        ("Started", session.started_at.map(Fact::Time)),
        ("Ended", session.ended_at.map(Fact::Time)),
        ("End", text(&session.end_reason)),
        ("Input tokens", number(session.tokens.input)),
        ("Output tokens", number(session.tokens.output)),
        ("Tokens read from cache", number(session.tokens.cache_read)),
        ("Tokens written to cache", number(session.tokens.cache_write)),
        ("Reasoning tokens", number(session.tokens.reasoning)),
        ("Cost", cost(session).map(Fact::Text)),
    ];
    let is_empty = |fact: &Fact| matches!(fact, Fact::Text(text) if text.is_empty());
    facts
        .into_iter()
        .filter_map(|(name, fact)| Some((name, fact.filter(|fact| !is_empty(fact))?)))
        .collect()
}

fn parent(session: &SessionRecord) -> Option<String> {
    let parent = session.parent_session_id.as_ref()?;
    Some(match session.parent_kind {
        Some(kind) => format!("{parent} ({})", kind.as_str()),
        None => parent.clone(),
    })
}

fn cost(session: &SessionRecord) -> Option<String> {
    let actual = session.actual_cost_usd.map(|cost| format!("{cost:.4} USD"));
    actual.or_else(|| Some(format!("{:.4} USD (estimated)", session.estimated_cost_usd?)))
}

/// Returns the title of a session, or its id if it has no title.
pub fn session_title(session: &SessionRecord) -> &str {
    session.title.as_deref().filter(|title| !title.trim().is_empty()).unwrap_or(&session.id)
}

/// Returns the marks of a message: any of `undone`, `compacted` and `summary`.
pub fn message_marks(message: &MessageRecord) -> Vec<&'static str> {
    [
        (message.undone, "undone"),
        (message.compacted, "compacted"),
        (message.summarizes.is_some(), "summary"),
    ]
    .into_iter()
    .filter_map(|(is_set, mark)| is_set.then_some(mark))
    .collect()
}

/// Splits a message into pieces, in reading order.
pub fn message_pieces(message: &MessageRecord) -> Vec<Piece> {
    let mut pieces = reasoning_pieces(message);
    let result = || {
        let name = message.tool_name.as_ref().or(message.tool_call_id.as_ref());
        PieceKind::Result(name.cloned().unwrap_or_default())
    };
    let is_result = matches!(message.role.as_str(), "tool" | "function");
    for mut piece in content_pieces(message.content.as_ref()) {
        if is_result && piece.kind == PieceKind::Text {
            piece.kind = result();
        }
        pieces.push(piece);
    }
    pieces.extend(call_pieces(message.tool_calls.as_ref()));
    pieces
        .retain(|piece| !piece.text.trim().is_empty() || matches!(piece.kind, PieceKind::Call(_)));
    pieces
}

fn reasoning_pieces(message: &MessageRecord) -> Vec<Piece> {
    let mut texts: Vec<String> =
        [&message.reasoning, &message.reasoning_content].into_iter().flatten().cloned().collect();
    // Both fields often have the same text.
    texts.dedup();
    if texts.is_empty() {
        texts.extend(message.reasoning_details.as_ref().map(text_of));
    }
    texts.into_iter().map(|text| Piece { kind: PieceKind::Reasoning, text }).collect()
}

fn content_pieces(content: Option<&Value>) -> Vec<Piece> {
    match content {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(blocks)) => blocks.iter().map(block_piece).collect(),
        Some(content) => vec![block_piece(content)],
    }
}

fn block_piece(block: &Value) -> Piece {
    let string = |key: &str| block.get(key).and_then(Value::as_str);
    let piece = |kind: PieceKind, text: &str| Some(Piece { kind, text: text.to_owned() });
    let known = match (block, string("type")) {
        (Value::String(text), _) => piece(PieceKind::Text, text),
        (_, Some("text" | "input_text" | "output_text")) => {
            string("text").and_then(|text| piece(PieceKind::Text, text))
        }
        (_, Some("thinking")) => {
            string("thinking").and_then(|text| piece(PieceKind::Reasoning, text))
        }
        (_, Some("tool_use")) => string("name").map(|name| Piece {
            kind: PieceKind::Call(name.to_owned()),
            text: block.get("input").map(format_json).unwrap_or_default(),
        }),
        (_, Some("tool_result")) => Some(result_piece(block)),
        _ => None,
    };
    known.unwrap_or_else(|| Piece { kind: PieceKind::Data, text: format_json(block) })
}

fn result_piece(block: &Value) -> Piece {
    let name = block.get("tool_use_id").and_then(Value::as_str).unwrap_or_default();
    let texts: Vec<String> =
        content_pieces(block.get("content")).into_iter().map(|piece| piece.text).collect();
    Piece { kind: PieceKind::Result(name.to_owned()), text: texts.join("\n") }
}

fn call_pieces(calls: Option<&Value>) -> Vec<Piece> {
    match calls {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(calls)) => calls.iter().map(call_piece).collect(),
        Some(call) => vec![Piece { kind: PieceKind::Data, text: format_json(call) }],
    }
}

fn call_piece(call: &Value) -> Piece {
    let function = call.get("function").unwrap_or(call);
    match function.get("name").and_then(Value::as_str) {
        Some(name) => Piece {
            kind: PieceKind::Call(name.to_owned()),
            text: function.get("arguments").map(format_json).unwrap_or_default(),
        },
        None => Piece { kind: PieceKind::Data, text: format_json(call) },
    }
}

/// Formats JSON, including JSON in a string, with indentation. Returns other text unchanged.
fn format_json(value: &Value) -> String {
    let inner = value.as_str().map(serde_json::from_str::<Value>);
    let value = match (value, inner) {
        (_, Some(Ok(inner @ (Value::Object(_) | Value::Array(_))))) => inner,
        (Value::String(text), _) => return text.clone(),
        (value, _) => value.clone(),
    };
    let value = without_binary(value);
    serde_json::to_string_pretty(&value).unwrap_or_else(|_| value.to_string())
}

/// Escapes control characters and characters that change the direction of text.
pub fn make_visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.replace("\r\n", "\n").chars() {
        if matches!(character, '\n' | '\t') || !is_armed(character) {
            shown.push(character);
        } else {
            // Writing to a string does not fail.
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(character));
        }
    }
    shown
}

/// Turns text into one line, with control characters as escapes.
pub(super) fn make_visible_line(text: &str) -> String {
    make_visible(text).split_whitespace().collect::<Vec<_>>().join(" ")
}
