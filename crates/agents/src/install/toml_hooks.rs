//! Adding, updating and removing takeback's entries in a user's TOML file.

use serde_json::{Map, Value, json};
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table};

use super::EditError;
use super::hook_entry::{CommandMark, Field, HookEntry};

/// True if the file contains hooks.
pub(super) fn has_hooks(text: &str) -> bool {
    let document = text.parse::<DocumentMut>();
    document.is_ok_and(|document| {
        let hooks = document.get("hooks").and_then(Item::as_table_like);
        hooks.is_some_and(|hooks| {
            hooks.iter().any(|(_, item)| item.is_array_of_tables() || item.is_array())
        })
    })
}

/// Adds entries to the text, replacing all earlier takeback entries.
pub(super) fn add_entries(
    text: &str,
    entries: &[HookEntry],
    mark: &CommandMark<'_>,
) -> Result<String, EditError> {
    let mut document = parse_document(text)?;
    let root = document.as_table_mut();
    let hooks = root.entry("hooks").or_insert_with(|| {
        let mut hooks = Table::new();
        hooks.set_implicit(true);
        Item::Table(hooks)
    });
    let hooks = hooks.as_table_mut().ok_or_else(|| EditError::new("`hooks` is not a table"))?;
    for event in event_names(hooks) {
        if !entries.iter().any(|entry| entry.event == event) {
            remove_from_event(hooks, &event, mark);
        }
    }
    for entry in entries {
        let list = hooks.entry(entry.event).or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
        let list = list.as_array_of_tables_mut();
        let list = list.ok_or_else(|| {
            EditError::new(format!("`hooks.{}` is not a list of tables", entry.event))
        })?;
        put_entry(list, entry, mark);
    }
    Ok(format_like(text, &document))
}

/// Removes takeback's entries from the text. Returns `None` if there are none.
pub(super) fn remove_entries(
    text: &str,
    mark: &CommandMark<'_>,
) -> Result<Option<String>, EditError> {
    let mut document = parse_document(text)?;
    let Some(hooks) = document.get_mut("hooks").and_then(Item::as_table_mut) else {
        return Ok(None);
    };
    let removed =
        event_names(hooks).iter().filter(|event| remove_from_event(hooks, event, mark)).count();
    if removed == 0 {
        return Ok(None);
    }
    if hooks.is_empty() {
        document.remove("hooks");
    }
    Ok(Some(format_like(text, &document)))
}

/// Parses the text into JSON.
pub(super) fn parse_value(text: &str) -> Result<Value, EditError> {
    Ok(table_to_json(parse_document(text)?.as_table()))
}

/// True if two versions of a file differ at most in whitespace and comments.
pub(super) fn has_same_value(text: &str, other: &str) -> bool {
    parse_value(text).is_ok_and(|value| parse_value(other).is_ok_and(|other| other == value))
}

/// Parses the text. An error names the line but does not quote it, because the line may contain a
/// secret.
fn parse_document(text: &str) -> Result<DocumentMut, EditError> {
    text.parse().map_err(|error: toml_edit::TomlError| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        EditError(format!("line {line}: {}", error.message().replace('\n', ", ")))
    })
}

/// Formats a document with the byte order mark and line endings of the original text.
fn format_like(text: &str, document: &DocumentMut) -> String {
    let mut edited = document.to_string();
    if text.contains("\r\n") {
        edited = edited.replace("\r\n", "\n").replace('\n', "\r\n");
    }
    if text.starts_with('\u{feff}') && !edited.starts_with('\u{feff}') {
        edited.insert(0, '\u{feff}');
    }
    edited
}

fn event_names(hooks: &Table) -> Vec<String> {
    hooks.iter().map(|(event, _)| event.to_owned()).collect()
}

/// Replaces an earlier entry with the new one, or appends the new one to the list.
fn put_entry(list: &mut ArrayOfTables, entry: &HookEntry, mark: &CommandMark<'_>) {
    let wanted = entry.to_json();
    let mut is_there = false;
    let mut at = 0;
    while let Some(group) = list.get_mut(at) {
        let present = table_to_json(group);
        if mark.is_all_of(&present) && !is_there {
            is_there = true;
            if present != wanted {
                *group = entry_table(entry);
            }
        } else if mark.is_all_of(&present) {
            list.remove(at);
            continue;
        } else if mark.is_in(&present) {
            remove_commands(group, mark);
        }
        at += 1;
    }
    if !is_there {
        list.push(entry_table(entry));
    }
}

/// Removes takeback's commands from an event, and the event itself if nothing else remains in it.
fn remove_from_event(hooks: &mut Table, event: &str, mark: &CommandMark<'_>) -> bool {
    let Some(list) = hooks.get_mut(event).and_then(Item::as_array_of_tables_mut) else {
        return false;
    };
    let has_ours = list.iter().any(|group| mark.is_in(&table_to_json(group)));
    list.retain(|group| !mark.is_all_of(&table_to_json(group)));
    list.iter_mut().for_each(|group| remove_commands(group, mark));
    if has_ours && list.is_empty() {
        hooks.remove(event);
    }
    has_ours
}

/// Removes takeback's commands from a group.
fn remove_commands(group: &mut Table, mark: &CommandMark<'_>) {
    match group.get_mut("hooks") {
        Some(Item::ArrayOfTables(commands)) => {
            commands.retain(|command| !mark.is_in(&table_to_json(command)));
        }
        Some(Item::Value(toml_edit::Value::Array(commands))) => {
            commands.retain(|command| !mark.is_in(&value_to_json(command)));
        }
        _ => {}
    }
}

fn entry_table(entry: &HookEntry) -> Table {
    let mut hook = Table::new();
    for (key, field) in &entry.hook {
        hook[key] = match field {
            Field::Text(text) => toml_edit::value(text.as_str()),
            // TOML cannot represent a larger number, and no timeout is that long.
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

fn table_to_json(table: &Table) -> Value {
    let fields = table.iter().map(|(key, item)| (key.to_owned(), item_to_json(item)));
    Value::Object(fields.collect::<Map<_, _>>())
}

fn item_to_json(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => value_to_json(value),
        Item::Table(table) => table_to_json(table),
        Item::ArrayOfTables(tables) => tables.iter().map(table_to_json).collect(),
    }
}

fn value_to_json(value: &toml_edit::Value) -> Value {
    use toml_edit::Value as Toml;
    match value {
        Toml::String(text) => json!(text.value()),
        Toml::Integer(number) => json!(number.value()),
        Toml::Float(number) => json!(number.value()),
        Toml::Boolean(flag) => json!(flag.value()),
        Toml::Datetime(time) => json!(time.value().to_string()),
        Toml::Array(list) => list.iter().map(value_to_json).collect(),
        Toml::InlineTable(table) => {
            let fields = table.iter().map(|(key, value)| (key.to_owned(), value_to_json(value)));
            Value::Object(fields.collect())
        }
    }
}
