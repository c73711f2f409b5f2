//! Requests to the model, in a form common to all APIs.

use serde_json::Value;

use crate::reply::ToolCall;

/// The API that a request is meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's Responses API.
    Responses,
    /// OpenAI's Chat Completions API.
    Chat,
    /// Gemini's `generateContent` API.
    Gemini,
}

/// A request for a reply from the model.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Request {
    pub provider: Provider,
    pub model: String,
    /// True if the client asks for a stream.
    pub stream: bool,
    pub system: String,
    pub messages: Vec<Message>,
    /// The names of the tools that the model may call.
    pub tools: Vec<String>,
    /// The whole body of the request.
    pub body: Value,
}

/// A message in a conversation.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Message {
    pub role: Role,
    pub text: String,
    /// The tool calls that the model asked for.
    pub calls: Vec<ToolCall>,
    /// The results of tool calls.
    pub results: Vec<ToolResult>,
}

/// The author of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The user, or a tool on the user's side.
    #[default]
    User,
    /// The model itself.
    Assistant,
    /// The agent, with instructions in the middle of the conversation.
    System,
}

/// The result of a tool call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolResult {
    /// The id of the call. For Gemini it may be just the name of the tool.
    pub call: String,
    /// The text of the result, as the model reads it.
    pub text: String,
}

impl Request {
    /// True if the model may call a tool with this name.
    pub fn has_tool(&self, tool: &str) -> bool {
        self.tools.iter().any(|known| known == tool)
    }

    /// Returns the last tool result, if the last message has one.
    pub fn last_result(&self) -> Option<&ToolResult> {
        self.messages.last()?.results.last()
    }

    /// Returns the last text from the user, or from the agent on the user's behalf.
    pub fn last_text(&self) -> &str {
        let has_text = |message: &&Message| message.role == Role::User && !message.text.is_empty();
        self.messages.iter().rev().find(has_text).map_or("", |message| &message.text)
    }

    /// Counts the occurrences of `text` in everything that the model reads.
    pub fn count_text(&self, text: &str) -> usize {
        let count_in_results = |message: &Message| -> usize {
            message.results.iter().map(|result| result.text.matches(text).count()).sum()
        };
        let messages = self.messages.iter();
        let counts =
            messages.map(|message| message.text.matches(text).count() + count_in_results(message));
        self.system.matches(text).count() + counts.sum::<usize>()
    }
}

impl Message {
    /// Creates a message that consists of text alone.
    pub(crate) fn of_text(role: Role, text: String) -> Message {
        Message { role, text, ..Message::default() }
    }
}

/// Returns the text in a message's content, which is a string or a list of blocks.
pub(crate) fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter_map(|block| block["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// Returns the elements of a JSON array, or no elements for any other value.
pub(crate) fn list_items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns the text of a JSON string, or an empty string for any other value.
pub(crate) fn string_value(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Parses JSON that is embedded in a string. Returns any other value unchanged.
pub(crate) fn parse_embedded(value: &Value) -> Value {
    let parsed = value.as_str().and_then(|text| serde_json::from_str(text).ok());
    parsed.unwrap_or_else(|| value.clone())
}
