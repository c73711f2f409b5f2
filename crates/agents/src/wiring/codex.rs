//! The wiring of Codex: hooks in hooks.json, or in config.toml if the user has hooks there.

use super::{CLAUDE_HOOKS, EntryFormat, HookEntries, OffSwitch, Part, Wiring};

pub(crate) const WIRING: Wiring = Wiring {
    programs: &["codex"],
    env_var: Some(("CODEX_HOME", "")),
    user_directory: ".codex",
    project_directory: ".codex",
    parts: &[Part::Hooks(HookEntries {
        file: "hooks.json",
        toml_file: Some("config.toml"),
        format: EntryFormat::Seconds,
        events: CLAUDE_HOOKS,
        timeouts: &[("SessionEnd", 3)],
    })],
    off_switch: Some(OffSwitch {
        file: "config.toml",
        pointer: "/features/hooks",
        off_value: false,
    }),
    needs_review: true,
    next_step: Some(
        "Codex silently skips hooks that you have not reviewed: start codex, type /hooks and trust \
         takeback's hooks.",
    ),
};
