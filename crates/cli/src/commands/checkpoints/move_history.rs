//! `takeback checkpoints move`: moves the history of a workspace to its new directory.

use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use takeback_tree::AnyPath;
use takeback_undo::Opened;

use crate::context::Context;
use crate::failure::Failure;
use crate::output;

#[derive(Serialize)]
struct MoveView {
    from: AnyPath,
    to: AnyPath,
    moved: u64,
}

pub(super) fn run(
    opened: &Opened,
    old: &Path,
    new: &Path,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let (old, new) = (context.directory.join(old), context.directory.join(new));
    let moved = takeback_undo::move_history(opened, &old, &new)?;
    let view =
        MoveView { from: AnyPath(moved.from), to: AnyPath(moved.to), moved: moved.checkpoints };
    if context.globals.json {
        output::print_json(&view);
    } else {
        println!(
            "Moved the history of {} to {}.",
            output::tilde(&view.from.0, context),
            output::tilde(&view.to.0, context)
        );
    }
    Ok(ExitCode::SUCCESS)
}
