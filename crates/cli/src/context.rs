//! What a command works with: the only place that looks at the environment.

use std::env;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use takeback_agents::LogFormat;
use takeback_ledger::{Ledger, Options, Time};
use takeback_tree::{Places, RelPath, Workspace};
use takeback_undo::{Keeper, Setting};

use crate::config::Config;
use crate::failure::Failure;
use crate::output;

const GLOBAL: &str = "Global options";

/// Options that every command takes.
#[derive(Args)]
pub(crate) struct Globals {
    /// Work as if started in DIR
    #[arg(short = 'C', value_name = "DIR", global = true, help_heading = GLOBAL)]
    directory: Option<PathBuf>,
    /// Takeback's own directory [default: $TAKEBACK_HOME or ~/.takeback]
    #[arg(long, value_name = "DIR", global = true, help_heading = GLOBAL)]
    home: Option<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,
    /// Skip the confirmation
    #[arg(short, long, global = true, help_heading = GLOBAL)]
    pub(crate) yes: bool,
    /// List all paths, however many
    #[arg(short, long, global = true, help_heading = GLOBAL)]
    pub(crate) verbose: bool,
    /// When to use colours
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        global = true,
        help_heading = GLOBAL
    )]
    pub(crate) color: Color,
    /// Print long output at once [a pager is $TAKEBACK_PAGER, $PAGER or less]
    #[arg(long, global = true, help_heading = GLOBAL)]
    no_pager: bool,
}

/// When to use colours.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Color {
    /// On a terminal
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Switches all checkpoints off if it is `0`.
const SWITCH: &str = "TAKEBACK_CHECKPOINTS";

/// Everything from outside that a command needs.
pub(crate) struct Context {
    pub(crate) globals: Globals,
    /// The directory to work in, absolute.
    pub(crate) directory: PathBuf,
    /// Takeback's own directory.
    pub(crate) home: PathBuf,
    pub(crate) places: Places,
}

impl Context {
    /// `is_hook`: the directory that counts is in what is reported, so this one may be gone.
    pub(crate) fn new(globals: Globals, is_hook: bool) -> Result<Context, Failure> {
        let current = match env::current_dir() {
            Err(_) if is_hook => PathBuf::from("/"),
            current => current.map_err(|error| {
                Failure::new("cannot tell the current directory")
                    .because(&error)
                    .hint("if it is gone: change to another one and name it with -C DIR")
            })?,
        };
        let directory = current.join(globals.directory.as_deref().unwrap_or(Path::new("")));
        let user = env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        let home =
            match (&globals.home, env::var_os("TAKEBACK_HOME").filter(|home| !home.is_empty())) {
                (Some(home), _) => current.join(home),
                (None, Some(home)) => current.join(home),
                (None, None) => match &user {
                    Some(user) => user.join(".takeback"),
                    None => {
                        return Err(Failure::new(
                            "there is no home directory to keep checkpoints in",
                        )
                        .hint("set HOME or TAKEBACK_HOME, or pass --home DIR"));
                    }
                },
            };
        let temporary = ["/tmp", "/var/tmp", "/private/tmp"].map(PathBuf::from).into_iter();
        let places = Places {
            home: user,
            temporary: temporary.chain([env::temp_dir()]).collect(),
            own: Some(home.clone()),
        };
        Ok(Context { globals, directory, home, places })
    }

    /// The same for another directory and another home, where nobody is asked.
    pub(crate) fn elsewhere(&self, directory: &Path, home: &Path) -> Context {
        let globals = Globals {
            directory: None,
            home: None,
            json: false,
            yes: true,
            verbose: false,
            color: self.globals.color,
            no_pager: true,
        };
        let places = Places { own: Some(home.to_owned()), ..self.places.clone() };
        Context { globals, directory: directory.to_owned(), home: home.to_owned(), places }
    }

    /// Returns the pager's program and arguments. `None` if long output is to be printed at once:
    /// the user says so, or a program reads it, or the terminal cannot show a pager.
    pub(crate) fn pager(&self) -> Option<Vec<String>> {
        let is_dumb = self.variable("TERM").is_none_or(|term| term == "dumb");
        if self.globals.no_pager || self.globals.json || is_dumb || !std::io::stdout().is_terminal()
        {
            return None;
        }
        let chosen = env::var_os("TAKEBACK_PAGER").or_else(|| env::var_os("PAGER"));
        let words = match chosen {
            Some(text) => takeback_agents::split_words(&text.to_string_lossy()),
            None => ["less", "-FRX"].map(str::to_owned).to_vec(),
        };
        let is_pager = words.first().is_some_and(|program| program != "cat");
        is_pager.then_some(words)
    }

    /// A variable of the environment.
    pub(crate) fn variable(&self, name: &str) -> Option<std::ffi::OsString> {
        env::var_os(name).filter(|value| !value.is_empty())
    }

    /// Whether takeback's own directory is where it is if nobody says anything.
    pub(crate) fn is_home_usual(&self) -> bool {
        self.user_home().is_some_and(|user| self.home == user.join(".takeback"))
    }

    /// Whether the environment switches checkpoints off.
    pub(crate) fn is_switched_off(&self) -> bool {
        env::var_os(SWITCH).is_some_and(|value| value == "0")
    }

    /// What keeps checkpoints, as configured.
    pub(crate) fn keeper(&self) -> Result<Keeper, Failure> {
        Ok(self.keeper_with(Config::read(&self.home)?))
    }

    pub(crate) fn keeper_with(&self, config: Config) -> Keeper {
        let mut settings = config.checkpoints;
        settings.enabled &= !self.is_switched_off();
        Keeper::new(Setting {
            home: self.home.clone(),
            places: self.places.clone(),
            settings,
            redact: config.ledger.redact,
            clock: SystemTime::now,
            on_recovery: output::report_recovery,
            resume: takeback_agents::resume_hint,
        })
    }

    /// Whether somebody is there who can be asked, and wants to be.
    pub(crate) fn asks(&self) -> bool {
        !self.globals.yes && !self.globals.json && std::io::stdin().is_terminal()
    }

    pub(crate) fn now(&self) -> Time {
        Time::from(SystemTime::now())
    }

    /// The home directory of the user, not takeback's.
    pub(crate) fn user_home(&self) -> Option<&Path> {
        self.places.home.as_deref()
    }

    /// The root of the workspace that a directory is in; itself if it is gone.
    pub(crate) fn root(&self, directory: &Path) -> PathBuf {
        takeback_undo::root_of(directory, &self.places)
            .map_or_else(|_| directory.to_owned(), |root| root.path)
    }

    /// Where an agent keeps its logs.
    pub(crate) fn logs_of(&self, format: &LogFormat) -> Option<PathBuf> {
        let told = format.env_var.and_then(env::var_os).filter(|told| !told.is_empty());
        let home = match told {
            Some(told) => self.directory.join(told),
            None => self.user_home()?.join(format.home_directory),
        };
        Some(home.join(format.log_directory))
    }

    /// Where the ledger is.
    pub(crate) fn ledger_path(&self) -> PathBuf {
        self.home.join("state.db")
    }

    pub(crate) fn ledger(&self) -> Result<Ledger, Failure> {
        let redact = Config::read(&self.home)?.ledger.redact;
        Ok(Ledger::open(&self.ledger_path(), &Options { redact, ..Options::default() })?)
    }

    /// A path as typed → the path inside the workspace. Literal: no patterns, links not followed.
    pub(crate) fn inside(
        &self,
        workspace: &Workspace<'_>,
        typed: &Path,
    ) -> Result<RelPath, Failure> {
        use std::os::unix::ffi::OsStrExt;
        use std::path::Component;
        let outside = || {
            Failure::new(format!(
                "{} is outside of the workspace {}",
                typed.display(),
                workspace.path().display()
            ))
            .hint("give paths inside the workspace")
        };
        // A path is meant from where one stands, which may be below the workspace's root.
        let here = std::fs::canonicalize(&self.directory).unwrap_or(self.directory.clone());
        let base = if here.is_dir() { &here } else { workspace.path() };
        let mut path = PathBuf::new();
        for component in base.join(typed).components() {
            match component {
                Component::CurDir => {}
                Component::ParentDir => {
                    path.pop();
                }
                other => path.push(other),
            }
        }
        // The workspace's path is canonical; one typed in full may lead there through links.
        let inner = match path.strip_prefix(workspace.path()) {
            Ok(inner) => inner.to_owned(),
            Err(_) => {
                let (parent, name) = (path.parent(), path.file_name());
                let (parent, name) = parent.zip(name).ok_or_else(outside)?;
                let existing = parent.ancestors().find_map(|ancestor| {
                    let canonical = std::fs::canonicalize(ancestor).ok()?;
                    Some(canonical.join(parent.strip_prefix(ancestor).ok()?))
                });
                let path = existing.ok_or_else(outside)?.join(name);
                path.strip_prefix(workspace.path()).map_err(|_| outside())?.to_owned()
            }
        };
        RelPath::new(inner.as_os_str().as_bytes()).map_err(|_| outside())
    }
}
