//! Questions: a panel at the bottom of the screen, with the safe answer first.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use takeback_base::columns::width_of;
use takeback_base::text::disarm;
use takeback_undo::view::list_files;
use takeback_undo::view::text::{count, shorten};
use takeback_undo::{Resolution, RollbackView};

use super::text::LineBuilder;
use super::{clear, put_lines};
use crate::content::Versions;
use crate::model::Load;
use crate::model::dialog::{Answer, Confirm, OpenQuestion, Purpose, TextInput};
use crate::model::plan::{Plan, Wanted, list_warnings, summarize_plan};
use crate::theme::{Ink, Theme};

/// The maximum number of paths that a plan lists.
const PATHS: usize = 10;

/// The maximum number of lines shown for each version of a file.
const VERSION_LINES: usize = 7;

/// Draws the question of whether to carry out a plan.
pub(super) fn draw_confirm(confirm: &Confirm, theme: Theme, buffer: &mut Buffer) {
    let width = usize::from(buffer.area.width);
    let mut lines = match &confirm.plan {
        _ if confirm.is_applied => vec![Line::raw(" Restoring …")],
        Load::Ready(plan) => describe_plan(confirm, plan, theme, width),
        Load::Failed(problem) => {
            let mut lines =
                vec![Line::styled(format!(" {}", problem.line()), theme.style(Ink::Warning))];
            lines.extend(problem.hint.as_ref().map(|hint| Line::raw(format!(" hint: {hint}"))));
            lines
        }
        Load::Idle | Load::Waiting => {
            vec![Line::styled(" Comparing with the workspace …", theme.style(Ink::Faint))]
        }
    };
    // The buttons must stay visible on a small screen.
    let buttons = render_buttons(confirm, theme, width);
    let most = usize::from(buffer.area.height).saturating_sub(4 + buttons.len()).max(1);
    if lines.len() > most {
        let top = confirm.top.min(lines.len() - most);
        lines = lines.into_iter().skip(top).take(most).collect();
    }
    lines.push(Line::default());
    if !confirm.is_applied {
        lines.extend(buttons);
        lines.push(render_hint(confirm, theme, width));
    }
    draw_panel(&title_of(confirm), &lines, theme, buffer);
}

fn title_of(confirm: &Confirm) -> String {
    let subject = shorten(&confirm.subject, 60);
    match &confirm.wanted {
        Wanted::TakeBack => "Reverse the last rollback?".into(),
        Wanted::Repeat => "Repeat the rollback that was reversed?".into(),
        Wanted::Undo { .. } => format!("Undo “{subject}”, and keep everything else?"),
        Wanted::Files(_, paths) => {
            let files = count(paths.len() as u64, "file");
            format!("Restore {files} from before “{subject}”?")
        }
        Wanted::Rollback(_) => format!("{}?", confirm.words.clone() + &format!(": “{subject}”")),
    }
}

fn describe_plan(confirm: &Confirm, plan: &Plan, theme: Theme, width: usize) -> Vec<Line<'static>> {
    let view = plan.planned.view();
    let mut summary = summarize_plan(view);
    if let Some(first) = summary.get(..1).map(str::to_uppercase) {
        summary.replace_range(..1, &first);
    }
    let mut lines = vec![Line::styled(format!(" {summary}."), theme.style(Ink::Strong))];
    if confirm.has_changed {
        let text = " ⚠ Files have changed since this was first shown. This is the new plan.";
        lines.push(Line::styled(text, theme.style(Ink::Warning)));
    }
    for warning in list_warnings(plan) {
        lines.push(Line::styled(format!(" ⚠ {}", disarm(&warning)), theme.style(Ink::Warning)));
    }
    for blocked in view.blocked.iter().take(PATHS) {
        let reason = disarm(&blocked.describe_reason());
        lines.push(Line::raw(format!("   {}  ({reason})", blocked.path)));
    }
    if !view.blocked.is_empty() {
        let command = match view.row {
            Some(row) => format!("takeback undo --turn {row} --skip-blocked"),
            None => {
                format!("takeback rollback {} --skip-blocked", &view.checkpoint.to_string()[..7])
            }
        };
        let hint = format!(" Move them out of the way; `{command}` restores the rest.");
        lines.push(Line::raw(hint));
    }
    let questions = confirm.questions();
    if questions.is_empty() {
        lines.extend(list_paths(view, theme));
    } else {
        lines.extend(describe_questions(confirm, &questions, theme, width));
    }
    lines
}

/// Lists the files of a plan. Deleted files come first, because they matter most.
fn list_paths(view: &RollbackView, theme: Theme) -> Vec<Line<'static>> {
    let deleted = list_files(&view.deleted).into_iter().map(|path| ("−", Ink::Removed, path));
    let restored = list_files(&view.restored).into_iter().map(|path| ("•", Ink::Warning, path));
    let all: Vec<_> = deleted.chain(restored).collect();
    let line = |(sign, ink, path): &(&str, Ink, &takeback_tree::RelPath)| {
        let since = if view.others.contains(path) { "  edited since" } else { "" };
        Line::from(vec![
            Span::styled(format!("   {sign} "), theme.style(*ink)),
            Span::raw(path.to_string()),
            Span::styled(since, theme.style(Ink::Warning)),
        ])
    };
    let mut lines: Vec<Line<'static>> = all.iter().take(PATHS).map(line).collect();
    if all.len() > PATHS {
        let more = format!("   … and {} more", all.len() - PATHS);
        lines.push(Line::styled(more, theme.style(Ink::Faint)));
    }
    lines
}

/// Lists the files that the user has to decide about, with the versions of the selected file.
fn describe_questions(
    confirm: &Confirm,
    questions: &[OpenQuestion],
    theme: Theme,
    width: usize,
) -> Vec<Line<'static>> {
    let mut lines = vec![Line::default()];
    let first = confirm.file.saturating_sub(PATHS / 2);
    for (place, question) in questions.iter().enumerate().skip(first).take(PATHS) {
        let mut line = LineBuilder::new(width);
        let is_selected = place == confirm.file;
        line.add(if is_selected { " ▸ " } else { "   " }, theme.style(Ink::Key));
        let style = theme.style(if is_selected { Ink::Strong } else { Ink::Text });
        line.add_filled(&question.path.to_string(), style, width / 3);
        line.add("  ", Style::new());
        line.add_filled(
            &format!("[{}]", describe_answer(question.answer)),
            theme.style(Ink::Key),
            34,
        );
        line.add(&question.reason, theme.style(Ink::Faint));
        lines.push(line.build());
    }
    match &confirm.versions {
        Load::Ready((_, versions)) => lines.extend(render_versions(versions, theme, width)),
        Load::Failed(problem) => {
            lines.push(Line::styled(format!("   {}", problem.line()), theme.style(Ink::Warning)));
        }
        Load::Idle | Load::Waiting => {}
    }
    lines
}

fn describe_answer(answer: Answer) -> &'static str {
    match answer {
        Answer::Conflict(Resolution::Leave) => "leave the file as it is",
        Answer::Conflict(Resolution::Theirs) => "take the lines before the turn",
        Answer::Conflict(Resolution::Ours) => "keep the lines as they are now",
        Answer::Conflict(Resolution::Markers) => "write both, with markers",
        Answer::Doubt(false) => "leave it",
        Answer::Doubt(true) => "take it back too",
    }
}

/// Renders the three versions of a file side by side, starting shortly before their first
/// difference.
fn render_versions(versions: &Versions, theme: Theme, width: usize) -> Vec<Line<'static>> {
    let none = vec!["(no such file)".to_owned()];
    let all = [&versions.before, &versions.after, &versions.now]
        .map(|version| version.as_ref().unwrap_or(&none));
    let longest = all.iter().map(|version| version.len()).max().unwrap_or(0);
    let differs = |at: &usize| {
        let [before, after, now] = all.map(|version| version.get(*at));
        before != after || after != now
    };
    let first = (0..longest).find(differs).unwrap_or(0).saturating_sub(1);
    let column = width.saturating_sub(4) / 3;
    let mut lines = vec![Line::default()];
    let mut head = LineBuilder::new(width);
    head.add("   ", Style::new());
    for name in ["before the turn", "after the turn", "now"] {
        head.add_filled(name, theme.style(Ink::Strong), column);
    }
    lines.push(head.build());
    for at in first..longest.min(first + VERSION_LINES) {
        let mut line = LineBuilder::new(width);
        line.add("   ", Style::new());
        let ink = if differs(&at) { Ink::Warning } else { Ink::Faint };
        for version in all {
            let text =
                version.get(at).map(|text| disarm(&text.replace('\t', "  "))).unwrap_or_default();
            line.add_filled(&text, theme.style(ink), column.saturating_sub(2))
                .add("  ", Style::new());
        }
        lines.push(line.build());
    }
    lines
}

/// Renders the buttons side by side or, if they do not fit, one below the other.
fn render_buttons(confirm: &Confirm, theme: Theme, width: usize) -> Vec<Line<'static>> {
    let mut buttons = Vec::new();
    for (place, words) in confirm.buttons().into_iter().enumerate() {
        let style = match place == confirm.button {
            true => theme.style(Ink::Strong).add_modifier(Modifier::REVERSED),
            false => theme.style(Ink::Text),
        };
        let words = takeback_base::columns::shorten(words, width.saturating_sub(5));
        buttons.push(Span::styled(format!("[ {words} ]"), style));
    }
    let needed: usize = buttons.iter().map(|button| width_of(&button.content) + 2).sum();
    if needed <= width {
        let beside = buttons.into_iter().flat_map(|button| [button, Span::raw("  ")]);
        return vec![Line::from(std::iter::once(Span::raw(" ")).chain(beside).collect::<Vec<_>>())];
    }
    buttons.into_iter().map(|button| Line::from(vec![Span::raw(" "), button])).collect()
}

fn render_hint(confirm: &Confirm, theme: Theme, width: usize) -> Line<'static> {
    let mut line = LineBuilder::new(width);
    line.add(" ", Style::new());
    let questions = !confirm.questions().is_empty();
    let keys = [("←→", "choose", true), ("Enter", "do it", true), ("↑↓", "file", questions)];
    let more = [("Space", "another answer", questions), ("Esc", "change nothing", true)];
    for (key, words, _) in keys.into_iter().chain(more).filter(|(.., is_shown)| *is_shown) {
        line.add(key, theme.style(Ink::Key)).add(&format!(" {words}  "), theme.style(Ink::Faint));
    }
    line.build()
}

/// Draws a text field.
pub(super) fn draw_input(input: &TextInput, theme: Theme, buffer: &mut Buffer) {
    let (title, hint) = match input.purpose {
        Purpose::Name(_) => ("Name this checkpoint", "Leave it empty to remove the name."),
        Purpose::Checkpoint => ("Take a checkpoint now", "You may give a reason."),
    };
    let width = usize::from(buffer.area.width);
    let mut line = LineBuilder::new(width);
    line.add(" > ", theme.style(Ink::Key)).add(&disarm(&input.text), theme.style(Ink::Strong));
    line.add("▌", theme.style(Ink::Key));
    let mut keys = LineBuilder::new(width);
    keys.add(&format!(" {hint}  "), theme.style(Ink::Faint));
    keys.add("Enter", theme.style(Ink::Key)).add(" do it  ", theme.style(Ink::Faint));
    keys.add("Esc", theme.style(Ink::Key)).add(" cancel", theme.style(Ink::Faint));
    draw_panel(title, &[line.build(), Line::default(), keys.build()], theme, buffer);
}

/// Draws a panel at the bottom of the screen, below a line that contains its title.
pub(super) fn draw_panel(title: &str, lines: &[Line<'_>], theme: Theme, buffer: &mut Buffer) {
    let area = buffer.area;
    let height = (lines.len() as u16 + 1).min(area.height);
    let panel = Rect { y: area.bottom() - height, height, ..area };
    clear(buffer, panel);
    for x in panel.x..panel.right() {
        buffer.set_string(x, panel.y, "─", theme.style(Ink::Faint));
    }
    let title = takeback_base::columns::shorten(title, usize::from(area.width).saturating_sub(6));
    buffer.set_string(panel.x + 2, panel.y, format!(" {title} "), theme.style(Ink::Strong));
    put_lines(buffer, Rect { y: panel.y + 1, height: height - 1, ..panel }, lines);
}
