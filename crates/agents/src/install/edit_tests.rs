//! Tests of editing hooks in JSON and TOML files.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::hook_entry::{CommandMark, Field, HookEntry};
use super::{json_hooks, toml_hooks};

const MARK: CommandMark<'_> = CommandMark { agent: "claude", program: "takeback" };

fn claude_entry(event: &'static str, program: &str) -> HookEntry {
    HookEntry {
        event,
        matcher: event.contains("Tool").then_some("*"),
        hook: vec![
            ("type", Field::Text("command".into())),
            ("command", Field::Text(format!("{program} hook claude"))),
            ("timeout", Field::Number(120)),
        ],
        is_nested: true,
        version: None,
    }
}

fn new_entries() -> Vec<HookEntry> {
    vec![claude_entry("PreToolUse", "/bin/takeback"), claude_entry("Stop", "/bin/takeback")]
}

fn add_new_entries(text: &str) -> String {
    json_hooks::add_entries(text, &new_entries(), &MARK).unwrap()
}

fn parse_value(text: &str) -> Value {
    let root = jsonc_parser::cst::CstRootNode::parse(text, &jsonc_parser::ParseOptions::default());
    root.unwrap().to_serde_value().unwrap()
}

#[test]
fn the_users_settings_and_comments_stay() {
    let text = "{\n    // mine\n    \"model\": \"opus\", /* why */\n    \"hooks\": {\n        \
                \"Stop\": [\n            {\"hooks\": [{\"type\": \"command\", \"command\": \
                \"bell\"}]} // ring\n        ],\n    },\n}\n";
    let edited = add_new_entries(text);
    for line in ["    // mine\n", "    \"model\": \"opus\", /* why */\n", "// ring"] {
        assert!(edited.contains(line), "{edited}");
    }
    assert_eq!(parse_value(&edited)["hooks"]["Stop"].as_array().unwrap().len(), 2);
    assert_eq!(parse_value(&edited)["hooks"]["PreToolUse"][0], new_entries()[0].to_json());
    let removed = json_hooks::remove_entries(&edited, &MARK).unwrap().unwrap();
    assert_eq!(parse_value(&removed), parse_value(text));
    assert!(removed.contains("// mine") && removed.contains("// ring"));
}

#[test]
fn a_new_file_is_indented() {
    assert_eq!(
        json_hooks::add_entries("", &[claude_entry("Stop", "takeback")], &MARK).unwrap(),
        "{\n  \"hooks\": {\n    \"Stop\": [\n      {\n        \"hooks\": [\n          {\n            \
         \"type\": \"command\",\n            \"command\": \"takeback hook claude\",\n            \
         \"timeout\": 120\n          }\n        ]\n      }\n    ]\n  }\n}\n"
    );
}

#[test]
fn an_older_entry_is_updated_in_place() {
    let old = json!({ "hooks": {
        "PreToolUse": [
            { "matcher": "Bash", "hooks": [{ "command": "/old/takeback hook claude" }] },
            { "hooks": [{ "command": "lint" }] },
            { "hooks": [{ "command": "/older/takeback hook claude" }] },
        ],
        "Gone": [{ "hooks": [{ "command": "/old/takeback hook claude" }] }],
    }});
    let new = parse_value(&add_new_entries(&old.to_string()));
    let list = new["hooks"]["PreToolUse"].as_array().unwrap();
    assert_eq!((list.len(), &list[0]), (2, &new_entries()[0].to_json()));
    assert_eq!(list[1]["hooks"][0]["command"], "lint");
    assert_eq!(new["hooks"].get("Gone"), None);
}

#[test]
fn a_group_keeps_the_users_command() {
    let ours = json!({ "command": "takeback hook claude" });
    let shared = json!({ "hooks": { "Stop": [{ "hooks": [{ "command": "bell" }, ours] }] } });
    let edited = add_new_entries(&shared.to_string());
    let list = parse_value(&edited)["hooks"]["Stop"].clone();
    assert_eq!(list[0], json!({ "hooks": [{ "command": "bell" }] }));
    assert_eq!(list[1], new_entries()[1].to_json());
    let removed = json_hooks::remove_entries(&shared.to_string(), &MARK).unwrap().unwrap();
    assert_eq!(
        parse_value(&removed)["hooks"]["Stop"],
        json!([{ "hooks": [{ "command": "bell" }] }])
    );
}

#[test]
fn a_byte_order_mark_and_line_endings_are_kept() {
    let text = "\u{feff}{\r\n\t\"a\": 1\r\n}\r\n";
    let edited = add_new_entries(text);
    assert!(edited.starts_with("\u{feff}{\r\n\t\"a\": 1,\r\n\t\"hooks\": {\r\n"), "{edited:?}");
    assert!(!edited.replace("\r\n", "").contains('\n'));
    assert_eq!(json_hooks::remove_entries(&edited, &MARK).unwrap().unwrap(), text);
}

#[test]
fn text_that_cannot_be_parsed_is_an_error() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for text in [
        "[]",
        "7",
        "{",
        "{\"hooks\": []}",
        "{\"hooks\": {\"Stop\": {}}}",
        "{'a': 1}",
        "{} {}",
        "{\"a\": 1 \"b\": 2}",
        &deep,
    ] {
        assert!(json_hooks::add_entries(text, &new_entries(), &MARK).is_err(), "{text:.40}");
    }
    for text in ["=", "hooks = 1", "[hooks]\nStop = 1", "a = 1\na = 2"] {
        assert!(toml_hooks::add_entries(text, &new_entries(), &MARK).is_err(), "{text}");
    }
}

#[test]
fn toml_entries_are_added_and_removed() {
    let text = "# mine\nmodel = \"o3\"   # why\n\n[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = \
                \"command\"\ncommand = \"bell\"\n\n[hooks.state.x]\ntrusted_hash = \"1\"\n";
    assert!(toml_hooks::has_hooks(text) && !toml_hooks::has_hooks("[hooks.state.x]\na = 1\n"));
    let edited = toml_hooks::add_entries(text, &new_entries(), &MARK).unwrap();
    assert!(edited.starts_with("# mine\nmodel = \"o3\"   # why\n"), "{edited}");
    assert!(edited.contains("[hooks.state.x]\ntrusted_hash = \"1\"\n"));
    assert_eq!(toml_hooks::add_entries(&edited, &new_entries(), &MARK).unwrap(), edited);
    let parsed: ::toml_edit::DocumentMut = edited.parse().unwrap();
    assert_eq!(parsed["hooks"]["Stop"].as_array_of_tables().unwrap().len(), 2);
    let commands = parsed["hooks"]["PreToolUse"][0]["hooks"][0]["command"].as_str();
    assert_eq!(commands, Some("/bin/takeback hook claude"));
    assert_eq!(toml_hooks::remove_entries(&edited, &MARK).unwrap().unwrap(), text);
    assert_eq!(toml_hooks::remove_entries(text, &MARK).unwrap(), None);
}

/// Generates all kinds of settings, with other programs' hooks and old takeback hooks.
fn any_settings() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[ -~é\n\"\\\\]{0,8}".prop_map(Value::from),
    ];
    let anything = leaf.prop_recursive(3, 16, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from);
        let object = prop::collection::btree_map("[a-z]{1,3}", inner, 0..4);
        prop_oneof![list, object.prop_map(|fields| fields.into_iter().collect())]
    });
    let command =
        prop_oneof![Just("lint"), Just("takeback hook codex"), Just("/old/takeback hook claude"),];
    let hook = command.prop_map(|command| json!({ "type": "command", "command": command }));
    let group = prop::collection::vec(hook, 1..3).prop_map(|hooks| json!({ "hooks": hooks }));
    let groups = prop::collection::vec(group, 1..3).prop_map(Value::from);
    let event = prop_oneof![Just("Stop"), Just("PreToolUse"), Just("Other")];
    let hooks = prop::collection::btree_map(event.prop_map(String::from), groups, 1..3);
    let rest = prop::collection::btree_map("[a-g]{1,3}", anything, 0..4);
    (rest, prop::option::of(hooks)).prop_map(|(rest, hooks)| {
        let mut all: serde_json::Map<String, Value> = rest.into_iter().collect();
        all.extend(hooks.map(|hooks| ("hooks".to_owned(), hooks.into_iter().collect())));
        Value::Object(all)
    })
}

/// Removes takeback's entries from parsed settings. Editing the text must have the same result.
fn without_own_entries(mut settings: Value) -> Value {
    let is_ours =
        |hook: &Value| hook["command"].as_str().unwrap().ends_with("takeback hook claude");
    let Some(hooks) = settings.get_mut("hooks").and_then(Value::as_object_mut) else {
        return settings;
    };
    for groups in hooks.values_mut() {
        let groups = groups.as_array_mut().unwrap();
        groups.iter_mut().for_each(|group| {
            group["hooks"].as_array_mut().unwrap().retain(|hook| !is_ours(hook));
        });
        groups.retain(|group| !group["hooks"].as_array().unwrap().is_empty());
    }
    hooks.retain(|_, groups| !groups.as_array().unwrap().is_empty());
    if hooks.is_empty() {
        settings.as_object_mut().unwrap().remove("hooks");
    }
    settings
}

proptest! {
    #[test]
    fn adding_and_removing_keeps_everything_else(settings in any_settings(), spaces in 0..3usize) {
        let text = match spaces {
            0 => settings.to_string(),
            1 => format!("{settings:#}\n"),
            _ => format!("// mine\n{settings:#}").replace('\n', "\r\n"),
        };
        let once = add_new_entries(&text);
        prop_assert_eq!(&add_new_entries(&once), &once);
        let parsed = parse_value(&once);
        for entry in new_entries() {
            let list = parsed["hooks"][entry.event].as_array().unwrap();
            let ours = list.iter().filter(|group| MARK.is_in(group)).collect::<Vec<_>>();
            prop_assert_eq!(ours, [&entry.to_json()]);
        }
        let expected = without_own_entries(settings.clone());
        prop_assert_eq!(without_own_entries(parsed), expected.clone());
        let removed = json_hooks::remove_entries(&once, &MARK).unwrap().unwrap();
        prop_assert_eq!(parse_value(&removed), expected);
        if without_own_entries(settings.clone()) == settings && spaces > 0 && settings != json!({}) {
            prop_assert_eq!(removed, text);
        }
    }

    #[test]
    fn no_text_makes_an_edit_panic(text in "[\\[\\]{}\":,a-z0-9 \n/*=#.]{0,80}") {
        for edited in [json_hooks::add_entries(&text, &new_entries(), &MARK), toml_hooks::add_entries(&text, &new_entries(), &MARK)] {
            drop(edited);
        }
        let _ = (json_hooks::remove_entries(&text, &MARK), toml_hooks::remove_entries(&text, &MARK));
    }
}
