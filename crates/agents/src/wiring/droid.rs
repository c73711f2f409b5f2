//! The wiring of Droid: hooks in settings.json, and two scripts that serve as commands.

use super::seal::unsealed_signature;
use super::slash_file::SHOW_OUTPUT;
use super::{
    CLAUDE_HOOKS, EntryFormat, HookEntries, OffSwitch, Part, Program, Wiring, script_file,
};

pub(crate) const WIRING: Wiring = Wiring {
    programs: &["droid"],
    env_var: Some(("FACTORY_HOME_OVERRIDE", ".factory")),
    user_directory: ".factory",
    project_directory: ".factory",
    parts: &[
        Part::Hooks(HookEntries {
            file: "settings.json",
            toml_file: None,
            format: EntryFormat::Seconds,
            events: CLAUDE_HOOKS,
            timeouts: &[],
        }),
        script_file("commands/rollback", |program| slash_script(program, "rollback")),
        script_file("commands/undo", |program| slash_script(program, "undo")),
    ],
    off_switch: Some(OffSwitch {
        file: "settings.json",
        pointer: "/hooksDisabled",
        off_value: true,
    }),
    needs_review: false,
    next_step: None,
};

/// Builds a command file. Droid runs it as a script and uses its output as the prompt.
fn slash_script(program: &Program, command: &str) -> String {
    let run = program.shell_command(&format!("slash {command} \"$@\""));
    format!(
        "#!/bin/sh\n# {}\necho '{SHOW_OUTPUT}'\necho\necho -----\n{run} 2>&1\necho -----\n",
        unsealed_signature("droid")
    )
}
