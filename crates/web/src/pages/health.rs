//! The state of the store, the workspaces and the failures.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use maud::{Markup, html};
use serde::Deserialize;
use takeback_base::text::format_bytes;
use takeback_undo::retention::{read_growth, read_status};
use takeback_undo::{DirectoryState, Status};

use super::PageResult;
use super::charts::{Point, columns};
use super::layout::{Shell, column, note, relative_time, sentence, with_code};
use crate::api::Params;
use crate::app::{App, Work};
use crate::checkup::{Checkup, Finding};
use crate::text;

/// The maximum and minimum numbers of days in the chart of the store's size.
const DAYS: i64 = 60;
const FEWEST: i64 = 13;

/// The parameters of the page.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct HealthQuery {
    /// `1` to read all checkpoints and messages.
    thorough: String,
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    Params(query): Params<HealthQuery>,
) -> PageResult {
    let page = app.work(move |work| {
        let status = read_status(&work.opened)?;
        let content = render(work, &status, &work.check_up(query.thorough == "1")?);
        Ok(Shell::new(work, None)?.render("Health", "health", &column(&content)))
    });
    Ok(page.await?)
}

fn render(work: &Work, status: &Status, checkup: &Checkup) -> Markup {
    let now = text::timestamp(work.opened.now());
    html! {
        h1 { "Health" }
        @if checkup.findings.is_empty() {
            (note("good", &html! { p { strong { "No problem found." } " No checkpoint has failed." @if checkup.is_thorough { " All checkpoints and messages are intact." } } }))
        }
        @for Finding { message, hint } in &checkup.findings {
            (note("warning", &html! { p { strong { (text::visible(&sentence(message))) } } p { (with_code(&sentence(hint))) "." } }))
        }
        @if let Some(jump) = &status.clock_jump {
            (note("info", &html! { p { "The clock jumped, or takeback was not running for a while. The days between " (jump.from) " and " (jump.to) " do not count toward the age of checkpoints." } }))
        }
        @if !checkup.is_thorough {
            p .further { a href="/health?thorough=1" { "Also read all checkpoints and messages" } span .faint { " This may take minutes." } }
        }
        section .card {
            h2 { "Store" }
            (meter(status))
            dl .facts {
                dt { "Home" } dd { code { bdi { (work.app.tilde(&status.home.0)) } } }
                dt { "Checkpoints" } dd { (format_bytes(status.store_bytes)) " of at most " (format_bytes(status.max_bytes)) }
                dt { "Together" } dd { (format_bytes(status.total_bytes)) }
                @if let Some(mirror) = &status.mirror { dt { "Mirror" } dd { code { bdi { (work.app.tilde(&mirror.path.0)) } } } }
            }
            (render_growth(work, status))
            @if status.can_shrink { p { "The store is over its limit. " code { "takeback checkpoints prune" } " deletes the oldest checkpoints." } }
        }
        (render_agents(checkup, now))
        (render_prune(status))
        section .card {
            h2 { "Workspaces" }
            @if status.workspaces.is_empty() { p .faint { "None yet." } }
            table {
                thead { tr { th { "Workspace" } th .number { "Checkpoints" } th { "Last change" } th { "State" } } }
                tbody { @for known in &status.workspaces {
                    @let touched: Timestamp = known.last_touched.parse().unwrap_or_default();
                    tr {
                        td { code { bdi { (work.app.tilde(&known.path.0)) } } }
                        td .number { (text::group_digits(known.checkpoints as u64)) }
                        td { (relative_time(touched, now)) }
                        td { @match known.state { DirectoryState::Live => "in place", _ => span .badge .warn { "⚠ directory is gone" } } }
                    }
                } }
            }
        }
    }
}

/// Lists the agents with the state of their hooks.
fn render_agents(checkup: &Checkup, now: Timestamp) -> Markup {
    html! {
        section .card {
            h2 { "Agents" }
            @if checkup.agents.is_empty() { p .faint { "No agent was found on this machine." } } @else {
                table {
                    thead { tr { th { "Agent" } th { "Hooks" } th { "Last hook" } } }
                    tbody { @for agent in &checkup.agents {
                        tr {
                            td {
                                (text::one_line(&agent.title))
                                @for limit in &agent.not_covered { div .faint { "Not covered: " (text::one_line(limit)) } }
                            }
                            td { (text::one_line(&agent.state)) }
                            td { @match agent.last_hook.as_deref().and_then(|time| time.parse().ok()) {
                                Some(time) => (relative_time(time, now)),
                                None => span .faint { "none yet" },
                            } }
                        }
                    } }
                }
            }
        }
    }
}

/// Draws a chart of the store's size on each day.
fn render_growth(work: &Work, status: &Status) -> Markup {
    let today = text::timestamp(work.opened.now()).to_zoned(TimeZone::UTC).date();
    let mut known: BTreeMap<Date, u64> = BTreeMap::new();
    for size in read_growth(&work.opened) {
        known.extend(size.day.parse().ok().map(|day: Date| (day, size.bytes)));
    }
    known.insert(today, status.store_bytes);
    let first = *known.keys().next().unwrap_or(&today);
    let back = |days: i64| today.checked_sub(days.days()).unwrap_or(first);
    let first = first.clamp(back(DAYS), back(FEWEST));
    // On a day without changes, the size is the same as on the day before.
    let point = |day: Date| {
        let size = known.range(..=day).next_back().map_or(0, |(_, size)| *size);
        let label = day.strftime("%-d %b").to_string();
        Point { label, value: size as f64, text: format_bytes(size) }
    };
    let days = first.series(1.day()).take_while(|day| *day <= today);
    columns("Size of the store", &days.map(point).collect::<Vec<_>>(), ["Day", "Size"])
}

/// Renders the form for pruning. It is hidden until a script shows it, because only the script can
/// show in advance what would be deleted.
fn render_prune(status: &Status) -> Markup {
    html! {
        section .card {
            h2 { "Prune" }
            p { "Deletes checkpoints that exceed the limits. You see which ones before anything is deleted. Pinned and named checkpoints stay." }
            form .prune hidden {
                label { "Unused for more than … days" input type="number" name="retention_days" min="0" max="36500" placeholder="as configured"; }
                label { "Store larger than … MB" input type="number" name="max_size_mb" min="0" max="100000000" placeholder=(format!("{}", status.max_bytes >> 20)); }
                label .check { input type="checkbox" name="orphans"; "Also workspaces whose directory is gone" }
                button { "Show what would be deleted" }
            }
            noscript { p { "In a terminal: " code { "takeback checkpoints prune --dry-run" } } }
        }
    }
}

/// Draws a bar that shows how full the store is.
fn meter(status: &Status) -> Markup {
    let share = status.store_bytes as f64 / (status.max_bytes.max(1)) as f64;
    let percent = (share * 100.0).min(100.0);
    html! {
        svg .meter viewBox="0 0 100 4" preserveAspectRatio="none" role="img" aria-label={ (format!("{percent:.0}")) " percent of the limit" } {
            rect .track width="100" height="4" {}
            rect .fill width=(format!("{:.2}", percent.max(0.5))) height="4" {}
        }
    }
}
