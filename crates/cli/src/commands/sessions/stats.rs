//! `takeback sessions stats`: adds up sessions, tokens and cost.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use takeback_ledger::{Ledger, Time, UsageBy, UsageTotal};

use super::text;
use crate::commands::fleet;
use crate::context::Context;
use crate::failure::Failure;
use crate::logs;
use crate::output::{self, Cell, Column, Table};

/// Add up sessions, tokens and cost
///
/// The totals are sorted by cost, the largest first; the most expensive sessions follow. A cost
/// that the agent did not report is estimated from the prices of the model (~); a + means that the
/// price of a model is unknown, so the actual cost is higher. `[prices]` in config.toml sets
/// prices.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback sessions stats
  takeback sessions stats --by day
  takeback sessions stats --by session
  takeback sessions stats --by agent --fleet         of all machines
  takeback config set prices.my-model.input 0.5      in US dollars per million tokens")]
pub(super) struct Arguments {
    /// The property to group the totals by
    #[arg(long, value_enum, default_value_t = StatsBy::Model)]
    by: StatsBy,
    /// Add up the sessions of all machines of the fleet
    #[arg(long)]
    fleet: bool,
}

/// The property of sessions that totals are grouped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StatsBy {
    #[default]
    Model,
    Day,
    Workspace,
    /// The agent or platform
    #[value(alias = "source")]
    #[serde(rename = "source", alias = "agent")]
    Agent,
    Session,
}

impl From<StatsBy> for UsageBy {
    fn from(by: StatsBy) -> UsageBy {
        match by {
            StatsBy::Model => UsageBy::Model,
            StatsBy::Day => UsageBy::Day,
            StatsBy::Workspace => UsageBy::Workspace,
            StatsBy::Agent => UsageBy::Source,
            StatsBy::Session => UsageBy::Session,
        }
    }
}

#[derive(Serialize)]
pub(crate) struct StatsView {
    by: StatsBy,
    pub(crate) totals: Vec<UsageTotal>,
    /// The most expensive sessions.
    #[serde(skip)]
    sessions: Vec<UsageTotal>,
}

/// The maximum number of sessions that are listed below the totals.
const TOP: usize = 5;

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    if arguments.fleet {
        return run_in_fleet(arguments.by, context);
    }
    let ledger = logs::current_ledger(context)?;
    let mut view = add_up(arguments.by, &ledger, context)?;
    if output::answers_json(&view, context) {
        return Ok(ExitCode::SUCCESS);
    }
    if view.by != StatsBy::Session {
        view.sessions = add_up(StatsBy::Session, &ledger, context)?.totals;
        view.sessions.retain(|total| total.cost() > 0.0);
        view.sessions.truncate(TOP);
    }
    print_totals(&view, Some(&ledger))?;
    Ok(ExitCode::SUCCESS)
}

fn run_in_fleet(by: StatsBy, context: &Context) -> Result<ExitCode, Failure> {
    let prices = context.prices();
    let price = |model: &str, tokens| prices.cost(model, tokens);
    let totals = fleet::add_up_usage(by.into(), &local_day, &price, context)?;
    let view = StatsView { by, totals, sessions: Vec::new() };
    if !output::answers_json(&view, context) {
        print_totals(&view, None)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Adds up all sessions in the ledger.
pub(crate) fn add_up(
    by: StatsBy,
    ledger: &Ledger,
    context: &Context,
) -> Result<StatsView, Failure> {
    let prices = context.prices();
    let price = |model: &str, tokens| prices.cost(model, tokens);
    let totals = ledger.usage_by(by.into(), &local_day, &price)?;
    Ok(StatsView { by, totals, sessions: Vec::new() })
}

/// Formats the local date at the given time.
fn local_day(time: Time) -> String {
    text::local_time(time).chars().take(10).collect()
}

fn print_totals(view: &StatsView, ledger: Option<&Ledger>) -> Result<(), Failure> {
    if view.totals.is_empty() {
        println!("No sessions yet.");
        return Ok(());
    }
    let (heading, key) = match view.by {
        StatsBy::Model => ("model", Column::free()),
        StatsBy::Day => ("day", Column::free()),
        StatsBy::Workspace => ("workspace", Column::free().keeps_end()),
        StatsBy::Agent => ("agent", Column::free()),
        StatsBy::Session => ("session", Column::free()),
    };
    let mut table = Table::new([
        Column::right(),
        Column::right().shrinks(2, 0),
        Column::right().shrinks(1, 0),
        Column::right(),
        Column::right(),
        Column::right(),
        key.shrinks(3, 12),
    ]);
    let names = ["sessions", "messages", "tool calls", "tokens in", "tokens out", "cost", heading];
    table.add(names.map(Cell::from));
    for total in &view.totals {
        let name = match view.by {
            StatsBy::Session => name_session(&total.key, ledger)?,
            _ => total.key.clone(),
        };
        table.add(total_cells(total, name));
    }
    table.print();
    print_top_sessions(&view.sessions, ledger)?;
    print_unpriced(view);
    Ok(())
}

/// Returns the id of a session, with its title if this machine has the session.
fn name_session(id: &str, ledger: Option<&Ledger>) -> Result<String, Failure> {
    let Some(ledger) = ledger else { return Ok(id.to_owned()) };
    let title = ledger.session(id)?.title.map(|title| format!("  {title}"));
    Ok(format!("{id}{}", title.unwrap_or_default()))
}

fn print_top_sessions(sessions: &[UsageTotal], ledger: Option<&Ledger>) -> Result<(), Failure> {
    if sessions.is_empty() {
        return Ok(());
    }
    println!("\nMost expensive sessions:");
    let mut table = Table::new([Column::right(), Column::free().shrinks(1, 12)]).indented(2);
    for total in sessions {
        table.add([Cell::new(describe_cost(total)), name_session(&total.key, ledger)?.into()]);
    }
    table.print();
    Ok(())
}

/// Says how many sessions used a model without a known price.
fn print_unpriced(view: &StatsView) {
    let number = view.totals.iter().map(|total| total.unpriced_sessions).sum::<usize>();
    if number == 0 {
        return;
    }
    let sessions = output::count(number, "session");
    println!("\n{sessions} used a model without a known price (+): `takeback help prices`.");
}

/// Formats a cost: `~` marks an estimate, and `+` a cost that is known only in part.
pub(crate) fn describe_cost(total: &UsageTotal) -> String {
    let is_complete = total.unpriced_sessions == 0;
    match (total.cost(), is_complete) {
        (0.0, true) => String::new(),
        (0.0, false) => "unknown".to_owned(),
        (cost, _) => {
            let about = if total.estimated_cost_usd > 0.0 { "~" } else { "" };
            let more = if is_complete { "" } else { "+" };
            format!("{about}{}{more}", text::format_dollars(cost))
        }
    }
}

fn total_cells(total: &UsageTotal, name: String) -> [Cell; 7] {
    let name = if name.is_empty() { "(unknown)".to_owned() } else { name };
    [
        text::group_digits(total.sessions as i64).into(),
        text::group_digits(total.messages).into(),
        text::group_digits(total.tool_calls).into(),
        text::group_digits(total.tokens.input).into(),
        text::group_digits(total.tokens.output).into(),
        describe_cost(total).into(),
        name.into(),
    ]
}
