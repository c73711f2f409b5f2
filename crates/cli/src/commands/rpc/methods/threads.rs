//! Methods about threads: conversations of apps that keep the state of their graph in the ledger.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use takeback_ledger::{
    Channel, Encoded, Ledger, LedgerError, ThreadFilter, ThreadKey, ThreadState, ThreadWrite,
};

use super::super::Server;
use super::super::params::Params;
use super::super::protocol::{Answer, Error, answer};
use crate::context::Context;
use crate::failure::Failure;

pub(super) fn put(_: &Server, context: &Context, mut params: Params) -> Answer {
    let state = ThreadState {
        key: take_key(&mut params)?,
        id: params.required("id")?,
        parent: params.optional("parent")?,
        time: context.now(),
        files: params.optional("files")?,
        metadata: params.or_default("metadata")?,
        deltas: params.or_default("deltas")?,
        content: params.required("content")?,
        channels: params.or_default::<Vec<Channel>>("channels")?,
        writes: Vec::new(),
    };
    params.end()?;
    let missing = write(context, |ledger| ledger.put_thread_state(&state, context.now()))?;
    answer(&json!({ "missing": missing }))
}

pub(super) fn write_results(_: &Server, context: &Context, mut params: Params) -> Answer {
    let key = take_key(&mut params)?;
    let state: String = params.required("state")?;
    let task: String = params.required("task")?;
    let path: String = params.or_default("path")?;
    let writes: Vec<Write> = params.required("writes")?;
    params.end()?;
    let writes: Vec<ThreadWrite> =
        writes.into_iter().map(|write| write.complete(&task, &path)).collect();
    write(context, |ledger| ledger.put_thread_writes(&key, &state, &writes))?;
    answer(&json!({ "state": state }))
}

/// The result of a task, as a parameter.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Write {
    position: i64,
    channel: String,
    value: Encoded,
}

impl Write {
    fn complete(self, task: &str, path: &str) -> ThreadWrite {
        let Write { position, channel, value } = self;
        ThreadWrite { task: task.to_owned(), path: path.to_owned(), position, channel, value }
    }
}

pub(super) fn get(_: &Server, context: &Context, mut params: Params) -> Answer {
    let key = take_key(&mut params)?;
    let id: Option<String> = params.optional("id")?;
    params.end()?;
    let ledger = context.ledger()?;
    answer(&ledger.thread_state(&key, id.as_deref()).map_err(Failure::from)?)
}

pub(super) fn list(_: &Server, context: &Context, mut params: Params) -> Answer {
    let filter = ThreadFilter {
        app: take_app(&mut params)?,
        thread: params.optional("thread")?,
        namespace: params.optional("namespace")?,
        id: params.optional("id")?,
        before: params.optional("before")?,
        metadata: params.or_default::<Map<String, Value>>("metadata")?,
        after: params.optional("after")?,
        limit: params.optional("limit")?,
    };
    params.end()?;
    let ledger = context.ledger()?;
    answer(&ledger.list_thread_states(&filter).map_err(Failure::from)?)
}

pub(super) fn copy(_: &Server, context: &Context, mut params: Params) -> Answer {
    let app = take_app(&mut params)?;
    let from: String = params.required("from")?;
    let to: String = params.required("to")?;
    params.end()?;
    let copied = write(context, |ledger| ledger.copy_thread(&app, &from, &to))?;
    answer(&json!({ "states": copied }))
}

pub(super) fn delete(_: &Server, context: &Context, mut params: Params) -> Answer {
    let app = take_app(&mut params)?;
    let thread: String = params.required("thread")?;
    params.end()?;
    let deleted = write(context, |ledger| ledger.delete_thread(&app, &thread))?;
    answer(&json!({ "states": deleted }))
}

pub(super) fn delete_runs(_: &Server, context: &Context, mut params: Params) -> Answer {
    let app = take_app(&mut params)?;
    let runs: Vec<String> = params.required("runs")?;
    params.end()?;
    let deleted = write(context, |ledger| ledger.delete_thread_runs(&app, &runs))?;
    answer(&json!({ "states": deleted }))
}

pub(super) fn prune(_: &Server, context: &Context, mut params: Params) -> Answer {
    let app = take_app(&mut params)?;
    let thread: String = params.required("thread")?;
    params.end()?;
    let deleted = write(context, |ledger| ledger.prune_thread(&app, &thread))?;
    answer(&json!({ "states": deleted }))
}

fn write<T>(
    context: &Context,
    write: impl FnOnce(&mut Ledger) -> Result<T, LedgerError>,
) -> Result<T, Failure> {
    Ok(write(&mut *context.ledger()?)?)
}

fn take_key(params: &mut Params) -> Result<ThreadKey, Error> {
    Ok(ThreadKey {
        app: take_app(params)?,
        thread: params.required("thread")?,
        namespace: params.or_default("namespace")?,
    })
}

/// Takes the name of the app, which separates its threads from those of other apps.
fn take_app(params: &mut Params) -> Result<String, Error> {
    let app: String = params.required("app")?;
    match app.trim().is_empty() {
        true => Err(Error::invalid_params("app must not be empty")),
        false => Ok(app),
    }
}
