//! The agents: one row each.

use crate::parse::Told;
use crate::wire::Object;
use crate::wiring::{self, Wiring};
use crate::{claude, cline, copilot, cursor, generic, goose, plugin};

/// What is known of an agent.
pub struct Agent {
    /// What it is called on a command line, and in front of its sessions' ids.
    pub name: &'static str,
    /// What it is called.
    pub title: &'static str,
    /// Whether all this was seen in the real program, and not only read about.
    pub proven: bool,
    /// Its names of events. What is not here is of no interest.
    pub events: &'static [(&'static str, Signal)],
    /// Its tools; `None` if they are to be told by their names and inputs.
    pub tools: Option<Tools>,
    /// How its model is told something.
    pub voice: Voice,
    /// The events on which that is safe.
    pub speaks_on: &'static [&'static str],
    /// How it takes its own copy of a conversation back, in words; `{}` is the session's id.
    pub(crate) resume: Option<&'static str>,
    /// How a hook keeps it from running a tool.
    pub refusal: Refusal,
    /// The events in which a hook can answer what the user typed, so that no model is asked.
    pub answers_on: &'static [&'static str],
    /// What takeback does not see or cannot do there.
    pub uncovered: &'static [&'static str],
    /// How it is wired; `None` if it has to do that itself.
    pub(crate) wiring: Option<&'static Wiring>,
    /// Where its payloads name the event; elsewhere the hook is started with its name.
    pub(crate) event_keys: &'static [&'static str],
    /// What a payload says.
    pub(crate) read: fn(&Object, Signal) -> Option<Told>,
}

impl Agent {
    /// Whether `install` can wire it.
    pub fn is_wirable(&self) -> bool {
        self.wiring.is_some()
    }

    /// Whether that is its name for the moment before a tool is used.
    pub fn is_before_tool(&self, event: Option<&str>) -> bool {
        self.events
            .iter()
            .any(|(name, signal)| Some(*name) == event && *signal == Signal::BeforeTool)
    }

    /// What the user has to do once it is wired.
    pub fn afterwards(&self) -> Option<&'static str> {
        self.wiring?.afterwards
    }
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// What an agent's event means to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A session begins or goes on.
    SessionStart,
    /// The user said something.
    TurnStart,
    /// The user typed a command of the agent's that stands for a prompt.
    Command,
    /// A tool is about to be used.
    BeforeTool,
    /// A tool was used.
    AfterTool,
    /// A tool was used and failed.
    ToolFailed,
    /// The agent is done with what the user said.
    TurnEnd,
    /// A session is over.
    SessionEnd,
    /// A subagent begins.
    ChildStart,
    /// A subagent is done.
    ChildEnd,
}

/// The tools of an agent that are known. Whatever is not here may change files.
#[derive(Clone, Copy, Debug)]
pub struct Tools {
    /// Those that run shell commands.
    pub shell: &'static [&'static str],
    /// Those that write files.
    pub files: &'static [&'static str],
    /// Those that only look.
    pub reading: &'static [&'static str],
}

/// How a model is told something: what the hook prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    /// `{"hookSpecificOutput": {"hookEventName": …, "additionalContext": …}}`
    HookSpecificOutput,
    /// `{"additionalContext": …}`
    AdditionalContext,
    /// `{"additional_context": …}`
    SnakeContext,
    /// `{"cancel": false, "contextModification": …}`
    ContextModification,
    /// `{"notice": …}`, for our plugin inside of the agent.
    Plugin,
    /// There is no way.
    None,
}

/// How a hook keeps an agent from running a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// By its exit code; why is on standard error.
    Code(u8),
    /// `{"permissionDecision": "deny", "permissionDecisionReason": …}`
    PermissionDecision,
    /// `{"cancel": true, "errorMessage": …}`
    Cancel,
    /// `{"refusal": …}`, for our plugin inside of the agent.
    Plugin,
}

/// The agent of this name.
pub fn agent(name: &str) -> Option<&'static Agent> {
    AGENTS.iter().find(|agent| agent.name == name)
}

/// How the agent of a session takes its own copy of the conversation back, in words; `None` if it
/// cannot, or nobody knows.
pub fn resume(session: &str) -> Option<String> {
    let (name, id) = session.split_once(':')?;
    // What a subagent did is part of its parent's conversation.
    let id = id.split('/').next().filter(|id| !id.is_empty())?;
    Some(agent(name)?.resume?.replace("{}", &takeback_undo::hook::quote_word(id)))
}

/// Every agent that is known.
pub const AGENTS: &[Agent] = &[
    Agent {
        name: "generic",
        title: "any agent that sends takeback's own format",
        proven: true,
        events: &[
            ("session_start", Signal::SessionStart),
            ("turn_start", Signal::TurnStart),
            ("before_tool", Signal::BeforeTool),
            ("after_tool", Signal::AfterTool),
            ("turn_end", Signal::TurnEnd),
            ("session_end", Signal::SessionEnd),
        ],
        tools: None,
        voice: Voice::None,
        speaks_on: &[],
        resume: None,
        refusal: Refusal::Code(1),
        answers_on: &[],
        uncovered: &[],
        wiring: None,
        event_keys: &["event"],
        read: generic::read,
    },
    Agent {
        name: "claude",
        title: "Claude Code",
        proven: true,
        events: CLAUDE_EVENTS,
        tools: Some(Tools {
            shell: &["Bash"],
            files: &["Write", "Edit", "MultiEdit", "NotebookEdit"],
            reading: &[
                "Read",
                "NotebookRead",
                "Glob",
                "Grep",
                "LS",
                "LSP",
                "WebFetch",
                "WebSearch",
                "TodoRead",
                "TodoWrite",
                "TaskCreate",
                "TaskGet",
                "TaskList",
                "TaskUpdate",
                "TaskOutput",
                "BashOutput",
                "AskUserQuestion",
                "EnterPlanMode",
                "ToolSearch",
                "ListMcpResourcesTool",
                "ReadMcpResourceTool",
            ],
        }),
        voice: Voice::HookSpecificOutput,
        // Never on Stop: it makes the model be called again.
        speaks_on: &["UserPromptSubmit", "PostToolUse"],
        resume: Some(
            "`claude --resume {} --fork-session`, then press Esc twice and choose the prompt",
        ),
        refusal: Refusal::Code(2),
        answers_on: &["UserPromptSubmit", "UserPromptExpansion"],
        uncovered: &["commands that the user runs with ! are not reported"],
        wiring: Some(&wiring::CLAUDE),
        event_keys: &["hook_event_name"],
        read: claude::claude,
    },
    Agent {
        name: "codex",
        title: "Codex",
        proven: true,
        events: CLAUDE_EVENTS,
        tools: Some(Tools {
            shell: &["Bash", "shell", "local_shell", "shell_command", "exec_command"],
            files: &["apply_patch"],
            reading: &[
                "update_plan",
                "view_image",
                "read_file",
                "list_dir",
                "grep_files",
                "web_search",
                "list_mcp_resources",
                "list_mcp_resource_templates",
                "read_mcp_resource",
                "request_user_input",
            ],
        }),
        voice: Voice::HookSpecificOutput,
        speaks_on: &["UserPromptSubmit", "PostToolUse"],
        resume: Some("`codex fork {}`, then press Esc twice and choose the prompt"),
        refusal: Refusal::Code(2),
        answers_on: &["UserPromptSubmit"],
        uncovered: &["in its terminal, type `takeback rollback` instead of /rollback"],
        wiring: Some(&wiring::CODEX),
        event_keys: &["hook_event_name"],
        read: claude::codex,
    },
    Agent {
        name: "gemini",
        title: "Gemini CLI",
        proven: true,
        events: &[
            ("SessionStart", Signal::SessionStart),
            ("BeforeAgent", Signal::TurnStart),
            ("BeforeTool", Signal::BeforeTool),
            ("AfterTool", Signal::AfterTool),
            ("AfterAgent", Signal::TurnEnd),
            ("SessionEnd", Signal::SessionEnd),
        ],
        tools: Some(Tools {
            shell: &["run_shell_command"],
            files: &["write_file", "replace"],
            reading: &[
                "read_file",
                "read_many_files",
                "list_directory",
                "glob",
                "grep_search",
                "search_file_content",
                "google_web_search",
                "web_fetch",
                "write_todos",
                "ask_user",
                "get_internal_docs",
            ],
        }),
        voice: Voice::HookSpecificOutput,
        // Not on SessionStart: it would be put in front of the prompt, and commands not be expanded.
        speaks_on: &["BeforeAgent", "AfterTool"],
        resume: Some("`gemini --resume {}`, then /rewind, and only the conversation"),
        refusal: Refusal::Code(2),
        answers_on: &[],
        uncovered: &["calls have no names, so two that are alike at once cannot be told apart"],
        wiring: Some(&wiring::GEMINI),
        event_keys: &["hook_event_name"],
        read: claude::nameless,
    },
    Agent {
        name: "qwen",
        title: "Qwen Code",
        proven: true,
        events: CLAUDE_EVENTS,
        tools: Some(Tools {
            shell: &["run_shell_command"],
            files: &["write_file", "replace", "edit"],
            reading: &[
                "read_file",
                "read_many_files",
                "list_directory",
                "glob",
                "grep_search",
                "search_file_content",
                "web_search",
                "web_fetch",
                "todo_write",
                "ask_user_question",
                "lsp",
            ],
        }),
        voice: Voice::HookSpecificOutput,
        speaks_on: &["UserPromptSubmit", "PostToolUse"],
        resume: Some("`qwen --resume {}`, then /rewind, and only the conversation"),
        refusal: Refusal::Code(2),
        answers_on: &[],
        uncovered: &["/rollback is a command of Qwen's own"],
        wiring: Some(&wiring::QWEN),
        event_keys: &["hook_event_name"],
        read: claude::qwen,
    },
    Agent {
        name: "copilot",
        title: "Copilot CLI",
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
        tools: Some(Tools {
            shell: &["bash"],
            files: &["create", "edit", "apply_patch", "str_replace_editor"],
            reading: &[
                "view",
                "show_file",
                "grep",
                "rg",
                "glob",
                "web_fetch",
                "web_search",
                "read_bash",
                "list_bash",
                "report_intent",
                "update_todo",
                "ask_user",
                "fetch_copilot_cli_documentation",
            ],
        }),
        voice: Voice::AdditionalContext,
        speaks_on: &["sessionStart", "postToolUse"],
        resume: None,
        refusal: Refusal::PermissionDecision,
        answers_on: &[],
        uncovered: &[
            "calls have no names, so two that are alike at once cannot be told apart",
            "there is no way to add /rollback",
        ],
        wiring: Some(&wiring::COPILOT),
        event_keys: &["hookName"],
        read: copilot::read,
    },
    Agent {
        name: "droid",
        title: "Droid",
        proven: true,
        events: CLAUDE_EVENTS,
        tools: Some(Tools {
            shell: &["Execute"],
            files: &["Create", "Edit", "MultiEdit", "ApplyPatch"],
            reading: &["Read", "LS", "Grep", "Glob", "TodoWrite", "WebSearch", "FetchUrl"],
        }),
        voice: Voice::HookSpecificOutput,
        speaks_on: &["SessionStart", "PostToolUse"],
        resume: Some("`droid --fork {}`, then /rewind-conversation"),
        refusal: Refusal::Code(2),
        answers_on: &[],
        uncovered: &[
            "droid exec does not report prompts: they come from its log",
            "calls have no names, so two that are alike at once cannot be told apart",
        ],
        wiring: Some(&wiring::DROID),
        event_keys: &["hook_event_name"],
        read: claude::nameless,
    },
    Agent {
        name: "cline",
        title: "Cline",
        proven: true,
        events: &[
            ("TaskStart", Signal::TurnStart),
            ("TaskResume", Signal::TurnStart),
            ("UserPromptSubmit", Signal::TurnStart),
            ("PreToolUse", Signal::BeforeTool),
            ("PostToolUse", Signal::AfterTool),
            ("TaskComplete", Signal::TurnEnd),
            ("TaskCancel", Signal::TurnEnd),
            // The same in its payloads.
            ("agent_start", Signal::TurnStart),
            ("tool_call", Signal::BeforeTool),
            ("tool_result", Signal::AfterTool),
            ("agent_end", Signal::TurnEnd),
        ],
        tools: Some(Tools {
            shell: &["run_commands", "execute_command"],
            files: &["editor", "write_to_file", "replace_in_file", "new_rule", "apply_patch"],
            reading: &[
                "read_file",
                "read_files",
                "list_files",
                "search_files",
                "search_codebase",
                "list_code_definition_names",
                "fetch_web_content",
                "web_fetch",
                "web_search",
                "ask_question",
                "ask_followup_question",
                "plan_mode_respond",
                "attempt_completion",
            ],
        }),
        voice: Voice::ContextModification,
        speaks_on: &["PreToolUse", "PostToolUse", "tool_call", "tool_result"],
        resume: None,
        refusal: Refusal::Cancel,
        answers_on: &[],
        uncovered: &[
            "prompts come from its log, not from its hooks",
            "there is no way to add /rollback",
        ],
        wiring: Some(&wiring::CLINE),
        event_keys: &["hookName"],
        read: cline::read,
    },
    Agent {
        name: "opencode",
        title: "opencode",
        proven: true,
        events: &[
            ("session.created", Signal::SessionStart),
            ("chat.message", Signal::TurnStart),
            ("tool.execute.before", Signal::BeforeTool),
            ("tool.execute.after", Signal::AfterTool),
            ("session.idle", Signal::TurnEnd),
            ("session.deleted", Signal::SessionEnd),
        ],
        tools: Some(Tools {
            shell: &["bash"],
            files: &["write", "edit", "multiedit", "patch", "apply_patch"],
            reading: &[
                "read",
                "grep",
                "glob",
                "list",
                "ls",
                "lsp",
                "webfetch",
                "websearch",
                "codesearch",
                "todoread",
                "todowrite",
                "question",
                "invalid",
            ],
        }),
        voice: Voice::Plugin,
        speaks_on: &["chat.message"],
        resume: Some("`opencode --session {} --fork`, then /timeline and fork from the prompt"),
        refusal: Refusal::Plugin,
        answers_on: &[],
        uncovered: &["tools that fail are not reported"],
        wiring: Some(&wiring::OPENCODE),
        event_keys: &["type"],
        read: plugin::opencode,
    },
    Agent {
        name: "pi",
        title: "pi",
        proven: true,
        events: &[
            ("session_start", Signal::SessionStart),
            ("before_agent_start", Signal::TurnStart),
            ("tool_call", Signal::BeforeTool),
            ("tool_result", Signal::AfterTool),
            ("agent_end", Signal::TurnEnd),
            ("session_shutdown", Signal::SessionEnd),
        ],
        tools: Some(Tools {
            shell: &["bash"],
            files: &["write", "edit"],
            reading: &["read", "grep", "find", "ls"],
        }),
        voice: Voice::Plugin,
        speaks_on: &["before_agent_start"],
        resume: Some("`pi --session {}`, then /fork and choose the prompt"),
        refusal: Refusal::Plugin,
        answers_on: &[],
        uncovered: &[],
        wiring: Some(&wiring::PI),
        event_keys: &["ev.type", "type"],
        read: plugin::pi,
    },
    Agent {
        name: "cursor",
        title: "Cursor",
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
        tools: Some(Tools {
            shell: &["Shell"],
            files: &["Write", "Edit", "StrReplace", "Delete", "EditNotebook"],
            reading: &["Read", "Grep", "Glob", "LS", "SemanticSearch", "WebSearch", "WebFetch"],
        }),
        voice: Voice::SnakeContext,
        speaks_on: &["sessionStart"],
        resume: None,
        refusal: Refusal::Code(2),
        answers_on: &[],
        uncovered: &["the model can be told something only when a session begins"],
        wiring: Some(&wiring::CURSOR),
        event_keys: &["hook_event_name"],
        read: cursor::read,
    },
    Agent {
        name: "goose",
        title: "Goose",
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
        tools: Some(Tools {
            shell: &["developer__shell"],
            files: &["developer__write", "developer__edit", "developer__text_editor"],
            reading: &["developer__tree", "developer__read_image"],
        }),
        voice: Voice::None,
        speaks_on: &[],
        resume: None,
        refusal: Refusal::Code(2),
        answers_on: &[],
        uncovered: &["the model cannot be told that files went back"],
        wiring: Some(&wiring::GOOSE),
        event_keys: &["event"],
        read: goose::read,
    },
];

/// Claude's, and those of whoever took them over.
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
    fn an_agent_may_know_the_way_back_in_its_conversation() {
        let claude =
            "`claude --resume 'a b' --fork-session`, then press Esc twice and choose the prompt";
        assert_eq!(resume("claude:a b/sub").as_deref(), Some(claude));
        for unknown in ["copilot:1", "mine:1", "claude", "claude:"] {
            assert_eq!(resume(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn the_table_is_sound() {
        let names: BTreeSet<&str> = AGENTS.iter().map(|agent| agent.name).collect();
        assert_eq!(names.len(), AGENTS.len());
        for agent in AGENTS {
            let events: BTreeSet<&str> = agent.events.iter().map(|(name, _)| *name).collect();
            assert_eq!(events.len(), agent.events.len(), "{}", agent.name);
            for event in agent.speaks_on {
                assert!(events.contains(event), "{} {event}", agent.name);
            }
            assert_eq!(agent.speaks_on.is_empty(), agent.voice == Voice::None, "{}", agent.name);
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
