//! The state of the store, the workspaces and the failures.

use std::sync::Arc;

use axum::extract::State;
use jiff::Timestamp;
use maud::{Markup, html};
use takeback_base::text::format_bytes;
use takeback_undo::retention::read_status;
use takeback_undo::{DirectoryState, Status};

use super::PageResult;
use super::layout::{Shell, column, note, relative_time};
use crate::app::{App, Work};
use crate::text;

pub(super) async fn show(State(app): State<Arc<App>>) -> PageResult {
    let page = app.work(|work| {
        let status = read_status(&work.opened)?;
        let content = render(work, &status);
        Ok(Shell::new(work, None)?.render("Health", "health", &column(&content)))
    });
    Ok(page.await?)
}

fn render(work: &Work, status: &Status) -> Markup {
    let now = text::timestamp(work.opened.now());
    let is_fine = status.failures.is_empty() && !status.can_shrink;
    html! {
        h1 { "Health" }
        @if is_fine { (note("good", &html! { p { strong { "Everything is protected." } " No checkpoint has failed." } })) }
        @for failure in &status.failures {
            (note("warning", &html! {
                p { strong { bdi { (work.app.tilde(&failure.workspace.0)) } } ": " (text::one_line(&failure.message)) }
                p .faint { (text::count(failure.count, "time")) ", last " (relative_time(text::timestamp(failure.until), now)) }
            }))
        }
        @if let Some(jump) = &status.clock_jump {
            (note("info", &html! { p { "The clock jumped, or takeback did not run for a while. The days between " (jump.from) " and " (jump.to) " do not count as age." } }))
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
            @if status.can_shrink { p { "The store is over its limit. " code { "takeback checkpoints prune" } " deletes the oldest checkpoints." } }
            p .faint { code { "takeback doctor" } " checks the hooks of all agents; " code { "takeback checkpoints verify" } " reads every object." }
        }
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

/// A bar that shows how full the store is.
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
