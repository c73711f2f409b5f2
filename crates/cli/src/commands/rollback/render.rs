//! Prints the plans and results of rollbacks and undos.

use std::process::ExitCode;

use takeback_tree::{Head, KeptPath, KeptReason, RelPath};
use takeback_undo::hook::quote_word;
use takeback_undo::{Action, MovedSession, RollbackView};

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Style, paint, print_section};

/// Prints the result, or the plan if nothing was done, and returns the exit code.
pub(crate) fn print_result(view: &RollbackView, dry_run: bool, context: &Context) -> ExitCode {
    let blocked = !view.blocked.is_empty();
    let is_left = view.conflicts.iter().any(|conflict| !conflict.resolved);
    let has_failed = view.elsewhere.iter().any(|group| group.error.is_some());
    let code = if blocked || is_left || has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    if output::answers_json(view, context) {
        return code;
    }
    if dry_run || blocked {
        print_plan(view, "Would restore", "Would delete", context);
    } else {
        print_plan(view, "Restored", "Deleted", context);
    }
    print_warnings(view, context);
    view.warnings.iter().for_each(|warning| output::warn(warning));
    if blocked {
        let hint =
            "move the blocking paths out of the way, or restore the rest with --skip-blocked";
        Failure::new("nothing was changed").hint(hint).report(false);
    } else if view.safety_checkpoint.is_some() {
        let back = if view.action == Action::Undo { "redo" } else { "undo" };
        let done = if has_failed { "The workspace is restored." } else { "Done." };
        println!("{done} `takeback rollback {back}` takes this back.");
    } else if view.restored.is_empty() && view.deleted.is_empty() && view.elsewhere.is_empty() {
        if view.conflicts.is_empty() && view.uncertain.is_empty() && view.skipped.is_empty() {
            println!("Nothing to restore: everything is already in that state.");
        } else {
            println!("Nothing was changed.");
        }
    }
    if !blocked {
        report_failed_parts(view, dry_run, context);
    }
    code
}

/// Reports the parts outside the workspace that failed and are therefore left unchanged.
pub(crate) fn report_failed_parts(view: &RollbackView, dry_run: bool, context: &Context) {
    let command = match view.row {
        Some(row) => format!("takeback undo --turn {row}"),
        None => format!("takeback rollback {}", &view.checkpoint.to_string()[..7]),
    };
    for group in &view.elsewhere {
        let Some(error) = &group.error else { continue };
        let place = output::tilde(&group.workspace.0, context);
        let failure = Failure::new(format!("{place} is left unchanged")).because_of(error);
        let failure = match dry_run {
            true => failure,
            false => failure.hint(format!("fix the cause, then `{command}` restores it as well")),
        };
        failure.report(false);
    }
}

pub(crate) fn print_plan(view: &RollbackView, restore: &str, delete: &str, context: &Context) {
    let paths = |paths: &[RelPath]| paths.iter().map(ToString::to_string).collect::<Vec<_>>();
    print_section(restore, paths(&view.restored), context);
    print_section(delete, paths(&view.deleted), context);
    let guarded = "Guarded, not changed (name a file to restore it)";
    print_section(guarded, paths(&view.guarded), context);
    print_section("Kept", view.kept.iter().map(describe_kept), context);
    print_section(
        "Changed during the restore, kept under these names",
        paths(&view.saved),
        context,
    );
    let blocked = view.blocked.iter().map(output::blocked_line);
    print_section("Cannot be restored", blocked, context);
    let skipped = view.skipped.iter().map(output::blocked_line);
    print_section("Skipped, not changed", skipped, context);
    let since = match view.action {
        Action::Rollback | Action::UndoTurn => "turn",
        Action::Undo => "rollback",
        Action::Redo => "undo",
    };
    let others = format!(
        "Edited since the {since}, by you or another agent (saved in the safety checkpoint)"
    );
    print_section(&others, paths(&view.others), context);
    let (resolved, left): (Vec<_>, Vec<_>) =
        view.conflicts.iter().partition(|conflict| conflict.resolved);
    let line =
        |conflict: &takeback_undo::Conflict| format!("{}  ({})", conflict.path, conflict.reason);
    print_section("Conflicts, resolved as asked", resolved.into_iter().map(line), context);
    let conflicts =
        "Conflicts, not changed: edited since the turn (choose --theirs, --ours or --markers)";
    print_section(conflicts, left.into_iter().map(line), context);
    let uncertain =
        "Not changed: others may have made these changes (--uncertain also takes them back)";
    let doubt =
        |doubt: &takeback_undo::UncertainPath| format!("{}  ({})", doubt.path, doubt.reason);
    print_section(uncertain, view.doubts.iter().map(doubt), context);
    let is_restored = |database: &&RelPath| {
        let beside = format!("{database}-");
        let mut restored = view.restored.iter();
        restored.any(|path| path == *database || path.to_string().starts_with(&beside))
    };
    let unsettled = view.unsettled.iter().filter(is_restored).map(ToString::to_string);
    print_section("Captured while being written, possibly inconsistent", unsettled, context);
    let privileged = "Setuid or setgid: other users who run these files act as you";
    print_section(privileged, paths(&view.privileged), context);
    let unprivileged = "Restored without setuid and setgid, because another user owned the file";
    print_section(unprivileged, paths(&view.unprivileged), context);
    let disowned = "Will be owned by root, because it is not known who should have access";
    print_section(disowned, paths(&view.disowned), context);
    for group in &view.elsewhere {
        let place = output::tilde(&group.workspace.0, context);
        // The files in `.git` belong to git and are numerous, so they are only counted.
        let is_counted = group.workspace.0.ends_with(".git") && !context.globals.verbose;
        let paths = |found: &[RelPath]| match found.len() {
            0 => Vec::new(),
            count if is_counted => {
                vec![format!("{} of the repository", output::count(count, "file"))]
            }
            _ => paths(found),
        };
        print_section(&format!("{restore} in {place}"), paths(&group.restored), context);
        print_section(&format!("{delete} in {place}"), paths(&group.deleted), context);
        print_section(&format!("{others}, in {place}"), paths(&group.others), context);
        let left = format!("Not changed in {place}, because you or others edited these files");
        print_section(&left, paths(&group.left), context);
        let blocked = group.blocked.iter().map(output::blocked_line);
        print_section(&format!("Cannot be restored in {place}"), blocked, context);
    }
    if context.globals.verbose {
        let lines = view.uncovered.iter().map(output::uncovered_line);
        print_section("Not covered by the checkpoint", lines, context);
    } else if !view.uncovered.is_empty() {
        let count = output::count(view.uncovered.len(), "path");
        println!("Not covered by the checkpoint: {count} (-v lists them).");
    }
}

/// Prints the effects, the state of the repository, and the conversation.
pub(crate) fn print_warnings(view: &RollbackView, context: &Context) {
    let changes = !view.restored.is_empty() || !view.deleted.is_empty();
    if changes && !view.effects.is_empty() {
        let mut kinds: Vec<&str> = Vec::new();
        for effect in &view.effects {
            if !kinds.contains(&effect.kind.as_str()) {
                kinds.push(&effect.kind);
            }
        }
        let sign = paint(Style::Warning, "⚠");
        let title = format!("{sign} These {} effects cannot be reversed", kinds.join("/"));
        let line = |effect: &takeback_undo::EffectView| {
            format!("{}: {}", effect.kind, output::disarm(&output::shorten(&effect.command, 100)))
        };
        print_section(&title, view.effects.iter().map(line), context);
    }
    // A repository that no longer exists is reported among the warnings.
    let moved = view.repository.as_ref().filter(|moved| moved.now != Head::default());
    if let Some(moved) = moved {
        println!(
            "The git repository was at {}; now it is at {}.",
            describe_head(&moved.then),
            describe_head(&moved.now)
        );
        if let Some(command) = &moved.command {
            println!("  To go back: `{}`", output::disarm(command));
        }
    }
    print_conversations(view);
    if let Some(chat) = &view.chat {
        let lines = chat.prompt.iter().flat_map(|prompt| prompt.trim_end().lines());
        print_section("The prompt was", lines.map(output::disarm), context);
        let is_followed = view.sessions.iter().any(|moved| moved.resume.is_some());
        if let Some(resume) = chat.resume.as_ref().filter(|_| !is_followed) {
            println!(
                "To take back the agent's own copy of the conversation: {}.",
                output::disarm(resume)
            );
        }
    }
}

/// Prints how many messages are taken back and how many are restored, per session if there are
/// several.
fn print_conversations(view: &RollbackView) {
    let is_one = view.sessions.len() == 1;
    for moved in &view.sessions {
        let of = match is_one {
            true => String::new(),
            false => format!(" of {}", output::disarm(&moved.session)),
        };
        let counts = [(moved.undone_messages, "taken back"), (moved.redone_messages, "restored")];
        let parts: Vec<String> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{} {what}", output::count(*count, "message")))
            .collect();
        println!("Conversation{of}: {}.", parts.join(", "));
        print_resume(moved);
    }
}

/// Prints how to continue the agent's own conversation, or why it stays as it is.
fn print_resume(moved: &MovedSession) {
    if let Some(resume) = &moved.resume {
        let command: Vec<String> = resume.argv.iter().map(|word| quote_word(word)).collect();
        let command = output::disarm(&command.join(" "));
        let inside = match &resume.typed {
            Some(line) => format!(", or type `{}` in the agent", output::disarm(line)),
            None => String::new(),
        };
        match &resume.session {
            Some(_) => println!("  Continue with `{command}`{inside}."),
            None => println!("  Nothing is left of it: start anew with `{command}`."),
        }
    } else if let Some(reason) = &moved.stays {
        println!("  The agent's own copy stays as it is: {}.", output::disarm(reason));
    }
}

/// Describes the commit and branch of a repository: `1234567 on main`.
pub(crate) fn describe_head(head: &Head) -> String {
    let commit =
        head.commit.as_ref().map_or("no commit".to_owned(), |commit| commit[..7].to_owned());
    match &head.branch {
        Some(branch) => format!("{commit} on {}", output::disarm(branch)),
        None => format!("{commit} (detached)"),
    }
}

fn describe_kept(kept: &KeptPath) -> String {
    match kept.reason {
        KeptReason::NotCovered => format!("{}  (the checkpoint did not cover it)", kept.path),
        KeptReason::NotSaved => {
            format!("{}  (it cannot be saved now, so it was not touched)", kept.path)
        }
        KeptReason::NotEmpty => format!("{}  (not empty)", kept.path),
    }
}
