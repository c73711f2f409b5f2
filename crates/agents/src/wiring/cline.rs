//! The wiring of Cline: one script per event, named after the event, and a plugin with commands.

use super::seal::unsealed_signature;
use super::{Program, Wiring, plugin_source, script_file, text_file};

pub(crate) const WIRING: Wiring = Wiring {
    programs: &["cline"],
    env_var: Some(("CLINE_DIR", "")),
    user_directory: ".cline",
    project_directory: ".cline",
    parts: &[
        script_file("hooks/TaskStart.sh", |program| hook_script(program, "TaskStart")),
        script_file("hooks/TaskResume.sh", |program| hook_script(program, "TaskResume")),
        script_file("hooks/UserPromptSubmit.sh", |program| {
            hook_script(program, "UserPromptSubmit")
        }),
        script_file("hooks/PreToolUse.sh", |program| hook_script(program, "PreToolUse")),
        script_file("hooks/PostToolUse.sh", |program| hook_script(program, "PostToolUse")),
        script_file("hooks/TaskComplete.sh", |program| hook_script(program, "TaskComplete")),
        script_file("hooks/TaskCancel.sh", |program| hook_script(program, "TaskCancel")),
        text_file("plugins/takeback.js", |program| {
            plugin_source(program, "cline", include_str!("../../plugins/cline.js"))
        }),
    ],
    off_switch: None,
    needs_review: false,
    next_step: None,
};

/// Builds the script for an event. The script passes the event's name to takeback, because Cline's
/// payload has a different name for the event, or none.
fn hook_script(program: &Program, event: &str) -> String {
    let command = program.guarded_command(&format!("hook cline {event}"));
    format!("#!/bin/sh\n# {}\n{command}\n", unsealed_signature("cline"))
}
