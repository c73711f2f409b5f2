//! What `install` adds to each agent's configuration.

use crate::files;

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
            self.words.iter().map(|word| takeback_undo::quoted(word)).collect();
        format!("{} {rest}", words.join(" "))
    }

    /// A command for a shell that does nothing where there is no takeback.
    pub(crate) fn hook(&self, rest: &str) -> String {
        let command = self.command(rest);
        if self.is_shared { format!("{IF_THERE}{command}") } else { command }
    }
}

/// What stands before a command that does nothing where there is no takeback.
pub(crate) const IF_THERE: &str = "command -v takeback >/dev/null 2>&1 || exit 0; exec ";

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
    is_reviewed: true,
    afterwards: Some(
        "Codex runs no hook that you have not reviewed, and says nothing: start codex, type /hooks \
         and trust those of takeback.",
    ),
};

pub(crate) const GEMINI: Wiring = Wiring {
    programs: &["gemini"],
    variable: None,
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
    is_reviewed: false,
    afterwards: None,
};

pub(crate) const QWEN: Wiring = Wiring {
    programs: &["qwen"],
    variable: None,
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
    is_reviewed: false,
    afterwards: None,
};

pub(crate) const DROID: Wiring = Wiring {
    programs: &["droid"],
    variable: None,
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
    is_reviewed: false,
    afterwards: None,
};

pub(crate) const CLINE: Wiring = Wiring {
    programs: &["cline"],
    variable: None,
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
    is_reviewed: false,
    afterwards: None,
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
    is_reviewed: false,
    afterwards: None,
};
