//! Packages: the same hooks and commands for agents that have plugins, to be published.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::entry::entries;
use crate::files;
use crate::spec::Agent;
use crate::wiring::{Part, Program};

/// A file of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageFile {
    /// Where in the package.
    pub path: PathBuf,
    /// What is in it.
    pub content: String,
}

const DESCRIPTION: &str =
    "Takes back what an AI agent did: its files and its conversation, together";

/// The package for an agent; `None` if it has no plugins, or needs none.
pub fn package(agent: &Agent) -> Option<Vec<PackageFile>> {
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
    let hooks = json!({ "hooks": hooks(agent)? });
    let files = match agent.name {
        "claude" => vec![
            file(".claude-plugin/marketplace.json", &marketplace(json!("./takeback"))),
            file("takeback/.claude-plugin/plugin.json", &plugin),
            file("takeback/hooks/hooks.json", &hooks),
            text(
                "takeback/commands/rollback.md",
                &files::answered(agent.name, "takeback:rollback", "rollback"),
            ),
            text(
                "takeback/commands/undo.md",
                &files::answered(agent.name, "takeback:undo", "undo"),
            ),
        ],
        "codex" => vec![
            file(
                ".agents/plugins/marketplace.json",
                &marketplace(json!({ "source": "local", "path": "./takeback" })),
            ),
            file("takeback/.codex-plugin/plugin.json", &plugin),
            file("takeback/hooks/hooks.json", &hooks),
        ],
        "gemini" => vec![
            file("gemini-extension.json", &plugin),
            file("hooks/hooks.json", &hooks),
            text("commands/rollback.toml", &files::gemini(&Program::shared(), "rollback")),
            text("commands/undo.toml", &files::gemini(&Program::shared(), "undo")),
        ],
        _ => return None,
    };
    Some(files)
}

/// The hooks that `install` would write, for whoever has takeback.
fn hooks(agent: &Agent) -> Option<Value> {
    let wired = agent.wiring?.parts.iter().find_map(|part| match part {
        Part::Hooks(hooks) => Some(hooks),
        Part::Own(_) => None,
    });
    let entries = entries(agent, wired?, &Program::shared());
    let hooks = entries.iter().map(|entry| (entry.event.to_owned(), json!([entry.value()])));
    Some(Value::Object(hooks.collect::<Map<_, _>>()))
}

fn file(path: &str, content: &Value) -> PackageFile {
    text(path, &format!("{content:#}\n"))
}

fn text(path: &str, content: &str) -> PackageFile {
    // A package is removed as it was added.
    PackageFile { path: path.into(), content: files::unsigned(content) }
}
