//! The wiring of Cursor: hooks in hooks.json.

use super::{EntryFormat, HookEntries, Part, Wiring};

pub(crate) const WIRING: Wiring = Wiring {
    programs: &["cursor", "cursor-agent"],
    env_var: None,
    user_directory: ".cursor",
    project_directory: ".cursor",
    parts: &[Part::Hooks(HookEntries {
        file: "hooks.json",
        toml_file: None,
        format: EntryFormat::Plain,
        events: &[
            "sessionStart",
            "beforeSubmitPrompt",
            "preToolUse",
            "postToolUse",
            "postToolUseFailure",
            "stop",
            "sessionEnd",
        ],
        timeouts: &[],
    })],
    off_switch: None,
    needs_review: false,
    next_step: None,
};
