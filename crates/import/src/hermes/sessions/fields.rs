//! One row of a table: taken out by name and kind, and what nobody took.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rusqlite::Row;
use rusqlite::types::ValueRef;
use serde_json::{Map, Value, json};

use takeback_ledger::Time;

/// What Hermes puts before content that is not text but JSON.
const STRUCTURED: &str = "\0json:";

/// Times beyond this many seconds do not come back from the exchange format.
const FARTHEST: f64 = 9e12;

/// A value as it is in the database.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    /// Text that is not UTF-8.
    BadText(Vec<u8>),
    Bytes(Vec<u8>),
}

impl Cell {
    pub(super) fn read(value: ValueRef<'_>) -> Cell {
        match value {
            ValueRef::Null => Cell::Null,
            ValueRef::Integer(number) => Cell::Integer(number),
            ValueRef::Real(number) => Cell::Real(number),
            ValueRef::Text(text) => match std::str::from_utf8(text) {
                Ok(text) => Cell::Text(text.to_owned()),
                Err(_) => Cell::BadText(text.to_owned()),
            },
            ValueRef::Blob(bytes) => Cell::Bytes(bytes.to_owned()),
        }
    }

    /// As the id of a session. Different ids stay different.
    pub(super) fn id(&self) -> Option<String> {
        match self {
            Cell::BadText(bytes) | Cell::Bytes(bytes) => Some(format!("bytes:{}", base64(bytes))),
            _ => self.text(),
        }
    }

    fn text(&self) -> Option<String> {
        match self {
            Cell::Null => None,
            Cell::Integer(number) => Some(number.to_string()),
            Cell::Real(number) => Some(number.to_string()),
            Cell::Text(text) => Some(text.clone()),
            Cell::BadText(bytes) | Cell::Bytes(bytes) => {
                Some(String::from_utf8_lossy(bytes).into_owned())
            }
        }
    }

    pub(super) fn integer(&self) -> Option<i64> {
        match self {
            Cell::Integer(number) => Some(*number),
            Cell::Real(number) if number.is_finite() => Some(*number as i64),
            Cell::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            Cell::Integer(number) => Some(*number as f64),
            Cell::Real(number) => Some(*number),
            Cell::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
        .filter(|number| number.is_finite())
    }

    pub(super) fn time(&self) -> Option<Time> {
        match self {
            Cell::Text(text) => Time::parse(text).filter(|time| time.seconds().abs() < FARTHEST),
            _ => self.number().filter(|number| number.abs() < FARTHEST).map(Time::from_seconds),
        }
    }

    fn flag(&self) -> Option<bool> {
        match self {
            Cell::Text(text) if text.eq_ignore_ascii_case("true") => Some(true),
            Cell::Text(text) if text.eq_ignore_ascii_case("false") => Some(false),
            _ => self.number().map(|number| number != 0.0),
        }
    }

    /// As it is; bytes as `{"bytes": base64}`.
    fn plain(&self) -> Value {
        match self {
            Cell::Null => Value::Null,
            Cell::Integer(number) => json!(number),
            Cell::Real(number) if number.is_finite() => json!(number),
            Cell::Real(number) => json!(number.to_string()),
            Cell::Text(text) => json!(text),
            Cell::BadText(bytes) | Cell::Bytes(bytes) => json!({ "bytes": base64(bytes) }),
        }
    }
}

/// One row. What is taken out is gone; [`Fields::rest`] gives what is left.
#[derive(Debug)]
pub(super) struct Fields {
    cells: Vec<(String, Cell)>,
    /// What could not be taken for what its column should hold, as it was.
    odd: Map<String, Value>,
}

impl Fields {
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Fields> {
        let names = row.as_ref().column_names();
        let cell =
            |(place, name): (usize, &str)| Ok((name.to_owned(), Cell::read(row.get_ref(place)?)));
        let cells = names.into_iter().enumerate().map(cell).collect::<rusqlite::Result<_>>()?;
        Ok(Fields { cells, odd: Map::new() })
    }

    pub(super) fn id(&mut self, name: &str) -> Option<String> {
        self.take(name).id()
    }

    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        let cell = self.take(name);
        if matches!(cell, Cell::BadText(_) | Cell::Bytes(_)) {
            self.keep(name, &cell);
        }
        cell.text()
    }

    pub(super) fn integer(&mut self, name: &str) -> Option<i64> {
        let cell = self.take(name);
        if matches!(cell, Cell::Real(number) if number as i64 as f64 != number) {
            self.keep(name, &cell);
        }
        self.converted(name, &cell, cell.integer())
    }

    /// A counter; there is no difference between none and zero.
    pub(super) fn count(&mut self, name: &str) -> i64 {
        self.integer(name).unwrap_or(0)
    }

    pub(super) fn number(&mut self, name: &str) -> Option<f64> {
        let cell = self.take(name);
        self.converted(name, &cell, cell.number())
    }

    pub(super) fn time(&mut self, name: &str) -> Option<Time> {
        let cell = self.take(name);
        self.converted(name, &cell, cell.time())
    }

    pub(super) fn flag(&mut self, name: &str) -> Option<bool> {
        let cell = self.take(name);
        self.converted(name, &cell, cell.flag())
    }

    /// A column of JSON: an object or a list, or else whatever is there.
    pub(super) fn json(&mut self, name: &str) -> Option<Value> {
        match self.take(name) {
            Cell::Text(text) => match self.parse(name, &text) {
                Some(value) if value.is_object() || value.is_array() => Some(value),
                _ => Some(Value::String(text)),
            },
            cell => self.value(name, &cell),
        }
    }

    /// A message's content: text, or what stands behind the mark for structured content.
    pub(super) fn content(&mut self, name: &str) -> Option<Value> {
        match self.take(name) {
            Cell::Text(text) => {
                let decoded = text.strip_prefix(STRUCTURED).and_then(|json| self.parse(name, json));
                Some(decoded.unwrap_or(Value::String(text)))
            }
            cell => self.value(name, &cell),
        }
    }

    /// Everything that was not taken, under its own name unless that is among `used`.
    pub(super) fn rest(self, used: &[&str]) -> Map<String, Value> {
        let mut rest = self.odd;
        for (name, cell) in self.cells {
            if cell != Cell::Null {
                let name = if used.contains(&name.as_str()) { marked(&name) } else { name };
                rest.insert(name, cell.plain());
            }
        }
        rest
    }

    fn take(&mut self, name: &str) -> Cell {
        let place = self.cells.iter().position(|(column, _)| column.eq_ignore_ascii_case(name));
        place.map_or(Cell::Null, |place| self.cells.swap_remove(place).1)
    }

    fn converted<T>(&mut self, name: &str, cell: &Cell, value: Option<T>) -> Option<T> {
        if value.is_none() && *cell != Cell::Null {
            self.keep(name, cell);
        }
        value
    }

    fn value(&mut self, name: &str, cell: &Cell) -> Option<Value> {
        match cell {
            Cell::Null => None,
            Cell::BadText(_) => {
                self.keep(name, cell);
                cell.text().map(Value::String)
            }
            _ => Some(cell.plain()),
        }
    }

    fn parse(&mut self, name: &str, text: &str) -> Option<Value> {
        if let Ok(value) = serde_json::from_str(text) {
            return Some(value);
        }
        // Python writes halves of surrogate pairs, which are no characters.
        let value = serde_json::from_str(&without_half_surrogates(text)?).ok()?;
        self.odd.insert(marked(name), json!(text));
        Some(value)
    }

    fn keep(&mut self, name: &str, cell: &Cell) {
        self.odd.insert(marked(name), cell.plain());
    }
}

/// The name for the original value of a column whose own name means something else.
fn marked(name: &str) -> String {
    format!("hermes:{name}")
}

fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// JSON with a replacement character for each half of a surrogate pair; none if it has no such.
fn without_half_surrogates(json: &str) -> Option<String> {
    let mut repaired = String::with_capacity(json.len());
    let mut rest = json;
    let mut found = false;
    while let Some(place) = rest.find('\\') {
        repaired.push_str(&rest[..place]);
        rest = &rest[place..];
        let pair = matches!(
            (unit(rest), rest.get(6..).and_then(unit)),
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff))
        );
        let (length, half) = match unit(rest) {
            _ if pair => (12, false),
            Some(unit) => (6, (0xd800..=0xdfff).contains(&unit)),
            // The next character is escaped, whatever it is.
            None => (1 + rest[1..].chars().next().map_or(0, char::len_utf8), false),
        };
        repaired.push_str(if half { "\\ufffd" } else { &rest[..length] });
        rest = &rest[length..];
        found |= half;
    }
    repaired.push_str(rest);
    found.then_some(repaired)
}

/// The number in `\uXXXX` at the beginning.
fn unit(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_halves_of_surrogate_pairs_are_replaced() {
        let repaired = |json: &str| without_half_surrogates(json);
        assert_eq!(repaired(r#"["\ud83d\ude00"]"#), None);
        assert_eq!(repaired(r#"["a\ud83d", "\ude00b"]"#).unwrap(), r#"["a\ufffd", "\ufffdb"]"#);
        assert_eq!(repaired(r#"["\ud83d\ud83d\ude00"]"#).unwrap(), r#"["\ufffd\ud83d\ude00"]"#);
        assert_eq!(repaired(r#"["\\ud83d", "\u00e9", "\é"]"#), None);
        assert_eq!(repaired("\\"), None);
        assert_eq!(repaired("\\u12é"), None);
    }
}
