//! What `install` adds to each agent's configuration.

use crate::files;

/// How long an agent waits for a hook, in seconds. It has a limit of its own that is far shorter,
/// but for a rollback that the user asked for.
pub(crate) const TIMEOUT: u64 = 120;

/// Where an agent looks for its configuration, and what is added there.
pub(crate) struct Wiring {
    /// Programs that show that the agent is on this machine.
    pub(crate) programs: &'static [&'static str],
    /// A variable of the environment that names the directory of the user's configuration, with
    /// what is appended to it.
    pub(crate) variable: Option<(&'static str, &'static str)>,
    /// That directory below the home directory, if the variable is not set.
    pub(crate) user: &'static str,
    /// The same in a project.
    pub(crate) project: &'static str,
    /// What is added.
    pub(crate) parts: &'static [Part],
    /// Where it can be told to run no hooks: a file, what is in it, and the value that means so.
    pub(crate) switch: Option<(&'static str, &'static str, bool)>,
    /// Whether it runs only hooks that the user has reviewed.
    pub(crate) is_reviewed: bool,
    /// What the user has to do then.
    pub(crate) afterwards: Option<&'static str>,
}

/// One file of an agent's configuration.
pub(crate) enum Part {
    /// Entries in a file of the user's.
    Hooks(Hooks),
    /// A file of our own.
    Own(Own),
}

/// Commands for events, in a file of the user's.
pub(crate) struct Hooks {
    pub(crate) file: &'static str,
    /// Another file that may have hooks in it. If it has, they go there.
    pub(crate) toml: Option<&'static str>,
    pub(crate) format: Format,
    pub(crate) events: &'static [&'static str],
    /// Events for which the agent allows less time than others, in seconds.
    pub(crate) limits: &'static [(&'static str, u64)],
}

/// How commands are written.
#[derive(Clone, Copy)]
pub(crate) enum Format {
    /// In groups with a matcher, as in Claude; times in seconds.
    Seconds,
    /// The same; times in milliseconds, and commands have names.
    Milliseconds,
    /// A plain list of commands, as in Cursor.
    Plain,
}

/// A file of our own.
pub(crate) struct Own {
    pub(crate) file: &'static str,
    /// What it contains. The first argument is what runs takeback.
    pub(crate) content: fn(&Program) -> String,
    pub(crate) executable: bool,
}

/// What runs takeback.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program and options for it.
    words: Vec<String>,
    /// Whether people share the configuration, some of whom do not have takeback.
    is_shared: bool,
}

impl Program {
    /// The program of this user: its path, and options that go in front of each command.
    pub fn own(words: Vec<String>) -> Program {
        Program { words, is_shared: false }
    }

    /// Whatever `takeback` is in whoever's PATH.
    pub fn shared() -> Program {
        Program { words: vec!["takeback".into()], is_shared: true }
    }

    /// The program, without options.
    pub(crate) fn name(&self) -> &str {
        self.words.first().map_or("takeback", String::as_str)
    }

    /// The words of a command.
    pub(crate) fn words(&self) -> &[String] {
        &self.words
    }

    /// A command for a shell.
    pub(crate) fn command(&self, rest: &str) -> String {
        let words: Vec<String> =
            self.words.iter().map(|word| takeback_undo::hook::quote_word(word)).collect();
        format!("{} {rest}", words.join(" "))
    }

    /// A command for a shell that does nothing where there is no takeback, or none any more.
    pub(crate) fn hook(&self, rest: &str) -> String {
        let command = self.command(rest);
        let test = match self.is_shared {
            true => "command -v takeback >/dev/null 2>&1".to_owned(),
            false => format!("[ -x {} ]", takeback_undo::hook::quote_word(self.name())),
        };
        format!("{test} || exit 0; exec {command}")
    }
}

const CLAUDE_HOOKS: &[&str] = &[
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "SessionEnd",
];

pub(crate) const CLAUDE: Wiring = Wiring {
    programs: &["claude"],
    variable: Some(("CLAUDE_CONFIG_DIR", "")),
    user: ".claude",
    project: ".claude",
    parts: &[
        Part::Hooks(Hooks {
            file: "settings.json",
            toml: None,
            format: Format::Seconds,
            events: &[
                "SessionStart",
                "UserPromptSubmit",
                "UserPromptExpansion",
                "PreToolUse",
                "PostToolUse",
                "PostToolUseFailure",
                "Stop",
                "SubagentStart",
                "SubagentStop",
                "SessionEnd",
            ],
            limits: &[],
        }),
        Part::Own(Own {
            file: "commands/rollback.md",
            content: |_| files::answered("claude", "rollback", "rollback"),
            executable: false,
        }),
        // /undo is another name of Claude's own /rewind.
        Part::Own(Own {
            file: "commands/takeback-undo.md",
            content: |_| files::answered("claude", "takeback-undo", "undo"),
            executable: false,
        }),
    ],
    switch: Some(("settings.json", "/disableAllHooks", true)),
    is_reviewed: false,
    afterwards: None,
};

pub(crate) const CODEX: Wiring = Wiring {
    programs: &["codex"],
    variable: Some(("CODEX_HOME", "")),
    user: ".codex",
    project: ".codex",
    parts: &[Part::Hooks(Hooks {
        file: "hooks.json",
        toml: Some("config.toml"),
        format: Format::Seconds,
        events: CLAUDE_HOOKS,
        limits: &[("SessionEnd", 3)],
    })],
    switch: Some(("config.toml", "/features/hooks", false)),
    is_reviewed: true,
    afterwards: Some(
        "Codex runs no hook that you have not reviewed, and says nothing: start codex, type /hooks \
         and trust those of takeback.",
    ),
};

pub(crate) const GEMINI: Wiring = Wiring {
    programs: &["gemini"],
    variable: Some(("GEMINI_CLI_HOME", ".gemini")),
    user: ".gemini",
    project: ".gemini",
    parts: &[
        Part::Hooks(Hooks {
            file: "settings.json",
            toml: None,
            format: Format::Milliseconds,
            // Not PreCompress: it comes before every request.
            events: &[
                "SessionStart",
                "BeforeAgent",
                "BeforeTool",
                "AfterTool",
                "AfterAgent",
                "SessionEnd",
            ],
            limits: &[],
        }),
        Part::Own(Own {
            file: "commands/rollback.toml",
            content: |program| files::gemini(program, "rollback"),
            executable: false,
        }),
        Part::Own(Own {
            file: "commands/undo.toml",
            content: |program| files::gemini(program, "undo"),
            executable: false,
        }),
    ],
    switch: Some(("settings.json", "/hooksConfig/enabled", false)),
    is_reviewed: false,
    afterwards: None,
};

pub(crate) const QWEN: Wiring = Wiring {
    programs: &["qwen"],
    variable: Some(("QWEN_HOME", "")),
    user: ".qwen",
    project: ".qwen",
    parts: &[
        Part::Hooks(Hooks {
            file: "settings.json",
            toml: None,
            format: Format::Milliseconds,
            events: CLAUDE_HOOKS,
            limits: &[],
        }),
        // /rollback is another name of Qwen's own /rewind.
        Part::Own(Own {
            file: "commands/takeback-rollback.md",
            content: |program| files::qwen(program, "rollback"),
            executable: false,
        }),
        Part::Own(Own {
            file: "commands/takeback-undo.md",
            content: |program| files::qwen(program, "undo"),
            executable: false,
        }),
    ],
    switch: Some(("settings.json", "/disableAllHooks", true)),
    is_reviewed: false,
    afterwards: None,
};

pub(crate) const COPILOT: Wiring = Wiring {
    programs: &["copilot"],
    variable: Some(("COPILOT_HOME", "")),
    user: ".copilot",
    project: ".github",
    parts: &[Part::Own(Own {
        file: "hooks/takeback.json",
        content: files::copilot,
        executable: false,
    })],
    switch: None,
    is_reviewed: false,
    afterwards: None,
};

pub(crate) const DROID: Wiring = Wiring {
    programs: &["droid"],
    variable: Some(("FACTORY_HOME_OVERRIDE", ".factory")),
    user: ".factory",
    project: ".factory",
    parts: &[
        Part::Hooks(Hooks {
            file: "settings.json",
            toml: None,
            format: Format::Seconds,
            events: CLAUDE_HOOKS,
            limits: &[],
        }),
        Part::Own(Own {
            file: "commands/rollback",
            content: |program| files::droid(program, "rollback"),
            executable: true,
        }),
        Part::Own(Own {
            file: "commands/undo",
            content: |program| files::droid(program, "undo"),
            executable: true,
        }),
    ],
    switch: Some(("settings.json", "/hooksDisabled", true)),
    is_reviewed: false,
    afterwards: None,
};

pub(crate) const CLINE: Wiring = Wiring {
    programs: &["cline"],
    variable: Some(("CLINE_DIR", "")),
    user: ".cline",
    project: ".cline",
    parts: &[
        cline("hooks/TaskStart.sh", |program| files::cline(program, "TaskStart")),
        cline("hooks/TaskResume.sh", |program| files::cline(program, "TaskResume")),
        cline("hooks/UserPromptSubmit.sh", |program| files::cline(program, "UserPromptSubmit")),
        cline("hooks/PreToolUse.sh", |program| files::cline(program, "PreToolUse")),
        cline("hooks/PostToolUse.sh", |program| files::cline(program, "PostToolUse")),
        cline("hooks/TaskComplete.sh", |program| files::cline(program, "TaskComplete")),
        cline("hooks/TaskCancel.sh", |program| files::cline(program, "TaskCancel")),
    ],
    switch: None,
    is_reviewed: false,
    afterwards: None,
};

const fn cline(file: &'static str, content: fn(&Program) -> String) -> Part {
    Part::Own(Own { file, content, executable: true })
}

pub(crate) const OPENCODE: Wiring = Wiring {
    programs: &["opencode"],
    variable: Some(("XDG_CONFIG_HOME", "opencode")),
    user: ".config/opencode",
    project: ".opencode",
    parts: &[Part::Own(Own {
        file: "plugins/takeback.js",
        content: files::opencode_plugin,
        executable: false,
    })],
    switch: None,
    is_reviewed: false,
    afterwards: Some(
        "opencode fetches a library for plugins when it starts next, which may take a minute, once.",
    ),
};

pub(crate) const PI: Wiring = Wiring {
    programs: &["pi"],
    variable: Some(("PI_CODING_AGENT_DIR", "")),
    user: ".pi/agent",
    project: ".pi",
    parts: &[Part::Own(Own {
        file: "extensions/takeback.ts",
        content: files::pi_extension,
        executable: false,
    })],
    switch: None,
    is_reviewed: false,
    afterwards: None,
};

pub(crate) const CURSOR: Wiring = Wiring {
    programs: &["cursor", "cursor-agent"],
    variable: None,
    user: ".cursor",
    project: ".cursor",
    parts: &[Part::Hooks(Hooks {
        file: "hooks.json",
        toml: None,
        format: Format::Plain,
        events: &[
            "sessionStart",
            "beforeSubmitPrompt",
            "preToolUse",
            "postToolUse",
            "postToolUseFailure",
            "stop",
            "sessionEnd",
        ],
        limits: &[],
    })],
    switch: None,
    is_reviewed: false,
    afterwards: None,
};

pub(crate) const GOOSE: Wiring = Wiring {
    programs: &["goose"],
    variable: None,
    user: ".agents/plugins/takeback",
    project: ".agents/plugins/takeback",
    parts: &[
        Part::Own(Own {
            file: "plugin.json",
            content: |_| files::goose_plugin(),
            executable: false,
        }),
        Part::Own(Own { file: "hooks/hooks.json", content: files::goose, executable: false }),
    ],
    switch: None,
    is_reviewed: false,
    afterwards: None,
};

#[cfg(test)]
mod tests {
    use crate::{AGENTS, LOGS};

    /// Hooks in a directory that an agent does not read protect nobody.
    #[test]
    fn configuration_and_logs_of_an_agent_are_in_the_same_home() {
        for format in LOGS {
            let wiring =
                AGENTS.iter().find(|agent| agent.name == format.agent).unwrap().wiring.unwrap();
            let variable = wiring.variable.map(|(variable, _)| variable);
            match format.agent {
                "opencode" => assert_eq!(variable, Some("XDG_CONFIG_HOME")),
                _ => assert_eq!(variable, format.variable, "{}", format.agent),
            }
        }
    }

    #[test]
    fn plugins_know_the_names_of_events_and_commands() {
        for (name, source) in [
            ("opencode", include_str!("../plugins/opencode.js")),
            ("pi", include_str!("../plugins/pi.ts")),
        ] {
            let agent = crate::agent(name).unwrap();
            for (event, _) in agent.events {
                assert!(source.contains(&format!("\"{event}\"")), "{name} {event}");
            }
            assert_eq!(source.matches("@TAKEBACK@").count(), 1);
        }
    }
}
