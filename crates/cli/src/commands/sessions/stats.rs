//! `takeback sessions stats`: tokens and cost.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use takeback_ledger::{Ledger, Time, UsageBy, UsageTotal};

use super::text;
use crate::context::Context;
use crate::failure::Failure;
use crate::logs;
use crate::output;

/// Add up sessions, tokens and cost
#[derive(Args)]
pub(super) struct Arguments {
    /// By what
    #[arg(long, value_enum, default_value_t = By::Model)]
    by: By,
}

/// What to add up by.
#[derive(Clone, Copy, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum By {
    #[default]
    Model,
    Day,
    Workspace,
    Source,
}

impl From<By> for UsageBy {
    fn from(by: By) -> UsageBy {
        match by {
            By::Model => UsageBy::Model,
            By::Day => UsageBy::Day,
            By::Workspace => UsageBy::Workspace,
            By::Source => UsageBy::Source,
        }
    }
}

#[derive(Serialize)]
pub(crate) struct View {
    by: By,
    totals: Vec<UsageTotal>,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let view = view(arguments.by, &*logs::current_ledger(context)?)?;
    if context.globals.json {
        output::print_json(&view);
    } else {
        show(&view);
    }
    Ok(ExitCode::SUCCESS)
}

/// Everything, added up.
pub(crate) fn view(by: By, ledger: &Ledger) -> Result<View, Failure> {
    Ok(View { by, totals: ledger.usage_by(by.into(), &day)? })
}

/// The day here.
fn day(time: Time) -> String {
    text::local(time).chars().take(10).collect()
}

fn show(view: &View) {
    if view.totals.is_empty() {
        println!("No sessions yet.");
        return;
    }
    let heading = match view.by {
        By::Model => "model",
        By::Day => "day",
        By::Workspace => "workspace",
        By::Source => "source",
    };
    let mut rows = vec![
        ["sessions", "messages", "tool calls", "tokens in", "tokens out", "cost", heading]
            .map(str::to_owned)
            .to_vec(),
    ];
    rows.extend(view.totals.iter().map(cells));
    text::columns(&['>', '>', '>', '>', '>', '>', '<'], &rows)
        .iter()
        .for_each(|line| println!("{line}"));
}

fn cells(total: &UsageTotal) -> Vec<String> {
    let cost = match (total.actual_cost_usd, total.estimated_cost_usd) {
        (0.0, 0.0) => String::new(),
        (0.0, estimated) => format!("~{}", text::dollars(estimated)),
        (actual, _) => text::dollars(actual),
    };
    let key = if total.key.is_empty() { "(not known)".into() } else { output::disarm(&total.key) };
    vec![
        text::number(total.sessions as i64),
        text::number(total.messages),
        text::number(total.tool_calls),
        text::number(total.input_tokens),
        text::number(total.output_tokens),
        cost,
        key,
    ]
}
