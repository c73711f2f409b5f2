//! The wiring of Goose: a plugin with hooks.

use serde_json::json;

use super::seal::unsealed_signature;
use super::{HOOK_TIMEOUT, Program, Wiring, pretty_json, text_file};

pub(crate) const WIRING: Wiring = Wiring {
    programs: &["goose"],
    env_var: None,
    user_directory: ".agents/plugins/takeback",
    project_directory: ".agents/plugins/takeback",
    parts: &[
        text_file("plugin.json", |_| plugin_manifest()),
        text_file("hooks/hooks.json", hook_file),
    ],
    off_switch: None,
    needs_review: false,
    next_step: None,
};

fn plugin_manifest() -> String {
    pretty_json(&json!({
        "name": "takeback",
        "version": env!("CARGO_PKG_VERSION"),
        "description": unsealed_signature("goose"),
    }))
}

/// Builds the hook file. The hooks have no matchers: a matcher must be a regular expression, and
/// Goose silently ignores a hook whose matcher is `*`.
fn hook_file(program: &Program) -> String {
    let events = [
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "PostToolUseFailure",
        "Stop",
        "SessionEnd",
    ];
    let hook = |event: &str| {
        let command = program.guarded_command(&format!("hook goose {event}"));
        json!([{ "hooks": [{ "type": "command", "command": command, "timeout": HOOK_TIMEOUT }] }])
    };
    let hooks: serde_json::Map<_, _> =
        events.iter().map(|event| ((*event).to_owned(), hook(event))).collect();
    pretty_json(&json!({ "description": unsealed_signature("goose"), "hooks": hooks }))
}
