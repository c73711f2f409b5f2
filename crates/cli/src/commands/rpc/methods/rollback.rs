//! The way back: plans, and doing what they say.

use serde::Deserialize;
use serde_json::{Value, json};
use takeback_undo::{Direction, PlannedRollback, Resolution, RollbackView, Scope, UndoOptions};

use super::super::Server;
use super::super::params::Params;
use super::super::protocol::{Answer, Error, answer};
use super::checkpoints::{Name, paths};
use crate::commands::rollback::{Wanted, reverse, roll_back};
use crate::commands::undo::undo as undo_turn;
use crate::context::Context;
use crate::failure::Failure;

pub(super) fn plan(_: &Server<'_>, context: &Context, mut params: Params) -> Answer {
    let wanted = wanted(&mut params)?;
    params.end()?;
    answer(&roll_back(&context.keeper()?, &wanted, context, show)?)
}

pub(super) fn apply(_: &Server<'_>, context: &Context, mut params: Params) -> Answer {
    let wanted = wanted(&mut params)?;
    let digest = params.optional("digest")?;
    params.end()?;
    answer(&roll_back(&context.keeper()?, &wanted, context, |plan| carry_out(plan, digest))?)
}

pub(super) fn undo(_: &Server<'_>, context: &Context, params: Params) -> Answer {
    step(Direction::Undo, context, params)
}

pub(super) fn redo(_: &Server<'_>, context: &Context, params: Params) -> Answer {
    step(Direction::Redo, context, params)
}

fn step(direction: Direction, context: &Context, mut params: Params) -> Answer {
    let dry_run: bool = params.or_default("dry_run")?;
    params.end()?;
    let view = reverse(&context.keeper()?, direction, context, |plan| match dry_run {
        true => Ok(plan.cancel()),
        false => carry_out(plan, None),
    });
    answer(&view?)
}

pub(super) fn plan_turn(_: &Server<'_>, context: &Context, mut params: Params) -> Answer {
    let options = undo_options(&mut params)?;
    params.end()?;
    answer(&undo_turn(&context.keeper()?, &options, context, show)?)
}

pub(super) fn apply_turn(_: &Server<'_>, context: &Context, mut params: Params) -> Answer {
    let options = undo_options(&mut params)?;
    let digest = params.optional("digest")?;
    params.end()?;
    answer(&undo_turn(&context.keeper()?, &options, context, |plan| carry_out(plan, digest))?)
}

/// What a plan says, and how to ask for exactly that.
fn show(plan: PlannedRollback<'_, '_>) -> Result<Value, Error> {
    let digest = plan.digest();
    Ok(json!({ "digest": digest, "plan": plan.cancel() }))
}

/// Does what a plan says, if it is still the one with this digest.
fn carry_out(plan: PlannedRollback<'_, '_>, digest: Option<String>) -> Result<RollbackView, Error> {
    if digest.is_some_and(|digest| digest != plan.digest().to_string()) {
        return Err(Error::changed(&show(plan)?));
    }
    if !plan.view().blocked.is_empty() {
        return Err(Error::blocked(&plan.cancel()));
    }
    if plan.is_empty() {
        return Ok(plan.cancel());
    }
    Ok(plan.apply().map_err(Failure::from)?)
}

fn wanted(params: &mut Params) -> Result<Wanted, Error> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum What {
        #[default]
        Both,
        Files,
        Chat,
    }
    let checkpoint: Name = params.required("checkpoint")?;
    let paths = paths(params)?;
    let scope = match params.or_default("scope")? {
        What::Both => Scope::Both,
        What::Files => Scope::Files,
        What::Chat => Scope::Chat,
    };
    let index = params.or_default("index")?;
    if scope == Scope::Chat && (index || !paths.is_empty()) {
        return Err(Error::invalid_params("scope: \"chat\" goes with neither paths nor index"));
    }
    Ok(Wanted { checkpoint: checkpoint.text(), paths, scope, index })
}

fn undo_options(params: &mut Params) -> Result<UndoOptions, Error> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Conflicts {
        #[default]
        Leave,
        Theirs,
        Ours,
        Markers,
    }
    let conflicts = match params.or_default("conflicts")? {
        Conflicts::Leave => Resolution::Leave,
        Conflicts::Theirs => Resolution::Theirs,
        Conflicts::Ours => Resolution::Ours,
        Conflicts::Markers => Resolution::Markers,
    };
    Ok(UndoOptions {
        row: params.optional("turn")?,
        conflicts,
        uncertain: params.or_default("uncertain")?,
    })
}
