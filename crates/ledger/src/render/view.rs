//! What there is to show of a session, in whichever form.

use std::fmt::Write;

use serde_json::Value;

use crate::messages::text_of;
use crate::replay::without_binary;
use crate::{MessageRecord, SessionRecord, Time};

/// A piece of a message.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) kind: Kind,
    pub(super) text: String,
}

#[derive(Debug, PartialEq)]
pub(super) enum Kind {
    Text,
    Reasoning,
    /// Of a tool with this name.
    Call(String),
    /// Of the call with this name.
    Result(String),
    /// What is none of the above.
    Data,
}

pub(super) enum Fact {
    Text(String),
    Time(Time),
}

/// What is known about a session as a whole.
pub(super) fn facts(session: &SessionRecord) -> Vec<(&'static str, Fact)> {
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

pub(super) fn title(session: &SessionRecord) -> &str {
    session.title.as_deref().filter(|title| !title.trim().is_empty()).unwrap_or(&session.id)
}

/// Why the model does not see a message any more.
pub(super) fn marks(message: &MessageRecord) -> Vec<&'static str> {
    [
        (message.undone, "undone"),
        (message.compacted, "compacted"),
        (message.summarizes.is_some(), "summary"),
    ]
    .into_iter()
    .filter_map(|(is_set, mark)| is_set.then_some(mark))
    .collect()
}

/// Everything that a message says, in reading order.
pub(super) fn pieces(message: &MessageRecord) -> Vec<Piece> {
    let mut pieces = reasoning(message);
    let result = || {
        let name = message.tool_name.as_ref().or(message.tool_call_id.as_ref());
        Kind::Result(name.cloned().unwrap_or_default())
    };
    let is_result = matches!(message.role.as_str(), "tool" | "function");
    for mut piece in blocks(message.content.as_ref()) {
        if is_result && piece.kind == Kind::Text {
            piece.kind = result();
        }
        pieces.push(piece);
    }
    pieces.extend(calls(message.tool_calls.as_ref()));
    pieces.retain(|piece| !piece.text.trim().is_empty() || matches!(piece.kind, Kind::Call(_)));
    pieces
}

fn reasoning(message: &MessageRecord) -> Vec<Piece> {
    let mut texts: Vec<String> =
        [&message.reasoning, &message.reasoning_content].into_iter().flatten().cloned().collect();
    // Often both are the same.
    texts.dedup();
    if texts.is_empty() {
        texts.extend(message.reasoning_details.as_ref().map(text_of));
    }
    texts.into_iter().map(|text| Piece { kind: Kind::Reasoning, text }).collect()
}

fn blocks(content: Option<&Value>) -> Vec<Piece> {
    match content {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(blocks)) => blocks.iter().map(block).collect(),
        Some(content) => vec![block(content)],
    }
}

fn block(block: &Value) -> Piece {
    let string = |key: &str| block.get(key).and_then(Value::as_str);
    let piece = |kind: Kind, text: &str| Some(Piece { kind, text: text.to_owned() });
    let known = match (block, string("type")) {
        (Value::String(text), _) => piece(Kind::Text, text),
        (_, Some("text" | "input_text" | "output_text")) => {
            string("text").and_then(|text| piece(Kind::Text, text))
        }
        (_, Some("thinking")) => string("thinking").and_then(|text| piece(Kind::Reasoning, text)),
        (_, Some("tool_use")) => string("name").map(|name| Piece {
            kind: Kind::Call(name.to_owned()),
            text: block.get("input").map(pretty).unwrap_or_default(),
        }),
        (_, Some("tool_result")) => Some(tool_result(block)),
        _ => None,
    };
    known.unwrap_or_else(|| Piece { kind: Kind::Data, text: pretty(block) })
}

fn tool_result(block: &Value) -> Piece {
    let name = block.get("tool_use_id").and_then(Value::as_str).unwrap_or_default();
    let texts: Vec<String> =
        blocks(block.get("content")).into_iter().map(|piece| piece.text).collect();
    Piece { kind: Kind::Result(name.to_owned()), text: texts.join("\n") }
}

fn calls(calls: Option<&Value>) -> Vec<Piece> {
    match calls {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(calls)) => calls.iter().map(call).collect(),
        Some(call) => vec![Piece { kind: Kind::Data, text: pretty(call) }],
    }
}

fn call(call: &Value) -> Piece {
    let function = call.get("function").unwrap_or(call);
    match function.get("name").and_then(Value::as_str) {
        Some(name) => Piece {
            kind: Kind::Call(name.to_owned()),
            text: function.get("arguments").map(pretty).unwrap_or_default(),
        },
        None => Piece { kind: Kind::Data, text: pretty(call) },
    }
}

/// JSON with indentation; text as it is, unless that is JSON itself.
fn pretty(value: &Value) -> String {
    let inner = value.as_str().map(serde_json::from_str::<Value>);
    let value = match (value, inner) {
        (_, Some(Ok(inner @ (Value::Object(_) | Value::Array(_))))) => inner,
        (Value::String(text), _) => return text.clone(),
        (value, _) => value.clone(),
    };
    let value = without_binary(value);
    serde_json::to_string_pretty(&value).unwrap_or_else(|_| value.to_string())
}

/// The text with everything visible that would act on the page instead of showing: control
/// characters and those that change the direction of text.
pub(super) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.replace("\r\n", "\n").chars() {
        if matches!(character, '\n' | '\t') || !acts(character) {
            shown.push(character);
        } else {
            // Writing to a string does not fail.
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(character));
        }
    }
    shown
}

fn acts(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}'
                | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// The same on one line.
pub(super) fn visible_line(text: &str) -> String {
    visible(text).split_whitespace().collect::<Vec<_>>().join(" ")
}
