//! The context of a command: global options, directories, environment. Apart from the pager, no
//! other module reads environment variables.

use std::env;
use std::fs;
use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use clap::Args;
use rustix::process::geteuid;
use takeback_agents::{Agent, LOG_FORMATS, LogFormat};
use takeback_base::lock_wait::LockWait;
use takeback_base::scratch;
use takeback_ledger::Time;
use takeback_runtime::settings::PriceList;
use takeback_tree::ForbiddenRoots;
use takeback_undo::{LedgerGuard, OpenOptions, Opened, OwnConversations};

use crate::config::Config;
use crate::failure::Failure;
use crate::output;

/// The heading above the options that every command accepts.
pub(crate) const GLOBAL_OPTIONS: &str = "Global options";

/// Options that every command takes.
#[derive(Args, Clone)]
pub(crate) struct Globals {
    /// Work as if started in DIR
    #[arg(short = 'C', value_name = "DIR", global = true, help_heading = GLOBAL_OPTIONS)]
    directory: Option<PathBuf>,
    /// Takeback's own directory [default: $TAKEBACK_HOME or ~/.takeback]
    #[arg(long, value_name = "DIR", global = true, help_heading = GLOBAL_OPTIONS)]
    home: Option<PathBuf>,
    /// Use the settings in [profiles.NAME] of config.toml [default: $TAKEBACK_PROFILE]
    #[arg(long, value_name = "NAME", global = true, help_heading = GLOBAL_OPTIONS)]
    profile: Option<String>,
    /// Print one JSON document instead of text
    #[arg(long, global = true, help_heading = GLOBAL_OPTIONS)]
    pub(crate) json: bool,
    /// Skip the confirmation
    #[arg(short, long, global = true, help_heading = GLOBAL_OPTIONS)]
    pub(crate) yes: bool,
    /// List all paths instead of the first few
    #[arg(short, long, global = true, help_heading = GLOBAL_OPTIONS)]
    pub(crate) verbose: bool,
    /// Color the output
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        global = true,
        help_heading = GLOBAL_OPTIONS
    )]
    pub(crate) color: Color,
    /// Do not use a pager for long output [the pager: $TAKEBACK_PAGER, $PAGER, or less]
    #[arg(long, global = true, help_heading = GLOBAL_OPTIONS)]
    no_pager: bool,
    /// End the process after this many seconds
    #[arg(long, value_name = "SECONDS", global = true, hide = true)]
    pub(crate) end_after: Option<u64>,
    /// The session of an agent in which the user typed the command, or the agent's name
    #[arg(long, value_name = "SESSION", global = true, hide = true)]
    pub(crate) typed_in: Option<String>,
}

/// The choices for `--color`. The variants have no docs, because docs would lengthen every help
/// text.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

/// Returns the pager's program and arguments. Returns `None` if long output is to be printed
/// directly: the user asked for that, a program reads the output, or the terminal cannot run a
/// pager.
pub(crate) fn find_pager(is_unwanted: bool) -> Option<Vec<String>> {
    let is_dumb = env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    if is_unwanted || is_dumb || !std::io::stdout().is_terminal() {
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

/// Reads an environment variable that an agent or a shell sets.
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}

/// The maximum time that a user's command waits for other processes, and the function that tells
/// the user that the command is waiting.
pub(crate) const LOCK_WAIT: LockWait =
    LockWait { limit: Duration::from_secs(10), on_wait: output::report_waiting };

/// The variable that switches all checkpoints off if its value is one of [`OFF`].
const SWITCH: &str = "TAKEBACK_CHECKPOINTS";

/// The values of [`SWITCH`] that switch checkpoints off, in upper or lower case.
const OFF: [&str; 4] = ["0", "false", "off", "no"];

/// The variable that chooses a profile, unless `--profile` does.
pub(crate) const PROFILE: &str = "TAKEBACK_PROFILE";

/// The kind of caller that runs a command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A user, who waits for the command.
    User,
    /// An agent, or takeback itself in the background.
    Agent,
}

/// Refuses a home that belongs to another user, or that other users can write to: they could plant
/// states in it that a rollback would restore.
fn check_home(home: &Path) -> Result<(), Failure> {
    let Ok(found) = fs::metadata(home) else { return Ok(()) };
    let user = geteuid();
    let is_foreign = found.uid() != user.as_raw() && !user.is_root();
    let is_open = found.mode() & 0o022 != 0;
    if !is_foreign && !is_open {
        return Ok(());
    }
    let home = home.display();
    let problem = match is_foreign {
        true => format!("takeback's home {home} belongs to another user"),
        false => format!("other users can write to takeback's home {home}"),
    };
    let choose = "choose another directory with TAKEBACK_HOME or --home DIR";
    Err(Failure::new(problem).hint(match is_foreign {
        true => choose.to_owned(),
        false => format!("run `chmod go-w {home}`, or {choose}"),
    }))
}

/// Returns true if an agent is known to report the end of each call. takeback's own agent and
/// `takeback run` do, and so do the agents that takeback installs its hooks in.
fn reports_ends(agent: &str) -> bool {
    let has_hooks = takeback_agents::find_agent(agent).is_some_and(Agent::has_wiring);
    has_hooks || [takeback_runtime::AGENT, "run"].contains(&agent)
}

/// The options, directories and environment that a command works with.
pub(crate) struct Context {
    pub(crate) globals: Globals,
    /// The directory to work in, as an absolute path.
    pub(crate) directory: PathBuf,
    /// Takeback's home: its store, ledger and configuration.
    pub(crate) home: PathBuf,
    /// The name of the profile whose settings take precedence.
    profile: Option<String>,
    /// True if a user is waiting for the command.
    is_attended: bool,
    pub(crate) places: ForbiddenRoots,
    /// Takeback's home, opened on first use.
    opened: OnceLock<Arc<Opened>>,
    /// The prices of models, read on first use.
    prices: OnceLock<Arc<PriceList>>,
}

impl Context {
    /// Reads the options and the environment. If an agent runs the command, the current directory
    /// need not exist: the command works in the directory that the agent reports.
    pub(crate) fn new(globals: Globals, caller: Caller) -> Result<Context, Failure> {
        let current = match env::current_dir() {
            Err(_) if caller == Caller::Agent => PathBuf::from("/"),
            current => current.map_err(|error| {
                Failure::new("cannot find the current directory")
                    .because(&error)
                    .hint("change to an existing directory, and name the workspace with -C DIR")
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
                        return Err(Failure::new("no home directory to keep checkpoints in")
                            .hint("set HOME or TAKEBACK_HOME, or pass --home DIR"));
                    }
                },
            };
        check_home(&home)?;
        let temporary = ["/tmp", "/var/tmp", "/private/tmp"].map(PathBuf::from).into_iter();
        let temporary = temporary.chain([env::temp_dir()]).collect();
        let places = ForbiddenRoots::new(user, temporary, Some(home.clone()));
        let profile = env::var_os(PROFILE).map(|name| name.to_string_lossy().into_owned());
        let profile = globals.profile.clone().or(profile).filter(|name| !name.is_empty());
        Ok(Context {
            globals,
            directory,
            home,
            profile,
            is_attended: caller == Caller::User,
            places,
            opened: OnceLock::new(),
            prices: OnceLock::new(),
        })
    }

    /// Creates the context for this command in another directory. The new context shares the opened
    /// home.
    pub(crate) fn moved_to(&self, directory: &Path) -> Context {
        Context {
            globals: self.globals.clone(),
            directory: self.directory.join(directory),
            home: self.home.clone(),
            profile: self.profile.clone(),
            is_attended: self.is_attended,
            places: self.places.clone(),
            opened: self.opened.clone(),
            prices: self.prices.clone(),
        }
    }

    /// Creates the context for a command that the user typed in an agent's session.
    pub(crate) fn typed_in(&self, session: Option<&str>) -> Context {
        let mut context = self.moved_to(&self.directory);
        context.globals.typed_in = session.map(str::to_owned);
        context
    }

    /// Creates the context for a command that works in another directory and asks no questions. The
    /// new context shares the opened home.
    pub(crate) fn in_directory(&self, directory: &Path) -> Context {
        let (opened, profile) = (self.opened.clone(), self.profile.clone());
        let prices = self.prices.clone();
        Context { opened, profile, prices, ..self.in_home(directory, &self.home) }
    }

    /// Creates the context for a command that works with another home and asks no questions. The
    /// profile is not used, because it may not exist in the other home.
    pub(crate) fn in_home(&self, directory: &Path, home: &Path) -> Context {
        let globals = Globals {
            directory: None,
            home: None,
            profile: None,
            json: false,
            yes: true,
            verbose: false,
            color: self.globals.color,
            no_pager: true,
            end_after: None,
            typed_in: None,
        };
        let places = self.places.with_own(home);
        let (directory, home) = (directory.to_owned(), home.to_owned());
        let (is_attended, opened, prices) = (self.is_attended, OnceLock::new(), OnceLock::new());
        Context { globals, directory, home, profile: None, is_attended, places, opened, prices }
    }

    /// Returns the pager's program and arguments, or `None` if long output is to be printed
    /// directly.
    pub(crate) fn pager(&self) -> Option<Vec<String>> {
        find_pager(self.globals.no_pager || self.globals.json)
    }

    /// True if standard output is a terminal that can show more than plain lines, and the user has
    /// given neither `--json` nor `--no-pager`.
    pub(crate) fn is_interactive(&self) -> bool {
        let is_dumb = self.variable("TERM").is_none_or(|term| term == "dumb");
        let is_plain = self.globals.json || self.globals.no_pager;
        !is_dumb && !is_plain && std::io::stdout().is_terminal()
    }

    /// Returns the value of an environment variable, unless it is empty.
    pub(crate) fn variable(&self, name: &str) -> Option<std::ffi::OsString> {
        env::var_os(name).filter(|value| !value.is_empty())
    }

    /// Returns the name of the profile whose settings take precedence.
    pub(crate) fn profile(&self) -> Option<&str> {
        self.profile.as_deref()
    }

    /// Returns the whole environment, for programs that takeback starts on the user's behalf.
    pub(crate) fn environment(&self) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
        env::vars_os().collect()
    }

    /// True if takeback's home is at its default location.
    pub(crate) fn is_home_usual(&self) -> bool {
        self.user_home().is_some_and(|user| self.home == user.join(".takeback"))
    }

    /// True if the environment switches checkpoints off.
    pub(crate) fn is_switched_off(&self) -> bool {
        let value = env::var_os(SWITCH).unwrap_or_default();
        OFF.iter().any(|off| value.eq_ignore_ascii_case(off))
    }

    /// Opens takeback's home with the configured settings. The configuration is read only once.
    pub(crate) fn opened(&self) -> Result<&Opened, Failure> {
        Ok(self.opened_arc()?)
    }

    /// Opens takeback's home in a form that several threads can share.
    pub(crate) fn opened_arc(&self) -> Result<&Arc<Opened>, Failure> {
        if self.opened.get().is_none() {
            let config = Config::read(&self.home, self.profile())?;
            let _ = self.opened.set(Arc::new(self.open_with(config)));
        }
        Ok(self.opened.get().expect("it was just set"))
    }

    /// Opens takeback's home even if the configuration is invalid, and prints a warning in that
    /// case: a mistake in the settings must never prevent a rollback.
    pub(crate) fn opened_anyway(&self) -> Result<&Opened, Failure> {
        if self.opened.get().is_none() {
            let (config, problem) = Config::read_anyway(&self.home, self.profile());
            if let Some(problem) = problem {
                output::warn(&format!("{problem}; continuing with the valid settings"));
            }
            let _ = self.opened.set(Arc::new(self.open_with(config)));
        }
        self.opened()
    }

    /// Returns the prices of models.
    pub(crate) fn prices(&self) -> &PriceList {
        self.prices.get_or_init(|| {
            let config = Config::read_anyway(&self.home, self.profile()).0;
            Arc::new(config.prices)
        })
    }

    /// Returns the directory for the copies that imports make. It is beside the ledger, because the
    /// copies are private and may be large. takeback deletes everything in this directory, and the
    /// user may have chosen a home that also holds other files. The directory therefore has a name
    /// that none of those files is likely to have.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.home.join("import-copies")
    }

    /// Opens takeback's home with a configuration. Removes the copies that a killed import left
    /// behind.
    pub(crate) fn open_with(&self, config: Config) -> Opened {
        let _ = scratch::sweep(&self.scratch());
        let mut settings = config.checkpoints;
        settings.enabled &= !self.is_switched_off();
        let mut protection = config.protection;
        let expand = |path: PathBuf| match (path.strip_prefix("~"), self.user_home()) {
            (Ok(inner), Some(home)) => home.join(inner),
            _ => path,
        };
        protection.mirror = protection.mirror.map(expand);
        Opened::new(OpenOptions {
            home: self.home.clone(),
            forbidden: self.places.clone(),
            settings,
            protection,
            redact: config.ledger.redact,
            clock: SystemTime::now,
            on_recovery: output::report_recovery,
            resume_hint: takeback_agents::resume_hint,
            find_hook_files: takeback_agents::find_hook_files,
            reports_ends,
            conversations: self.own_conversations(),
            lock_wait: self.is_attended.then_some(LOCK_WAIT),
        })
    }

    fn own_conversations(&self) -> OwnConversations {
        let directory = |format: &LogFormat| Some((format.agent.to_owned(), self.logs_of(format)?));
        OwnConversations {
            log_directories: LOG_FORMATS.iter().filter_map(directory).collect(),
            follow: Some(takeback_agents::follow_session),
            name_fork: Some(takeback_agents::name_fork),
            typed_in: self.globals.typed_in.clone(),
            on_recovery: Some(output::report_continuation),
        }
    }

    /// Drops the opened home, so that the next use opens it again. This is needed if another
    /// process has changed the configuration or the store.
    pub(crate) fn reopen(&mut self) {
        self.opened = OnceLock::new();
        self.prices = OnceLock::new();
    }

    /// Closes the ledger if it is open, so that other processes can repair it.
    pub(crate) fn close_ledger(&self) {
        if let Some(opened) = self.opened.get() {
            opened.close_ledger();
        }
    }

    /// True if takeback may ask the user: standard input is a terminal, and neither `--yes` nor
    /// `--json` is given.
    pub(crate) fn asks(&self) -> bool {
        !self.globals.yes && !self.globals.json && std::io::stdin().is_terminal()
    }

    pub(crate) fn now(&self) -> Time {
        Time::from(SystemTime::now())
    }

    /// Returns the user's home directory.
    pub(crate) fn user_home(&self) -> Option<&Path> {
        self.places.home()
    }

    /// Returns Hermes's directory: `HERMES_HOME`, or `~/.hermes`.
    pub(crate) fn hermes_home(&self) -> Option<PathBuf> {
        match self.variable("HERMES_HOME") {
            Some(set) => Some(self.directory.join(set)),
            None => Some(self.user_home()?.join(".hermes")),
        }
    }

    /// Warns if the user names a directory that does not exist. The user may want to restore the
    /// workspace that it belonged to, but may also have mistyped the name.
    pub(crate) fn warn_of_missing_directory(&self) {
        if let Some(typed) = self.globals.directory.as_ref().filter(|_| self.is_attended)
            && self.directory.symlink_metadata().is_err()
        {
            let typed = typed.display();
            output::warn(&format!(
                "{typed} does not exist; using the workspace that it belongs to"
            ));
        }
    }

    /// Returns the root of the workspace that contains a directory, or the directory itself if
    /// there is no such root.
    pub(crate) fn root(&self, directory: &Path) -> PathBuf {
        takeback_undo::root_of(directory, &self.places)
            .map_or_else(|_| directory.to_owned(), |root| root.path)
    }

    /// Returns the directory in which an agent keeps its logs.
    pub(crate) fn logs_of(&self, format: &LogFormat) -> Option<PathBuf> {
        let set = format.env_var.and_then(|name| self.variable(name));
        let home = match set {
            Some(set) => self.directory.join(set),
            None => self.user_home()?.join(format.home_directory),
        };
        Some(home.join(format.log_directory))
    }

    /// Returns the path of the ledger.
    pub(crate) fn ledger_path(&self) -> PathBuf {
        self.home.join("state.db")
    }

    /// Opens the ledger, or creates it if it does not exist. The caller must not call this again
    /// while it holds the guard.
    pub(crate) fn ledger(&self) -> Result<LedgerGuard<'_>, Failure> {
        Ok(self.opened()?.ledger_or_new()?)
    }
}
