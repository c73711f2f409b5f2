//! Parts of content, read from the blocks of any API.

use serde_json::{Map, Value};

/// The image types that all APIs accept.
const IMAGE_TYPES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];
const PDF: &str = "application/pdf";

/// One part of a message.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    /// Text that is never blank.
    Text(String),
    Image {
        source: ImageSource,
        detail: Option<String>,
    },
    Pdf {
        name: Option<String>,
        data: String,
    },
    /// An Anthropic reasoning block that has a signature, or whose content is encrypted.
    Thinking(Value),
    /// A block of any other type, which may exist in only one of the APIs.
    Other(Value),
}

/// The source of an image.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ImageSource {
    Base64 { media_type: String, data: String },
    Url(String),
}

impl Part {
    /// Builds a part from text. Returns `None` if the text is blank, because APIs reject blank
    /// text.
    pub(super) fn text(text: impl Into<String>) -> Option<Part> {
        let text = text.into();
        (!text.trim().is_empty()).then_some(Part::Text(text))
    }

    /// Converts the part to text, for use where only text is allowed.
    pub(super) fn into_text(self) -> String {
        match self {
            Part::Text(text) => text,
            Part::Image { source: ImageSource::Url(url), .. } => format!("[image: {url}]"),
            Part::Image { source: ImageSource::Base64 { media_type, data }, .. } => {
                format!("[{media_type}, {} characters of base64, left out]", data.len())
            }
            Part::Pdf { data, .. } => {
                format!("[{PDF}, {} characters of base64, left out]", data.len())
            }
            Part::Thinking(block) | Part::Other(block) => without_binary(block).to_string(),
        }
    }
}

/// Separates text from images and documents.
pub(super) fn separate_media(parts: Vec<Part>) -> (Vec<String>, Vec<Part>) {
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

/// Reads a block that is neither a tool call nor a tool result.
pub(super) fn read_part(block: Value) -> Option<Part> {
    match block {
        Value::Null => None,
        Value::String(text) => Part::text(text),
        Value::Object(map) => match read_known(&map) {
            Some(part) => part,
            None => Some(Part::Other(Value::Object(map))),
        },
        other => Part::text(other.to_string()),
    }
}

/// Reads a block of a known type. Returns `None` if the type is unknown or the block cannot be
/// read, and `Some(None)` if it can be read but is blank.
fn read_known(block: &Map<String, Value>) -> Option<Option<Part>> {
    let string = |key: &str| block.get(key).and_then(Value::as_str);
    match string("type") {
        Some("text" | "input_text" | "output_text") => Some(Part::text(string("text")?)),
        // If a block without a type has fields other than `text`, its structure is defined by its
        // tool.
        None if block.len() == 1 => Some(Part::text(string("text")?)),
        Some("refusal") => Some(Part::text(string("refusal")?)),
        Some("image_url" | "input_image") => read_image_url(block).map(Some),
        Some("image") => read_image_source(block.get("source")?).map(Some),
        Some("file") => read_pdf_url(block.get("file")?).map(Some),
        Some("document") => read_document(block),
        _ => None,
    }
}

/// Reads `{"image_url": {"url": …}}` or `{"image_url": …}`.
fn read_image_url(block: &Map<String, Value>) -> Option<Part> {
    let image = block.get("image_url")?;
    let url = image.as_str().or_else(|| image.get("url")?.as_str())?;
    let detail = [image.get("detail"), block.get("detail")]
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .find(|detail| matches!(*detail, "auto" | "low" | "high"))
        .map(str::to_owned);
    let source = match split_data_url(url) {
        Some((media_type, data)) => base64_image(media_type, data)?,
        None => web_address(url)?,
    };
    Some(Part::Image { source, detail })
}

fn read_image_source(source: &Value) -> Option<Part> {
    let string = |key: &str| source.get(key).and_then(Value::as_str);
    let source = match string("type")? {
        "base64" => base64_image(string("media_type")?, string("data")?)?,
        "url" => web_address(string("url")?)?,
        _ => return None,
    };
    Some(Part::Image { source, detail: None })
}

fn read_pdf_url(file: &Value) -> Option<Part> {
    let (media_type, data) = split_data_url(file.get("file_data")?.as_str()?)?;
    let name = file.get("filename").and_then(Value::as_str).map(str::to_owned);
    (media_type == PDF && is_base64(data)).then(|| Part::Pdf { name, data: data.to_owned() })
}

fn read_document(block: &Map<String, Value>) -> Option<Option<Part>> {
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

/// Splits `data:<type>[;<parameter>];base64,<data>` into its type and its data.
fn split_data_url(url: &str) -> Option<(&str, &str)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    let head = head.strip_suffix(";base64")?;
    Some((head.split(';').next().unwrap_or(head), data))
}

fn base64_image(media_type: &str, data: &str) -> Option<ImageSource> {
    // `image/jpg` is a common mistake, which Anthropic's API rejects.
    let media_type = if media_type == "image/jpg" { "image/jpeg" } else { media_type };
    (IMAGE_TYPES.contains(&media_type) && is_base64(data))
        .then(|| ImageSource::Base64 { media_type: media_type.to_owned(), data: data.to_owned() })
}

fn is_base64(data: &str) -> bool {
    let digits = data.trim_end_matches('=');
    !digits.is_empty()
        && data.len() - digits.len() <= 2
        && digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

fn web_address(url: &str) -> Option<ImageSource> {
    let is_web = url.starts_with("https://") || url.starts_with("http://");
    is_web.then(|| ImageSource::Url(url.to_owned()))
}

/// Reads an Anthropic reasoning block, if it has the signature that the API requires. OpenRouter
/// has its own form for these blocks.
pub(super) fn read_thinking(block: &Value) -> Option<Part> {
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

/// Replaces binary data in a block with a note. As text, the data would only fill the context.
pub(crate) fn without_binary(mut block: Value) -> Value {
    replace_binary(&mut block, "");
    block
}

fn replace_binary(value: &mut Value, key: &str) {
    match value {
        Value::Object(map) => map.iter_mut().for_each(|(key, value)| replace_binary(value, key)),
        Value::Array(values) => values.iter_mut().for_each(|value| replace_binary(value, key)),
        Value::String(text) if is_binary(key, text) => {
            *text = format!("[{} characters left out]", text.len());
        }
        _ => {}
    }
}

fn is_binary(key: &str, text: &str) -> bool {
    let is_data = matches!(key, "data" | "file_data" | "encrypted_content");
    (is_data && is_base64(text) && text.len() > 64) || split_data_url(text).is_some()
}
