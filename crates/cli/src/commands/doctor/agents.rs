//! The agents: wired, reviewed, at work?

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
pub(super) struct AgentView {
    pub(super) agent: &'static str,
    pub(super) title: &'static str,
    /// Whether all of it was seen in the real program, or only read about.
    pub(super) proven: bool,
    pub(super) found: bool,
    /// `installed`, `partly`, `outdated`, `absent` or `unreadable`: for the user.
    pub(super) user: &'static str,
    /// The same for the project that one is in.
    pub(super) project: &'static str,
    /// When a hook of it last ran: RFC 3339 in UTC.
    pub(super) last_fired: Option<String>,
    /// Of an agent that runs only what its user has reviewed: how many hooks, of how many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reviewed: Option<[usize; 2]>,
    pub(super) not_covered: &'static [&'static str],
}

/// Looks at the agents that are here, or at those that are asked for.
pub(super) fn look(
    names: &[String],
    context: &Context,
    problems: &mut Vec<Problem>,
) -> Result<Vec<AgentView>, Failure> {
    let asked = install::known(names)?;
    let project = install::project(context);
    let mut views = Vec::new();
    for agent in AGENTS.iter().filter(|agent| agent.has_wiring()) {
        let is_asked = asked.iter().any(|other| other.name == agent.name);
        if !names.is_empty() && !is_asked {
            continue;
        }
        let mut look = |whom: &InstallScope| {
            install::with_installer(whom, context, |installer| {
                Ok(state(agent, installer, whom, problems, context))
            })
        };
        let (user, review, found) = look(&InstallScope::User)?;
        let (in_project, project_review, _) = look(&project)?;
        let review = review.or(project_review).filter(|review| review.total > 0);
        let runs = |state: &str| matches!(state, "installed" | "partly" | "outdated");
        if [user, in_project].iter().all(|state| runs(state)) {
            let message = format!("the hooks in {} run twice here", agent.title);
            let hint =
                format!("`takeback uninstall --project {}` leaves your own ones", agent.name);
            problems.push(Problem::new(message, hint));
        }
        let is_wired =
            [user, in_project].iter().any(|state| *state != install::word(WiringState::Absent));
        if !found && !is_wired && !is_asked {
            continue;
        }
        views.push(AgentView {
            agent: agent.name,
            title: agent.title,
            proven: agent.proven,
            found,
            user,
            project: in_project,
            last_fired: fired::last(&context.home, agent.name).map(Time::rfc3339),
            reviewed: review.map(|review| [review.reviewed, review.total]),
            not_covered: agent.limitations,
        });
    }
    Ok(views)
}

fn state(
    agent: &'static Agent,
    installer: &Installer<'_>,
    whom: &InstallScope,
    problems: &mut Vec<Problem>,
    context: &Context,
) -> (&'static str, Option<HookReview>, bool) {
    let found = installer.is_agent_present(agent);
    let wired = match installer.wiring_state(agent, whom) {
        Ok(wired) => wired,
        Err(error) => {
            let hint = "correct that file; until then it is not touched";
            problems.push(Problem::new(failure::chain(&error), hint));
            return ("unreadable", None, found);
        }
    };
    let option = if *whom == InstallScope::User { "" } else { " --project" };
    if wired == WiringState::Outdated {
        let message = format!("the hooks in {} are not those of this version", agent.title);
        let hint = format!("`takeback install{option} {}` brings them up to date", agent.name);
        problems.push(Problem::new(message, hint));
    }
    if wired == WiringState::Partial
        && let Ok(plan) = installer.plan_install(agent, whom)
    {
        for (path, why) in plan.skipped {
            let message = format!("{}: {why}", output::tilde(&path, context));
            let hint = format!("move it away, then `takeback install{option} {}`", agent.name);
            problems.push(Problem::new(message, hint));
        }
    }
    if let Some((path, key)) =
        installer.find_off_switch(agent, whom).filter(|_| wired != WiringState::Absent)
    {
        let message = format!("{} runs no hooks at all: {key} says so", agent.title);
        problems.push(Problem::new(message, format!("see {}", output::tilde(&path, context))));
    }
    let review = match wired {
        WiringState::Absent => None,
        _ => installer.hook_review(agent, whom).unwrap_or_else(|error| {
            let hint = "correct that file; until then nobody knows which hooks were reviewed";
            problems.push(Problem::new(failure::chain(&error), hint));
            None
        }),
    };
    if let Some(HookReview { reviewed, total: all }) =
        review.filter(|review| review.reviewed < review.total)
    {
        let message = format!("{} runs {reviewed} of {all} hooks of takeback", agent.title);
        problems.push(Problem::new(message, agent.next_step().unwrap_or_default()));
    }
    (install::word(wired), review, found)
}
