//! Methods about takeback itself: version, status, settings, and the analysis of commands.

use serde_json::json;
use takeback_tree::AnyPath;

use super::super::Server;
use super::super::input::MAX_LINE;
use super::super::params::Params;
use super::super::protocol::{Answer, answer};
use crate::commands::{config, explain as explaining};
use crate::context::Context;
use crate::failure::Failure;

/// The version of the protocol. It changes whenever older clients would no longer understand the
/// answers.
const PROTOCOL: u32 = 1;

pub(super) fn initialize(_: &Server, context: &Context, params: Params) -> Answer {
    params.end()?;
    let methods: Vec<&str> = super::METHODS.iter().map(|(name, _)| *name).collect();
    answer(&json!({
        "protocol": PROTOCOL,
        "version": env!("CARGO_PKG_VERSION"),
        "home": AnyPath(context.home.clone()),
        "cwd": AnyPath(context.directory.clone()),
        "max_line_bytes": MAX_LINE,
        "methods": methods,
    }))
}

pub(super) fn status(_: &Server, context: &Context, params: Params) -> Answer {
    params.end()?;
    answer(&takeback_undo::retention::read_status(context.opened()?).map_err(Failure::from)?)
}

pub(super) fn config(_: &Server, context: &Context, params: Params) -> Answer {
    params.end()?;
    answer(&config::show::collect_settings(context)?)
}

pub(super) fn explain(_: &Server, context: &Context, mut params: Params) -> Answer {
    let command: String = params.required("command")?;
    params.end()?;
    answer(&explaining::analyse_command(&command, context)?)
}
