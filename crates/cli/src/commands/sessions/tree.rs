//! `takeback sessions tree`: a session among its relatives.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use takeback_ledger::{Descendant, Ledger, ParentKind, SessionRecord, Time};

use super::text::{self, ShortIds};
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// Show where a session comes from and what came out of it
#[derive(Args)]
pub(super) struct Arguments {
    /// Its id, its title, or the beginning of its id
    #[arg(value_name = "SESSION")]
    session: String,
}

/// A session and everything below it.
#[derive(Serialize)]
pub(crate) struct Node {
    id: String,
    title: Option<String>,
    source: String,
    model: Option<String>,
    parent_kind: Option<ParentKind>,
    started_at: Option<Time>,
    ended_at: Option<Time>,
    message_count: i64,
    archived: bool,
    /// Whether it is the one that was asked for.
    asked: bool,
    children: Vec<Node>,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let ledger = context.ledger()?;
    let id = ledger.resolve(&arguments.session)?;
    let root = family(&ledger, &id)?;
    if context.globals.json {
        output::print_json(&root);
    } else {
        show(&root, "", "", &ShortIds::new(&ledger)?);
    }
    Ok(ExitCode::SUCCESS)
}

/// The oldest ancestor with all that came out of it.
pub(crate) fn family(ledger: &Ledger, id: &str) -> Result<Node, Failure> {
    let root = match ledger.ancestors(id)?.pop() {
        Some(oldest) => oldest,
        None => ledger.session(id)?,
    };
    let descendants = ledger.descendants(&root.id)?;
    let mut rest = descendants.as_slice();
    Ok(Node { children: children(&mut rest, 1, id), ..Node::new(&root, id) })
}

/// The sessions of one depth, each with what stands below it, until one stands higher.
fn children(rest: &mut &[Descendant], depth: usize, asked: &str) -> Vec<Node> {
    let mut nodes = Vec::new();
    while let Some((first, behind)) = rest.split_first()
        && first.depth >= depth
    {
        *rest = behind;
        let below = children(rest, depth + 1, asked);
        nodes.push(Node { children: below, ..Node::new(&first.session, asked) });
    }
    nodes
}

impl Node {
    fn new(session: &SessionRecord, asked: &str) -> Node {
        Node {
            id: session.id.clone(),
            title: session.title.clone(),
            source: session.source.clone(),
            model: session.model.clone(),
            parent_kind: session.parent_kind,
            started_at: session.started_at,
            ended_at: session.ended_at,
            message_count: session.message_count,
            archived: session.archived,
            asked: session.id == asked,
            children: Vec::new(),
        }
    }
}

/// One line per session, with branches before it.
fn show(node: &Node, branch: &str, indent: &str, ids: &ShortIds) {
    let mut parts = vec![format!("{branch}{}", ids.of(&node.id))];
    parts.extend(node.parent_kind.map(|kind| kind.as_str().to_owned()));
    parts.extend(node.started_at.map(text::local));
    parts.push(output::count(node.message_count.try_into().unwrap_or_default(), "message"));
    parts.extend(node.title.as_deref().map(output::disarm));
    parts.extend(node.asked.then(|| "← this one".to_owned()));
    println!("{}", parts.join("  "));
    for (at, child) in (1..).zip(&node.children) {
        let (fork, bar) =
            if at == node.children.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        show(child, &format!("{indent}{fork}"), &format!("{indent}{bar}"), ids);
    }
}
