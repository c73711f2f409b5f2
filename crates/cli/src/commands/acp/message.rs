//! The JSON-RPC messages of the Agent Client Protocol that takeback has to understand.
//!
//! Only the fields that takeback needs are parsed. A line that cannot be parsed does not concern
//! takeback, and is passed on unchanged.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The outermost fields of a message. Their contents are not parsed yet.
#[derive(Deserialize)]
pub(super) struct Envelope<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// The parameters of requests and notifications. A message has only some of them.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Params<'a> {
    pub(super) session_id: Option<String>,
    pub(super) cwd: Option<String>,
    pub(super) client_info: Option<ProgramInfo>,
    #[serde(borrow)]
    pub(super) prompt: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    pub(super) update: Option<&'a RawValue>,
    pub(super) path: Option<String>,
    pub(super) command: Option<String>,
    pub(super) args: Option<Vec<String>>,
    pub(super) terminal_id: Option<String>,
    #[serde(borrow)]
    pub(super) tool_call: Option<&'a RawValue>,
    pub(super) options: Option<Vec<PermissionOption>>,
}

/// An answer that the user can give to a request for permission.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PermissionOption {
    pub(super) option_id: String,
    #[serde(default)]
    pub(super) kind: String,
}

/// The fields of results. A result has only some of them.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Outcome {
    pub(super) session_id: Option<String>,
    pub(super) terminal_id: Option<String>,
    pub(super) protocol_version: Option<u64>,
    pub(super) agent_info: Option<ProgramInfo>,
    pub(super) outcome: Option<PermissionOutcome>,
    pub(super) models: Option<Models>,
    pub(super) usage: Option<Usage>,
}

/// The name with which an editor or an agent introduces itself.
#[derive(Deserialize)]
pub(super) struct ProgramInfo {
    #[serde(default)]
    pub(super) name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PermissionOutcome {
    pub(super) option_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Models {
    pub(super) current_model_id: Option<String>,
}

/// The tokens of a turn.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Usage {
    pub(super) input_tokens: Option<i64>,
    pub(super) output_tokens: Option<i64>,
    pub(super) thought_tokens: Option<i64>,
    pub(super) cached_read_tokens: Option<i64>,
    pub(super) cached_write_tokens: Option<i64>,
}

/// The fields of updates. An update has only some of them.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Update<'a> {
    pub(super) session_update: String,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    pub(super) message_id: Option<String>,
    #[serde(borrow)]
    pub(super) available_commands: Option<&'a RawValue>,
    pub(super) cost: Option<Cost>,
}

/// The cost of a session so far.
#[derive(Deserialize)]
pub(super) struct Cost {
    pub(super) amount: f64,
    #[serde(default)]
    pub(super) currency: String,
}

/// A block of content in a prompt or an answer.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Block {
    r#type: String,
    text: Option<String>,
    uri: Option<String>,
    resource: Option<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    #[serde(default)]
    uri: String,
}

impl<'a> Envelope<'a> {
    /// Parses a line. Returns `None` if it is not a message.
    pub(super) fn parse(line: &'a [u8]) -> Option<Envelope<'a>> {
        serde_json::from_slice(line).ok()
    }

    /// Parses the parameters. Returns `None` if the message has none, or if takeback cannot read
    /// them.
    pub(super) fn params(&self) -> Option<Params<'a>> {
        serde_json::from_str(self.params?.get()).ok()
    }

    /// Parses the result. An error counts as an empty result.
    pub(super) fn outcome(&self) -> Outcome {
        let result = self.result.and_then(|result| serde_json::from_str(result.get()).ok());
        result.unwrap_or_default()
    }

    /// Returns the key by which a response is matched with its request.
    pub(super) fn key(&self) -> Option<String> {
        Some(match serde_json::from_str(self.id?.get()).ok()? {
            Value::String(id) => format!("\"{id}"),
            id => id.to_string(),
        })
    }

    /// Returns true if the message is a response. The result is not checked, because it can be
    /// null.
    pub(super) fn is_response(&self) -> bool {
        self.method.is_none() && self.id.is_some()
    }
}

impl<'a> Update<'a> {
    pub(super) fn parse(raw: &'a RawValue) -> Option<Update<'a>> {
        serde_json::from_str(raw.get()).ok()
    }
}

/// Returns the text of a prompt, as the user typed it. Content other than text is represented by
/// its URI or its type.
pub(super) fn prompt_text(blocks: &[&RawValue]) -> String {
    let texts = blocks.iter().filter_map(|block| block_text(block));
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns the text of a prompt, or `None` if the prompt also has content other than text.
pub(super) fn plain_text(blocks: &[&RawValue]) -> Option<String> {
    let text = |block: &&RawValue| {
        let block: Block = serde_json::from_str(block.get()).ok()?;
        block.text.filter(|_| block.r#type == "text")
    };
    Some(blocks.iter().map(text).collect::<Option<Vec<_>>>()?.concat())
}

/// Returns the text of a block. Content other than text is represented by its URI or its type.
pub(super) fn block_text(block: &RawValue) -> Option<String> {
    let block: Block = serde_json::from_str(block.get()).ok()?;
    match block.r#type.as_str() {
        "text" => block.text,
        "resource_link" => block.uri.map(|uri| format!("@{uri}")),
        "resource" => block.resource.map(|resource| format!("@{}", resource.uri)),
        "" => None,
        kind => Some(format!("[{kind}]")),
    }
}

/// Replaces a part of a line, and leaves every other byte unchanged. Returns `None` if `part` is
/// not a slice of the line.
pub(super) fn splice(line: &[u8], part: &str, new: &[u8]) -> Option<Vec<u8>> {
    let start = (part.as_ptr() as usize).checked_sub(line.as_ptr() as usize)?;
    let end = start.checked_add(part.len()).filter(|end| *end <= line.len())?;
    Some([&line[..start], new, &line[end..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_recognized_by_its_id() {
        let key = |line: &str| Envelope::parse(line.as_bytes()).unwrap().key();
        assert_eq!(key(r#"{"id":1}"#), key(r#"{ "id" : 1 , "result": {} }"#));
        assert_eq!(key(r#"{"id":"a/b"}"#), key(r#"{"id":"a\/b"}"#));
        assert_ne!(key(r#"{"id":"1"}"#), key(r#"{"id":1}"#));
        assert_eq!(key(r#"{"id":null}"#), None);
    }

    #[test]
    fn deeply_nested_values_do_not_hide_a_prompt() {
        let deep = "[".repeat(5_000) + &"]".repeat(5_000);
        let line = format!(
            r#"{{"id":1,"method":"session/prompt","params":{{"_meta":{deep},"sessionId":"s","prompt":[{{"type":"text","text":"hi"}}]}}}}"#
        );
        let message = Envelope::parse(line.as_bytes()).unwrap();
        let params = message.params().unwrap();
        assert_eq!(params.session_id.as_deref(), Some("s"));
        assert_eq!(prompt_text(&params.prompt.unwrap()), "hi");
    }

    #[test]
    fn a_prompt_names_content_that_is_not_text() {
        let blocks = r#"[{"type":"text","text":"see"},{"type":"resource_link","uri":"file:///a","name":"a"},
            {"type":"resource","resource":{"uri":"file:///b","text":"long"}},{"type":"image","data":"x"}]"#;
        let blocks: Vec<&RawValue> = serde_json::from_str(blocks).unwrap();
        assert_eq!(prompt_text(&blocks), "see\n@file:///a\n@file:///b\n[image]");
        assert_eq!(plain_text(&blocks), None);
        assert_eq!(plain_text(&blocks[..1]).as_deref(), Some("see"));
    }

    #[test]
    fn splicing_leaves_the_rest_of_the_line_unchanged() {
        let line = b"{\"id\":1,  \"params\" : {\"a\":[1]} }\r\n";
        let message = Envelope::parse(line).unwrap();
        let spliced = splice(line, message.params.unwrap().get(), b"{}").unwrap();
        assert_eq!(spliced, b"{\"id\":1,  \"params\" : {} }\r\n");
        assert_eq!(splice(line, "elsewhere", b""), None);
    }
}
