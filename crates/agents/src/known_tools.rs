//! The tools of each agent, grouped by their possible effects.

use crate::agent::KnownTools;

pub(crate) const CLAUDE: KnownTools = KnownTools {
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
};

pub(crate) const CODEX: KnownTools = KnownTools {
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
};

pub(crate) const GEMINI: KnownTools = KnownTools {
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
};

pub(crate) const QWEN: KnownTools = KnownTools {
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
};

pub(crate) const COPILOT: KnownTools = KnownTools {
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
};

pub(crate) const DROID: KnownTools = KnownTools {
    shell: &["Execute"],
    files: &["Create", "Edit", "MultiEdit", "ApplyPatch"],
    reading: &["Read", "LS", "Grep", "Glob", "TodoWrite", "WebSearch", "FetchUrl"],
};

pub(crate) const CLINE: KnownTools = KnownTools {
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
};

pub(crate) const OPENCODE: KnownTools = KnownTools {
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
};

pub(crate) const PI: KnownTools = KnownTools {
    shell: &["bash"],
    files: &["write", "edit"],
    reading: &["read", "grep", "find", "ls"],
};

pub(crate) const CURSOR: KnownTools = KnownTools {
    shell: &["Shell"],
    files: &["Write", "Edit", "StrReplace", "Delete", "EditNotebook"],
    reading: &["Read", "Grep", "Glob", "LS", "SemanticSearch", "WebSearch", "WebFetch"],
};

pub(crate) const GOOSE: KnownTools = KnownTools {
    shell: &["developer__shell"],
    files: &["developer__write", "developer__edit", "developer__text_editor"],
    reading: &["developer__tree", "developer__read_image"],
};
