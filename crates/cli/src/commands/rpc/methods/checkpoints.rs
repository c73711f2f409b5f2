//! Methods that take, list, compare and fork checkpoints.

use std::path::PathBuf;

use serde::Deserialize;
use takeback_tree::AnyPath;
use takeback_undo::{CheckpointOptions, ForkFiles};

use super::super::Server;
use super::super::params::Params;
use super::super::protocol::{Answer, Error, answer};
use crate::commands::checkpoint;
use crate::commands::{diff as compare, fork as forking, list as listing};
use crate::context::Context;

pub(super) fn create(_: &Server, context: &Context, mut params: Params) -> Answer {
    let options = CheckpointOptions {
        reason: params.optional("reason")?,
        name: params.optional("name")?,
        pinned: params.or_default("pinned")?,
    };
    params.end()?;
    answer(&checkpoint::take_checkpoint(&options, context)?)
}

pub(super) fn list(_: &Server, context: &Context, params: Params) -> Answer {
    params.end()?;
    answer(&listing::make_list(context)?)
}

pub(super) fn diff(_: &Server, context: &Context, mut params: Params) -> Answer {
    let checkpoint: CheckpointName = params.required("checkpoint")?;
    let paths = take_paths(&mut params)?;
    let full = params.or_default("full")?;
    params.end()?;
    answer(&compare::compare_with_present(&checkpoint.into_text(), &paths, full, context)?)
}

pub(super) fn fork(_: &Server, context: &Context, mut params: Params) -> Answer {
    let from: CheckpointName = params.required("from")?;
    let directory: Option<AnyPath> = params.optional("directory")?;
    let chat_only = params.or_default("chat_only")?;
    let git: Option<bool> = params.optional("git")?;
    let agent: Option<String> = params.optional("agent")?;
    params.end()?;
    let files = match (directory, chat_only) {
        (Some(_), true) => {
            return Err(Error::invalid_params("chat_only takes no directory"));
        }
        (None, true) => ForkFiles::Skip,
        (Some(AnyPath(directory)), false) => ForkFiles::Into(context.directory.join(directory)),
        (None, false) => ForkFiles::Beside,
    };
    let wanted = forking::Wanted::new(files, git.unwrap_or(true), agent);
    let made = forking::make_fork(&from.into_text(), wanted, context)?;
    answer(&made.1)
}

/// The name of a checkpoint: the number of a row (`2`), a step (`"2.3"`), a name, or an id.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected the number of a row, or a string: a step, a name, an id")]
pub(super) enum CheckpointName {
    Row(u64),
    Text(String),
}

impl CheckpointName {
    pub(super) fn into_text(self) -> String {
        match self {
            CheckpointName::Row(number) => number.to_string(),
            CheckpointName::Text(text) => text,
        }
    }
}

/// Takes the paths to work on, relative to the directory of the request. No paths means all paths.
pub(super) fn take_paths(params: &mut Params) -> Result<Vec<PathBuf>, Error> {
    let paths: Vec<AnyPath> = params.or_default("paths")?;
    Ok(paths.into_iter().map(|AnyPath(path)| path).collect())
}
