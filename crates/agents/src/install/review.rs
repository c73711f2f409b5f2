//! Whether Codex's user has reviewed our hooks: it runs no others, and says nothing.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::entry::Mark;
use super::plan::path_of;
use super::record::digest;
use super::{For, InstallError, Installer, is_toml, json, read_text, toml};
use crate::spec::Agent;
use crate::wiring::{Hooks, Part};

/// How many of our hooks were reviewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Review {
    /// Those that the agent runs.
    pub reviewed: usize,
    /// All of them.
    pub all: usize,
}

impl Installer<'_> {
    /// Whether the user has reviewed our hooks; `None` for an agent that does not ask for it.
    pub fn review(&self, agent: &Agent, whom: &For) -> Result<Option<Review>, InstallError> {
        let Some(wiring) = agent.wiring.filter(|wiring| wiring.is_reviewed) else {
            return Ok(None);
        };
        let hooks = wiring.parts.iter().find_map(|part| match part {
            Part::Hooks(hooks) => Some(hooks),
            Part::Own(_) => None,
        });
        let (Some(hooks), Some(directory)) = (hooks, self.directory(agent, whom)) else {
            return Ok(None);
        };
        // What was reviewed is in the user's configuration, whoever the hooks are for.
        let Some(user) = self.directory(agent, &For::User) else { return Ok(None) };
        Ok(Some(review(&self.mark(agent), hooks, &directory, &user.join("config.toml"))?))
    }
}

fn review(
    mark: &Mark<'_>,
    hooks: &Hooks,
    directory: &Path,
    config: &Path,
) -> Result<Review, InstallError> {
    let path = path_of(hooks, directory)?;
    let text = read_text(&path)?.unwrap_or_default();
    let all = match is_toml(&path) {
        true => toml::value(&text),
        false => json::value_of(&text),
    };
    let all = all.map_err(InstallError::unreadable(&path))?;
    let trusted = trusted(config)?;
    let path = fs::canonicalize(&path).unwrap_or(path);
    let mut review = Review { reviewed: 0, all: 0 };
    let none = Map::new();
    for (event, groups) in all["hooks"].as_object().unwrap_or(&none) {
        let event = snake(event);
        for (group_at, group) in groups.as_array().into_iter().flatten().enumerate() {
            let commands = group["hooks"].as_array().into_iter().flatten().enumerate();
            for (at, command) in commands.filter(|(_, command)| mark.is_in(command)) {
                let key = format!("{}:{event}:{group_at}:{at}", path.display());
                let hash = trusted.get(&key).and_then(Value::as_str);
                review.all += 1;
                review.reviewed += usize::from(hash == Some(&hash_of(&event, group, command)));
            }
        }
    }
    Ok(review)
}

/// What was reviewed: keys and hashes.
fn trusted(config: &Path) -> Result<Map<String, Value>, InstallError> {
    let text = read_text(config)?.unwrap_or_default();
    let all = toml::value(&text).map_err(InstallError::unreadable(config))?;
    let state = all["hooks"]["state"].as_object().cloned().unwrap_or_default();
    Ok(state.into_iter().map(|(key, mut value)| (key, value["trusted_hash"].take())).collect())
}

/// What Codex calls a hook: what it is, with its keys in order.
fn hash_of(event: &str, group: &Value, command: &Value) -> String {
    let mut command = json!({
        "async": command["async"].as_bool().unwrap_or(false),
        "command": command["command"],
        "timeout": command["timeout"],
        "type": command["type"],
    });
    if event == "session_end" {
        command["timeout"] = json!(command["timeout"].as_u64().map(|seconds| seconds.min(3)));
    }
    let mut hook = json!({ "event_name": event, "hooks": [command] });
    let has_matcher = !matches!(event, "user_prompt_submit" | "stop");
    if let Some(matcher) = group.get("matcher").filter(|_| has_matcher) {
        hook["matcher"] = matcher.clone();
    }
    format!("sha256:{}", digest(hook.to_string().as_bytes()))
}

/// `PreToolUse` → `pre_tool_use`
fn snake(event: &str) -> String {
    let mut out = String::new();
    for character in event.chars() {
        if character.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(character.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Codex 0.166 itself says of hooks of ours.
    const HASHES: [(&str, &str); 8] = [
        ("pre_tool_use", "sha256:23e791103f838e09ce1aa3f0d0eddd599dcdfc07ee87ed90c997296976430bbf"),
        (
            "post_tool_use",
            "sha256:8412403a8b7e7c5fc069e52ea942ae23fe25c27728091bc960d980d07bcb4b93",
        ),
        (
            "session_start",
            "sha256:e14d337f3a12975967ba0d36aa9f5d2ac636af7c4238ff8fcb2c2ee582f88ce7",
        ),
        ("session_end", "sha256:e74ba117caa5cfa91bf618e6ce99c312422ba1555120e8e2a5506984e7251ce5"),
        (
            "user_prompt_submit",
            "sha256:2a4bb4607b524cec66c632a75774f4a263507479cdaa8845c51e730efd8721c8",
        ),
        (
            "subagent_start",
            "sha256:38ea6c5a36597aecdeae0c6aae4336aeae2a4c7fb8817bca3953b294353a871e",
        ),
        (
            "subagent_stop",
            "sha256:58de70eddff61b77a6f0b9c9fdac5d17c4d8301dd1bb5f44491975a1b0c6e698",
        ),
        ("stop", "sha256:4bdc3e37508034a03952aab1127043ecfb2443160376f10a640886070f7d833e"),
    ];

    #[test]
    fn hooks_are_called_what_codex_calls_them() {
        for (event, hash) in HASHES {
            let seconds = if event == "session_end" { 3 } else { 120 };
            let command = json!({ "type": "command", "command": "/usr/bin/takeback hook codex", "timeout": seconds });
            let mut group = json!({ "hooks": [command] });
            if event.contains("tool") {
                group["matcher"] = json!("*");
            }
            assert_eq!(hash_of(event, &group, &command), hash, "{event}");
        }
        assert_eq!(snake("UserPromptSubmit"), "user_prompt_submit");
    }
}
