//! Goals, with bars that show how much of each budget is spent.

use maud::{Markup, html};

use crate::text;
use crate::view::goal::GoalView;

/// The width of a bar, in units of the SVG picture.
const WIDTH: f64 = 100.0;

/// Renders a goal: its state, how much of its budget is spent, and its buttons.
pub(super) fn render_goal(goal: &GoalView) -> Markup {
    let (budget, run) = (&goal.budget, &goal.spent_in_run);
    let bars = [
        bar("tokens", run.tokens as f64, budget.tokens.map(|limit| limit as f64), 0, ""),
        bar("cost", run.usd, budget.usd, 2, "$"),
        bar("minutes", run.seconds as f64 / 60.0, budget.seconds.map(|s| s as f64 / 60.0), 1, ""),
        bar("turns", run.turns as f64, budget.turns.map(|limit| limit as f64), 0, ""),
    ];
    let is_over = matches!(goal.state.as_str(), "complete" | "cancelled");
    let is_active = goal.state == "active";
    html! {
        div .goal data-goal=(goal.id) {
            p .objective { (text::shorten(&text::one_line(&goal.objective), 200)) }
            p .meta {
                span .badge .live[is_active] .warn[!is_active && !is_over] { (goal.state.replace('_', " ")) }
                @if let Some(reason) = goal.reason.as_deref().filter(|reason| !reason.is_empty()) { span { (text::shorten(&text::one_line(reason), 160)) } }
            }
            @for bar in bars.into_iter().flatten() { (bar) }
            p .faint {
                "In total " (text::group_digits(goal.spent.tokens.unsigned_abs())) " tokens, $" (format!("{:.2}", goal.spent.usd)) ", "
                (text::count(goal.spent.turns.unsigned_abs(), "turn"))
            }
            @if !is_over {
                p .row-buttons {
                    @if is_active { button type="button" .small data-goal-action="pause" { "Pause" } }
                    @else { button type="button" .small data-goal-action="resume" { "Go on" } }
                    button type="button" .small.quiet data-goal-action="cancel" { "Give up" }
                }
            }
        }
    }
}

/// Renders how much of a limit is spent. Returns `None` if there is no limit.
fn bar(unit: &str, spent: f64, limit: Option<f64>, digits: usize, sign: &str) -> Option<Markup> {
    let limit = limit.filter(|limit| *limit > 0.0)?;
    let share = (spent / limit).clamp(0.0, 1.0);
    let words = format!("{} of {}", amount(spent, digits, sign), amount(limit, digits, sign));
    Some(html! {
        div .budget .spent[share >= 1.0] {
            span { (unit) }
            svg .meter viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label={ (unit) ": " (words) } {
                rect .track width="100" height="8" {}
                rect .fill width=(format!("{:.1}", WIDTH * share)) height="8" {}
            }
            span .number { (words) }
        }
    })
}

/// Formats an amount: `$0.50`, `60,000`.
fn amount(value: f64, digits: usize, sign: &str) -> String {
    match digits {
        0 => text::group_digits(value.max(0.0).round() as u64),
        _ => format!("{sign}{value:.digits$}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_the_share_of_the_budget() {
        let html = bar("cost", 0.5, Some(2.0), 2, "$").unwrap().into_string();
        assert!(html.contains("width=\"25.0\""), "{html}");
        assert!(html.contains("$0.50 of $2.00"), "{html}");
        let tokens = bar("tokens", 8_780.0, Some(60_000.0), 0, "").unwrap().into_string();
        assert!(tokens.contains("8,780 of 60,000"), "{tokens}");
        assert!(bar("turns", 3.0, None, 0, "").is_none());
        let over = bar("turns", 3.0, Some(2.0), 0, "").unwrap().into_string();
        assert!(over.contains("width=\"100.0\"") && over.contains("spent"), "{over}");
    }
}
