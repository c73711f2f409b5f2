//! `takeback sessions tree`: shows a session with its parents, forks and subagents.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use takeback_ledger::{Descendant, Ledger, ListOptions, ParentKind, SessionRecord, Time};

use super::text::{self, ShortIds};
use crate::context::Context;
use crate::failure::Failure;
use crate::logs;
use crate::output::{self, Cell, Column, Table};

/// Show the parents, forks and subagents of a session
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback sessions tree 4f2a
  takeback sessions tree                    the last session in this directory")]
pub(super) struct Arguments {
    /// The session: its id, the beginning of its id, or its title [default: the last one in this
    /// directory]
    #[arg(value_name = "SESSION")]
    session: Option<String>,
}

/// A session and all its descendants.
#[derive(Serialize)]
pub(crate) struct SessionNode {
    id: String,
    title: Option<String>,
    source: String,
    model: Option<String>,
    parent_kind: Option<ParentKind>,
    started_at: Option<Time>,
    ended_at: Option<Time>,
    message_count: i64,
    archived: bool,
    workspace: Option<String>,
    /// True for the session that the user named.
    asked: bool,
    children: Vec<SessionNode>,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let ledger = logs::current_ledger(context)?;
    let id = match &arguments.session {
        Some(typed) => ledger.resolve(typed)?,
        None => find_last_session(&ledger, context)?,
    };
    let root = session_tree(&ledger, &id)?;
    if context.globals.json {
        output::print_json(&root);
    } else {
        print_tree(&root, &ShortIds::new(&ledger)?, context);
    }
    Ok(ExitCode::SUCCESS)
}

/// Finds the last session of any agent in this directory.
fn find_last_session(ledger: &Ledger, context: &Context) -> Result<String, Failure> {
    let directory = context.directory.canonicalize();
    let directory = directory.unwrap_or_else(|_| context.directory.clone());
    let workspace = Some(directory.display().to_string());
    let sessions = ledger.sessions(&ListOptions { workspace, ..ListOptions::default() })?;
    sessions.into_iter().next().map(|summary| summary.session.id).ok_or_else(|| {
        Failure::new("no session in this directory")
            .hint("`takeback sessions list` lists all sessions; name one")
    })
}

/// Returns the oldest ancestor of a session, together with all descendants of that ancestor.
pub(crate) fn session_tree(ledger: &Ledger, id: &str) -> Result<SessionNode, Failure> {
    let root = match ledger.ancestors(id)?.pop() {
        Some(oldest) => oldest,
        None => ledger.session(id)?,
    };
    let descendants = ledger.descendants(&root.id)?;
    let mut rest = descendants.as_slice();
    Ok(SessionNode { children: take_children(&mut rest, 1, id), ..SessionNode::new(&root, id) })
}

/// Takes siblings from the front of a list in depth-first order: the next sessions at this depth,
/// each with its descendants.
fn take_children(rest: &mut &[Descendant], depth: usize, asked: &str) -> Vec<SessionNode> {
    let mut nodes = Vec::new();
    while let Some((first, behind)) = rest.split_first()
        && first.depth >= depth
    {
        *rest = behind;
        let children = take_children(rest, depth + 1, asked);
        nodes.push(SessionNode { children, ..SessionNode::new(&first.session, asked) });
    }
    nodes
}

impl SessionNode {
    fn new(session: &SessionRecord, asked: &str) -> SessionNode {
        SessionNode {
            id: session.id.clone(),
            title: session.title.clone(),
            source: session.source.clone(),
            model: session.model.clone(),
            parent_kind: session.parent_kind,
            started_at: session.started_at,
            ended_at: session.ended_at,
            message_count: session.message_count,
            archived: session.archived,
            workspace: session.workspace.clone(),
            asked: session.id == asked,
            children: Vec::new(),
        }
    }
}

fn print_tree(root: &SessionNode, ids: &ShortIds, context: &Context) {
    let mut table = Table::new([
        Column::left(),
        Column::left().shrinks(2, 0),
        Column::left().shrinks(4, 0),
        Column::right().shrinks(1, 0),
        Column::free().shrinks(3, 16),
        Column::free().shrinks(5, 8),
        Column::free(),
    ]);
    add_rows(&mut table, root, &Branch::default(), ids, context);
    table.print();
}

/// The position of a session in the drawing of the tree.
#[derive(Default)]
struct Branch<'a> {
    /// The line-drawing characters to the left of the session.
    own: String,
    /// The line-drawing characters to the left of the session's children.
    indent: String,
    /// The workspace of the session's parent.
    workspace: Option<&'a str>,
}

/// Adds a row for a session and for each of its descendants. A session that works in a different
/// directory from its parent is shown with its directory.
fn add_rows(
    table: &mut Table,
    node: &SessionNode,
    branch: &Branch<'_>,
    ids: &ShortIds,
    context: &Context,
) {
    let messages = usize::try_from(node.message_count).unwrap_or_default();
    let workspace = node.workspace.as_deref();
    let elsewhere =
        workspace.filter(|_| branch.workspace.is_some() && workspace != branch.workspace);
    let elsewhere = elsewhere.map(|path| output::tilde(Path::new(path), context));
    table.add([
        Cell::new(format!("{}{}", branch.own, ids.short_id(&node.id))),
        Cell::new(node.parent_kind.map_or("", ParentKind::as_str)),
        Cell::new(node.started_at.map(text::local_time).unwrap_or_default()),
        Cell::new(output::count(messages, "message")),
        Cell::new(node.title.as_deref().unwrap_or_default()),
        Cell::new(elsewhere.unwrap_or_default()),
        Cell::new(if node.asked { "← this session" } else { "" }),
    ]);
    let indent = &branch.indent;
    for (at, child) in (1..).zip(&node.children) {
        let (fork, bar) =
            if at == node.children.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let (own, indent) = (format!("{indent}{fork}"), format!("{indent}{bar}"));
        add_rows(table, child, &Branch { own, indent, workspace }, ids, context);
    }
}
