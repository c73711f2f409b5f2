//! `takeback sessions stats`: adds up sessions, tokens and cost.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use takeback_ledger::{Ledger, Time, UsageBy, UsageTotal};

use super::text;
use crate::context::Context;
use crate::failure::Failure;
use crate::logs;
use crate::output::{self, Cell, Column, Table};

/// Add up sessions, tokens and cost
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback sessions stats
  takeback sessions stats --by day")]
pub(super) struct Arguments {
    /// The property to group the totals by
    #[arg(long, value_enum, default_value_t = StatsBy::Model)]
    by: StatsBy,
}

/// The property of sessions that totals are grouped by.
#[derive(Clone, Copy, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StatsBy {
    #[default]
    Model,
    Day,
    Workspace,
    Source,
}

impl From<StatsBy> for UsageBy {
    fn from(by: StatsBy) -> UsageBy {
        match by {
            StatsBy::Model => UsageBy::Model,
            StatsBy::Day => UsageBy::Day,
            StatsBy::Workspace => UsageBy::Workspace,
            StatsBy::Source => UsageBy::Source,
        }
    }
}

#[derive(Serialize)]
pub(crate) struct StatsView {
    by: StatsBy,
    totals: Vec<UsageTotal>,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let view = add_up(arguments.by, &*logs::current_ledger(context)?)?;
    if context.globals.json {
        output::print_json(&view);
    } else {
        print_totals(&view);
    }
    Ok(ExitCode::SUCCESS)
}

/// Adds up all sessions in the ledger.
pub(crate) fn add_up(by: StatsBy, ledger: &Ledger) -> Result<StatsView, Failure> {
    Ok(StatsView { by, totals: ledger.usage_by(by.into(), &local_day)? })
}

/// Formats the local date at the given time.
fn local_day(time: Time) -> String {
    text::local_time(time).chars().take(10).collect()
}

fn print_totals(view: &StatsView) {
    if view.totals.is_empty() {
        println!("No sessions yet.");
        return;
    }
    let (heading, key) = match view.by {
        StatsBy::Model => ("model", Column::free()),
        StatsBy::Day => ("day", Column::free()),
        StatsBy::Workspace => ("workspace", Column::free().keeps_end()),
        StatsBy::Source => ("source", Column::free()),
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
    view.totals.iter().for_each(|total| table.add(total_cells(total)));
    table.print();
}

fn total_cells(total: &UsageTotal) -> [Cell; 7] {
    let cost = match (total.actual_cost_usd, total.estimated_cost_usd) {
        (0.0, 0.0) => String::new(),
        (0.0, estimated) => format!("~{}", text::format_dollars(estimated)),
        (actual, _) => text::format_dollars(actual),
    };
    let key = if total.key.is_empty() { "(unknown)" } else { &total.key };
    [
        text::group_digits(total.sessions as i64).into(),
        text::group_digits(total.messages).into(),
        text::group_digits(total.tool_calls).into(),
        text::group_digits(total.tokens.input).into(),
        text::group_digits(total.tokens.output).into(),
        cost.into(),
        key.into(),
    ]
}
