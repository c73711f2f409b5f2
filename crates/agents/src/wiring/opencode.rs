//! The wiring of opencode: a plugin.

use super::{Wiring, plugin_source, text_file};

pub(crate) const WIRING: Wiring = Wiring {
    programs: &["opencode"],
    env_var: Some(("XDG_CONFIG_HOME", "opencode")),
    user_directory: ".config/opencode",
    project_directory: ".opencode",
    parts: &[text_file("plugins/takeback.js", |program| {
        plugin_source(program, "opencode", include_str!("../../plugins/opencode.js"))
    })],
    off_switch: None,
    needs_review: false,
    next_step: Some(
        "The next start of opencode may take a minute: it downloads its plugin library once.",
    ),
};
