//! Adding, updating and removing the entries for the agents that an editor starts through takeback.
//! Everything else in the editor's settings stays unchanged.

use std::path::Path;

use jsonc_parser::cst::{CstInputValue, CstObjectProp};
use serde_json::{Value, json};

use super::EditError;
use super::hook_entry::CommandMark;
use super::json_hooks::{has_name, is_duplicate, node_value, parse_tree, split_bom};
use crate::wiring::{Program, ServerEntries};

/// The setting that lists the agents.
const KEY: &str = "agent_servers";

/// Adds the entries for the agents to the text, replacing all earlier takeback entries. If the user
/// has an entry with the same name, that entry is kept.
pub(super) fn add_servers(
    text: &str,
    servers: &ServerEntries,
    program: &Program,
    mark: &CommandMark<'_>,
) -> Result<String, EditError> {
    let (bom, json) = split_bom(text);
    let root = parse_tree(json)?;
    let object =
        root.object_value_or_create().ok_or_else(|| EditError::new("not a JSON object"))?;
    if is_duplicate(&object, KEY) {
        return Err(EditError::new(format!("duplicate key \"{KEY}\"")));
    }
    let list = object.object_value_or_create(KEY);
    let list = list.ok_or_else(|| EditError::new(format!("\"{KEY}\" is not an object")))?;
    for entry in list.properties() {
        let is_wanted = servers.servers.iter().any(|server| has_name(&entry, server.name));
        if is_own(&entry, mark) && !is_wanted {
            entry.remove();
        }
    }
    for server in servers.servers {
        let words = program.words().iter().map(String::as_str);
        let words = words.chain(["acp", "--"]).chain(server.command.iter().copied());
        let words: Vec<&str> = words.collect();
        let present = list.properties().into_iter().find(|entry| has_name(entry, server.name));
        match present {
            Some(entry) if is_own(&entry, mark) => update_command(&entry, &words),
            // The name belongs to the user's own entry.
            Some(_) => {}
            None => drop(list.append(server.name, server_value(&words))),
        }
    }
    Ok(format!("{bom}{root}"))
}

/// Removes takeback's entries from the text. Returns `None` if there are none.
pub(super) fn remove_servers(
    text: &str,
    mark: &CommandMark<'_>,
) -> Result<Option<String>, EditError> {
    let (bom, json) = split_bom(text);
    let root = parse_tree(json)?;
    let mut is_changed = false;
    let properties = root.object_value().map(|object| object.properties()).unwrap_or_default();
    for property in properties.into_iter().filter(|property| has_name(property, KEY)) {
        let Some(list) = property.object_value() else { continue };
        let own: Vec<CstObjectProp> =
            list.properties().into_iter().filter(|entry| is_own(entry, mark)).collect();
        is_changed |= !own.is_empty();
        let is_emptied = !own.is_empty() && own.len() == list.properties().len();
        own.into_iter().for_each(CstObjectProp::remove);
        if is_emptied {
            property.remove();
        }
    }
    Ok(is_changed.then(|| format!("{bom}{root}")))
}

/// True if an entry starts an agent through takeback. The user may have added other fields.
fn is_own(entry: &CstObjectProp, mark: &CommandMark<'_>) -> bool {
    let value = entry.value().map(|value| node_value(&value)).unwrap_or_default();
    let program = value["command"].as_str().unwrap_or_default();
    let is_takeback = program == mark.program
        || Path::new(program).file_name().is_some_and(|name| name == "takeback");
    let words = value["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut rest = words.skip_while(|word| *word != "acp");
    is_takeback && rest.next() == Some("acp") && rest.next() == Some("--")
}

/// Updates the command of an entry in place, unless it is current.
fn update_command(entry: &CstObjectProp, words: &[&str]) {
    let Some(fields) = entry.object_value() else { return };
    let value = entry.value().map(|value| node_value(&value)).unwrap_or_default();
    if value["command"] == words[0] && value["args"] == json!(words[1..]) {
        return;
    }
    for (key, new) in [("command", text_value(words[0])), ("args", list_value(&words[1..]))] {
        match fields.get(key) {
            Some(field) => field.set_value(new),
            None => drop(fields.append(key, new)),
        }
    }
}

fn server_value(words: &[&str]) -> CstInputValue {
    CstInputValue::Object(vec![
        ("type".to_owned(), text_value("custom")),
        ("command".to_owned(), text_value(words[0])),
        ("args".to_owned(), list_value(&words[1..])),
    ])
}

fn text_value(text: &str) -> CstInputValue {
    CstInputValue::String(text.to_owned())
}

fn list_value(words: &[&str]) -> CstInputValue {
    CstInputValue::Array(words.iter().map(|word| text_value(word)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install::json_hooks::parse_value;
    use crate::wiring::AgentServer;

    const SERVERS: ServerEntries = ServerEntries {
        file: "settings.json",
        servers: &[AgentServer { name: "Mine (takeback)", command: &["my-agent", "--acp"] }],
    };
    const MARK: CommandMark<'_> = CommandMark { agent: "zed", program: "/x/tb" };

    fn add(text: &str, program: &[&str]) -> Result<String, EditError> {
        let words = program.iter().map(|word| (*word).to_owned()).collect();
        add_servers(text, &SERVERS, &Program::of_user(words), &MARK)
    }

    const SETTINGS: &str = "// mine\n{\n  \"theme\": \"One Dark\", // dark\n  \"agent_servers\": {\n    \"Other\": { \"type\": \"registry\" },\n  },\n}\n";

    #[test]
    fn the_users_own_settings_stay_and_removing_takeback_restores_the_rest() {
        let added = add(SETTINGS, &["/bin/takeback", "--home", "/h"]).unwrap();
        let value = parse_value(&added).unwrap();
        assert_eq!(
            value["agent_servers"]["Mine (takeback)"],
            json!({ "type": "custom", "command": "/bin/takeback", "args": ["--home", "/h", "acp", "--", "my-agent", "--acp"] })
        );
        assert!(added.contains("// mine") && added.contains("// dark"));
        assert_eq!(value["agent_servers"]["Other"]["type"], "registry");
        let removed = remove_servers(&added, &MARK).unwrap().unwrap();
        assert_eq!(parse_value(&removed).unwrap(), parse_value(SETTINGS).unwrap());
        assert_eq!(remove_servers(&removed, &MARK).unwrap(), None);
        let empty = remove_servers(&add("", &["takeback"]).unwrap(), &MARK).unwrap().unwrap();
        assert_eq!(parse_value(&empty).unwrap(), json!({}));
    }

    #[test]
    fn an_entry_is_updated_in_place_and_keeps_the_users_fields() {
        let added = add("{}", &["/old/takeback"]).unwrap();
        let with_env = added.replace("\"type\"", "\"env\": { \"A\": \"1\" }, \"type\"");
        let updated = add(&with_env, &["/x/tb"]).unwrap();
        let entry = parse_value(&updated).unwrap()["agent_servers"]["Mine (takeback)"].clone();
        assert_eq!((&entry["command"], &entry["env"]), (&json!("/x/tb"), &json!({ "A": "1" })));
        assert_eq!(add(&updated, &["/x/tb"]).unwrap(), updated);
    }

    #[test]
    fn entries_of_other_programs_are_not_changed() {
        let theirs = r#"{"agent_servers": {"Mine (takeback)": {"command": "mine"}, "b": {"command": "takeback", "args": ["rpc"]}}}"#;
        assert_eq!(add(theirs, &["takeback"]).unwrap(), theirs);
        assert_eq!(remove_servers(theirs, &MARK).unwrap(), None);
        for odd in
            [r#"{"agent_servers": []}"#, "[]", r#"{"agent_servers": {}, "agent_servers": {}}"#]
        {
            assert!(add(odd, &["takeback"]).is_err(), "{odd}");
        }
    }
}
