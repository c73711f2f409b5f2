//! `takeback checkpoints import`: imports Hermes checkpoints.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use takeback_import::hermes::{CheckpointReport, import_checkpoints};
use takeback_undo::Opened;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Progress};

pub(super) fn run(
    opened: &Opened,
    path: Option<&Path>,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let mut report = CheckpointReport::default();
    for directory in find_directories(opened, path, context)? {
        let bar = Progress::counting("importing", "checkpoints");
        let step = |done, total| bar.step(done, Some(total));
        let found = import_checkpoints(opened.store()?, &directory, context.now(), &step)?;
        report.projects.extend(found.projects);
        report.problems.extend(found.problems);
    }
    let is_whole = report.problems.is_empty()
        && report.projects.iter().all(|project| project.skipped.is_empty());
    if context.globals.json {
        output::print_json(&report);
    } else {
        print_report(&report, context);
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Finds the directories to import: the given one or, by default, Hermes's own directory and the
/// archives of older stores.
fn find_directories(
    opened: &Opened,
    path: Option<&Path>,
    context: &Context,
) -> Result<Vec<PathBuf>, Failure> {
    if let Some(path) = path {
        let path = context.directory.join(path);
        return match path.exists() {
            true => Ok(vec![path]),
            false => Err(Failure::new(format!("{} does not exist", path.display()))
                .hint("name the directory in which Hermes keeps its checkpoints")),
        };
    }
    // If the store has an older layout, opening it sets its repositories aside as an archive, which
    // can then be imported.
    if opened.checkpoints_directory().exists() {
        opened.store()?;
    }
    let hermes = context.hermes_home().map(|hermes| hermes.join("checkpoints"));
    let mut directories: Vec<PathBuf> =
        hermes.iter().filter(|path| path.exists()).cloned().collect();
    directories.extend(takeback_undo::retention::legacy_directories(opened));
    if directories.is_empty() {
        let place = hermes.map(|path| format!(" in {}", output::tilde(&path, context)));
        let place = place.unwrap_or_default();
        return Err(Failure::new(format!("no Hermes checkpoints{place}"))
            .hint("name the directory: `takeback checkpoints import DIR`"));
    }
    Ok(directories)
}

fn print_report(report: &CheckpointReport, context: &Context) {
    for project in &report.projects {
        let known = match project.known {
            0 => String::new(),
            known => format!(", {known} already imported"),
        };
        let path = output::tilde(&project.path.0, context);
        println!("{path}: {} new{known}", output::count(project.checkpoints, "checkpoint"));
        for skipped in &project.skipped {
            output::warn(&format!("not imported: {skipped}"));
        }
    }
    if report.projects.is_empty() {
        println!("No checkpoints found.");
    }
    report.problems.iter().for_each(|problem| output::warn(problem));
}
