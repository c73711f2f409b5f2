//! Prints the plans and results of rollbacks and undos.

use std::process::ExitCode;

use takeback_agents::Rewind;
use takeback_tree::{Head, KeptPath, KeptReason, RelPath};
use takeback_undo::view::list_files;
use takeback_undo::view::text::effect_kinds;
use takeback_undo::{Action, MovedSession, RollbackView};

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Style, paint, print_section};

/// The state of the rollback that is described.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
    /// Nothing is done; the user wants to know what a rollback would do.
    DryRun,
    /// The rollback was carried out without asking, so the user has not seen the plan.
    Done,
    /// The rollback was carried out after the user had seen the plan, so the plan is not repeated.
    DoneAsShown,
}

/// The verbs for a rollback that will be made, would be made, or has been made.
struct Verbs {
    restore: &'static str,
    delete: &'static str,
    /// The verb for changes in other directories.
    change: &'static str,
    /// The auxiliary verb at the beginning of a sentence, as in `Will restore 2 files`.
    auxiliary: &'static str,
    /// The auxiliary verb before a participle, as in `will be restored`.
    passive: &'static str,
}

const WILL: Verbs = Verbs {
    restore: "restore",
    delete: "delete",
    change: "change",
    auxiliary: "Will ",
    passive: " will be",
};
const WOULD: Verbs = Verbs { auxiliary: "Would ", passive: " would be", ..WILL };
const PAST: Verbs =
    Verbs { restore: "restored", delete: "deleted", change: "changed", auxiliary: "", passive: "" };

/// Prints the result, or the plan if nothing was done, and returns the exit code.
pub(crate) fn print_result(view: &RollbackView, report: Report, context: &Context) -> ExitCode {
    let blocked = !view.blocked.is_empty();
    let is_left = view.conflicts.iter().any(|conflict| !conflict.resolved);
    let has_failed = view.elsewhere.iter().any(|group| group.error.is_some());
    let code = if blocked || is_left || has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    if output::answers_json(view, context) {
        return code;
    }
    let is_plan = report == Report::DryRun || blocked;
    if report == Report::DoneAsShown && !blocked {
        print_paths(SAVED, &view.saved, context);
        print_conversations(view, &PAST);
    } else {
        print_totals(view, is_plan);
        let verbs = if is_plan { &WOULD } else { &PAST };
        print_sections(view, verbs, context);
        print_warnings(view, verbs, context);
    }
    print_own_copy_hint(view);
    view.warnings.iter().for_each(|warning| output::warn(warning));
    if blocked {
        let hint =
            "move the blocking paths out of the way, or restore the rest with --skip-blocked";
        Failure::new("nothing was changed").hint(hint).report(false);
    } else if view.safety_checkpoint.is_some() {
        let back = if view.action == Action::Undo { "redo" } else { "undo" };
        let done = match has_failed {
            true => "The workspace is restored.".to_owned(),
            false => sum_up(view, &PAST).unwrap_or_else(|| "Done.".to_owned()),
        };
        println!("{done} `takeback rollback {back}` takes this back.");
    } else if view.restored.is_empty() && view.deleted.is_empty() && view.elsewhere.is_empty() {
        if view.conflicts.is_empty() && view.uncertain.is_empty() && view.skipped.is_empty() {
            println!("Nothing to restore: everything is already in that state.");
        } else {
            println!("Nothing was changed.");
        }
    }
    if !blocked {
        report_failed_parts(view, report == Report::DryRun, context);
    }
    code
}

/// Prints the plan that the user is asked about, totals first.
pub(super) fn print_plan(view: &RollbackView, context: &Context) {
    if let Some(totals) = sum_up_plan(view, &WILL) {
        println!("{totals}");
    }
    print_sections(view, &WILL, context);
    print_warnings(view, &WILL, context);
    print_own_copy_hint(view);
    report_failed_parts(view, true, context);
}

/// Prints the totals of a plan that is not carried out. Does nothing for a result: its totals are
/// printed last, with the command that reverses the rollback.
fn print_totals(view: &RollbackView, is_plan: bool) {
    if let Some(totals) = sum_up_plan(view, &WOULD).filter(|_| is_plan) {
        println!("{totals}");
    }
}

/// Sums up a plan: `Will restore 12 files and delete 3. 2 of them have been edited since.`
fn sum_up_plan(view: &RollbackView, verbs: &Verbs) -> Option<String> {
    let totals = sum_up(view, verbs)?;
    Some(match view.others.len() {
        0 => totals,
        1 if count_files(&view.restored) + count_files(&view.deleted) == 1 => {
            format!("{totals} It has been edited since.")
        }
        1 => format!("{totals} 1 of them has been edited since."),
        others => format!("{totals} {others} of them have been edited since."),
    })
}

/// Sums up the changes to files: `Restored 12 files and deleted 3.` Returns `None` if no files
/// change.
fn sum_up(view: &RollbackView, verbs: &Verbs) -> Option<String> {
    let outside = view.elsewhere.iter().filter(|group| group.error.is_none());
    let outside: usize =
        outside.map(|group| count_files(&group.restored) + count_files(&group.deleted)).sum();
    let mut parts = Vec::new();
    for (verb, paths) in [(verbs.restore, &view.restored), (verbs.delete, &view.deleted)] {
        let count = count_files(paths);
        match (count, parts.is_empty()) {
            (0, _) => {}
            (_, true) => parts.push(format!("{verb} {}", output::count(count, "file"))),
            (_, false) => parts.push(format!("{verb} {count}")),
        }
    }
    if outside > 0 {
        let files = output::count(outside, "file");
        parts.push(format!("{} {files} outside the workspace", verbs.change));
    }
    let (last, first) = parts.split_last()?;
    let all = match first.is_empty() {
        true => last.clone(),
        false => format!("{} and {last}", first.join(", ")),
    };
    Some(format!("{}.", capitalize(&format!("{}{all}", verbs.auxiliary))))
}

fn count_files(paths: &[RelPath]) -> usize {
    list_files(paths).len()
}

fn capitalize(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}

/// Reports the parts outside the workspace that failed and are therefore left unchanged.
fn report_failed_parts(view: &RollbackView, dry_run: bool, context: &Context) {
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

const SAVED: &str = "Changed during the restore, kept under these names";

fn print_paths(title: &str, paths: &[RelPath], context: &Context) {
    print_section(title, paths.iter().map(ToString::to_string), context);
}

fn print_sections(view: &RollbackView, verbs: &Verbs, context: &Context) {
    let [restore, delete] =
        [verbs.restore, verbs.delete].map(|verb| capitalize(&format!("{}{verb}", verbs.auxiliary)));
    let paths = |paths: &[RelPath]| paths.iter().map(ToString::to_string).collect::<Vec<_>>();
    print_section(&restore, paths(&view.restored), context);
    print_section(&delete, paths(&view.deleted), context);
    let guarded = "Guarded, not changed (name a file to restore it)";
    print_section(guarded, paths(&view.guarded), context);
    print_section("Kept", view.kept.iter().map(describe_kept), context);
    print_paths(SAVED, &view.saved, context);
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
fn print_warnings(view: &RollbackView, verbs: &Verbs, context: &Context) {
    let changes = !view.restored.is_empty() || !view.deleted.is_empty();
    if changes && !view.effects.is_empty() {
        let kinds = effect_kinds(&view.effects);
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
    print_conversations(view, verbs);
    if let Some(chat) = &view.chat {
        let lines = chat.prompt.iter().flat_map(|prompt| prompt.trim_end().lines());
        print_section("The prompt was", lines.map(output::disarm), context);
    }
}

/// Prints how to take back the agent's own copy of the conversation, if takeback cannot do that
/// itself.
fn print_own_copy_hint(view: &RollbackView) {
    let is_left = view.sessions.iter().any(|moved| moved.stays.is_some());
    let resume = view.chat.as_ref().and_then(|chat| chat.resume.as_ref());
    if let Some(resume) = resume.filter(|_| is_left) {
        let resume = output::disarm(resume);
        println!("To take back the agent's own copy of the conversation: {resume}.");
    }
}

/// Prints what happens to the conversation, one line per session: how much of it is taken back or
/// restored, and how to continue it in the agent.
fn print_conversations(view: &RollbackView, verbs: &Verbs) {
    let is_one = view.sessions.len() == 1;
    for moved in &view.sessions {
        let of = match is_one {
            true => String::new(),
            false => format!(" of {}", output::disarm(&moved.session)),
        };
        let resume = describe_resume(moved).map(|text| format!(" {text}")).unwrap_or_default();
        println!("Conversation{of}: {}.{resume}", describe_move(moved, verbs));
    }
}

/// Describes how much of a conversation is taken back, and how much of it is restored.
fn describe_move(moved: &MovedSession, verbs: &Verbs) -> String {
    let be = verbs.passive;
    let mut parts = Vec::new();
    if moved.undone_messages > 0 {
        let messages = output::count(moved.undone_messages, "message");
        parts.push(match moved.undone_turns {
            0 => format!("{messages}{be} taken back"),
            turns => format!("{} ({messages}){be} taken back", output::count(turns, "turn")),
        });
    }
    if moved.redone_messages > 0 {
        parts.push(format!("{}{be} restored", output::count(moved.redone_messages, "message")));
    }
    parts.join(", ")
}

/// Describes how to continue the agent's own conversation, or why it stays as it is.
fn describe_resume(moved: &MovedSession) -> Option<String> {
    let Some(resume) = &moved.resume else {
        let reason = output::disarm(moved.stays.as_ref()?);
        return Some(format!("The agent's own copy stays as it is: {reason}."));
    };
    let command = output::continuation_from_here(resume);
    let typed = resume.typed.as_deref().map(output::disarm);
    Some(match &resume.session {
        None => {
            format!("Nothing is left of the conversation: start a new one with `{command}`.")
        }
        Some(_) if resume.in_place => format!(
            "{} continues there, although its screen still shows the rest{}. Elsewhere, continue \
             with `{command}`.",
            title_of(&resume.agent),
            name_condition(&resume.agent)
        ),
        Some(_) => {
            let inside = typed.map(|line| format!(", or type `{line}` in the agent"));
            format!("Continue with `{command}`{}.", inside.unwrap_or_default())
        }
    })
}

/// Returns the condition under which a conversation stays rewound if it was rewound in place.
fn name_condition(agent: &str) -> &'static str {
    match takeback_agents::find_rewind(agent).is_some_and(Rewind::needs_plugin) {
        true => ", as long as takeback's plugin is installed",
        false => "",
    }
}

fn title_of(agent: &str) -> &str {
    takeback_agents::find_agent(agent).map_or(agent, |agent| agent.title)
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
