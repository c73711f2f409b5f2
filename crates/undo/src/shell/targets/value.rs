//! The values that words and variables may have when the script runs.

/// A string, as far as it is known before the script runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Value {
    /// Exactly this text.
    Text(String),
    /// Any text that starts with this prefix. An empty prefix means any text at all.
    Prefix(String),
    /// This path, or a path below it.
    Below(String),
    /// A path that the script creates, such as the output of `mktemp`.
    Fresh,
}

impl Value {
    pub(super) fn unknown() -> Value {
        Value::Prefix(String::new())
    }

    pub(super) fn is_unknown(&self) -> bool {
        matches!(self, Value::Prefix(prefix) if prefix.is_empty())
    }

    /// Returns the text, if it is known.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the known start of the text.
    pub(super) fn start(&self) -> &str {
        match self {
            Value::Text(text) | Value::Prefix(text) | Value::Below(text) => text,
            Value::Fresh => "",
        }
    }

    /// Returns true if the value starts with a dash, like an option.
    pub(super) fn is_option(&self) -> bool {
        self.start().starts_with('-') && self.start().len() > 1
    }

    pub(super) fn push_text(&mut self, more: &str) {
        match self {
            Value::Text(text) => text.push_str(more),
            Value::Below(path) if !more.is_empty() && !more.starts_with('/') => {
                *self = Value::Prefix(std::mem::take(path));
            }
            Value::Prefix(_) | Value::Below(_) | Value::Fresh => {}
        }
    }

    /// Appends another value.
    pub(super) fn push(&mut self, more: &Value) {
        match (&mut *self, more) {
            (_, Value::Text(text)) => self.push_text(text),
            (Value::Text(text), Value::Prefix(prefix)) => {
                *self = Value::Prefix(std::mem::take(text) + prefix);
            }
            (Value::Text(text), Value::Below(path)) => {
                *self = Value::Below(std::mem::take(text) + path);
            }
            (Value::Text(text), Value::Fresh) => {
                let is_path = !text.is_empty() && !text.starts_with('-');
                *self = if is_path { Value::Prefix(std::mem::take(text)) } else { Value::Fresh };
            }
            (Value::Below(path), _) => *self = Value::Prefix(std::mem::take(path)),
            (Value::Prefix(_) | Value::Fresh, _) => {}
        }
    }

    /// Returns the rest of a value that begins with `start`, such as `--output=`.
    pub(super) fn strip_start(&self, start: &str) -> Option<Value> {
        let rest = self.start().strip_prefix(start)?.to_owned();
        Some(match self {
            Value::Text(_) => Value::Text(rest),
            Value::Prefix(_) => Value::Prefix(rest),
            Value::Below(_) => Value::Below(rest),
            Value::Fresh => return None,
        })
    }
}
