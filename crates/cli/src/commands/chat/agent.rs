//! Builds the agent from the settings, the options and the environment.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use takeback_base::hex;
use takeback_runtime::approval::ApprovalMode;
use takeback_runtime::model::{Client, ClientOptions, Provider};
use takeback_runtime::settings::{
    JournalPlace, ProviderChoice, ResolveError, resolve_fallback, resolve_provider,
};
use takeback_runtime::tools::{FetchSettings, ToolSettings, Tools};
use takeback_runtime::{Agent, NewSession, SharedJournal};

use crate::background;
use crate::commands::fleet::open_journal;
use crate::config::Config;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// The number of hexadecimal digits in the id of a task.
const ID_LENGTH: usize = 10;

/// The options that choose the model and the rules of the agent.
#[derive(Args, Clone, Default)]
pub(crate) struct AgentArguments {
    /// Use this provider [default: `chat.provider` in config.toml]
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Use this model of the provider
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The calls that you are asked about
    #[arg(long, value_name = "WHEN")]
    approve: Option<Approve>,
    /// Run every call without asking; the same as `--approve auto`
    #[arg(long, conflicts_with = "approve")]
    yolo: bool,
    /// Take checkpoints even if they are switched off
    #[arg(long, conflicts_with = "no_checkpoints")]
    checkpoints: bool,
    /// Take no checkpoints: nothing can be taken back
    #[arg(long)]
    no_checkpoints: bool,
    /// Read the system prompt from FILE
    #[arg(long, value_name = "FILE")]
    system: Option<std::path::PathBuf>,
}

impl AgentArguments {
    /// Returns the options with absolute paths, which do not depend on the current directory.
    pub(crate) fn with_whole_paths(self, context: &Context) -> AgentArguments {
        let system = self.system.map(|file| context.directory.join(file));
        AgentArguments { system, ..self }
    }

    /// Returns the options with a different model.
    pub(crate) fn with_model(&self, name: &str) -> AgentArguments {
        AgentArguments { model: Some(name.to_owned()), ..self.clone() }
    }
}

/// The choices for `--approve`.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Approve {
    /// Calls that no rollback takes back
    Effects,
    /// All calls that may change something
    Ask,
    /// No calls; all of them run
    Auto,
    /// No calls; those that need approval are refused
    Never,
}

impl Approve {
    fn mode(self) -> ApprovalMode {
        match self {
            Approve::Effects => ApprovalMode::Effects,
            Approve::Ask => ApprovalMode::Ask,
            Approve::Auto => ApprovalMode::Auto,
            Approve::Never => ApprovalMode::Never,
        }
    }
}

/// Returns the name of the model that a new conversation would use, with the name of its provider.
pub(crate) fn find_model(name: Option<&str>, context: &Context) -> Result<String, Failure> {
    let config = Config::read(&context.home, context.profile())?;
    let variable = |name: &str| context.variable(name)?.into_string().ok();
    let choice = ProviderChoice { provider: None, model: name };
    let provider = resolve_provider(&config.chat, &config.providers, choice, &variable)
        .map_err(|error| explain(&error, context))?;
    Ok(describe_model(&provider))
}

/// Explains an error about model providers, and names the file in which to fix it.
fn explain(error: &ResolveError, context: &Context) -> Failure {
    Failure::of_provider(error, &output::tilde(&context.home.join("config.toml"), context))
}

/// Describes a model: `m (local)`.
pub(crate) fn describe_model(provider: &Provider) -> String {
    output::disarm(&format!("{} ({})", provider.model, provider.name))
}

/// The agent, and the properties of the sessions that it begins.
pub(crate) struct BuiltAgent {
    pub(crate) agent: Arc<Agent>,
    pub(crate) new_session: NewSession,
    pub(crate) auto_resume: bool,
}

/// True if the settings say that the machines of the fleet share their tasks.
pub(crate) fn shares_tasks(context: &Context) -> Result<bool, Failure> {
    let settings = Config::read(&context.home, context.profile())?.chat;
    Ok(settings.journal == JournalPlace::Fleet)
}

/// Opens the journal that the machines of the fleet share, if the settings say that tasks are
/// shared. The journal connects to its database at the first step.
pub(crate) fn shared_journal(context: &Context) -> Result<Option<Arc<SharedJournal>>, Failure> {
    if !shares_tasks(context)? {
        return Ok(None);
    }
    let on_wait = |because: &str| {
        let because = output::disarm(because);
        eprintln!("The turn is waiting: {because}. Nothing is lost. Press Ctrl-C to stop waiting.");
    };
    Ok(Some(Arc::new(SharedJournal::new(open_journal(context)?, Box::new(on_wait)))))
}

/// Builds the agent.
pub(crate) fn build_agent(
    arguments: &AgentArguments,
    context: &Context,
) -> Result<BuiltAgent, Failure> {
    let config = Config::read(&context.home, context.profile())?;
    let variable = |name: &str| context.variable(name)?.into_string().ok();
    let choice = ProviderChoice {
        provider: arguments.provider.as_deref(),
        model: arguments.model.as_deref(),
    };
    let provider = resolve_provider(&config.chat, &config.providers, choice, &variable)
        .map_err(|error| explain(&error, context))?;
    let fallback = resolve_fallback(&config.chat, &config.providers, &variable)
        .map_err(|error| explain(&error, context))?;
    let system_prompt = match &arguments.system {
        Some(file) => read_system_prompt(&context.directory.join(file))?,
        None => match &config.chat.system_prompt {
            Some(text) => text.clone(),
            None => default_system_prompt(&context.directory),
        },
    };
    let opened = context.opened_arc()?.clone();
    let approve = arguments.approve.map_or(config.chat.approve, Approve::mode);
    let is_on = opened.settings().enabled || arguments.checkpoints;
    let keys: Vec<String> = [Some(&provider), fallback.as_ref()]
        .into_iter()
        .flatten()
        .filter_map(|p| p.key.clone())
        .collect();
    let background = context.in_directory(&context.directory);
    let agent = Agent {
        client: Client::new(ClientOptions {
            proxy: variable("https_proxy").or_else(|| variable("HTTPS_PROXY")),
            no_proxy: variable("no_proxy").or_else(|| variable("NO_PROXY")).unwrap_or_default(),
            ..ClientOptions::default()
        }),
        provider,
        fallback,
        tools: Tools::standard(&ToolSettings {
            environment: environment_without(&keys, context),
            home: context.user_home().map(Path::to_owned),
            fetch: config.chat.fetch_url.then(FetchSettings::default),
            ..ToolSettings::default()
        }),
        approval: if arguments.yolo { ApprovalMode::Auto } else { approve },
        has_checkpoints: is_on && !arguments.no_checkpoints,
        user_home: context.user_home().map(Path::to_owned),
        on_follow_up: Box::new(move |session, follow_up| {
            background::spawn_follow_up(&background, &follow_up, session, None);
        }),
        shared: shared_journal(context)?,
        opened,
    };
    let new_session =
        NewSession { system_prompt: Some(system_prompt), user: variable("USER"), title: None };
    Ok(BuiltAgent { agent: Arc::new(agent), new_session, auto_resume: config.chat.auto_resume })
}

/// Returns the environment of the model's commands. The keys of the providers are left out, so that
/// no command can print them.
fn environment_without(keys: &[String], context: &Context) -> Vec<(OsString, OsString)> {
    let is_key = |value: &OsString| keys.iter().any(|key| value == key.as_str());
    context.environment().into_iter().filter(|(_, value)| !is_key(value)).collect()
}

fn read_system_prompt(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file)
        .map_err(|error| Failure::new(format!("cannot read {}", file.display())).because(&error))
}

fn default_system_prompt(directory: &Path) -> String {
    format!(
        "You are a coding agent. You work in the directory {}. Use the tools to look before you \
         change anything, and check your work. Be brief.",
        directory.display()
    )
}

/// Generates the id of a task.
pub(crate) fn new_id() -> String {
    hex::random_digits(ID_LENGTH)
}
