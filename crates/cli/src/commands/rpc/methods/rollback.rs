//! Methods that plan and apply rollbacks and undos.

use serde_json::{Value, json};
use takeback_undo::rollback::{self, apply as apply_plan, roll_back};
use takeback_undo::{Destination, Planned, Request, RollbackView, Scope, TurnUndo};

use super::super::Server;
use super::super::params::Params;
use super::super::protocol::{Answer, Error, answer};
use super::checkpoints::{CheckpointName, take_paths};
use crate::context::Context;
use crate::failure::Failure;
use crate::logs;

pub(super) fn plan(_: &Server, context: &Context, mut params: Params) -> Answer {
    let request = read_request(context, &mut params)?;
    params.end()?;
    answer(&describe_plan(&make_plan(context, &request)?))
}

pub(super) fn apply(_: &Server, context: &Context, mut params: Params) -> Answer {
    let request = read_request(context, &mut params)?;
    carry_out(context, &request, params)
}

pub(super) fn plan_turn(_: &Server, context: &Context, mut params: Params) -> Answer {
    let request = read_turn_request(context, &mut params)?;
    params.end()?;
    answer(&describe_plan(&make_plan(context, &request)?))
}

pub(super) fn apply_turn(_: &Server, context: &Context, mut params: Params) -> Answer {
    let request = read_turn_request(context, &mut params)?;
    carry_out(context, &request, params)
}

pub(super) fn undo(_: &Server, context: &Context, params: Params) -> Answer {
    reverse(Destination::BeforeLastRollback, context, params)
}

pub(super) fn redo(_: &Server, context: &Context, params: Params) -> Answer {
    reverse(Destination::BeforeLastUndo, context, params)
}

fn reverse(to: Destination, context: &Context, mut params: Params) -> Answer {
    let dry_run: bool = params.or_default("dry_run")?;
    let skip_blocked = params.or_default("skip_blocked")?;
    let workspace_only = params.or_default("workspace_only")?;
    let new = Request::new(&context.directory, to);
    let request = Request { skip_blocked, workspace_only, ..new };
    if dry_run {
        params.end()?;
        return answer(make_plan(context, &request)?.view());
    }
    carry_out(context, &request, params)
}

fn make_plan(context: &Context, request: &Request) -> Result<Planned, Failure> {
    let opened = context.opened_anyway()?;
    // New entries in the agent's log belong to the conversation that the rollback takes back.
    logs::catch_up_ledger(context);
    Ok(rollback::plan(opened, request)?)
}

/// Applies a request. If the parameters contain a digest, applies the request only if the plan
/// still has this digest.
fn carry_out(context: &Context, request: &Request, mut params: Params) -> Answer {
    let digest: Option<String> = params.optional("digest")?;
    params.end()?;
    let Some(digest) = digest else {
        let opened = context.opened_anyway()?;
        logs::catch_up_ledger(context);
        let view = roll_back(opened, request).map_err(Failure::from)?;
        return answer_unless_blocked(&view);
    };
    let planned = make_plan(context, request)?;
    if digest != planned.digest().to_string() {
        return Err(Error::changed(&describe_plan(&planned)));
    }
    if planned.is_blocked() || planned.is_empty() {
        return answer_unless_blocked(planned.view());
    }
    let view = apply_plan(context.opened()?, planned).map_err(Failure::from)?;
    answer(&view)
}

fn answer_unless_blocked(view: &RollbackView) -> Answer {
    if view.blocked.is_empty() { answer(view) } else { Err(Error::blocked(view)) }
}

/// Describes a plan, with the digest that identifies it.
fn describe_plan(planned: &Planned) -> Value {
    json!({ "digest": planned.digest(), "plan": planned.view() })
}

fn read_request(context: &Context, params: &mut Params) -> Result<Request, Error> {
    let checkpoint: CheckpointName = params.required("checkpoint")?;
    let mut request =
        Request::new(&context.directory, Destination::Checkpoint(checkpoint.into_text()));
    request.paths = take_paths(params)?;
    request.scope = params.or_default("scope")?;
    request.index = params.or_default("index")?;
    request.skip_blocked = params.or_default("skip_blocked")?;
    request.workspace_only = params.or_default("workspace_only")?;
    if request.scope == Scope::Chat && (request.index || !request.paths.is_empty()) {
        return Err(Error::invalid_params("scope: \"chat\" takes neither paths nor index"));
    }
    Ok(request)
}

fn read_turn_request(context: &Context, params: &mut Params) -> Result<Request, Error> {
    let options = TurnUndo {
        row: params.optional("turn")?,
        conflicts: params.or_default("conflicts")?,
        uncertain: params.or_default("uncertain")?,
        taken: params.or_default("taken")?,
        files: params.or_default("files")?,
    };
    let skip_blocked = params.or_default("skip_blocked")?;
    let workspace_only = params.or_default("workspace_only")?;
    let new = Request::new(&context.directory, Destination::WithoutTurn(options));
    Ok(Request { skip_blocked, workspace_only, ..new })
}
