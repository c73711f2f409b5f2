//! What a model is asked, whatever the API.

use serde_json::Value;

use crate::reply::Call;

/// Whose API a request is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's Responses.
    Responses,
    /// OpenAI's Chat Completions.
    Chat,
    /// Gemini's `generateContent`.
    Gemini,
}

/// One request for an answer of the model.
#[derive(Clone, Debug)]
pub struct Request {
    /// Whose API it is.
    pub provider: Provider,
    /// The model that is wanted.
    pub model: String,
    /// Whether the answer is to come in pieces.
    pub stream: bool,
    /// What the model is told to be.
    pub system: String,
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// The names of the tools that it may use.
    pub tools: Vec<String>,
    /// All of it, as it came.
    pub body: Value,
}

/// One message of a conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    /// Whose it is.
    pub role: Role,
    /// What it says.
    pub text: String,
    /// The tools that the model wanted used.
    pub calls: Vec<Call>,
    /// What came of the tools.
    pub results: Vec<ToolResult>,
}

/// Whose a message is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The user's, or a tool's on their side.
    #[default]
    User,
    /// The model's.
    Assistant,
    /// Instructions amid the conversation.
    System,
}

/// What came of a tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolResult {
    /// The call it belongs to; Gemini may have only the tool's name.
    pub call: String,
    /// What the model reads of it.
    pub text: String,
}

impl Request {
    /// Whether the model may use a tool of this name.
    pub fn offers(&self, tool: &str) -> bool {
        self.tools.iter().any(|offered| offered == tool)
    }

    /// What came of the tool last used, if the model is asked because of that.
    pub fn last_result(&self) -> Option<&ToolResult> {
        self.messages.last()?.results.last()
    }

    /// What the user, or whoever speaks in their name, said last.
    pub fn last_text(&self) -> &str {
        let said = |message: &&Message| message.role == Role::User && !message.text.is_empty();
        self.messages.iter().rev().find(said).map_or("", |message| &message.text)
    }

    /// How often a text is in what the model reads.
    pub fn count(&self, text: &str) -> usize {
        let results = |message: &Message| -> usize {
            message.results.iter().map(|result| result.text.matches(text).count()).sum()
        };
        let messages = self.messages.iter();
        let told = messages.map(|message| message.text.matches(text).count() + results(message));
        self.system.matches(text).count() + told.sum::<usize>()
    }
}

impl Message {
    /// A message that says only this.
    pub(crate) fn saying(role: Role, text: String) -> Message {
        Message { role, text, ..Message::default() }
    }
}

/// The text of content that is a text, or a list of blocks some of which have one.
pub(crate) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter_map(|block| block["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// The elements of a list; none of what is no list.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A text; an empty one if it is something else.
pub(crate) fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// JSON in a text.
pub(crate) fn unpacked(value: &Value) -> Value {
    let parsed = value.as_str().and_then(|text| serde_json::from_str(text).ok());
    parsed.unwrap_or_else(|| value.clone())
}
