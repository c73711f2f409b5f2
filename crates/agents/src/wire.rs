//! JSON as agents write it, read field by field: a field that is not what it should be, or that
//! cannot be read, is as good as none.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

/// The fields of an object, each to be read by itself.
#[derive(Debug, Default)]
pub(crate) struct Object(BTreeMap<String, Box<RawValue>>);

impl Object {
    /// What is on standard input.
    pub(crate) fn read(input: &[u8]) -> Result<Object, serde_json::Error> {
        serde_json::from_slice(input)
            .or_else(|error| serde_json::from_slice(&mended(input)).map_err(|_| error))
            .map(Object)
    }

    fn field(&self, key: &str) -> Option<Value> {
        read(self.0.get(key)?)
    }

    /// A text.
    pub(crate) fn string(&self, key: &str) -> Option<String> {
        match self.field(key) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// A text that is not empty.
    pub(crate) fn name(&self, key: &str) -> Option<String> {
        self.text(key).filter(|text| !text.is_empty())
    }

    /// A text, or a number as one.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        match self.field(key) {
            Some(Value::Number(number)) => Some(number.to_string()),
            Some(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// A truth value.
    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        self.field(key)?.as_bool()
    }

    /// Whatever it is, unless it is null or missing.
    pub(crate) fn value(&self, key: &str) -> Option<Value> {
        Some(value(self.0.get(key)?)).filter(|value| !value.is_null())
    }

    /// An object, also if it is in a text.
    pub(crate) fn object(&self, key: &str) -> Option<Object> {
        let raw = self.0.get(key)?.get();
        let fields = serde_json::from_str(raw).ok().map(Object);
        fields.or_else(|| Object::read(serde_json::from_str::<String>(raw).ok()?.as_bytes()).ok())
    }

    /// A value in which an object that is in a text is an object.
    pub(crate) fn unpacked(&self, key: &str) -> Option<Value> {
        match self.value(key)? {
            Value::String(text) => Some(match Object::read(text.as_bytes()) {
                Ok(object) => object.into_value(),
                Err(_) => Value::String(text),
            }),
            value => Some(value),
        }
    }

    /// The first text in a list of them.
    pub(crate) fn first(&self, key: &str) -> Option<String> {
        let list = self.field(key)?;
        list.as_array()?.first()?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    }

    fn into_value(self) -> Value {
        Value::Object(self.0.into_iter().map(|(key, raw)| (key, value(&raw))).collect())
    }
}

/// A value, mended if need be: whoever only looks for its end does not see halves of characters.
fn read(raw: &RawValue) -> Option<Value> {
    let mended = || serde_json::from_slice(&mended(raw.get().as_bytes()));
    serde_json::from_str(raw.get()).or_else(|_| mended()).ok()
}

/// A value; of an object that cannot be read as a whole (too deep, numbers too large), what can.
fn value(raw: &RawValue) -> Value {
    read(raw).unwrap_or_else(|| {
        let fields: BTreeMap<String, Box<RawValue>> =
            serde_json::from_str(raw.get()).unwrap_or_default();
        let fields = fields.into_iter();
        Value::Object(fields.filter_map(|(key, raw)| Some((key, read(&raw)?))).collect())
    })
}

/// JSON as some agents write it: with a byte order mark, or with half of a character where they
/// cut a text.
pub(crate) fn mended(input: &[u8]) -> Vec<u8> {
    let input = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
    let surrogate = |at: usize, range: std::ops::Range<u32>| {
        let digits = input.get(at..at + 6)?.strip_prefix(b"\\u")?;
        let code = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        range.contains(&code).then_some(())
    };
    let (mut out, mut at) = (Vec::with_capacity(input.len()), 0);
    while at < input.len() {
        let length = match input[at] {
            b'\\' if surrogate(at, 0xd800..0xdc00).is_some() => {
                if surrogate(at + 6, 0xdc00..0xe000).is_some() { 12 } else { 0 }
            }
            b'\\' if surrogate(at, 0xdc00..0xe000).is_some() => 0,
            b'\\' => 2,
            _ => 1,
        };
        if length == 0 {
            out.extend_from_slice(br"\ufffd");
            at += 6;
        } else {
            let end = (at + length).min(input.len());
            out.extend_from_slice(&input[at..end]);
            at = end;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: &Value) -> Object {
        Object::read(value.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn half_characters_are_mended() {
        let text = |json: &[u8]| serde_json::from_slice::<Value>(&mended(json)).unwrap();
        assert_eq!(text(br#""a\ud83d""#), "a\u{fffd}");
        assert_eq!(text(br#""\udc00a""#), "\u{fffd}a");
        assert_eq!(text(br#""\ud83d\ude00\\ud83d""#), "\u{1f600}\\ud83d");
        assert_eq!(text(b"\xef\xbb\xbf\"a\""), "a");
        let whole =
            Object::read(br#"{"prompt": "hi \ud83d", "input": {"a": ["\ude00"]}}"#).unwrap();
        assert_eq!(whole.text("prompt").as_deref(), Some("hi \u{fffd}"));
        assert_eq!(whole.value("input"), Some(json!({ "a": ["\u{fffd}"] })));
    }

    #[test]
    fn odd_fields_are_as_good_as_none() {
        let odd = object(&json!({ "a": [], "b": 7, "c": null, "d": "", "e": { "x": 1 } }));
        assert_eq!((odd.string("a"), odd.string("b"), odd.string("none")), (None, None, None));
        assert_eq!((odd.text("b"), odd.text("c")), (Some("7".into()), None));
        assert_eq!((odd.name("d"), odd.text("d")), (None, Some(String::new())));
        assert_eq!((odd.value("c"), odd.value("e")), (None, Some(json!({ "x": 1 }))));
        assert_eq!((odd.flag("a"), odd.first("a"), odd.first("e")), (None, None, None));
        assert!(odd.object("a").is_none() && odd.object("b").is_none());
    }

    #[test]
    fn what_cannot_be_read_costs_only_itself() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        let json = format!(r#"{{"input": {{"command": "rm x", "deep": {deep}}}, "deep": {deep}}}"#);
        let object = Object::read(json.as_bytes()).unwrap();
        assert_eq!(object.value("input"), Some(json!({ "command": "rm x" })));
        assert_eq!(object.string("deep"), None);
    }

    #[test]
    fn objects_in_texts_are_unpacked() {
        let packed = object(&json!({ "a": "{\"b\": \"c\"}", "d": "*** Begin Patch" }));
        assert_eq!(packed.unpacked("a"), Some(json!({ "b": "c" })));
        assert_eq!(packed.unpacked("d"), Some(json!("*** Begin Patch")));
        assert_eq!(packed.object("a").unwrap().string("b").as_deref(), Some("c"));
    }
}
