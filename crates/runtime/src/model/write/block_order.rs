//! The order of the blocks in a reply of Anthropic's Messages API.
//!
//! The API requires that the reasoning of a reply be sent back in its original position among the
//! texts and calls. It rejects a request in which the reasoning has moved. The ledger stores the
//! reasoning, the text and the calls of a message separately. So if the reasoning is not simply at
//! the beginning, it is stored together with markers for the texts and calls around it.

use serde_json::{Value, json};
use takeback_ledger::MessageRecord;

/// The types of the markers.
const TEXT: &str = "text_marker";
const CALL: &str = "call_marker";

/// Creates a marker for the position of a text.
pub(in super::super) fn text_marker(text: &str) -> Value {
    json!({ "type": TEXT, "text": text })
}

/// Creates a marker for the position of the call with this index.
pub(in super::super) fn call_marker(index: usize) -> Value {
    json!({ "type": CALL, "call": index })
}

/// Returns the reasoning of a reply, given all its blocks in order. The result contains the markers
/// only if they are needed.
pub(in super::super) fn describe_order(mut blocks: Vec<Value>) -> Vec<Value> {
    let last = blocks.iter().rposition(|block| !is_marker(block)).map_or(0, |last| last + 1);
    let is_first = !blocks[..last].iter().any(is_marker);
    let texts = blocks.iter().filter(|block| block["type"] == TEXT).count();
    let ends_in_calls = blocks[last..].iter().skip_while(|block| block["type"] == TEXT);
    let is_usual = is_first && texts <= 1 && ends_in_calls.clone().all(|it| it["type"] == CALL);
    if last == 0 || is_usual {
        blocks.truncate(last);
    }
    if last == 0 { Vec::new() } else { blocks }
}

fn is_marker(block: &Value) -> bool {
    block["type"] == TEXT || block["type"] == CALL
}

/// Puts the blocks of the assistant's messages into their original order.
pub(super) fn restore_order(body: &mut Value, stored: &[MessageRecord]) {
    let Some(messages) = body.as_array_mut() else { return };
    let ordered = stored.iter().filter_map(|message| {
        let order = message.reasoning_details.as_ref()?.as_array()?;
        order.iter().any(is_marker).then_some((message, order))
    });
    for (message, order) in ordered {
        let Some(first) = order.iter().find(|block| !is_marker(block)) else { continue };
        for blocks in messages.iter_mut().filter_map(|message| message["content"].as_array_mut()) {
            if let Some(at) = blocks.iter().position(|block| block == first) {
                restore_message(blocks, at, message, order);
            }
        }
    }
}

/// Puts the blocks of one message, which begin at `at`, into their original order. Changes nothing
/// if some of them are missing.
fn restore_message(blocks: &mut Vec<Value>, at: usize, message: &MessageRecord, order: &[Value]) {
    let reasoning = order.iter().filter(|block| !is_marker(block)).count();
    let has_text = order.iter().any(|block| block["type"] == TEXT);
    let calls = order.iter().filter(|block| block["type"] == CALL).count();
    let first_call = at + reasoning + usize::from(has_text);
    let Some(found) = blocks.get(at..first_call + calls) else { return };
    let are_calls = found[first_call - at..].iter().all(|block| block["type"] == "tool_use");
    let is_next_call = blocks.get(first_call + calls).is_some_and(|it| it["type"] == "tool_use");
    if !are_calls || is_next_call || !has_same_text(message, order) {
        return;
    }
    let restored: Option<Vec<Value>> = order
        .iter()
        .map(|block| match block["type"].as_str() {
            Some(TEXT) => Some(json!({ "type": "text", "text": block["text"] })),
            Some(CALL) => {
                let index = usize::try_from(block["call"].as_u64()?).ok()?;
                found.get(first_call - at + index).cloned()
            }
            _ => Some(block.clone()),
        })
        .collect();
    if let Some(restored) = restored {
        blocks.splice(at..first_call + calls, restored);
    }
}

/// Returns true if a message still has the text that the markers contain.
fn has_same_text(message: &MessageRecord, order: &[Value]) -> bool {
    let dense = |text: &str| text.split_whitespace().collect::<String>();
    let marked = order.iter().filter_map(|block| block["text"].as_str());
    let stored = message.content.as_ref().and_then(Value::as_str).unwrap_or_default();
    dense(stored) == marked.map(dense).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thinking(name: &str) -> Value {
        json!({ "type": "thinking", "thinking": name, "signature": name })
    }

    fn tool_use(id: &str) -> Value {
        json!({ "type": "tool_use", "id": id, "name": "t", "input": {} })
    }

    #[test]
    fn the_usual_order_needs_no_markers() {
        let usual = vec![thinking("a"), text_marker("hi"), call_marker(0), call_marker(1)];
        assert_eq!(describe_order(usual), [thinking("a")]);
        assert_eq!(describe_order(vec![text_marker("hi"), call_marker(0)]), Vec::<Value>::new());
        let unusual = vec![thinking("a"), call_marker(0), thinking("b"), call_marker(1)];
        assert_eq!(describe_order(unusual.clone()), unusual);
        let two_texts = vec![thinking("a"), text_marker("x"), call_marker(0), text_marker("y")];
        assert_eq!(describe_order(two_texts.clone()), two_texts);
    }

    #[test]
    fn reasoning_goes_back_to_its_place() {
        let order = [
            thinking("a"),
            text_marker("I look."),
            call_marker(0),
            thinking("b"),
            text_marker("And there."),
            call_marker(1),
        ];
        let message = MessageRecord {
            role: "assistant".into(),
            content: Some("I look.\n\nAnd there.".into()),
            reasoning_details: Some(Value::from(order.to_vec())),
            ..MessageRecord::default()
        };
        let text = json!({ "type": "text", "text": "I look.\n\nAnd there." });
        let before = json!({ "type": "text", "text": "Earlier." });
        let usual =
            vec![before.clone(), thinking("a"), thinking("b"), text, tool_use("0"), tool_use("1")];
        let mut body = json!([{ "role": "assistant", "content": usual }]);
        restore_order(&mut body, std::slice::from_ref(&message));
        let expected = json!([
            before,
            thinking("a"),
            { "type": "text", "text": "I look." },
            tool_use("0"),
            thinking("b"),
            { "type": "text", "text": "And there." },
            tool_use("1"),
        ]);
        assert_eq!(body[0]["content"], expected);
        // The blocks of a message that has been changed since it was stored stay in the usual
        // order.
        let changed = MessageRecord { content: Some("Other words.".into()), ..message };
        let mut body = json!([{ "role": "assistant", "content": usual }]);
        restore_order(&mut body, &[changed]);
        assert_eq!(body[0]["content"], Value::from(usual));
    }
}
