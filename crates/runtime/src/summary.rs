//! The request for a summary of a conversation.
//!
//! The conversation is sent as one text, not as messages: messages with tool calls would require
//! descriptions of those tools, and a model that has tools may call them instead of answering.

use std::fmt::Write;

use serde_json::Value;
use takeback_ledger::MessageRecord;

use crate::model::estimate_message;
use crate::task::new_message;

/// The request for a summary.
const ASK_FOR_SUMMARY: &str = "Summarize this conversation between a user and you for yourself, \
    so that you can continue the work without it. Keep: what the user wants, decisions and their \
    reasons, the state of the work, file names, commands, errors that are not solved, and what is \
    to be done next. Answer with the summary only.";

/// The maximum lengths of the texts, in characters. They are tried in order until the request fits.
const LENGTHS: [usize; 6] = [usize::MAX, 16_000, 4_000, 1_000, 250, 60];

/// Writes the request for a summary of messages. Long texts are shortened so that the request has
/// at most `room` tokens. With each of the `failures` so far, the texts are made shorter.
pub(crate) fn describe_for_summary(messages: &[MessageRecord], room: u64, failures: u32) -> String {
    let skipped = (failures as usize).min(LENGTHS.len() - 1);
    let mut text = String::new();
    for length in &LENGTHS[skipped..] {
        text = format!("{ASK_FOR_SUMMARY}\n\n<conversation>\n");
        for message in messages {
            write_message(&mut text, message, *length);
        }
        text.push_str("</conversation>");
        if estimate_message(&new_message("user", text.clone())) <= room {
            break;
        }
    }
    text
}

fn write_message(text: &mut String, message: &MessageRecord, length: usize) {
    let content = match &message.content {
        Some(Value::String(content)) => content.clone(),
        Some(content) => content.to_string(),
        None => String::new(),
    };
    let role = &message.role;
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{role}: {}", shorten(&content, length));
    let calls = message.tool_calls.as_ref().and_then(Value::as_array);
    for call in calls.into_iter().flatten() {
        let function = &call["function"];
        let name = function["name"].as_str().unwrap_or_default();
        let arguments = function["arguments"].as_str().unwrap_or_default();
        let _ = writeln!(text, "{role} calls {name}: {}", shorten(arguments, length));
    }
}

/// Removes the middle of a text that is too long.
fn shorten(text: &str, length: usize) -> String {
    let count = text.chars().count();
    if count <= length {
        return text.to_owned();
    }
    let half = length / 2;
    let head: String = text.chars().take(half).collect();
    let tail: String = text.chars().skip(count - half).collect();
    format!("{head} […] {tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_of(content: &str) -> MessageRecord {
        let function = serde_json::json!({ "name": "write_file", "arguments": content });
        MessageRecord {
            role: "assistant".into(),
            tool_calls: Some(serde_json::json!([{ "id": "c", "function": function }])),
            ..MessageRecord::default()
        }
    }

    #[test]
    fn the_request_for_a_summary_contains_everything_that_fits() {
        let messages = [new_message("user", "count".into()), write_of("one two")];
        let text = describe_for_summary(&messages, 1_000, 0);
        assert!(text.starts_with("Summarize"), "{text}");
        assert!(text.contains("user: count\n"), "{text}");
        assert!(text.contains("assistant calls write_file: one two\n"), "{text}");
    }

    #[test]
    fn long_texts_are_shortened_until_the_request_fits() {
        let messages = vec![write_of(&format!("begin{}end", "x".repeat(100_000))); 3];
        let text = describe_for_summary(&messages, 5_000, 0);
        assert!(estimate_message(&new_message("user", text.clone())) <= 5_000);
        assert!(text.contains("write_file: beginxxx") && text.contains("xxxend\n"), "{text}");
        let shorter = describe_for_summary(&messages, 5_000, 5);
        assert!(shorter.len() < text.len() / 2, "{shorter}");
    }
}
