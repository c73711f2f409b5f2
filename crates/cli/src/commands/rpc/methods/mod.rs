//! The methods, grouped by subject.

mod about;
mod checkpoints;
mod conversation;
mod reports;
mod rollback;
mod sessions;
mod slash;
mod threads;

use super::Server;
use super::params::Params;
use super::protocol::Answer;
use crate::context::Context;

/// A method. Its parameters no longer contain `cwd`, which has become the directory of the context.
pub(super) type Method = fn(&Server, &Context, Params) -> Answer;

/// All methods. A test checks that docs/protocol.md describes each of them.
const METHODS: [(&str, Method); 47] = [
    ("initialize", about::initialize),
    ("status", about::status),
    ("config.get", about::config),
    ("explain", about::explain),
    ("session.start", |server, context, params| {
        reports::report("session_start", &[], server, context, params)
    }),
    ("turn.start", |server, context, params| {
        reports::report("turn_start", &["prompt"], server, context, params)
    }),
    ("tool.before", |server, context, params| {
        reports::report("before_tool", &reports::CALL, server, context, params)
    }),
    ("tool.after", |server, context, params| {
        reports::report("after_tool", &reports::ENDED_CALL, server, context, params)
    }),
    ("turn.end", |server, context, params| {
        reports::report("turn_end", &[], server, context, params)
    }),
    ("session.end", conversation::end_session),
    ("session.set", conversation::set_session),
    ("session.compress", conversation::compress),
    ("notices.take", conversation::take_notices),
    ("messages.append", conversation::append),
    ("usage.record", conversation::record_usage),
    ("checkpoint.create", checkpoints::create),
    ("checkpoint.list", checkpoints::list),
    ("checkpoint.diff", checkpoints::diff),
    ("fork", checkpoints::fork),
    ("rollback.plan", rollback::plan),
    ("rollback.apply", rollback::apply),
    ("rollback.undo", rollback::undo),
    ("rollback.redo", rollback::redo),
    ("undo.plan", rollback::plan_turn),
    ("undo.apply", rollback::apply_turn),
    ("sessions.list", sessions::list),
    ("sessions.get", sessions::get),
    ("sessions.search", sessions::search),
    ("sessions.tree", sessions::tree),
    ("sessions.title", sessions::title),
    ("sessions.end", sessions::end),
    ("sessions.reopen", sessions::reopen),
    ("sessions.archive", sessions::archive),
    ("sessions.clear", sessions::clear),
    ("sessions.fork", sessions::fork),
    ("sessions.undo", sessions::undo),
    ("sessions.redo", sessions::redo),
    ("sessions.stats", sessions::stats),
    ("slash", slash::slash),
    ("threads.put", threads::put),
    ("threads.write", threads::write_results),
    ("threads.get", threads::get),
    ("threads.list", threads::list),
    ("threads.copy", threads::copy),
    ("threads.prune", threads::prune),
    ("threads.delete", threads::delete),
    ("threads.delete_runs", threads::delete_runs),
];

pub(super) fn find_method(name: &str) -> Option<Method> {
    METHODS.iter().find(|(known, _)| *known == name).map(|(_, method)| *method)
}
