//! Hooks in a TOML file that belongs to the user: as in JSON, in tables.

use serde_json::{Map, Value, json};
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table};

use super::Unreadable;
use super::entry::{Entry, Field, Mark};

/// Whether hooks of the user's are in this file.
pub(super) fn has_hooks(text: &str) -> bool {
    let document = text.parse::<DocumentMut>();
    document.is_ok_and(|document| {
        let hooks = document.get("hooks").and_then(Item::as_table_like);
        hooks.is_some_and(|hooks| {
            hooks.iter().any(|(_, item)| item.is_array_of_tables() || item.is_array())
        })
    })
}

/// The text with these entries, and no others of ours.
pub(super) fn add(text: &str, entries: &[Entry], mark: &Mark<'_>) -> Result<String, Unreadable> {
    let mut document = parse(text)?;
    let root = document.as_table_mut();
    let hooks = root.entry("hooks").or_insert_with(|| {
        let mut hooks = Table::new();
        hooks.set_implicit(true);
        Item::Table(hooks)
    });
    let hooks = hooks.as_table_mut().ok_or_else(|| odd("`hooks` is not a table"))?;
    for event in events(hooks) {
        if !entries.iter().any(|entry| entry.event == event) {
            remove_from(hooks, &event, mark);
        }
    }
    for entry in entries {
        let list = hooks.entry(entry.event).or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
        let list = list.as_array_of_tables_mut();
        let list =
            list.ok_or_else(|| odd(&format!("`hooks.{}` is not a list of tables", entry.event)))?;
        put(list, entry, mark);
    }
    Ok(as_in(text, &document))
}

/// The text without entries of ours; nothing if there are none.
pub(super) fn remove(text: &str, mark: &Mark<'_>) -> Result<Option<String>, Unreadable> {
    let mut document = parse(text)?;
    let Some(hooks) = document.get_mut("hooks").and_then(Item::as_table_mut) else {
        return Ok(None);
    };
    let removed = events(hooks).iter().filter(|event| remove_from(hooks, event, mark)).count();
    if removed == 0 {
        return Ok(None);
    }
    if hooks.is_empty() {
        document.remove("hooks");
    }
    Ok(Some(as_in(text, &document)))
}

/// What the text says.
pub(super) fn value(text: &str) -> Result<Value, Unreadable> {
    Ok(json_of(parse(text)?.as_table()))
}

/// Whether two texts say the same.
pub(super) fn is_same(text: &str, other: &str) -> bool {
    value(text).is_ok_and(|value| self::value(other).is_ok_and(|other| other == value))
}

/// What is wrong is said without the line that it is in: that is the user's.
fn parse(text: &str) -> Result<DocumentMut, Unreadable> {
    text.parse().map_err(|error: toml_edit::TomlError| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        Unreadable(format!("line {line}: {}", error.message().replace('\n', ", ")))
    })
}

/// With the byte order mark and the line ends of the text that it was.
fn as_in(text: &str, document: &DocumentMut) -> String {
    let mut edited = document.to_string();
    if text.contains("\r\n") {
        edited = edited.replace("\r\n", "\n").replace('\n', "\r\n");
    }
    if text.starts_with('\u{feff}') && !edited.starts_with('\u{feff}') {
        edited.insert(0, '\u{feff}');
    }
    edited
}

fn odd(what: &str) -> Unreadable {
    Unreadable(what.to_owned())
}

fn events(hooks: &Table) -> Vec<String> {
    hooks.iter().map(|(event, _)| event.to_owned()).collect()
}

/// Puts an entry where one of ours is, or at the end.
fn put(list: &mut ArrayOfTables, entry: &Entry, mark: &Mark<'_>) {
    let wanted = entry.value();
    let mut is_there = false;
    let mut at = 0;
    while let Some(group) = list.get_mut(at) {
        let present = json_of(group);
        if mark.is_all_of(&present) && !is_there {
            is_there = true;
            if present != wanted {
                *group = table(entry);
            }
        } else if mark.is_all_of(&present) {
            list.remove(at);
            continue;
        } else if mark.is_in(&present) {
            take_out(group, mark);
        }
        at += 1;
    }
    if !is_there {
        list.push(table(entry));
    }
}

fn remove_from(hooks: &mut Table, event: &str, mark: &Mark<'_>) -> bool {
    let Some(list) = hooks.get_mut(event).and_then(Item::as_array_of_tables_mut) else {
        return false;
    };
    let has_ours = list.iter().any(|group| mark.is_in(&json_of(group)));
    list.retain(|group| !mark.is_all_of(&json_of(group)));
    list.iter_mut().for_each(|group| take_out(group, mark));
    if has_ours && list.is_empty() {
        hooks.remove(event);
    }
    has_ours
}

/// Removes what is ours in a group of commands.
fn take_out(group: &mut Table, mark: &Mark<'_>) {
    match group.get_mut("hooks") {
        Some(Item::ArrayOfTables(commands)) => {
            commands.retain(|command| !mark.is_in(&json_of(command)));
        }
        Some(Item::Value(toml_edit::Value::Array(commands))) => {
            commands.retain(|command| !mark.is_in(&json_of_value(command)));
        }
        _ => {}
    }
}

fn table(entry: &Entry) -> Table {
    let mut hook = Table::new();
    for (key, field) in &entry.hook {
        hook[key] = match field {
            Field::Text(text) => toml_edit::value(text.as_str()),
            // No time is longer than that.
            Field::Number(number) => toml_edit::value(i64::try_from(*number).unwrap_or(i64::MAX)),
        };
    }
    let mut group = Table::new();
    if let Some(matcher) = entry.matcher {
        group["matcher"] = toml_edit::value(matcher);
    }
    let mut hooks = ArrayOfTables::new();
    hooks.push(hook);
    group["hooks"] = Item::ArrayOfTables(hooks);
    group
}

fn json_of(table: &Table) -> Value {
    let fields = table.iter().map(|(key, item)| (key.to_owned(), json_of_item(item)));
    Value::Object(fields.collect::<Map<_, _>>())
}

fn json_of_item(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => json_of_value(value),
        Item::Table(table) => json_of(table),
        Item::ArrayOfTables(tables) => tables.iter().map(json_of).collect(),
    }
}

fn json_of_value(value: &toml_edit::Value) -> Value {
    use toml_edit::Value as Toml;
    match value {
        Toml::String(text) => json!(text.value()),
        Toml::Integer(number) => json!(number.value()),
        Toml::Float(number) => json!(number.value()),
        Toml::Boolean(flag) => json!(flag.value()),
        Toml::Datetime(time) => json!(time.value().to_string()),
        Toml::Array(list) => list.iter().map(json_of_value).collect(),
        Toml::InlineTable(table) => {
            let fields = table.iter().map(|(key, value)| (key.to_owned(), json_of_value(value)));
            Value::Object(fields.collect())
        }
    }
}
