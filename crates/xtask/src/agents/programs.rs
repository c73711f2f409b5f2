//! The table of agents: their packages, their arguments, and the names of their tools.

use std::path::Path;

use serde_json::{Value, json};
use takeback_script::Reply;

use super::program::{AgentProgram, RollbackCommand, TerminalUse, Turn, WayBack};

fn to_words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

fn json_file(path: &str, content: &Value) -> (String, String) {
    (path.to_owned(), format!("{content:#}\n"))
}

/// A key for agents that require one. Any text will do.
const KEY: &str = "sk-not-a-secret";

/// The agents that can be fetched from the npm registry.
pub(crate) const PROGRAMS: &[AgentProgram] = &[
    AgentProgram {
        name: "claude",
        package: "@anthropic-ai/claude-code",
        version: "2.1.325",
        former: None,
        configuration: |_, project| {
            // A hook that belongs to the user.
            let hook = json!([{ "hooks": [{ "type": "command", "command": "true" }] }]);
            let settings = json!({
                "theme": "dark", "hooks": { "Stop": hook }, "skipDangerousModePermissionPrompt": true,
            });
            // The answers to the questions that the agent asks in a terminal.
            let trusted = json!({ "hasTrustDialogAccepted": true });
            let state = json!({
                "hasCompletedOnboarding": true, "bypassPermissionsModeAccepted": true,
                "customApiKeyResponses": { "approved": [KEY], "rejected": [] },
                "projects": { project.display().to_string(): trusted },
            });
            vec![json_file(".claude/settings.json", &settings), json_file(".claude.json", &state)]
        },
        environment: |url| {
            vec![
                ("ANTHROPIC_BASE_URL", url.to_owned()),
                ("ANTHROPIC_API_KEY", KEY.to_owned()),
                ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
                ("DISABLE_AUTOUPDATER", "1".to_owned()),
                // As root, Claude Code skips permission checks only in a sandbox.
                ("IS_SANDBOX", "1".to_owned()),
            ]
        },
        words: |_, turn| match turn {
            Turn::First(prompt) => to_words(["-p", prompt, "--dangerously-skip-permissions"]),
            Turn::Next(prompt) | Turn::Command(prompt) => {
                to_words(["-p", prompt, "--continue", "--dangerously-skip-permissions"])
            }
            Turn::At { session, prompt, .. } => {
                to_words(["-p", prompt, "--resume", session, "--dangerously-skip-permissions"])
            }
        },
        leave: &[],
        package_steps: &[
            &["plugin", "validate", "{}"],
            &["plugin", "marketplace", "add", "{}"],
            &["plugin", "install", "takeback@takeback"],
        ],
        can_continue: true,
        write: |path, content| {
            Reply::call("Write", json!({ "file_path": path, "content": content }))
        },
        shell: |command| {
            Reply::call("Bash", json!({ "command": command, "description": "A command" }))
        },
        command: RollbackCommand::Withheld { typed: "/rollback", is_shown: true },
        terminal: Some(TerminalUse {
            words: &["--dangerously-skip-permissions"],
            ready: "bypass permissions on",
            questions: &[],
            way: WayBack::PrintedLine,
        }),
    },
    AgentProgram {
        name: "codex",
        package: "@openai/codex",
        version: "0.166.0",
        former: None,
        configuration: |url, project| {
            let project = project.display();
            let configuration = format!(
                "# mine\nmodel = \"gpt-6-sol\"\nmodel_provider = \"script\"\n\
                 approval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\n\n\
                 [model_providers.script]\nname = \"script\"\nbase_url = \"{url}/v1\"\n\
                 env_key = \"SCRIPT_KEY\"\nwire_api = \"responses\"\n\n\
                 [projects.\"{project}\"]\ntrust_level = \"trusted\"\n"
            );
            vec![(".codex/config.toml".to_owned(), configuration)]
        },
        environment: |_| vec![("SCRIPT_KEY", KEY.to_owned())],
        words: |_, turn| {
            let mut all = to_words([
                "exec",
                "--dangerously-bypass-approvals-and-sandbox",
                // Normally, the user reviews the hooks in Codex's terminal.
                "--dangerously-bypass-hook-trust",
            ]);
            match turn {
                Turn::First(prompt) => all.push(prompt.to_owned()),
                Turn::Next(prompt) | Turn::Command(prompt) => {
                    all.extend(to_words(["resume", "--last", prompt]));
                }
                Turn::At { session, prompt, .. } => {
                    all.extend(to_words(["resume", session, prompt]));
                }
            }
            all
        },
        leave: &["app-server", "daemon", "stop"],
        package_steps: &[
            &["plugin", "marketplace", "add", "{}"],
            &["plugin", "add", "takeback@takeback"],
        ],
        can_continue: true,
        write: |path, content| {
            let lines: String = content.lines().map(|line| format!("+{line}\n")).collect();
            let patch = format!("*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n");
            codex_program(&format!("await tools.apply_patch({});", json!(patch)))
        },
        shell: |command| {
            codex_program(&format!("await tools.exec_command({});", json!({ "cmd": command })))
        },
        command: RollbackCommand::Withheld { typed: "/rollback", is_shown: false },
        terminal: Some(TerminalUse {
            // If the agent were started with options, its daemon would not have the conversation.
            words: &[],
            ready: "OpenAI Codex",
            questions: &[("Hooks need review", "2\r")],
            way: WayBack::InPlace {
                typed: "takeback rollback 1",
                shown: "Codex continues there",
                logs: Some(".codex/sessions"),
                forward: None,
            },
        }),
    },
    AgentProgram {
        name: "gemini",
        package: "@google/gemini-cli",
        version: "0.61.0",
        former: None,
        configuration: |_, _| {
            let auth = json!({ "auth": { "selectedType": "gemini-api-key" } });
            let hook = json!([{ "hooks": [{ "type": "command", "command": "true" }] }]);
            let settings = json!({
                "security": auth, "general": { "disableAutoUpdate": true },
                "hooks": { "AfterTool": hook },
            });
            vec![json_file(".gemini/settings.json", &settings)]
        },
        environment: |url| {
            vec![
                ("GOOGLE_GEMINI_BASE_URL", url.to_owned()),
                ("GEMINI_API_KEY", KEY.to_owned()),
                ("GEMINI_CLI_TRUST_WORKSPACE", "true".to_owned()),
                ("GEMINI_TELEMETRY_ENABLED", "false".to_owned()),
            ]
        },
        words: |_, turn| {
            let mut all = to_words(["--yolo", "-m", "gemini-2.5-flash", "-p"]);
            match turn {
                Turn::First(prompt) => all.push(prompt.to_owned()),
                Turn::Next(prompt) | Turn::Command(prompt) => {
                    all.extend(to_words([prompt, "--resume", "latest"]));
                }
                Turn::At { file, prompt, .. } => {
                    all.extend(to_words([prompt, "--session-file", file]));
                }
            }
            all
        },
        leave: &[],
        package_steps: &[&["extensions", "validate", "{}"]],
        can_continue: true,
        write: |path, content| {
            Reply::call("write_file", json!({ "file_path": path, "content": content }))
        },
        shell: |command| {
            let input = json!({ "command": command, "description": "A command" });
            Reply::call("run_shell_command", input)
        },
        command: RollbackCommand::Told("/rollback"),
        terminal: Some(TerminalUse {
            words: &["--yolo", "-m", "gemini-2.5-flash"],
            ready: "Type your message",
            questions: &[],
            way: WayBack::PrintedLine,
        }),
    },
    AgentProgram {
        name: "opencode",
        package: "opencode-ai",
        version: "1.18.33",
        former: None,
        configuration: |url, _| {
            let limit = json!({ "context": 100_000, "output": 10_000 });
            let model = json!({ "name": "m", "tool_call": true, "limit": limit });
            let provider = json!({
                "npm": "@ai-sdk/openai-compatible", "name": "script", "models": { "m": model },
                "options": { "baseURL": format!("{url}/v1"), "apiKey": KEY },
            });
            let settings = json!({
                "provider": { "script": provider }, "model": "script/m", "permission": "allow",
                "autoupdate": false, "share": "disabled",
            });
            vec![json_file(".config/opencode/opencode.json", &settings)]
        },
        environment: |url| {
            vec![
                // Before its first plugin runs, opencode fetches a plugin library that takeback's
                // plugin does not need. This may fail, but it must not take a minute.
                ("NPM_CONFIG_REGISTRY", url.to_owned()),
                ("OPENCODE_DISABLE_AUTOUPDATE", "1".to_owned()),
                ("OPENCODE_DISABLE_MODELS_FETCH", "1".to_owned()),
            ]
        },
        words: |_, turn| match turn {
            Turn::First(prompt) => to_words(["run", prompt]),
            Turn::Next(prompt) => to_words(["run", "--continue", prompt]),
            Turn::At { session, prompt, .. } => to_words(["run", "-s", session, prompt]),
            Turn::Command(rest) => to_words(["run", "--continue", "--command", "rollback", rest]),
        },
        leave: &[],
        package_steps: &[],
        can_continue: true,
        write: |path, content| {
            Reply::call("write", json!({ "filePath": path, "content": content }))
        },
        shell: |command| {
            Reply::call("bash", json!({ "command": command, "description": "A command" }))
        },
        command: RollbackCommand::Own,
        terminal: Some(TerminalUse {
            words: &[],
            ready: "Ask anything",
            questions: &[],
            way: WayBack::Command("/rollback 1"),
        }),
    },
    AgentProgram {
        name: "qwen",
        package: "@qwen-code/qwen-code",
        version: "0.24.4",
        former: None,
        configuration: |_, _| {
            let settings = json!({
                "security": { "auth": { "selectedType": "openai" } },
                "telemetry": { "enabled": false },
                "privacy": { "usageStatisticsEnabled": false },
            });
            vec![json_file(".qwen/settings.json", &settings)]
        },
        environment: |url| {
            vec![
                ("OPENAI_BASE_URL", format!("{url}/v1")),
                ("OPENAI_API_KEY", KEY.to_owned()),
                ("OPENAI_MODEL", "m".to_owned()),
            ]
        },
        words: |_, turn| match turn {
            Turn::First(prompt) => to_words(["--yolo", "-p", prompt]),
            Turn::Next(prompt) | Turn::Command(prompt) => {
                to_words(["--yolo", "--continue", "-p", prompt])
            }
            Turn::At { session, prompt, .. } => {
                to_words(["--yolo", "--resume", session, "-p", prompt])
            }
        },
        leave: &[],
        package_steps: &[],
        can_continue: true,
        write: |path, content| {
            Reply::call("write_file", json!({ "file_path": path, "content": content }))
        },
        shell: |command| {
            let input =
                json!({ "command": command, "description": "A command", "is_background": false });
            Reply::call("run_shell_command", input)
        },
        command: RollbackCommand::Told("/takeback-rollback"),
        terminal: Some(TerminalUse {
            words: &["--yolo"],
            ready: "Type your message",
            questions: &[],
            way: WayBack::PrintedLine,
        }),
    },
    AgentProgram {
        name: "copilot",
        package: "@github/copilot",
        version: "1.0.102",
        former: None,
        configuration: |_, _| {
            vec![json_file(".copilot/config.json", &json!({ "banner": "never" }))]
        },
        environment: |url| {
            vec![
                ("COPILOT_PROVIDER_BASE_URL", format!("{url}/v1")),
                ("COPILOT_PROVIDER_API_KEY", KEY.to_owned()),
                ("COPILOT_MODEL", "gpt-4.1".to_owned()),
                ("COPILOT_OFFLINE", "true".to_owned()),
                ("COPILOT_AUTO_UPDATE", "false".to_owned()),
            ]
        },
        words: |_, turn| match turn {
            Turn::First(prompt) => to_words(["--allow-all", "-p", prompt]),
            Turn::Next(prompt) | Turn::Command(prompt) => {
                to_words(["--allow-all", "--continue", "-p", prompt])
            }
            Turn::At { session, prompt, .. } => {
                to_words(["--allow-all", &format!("--resume={session}"), "-p", prompt])
            }
        },
        leave: &[],
        package_steps: &[],
        can_continue: true,
        write: |path, content| Reply::call("create", json!({ "path": path, "file_text": content })),
        shell: |command| {
            Reply::call("bash", json!({ "command": command, "description": "A command" }))
        },
        command: RollbackCommand::None,
        terminal: Some(TerminalUse {
            // The agent loads extensions only in experimental mode.
            words: &["--allow-all", "--experimental"],
            ready: "Copilot v",
            questions: &[("Do you trust the files in this folder?", "\r")],
            way: WayBack::Command("/rollback 1"),
        }),
    },
    AgentProgram {
        name: "droid",
        package: "droid",
        version: "0.215.0",
        former: None,
        configuration: |url, _| {
            let model = json!({
                "model": "m", "displayName": "M", "baseUrl": format!("{url}/v1"), "apiKey": KEY,
                "provider": "generic-chat-completion-api", "maxOutputTokens": 8192,
            });
            let settings = json!({ "customModels": [model], "cloudSessionSync": false });
            vec![json_file(".factory/settings.json", &settings)]
        },
        environment: |url| {
            vec![
                ("FACTORY_API_KEY", "fk-not-a-secret".to_owned()),
                // The scripted model answers "not found" at this address. The agent continues the
                // conversation only after it has received that answer.
                ("FACTORY_API_BASE_URL", url.to_owned()),
                ("DROID_AUTO_UPDATE_ENABLED", "false".to_owned()),
            ]
        },
        words: |home, turn| {
            let mut all = to_words(["exec", "--skip-permissions-unsafe", "-m", "custom:m"]);
            match turn {
                Turn::First(prompt) => all.push(prompt.to_owned()),
                Turn::Next(prompt) | Turn::Command(prompt) => {
                    all.extend(to_words(["-s", &droid_session(home), prompt]));
                }
                Turn::At { session, prompt, .. } => {
                    all.extend(to_words(["-s", session, prompt]));
                }
            }
            all
        },
        leave: &[],
        package_steps: &[],
        can_continue: true,
        write: |path, content| {
            Reply::call("Create", json!({ "file_path": path, "content": content }))
        },
        shell: |command| {
            let input = json!({
                "command": command, "summary": "A command", "timeout": 60,
                "riskLevelReason": "none", "riskLevel": "high",
            });
            Reply::call("Execute", input)
        },
        command: RollbackCommand::Told("/rollback"),
        terminal: None,
    },
    AgentProgram {
        name: "cline",
        package: "cline",
        version: "3.0.65",
        former: None,
        configuration: |url, _| {
            let settings = json!({
                "provider": "openai-compatible", "apiKey": KEY, "model": "m",
                "baseUrl": format!("{url}/v1"),
            });
            let provider = json!({
                "settings": settings, "updatedAt": "2026-11-16T00:00:00.000Z",
                "tokenSource": "manual",
            });
            let providers = json!({
                "version": 1, "lastUsedProvider": "openai-compatible", "modes": {},
                "providers": { "openai-compatible": provider },
            });
            vec![json_file(".cline/data/settings/providers.json", &providers)]
        },
        environment: |_| {
            vec![
                ("CLINE_TELEMETRY_DISABLED", "1".to_owned()),
                // On a busy machine, a plugin takes longer than the usual 4 seconds to start.
                ("CLINE_PLUGIN_IMPORT_TIMEOUT_MS", "60000".to_owned()),
            ]
        },
        words: |_, turn| match turn {
            Turn::First(prompt)
            | Turn::Next(prompt)
            | Turn::At { prompt, .. }
            | Turn::Command(prompt) => {
                to_words(["-P", "openai-compatible", "-m", "m", "--auto-approve", "true", prompt])
            }
        },
        leave: &["hub", "stop"],
        package_steps: &[],
        can_continue: false,
        write: |path, content| Reply::call("editor", json!({ "path": path, "new_text": content })),
        shell: |command| Reply::call("run_commands", json!({ "commands": [command] })),
        command: RollbackCommand::None,
        terminal: Some(TerminalUse {
            words: &["-i", "-P", "openai-compatible", "-m", "m", "--auto-approve", "true"],
            ready: "Auto-approve all enabled",
            questions: &[("any other key to close", "x")],
            way: WayBack::InPlace {
                typed: "/rollback 1",
                shown: "Cline continues there",
                logs: None,
                forward: Some("/rollback undo"),
            },
        }),
    },
    AgentProgram {
        name: "pi",
        package: "@earendil-works/pi-coding-agent",
        version: "0.73.1",
        former: Some(("@mariozechner/pi-coding-agent", "0.73.")),
        configuration: |url, _| {
            let provider = json!({
                "baseUrl": format!("{url}/v1"), "apiKey": KEY, "api": "openai-completions",
                "models": [{ "id": "m" }],
            });
            let models = json!({ "providers": { "script": provider } });
            vec![json_file(".pi/agent/models.json", &models)]
        },
        environment: |_| vec![("PI_OFFLINE", "1".to_owned())],
        words: |_, turn| {
            let mut all = to_words(["--provider", "script", "--model", "m", "-p"]);
            match turn {
                Turn::First(prompt) => all.push(prompt.to_owned()),
                Turn::Next(prompt) | Turn::Command(prompt) => {
                    all.extend(to_words([prompt, "--continue"]));
                }
                Turn::At { session, prompt, .. } => {
                    all.extend(to_words([prompt, "--session", session]));
                }
            }
            all
        },
        leave: &[],
        package_steps: &[],
        can_continue: true,
        write: |path, content| Reply::call("write", json!({ "path": path, "content": content })),
        shell: |command| Reply::call("bash", json!({ "command": command })),
        command: RollbackCommand::Withheld { typed: "/rollback", is_shown: true },
        terminal: Some(TerminalUse {
            words: &["--provider", "script", "--model", "m"],
            ready: "0.0%",
            questions: &[],
            way: WayBack::Command("/rollback 1"),
        }),
    },
];

/// Builds a call to the only tool that Codex offers to newer models. That tool runs a program,
/// which can use other tools.
fn codex_program(javascript: &str) -> Reply {
    Reply::call("exec", Value::String(javascript.to_owned()))
}

/// Finds the name of Droid's last conversation. Droid needs the name to continue the conversation,
/// but does not print it.
fn droid_session(home: &Path) -> String {
    let read = |directory: &Path| std::fs::read_dir(directory).into_iter().flatten().flatten();
    let projects = read(&home.join(".factory/sessions"));
    let files = projects.flat_map(|project| read(&project.path()));
    let sessions = files.filter_map(|file| {
        let name = file.file_name().to_string_lossy().strip_suffix(".jsonl")?.to_owned();
        Some((file.metadata().and_then(|metadata| metadata.modified()).ok()?, name))
    });
    sessions.max().map(|(_, name)| name).unwrap_or_default()
}
