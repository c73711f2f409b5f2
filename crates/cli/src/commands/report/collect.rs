//! Collects the data for a report.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Serialize;
use takeback_ledger::{ListOptions, SessionSummary, Time, UsageTotal};
use takeback_tree::AnyPath;
use takeback_undo::RowView;
use takeback_undo::history::{known_workspaces, list_workspace};

use crate::commands::sessions::stats::{self, StatsBy};
use crate::context::Context;
use crate::failure::Failure;
use crate::logs;

/// Everything that agents did from the first to the last day.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) first_day: String,
    pub(super) last_day: String,
    /// The projects that agents worked in, the one with the most turns first.
    pub(super) projects: Vec<ProjectReport>,
    /// The sum over all projects.
    pub(super) totals: Work,
}

/// The work of agents in one workspace.
#[derive(Serialize)]
pub(super) struct ProjectReport {
    pub(super) workspace: AnyPath,
    pub(super) agents: BTreeSet<String>,
    #[serde(flatten)]
    pub(super) work: Work,
    /// The turns, newest first.
    pub(super) prompts: Vec<ReportedTurn>,
}

/// Counts that can be added up.
#[derive(Clone, Default, Serialize)]
pub(super) struct Work {
    pub(super) turns: usize,
    /// The number of turns that were taken back.
    pub(super) taken_back: usize,
    /// The number of changed files, counted once for each turn that changed them.
    pub(super) files_changed: u64,
    pub(super) insertions: u64,
    pub(super) deletions: u64,
    /// The number of commands with effects that no rollback reverses, by kind.
    pub(super) effects: BTreeMap<String, usize>,
    pub(super) sessions: usize,
    pub(super) input_tokens: i64,
    pub(super) output_tokens: i64,
    pub(super) cost_usd: f64,
    /// The number of sessions that used tokens whose price is unknown.
    pub(super) unpriced_sessions: usize,
}

/// A turn in a report.
#[derive(Serialize)]
pub(super) struct ReportedTurn {
    pub(super) time: String,
    pub(super) agent: Option<String>,
    pub(super) prompt: Option<String>,
    pub(super) taken_back: bool,
}

pub(super) fn collect_report(
    first_day: Date,
    last_day: Date,
    context: &Context,
) -> Result<Report, Failure> {
    let days = first_day..=last_day;
    let is_in = |moment: Timestamp| days.contains(&moment.to_zoned(TimeZone::system()).date());
    let mut projects: BTreeMap<String, ProjectReport> = BTreeMap::new();
    if context.ledger_path().exists() {
        let options = ListOptions { archived: true, ..ListOptions::default() };
        let ledger = logs::current_ledger(context)?;
        let totals = stats::add_up(StatsBy::Session, &ledger, context)?.totals.into_iter();
        let totals: HashMap<String, UsageTotal> =
            totals.map(|total| (total.key.clone(), total)).collect();
        for summary in ledger.sessions(&options)? {
            let is_active = |time: Time| Timestamp::from_millisecond(time.0).is_ok_and(is_in);
            let began = summary.session.started_at.unwrap_or(summary.last_activity);
            if is_active(summary.last_activity) || is_active(began) {
                let workspace = summary.session.workspace.clone().unwrap_or_default();
                let total = totals.get(&summary.session.id);
                find_project(&mut projects, workspace).add_session(&summary, total);
            }
        }
    }
    let opened = context.opened_anyway()?;
    let known = if opened.has_store() { known_workspaces(opened)? } else { Vec::new() };
    for (workspace, _) in known {
        let rows = list_workspace(opened, &workspace)?.checkpoints;
        let rows = rows.iter().filter(|row| row.kind == "turn");
        for row in rows.filter(|row| row.time.parse().is_ok_and(is_in)) {
            find_project(&mut projects, workspace.path.display().to_string()).add_turn(row);
        }
    }
    let mut projects: Vec<ProjectReport> = projects.into_values().collect();
    projects.sort_by_key(|project| std::cmp::Reverse(project.work.turns));
    let mut totals = Work::default();
    projects.iter().for_each(|project| totals.add(&project.work));
    let [first_day, last_day] = [first_day, last_day].map(|day| day.to_string());
    Ok(Report { first_day, last_day, projects, totals })
}

fn find_project(
    projects: &mut BTreeMap<String, ProjectReport>,
    workspace: String,
) -> &mut ProjectReport {
    projects.entry(workspace.clone()).or_insert_with(|| ProjectReport {
        workspace: AnyPath(workspace.into()),
        agents: BTreeSet::new(),
        work: Work::default(),
        prompts: Vec::new(),
    })
}

impl ProjectReport {
    fn add_session(&mut self, summary: &SessionSummary, total: Option<&UsageTotal>) {
        let session = &summary.session;
        self.agents.insert(session.source.clone());
        self.work.sessions += 1;
        self.work.input_tokens += session.tokens.input;
        self.work.output_tokens += session.tokens.output;
        self.work.cost_usd += total.map_or(0.0, UsageTotal::cost);
        self.work.unpriced_sessions += total.map_or(0, |total| total.unpriced_sessions);
    }

    fn add_turn(&mut self, row: &RowView) {
        self.agents.extend(row.agent.clone());
        self.work.turns += 1;
        self.work.taken_back += usize::from(row.taken_back);
        self.work.files_changed += row.files_changed.unwrap_or(0);
        self.work.insertions += row.insertions.unwrap_or(0);
        self.work.deletions += row.deletions.unwrap_or(0);
        for effect in &row.effects {
            *self.work.effects.entry(effect.kind.clone()).or_default() += 1;
        }
        self.prompts.push(ReportedTurn {
            time: row.time.clone(),
            agent: row.agent.clone(),
            prompt: row.prompt.clone(),
            taken_back: row.taken_back,
        });
    }
}

impl Work {
    fn add(&mut self, other: &Work) {
        self.turns += other.turns;
        self.taken_back += other.taken_back;
        self.files_changed += other.files_changed;
        self.insertions += other.insertions;
        self.deletions += other.deletions;
        for (kind, count) in &other.effects {
            *self.effects.entry(kind.clone()).or_default() += count;
        }
        self.sessions += other.sessions;
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cost_usd += other.cost_usd;
        self.unpriced_sessions += other.unpriced_sessions;
    }
}
