//! One row of a table, read column by column.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rusqlite::Row;
use rusqlite::types::ValueRef;
use serde_json::{Map, Value, json};
use takeback_base::foreign;
use takeback_ledger::Time;

/// The prefix that marks content as JSON instead of text.
const STRUCTURED: &str = "\0json:";

/// The limit, in seconds, beyond which the exchange format cannot represent a time.
const FARTHEST: f64 = 9e12;

/// The approximate memory that a row takes in addition to its cells.
const ROW_COST: usize = 1_024;

/// The approximate memory that a cell takes in addition to its content.
const CELL_COST: usize = 64;

/// The approximate memory that a small JSON value takes.
const VALUE_COST: usize = 320;

/// A database value.
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

    /// Returns the approximate memory that the cell and the JSON in it may take.
    fn cost(&self) -> usize {
        match self {
            Cell::Null => 0,
            Cell::Integer(_) | Cell::Real(_) => CELL_COST,
            Cell::BadText(bytes) | Cell::Bytes(bytes) => CELL_COST + bytes.len(),
            Cell::Text(text) => {
                let is_json = text.trim_start().starts_with(['[', '{', '\0']);
                let values = if is_json { foreign::count_json_values(text.as_bytes()) } else { 0 };
                CELL_COST + text.len() + values * VALUE_COST
            }
        }
    }

    /// Converts the cell to a session id. Bytes that are not text are encoded without loss, so that
    /// different bytes get different ids.
    pub(super) fn to_id(&self) -> Option<String> {
        match self {
            Cell::BadText(bytes) | Cell::Bytes(bytes) => {
                Some(format!("bytes:{}", encode_base64(bytes)))
            }
            _ => self.to_text(),
        }
    }

    fn to_text(&self) -> Option<String> {
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

    pub(super) fn to_integer(&self) -> Option<i64> {
        match self {
            Cell::Integer(number) => Some(*number),
            Cell::Real(number) if number.is_finite() => Some(*number as i64),
            Cell::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    fn to_number(&self) -> Option<f64> {
        match self {
            Cell::Integer(number) => Some(*number as f64),
            Cell::Real(number) => Some(*number),
            Cell::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
        .filter(|number| number.is_finite())
    }

    pub(super) fn to_time(&self) -> Option<Time> {
        match self {
            Cell::Text(text) => Time::parse(text).filter(|time| time.seconds().abs() < FARTHEST),
            _ => self.to_number().filter(|number| number.abs() < FARTHEST).map(Time::from_seconds),
        }
    }

    fn to_flag(&self) -> Option<bool> {
        match self {
            Cell::Text(text) if text.eq_ignore_ascii_case("true") => Some(true),
            Cell::Text(text) if text.eq_ignore_ascii_case("false") => Some(false),
            _ => self.to_number().map(|number| number != 0.0),
        }
    }

    /// Converts the cell to JSON without loss: bytes become `{"bytes": base64}`.
    fn to_json(&self) -> Value {
        match self {
            Cell::Null => Value::Null,
            Cell::Integer(number) => json!(number),
            Cell::Real(number) if number.is_finite() => json!(number),
            Cell::Real(number) => json!(number.to_string()),
            Cell::Text(text) => json!(text),
            Cell::BadText(bytes) | Cell::Bytes(bytes) => json!({ "bytes": encode_base64(bytes) }),
        }
    }
}

/// The cells of one row. Each cell is taken out by its column name and desired type.
/// [`RowFields::into_rest`] returns the remaining cells.
#[derive(Debug)]
pub(super) struct RowFields {
    cells: Vec<(String, Cell)>,
    /// The original values of cells that could not be converted without loss.
    originals: Map<String, Value>,
}

impl RowFields {
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<RowFields> {
        let names = row.as_ref().column_names();
        let cell =
            |(index, name): (usize, &str)| Ok((name.to_owned(), Cell::read(row.get_ref(index)?)));
        let cells = names.into_iter().enumerate().map(cell).collect::<rusqlite::Result<_>>()?;
        Ok(RowFields { cells, originals: Map::new() })
    }

    /// Returns the approximate memory that a record built from this row may take.
    pub(super) fn cost(&self) -> usize {
        ROW_COST + self.cells.iter().map(|(_, cell)| cell.cost()).sum::<usize>()
    }

    pub(super) fn take_id(&mut self, name: &str) -> Option<String> {
        self.take_cell(name).to_id()
    }

    pub(super) fn take_text(&mut self, name: &str) -> Option<String> {
        let cell = self.take_cell(name);
        if matches!(cell, Cell::BadText(_) | Cell::Bytes(_)) {
            self.keep_original(name, &cell);
        }
        cell.to_text()
    }

    pub(super) fn take_integer(&mut self, name: &str) -> Option<i64> {
        let cell = self.take_cell(name);
        if matches!(cell, Cell::Real(number) if number as i64 as f64 != number) {
            self.keep_original(name, &cell);
        }
        self.keep_unconverted(name, &cell, cell.to_integer())
    }

    /// Takes a counter out of the row. Null is treated as zero.
    pub(super) fn take_count(&mut self, name: &str) -> i64 {
        self.take_integer(name).unwrap_or(0)
    }

    pub(super) fn take_number(&mut self, name: &str) -> Option<f64> {
        let cell = self.take_cell(name);
        self.keep_unconverted(name, &cell, cell.to_number())
    }

    pub(super) fn take_time(&mut self, name: &str) -> Option<Time> {
        let cell = self.take_cell(name);
        self.keep_unconverted(name, &cell, cell.to_time())
    }

    pub(super) fn take_flag(&mut self, name: &str) -> Option<bool> {
        let cell = self.take_cell(name);
        self.keep_unconverted(name, &cell, cell.to_flag())
    }

    /// Takes a JSON value out of the row. Text that is not a JSON object or list stays text.
    pub(super) fn take_json(&mut self, name: &str) -> Option<Value> {
        match self.take_cell(name) {
            Cell::Text(text) => match self.parse_json(name, &text) {
                Some(value) if value.is_object() || value.is_array() => Some(value),
                _ => Some(Value::String(text)),
            },
            cell => self.convert_to_json(name, &cell),
        }
    }

    /// Takes the content of a message out of the row: plain text, or JSON if it begins with the
    /// prefix that marks structured content.
    pub(super) fn take_content(&mut self, name: &str) -> Option<Value> {
        match self.take_cell(name) {
            Cell::Text(text) => {
                let structured = text.strip_prefix(STRUCTURED);
                let decoded = structured.and_then(|json| self.parse_json(name, json));
                Some(decoded.unwrap_or(Value::String(text)))
            }
            cell => self.convert_to_json(name, &cell),
        }
    }

    /// Returns the original values that were kept, and all cells that were not taken out, each
    /// under its column name. If that name is in `reserved`, the cell is returned under its
    /// [`marked_name`] instead.
    pub(super) fn into_rest(self, reserved: &[&str]) -> Map<String, Value> {
        let mut rest = self.originals;
        for (name, cell) in self.cells {
            if cell != Cell::Null {
                let is_reserved = reserved.contains(&name.as_str());
                let name = if is_reserved { marked_name(&name) } else { name };
                rest.insert(name, cell.to_json());
            }
        }
        rest
    }

    fn take_cell(&mut self, name: &str) -> Cell {
        let index = self.cells.iter().position(|(column, _)| column.eq_ignore_ascii_case(name));
        index.map_or(Cell::Null, |index| self.cells.swap_remove(index).1)
    }

    /// Returns the converted value. If the conversion failed, keeps the original value of the cell.
    fn keep_unconverted<T>(&mut self, name: &str, cell: &Cell, value: Option<T>) -> Option<T> {
        if value.is_none() && *cell != Cell::Null {
            self.keep_original(name, cell);
        }
        value
    }

    fn convert_to_json(&mut self, name: &str, cell: &Cell) -> Option<Value> {
        match cell {
            Cell::Null => None,
            Cell::BadText(_) => {
                self.keep_original(name, cell);
                cell.to_text().map(Value::String)
            }
            _ => Some(cell.to_json()),
        }
    }

    fn parse_json(&mut self, name: &str, text: &str) -> Option<Value> {
        if let Ok(value) = serde_json::from_str(text) {
            return Some(value);
        }
        // Python writes lone surrogates, which are not valid characters.
        let value = serde_json::from_str(&replace_lone_surrogates(text)?).ok()?;
        self.originals.insert(marked_name(name), json!(text));
        Some(value)
    }

    fn keep_original(&mut self, name: &str, cell: &Cell) {
        self.originals.insert(marked_name(name), cell.to_json());
    }
}

/// Returns the name under which the original value of a column is kept if a record already uses the
/// column's own name.
fn marked_name(name: &str) -> String {
    format!("hermes:{name}")
}

fn encode_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Replaces each lone surrogate in JSON with a replacement character. Returns `None` if the JSON
/// has no lone surrogates.
fn replace_lone_surrogates(json: &str) -> Option<String> {
    let mut repaired = String::with_capacity(json.len());
    let mut rest = json;
    let mut found = false;
    while let Some(backslash) = rest.find('\\') {
        repaired.push_str(&rest[..backslash]);
        rest = &rest[backslash..];
        let is_pair = matches!(
            (parse_code_unit(rest), rest.get(6..).and_then(parse_code_unit)),
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff))
        );
        let (length, is_lone) = match parse_code_unit(rest) {
            _ if is_pair => (12, false),
            Some(unit) => (6, (0xd800..=0xdfff).contains(&unit)),
            // Another escape: a backslash and one character.
            None => (1 + rest[1..].chars().next().map_or(0, char::len_utf8), false),
        };
        repaired.push_str(if is_lone { "\\ufffd" } else { &rest[..length] });
        rest = &rest[length..];
        found |= is_lone;
    }
    repaired.push_str(rest);
    found.then_some(repaired)
}

/// Parses `\uXXXX` at the beginning of the text.
fn parse_code_unit(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lone_surrogates_are_replaced() {
        let repaired = |json: &str| replace_lone_surrogates(json);
        assert_eq!(repaired(r#"["\ud83d\ude00"]"#), None);
        assert_eq!(repaired(r#"["a\ud83d", "\ude00b"]"#).unwrap(), r#"["a\ufffd", "\ufffdb"]"#);
        assert_eq!(repaired(r#"["\ud83d\ud83d\ude00"]"#).unwrap(), r#"["\ufffd\ud83d\ude00"]"#);
        assert_eq!(repaired(r#"["\\ud83d", "\u00e9", "\é"]"#), None);
        assert_eq!(repaired("\\"), None);
        assert_eq!(repaired("\\u12é"), None);
    }
}
