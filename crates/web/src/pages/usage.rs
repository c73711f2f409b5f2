//! Tokens and cost: per day, model, agent and workspace.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use jiff::ToSpan;
use jiff::civil::Date;
use maud::{Markup, html};
use takeback_ledger::{Time, UsageBy, UsageTotal};

use super::PageResult;
use super::charts::{Point, bar, columns};
use super::layout::{Shell, column};
use crate::app::{App, Work};
use crate::problem::WorkError;
use crate::text;

/// The number of days in the charts.
const DAYS: i64 = 30;

/// The number of rows in a table.
const ROWS: usize = 12;

pub(super) async fn show(State(app): State<Arc<App>>) -> PageResult {
    let page = app.work(|work| {
        let content = render(work)?;
        Ok(Shell::new(work, None)?.render("Usage", "usage", &column(&content)))
    });
    Ok(page.await?)
}

fn render(work: &Work) -> Result<Markup, WorkError> {
    let zone = &work.app.zone;
    let day = |time: Time| text::timestamp(time).to_zoned(zone.clone()).date().to_string();
    let read = |by: UsageBy| -> Result<Vec<UsageTotal>, WorkError> {
        match work.ledger()? {
            Some(ledger) => {
                Ok(ledger.usage_by(by, &day, &|model, tokens| work.app.price(model, tokens))?)
            }
            None => Ok(Vec::new()),
        }
    };
    let days = read(UsageBy::Day)?;
    let today = text::timestamp(work.opened.now()).to_zoned(zone.clone()).date();
    let groups = [
        ("Models", "Model", read(UsageBy::Model)?),
        ("Agents", "Agent", read(UsageBy::Source)?),
        ("Workspaces", "Workspace", read(UsageBy::Workspace)?),
    ];
    let is_empty = days.iter().all(|total| tokens(total) == 0 && total.cost() == 0.0);
    let sum = |value: fn(&UsageTotal) -> f64| days.iter().map(value).sum::<f64>();
    Ok(html! {
        h1 { "Usage" }
        @if is_empty {
            div .empty { h2 { "No usage yet" } p { "Agents report token counts through their logs. The counts appear after the next turn." } }
        } @else {
            p .totals {
                span { strong { (format_cost(sum(UsageTotal::cost))) } " in all" }
                span { strong { (short_number(sum(|total| tokens(total) as f64) as i64)) } " tokens" }
                span { strong { (text::group_digits(days.iter().map(|total| total.sessions as u64).sum())) } " sessions" }
            }
            div .charts {
                (columns(&format!("Cost per day, the last {DAYS} days"), &by_day(&days, today, |total| (total.cost(), format_cost(total.cost()))), ["Day", "Cost"]))
                (columns(&format!("Tokens per day, the last {DAYS} days"), &by_day(&days, today, |total| (tokens(total) as f64, text::group_digits(tokens(total).unsigned_abs()))), ["Day", "Tokens"]))
            }
            p .faint { "Each session is counted on the day on which it began. ~ marks an estimated cost, and ? an unknown price, which you can set under [prices] in config.toml." }
            @for (title, label, totals) in &groups { (render_group(work, title, label, totals)) }
        }
    })
}

/// Returns a point for each of the last [`DAYS`] days, including days without sessions.
fn by_day(
    totals: &[UsageTotal],
    today: Date,
    figure: impl Fn(&UsageTotal) -> (f64, String),
) -> Vec<Point> {
    let known: BTreeMap<&str, &UsageTotal> =
        totals.iter().map(|total| (total.key.as_str(), total)).collect();
    let none = UsageTotal::default();
    let day = |back: i64| {
        let date = today.checked_sub(back.days()).unwrap_or(today);
        let total = known.get(date.to_string().as_str()).copied().unwrap_or(&none);
        let (value, text) = figure(total);
        Point { label: date.strftime("%-d %b").to_string(), value, text }
    };
    (0..DAYS).rev().map(day).collect()
}

fn render_group(work: &Work, title: &str, label: &str, totals: &[UsageTotal]) -> Markup {
    let most = totals.iter().map(tokens).max().unwrap_or(0).max(1) as f64;
    let name = |total: &UsageTotal| match (total.key.as_str(), label) {
        ("", _) => "unknown".to_owned(),
        (path, "Workspace") => work.app.tilde(path.as_ref()),
        (key, _) => text::one_line(key),
    };
    html! {
        section .card {
            h2 { (title) }
            div .scroll tabindex="0" role="region" aria-label=(title) {
                table .usage {
                    thead { tr { th scope="col" { (label) } th .share { span .hidden { "Share" } } th scope="col" .number { "Tokens" } th scope="col" .number { "Cost" } th scope="col" .number { "Sessions" } } }
                    tbody { @for total in totals.iter().take(ROWS) {
                        tr {
                            th scope="row" { bdi { (name(total)) } }
                            td .share { (bar(tokens(total) as f64 / most)) }
                            td .number title=(text::group_digits(tokens(total).unsigned_abs())) { (short_number(tokens(total))) }
                            td .number { @if total.estimated_cost_usd > 0.0 { span title="estimated" { "~" } } (format_cost(total.cost())) @if total.unpriced_sessions > 0 { span title=(format!("no price for {}", text::count(total.unpriced_sessions as u64, "session"))) { " ?" } } }
                            td .number { (text::group_digits(total.sessions as u64)) }
                        }
                    } }
                }
            }
            @if totals.len() > ROWS { p .faint { "and " (totals.len() - ROWS) " more" } }
        }
    }
}

fn tokens(total: &UsageTotal) -> i64 {
    total.tokens.input + total.tokens.output
}

fn format_cost(cost: f64) -> String {
    format!("${cost:.2}")
}

/// Shortens a large number: `12.3k`, `4.5M`.
fn short_number(number: i64) -> String {
    match number {
        ..10_000 => text::group_digits(number.unsigned_abs()),
        10_000..1_000_000 => format!("{:.1}k", number as f64 / 1e3),
        _ => format!("{:.1}M", number as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_without_sessions_are_part_of_the_chart() {
        let total = |key: &str, cost: f64| UsageTotal {
            key: key.into(),
            estimated_cost_usd: cost,
            ..UsageTotal::default()
        };
        let totals = [total("2026-11-18", 2.0), total("2026-11-16", 1.0), total("2025-01-01", 9.0)];
        let today: Date = "2026-11-18".parse().unwrap();
        let points = by_day(&totals, today, |total| (total.cost(), String::new()));
        assert_eq!(points.len(), 30);
        let last: Vec<f64> = points[27..].iter().map(|point| point.value).collect();
        assert_eq!(last, [1.0, 0.0, 2.0]);
        assert_eq!(points.iter().map(|point| point.value).sum::<f64>(), 3.0);
        assert_eq!([short_number(9_999), short_number(12_345)], ["9,999", "12.3k"]);
    }
}
