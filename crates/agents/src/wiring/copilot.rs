//! The wiring of Copilot CLI: a separate hook file, and an extension with commands.

use serde_json::json;

use super::seal::unsealed_signature;
use super::{HOOK_TIMEOUT, Program, Wiring, plugin_source, pretty_json, text_file};

pub(crate) const WIRING: Wiring = Wiring {
    programs: &["copilot"],
    env_var: Some(("COPILOT_HOME", "")),
    user_directory: ".copilot",
    project_directory: ".github",
    parts: &[
        text_file("hooks/takeback.json", hook_file),
        text_file("extensions/takeback/extension.mjs", |program| {
            plugin_source(program, "copilot", include_str!("../../plugins/copilot.mjs"))
        }),
    ],
    off_switch: None,
    needs_review: false,
    next_step: Some(
        "For /rollback inside Copilot CLI, start `copilot --experimental` once: only then does it \
         load extensions.",
    ),
};

fn hook_file(program: &Program) -> String {
    let events = [
        "sessionStart",
        "userPromptSubmitted",
        "preToolUse",
        "postToolUse",
        "postToolUseFailure",
        "agentStop",
        "sessionEnd",
    ];
    let hook = |event: &str| {
        let command = program.guarded_command(&format!("hook copilot {event}"));
        json!([{ "type": "command", "bash": command, "timeoutSec": HOOK_TIMEOUT }])
    };
    let hooks: serde_json::Map<_, _> =
        events.iter().map(|event| ((*event).to_owned(), hook(event))).collect();
    let description = unsealed_signature("copilot");
    pretty_json(&json!({ "version": 1, "description": description, "hooks": hooks }))
}
