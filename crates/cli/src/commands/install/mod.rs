//! `takeback install` and `takeback uninstall`: wiring agents, and taking that back.

mod list;
mod past;
mod show;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use takeback_agents::{
    AGENTS, Agent, InstallPlan, InstallScope, Installer, Program, WiringState, find_agent,
};

use self::show::{Direction, Outcome};
use crate::config::Config;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// Wire takeback into agents: hooks, and a /rollback command
///
/// Without arguments, lists the agents that are found on this machine. The files of an agent's
/// configuration are edited in place: only entries of takeback are added, and what was there before
/// is kept, so that `takeback uninstall` puts it back.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback install                     what is here, and what is wired
  takeback install claude codex        wire these two, for you, wherever you work
  takeback install --dry-run claude    show what would be written
  takeback install --import claude     and bring in its past conversations
  takeback install --project claude    for everybody who works in this project
  takeback uninstall claude            remove it again")]
pub(crate) struct Arguments {
    #[arg(value_name = "AGENT", help = format!("Which: {}", names()))]
    agents: Vec<String>,
    #[command(flatten)]
    scope: Scope,
    /// Show what would be written, and write nothing
    #[arg(long, conflicts_with = "import")]
    dry_run: bool,
    /// Also bring in the past conversations of these agents, so that they can be searched
    #[arg(long)]
    import: bool,
}

/// Remove takeback from agents' configurations
///
/// A file that is still as `takeback install` wrote it becomes what it was before, byte for byte. If
/// you changed it since, only the entries of takeback go. Without arguments: everything that was
/// ever installed, in all projects. Checkpoints and sessions stay.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback uninstall                   from all agents
  takeback uninstall claude
  takeback uninstall --project claude  what was installed for this project
  takeback uninstall --dry-run         show what would change")]
pub(crate) struct Removal {
    #[arg(value_name = "AGENT", help = format!("Which: {}", names()))]
    agents: Vec<String>,
    #[command(flatten)]
    scope: Scope,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Args)]
struct Scope {
    /// For you, wherever you work (the default)
    #[arg(long, conflicts_with = "project")]
    user: bool,
    /// For everybody who works in this project
    #[arg(long)]
    project: bool,
}

impl Scope {
    fn whom(&self, context: &Context) -> InstallScope {
        if self.project { project(context) } else { InstallScope::User }
    }
}

/// The project that one is in.
pub(super) fn project(context: &Context) -> InstallScope {
    // Settings do not matter for that, not even ones that cannot be read.
    let root = context.open_with(Config::default()).find_root(&context.directory);
    let root = root.unwrap_or_else(|_| context.directory.clone());
    InstallScope::Project(std::fs::canonicalize(&root).unwrap_or(root))
}

fn names() -> String {
    let wirable = AGENTS.iter().filter(|agent| agent.has_wiring());
    wirable.map(|agent| agent.name).collect::<Vec<_>>().join(", ")
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let whom = arguments.scope.whom(context);
    with_installer(&whom, context, |installer| {
        if arguments.agents.is_empty() {
            return list::run(installer, &whom, context);
        }
        let wanted = known(&arguments.agents)?;
        let plan = |agent| Outcome::planned(agent, installer.plan_install(agent, &whom));
        let outcomes = wanted.into_iter().map(plan).collect();
        let apply = |plan: &InstallPlan| installer.install(plan);
        let mut outcomes = go_through(outcomes, &apply, arguments.dry_run, context)?;
        if !arguments.dry_run {
            past::bring_in(&mut outcomes, arguments.import, context);
        }
        Ok(show::show(&outcomes, Direction::In, arguments.dry_run, context))
    })
}

pub(crate) fn remove(arguments: &Removal, context: &Context) -> Result<ExitCode, Failure> {
    let whom = arguments.scope.whom(context);
    with_installer(&whom, context, |installer| {
        let is_scoped = arguments.scope.user || arguments.scope.project;
        let wanted: Vec<(&'static Agent, InstallScope)> = if arguments.agents.is_empty() {
            let installed = installer.installations()?.into_iter();
            installed.filter(|(_, by)| !is_scoped || *by == whom).collect()
        } else {
            known(&arguments.agents)?.into_iter().map(|agent| (agent, whom.clone())).collect()
        };
        let plan = |(agent, whom): &(&'static Agent, InstallScope)| {
            Outcome::planned(agent, installer.plan_uninstall(agent, whom))
        };
        let outcomes = wanted.iter().map(plan).collect();
        let apply = |plan: &InstallPlan| installer.uninstall(plan);
        let outcomes = go_through(outcomes, &apply, arguments.dry_run, context)?;
        Ok(show::show(&outcomes, Direction::Out, arguments.dry_run, context))
    })
}

/// Shows what is planned, asks, and does it.
fn go_through(
    mut outcomes: Vec<Outcome>,
    apply: &dyn Fn(&InstallPlan) -> Result<(), takeback_agents::InstallError>,
    dry_run: bool,
    context: &Context,
) -> Result<Vec<Outcome>, Failure> {
    let changes = outcomes.iter().any(Outcome::changes);
    if dry_run || (changes && context.asks()) {
        show::diffs(&outcomes, context);
    }
    if !dry_run {
        if changes && context.asks() {
            output::go_on()?;
        }
        outcomes.iter_mut().for_each(|outcome| outcome.apply(apply));
    }
    Ok(outcomes)
}

pub(super) fn known(names: &[String]) -> Result<Vec<&'static Agent>, Failure> {
    let known = |name: &String| {
        let found = find_agent(name).filter(|agent| agent.has_wiring());
        found.ok_or_else(|| {
            let failure = Failure::new(format!("there is no agent {name:?} that can be wired"));
            match name.as_str() {
                "generic" => failure
                    .hint("an agent of your own runs `takeback hook generic` or `takeback rpc`"),
                _ => failure.hint(format!("it is one of {}", self::names())),
            }
        })
    };
    let mut agents: Vec<&'static Agent> = Vec::new();
    for name in names {
        let agent = known(name)?;
        if !agents.iter().any(|other| other.name == agent.name) {
            agents.push(agent);
        }
    }
    Ok(agents)
}

/// With everything that wiring depends on.
pub(super) fn with_installer<T>(
    whom: &InstallScope,
    context: &Context,
    work: impl FnOnce(&Installer<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let home = context.user_home().ok_or_else(|| {
        Failure::new("there is no home directory to find agents in").hint("set HOME")
    })?;
    let program = match whom {
        InstallScope::User => Program::of_user(program(context)?),
        InstallScope::Project(_) => Program::shared(),
    };
    let variable = |name: &str| context.variable(name);
    work(&Installer { takeback_home: &context.home, user_home: home, env_var: &variable, program })
}

/// What runs takeback for this user: as they would find it, so that it still does after an update.
fn program(context: &Context) -> Result<Vec<String>, Failure> {
    let this = std::env::current_exe()
        .map_err(|error| Failure::new("cannot tell where takeback is").because(&error))?;
    let path = context.variable("PATH").unwrap_or_default();
    let is_this = |path: &PathBuf| path.is_absolute() && is_same(path, &this);
    let typed = std::env::split_paths(&path).map(|at| at.join("takeback")).find(is_this);
    let text = |path: OsString| {
        path.into_string().map_err(|path| {
            Failure::new(format!("{} is not UTF-8", path.display()))
                .hint("move takeback to another place")
        })
    };
    let mut words = vec![text(typed.unwrap_or(this).into_os_string())?];
    // Agents may be started where the environment says nothing of it.
    if !context.is_home_usual() {
        words.extend(["--home".to_owned(), text(context.home.clone().into_os_string())?]);
    }
    Ok(words)
}

fn is_same(path: &Path, other: &Path) -> bool {
    let canonical = |path: &Path| std::fs::canonicalize(path).ok();
    canonical(path).is_some_and(|path| canonical(other) == Some(path))
}

/// How an agent is wired, in one word.
pub(super) fn word(wired: WiringState) -> &'static str {
    match wired {
        WiringState::Current => "installed",
        WiringState::Partial => "partly",
        WiringState::Outdated => "outdated",
        WiringState::Absent => "absent",
    }
}
