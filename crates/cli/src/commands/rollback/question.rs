//! The question before a rollback: the user can agree, look at the diff, choose files, or keep
//! their own edits.

use std::path::PathBuf;

use takeback_agents::split_words;
use takeback_undo::{Destination, Planned, Request, Scope, TurnUndo};

use super::{make_plan, render};
use crate::commands::{diff, list};
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// The answers that make sense for a plan, besides yes and no.
struct Choices {
    /// The row of the turn that the user can undo instead. An undo keeps the user's edits.
    undo: Option<usize>,
    /// True if the plan can be shown as a diff, and limited to some files.
    has_files: bool,
}

/// Shows the plan, and asks until the user agrees. Returns the request and the plan that the user
/// agreed to. Ends the command if the user declines.
pub(super) fn ask_about(
    mut request: Request,
    mut planned: Planned,
    context: &Context,
) -> Result<(Request, Planned), Failure> {
    let opened = context.opened_anyway()?;
    render::print_plan(planned.view(), context);
    loop {
        let choices = Choices::of(&request, &planned, context);
        let answer = output::ask_line(&choices.question()).unwrap_or_default();
        let changed = match (answer.to_lowercase().as_str(), choices.undo) {
            ("y" | "yes", _) => return Ok((request, planned)),
            ("d" | "diff", _) if choices.has_files => {
                show_diff(&request, context)?;
                continue;
            }
            ("f" | "files", _) if choices.has_files => ask_for_files(&request, context),
            ("k" | "keep", Some(row)) => {
                let undo = TurnUndo { row: Some(row), ..TurnUndo::default() };
                Some(Request { to: Destination::WithoutTurn(undo), ..request.clone() })
            }
            _ => return Err(Failure::declined()),
        };
        let Some(changed) = changed else { continue };
        match make_plan(opened, &changed) {
            Ok(new) if new.is_empty() || new.is_blocked() => {
                render::print_plan(new.view(), context);
                println!("This cannot be done. The earlier plan still applies.");
            }
            Ok(new) => {
                (request, planned) = (changed, new);
                render::print_plan(planned.view(), context);
            }
            Err(error) => drop(Failure::from(error).report(false)),
        }
    }
}

impl Choices {
    fn of(request: &Request, planned: &Planned, context: &Context) -> Choices {
        let is_checkpoint = matches!(request.to, Destination::Checkpoint(_));
        let has_files = is_checkpoint && request.scope != Scope::Chat;
        let is_whole = has_files && request.scope == Scope::Both && request.paths.is_empty();
        let undo = match is_whole && !request.index {
            true => find_last_turn(planned, context),
            false => None,
        };
        Choices { undo, has_files }
    }

    fn question(&self) -> String {
        let answers = [
            Some("[y]es"),
            self.undo.map(|_| "[k]eep my edits (undo)"),
            self.has_files.then_some("[d]iff"),
            self.has_files.then_some("[f]iles…"),
            Some("[N]o"),
        ];
        let answers: Vec<&str> = answers.into_iter().flatten().collect();
        format!("Continue? {} ", answers.join("  "))
    }
}

/// Finds the row that the plan returns to, if that row is the last turn that has not been taken
/// back. Only then does an undo of that turn take back the same work as the rollback.
fn find_last_turn(planned: &Planned, context: &Context) -> Option<usize> {
    let rows = list::make_list(context).ok()?.checkpoints;
    let last = rows.iter().find(|row| row.kind == "turn" && !row.taken_back)?;
    (last.id == planned.view().checkpoint).then_some(last.number)
}

/// Shows what changed since the checkpoint, which is what the rollback reverses.
fn show_diff(request: &Request, context: &Context) -> Result<(), Failure> {
    let Destination::Checkpoint(checkpoint) = &request.to else { return Ok(()) };
    let arguments = diff::Arguments::since(checkpoint.clone(), request.paths.clone());
    diff::run(&arguments, context).map(drop)
}

/// Asks for the files to restore. Returns `None` if the user names none.
fn ask_for_files(request: &Request, context: &Context) -> Option<Request> {
    let named = output::ask_line("Restore only these files, directories or patterns: ")?;
    let paths: Vec<PathBuf> = split_words(&named).into_iter().map(PathBuf::from).collect();
    let directory = context.directory.clone();
    (!paths.is_empty()).then(|| Request { paths, directory, ..request.clone() })
}
