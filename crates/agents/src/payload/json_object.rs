//! A JSON object that is read field by field. A field that has the wrong type or cannot be parsed
//! is treated as missing.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

/// A JSON object whose fields are parsed one by one, on demand.
#[derive(Debug, Default)]
pub(crate) struct JsonObject(BTreeMap<String, Box<RawValue>>);

impl JsonObject {
    /// Splits an object into its fields.
    pub(crate) fn parse(input: &[u8]) -> Result<JsonObject, serde_json::Error> {
        serde_json::from_slice(input)
            .or_else(|error| serde_json::from_slice(&mend_json(input)).map_err(|_| error))
            .map(JsonObject)
    }

    fn field(&self, key: &str) -> Option<Value> {
        parse_value(self.0.get(key)?)
    }

    /// Returns a string, which may be empty.
    pub(crate) fn string(&self, key: &str) -> Option<String> {
        match self.field(key) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns a string that is not empty, or a number as a string.
    pub(crate) fn nonempty_text(&self, key: &str) -> Option<String> {
        self.text(key).filter(|text| !text.is_empty())
    }

    /// Returns a string, or a number as a string.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        match self.field(key) {
            Some(Value::Number(number)) => Some(number.to_string()),
            Some(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns a boolean.
    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        self.field(key)?.as_bool()
    }

    /// Returns any value except null.
    pub(crate) fn value(&self, key: &str) -> Option<Value> {
        Some(parse_leniently(self.0.get(key)?)).filter(|value| !value.is_null())
    }

    /// Returns an object, or parses a string that contains one.
    pub(crate) fn object(&self, key: &str) -> Option<JsonObject> {
        let raw = self.0.get(key)?.get();
        let fields = serde_json::from_str(raw).ok().map(JsonObject);
        let in_string = || serde_json::from_str::<String>(raw).ok();
        fields.or_else(|| JsonObject::parse(in_string()?.as_bytes()).ok())
    }

    /// Returns any value except null. A string that contains an object becomes that object.
    pub(crate) fn unpacked_value(&self, key: &str) -> Option<Value> {
        match self.value(key)? {
            Value::String(text) => Some(match JsonObject::parse(text.as_bytes()) {
                Ok(object) => object.into_value(),
                Err(_) => Value::String(text),
            }),
            value => Some(value),
        }
    }

    /// Returns the first element of a list, if it is a string that is not empty.
    pub(crate) fn first_string(&self, key: &str) -> Option<String> {
        let list = self.field(key)?;
        list.as_array()?.first()?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    }

    fn into_value(self) -> Value {
        Value::Object(self.0.into_iter().map(|(key, raw)| (key, parse_leniently(&raw))).collect())
    }
}

/// Parses a value, mending it first if necessary. Splitting an object into its fields does not
/// reveal all damage: serde_json skips over lone surrogates when it only looks for the end of a
/// string.
fn parse_value(raw: &RawValue) -> Option<Value> {
    let mended = || serde_json::from_slice(&mend_json(raw.get().as_bytes()));
    serde_json::from_str(raw.get()).or_else(|_| mended()).ok()
}

/// Parses a value. If an object cannot be parsed as a whole (because it is nested too deeply, or
/// contains a number that is too large), returns the fields that can be parsed.
fn parse_leniently(raw: &RawValue) -> Value {
    parse_value(raw).unwrap_or_else(|| {
        let fields: BTreeMap<String, Box<RawValue>> =
            serde_json::from_str(raw.get()).unwrap_or_default();
        let fields = fields.into_iter();
        Value::Object(fields.filter_map(|(key, raw)| Some((key, parse_value(&raw)?))).collect())
    })
}

/// Mends JSON that some agents send: removes a byte order mark, and replaces lone surrogates. An
/// agent leaves a lone surrogate when it cuts text off in the middle of a surrogate pair.
pub(crate) fn mend_json(input: &[u8]) -> Vec<u8> {
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

    fn json_object(value: &Value) -> JsonObject {
        JsonObject::parse(value.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn lone_surrogates_are_replaced() {
        let text = |json: &[u8]| serde_json::from_slice::<Value>(&mend_json(json)).unwrap();
        assert_eq!(text(br#""a\ud83d""#), "a\u{fffd}");
        assert_eq!(text(br#""\udc00a""#), "\u{fffd}a");
        assert_eq!(text(br#""\ud83d\ude00\\ud83d""#), "\u{1f600}\\ud83d");
        assert_eq!(text(b"\xef\xbb\xbf\"a\""), "a");
        let whole =
            JsonObject::parse(br#"{"prompt": "hi \ud83d", "input": {"a": ["\ude00"]}}"#).unwrap();
        assert_eq!(whole.text("prompt").as_deref(), Some("hi \u{fffd}"));
        assert_eq!(whole.value("input"), Some(json!({ "a": ["\u{fffd}"] })));
    }

    #[test]
    fn a_field_of_the_wrong_type_counts_as_missing() {
        let odd = json_object(&json!({ "a": [], "b": 7, "c": null, "d": "", "e": { "x": 1 } }));
        assert_eq!((odd.string("a"), odd.string("b"), odd.string("none")), (None, None, None));
        assert_eq!((odd.text("b"), odd.text("c")), (Some("7".into()), None));
        assert_eq!((odd.nonempty_text("d"), odd.text("d")), (None, Some(String::new())));
        assert_eq!((odd.value("c"), odd.value("e")), (None, Some(json!({ "x": 1 }))));
        assert_eq!(
            (odd.flag("a"), odd.first_string("a"), odd.first_string("e")),
            (None, None, None)
        );
        assert!(odd.object("a").is_none() && odd.object("b").is_none());
    }

    #[test]
    fn a_field_that_cannot_be_parsed_does_not_affect_others() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        let json = format!(r#"{{"input": {{"command": "rm x", "deep": {deep}}}, "deep": {deep}}}"#);
        let object = JsonObject::parse(json.as_bytes()).unwrap();
        assert_eq!(object.value("input"), Some(json!({ "command": "rm x" })));
        assert_eq!(object.string("deep"), None);
    }

    #[test]
    fn an_object_inside_a_string_is_unpacked() {
        let packed = json_object(&json!({ "a": "{\"b\": \"c\"}", "d": "*** Begin Patch" }));
        assert_eq!(packed.unpacked_value("a"), Some(json!({ "b": "c" })));
        assert_eq!(packed.unpacked_value("d"), Some(json!("*** Begin Patch")));
        assert_eq!(packed.object("a").unwrap().string("b").as_deref(), Some("c"));
    }
}
