//! Adding, updating and removing takeback's entries in a user's JSON file. Everything else stays
//! unchanged, including comments and whitespace.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode};
use serde_json::Value;

use super::EditError;
use super::hook_entry::{CommandMark, Field, HookEntry};

/// Adds entries to the text, replacing all earlier takeback entries.
pub(super) fn add_entries(
    text: &str,
    entries: &[HookEntry],
    mark: &CommandMark<'_>,
) -> Result<String, EditError> {
    let (bom, json) = split_bom(text);
    let root = parse_tree(json)?;
    let object =
        root.object_value_or_create().ok_or_else(|| EditError::new("not a JSON object"))?;
    let version = entries.iter().find_map(|entry| entry.version);
    if let Some(version) = version.filter(|_| object.get("version").is_none()) {
        object.append("version", CstInputValue::from(version));
    }
    if is_duplicate(&object, "hooks") {
        return Err(EditError::new("duplicate key \"hooks\""));
    }
    let hooks = object.object_value_or_create("hooks");
    let hooks = hooks.ok_or_else(|| EditError::new("\"hooks\" is not an object"))?;
    for event in hooks.properties() {
        if !entries.iter().any(|entry| has_name(&event, entry.event)) {
            remove_from_event(&event, mark);
        }
    }
    for entry in entries {
        if is_duplicate(&hooks, entry.event) {
            return Err(EditError::new(format!("duplicate key \"{}\" in \"hooks\"", entry.event)));
        }
        let list = hooks.array_value_or_create(entry.event);
        let list = list.ok_or_else(|| {
            EditError::new(format!("\"{}\" in \"hooks\" is not a list", entry.event))
        })?;
        put_entry(&list, entry, mark);
    }
    Ok(format!("{bom}{root}"))
}

/// Removes takeback's entries from the text. Returns `None` if there are none.
pub(super) fn remove_entries(
    text: &str,
    mark: &CommandMark<'_>,
) -> Result<Option<String>, EditError> {
    let (bom, json) = split_bom(text);
    let root = parse_tree(json)?;
    let mut removed = 0;
    let properties = root.object_value().map(|object| object.properties()).unwrap_or_default();
    for property in properties.into_iter().filter(|property| has_name(property, "hooks")) {
        let Some(hooks) = property.object_value() else { continue };
        let here = hooks.properties().iter().filter(|event| remove_from_event(event, mark)).count();
        if here > 0 && hooks.properties().is_empty() {
            property.remove();
        }
        removed += here;
    }
    if removed == 0 {
        return Ok(None);
    }
    Ok(Some(format!("{bom}{root}")))
}

/// Parses the text. Returns null if the text contains no value.
pub(super) fn parse_value(text: &str) -> Result<Value, EditError> {
    Ok(parse_tree(split_bom(text).1)?.to_serde_value().unwrap_or_default())
}

/// True if two versions of a file differ at most in whitespace and comments.
pub(super) fn has_same_value(text: &str, other: &str) -> bool {
    parse_value(text).is_ok_and(|value| parse_value(other).is_ok_and(|other| other == value))
}

/// Splits off a byte order mark. Agents accept one, but the parser does not.
pub(super) fn split_bom(text: &str) -> (&str, &str) {
    text.split_at(if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 })
}

/// Parses the text into a syntax tree. Comments and trailing commas are accepted, because some
/// agents accept them. Anything else that is not JSON is an error.
pub(super) fn parse_tree(text: &str) -> Result<CstRootNode, EditError> {
    // The parser is recursive, so deep nesting would overflow the stack.
    const MAX_DEPTH: usize = 200;
    let nested = text.bytes().filter(|byte| matches!(byte, b'{' | b'[')).count();
    if nested > MAX_DEPTH && bracket_depth(text) > MAX_DEPTH {
        return Err(EditError::new("nested too deeply"));
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
    CstRootNode::parse(text, &options).map_err(|error| EditError(error.to_string()))
}

/// Returns an upper bound for the nesting depth. Brackets inside strings are counted as well.
fn bracket_depth(text: &str) -> usize {
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

pub(super) fn has_name(property: &CstObjectProp, name: &str) -> bool {
    property.decoded_name().as_deref() == Some(name)
}

/// True if a key occurs more than once. Agents read only the last occurrence.
pub(super) fn is_duplicate(object: &CstObject, name: &str) -> bool {
    object.properties().iter().filter(|property| has_name(property, name)).count() > 1
}

pub(super) fn node_value(node: &CstNode) -> Value {
    node.to_serde_value().unwrap_or_default()
}

/// Replaces an earlier entry with the new one, or appends the new one to the list.
fn put_entry(list: &CstArray, entry: &HookEntry, mark: &CommandMark<'_>) {
    let wanted = entry.to_json();
    let mut is_there = false;
    for element in list.elements() {
        let present = node_value(&element);
        if !mark.is_in(&present) {
            continue;
        }
        if is_there || !mark.is_all_of(&present) {
            // This is a duplicate, or a group that also contains the user's commands. The user's
            // commands are kept.
            remove_commands(element, mark);
        } else {
            is_there = true;
            if present != wanted && !update_fields(&element, entry) {
                let index = element.element_index().unwrap_or_default();
                list.insert(index, input_value(entry));
                element.remove();
            }
        }
    }
    if !is_there {
        list.append(input_value(entry));
    }
}

/// Updates the fields of an entry in place. Returns false if the result differs from the new entry.
fn update_fields(element: &CstNode, entry: &HookEntry) -> bool {
    let group = element.as_object();
    let command = match entry.is_nested {
        true => group.and_then(|group| group.array_value("hooks")?.elements().pop()?.as_object()),
        false => group,
    };
    let Some(command) = command else { return false };
    for (key, field) in &entry.hook {
        let Some(property) = command.get(key) else { return false };
        property.set_value(field_value(field));
    }
    node_value(element) == entry.to_json()
}

/// Removes takeback's commands from an event, and the event itself if nothing else remains in it.
fn remove_from_event(event: &CstObjectProp, mark: &CommandMark<'_>) -> bool {
    let Some(list) = event.array_value() else { return false };
    let ours = list.elements().into_iter().filter(|element| mark.is_in(&node_value(element)));
    let removed = ours.map(|element| remove_commands(element, mark)).count();
    if removed > 0 && list.elements().is_empty() {
        event.clone().remove();
    }
    removed > 0
}

/// Removes takeback's commands from an element, or the whole element if it contains nothing else.
fn remove_commands(element: CstNode, mark: &CommandMark<'_>) {
    if mark.is_all_of(&node_value(&element)) {
        element.remove();
        return;
    }
    let inner = element.as_object().and_then(|group| group.array_value("hooks"));
    for command in inner.iter().flat_map(CstArray::elements) {
        if mark.is_in(&node_value(&command)) {
            command.remove();
        }
    }
}

/// Returns an entry as input for the syntax tree, with its fields in the usual order.
fn input_value(entry: &HookEntry) -> CstInputValue {
    let property = |(key, field): &(&str, Field)| ((*key).to_owned(), field_value(field));
    let hook = CstInputValue::Object(entry.hook.iter().map(property).collect());
    if !entry.is_nested {
        return hook;
    }
    let matcher = entry.matcher.map(|matcher| ("matcher".to_owned(), matcher.into()));
    let hooks = ("hooks".to_owned(), CstInputValue::Array(vec![hook]));
    CstInputValue::Object(matcher.into_iter().chain([hooks]).collect())
}

fn field_value(field: &Field) -> CstInputValue {
    match field {
        Field::Text(text) => CstInputValue::String(text.clone()),
        Field::Number(number) => CstInputValue::Number(number.to_string()),
    }
}
