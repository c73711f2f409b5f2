//! The wiring of pi: an extension.

use super::{Wiring, plugin_source, text_file};

pub(crate) const WIRING: Wiring = Wiring {
    programs: &["pi"],
    env_var: Some(("PI_CODING_AGENT_DIR", "")),
    user_directory: ".pi/agent",
    project_directory: ".pi",
    parts: &[text_file("extensions/takeback.ts", |program| {
        plugin_source(program, "pi", include_str!("../../plugins/pi.ts"))
    })],
    off_switch: None,
    needs_review: false,
    next_step: None,
};
