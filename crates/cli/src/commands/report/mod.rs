//! `takeback report`: shows what the agents did on a day or in a week.

mod collect;
mod render;

use std::process::ExitCode;

use clap::Args;
use jiff::civil::Date;
use jiff::{ToSpan, Zoned};

use self::collect::collect_report;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Progress};

/// Show what your agents did today, on another day, or in a week
///
/// For each project: the turns with their prompts, the files that they changed, the effects that no
/// rollback reverses, tokens and cost, and what was taken back. Tokens and cost are those of all
/// sessions that were active in that time, each counted from its beginning.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback report                   today
  takeback report --day yesterday
  takeback report --week            the last seven days
  takeback report --week --markdown > week.md")]
pub(crate) struct Arguments {
    /// Report on this day: today, yesterday, or a date such as 2026-11-18
    #[arg(long, value_name = "DAY", value_parser = parse_day)]
    day: Option<Date>,
    /// Report on the seven days up to today, or up to the day that --day names
    #[arg(long)]
    week: bool,
    /// Write the report as Markdown
    #[arg(long)]
    markdown: bool,
}

fn parse_day(typed: &str) -> Result<Date, String> {
    let today = Zoned::now().date();
    let day = match typed {
        "today" => Some(today),
        "yesterday" => today.yesterday().ok(),
        typed => typed.parse().ok(),
    };
    day.ok_or_else(|| "give today, yesterday, or a date like 2026-11-18".to_owned())
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let last = arguments.day.unwrap_or_else(|| Zoned::now().date());
    let first = if arguments.week { last.saturating_sub(6.days()) } else { last };
    let progress = Progress::new("reading");
    let report = collect_report(first, last, context)?;
    drop(progress);
    if output::answers_json(&report, context) {
        return Ok(ExitCode::SUCCESS);
    }
    match arguments.markdown {
        true => render::print_markdown(&report, context),
        false => render::print_text(&report, context),
    }
    Ok(ExitCode::SUCCESS)
}
