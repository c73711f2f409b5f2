//! Building packages for agents that have plugins: the hooks and commands that `install` adds,
//! ready to publish.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::hook_entry::build_entries;
use crate::agent::Agent;
use crate::wiring::claude::answered_command;
use crate::wiring::gemini::slash_command;
use crate::wiring::seal::without_signature;
use crate::wiring::{Part, Program};

/// A file in a package.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct PackageFile {
    /// The path inside the package.
    pub path: PathBuf,
    pub content: String,
}

const DESCRIPTION: &str =
    "Takes back what an AI agent did, in your files and in its conversation, together";

/// Builds the package for an agent. Returns `None` for an agent that has no package.
pub fn build_package(agent: &Agent) -> Option<Vec<PackageFile>> {
    let plugin = json!({
        "name": "takeback",
        "version": env!("CARGO_PKG_VERSION"),
        "description": DESCRIPTION,
        "author": { "name": "takeback" },
    });
    let marketplace = |source: Value| {
        json!({
            "name": "takeback",
            "description": DESCRIPTION,
            "owner": { "name": "takeback" },
            "plugins": [{ "name": "takeback", "source": source, "description": DESCRIPTION }],
        })
    };
    let hooks = json!({ "hooks": shared_hooks(agent)? });
    let files = match agent.name {
        "claude" => vec![
            json_file(".claude-plugin/marketplace.json", &marketplace(json!("./takeback"))),
            json_file("takeback/.claude-plugin/plugin.json", &plugin),
            json_file("takeback/hooks/hooks.json", &hooks),
            text_file(
                "takeback/commands/rollback.md",
                &answered_command("takeback:rollback", "rollback"),
            ),
            text_file("takeback/commands/undo.md", &answered_command("takeback:undo", "undo")),
        ],
        "codex" => vec![
            json_file(
                ".agents/plugins/marketplace.json",
                &marketplace(json!({ "source": "local", "path": "./takeback" })),
            ),
            json_file("takeback/.codex-plugin/plugin.json", &plugin),
            json_file("takeback/hooks/hooks.json", &hooks),
        ],
        "gemini" => vec![
            json_file("gemini-extension.json", &plugin),
            json_file("hooks/hooks.json", &hooks),
            text_file("commands/rollback.toml", &slash_command(&Program::shared(), "rollback")),
            text_file("commands/undo.toml", &slash_command(&Program::shared(), "undo")),
        ],
        _ => return None,
    };
    Some(files)
}

/// Builds the hooks that `install` adds, but for shared use: they run the `takeback` in each user's
/// PATH.
fn shared_hooks(agent: &Agent) -> Option<Value> {
    let hooks = agent.wiring?.parts.iter().find_map(|part| match part {
        Part::Hooks(hooks) => Some(hooks),
        Part::OwnFile(_) | Part::Servers(_) => None,
    });
    let entries = build_entries(agent, hooks?, &Program::shared());
    let hooks = entries.iter().map(|entry| (entry.event.to_owned(), json!([entry.to_json()])));
    Some(Value::Object(hooks.collect::<Map<_, _>>()))
}

fn json_file(path: &str, content: &Value) -> PackageFile {
    text_file(path, &format!("{content:#}\n"))
}

/// Creates a file without takeback's signature. Only `takeback uninstall` needs the signature, and
/// packages are removed by the agent instead.
fn text_file(path: &str, content: &str) -> PackageFile {
    PackageFile { path: path.into(), content: without_signature(content) }
}
