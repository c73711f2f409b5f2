//! Estimating tokens and costs.

use serde_json::Value;
use takeback_ledger::{MessageRecord, Tokens};

use super::{ModelRequest, Prices, ToolSpec};

/// The number of tokens that a message or a tool costs in addition to its text.
const OVERHEAD: u64 = 8;

/// The number of tokens that an image or another file is assumed to cost. The size of its data says
/// nothing about its cost.
const MEDIA: u64 = 2_000;

/// The fields of content blocks that can hold the data of a file. A value of at least `MIN_DATA`
/// bytes is assumed to be such data.
const DATA_FIELDS: &[&str] = &["data", "file_data", "url", "image_url", "encrypted_content"];
const MIN_DATA: usize = 1_024;

/// Estimates the number of input tokens in a request. The estimate is quick to compute, and more
/// likely to be too high than too low.
pub fn estimate_tokens(request: &ModelRequest<'_>) -> u64 {
    let prompt = request.session.system_prompt.as_deref().map_or(0, count_text);
    let messages: u64 = request.messages.iter().map(estimate_message).sum();
    let tools: u64 = request.tools.iter().map(count_tool).sum();
    prompt + messages + tools + OVERHEAD
}

/// Estimates the number of tokens in a message.
pub(crate) fn estimate_message(message: &MessageRecord) -> u64 {
    let values = [
        &message.content,
        &message.tool_calls,
        &message.reasoning_details,
        &message.codex_reasoning_items,
    ];
    let texts = [&message.reasoning, &message.reasoning_content, &message.tool_call_id];
    let values: u64 = values.into_iter().flatten().map(count_value).sum();
    let texts: u64 = texts.into_iter().flatten().map(|text| count_text(text)).sum();
    OVERHEAD + values + texts
}

fn count_tool(tool: &ToolSpec) -> u64 {
    OVERHEAD + count_text(&tool.name) + count_text(&tool.description) + count_value(&tool.schema)
}

fn count_value(value: &Value) -> u64 {
    match value {
        Value::String(text) => count_text(text) + 1,
        Value::Array(values) => 1 + values.iter().map(count_value).sum::<u64>(),
        Value::Object(fields) => 1 + fields.iter().map(count_field).sum::<u64>(),
        Value::Number(number) => count_text(&number.to_string()),
        Value::Bool(_) | Value::Null => 1,
    }
}

fn count_field((key, value): (&String, &Value)) -> u64 {
    let is_media = match value {
        Value::String(text) => text.len() >= MIN_DATA && DATA_FIELDS.contains(&key.as_str()),
        _ => false,
    };
    1 + count_text(key) + if is_media { MEDIA } else { count_value(value) }
}

/// Estimates the number of tokens in a text: one for every three ASCII characters, and one for each
/// other character. In English text and code, a token is about four characters long.
fn count_text(text: &str) -> u64 {
    let ascii = text.bytes().filter(u8::is_ascii).count();
    let other = text.chars().count() - ascii;
    (ascii.div_ceil(3) + other) as u64
}

impl Prices {
    /// Returns the cost of tokens, in US dollars. Reasoning costs as much as output.
    pub fn cost(&self, tokens: Tokens) -> f64 {
        let counts = [
            (tokens.input, self.input),
            (tokens.output + tokens.reasoning, self.output),
            (tokens.cache_read, self.cache_read),
            (tokens.cache_write, self.cache_write),
        ];
        counts.iter().map(|(count, price)| *count as f64 * price / 1e6).sum()
    }
}
