//! The wiring of Gemini CLI: hooks in settings.json, and two command files.

use super::seal::unsealed_signature;
use super::slash_file::{SHOW_OUTPUT, command_description};
use super::{EntryFormat, HookEntries, OffSwitch, Part, Program, Wiring, text_file};

pub(crate) const WIRING: Wiring = Wiring {
    programs: &["gemini"],
    env_var: Some(("GEMINI_CLI_HOME", ".gemini")),
    user_directory: ".gemini",
    project_directory: ".gemini",
    parts: &[
        Part::Hooks(HookEntries {
            file: "settings.json",
            toml_file: None,
            format: EntryFormat::Milliseconds,
            // PreCompress is left out, because Gemini CLI runs it before every request.
            events: &[
                "SessionStart",
                "BeforeAgent",
                "BeforeTool",
                "AfterTool",
                "AfterAgent",
                "SessionEnd",
            ],
            timeouts: &[],
        }),
        text_file("commands/rollback.toml", |program| slash_command(program, "rollback")),
        text_file("commands/undo.toml", |program| slash_command(program, "undo")),
    ],
    off_switch: Some(OffSwitch {
        file: "settings.json",
        pointer: "/hooksConfig/enabled",
        off_value: false,
    }),
    needs_review: false,
    next_step: None,
};

/// Builds a command file. Gemini CLI passes all arguments as one word.
pub(crate) fn slash_command(program: &Program, command: &str) -> String {
    let run = program.shell_command(&format!("slash {command} {{{{args}}}}"));
    let prompt = format!("{SHOW_OUTPUT}\n\n-----\n!{{{run}}}\n-----\n");
    let prompt = match prompt.contains("'''") {
        // A quoted path can contain `'''`, which would end the literal string.
        true => toml_edit::Value::from(prompt).to_string(),
        false => format!("'''\n{prompt}'''"),
    };
    format!(
        "# {}\ndescription = \"{}\"\nprompt = {prompt}\n",
        unsealed_signature("gemini"),
        command_description(command)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_file_is_valid_toml_for_every_install_path() {
        for path in ["/bin/takeback", "/it's/takeback", "/odd'''/\"takeback\"'", "/a\nb\\"] {
            let program = Program::of_user(vec![path.to_owned()]);
            let file = slash_command(&program, "undo");
            let parsed: toml_edit::DocumentMut = file.parse().unwrap();
            let prompt = parsed["prompt"].as_str().unwrap();
            let run = format!("!{{{}}}", program.shell_command("slash undo {{args}}"));
            assert!(prompt.contains(&run) && prompt.ends_with("-----\n"), "{prompt}");
        }
    }
}
