//! `takeback checkpoints mirror`: brings the second copy of all checkpoints up to date.

use std::process::ExitCode;

use serde::Serialize;
use takeback_tree::AnyPath;
use takeback_undo::{Opened, retention};

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Progress};

#[derive(Serialize)]
struct MirrorView {
    path: AnyPath,
    checkpoints: u64,
    objects: u64,
    damaged: usize,
}

pub(super) fn run(opened: &Opened, context: &Context) -> Result<ExitCode, Failure> {
    let progress = Progress::new("copying");
    let updated = retention::update_mirror(opened)?;
    drop(progress);
    let (Some(report), Some(path)) = (updated, &opened.protection().mirror) else {
        let hint = "add `mirror = \"/path\"` under [protection] in config.toml";
        return Err(Failure::new("no mirror is configured").hint(hint));
    };
    let view = MirrorView {
        path: AnyPath(path.clone()),
        checkpoints: report.pins,
        objects: report.objects,
        damaged: report.damaged.len(),
    };
    if context.globals.json {
        output::print_json(&view);
    } else {
        let copied = output::count(view.checkpoints as usize, "checkpoint or step");
        println!("Copied {copied} to {}.", output::tilde(path, context));
    }
    if view.damaged > 0 {
        let damaged = output::count(view.damaged, "damaged checkpoint");
        output::warn(&format!("{damaged} could not be copied"));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
