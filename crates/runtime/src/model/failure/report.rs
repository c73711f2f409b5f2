//! Reading the errors that providers report, in all their forms.

use serde_json::Value;

/// An error as the provider describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ErrorReport {
    /// The HTTP status that is part of the error itself, in the body or in a stream.
    pub(crate) status: Option<u16>,
    /// The type and the code of the error, in lower case.
    pub(crate) codes: Vec<String>,
    /// The message; empty if there is none.
    pub(crate) message: String,
}

impl ErrorReport {
    /// Creates a report from a message alone.
    pub(crate) fn from_message(message: &str) -> ErrorReport {
        ErrorReport { message: message.to_owned(), ..ErrorReport::default() }
    }

    /// Reads the body of a failed response: JSON in any of the usual forms, or text.
    pub(crate) fn from_body(body: &[u8]) -> ErrorReport {
        if let Ok(value) = serde_json::from_slice::<Value>(body) {
            return ErrorReport::find_error(&value)
                .unwrap_or_else(|| ErrorReport::from_message(&value.to_string()));
        }
        let text = String::from_utf8_lossy(body);
        match find_title(&text) {
            Some(title) => ErrorReport::from_message(title),
            None => ErrorReport::from_message(&text),
        }
    }

    /// Finds the error in a JSON value. Returns `None` if the value is not an error.
    pub(crate) fn find_error(value: &Value) -> Option<ErrorReport> {
        if let Some(first) = value.as_array().and_then(|values| values.first()) {
            return ErrorReport::find_error(first);
        }
        match value.as_object()?.get("error") {
            Some(Value::String(text)) => return Some(ErrorReport::from_fields(value, text)),
            Some(inner @ Value::Object(fields)) => {
                return match fields.get("error") {
                    Some(Value::Object(_)) => ErrorReport::find_error(inner),
                    _ => Some(ErrorReport::from_fields(inner, &find_message(inner))),
                };
            }
            _ => {}
        }
        // In a stream of the Responses API, the last event contains the failed response. Some other
        // servers send a list of errors.
        for inner in ["response", "errors"].iter().filter_map(|key| value.get(*key)) {
            if inner.is_array() || inner.get("error").is_some_and(Value::is_object) {
                return ErrorReport::find_error(inner);
            }
        }
        let message = find_message(value);
        (!message.is_empty()).then(|| ErrorReport::from_fields(value, &message))
    }

    fn from_fields(fields: &Value, message: &str) -> ErrorReport {
        let values = || ["type", "code", "status"].iter().filter_map(|key| fields.get(*key));
        let codes = values().filter_map(Value::as_str).map(str::to_lowercase);
        let status = values().filter_map(read_status).next();
        ErrorReport { status, codes: codes.collect(), message: message.to_owned() }
    }

    /// True if the type or the code of the error contains one of the words.
    pub(crate) fn has_code(&self, words: &[&str]) -> bool {
        self.codes.iter().any(|code| words.iter().any(|word| code.contains(word)))
    }

    /// True if the message contains one of the phrases, which are in lower case.
    pub(crate) fn has_phrase(&self, phrases: &[&str]) -> bool {
        let message = self.message.to_lowercase();
        phrases.iter().any(|phrase| message.contains(phrase))
    }
}

/// Reads an HTTP status from a number or from its digits.
fn read_status(value: &Value) -> Option<u16> {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    u16::try_from(number).ok().filter(|status| (400..600).contains(status))
}

/// Returns the message of an error. Servers use various names for its field.
fn find_message(error: &Value) -> String {
    let names = ["message", "detail", "error_message", "error_description", "msg", "title"];
    let text = names.iter().find_map(|name| match error.get(*name)? {
        Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
        // A list of problems with the fields of the request.
        Value::Array(list) => {
            let messages: Vec<String> =
                list.iter().map(find_message).filter(|text| !text.is_empty()).collect();
            (!messages.is_empty()).then(|| messages.join("; "))
        }
        inner @ Value::Object(_) => Some(find_message(inner)).filter(|text| !text.is_empty()),
        _ => None,
    });
    let text = text.unwrap_or_default();
    // A gateway puts the message of the server behind it into the metadata.
    match error["metadata"]["raw"].as_str().filter(|raw| !raw.trim().is_empty()) {
        Some(raw) => format!("{text}: {raw}"),
        None => text,
    }
}

/// Returns the title of a web page. Returns `None` if the text is not a web page.
fn find_title(text: &str) -> Option<&str> {
    let start = text.trim_start();
    if !start.starts_with('<') {
        return None;
    }
    let (_, rest) = start.split_once("<title>").unwrap_or(("", "a web page"));
    rest.split('<').next()
}
