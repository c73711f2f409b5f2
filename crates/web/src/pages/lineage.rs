//! The lineage of a session: its parents, forks, compactions and subagents, as a graph.

use maud::{Markup, html};
use takeback_ledger::render::session_title;
use takeback_ledger::{Descendant, Ledger, ParentKind, SessionRecord};

use super::timeline::encode;
use crate::problem::WorkError;
use crate::text;

/// The height of a row and the width of a level, in pixels.
const ROW: usize = 36;
const LEVEL: usize = 22;

/// The number of levels that are drawn. Deeper sessions are drawn at the last level.
const MAX_LEVELS: usize = 8;

/// The maximum number of sessions that are drawn.
const MAX_SESSIONS: usize = 60;

/// Draws the lineage of a session. Returns nothing if the session has neither parents nor children.
pub(super) fn render(ledger: &Ledger, id: &str) -> Result<Markup, WorkError> {
    let root = match ledger.ancestors(id)?.pop() {
        Some(oldest) => oldest,
        None => ledger.session(id)?,
    };
    let mut nodes = ledger.descendants(&root.id)?;
    nodes.insert(0, Descendant { depth: 0, session: root });
    if nodes.len() == 1 {
        return Ok(html! {});
    }
    let left_out = nodes.len().saturating_sub(MAX_SESSIONS);
    nodes.truncate(MAX_SESSIONS);
    let depths: Vec<usize> = nodes.iter().map(|node| node.depth.min(MAX_LEVELS)).collect();
    let levels = depths.iter().max().copied().unwrap_or(0) + 1;
    Ok(html! {
        section .card .lineage aria-labelledby="lineage" {
            h2 #lineage { "Lineage" }
            div .graph {
                (draw(&depths, levels, nodes.iter().position(|node| node.session.id == id)))
                ol { @for node in &nodes { (render_node(&node.session, node.depth, id)) } }
            }
            @if left_out > 0 { p .faint { "and " (text::count(left_out as u64, "more session")) } }
        }
    })
}

/// Draws the lines and points. Each session is a row; a line leads to it from its parent.
fn draw(depths: &[usize], levels: usize, own: Option<usize>) -> Markup {
    let (width, height) = (levels * LEVEL, depths.len() * ROW);
    let x = |depth: usize| depth * LEVEL + LEVEL / 2;
    let y = |row: usize| row * ROW + ROW / 2;
    let line = |row: usize| {
        let parent = (0..row).rev().find(|above| depths[*above] < depths[row])?;
        let (from, to) = (x(depths[parent]), x(depths[row]));
        let (top, bottom) = (y(parent), y(row));
        Some(format!("M{from} {top}V{}Q{from} {bottom} {} {bottom}H{to}", bottom - 8, from + 8))
    };
    html! {
        svg width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) } aria-hidden="true" focusable="false" {
            @for path in (0..depths.len()).filter_map(line) { path d=(path) {} }
            @for (row, depth) in depths.iter().enumerate() {
                circle .own[own == Some(row)] cx=(x(*depth)) cy=(y(row)) r="5" {}
            }
        }
    }
}

fn render_node(session: &SessionRecord, depth: usize, own: &str) -> Markup {
    let kind = session.parent_kind.map_or("", ParentKind::as_str);
    let is_own = session.id == own;
    html! {
        li .{ "hue-" (text::agent_hue(&session.source)) } {
            span .hidden { "Level " (depth + 1) ": " }
            @if !kind.is_empty() { span .badge { (kind) } }
            span .agent { (text::one_line(&session.source)) }
            a href={ "/sessions/" (encode(&session.id)) } aria-current=[is_own.then_some("true")] { (text::shorten(&text::one_line(session_title(session)), 70)) }
            span .faint { (text::count(session.message_count.unsigned_abs(), "message")) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_session_is_connected_to_its_parent() {
        // A root with two children, the first of which has a child.
        let drawn = draw(&[0, 1, 2, 1], 3, Some(2)).into_string();
        assert_eq!(drawn.matches("<circle").count(), 4);
        assert_eq!(drawn.matches("<path").count(), 3);
        assert!(drawn.contains("<circle class=\"own\" cx=\"55\" cy=\"90\""), "{drawn}");
        // The last line begins at the root, not at the grandchild.
        assert!(drawn.contains("<path d=\"M11 18V118Q11 126 19 126H33\">"), "{drawn}");
    }
}
