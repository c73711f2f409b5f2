//! Determining which of takeback's hooks the user has reviewed. Codex silently skips hooks that the
//! user has not reviewed.

use std::path::Path;

use serde_json::{Map, Value, json};
use takeback_base::paths::canonicalize_or_keep;

use super::hook_entry::CommandMark;
use super::plan::choose_hook_file;
use super::record::content_digest;
use super::{InstallError, InstallScope, Installer, parse_config, read_text};
use crate::agent::Agent;
use crate::wiring::{HookEntries, Part};

/// The number of takeback's hooks, and how many of them the user has reviewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct HookReview {
    pub reviewed: usize,
    pub total: usize,
}

impl Installer<'_> {
    /// Counts the hooks that the user has reviewed. Returns `None` for an agent that does not
    /// require a review.
    pub fn hook_review(
        &self,
        agent: &Agent,
        scope: &InstallScope,
    ) -> Result<Option<HookReview>, InstallError> {
        let Some(wiring) = agent.wiring.filter(|wiring| wiring.needs_review) else {
            return Ok(None);
        };
        let hooks = wiring.parts.iter().find_map(|part| match part {
            Part::Hooks(hooks) => Some(hooks),
            Part::OwnFile(_) | Part::Servers(_) => None,
        });
        let (Some(hooks), Some(directory)) = (hooks, self.config_directory(agent, scope)) else {
            return Ok(None);
        };
        // Codex stores reviews in the user's configuration, even for a project's hooks.
        let Some(user) = self.config_directory(agent, &InstallScope::User) else {
            return Ok(None);
        };
        let mark = self.command_mark(agent);
        Ok(Some(count_reviewed(&mark, hooks, &directory, &user.join("config.toml"))?))
    }
}

fn count_reviewed(
    mark: &CommandMark<'_>,
    hooks: &HookEntries,
    directory: &Path,
    config: &Path,
) -> Result<HookReview, InstallError> {
    let path = choose_hook_file(hooks, directory)?;
    let all = parse_config(&path, &read_text(&path)?.unwrap_or_default())?;
    let trusted = trusted_hashes(config)?;
    let path = canonicalize_or_keep(&path);
    let mut review = HookReview { reviewed: 0, total: 0 };
    let none = Map::new();
    for (event, groups) in all["hooks"].as_object().unwrap_or(&none) {
        let event = snake_case(event);
        for (group_index, group) in groups.as_array().into_iter().flatten().enumerate() {
            let commands = group["hooks"].as_array().into_iter().flatten().enumerate();
            for (index, command) in commands.filter(|(_, command)| mark.is_in(command)) {
                let key = format!("{}:{event}:{group_index}:{index}", path.display());
                let hash = trusted.get(&key).and_then(Value::as_str);
                let is_reviewed = hash == Some(&hook_hash(&event, group, command));
                review.total += 1;
                review.reviewed += usize::from(is_reviewed);
            }
        }
    }
    Ok(review)
}

/// Reads the hashes of the hooks that the user trusts. The keys of the map are Codex's identifiers
/// for the hooks.
fn trusted_hashes(config: &Path) -> Result<Map<String, Value>, InstallError> {
    let all = parse_config(config, &read_text(config)?.unwrap_or_default())?;
    let state = all["hooks"]["state"].as_object().cloned().unwrap_or_default();
    Ok(state.into_iter().map(|(key, mut value)| (key, value["trusted_hash"].take())).collect())
}

/// Computes Codex's hash of a hook: a digest of the hook as JSON with sorted keys.
fn hook_hash(event: &str, group: &Value, command: &Value) -> String {
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
    format!("sha256:{}", content_digest(hook.to_string().as_bytes()))
}

/// Converts `PreToolUse` to `pre_tool_use`.
fn snake_case(event: &str) -> String {
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

    /// The hashes that Codex 0.166 computes for takeback's hooks.
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
    fn hashes_match_those_of_codex() {
        for (event, hash) in HASHES {
            let seconds = if event == "session_end" { 3 } else { 120 };
            let command = json!({ "type": "command", "command": "/usr/bin/takeback hook codex", "timeout": seconds });
            let mut group = json!({ "hooks": [command] });
            if event.contains("tool") {
                group["matcher"] = json!("*");
            }
            assert_eq!(hook_hash(event, &group, &command), hash, "{event}");
        }
        assert_eq!(snake_case("UserPromptSubmit"), "user_prompt_submit");
    }
}
