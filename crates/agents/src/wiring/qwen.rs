//! The wiring of Qwen Code: hooks in settings.json, and two command files.

use super::seal::unsealed_signature;
use super::slash_file::{SHOW_OUTPUT, command_description};
use super::{CLAUDE_HOOKS, EntryFormat, HookEntries, OffSwitch, Part, Program, Wiring, text_file};

pub(crate) const WIRING: Wiring = Wiring {
    programs: &["qwen"],
    env_var: Some(("QWEN_HOME", "")),
    user_directory: ".qwen",
    project_directory: ".qwen",
    parts: &[
        Part::Hooks(HookEntries {
            file: "settings.json",
            toml_file: None,
            format: EntryFormat::Milliseconds,
            events: CLAUDE_HOOKS,
            timeouts: &[],
        }),
        // Qwen Code has its own /rollback, which is an alias for /rewind.
        text_file("commands/takeback-rollback.md", |program| slash_command(program, "rollback")),
        text_file("commands/takeback-undo.md", |program| slash_command(program, "undo")),
    ],
    off_switch: Some(OffSwitch {
        file: "settings.json",
        pointer: "/disableAllHooks",
        off_value: true,
    }),
    needs_review: false,
    next_step: None,
};

/// Builds a command file. Qwen Code replaces the shell command in it with the command's output.
fn slash_command(program: &Program, command: &str) -> String {
    let run = program.shell_command(&format!("slash {command} {{{{args}}}}"));
    format!(
        "---\ndescription: {}\n---\n<!-- {} -->\n{SHOW_OUTPUT}\n\n-----\n!{{{run}}}\n-----\n",
        command_description(command),
        unsealed_signature("qwen")
    )
}
