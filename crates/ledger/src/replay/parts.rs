//! Pieces of content, whichever API's blocks they were stored as.

use serde_json::{Map, Value};

/// Images that both APIs take.
const IMAGE_TYPES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];
const PDF: &str = "application/pdf";

/// One piece of a message.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    /// Never blank.
    Text(String),
    Image {
        source: Source,
        detail: Option<String>,
    },
    Pdf {
        name: Option<String>,
        data: String,
    },
    /// An Anthropic block with its signature, or one whose content is encrypted.
    Thinking(Value),
    /// What only one of the APIs may know.
    Other(Value),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Source {
    Base64 { media_type: String, data: String },
    Url(String),
}

impl Part {
    /// Text, unless it is blank: APIs refuse blank text, and nobody misses it.
    pub(super) fn text(text: impl Into<String>) -> Option<Part> {
        let text = text.into();
        (!text.trim().is_empty()).then_some(Part::Text(text))
    }

    /// For where there is only room for text.
    pub(super) fn into_text(self) -> String {
        match self {
            Part::Text(text) => text,
            Part::Image { source: Source::Url(url), .. } => format!("[image: {url}]"),
            Part::Image { source: Source::Base64 { media_type, data }, .. } => {
                format!("[{media_type}, {} characters of base64, left out]", data.len())
            }
            Part::Pdf { data, .. } => {
                format!("[{PDF}, {} characters of base64, left out]", data.len())
            }
            Part::Thinking(block) | Part::Other(block) => without_binary(block).to_string(),
        }
    }
}

/// Texts in a row, and what is no text.
pub(super) fn separate(parts: Vec<Part>) -> (Vec<String>, Vec<Part>) {
    let mut texts = Vec::new();
    let mut media = Vec::new();
    for part in parts {
        match part {
            Part::Image { .. } | Part::Pdf { .. } => media.push(part),
            part => texts.push(part.into_text()),
        }
    }
    (texts, media)
}

/// A block that is neither a tool's call nor a tool's result.
pub(super) fn part(block: Value) -> Option<Part> {
    match block {
        Value::Null => None,
        Value::String(text) => Part::text(text),
        Value::Object(map) => match known(&map) {
            Some(part) => part,
            None => Some(Part::Other(Value::Object(map))),
        },
        other => Part::text(other.to_string()),
    }
}

/// `Some(None)` is a block that is known to say nothing.
fn known(block: &Map<String, Value>) -> Option<Option<Part>> {
    let string = |key: &str| block.get(key).and_then(Value::as_str);
    match string("type") {
        Some("text" | "input_text" | "output_text") => Some(Part::text(string("text")?)),
        // More than the text makes it a tool's own structure.
        None if block.len() == 1 => Some(Part::text(string("text")?)),
        Some("refusal") => Some(Part::text(string("refusal")?)),
        Some("image_url" | "input_image") => image_by_url(block).map(Some),
        Some("image") => image_by_source(block.get("source")?).map(Some),
        Some("file") => pdf_by_url(block.get("file")?).map(Some),
        Some("document") => document(block),
        _ => None,
    }
}

/// `{"image_url": {"url"}}`, or with the address itself in that place.
fn image_by_url(block: &Map<String, Value>) -> Option<Part> {
    let image = block.get("image_url")?;
    let url = image.as_str().or_else(|| image.get("url")?.as_str())?;
    let detail = [image.get("detail"), block.get("detail")]
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .find(|detail| matches!(*detail, "auto" | "low" | "high"))
        .map(str::to_owned);
    let source = match data_url(url) {
        Some((media_type, data)) => base64_image(media_type, data)?,
        None => web_address(url)?,
    };
    Some(Part::Image { source, detail })
}

fn image_by_source(source: &Value) -> Option<Part> {
    let string = |key: &str| source.get(key).and_then(Value::as_str);
    let source = match string("type")? {
        "base64" => base64_image(string("media_type")?, string("data")?)?,
        "url" => web_address(string("url")?)?,
        _ => return None,
    };
    Some(Part::Image { source, detail: None })
}

fn pdf_by_url(file: &Value) -> Option<Part> {
    let (media_type, data) = data_url(file.get("file_data")?.as_str()?)?;
    let name = file.get("filename").and_then(Value::as_str).map(str::to_owned);
    (media_type == PDF && is_base64(data)).then(|| Part::Pdf { name, data: data.to_owned() })
}

fn document(block: &Map<String, Value>) -> Option<Option<Part>> {
    let source = block.get("source")?;
    let string = |key: &str| source.get(key).and_then(Value::as_str);
    let name = block.get("title").and_then(Value::as_str).map(str::to_owned);
    match (string("type")?, string("media_type")?, string("data")?) {
        ("base64", PDF, data) if is_base64(data) => {
            Some(Some(Part::Pdf { name, data: data.to_owned() }))
        }
        ("text", _, data) => Some(Part::text(match name {
            Some(name) => format!("{name}\n{data}"),
            None => data.to_owned(),
        })),
        _ => None,
    }
}

/// Type and data of `data:<type>[;<parameter>];base64,<data>`.
fn data_url(url: &str) -> Option<(&str, &str)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    let head = head.strip_suffix(";base64")?;
    Some((head.split(';').next().unwrap_or(head), data))
}

fn base64_image(media_type: &str, data: &str) -> Option<Source> {
    // A common slip that Anthropic's API does not forgive.
    let media_type = if media_type == "image/jpg" { "image/jpeg" } else { media_type };
    (IMAGE_TYPES.contains(&media_type) && is_base64(data))
        .then(|| Source::Base64 { media_type: media_type.to_owned(), data: data.to_owned() })
}

fn is_base64(data: &str) -> bool {
    let digits = data.trim_end_matches('=');
    !digits.is_empty()
        && data.len() - digits.len() <= 2
        && digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

fn web_address(url: &str) -> Option<Source> {
    let is_web = url.starts_with("https://") || url.starts_with("http://");
    is_web.then(|| Source::Url(url.to_owned()))
}

/// An Anthropic block of reasoning, if the API would take it back: with its signature. OpenRouter
/// hands the same out in a form of its own.
pub(super) fn thinking(block: &Value) -> Option<Part> {
    let string = |key: &str| block.get(key).and_then(Value::as_str).filter(|s| !s.is_empty());
    let is_anthropics = || string("format").is_some_and(|format| format.starts_with("anthropic"));
    let signed = |text: Option<&str>| {
        Some(serde_json::json!({
            "type": "thinking", "thinking": text.unwrap_or_default(), "signature": string("signature")?,
        }))
    };
    let redacted =
        || Some(serde_json::json!({ "type": "redacted_thinking", "data": string("data")? }));
    let block = match string("type")? {
        "thinking" => signed(string("thinking"))?,
        "redacted_thinking" => redacted()?,
        "reasoning.text" if is_anthropics() => signed(string("text"))?,
        "reasoning.encrypted" if is_anthropics() => redacted()?,
        _ => return None,
    };
    Some(Part::Thinking(block))
}

/// The block with a note in the place of binary data, which as text would only fill the context.
pub(crate) fn without_binary(mut block: Value) -> Value {
    elide(&mut block, "");
    block
}

fn elide(value: &mut Value, key: &str) {
    match value {
        Value::Object(map) => map.iter_mut().for_each(|(key, value)| elide(value, key)),
        Value::Array(values) => values.iter_mut().for_each(|value| elide(value, key)),
        Value::String(text) if is_binary(key, text) => {
            *text = format!("[{} characters left out]", text.len());
        }
        _ => {}
    }
}

fn is_binary(key: &str, text: &str) -> bool {
    let is_data = matches!(key, "data" | "file_data" | "encrypted_content");
    (is_data && is_base64(text) && text.len() > 64) || data_url(text).is_some()
}
