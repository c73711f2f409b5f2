//! The wiring of Zed: entries for agents that Zed starts through `takeback acp`.

use super::{AgentServer, Part, ServerEntries, Wiring};

pub(crate) const WIRING: Wiring = Wiring {
    programs: &["zed", "zeditor", "zedit"],
    env_var: Some(("XDG_CONFIG_HOME", "zed")),
    user_directory: ".config/zed",
    project_directory: ".zed",
    parts: &[Part::Servers(ServerEntries {
        file: "settings.json",
        servers: &[
            AgentServer {
                name: "Claude Code (takeback)",
                command: &["npx", "-y", "@agentclientprotocol/claude-agent-acp"],
            },
            AgentServer {
                name: "Codex (takeback)",
                command: &["npx", "-y", "@agentclientprotocol/codex-acp"],
            },
            AgentServer { name: "Gemini CLI (takeback)", command: &["gemini", "--acp"] },
        ],
    })],
    off_switch: None,
    needs_review: false,
    next_step: Some(
        "In Zed's agent panel, start a thread with one of the agents named (takeback).",
    ),
};
