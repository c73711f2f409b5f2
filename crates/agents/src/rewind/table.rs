//! The ways in which the agents' own conversations are taken back, a row per agent.

use super::{Rewind, Way, chain, cline, codex, copilot, droid, gemini, pi};

/// The ways of all agents.
pub const REWINDS: &[Rewind] = &[
    Rewind {
        agent: "claude",
        way: Way::Files(chain::cut_claude),
        program: "claude",
        continue_with: &["--resume", "{}"],
        typed: Some("/resume {}"),
        may_delete_logs: false,
    },
    Rewind {
        agent: "codex",
        way: Way::Files(codex::cut),
        program: "codex",
        continue_with: &["resume", "{}"],
        typed: Some("/resume {}"),
        may_delete_logs: false,
    },
    Rewind {
        agent: "gemini",
        way: Way::Files(gemini::cut),
        program: "gemini",
        continue_with: &["--session-file", "{file}"],
        typed: None,
        may_delete_logs: true,
    },
    Rewind {
        agent: "opencode",
        way: Way::Import,
        program: "opencode",
        continue_with: &["-s", "{}"],
        typed: None,
        may_delete_logs: false,
    },
    Rewind {
        agent: "qwen",
        way: Way::Files(chain::cut_qwen),
        program: "qwen",
        continue_with: &["--resume", "{}"],
        typed: Some("/resume {}"),
        may_delete_logs: false,
    },
    Rewind {
        agent: "copilot",
        way: Way::Files(copilot::cut),
        program: "copilot",
        continue_with: &["--resume={}"],
        typed: Some("/resume {}"),
        may_delete_logs: false,
    },
    Rewind {
        agent: "droid",
        way: Way::Files(droid::cut),
        program: "droid",
        continue_with: &["--resume", "{}"],
        typed: None,
        may_delete_logs: false,
    },
    Rewind {
        agent: "cline",
        way: Way::Files(cline::cut),
        program: "cline",
        continue_with: &["-i", "--id", "{}"],
        typed: None,
        may_delete_logs: false,
    },
    Rewind {
        agent: "pi",
        way: Way::Files(pi::cut),
        program: "pi",
        continue_with: &["--session", "{}"],
        typed: None,
        may_delete_logs: false,
    },
];
