//! Checkpoints: taking one, listing them, comparing with one.

use std::path::PathBuf;

use serde::Deserialize;
use takeback_tree::AnyPath;
use takeback_undo::CheckpointOptions;

use super::super::Server;
use super::super::params::Params;
use super::super::protocol::{Answer, Error, answer};
use crate::commands::checkpoint;
use crate::commands::rollback::{diff as compare, list as listing};
use crate::context::Context;

pub(super) fn create(_: &Server, context: &Context, mut params: Params) -> Answer {
    let options = CheckpointOptions {
        reason: params.optional("reason")?,
        name: params.optional("name")?,
        pinned: params.or_default("pinned")?,
    };
    params.end()?;
    answer(&checkpoint::take(&options, context)?)
}

pub(super) fn list(_: &Server, context: &Context, params: Params) -> Answer {
    params.end()?;
    answer(&listing::view(context)?)
}

pub(super) fn diff(_: &Server, context: &Context, mut params: Params) -> Answer {
    let checkpoint: Name = params.required("checkpoint")?;
    let paths = paths(&mut params)?;
    let full = params.or_default("full")?;
    params.end()?;
    answer(&compare::view(&checkpoint.text(), &paths, full, context)?)
}

/// What a checkpoint is called: a number of the list (`2`), a step (`"2.3"`), a name, an id.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a row's number, or a text: a step, a name, an id")]
pub(super) enum Name {
    Row(u64),
    Text(String),
}

impl Name {
    pub(super) fn text(self) -> String {
        match self {
            Name::Row(number) => number.to_string(),
            Name::Text(text) => text,
        }
    }
}

/// Files and directories, from the directory of the request; none: everything.
pub(super) fn paths(params: &mut Params) -> Result<Vec<PathBuf>, Error> {
    let paths: Vec<AnyPath> = params.or_default("paths")?;
    Ok(paths.into_iter().map(|AnyPath(path)| path).collect())
}
