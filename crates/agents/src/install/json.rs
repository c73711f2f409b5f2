//! Hooks in a JSON file that belongs to the user: entries of ours are added, brought up to date and
//! removed; everything else stays as it is, comments and spaces included.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode};
use serde_json::Value;

use super::Unreadable;
use super::entry::{Entry, Field, Mark};

/// The text with these entries, and no others of ours.
pub(super) fn add(text: &str, entries: &[Entry], mark: &Mark<'_>) -> Result<String, Unreadable> {
    let (signature, json) = signed(text);
    let root = parse(json)?;
    let object = root.object_value_or_create().ok_or_else(|| odd("it is not an object"))?;
    let version = entries.iter().find_map(|entry| entry.version);
    if let Some(version) = version.filter(|_| object.get("version").is_none()) {
        object.append("version", CstInputValue::from(version));
    }
    if is_twice(&object, "hooks") {
        return Err(odd("\"hooks\" is there twice"));
    }
    let hooks = object.object_value_or_create("hooks");
    let hooks = hooks.ok_or_else(|| odd("\"hooks\" is not an object"))?;
    for event in hooks.properties() {
        if !entries.iter().any(|entry| is_called(&event, entry.event)) {
            remove_from(&event, mark);
        }
    }
    for entry in entries {
        if is_twice(&hooks, entry.event) {
            return Err(odd(&format!("\"hooks\".\"{}\" is there twice", entry.event)));
        }
        let list = hooks.array_value_or_create(entry.event);
        let list =
            list.ok_or_else(|| odd(&format!("\"hooks\".\"{}\" is not a list", entry.event)))?;
        put(&list, entry, mark);
    }
    Ok(format!("{signature}{root}"))
}

/// The text without entries of ours; nothing if there are none.
pub(super) fn remove(text: &str, mark: &Mark<'_>) -> Result<Option<String>, Unreadable> {
    let (signature, json) = signed(text);
    let root = parse(json)?;
    let mut removed = 0;
    let properties = root.object_value().map(|object| object.properties()).unwrap_or_default();
    for property in properties.into_iter().filter(|property| is_called(property, "hooks")) {
        let Some(hooks) = property.object_value() else { continue };
        let here = hooks.properties().iter().filter(|event| remove_from(event, mark)).count();
        if here > 0 && hooks.properties().is_empty() {
            property.remove();
        }
        removed += here;
    }
    if removed == 0 {
        return Ok(None);
    }
    Ok(Some(format!("{signature}{root}")))
}

/// What the text says; null if that is nothing.
pub(super) fn value_of(text: &str) -> Result<Value, Unreadable> {
    Ok(parse(signed(text).1)?.to_serde_value().unwrap_or_default())
}

/// Whether two texts say the same.
pub(super) fn is_same(text: &str, other: &str) -> bool {
    value_of(text).is_ok_and(|value| value_of(other).is_ok_and(|other| other == value))
}

/// Agents read files with a byte order mark; the parser does not.
fn signed(text: &str) -> (&str, &str) {
    text.split_at(if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 })
}

/// Comments and commas too many are the user's business. What no agent reads is not.
fn parse(text: &str) -> Result<CstRootNode, Unreadable> {
    // The parser calls itself for everything that is nested.
    const DEPTH: usize = 200;
    let nested = text.bytes().filter(|byte| matches!(byte, b'{' | b'[')).count();
    if nested > DEPTH && depth(text) > DEPTH {
        return Err(odd("it is nested too deeply"));
    }
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    CstRootNode::parse(text, &options).map_err(|error| Unreadable(error.to_string()))
}

/// How deep brackets are nested, whatever they stand in.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    for byte in text.bytes() {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

fn odd(what: &str) -> Unreadable {
    Unreadable(what.to_owned())
}

fn is_called(property: &CstObjectProp, name: &str) -> bool {
    property.decoded_name().as_deref() == Some(name)
}

/// Agents read the last of them; what is in the others does nothing.
fn is_twice(object: &CstObject, name: &str) -> bool {
    object.properties().iter().filter(|property| is_called(property, name)).count() > 1
}

fn value(node: &CstNode) -> Value {
    node.to_serde_value().unwrap_or_default()
}

/// Puts an entry where one of ours is, or at the end.
fn put(list: &CstArray, entry: &Entry, mark: &Mark<'_>) {
    let wanted = entry.value();
    let mut is_there = false;
    for element in list.elements() {
        let present = value(&element);
        if !mark.is_in(&present) {
            continue;
        }
        if is_there || !mark.is_all_of(&present) {
            // Somebody else's command stands beside ours: that one stays.
            take_out(element, mark);
        } else {
            is_there = true;
            if present != wanted && !update(&element, entry) {
                let index = element.element_index().unwrap_or_default();
                list.insert(index, input(entry));
                element.remove();
            }
        }
    }
    if !is_there {
        list.append(input(entry));
    }
}

/// Changes only the values that differ, if that is enough.
fn update(element: &CstNode, entry: &Entry) -> bool {
    let group = element.as_object();
    let command = match entry.is_nested {
        true => group.and_then(|group| group.array_value("hooks")?.elements().pop()?.as_object()),
        false => group,
    };
    let Some(command) = command else { return false };
    for (key, field) in &entry.hook {
        let Some(property) = command.get(key) else { return false };
        property.set_value(scalar(field));
    }
    value(element) == entry.value()
}

/// Removes what is ours below an event, and the event if nothing is left of it.
fn remove_from(event: &CstObjectProp, mark: &Mark<'_>) -> bool {
    let Some(list) = event.array_value() else { return false };
    let ours = list.elements().into_iter().filter(|element| mark.is_in(&value(element)));
    let removed = ours.map(|element| take_out(element, mark)).count();
    if removed > 0 && list.elements().is_empty() {
        event.clone().remove();
    }
    removed > 0
}

/// Removes an element, or only what is ours in it.
fn take_out(element: CstNode, mark: &Mark<'_>) {
    if mark.is_all_of(&value(&element)) {
        element.remove();
        return;
    }
    let inner = element.as_object().and_then(|group| group.array_value("hooks"));
    for command in inner.iter().flat_map(CstArray::elements) {
        if mark.is_in(&value(&command)) {
            command.remove();
        }
    }
}

/// In the order in which people write it.
fn input(entry: &Entry) -> CstInputValue {
    let property = |(key, field): &(&str, Field)| ((*key).to_owned(), scalar(field));
    let hook = CstInputValue::Object(entry.hook.iter().map(property).collect());
    if !entry.is_nested {
        return hook;
    }
    let matcher = entry.matcher.map(|matcher| ("matcher".to_owned(), matcher.into()));
    let hooks = ("hooks".to_owned(), CstInputValue::Array(vec![hook]));
    CstInputValue::Object(matcher.into_iter().chain([hooks]).collect())
}

fn scalar(field: &Field) -> CstInputValue {
    match field {
        Field::Text(text) => CstInputValue::String(text.clone()),
        Field::Number(number) => CstInputValue::Number(number.to_string()),
    }
}
