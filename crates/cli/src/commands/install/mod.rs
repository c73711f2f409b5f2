//! `takeback install` and `takeback uninstall`: add takeback to the configuration of agents, and
//! remove it.

mod list;
mod past_conversations;
mod report;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use takeback_agents::{
    AGENTS, Agent, InstallPlan, InstallScope, Installer, Program, WiringState, find_agent,
};
use takeback_base::text::find_similar;

use self::report::{AgentResult, Operation};
use crate::config::Config;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// Install takeback into agents: hooks, and a /rollback command
///
/// Without arguments, lists the agents that are found on this machine. Configuration files of
/// agents are edited in place: takeback only adds its own entries, and keeps a copy of the
/// original, so that `takeback uninstall` can restore it.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback install                     list the agents on this machine
  takeback install claude codex        into two agents, for all your projects
  takeback install --dry-run claude    show what would be written
  takeback install --import claude     also import past conversations
  takeback install --project claude    for everyone who works in this project
  takeback uninstall claude            remove it again")]
pub(crate) struct Arguments {
    #[arg(value_name = "AGENT", help = format!("The agents: {}", agent_names()))]
    agents: Vec<String>,
    #[command(flatten)]
    scope: ScopeArguments,
    /// Show what would be written, and write nothing
    #[arg(long, requires = "agents", conflicts_with = "import")]
    dry_run: bool,
    /// Also import the past conversations of these agents, so that they can be searched
    #[arg(long, requires = "agents")]
    import: bool,
}

/// Remove takeback from the configuration of agents
///
/// Without arguments, removes it from all agents and projects. A file that you have not changed
/// since `takeback install` gets its original content back, byte for byte. From a file that you
/// have changed, only takeback's entries are removed. Checkpoints and sessions are kept.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback uninstall                   from all agents and projects
  takeback uninstall claude
  takeback uninstall --project claude  only from this project
  takeback uninstall --dry-run         show what would change")]
pub(crate) struct UninstallArguments {
    #[arg(value_name = "AGENT", help = format!("The agents: {}", agent_names()))]
    agents: Vec<String>,
    #[command(flatten)]
    scope: ScopeArguments,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Args)]
struct ScopeArguments {
    /// Use your own configuration, for all your projects (the default)
    #[arg(long, conflicts_with = "project")]
    user: bool,
    /// Use the configuration of this project, for everyone who works in it
    #[arg(long)]
    project: bool,
}

impl ScopeArguments {
    fn to_scope(&self, context: &Context) -> InstallScope {
        if self.project { project_scope(context) } else { InstallScope::User }
    }

    /// Returns the scope to install into. Fails for a directory that can never be a workspace,
    /// because hooks there would apply to everything below it.
    fn to_install_scope(&self, context: &Context) -> Result<InstallScope, Failure> {
        let scope = self.to_scope(context);
        if let InstallScope::Project(project) = &scope
            && let Some(reason) = context.places.refusal(project)
        {
            let refused = format!("{} is not a project: it is {reason}", project.display());
            return Err(Failure::new(refused)
                .hint("change to a project, or drop --project to install for all your projects"));
        }
        Ok(scope)
    }
}

/// Returns the project that contains the current directory.
pub(super) fn project_scope(context: &Context) -> InstallScope {
    // The root of a project does not depend on settings, so a broken configuration does not matter.
    let root = context.open_with(Config::default()).find_root(&context.directory);
    let root = root.unwrap_or_else(|_| context.directory.clone());
    InstallScope::Project(std::fs::canonicalize(&root).unwrap_or(root))
}

fn agent_names() -> String {
    let agents = AGENTS.iter().filter(|agent| agent.has_wiring());
    agents.map(|agent| agent.name).collect::<Vec<_>>().join(", ")
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let scope = arguments.scope.to_install_scope(context)?;
    with_installer(&scope, context, |installer| {
        if arguments.agents.is_empty() {
            return list::run(installer, &scope, context);
        }
        let agents = find_agents(&arguments.agents)?;
        let plan = |agent| AgentResult::planned(agent, installer.plan_install(agent, &scope));
        let planned = agents.into_iter().map(plan).collect();
        let apply = |plan: &InstallPlan| installer.install(plan);
        let mut results = apply_plans(planned, &apply, arguments.dry_run, context)?;
        if !arguments.dry_run {
            past_conversations::import_past_conversations(&mut results, arguments.import, context);
        }
        Ok(report::print_results(&results, Operation::Install, arguments.dry_run, context))
    })
}

pub(crate) fn run_uninstall(
    arguments: &UninstallArguments,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let scope = arguments.scope.to_scope(context);
    with_installer(&scope, context, |installer| {
        let is_scoped = arguments.scope.user || arguments.scope.project;
        let installations: Vec<(&'static Agent, InstallScope)> = if arguments.agents.is_empty() {
            let all = installer.installations()?.into_iter();
            all.filter(|(_, installed)| !is_scoped || *installed == scope).collect()
        } else {
            let agents = find_agents(&arguments.agents)?.into_iter();
            agents.map(|agent| (agent, scope.clone())).collect()
        };
        let plan = |(agent, scope): &(&'static Agent, InstallScope)| {
            AgentResult::planned(agent, installer.plan_uninstall(agent, scope))
        };
        let planned = installations.iter().map(plan).collect();
        let apply = |plan: &InstallPlan| installer.uninstall(plan);
        let results = apply_plans(planned, &apply, arguments.dry_run, context)?;
        Ok(report::print_results(&results, Operation::Uninstall, arguments.dry_run, context))
    })
}

/// Applies the plans. On a terminal, shows the changes and asks for confirmation first. A dry run
/// only shows the changes.
fn apply_plans(
    mut results: Vec<AgentResult>,
    apply: &dyn Fn(&InstallPlan) -> Result<(), takeback_agents::InstallError>,
    dry_run: bool,
    context: &Context,
) -> Result<Vec<AgentResult>, Failure> {
    let changes = results.iter().any(AgentResult::has_changes);
    if dry_run || (changes && context.asks()) {
        report::print_diffs(&results, context);
    }
    if !dry_run {
        if changes && context.asks() {
            output::confirm()?;
        }
        results.iter_mut().for_each(|result| result.apply(apply));
    }
    Ok(results)
}

/// Finds agents by name, without duplicates.
pub(super) fn find_agents(names: &[String]) -> Result<Vec<&'static Agent>, Failure> {
    let unknown = |name: &str| {
        let failure = Failure::new(format!("takeback cannot be installed into {name:?}"));
        match name {
            "generic" => {
                failure.hint("your own agent can use `takeback hook generic` or `takeback rpc`")
            }
            name => match find_similar(name, AGENTS.iter().map(|agent| agent.name)) {
                Some(similar) => failure.hint(format!("did you mean `{similar}`?")),
                None => failure.hint(format!("supported agents: {}", agent_names())),
            },
        }
    };
    let mut agents: Vec<&'static Agent> = Vec::new();
    for name in names {
        let found = find_agent(name).filter(|agent| agent.has_wiring());
        let agent = found.ok_or_else(|| unknown(name))?;
        if !agents.iter().any(|other| other.name == agent.name) {
            agents.push(agent);
        }
    }
    Ok(agents)
}

/// Runs `work` with an installer for this user and scope.
pub(super) fn with_installer<T>(
    scope: &InstallScope,
    context: &Context,
    work: impl FnOnce(&Installer<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let home = context.user_home().ok_or_else(|| {
        Failure::new("cannot find agents: HOME is not set").hint("set HOME to your home directory")
    })?;
    let program = match scope {
        InstallScope::User => Program::of_user(takeback_command(context)?),
        InstallScope::Project(_) => Program::shared(),
    };
    let variable = |name: &str| context.variable(name);
    work(&Installer { takeback_home: &context.home, user_home: home, env_var: &variable, program })
}

/// Returns the command line that runs takeback for this user. If a directory in PATH contains this
/// program, or a link to it, uses the path there, because it stays valid after an update.
fn takeback_command(context: &Context) -> Result<Vec<String>, Failure> {
    let this = std::env::current_exe()
        .map_err(|error| Failure::new("cannot find the path of takeback").because(&error))?;
    let path = context.variable("PATH").unwrap_or_default();
    let is_this = |path: &PathBuf| path.is_absolute() && is_same_file(path, &this);
    let typed = std::env::split_paths(&path).map(|at| at.join("takeback")).find(is_this);
    let text = |path: OsString| {
        path.into_string().map_err(|path| {
            Failure::new(format!("{} is not UTF-8", path.display()))
                .hint("move takeback to a directory with a name in UTF-8")
        })
    };
    let mut words = vec![text(typed.unwrap_or(this).into_os_string())?];
    // Agents may be started without TAKEBACK_HOME in their environment.
    if !context.is_home_usual() {
        words.extend(["--home".to_owned(), text(context.home.clone().into_os_string())?]);
    }
    Ok(words)
}

fn is_same_file(path: &Path, other: &Path) -> bool {
    let canonical = |path: &Path| std::fs::canonicalize(path).ok();
    canonical(path).is_some_and(|path| canonical(other) == Some(path))
}

/// Returns the name of a state, as it appears in JSON and in text.
pub(super) fn state_name(state: WiringState) -> &'static str {
    match state {
        WiringState::Current => "installed",
        WiringState::Partial => "partly",
        WiringState::Outdated => "outdated",
        WiringState::Absent => "absent",
    }
}
