//! The agent table: one row per agent.

use crate::agent::{Agent, HeadlessSign, NoticeFormat, Refusal, Signal, WarningFormat};
use crate::payload::{
    claude, cline, codex, copilot, cursor, droid, gemini, generic, goose, opencode, pi, qwen,
};
use crate::{known_tools, wiring};

/// All agents that takeback supports.
pub const AGENTS: &[Agent] = &[
    Agent {
        name: "generic",
        title: "any agent that sends takeback's own format",
        acp_names: &[],
        proven: true,
        events: GENERIC_EVENTS,
        tools: None,
        notice_format: NoticeFormat::None,
        notice_events: &[],
        warning_format: WarningFormat::None,
        resume: None,
        refusal: Refusal::Code(1),
        answer_events: &[],
        headless_sign: None,
        limitations: &[],
        wiring: None,
        event_keys: &["event"],
        read_payload: generic::read_payload,
    },
    Agent {
        name: "claude",
        title: "Claude Code",
        acp_names: &[
            "@agentclientprotocol/claude-agent-acp",
            "@zed-industries/claude-agent-acp",
            "@zed-industries/claude-code-acp",
            "claude-agent-acp",
            "claude-code-acp",
        ],
        proven: true,
        events: CLAUDE_EVENTS,
        tools: Some(known_tools::CLAUDE),
        notice_format: NoticeFormat::HookSpecificOutput,
        // Stop is left out, because output from a Stop hook makes Claude Code call its model again.
        notice_events: &["UserPromptSubmit", "PostToolUse"],
        warning_format: WarningFormat::SystemMessage,
        resume: Some(
            "`claude --resume {} --fork-session`, then press Esc twice and choose the prompt",
        ),
        refusal: Refusal::Code(2),
        answer_events: &["UserPromptSubmit", "UserPromptExpansion"],
        headless_sign: Some(HeadlessSign::Variable {
            name: "CLAUDE_CODE_ENTRYPOINT",
            begins: "sdk-",
        }),
        limitations: &["commands you run with ! are not reported"],
        wiring: Some(&wiring::claude::WIRING),
        event_keys: &["hook_event_name"],
        read_payload: claude::read_payload,
    },
    Agent {
        name: "codex",
        title: "Codex",
        acp_names: &["@agentclientprotocol/codex-acp", "@zed-industries/codex-acp", "codex-acp"],
        proven: true,
        events: CLAUDE_EVENTS,
        tools: Some(known_tools::CODEX),
        notice_format: NoticeFormat::HookSpecificOutput,
        notice_events: &["UserPromptSubmit", "PostToolUse"],
        warning_format: WarningFormat::SystemMessage,
        resume: Some("`codex fork {}`, then press Esc twice and choose the prompt"),
        refusal: Refusal::Code(2),
        answer_events: &["UserPromptSubmit"],
        headless_sign: Some(HeadlessSign::Log { contains: "\"originator\":\"codex_exec\"" }),
        limitations: &["in its terminal, type `takeback rollback` instead of /rollback"],
        wiring: Some(&wiring::codex::WIRING),
        event_keys: &["hook_event_name"],
        read_payload: codex::read_payload,
    },
    Agent {
        name: "gemini",
        title: "Gemini CLI",
        acp_names: &["gemini", "gemini-cli", "@google/gemini-cli"],
        proven: true,
        events: &[
            ("SessionStart", Signal::SessionStart),
            ("BeforeAgent", Signal::TurnStart),
            ("BeforeTool", Signal::BeforeTool),
            ("AfterTool", Signal::AfterTool),
            ("AfterAgent", Signal::TurnEnd),
            ("SessionEnd", Signal::SessionEnd),
        ],
        tools: Some(known_tools::GEMINI),
        notice_format: NoticeFormat::HookSpecificOutput,
        // SessionStart is left out, because Gemini would prepend the notice to the prompt, and
        // would then no longer expand a slash command in the prompt.
        notice_events: &["BeforeAgent", "AfterTool"],
        warning_format: WarningFormat::SystemMessage,
        resume: Some(
            "`gemini --resume {}`, then /rewind and choose to rewind only the conversation",
        ),
        refusal: Refusal::Code(2),
        answer_events: &[],
        headless_sign: None,
        limitations: &[
            "calls have no ids, so two identical calls at the same time cannot be told apart",
        ],
        wiring: Some(&wiring::gemini::WIRING),
        event_keys: &["hook_event_name"],
        read_payload: gemini::read_payload,
    },
    Agent {
        name: "qwen",
        title: "Qwen Code",
        acp_names: &[],
        proven: true,
        events: CLAUDE_EVENTS,
        tools: Some(known_tools::QWEN),
        notice_format: NoticeFormat::HookSpecificOutput,
        notice_events: &["UserPromptSubmit", "PostToolUse"],
        warning_format: WarningFormat::SystemMessage,
        resume: Some("`qwen --resume {}`, then /rewind and choose to rewind only the conversation"),
        refusal: Refusal::Code(2),
        answer_events: &[],
        headless_sign: None,
        limitations: &["/rollback is Qwen's own command; takeback's is /takeback-rollback"],
        wiring: Some(&wiring::qwen::WIRING),
        event_keys: &["hook_event_name"],
        read_payload: qwen::read_payload,
    },
    Agent {
        name: "copilot",
        title: "Copilot CLI",
        acp_names: &[],
        proven: true,
        events: &[
            ("sessionStart", Signal::SessionStart),
            ("userPromptSubmitted", Signal::TurnStart),
            ("preToolUse", Signal::BeforeTool),
            ("postToolUse", Signal::AfterTool),
            ("postToolUseFailure", Signal::ToolFailed),
            ("agentStop", Signal::TurnEnd),
            ("sessionEnd", Signal::SessionEnd),
        ],
        tools: Some(known_tools::COPILOT),
        notice_format: NoticeFormat::AdditionalContext,
        notice_events: &["sessionStart", "postToolUse"],
        warning_format: WarningFormat::AdditionalContext,
        resume: None,
        refusal: Refusal::PermissionDecision,
        answer_events: &[],
        headless_sign: None,
        limitations: &[
            "calls have no ids, so two identical calls at the same time cannot be told apart",
            "/undo is Copilot's own command; takeback's is /takeback-undo",
        ],
        wiring: Some(&wiring::copilot::WIRING),
        event_keys: &["hookName"],
        read_payload: copilot::read_payload,
    },
    Agent {
        name: "droid",
        title: "Droid",
        acp_names: &[],
        proven: true,
        events: CLAUDE_EVENTS,
        tools: Some(known_tools::DROID),
        notice_format: NoticeFormat::HookSpecificOutput,
        notice_events: &["SessionStart", "PostToolUse"],
        warning_format: WarningFormat::SystemMessage,
        resume: Some("`droid --fork {}`, then /rewind-conversation"),
        refusal: Refusal::Code(2),
        answer_events: &[],
        headless_sign: None,
        limitations: &[
            "`droid exec` does not report prompts: takeback reads them from its log",
            "calls have no ids, so two identical calls at the same time cannot be told apart",
        ],
        wiring: Some(&wiring::droid::WIRING),
        event_keys: &["hook_event_name"],
        read_payload: droid::read_payload,
    },
    Agent {
        name: "cline",
        title: "Cline",
        acp_names: &[],
        proven: true,
        events: &[
            ("TaskStart", Signal::TurnStart),
            ("TaskResume", Signal::TurnStart),
            ("UserPromptSubmit", Signal::TurnStart),
            ("PreToolUse", Signal::BeforeTool),
            ("PostToolUse", Signal::AfterTool),
            ("TaskComplete", Signal::TurnEnd),
            ("TaskCancel", Signal::TurnEnd),
            // Cline's payloads use the following names instead of those above.
            ("agent_start", Signal::TurnStart),
            ("tool_call", Signal::BeforeTool),
            ("tool_result", Signal::AfterTool),
            ("agent_end", Signal::TurnEnd),
        ],
        tools: Some(known_tools::CLINE),
        notice_format: NoticeFormat::ContextModification,
        notice_events: &["PreToolUse", "PostToolUse", "tool_call", "tool_result"],
        warning_format: WarningFormat::ContextModification,
        resume: None,
        refusal: Refusal::Cancel,
        answer_events: &[],
        headless_sign: None,
        limitations: &[
            "its hooks do not report prompts; takeback reads them from the agent's log instead",
            "/undo is Cline's own command; takeback's is /takeback-undo",
            "messages that /rollback takes back in an open conversation stay hidden from the \
             model only as long as takeback's plugin is installed",
        ],
        wiring: Some(&wiring::cline::WIRING),
        event_keys: &["hookName"],
        read_payload: cline::read_payload,
    },
    Agent {
        name: "opencode",
        title: "opencode",
        acp_names: &[],
        proven: true,
        events: &[
            ("session.created", Signal::SessionStart),
            ("chat.message", Signal::TurnStart),
            ("tool.execute.before", Signal::BeforeTool),
            ("tool.execute.after", Signal::AfterTool),
            ("session.idle", Signal::TurnEnd),
            ("session.deleted", Signal::SessionEnd),
        ],
        tools: Some(known_tools::OPENCODE),
        notice_format: NoticeFormat::Plugin,
        notice_events: &["chat.message"],
        warning_format: WarningFormat::Plugin,
        resume: Some("`opencode --session {} --fork`, then /timeline and fork from the prompt"),
        refusal: Refusal::Plugin,
        answer_events: &[],
        headless_sign: None,
        limitations: &["failed tool calls are not reported"],
        wiring: Some(&wiring::opencode::WIRING),
        event_keys: &["type"],
        read_payload: opencode::read_payload,
    },
    Agent {
        name: "pi",
        title: "pi",
        acp_names: &[],
        proven: true,
        events: &[
            ("session_start", Signal::SessionStart),
            ("before_agent_start", Signal::TurnStart),
            ("tool_call", Signal::BeforeTool),
            ("tool_result", Signal::AfterTool),
            ("agent_end", Signal::TurnEnd),
            ("session_shutdown", Signal::SessionEnd),
        ],
        tools: Some(known_tools::PI),
        notice_format: NoticeFormat::Plugin,
        notice_events: &["before_agent_start"],
        warning_format: WarningFormat::Plugin,
        resume: Some("`pi --session {}`, then /fork and choose the prompt"),
        refusal: Refusal::Plugin,
        answer_events: &[],
        headless_sign: None,
        limitations: &[],
        wiring: Some(&wiring::pi::WIRING),
        event_keys: &["ev.type", "type"],
        read_payload: pi::read_payload,
    },
    Agent {
        name: "cursor",
        title: "Cursor",
        acp_names: &[],
        proven: false,
        events: &[
            ("sessionStart", Signal::SessionStart),
            ("beforeSubmitPrompt", Signal::TurnStart),
            ("preToolUse", Signal::BeforeTool),
            ("postToolUse", Signal::AfterTool),
            ("postToolUseFailure", Signal::ToolFailed),
            ("beforeShellExecution", Signal::BeforeTool),
            ("afterShellExecution", Signal::AfterTool),
            ("afterFileEdit", Signal::AfterTool),
            ("stop", Signal::TurnEnd),
            ("sessionEnd", Signal::SessionEnd),
        ],
        tools: Some(known_tools::CURSOR),
        notice_format: NoticeFormat::SnakeContext,
        notice_events: &["sessionStart"],
        warning_format: WarningFormat::UserMessage,
        resume: None,
        refusal: Refusal::Code(2),
        answer_events: &[],
        headless_sign: None,
        limitations: &["its model learns of a rollback only when a session begins"],
        wiring: Some(&wiring::cursor::WIRING),
        event_keys: &["hook_event_name"],
        read_payload: cursor::read_payload,
    },
    Agent {
        name: "goose",
        title: "Goose",
        acp_names: &[],
        proven: false,
        events: &[
            ("SessionStart", Signal::SessionStart),
            ("UserPromptSubmit", Signal::TurnStart),
            ("PreToolUse", Signal::BeforeTool),
            ("PostToolUse", Signal::AfterTool),
            ("PostToolUseFailure", Signal::ToolFailed),
            ("Stop", Signal::TurnEnd),
            ("SessionEnd", Signal::SessionEnd),
        ],
        tools: Some(known_tools::GOOSE),
        notice_format: NoticeFormat::None,
        notice_events: &[],
        warning_format: WarningFormat::None,
        resume: None,
        refusal: Refusal::Code(2),
        answer_events: &[],
        headless_sign: None,
        limitations: &[
            "its model cannot be told about a rollback",
            "it cannot show warnings about unprotected files; see `takeback status`",
        ],
        wiring: Some(&wiring::goose::WIRING),
        event_keys: &["event"],
        read_payload: goose::read_payload,
    },
    Agent {
        name: "zed",
        title: "Zed",
        acp_names: &[],
        proven: false,
        // Zed has no hooks: `takeback acp` reports the actions of the agents that Zed starts.
        events: GENERIC_EVENTS,
        tools: None,
        notice_format: NoticeFormat::None,
        notice_events: &[],
        warning_format: WarningFormat::None,
        resume: None,
        refusal: Refusal::Code(1),
        answer_events: &[],
        headless_sign: None,
        limitations: &["agents that Zed starts without takeback are not protected"],
        wiring: Some(&wiring::zed::WIRING),
        event_keys: &["event"],
        read_payload: generic::read_payload,
    },
];

/// The events of takeback's own format.
const GENERIC_EVENTS: &[(&str, Signal)] = &[
    ("session_start", Signal::SessionStart),
    ("turn_start", Signal::TurnStart),
    ("before_tool", Signal::BeforeTool),
    ("after_tool", Signal::AfterTool),
    ("turn_end", Signal::TurnEnd),
    ("session_end", Signal::SessionEnd),
];

/// The events of Claude Code. Codex, Qwen Code and Droid use the same names.
const CLAUDE_EVENTS: &[(&str, Signal)] = &[
    ("SessionStart", Signal::SessionStart),
    ("UserPromptSubmit", Signal::TurnStart),
    ("UserPromptExpansion", Signal::Command),
    ("PreToolUse", Signal::BeforeTool),
    ("PostToolUse", Signal::AfterTool),
    ("PostToolUseFailure", Signal::ToolFailed),
    ("Stop", Signal::TurnEnd),
    ("SubagentStart", Signal::ChildStart),
    ("SubagentStop", Signal::ChildEnd),
    ("SessionEnd", Signal::SessionEnd),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_of_the_table_is_consistent() {
        let names: BTreeSet<&str> = AGENTS.iter().map(|agent| agent.name).collect();
        assert_eq!(names.len(), AGENTS.len());
        for agent in AGENTS {
            let events: BTreeSet<&str> = agent.events.iter().map(|(name, _)| *name).collect();
            assert_eq!(events.len(), agent.events.len(), "{}", agent.name);
            for event in agent.notice_events {
                assert!(events.contains(event), "{} {event}", agent.name);
            }
            assert_eq!(
                agent.notice_events.is_empty(),
                agent.notice_format == NoticeFormat::None,
                "{}",
                agent.name
            );
            for signal in [Signal::TurnEnd, Signal::BeforeTool, Signal::AfterTool] {
                assert!(agent.events.iter().any(|(_, known)| *known == signal), "{}", agent.name);
            }
            let Some(tools) = agent.tools else { continue };
            let lists = [tools.shell, tools.files, tools.reading];
            let distinct: BTreeSet<&str> = lists.iter().copied().flatten().copied().collect();
            assert_eq!(distinct.len(), lists.iter().map(|list| list.len()).sum::<usize>());
        }
    }
}
