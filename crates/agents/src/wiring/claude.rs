//! The wiring of Claude Code: hooks in settings.json, and two command files.

use super::seal::unsealed_signature;
use super::slash_file::{argument_hint, command_description};
use super::{EntryFormat, HookEntries, OffSwitch, Part, Wiring, text_file};

pub(crate) const WIRING: Wiring = Wiring {
    programs: &["claude"],
    env_var: Some(("CLAUDE_CONFIG_DIR", "")),
    user_directory: ".claude",
    project_directory: ".claude",
    parts: &[
        Part::Hooks(HookEntries {
            file: "settings.json",
            toml_file: None,
            format: EntryFormat::Seconds,
            events: &[
                "SessionStart",
                "UserPromptSubmit",
                "UserPromptExpansion",
                "PreToolUse",
                "PostToolUse",
                "PostToolUseFailure",
                "Stop",
                "SubagentStart",
                "SubagentStop",
                "SessionEnd",
            ],
            timeouts: &[],
        }),
        text_file("commands/rollback.md", |_| answered_command("rollback", "rollback")),
        // Claude Code has its own /undo, which is an alias for /rewind.
        text_file("commands/takeback-undo.md", |_| answered_command("takeback-undo", "undo")),
    ],
    off_switch: Some(OffSwitch {
        file: "settings.json",
        pointer: "/disableAllHooks",
        off_value: true,
    }),
    needs_review: false,
    next_step: None,
};

/// Builds a command file. The hook answers the command before the model sees the file's text, so
/// the model reads the text only if the hook did not run.
pub(crate) fn answered_command(name: &str, command: &str) -> String {
    format!(
        "---\ndescription: {}\nargument-hint: \"{}\"\ndisable-model-invocation: true\n---\n\
         <!-- {} -->\n\
         takeback's hook did not answer `/{name} $ARGUMENTS`. Tell the user to run `takeback doctor`, \
         and do nothing else.\n",
        command_description(command),
        argument_hint(command),
        unsealed_signature("claude")
    )
}
