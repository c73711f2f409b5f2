//! Determining whether takeback's hooks still run with a new version of a settings file.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::parse_config;
use crate::agent_table::AGENTS;

/// True if a new version of a settings file keeps all of takeback's entries, and does not disable
/// hooks that are enabled in the present version.
pub(super) fn keeps_hooks(path: &Path, present: &str, new: &str) -> bool {
    let Ok(present) = parse_config(path, present) else { return !present.contains("takeback") };
    // An agent cannot run hooks from a file that cannot be parsed.
    let new = parse_config(path, new).unwrap_or_default();
    let is_switched_off = has_off_switch(path, &new) && !has_off_switch(path, &present);
    list_entries(&present).is_subset(&list_entries(&new)) && !is_switched_off
}

/// Lists the strings that contain `takeback`, each with the path of keys that leads to it. Comments
/// are ignored.
fn list_entries(value: &Value) -> BTreeSet<(Vec<&str>, &str)> {
    let mut entries = BTreeSet::new();
    let mut waiting = vec![(Vec::new(), value)];
    while let Some((keys, value)) = waiting.pop() {
        match value {
            Value::Object(fields) => waiting.extend(
                fields.iter().map(|(key, value)| ([&keys[..], &[key.as_str()]].concat(), value)),
            ),
            Value::Array(values) => {
                waiting.extend(values.iter().map(|value| (keys.clone(), value)));
            }
            Value::String(text) if text.contains("takeback") => {
                entries.insert((keys, text.as_str()));
            }
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    entries
}

/// True if a setting in the file disables all hooks of an agent.
fn has_off_switch(path: &Path, value: &Value) -> bool {
    let switches = AGENTS.iter().filter_map(|agent| agent.wiring?.off_switch);
    let mut here = switches.filter(|switch| path.ends_with(switch.file));
    here.any(|switch| {
        let found = value.pointer(switch.pointer).and_then(Value::as_bool);
        found == Some(switch.off_value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_kept_only_where_the_agent_reads_it() {
        let keeps = |new: &str| {
            let present = r#"{"hooks": {"Stop": [{"command": "takeback hook claude"}]}}"#;
            keeps_hooks(Path::new("/x/settings.json"), present, new)
        };
        assert!(keeps(
            r#"{"a": 1, "hooks": {"Stop": [{"b": 2}, {"command": "takeback hook claude"}]}}"#
        ));
        for new in [
            "{}",
            "{",
            r#"{"hooks": {"Stop": []}} // takeback hook claude"#,
            r#"{"hooks": {"Stop": []}, "note": "takeback hook claude"}"#,
            r#"{"hooks": {"Start": [{"command": "takeback hook claude"}]}}"#,
            r#"{"hooks": {"Stop": [{"command": "true # takeback hook claude"}]}}"#,
            r#"{"hooks": {"Stop": [{"command": "takeback hook claude"}]}, "disableAllHooks": true}"#,
        ] {
            assert!(!keeps(new), "{new}");
        }
    }

    #[test]
    fn a_comment_in_toml_is_not_an_entry() {
        let keeps = |new: &str| {
            let present = "[[hooks.Stop]]\ncommand = \"takeback hook codex\"\n";
            keeps_hooks(Path::new("/x/config.toml"), present, new)
        };
        assert!(keeps("model = 1\n[[hooks.Stop]]\ncommand = 'takeback hook codex'\n"));
        assert!(!keeps("# takeback hook codex\n[[hooks.Stop]]\ncommand = 'true'\n"));
    }
}
