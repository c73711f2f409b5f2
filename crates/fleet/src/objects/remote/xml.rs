//! Reading the parts of XML that the answers of object storage use.

use super::protocol::ErrorBody;

/// Returns the text of the first element with this name.
pub(in crate::objects) fn find_element(text: &str, name: &str) -> Option<String> {
    let start = text.find(&format!("<{name}>"))? + name.len() + 2;
    let length = text[start..].find(&format!("</{name}>"))?;
    let text = &text[start..start + length];
    Some(
        text.replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&quot;", "\"")
            .replace("&#39;", "'")
            .replace("&amp;", "&"),
    )
}

/// Returns the content of each element with this name, or `None` if an element has no end tag.
pub(in crate::objects) fn split_elements<'a>(text: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let (start, end) = (format!("<{name}>"), format!("</{name}>"));
    text.split(&start).skip(1).map(|part| Some(part.split_once(&end)?.0)).collect()
}

/// Parses an error: `<Error><Code>…</Code><Message>…</Message></Error>`.
pub(in crate::objects) fn parse_error(body: &str) -> Option<ErrorBody> {
    let code = find_element(body, "Code")?;
    Some(ErrorBody { code, message: find_element(body, "Message").unwrap_or_default() })
}
