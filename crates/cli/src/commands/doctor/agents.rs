//! Checks of the agents: whether their hooks are installed, up to date, enabled and reviewed.

use serde::Serialize;
use takeback_agents::{AGENTS, Agent, HookReview, InstallScope, Installer, WiringState};
use takeback_ledger::Time;

use super::Problem;
use crate::commands::install;
use crate::context::Context;
use crate::failure::{self, Failure};
use crate::fired;
use crate::output;

#[derive(Serialize)]
pub(crate) struct AgentView {
    pub(crate) agent: &'static str,
    pub(crate) title: &'static str,
    /// True if the hooks were tested with the real program, not just written according to its
    /// documentation.
    pub(crate) proven: bool,
    pub(crate) found: bool,
    /// The state of takeback in the user's configuration: `installed`, `partly`, `outdated`,
    /// `absent` or `unreadable`.
    pub(crate) user: &'static str,
    /// The state of takeback in the current project's configuration.
    pub(crate) project: &'static str,
    /// The time at which one of the agent's hooks last ran, in RFC 3339.
    pub(crate) last_fired: Option<String>,
    /// The number of hooks that the user has reviewed, and the number of all hooks. Set only for
    /// agents that require a review before they run a hook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reviewed: Option<[usize; 2]>,
    pub(crate) not_covered: &'static [&'static str],
}

/// Checks the named agents or, if no names are given, all agents on this machine.
pub(crate) fn check_agents(
    names: &[String],
    context: &Context,
    problems: &mut Vec<Problem>,
) -> Result<Vec<AgentView>, Failure> {
    let named = install::find_agents(names)?;
    let project = install::project_scope(context);
    let mut views = Vec::new();
    for agent in AGENTS.iter().filter(|agent| agent.has_wiring()) {
        let is_named = named.iter().any(|other| other.name == agent.name);
        if !names.is_empty() && !is_named {
            continue;
        }
        let mut check = |scope: &InstallScope| {
            install::with_installer(scope, context, |installer| {
                Ok(ScopeCheck { agent, installer, scope, context }.run(problems))
            })
        };
        let user = check(&InstallScope::User)?;
        let project = check(&project)?;
        if user.runs_hooks() && project.runs_hooks() {
            let message = format!("the hooks in {} run twice in this project", agent.title);
            let hint = format!(
                "`takeback uninstall --project {}` removes those of the project",
                agent.name
            );
            problems.push(Problem::new(message, hint));
        }
        if !user.is_agent_present && !user.is_installed() && !project.is_installed() && !is_named {
            continue;
        }
        if user.is_agent_present && !user.is_installed() && !project.is_installed() {
            let (what, them) = match agent.is_editor() {
                true => ("no agent is set up to run through takeback", "adds some agents"),
                false => ("hooks not installed", "installs them"),
            };
            let message = format!("{}: {what}", agent.title);
            let hint = format!("`takeback install {}` {them}", agent.name);
            problems.push(Problem::new(message, hint));
        }
        let review = user.review.or(project.review).filter(|review| review.total > 0);
        views.push(AgentView {
            agent: agent.name,
            title: agent.title,
            proven: agent.proven,
            found: user.is_agent_present,
            user: user.state,
            project: project.state,
            last_fired: fired::last_run(&context.home, agent.name).map(Time::rfc3339),
            reviewed: review.map(|review| [review.reviewed, review.total]),
            not_covered: agent.limitations,
        });
    }
    Ok(views)
}

/// Describes the state of takeback in an agent's configurations.
pub(super) fn describe_state(agent: &AgentView) -> String {
    match (agent.user, agent.project) {
        ("absent", "absent") if agent.found => "hooks not installed".to_owned(),
        ("absent", "absent") => "not found".to_owned(),
        ("absent", project) => format!("{project} in this project"),
        (user, "absent") => user.to_owned(),
        (user, project) => format!("{user}; {project} in this project"),
    }
}

/// The state of takeback in one configuration of an agent: the user's or the project's.
struct ScopeState {
    state: &'static str,
    review: Option<HookReview>,
    is_agent_present: bool,
}

impl ScopeState {
    fn is_installed(&self) -> bool {
        self.state != install::state_name(WiringState::Absent)
    }

    fn runs_hooks(&self) -> bool {
        matches!(self.state, "installed" | "partly" | "outdated")
    }
}

/// A check of one agent in one configuration.
struct ScopeCheck<'c> {
    agent: &'static Agent,
    installer: &'c Installer<'c>,
    scope: &'c InstallScope,
    context: &'c Context,
}

impl ScopeCheck<'_> {
    fn run(&self, problems: &mut Vec<Problem>) -> ScopeState {
        let ScopeCheck { agent, installer, scope, .. } = *self;
        let is_agent_present = installer.is_agent_present(agent);
        let state = match installer.wiring_state(agent, scope) {
            Ok(state) => state,
            Err(error) => {
                let hint = "fix that file; until then, takeback does not change it";
                problems.push(Problem::new(failure::chain(&error), hint));
                return ScopeState { state: "unreadable", review: None, is_agent_present };
            }
        };
        let review = match state {
            WiringState::Absent => None,
            _ => {
                self.check_files(state, problems);
                self.check_off_switch(problems);
                self.check_review(problems)
            }
        };
        ScopeState { state: install::state_name(state), review, is_agent_present }
    }

    fn check_files(&self, state: WiringState, problems: &mut Vec<Problem>) {
        let ScopeCheck { agent, installer, scope, context } = *self;
        let option = if *scope == InstallScope::User { "" } else { " --project" };
        let install = format!("`takeback install{option} {}`", agent.name);
        if state == WiringState::Outdated {
            let what = if agent.is_editor() { "agents" } else { "hooks" };
            let message = format!("the {what} in {} are from another version", agent.title);
            problems.push(Problem::new(message, format!("{install} updates them")));
        }
        if state == WiringState::Partial
            && let Ok(plan) = installer.plan_install(agent, scope)
        {
            for (path, why) in plan.skipped {
                let message = format!("{}: {why}", output::tilde(&path, context));
                let hint = format!("move that file out of the way, then run {install}");
                problems.push(Problem::new(message, hint));
            }
        }
    }

    fn check_off_switch(&self, problems: &mut Vec<Problem>) {
        let ScopeCheck { agent, installer, scope, context } = *self;
        if let Some((path, key)) = installer.find_off_switch(agent, scope) {
            let message = format!("{} runs no hooks: {key} disables them", agent.title);
            let hint = format!("change {key} in {}", output::tilde(&path, context));
            problems.push(Problem::new(message, hint));
        }
    }

    fn check_review(&self, problems: &mut Vec<Problem>) -> Option<HookReview> {
        let ScopeCheck { agent, installer, scope, .. } = *self;
        let review = installer.hook_review(agent, scope).unwrap_or_else(|error| {
            let hint = "fix that file; until then takeback cannot tell which hooks are reviewed";
            problems.push(Problem::new(failure::chain(&error), hint));
            None
        });
        if let Some(HookReview { reviewed, total }) = review
            && reviewed < total
        {
            let skipped = total - reviewed;
            let message = format!("{} skips {skipped} of {total} hooks", agent.title);
            problems.push(Problem::new(message, agent.next_step().unwrap_or_default()));
        }
        review
    }
}
