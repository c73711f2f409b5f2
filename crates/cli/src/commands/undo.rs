//! `takeback undo`: takes back what the agent did in a turn and keeps everything else.

use std::process::ExitCode;

use clap::Args;
use takeback_tree::RelPath;
use takeback_undo::{Destination, Request, Resolution, Scope, TurnUndo, UncertainPath};

use super::rollback;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// Take back what the agent changed in its last turn, and keep everything else
///
/// Merges each file: takes back the changes of the turn, and keeps changes that you or other agents
/// have made since. If the same lines of a file have been changed again since the turn, the file is
/// listed but not changed, unless --theirs, --ours or --markers is given. If the turn is the last
/// one of its conversation, the conversation also returns to the point before it.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback undo                 the last turn that changed files
  takeback undo --turn 3        the turn in row 3 of `takeback list`
  takeback undo --dry-run       show what would happen
  takeback undo --theirs        in conflicts, use the lines from before the turn
  takeback rollback undo        reverse the undo")]
pub(crate) struct Arguments {
    /// Take back the turn in row N of `takeback list`
    #[arg(long, value_name = "N")]
    turn: Option<usize>,
    /// Show what would happen and change nothing
    #[arg(long)]
    dry_run: bool,
    /// In conflicts, use the lines from before the turn
    #[arg(long, group = "conflicts")]
    theirs: bool,
    /// In conflicts, keep the current lines
    #[arg(long, group = "conflicts")]
    ours: bool,
    /// In conflicts, write both versions between markers
    #[arg(long, group = "conflicts")]
    markers: bool,
    /// Also take back changes that you or another agent may have made (on a terminal, `undo` asks)
    #[arg(long)]
    uncertain: bool,
    /// Skip paths that cannot be restored, and take back the rest
    #[arg(long)]
    skip_blocked: bool,
    /// Do not change the conversation
    #[arg(long)]
    files_only: bool,
    /// Do not touch files outside the workspace
    #[arg(long)]
    workspace_only: bool,
    // A row is parsed only so that it can be rejected with a hint.
    #[arg(value_name = "ROW", hide = true)]
    row: Option<String>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    if let Some(row) = &arguments.row {
        return Err(Failure::new("`undo` takes no checkpoint").hint(format!(
            "`takeback undo --turn {row}` takes back one turn; `takeback rollback {row}` returns \
             to the state before it"
        )));
    }
    let conflicts = match (arguments.theirs, arguments.ours, arguments.markers) {
        (true, ..) => Resolution::Theirs,
        (_, true, _) => Resolution::Ours,
        (.., true) => Resolution::Markers,
        _ => Resolution::Leave,
    };
    let uncertain = arguments.uncertain;
    let row = arguments.turn;
    let mut options = TurnUndo { row, conflicts, uncertain, ..TurnUndo::default() };
    let request = |options| Request {
        skip_blocked: arguments.skip_blocked,
        workspace_only: arguments.workspace_only,
        scope: if arguments.files_only { Scope::Files } else { Scope::Both },
        ..Request::new(&context.directory, Destination::WithoutTurn(options))
    };
    if context.asks() && !arguments.dry_run {
        options.taken = ask_about_doubts(&request(options.clone()), context)?;
    }
    rollback::carry_out(request(options), arguments.dry_run, context)
}

/// Asks about each file that the user or another agent may have changed. Returns the files whose
/// changes the user wants to take back as well.
fn ask_about_doubts(request: &Request, context: &Context) -> Result<Vec<RelPath>, Failure> {
    let planned = takeback_undo::rollback::plan(context.opened_anyway()?, request)?;
    let doubts = planned.into_view().doubts.into_iter();
    let is_taken = |doubt: &UncertainPath| {
        let path = output::disarm(&doubt.path.to_string());
        output::is_agreed(&format!("{path} ({}): also take this change back?", doubt.reason))
    };
    Ok(doubts.filter(is_taken).map(|doubt| doubt.path).collect())
}
