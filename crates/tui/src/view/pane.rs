//! The right pane: its tabs, and the body of the chosen tab.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use takeback_tree::RelPath;

use super::conversation::{ConversationView, count_conversation};
use super::{diff, facts, files, mark_selected};
use crate::content::DiffRow;
use crate::host::Problem;
use crate::model::pane::{Pane, Tab};
use crate::model::{Load, Model};
use crate::theme::{Ink, Theme};

pub(super) fn draw(model: &Model, theme: Theme, tabs: Rect, body: Rect, buffer: &mut Buffer) {
    if model.subject().is_none() {
        return;
    }
    buffer.set_line(tabs.x, tabs.y, &render_tabs(model, theme), tabs.width);
    let width = usize::from(body.width);
    let range = model.pane.top..model.pane.top + usize::from(body.height);
    let lines = match model.pane.tab {
        Tab::Files => files::render(model, theme, range, width),
        Tab::Diff => diff::render(&model.pane, theme, range, width),
        Tab::Conversation => {
            let (messages, is_unfolded) = (&model.pane.conversation, model.pane.is_unfolded);
            ConversationView { model, messages, is_unfolded, theme }.render(range, width)
        }
        Tab::Effects | Tab::Coverage => {
            facts::render(model, theme, width).into_iter().skip(model.pane.top).collect()
        }
    };
    super::put_lines(buffer, body, &lines);
    if model.pane.tab == Tab::Files
        && model.is_pane_focused
        && let Some(line) = files::line_of_file(model).checked_sub(model.pane.top)
        && line < usize::from(body.height)
        && !model.pane.files().is_empty()
    {
        mark_selected(buffer, Rect { y: body.y + line as u16, height: 1, ..body }, true);
    }
}

/// Returns the number of lines in the body of the chosen tab.
pub(crate) fn pane_length(model: &Model) -> usize {
    let pane = &model.pane;
    match pane.tab {
        Tab::Files => files::count_lines(model),
        Tab::Diff => diff::count_lines(pane),
        Tab::Conversation => {
            let messages = pane.conversation.ready();
            messages.map_or(0, |messages| count_conversation(messages, pane.is_unfolded))
        }
        Tab::Effects | Tab::Coverage => {
            let theme = Theme { colors: crate::theme::Colors::None, is_unicode: true };
            facts::render(model, theme, model.layout().body_width()).len()
        }
    }
}

/// Finds the line of the diff at which a file begins.
pub(crate) fn find_file_row(pane: &Pane, path: &RelPath) -> Option<usize> {
    let rows = &pane.diff.ready()?.rows;
    let is_head = |row: &DiffRow| matches!(row, DiffRow::File(change) if change.path == *path);
    rows.iter().position(is_head).map(|row| row + diff::HEAD_LINES)
}

/// Returns the names of the tabs, each with the number of its items.
fn tab_labels(model: &Model) -> [String; 5] {
    let details = model.pane.details.ready();
    let number = |tab: Tab| {
        let details = details?;
        let number = match tab {
            Tab::Files => details.changes.len(),
            Tab::Effects => model.row().map_or(0, |row| row.effects.len()),
            Tab::Coverage => details.checkpoint.uncovered.len(),
            Tab::Diff | Tab::Conversation => 0,
        };
        Some(number).filter(|number| *number > 0)
    };
    let labels = Tab::ALL.map(|tab| match number(tab) {
        Some(number) => format!("{} {number}", tab.name()),
        None => tab.name().to_owned(),
    });
    let width: usize = labels.iter().map(|label| label.len() + GAP.len()).sum();
    // In a narrow pane, the names are more important than the numbers.
    match width - GAP.len() <= model.layout().body_width() {
        true => labels,
        false => Tab::ALL.map(|tab| tab.name().to_owned()),
    }
}

const GAP: &str = "  ";

fn render_tabs(model: &Model, theme: Theme) -> Line<'static> {
    let mut spans = Vec::new();
    for (tab, label) in Tab::ALL.into_iter().zip(tab_labels(model)) {
        let is_chosen = tab == model.pane.tab;
        let style = match (is_chosen, model.is_pane_focused) {
            (true, true) => theme.style(Ink::Key).add_modifier(Modifier::BOLD | Modifier::REVERSED),
            (true, false) => {
                theme.style(Ink::Key).add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
            }
            (false, _) => theme.style(Ink::Faint),
        };
        spans.push(Span::styled(label, style));
        spans.push(Span::raw(GAP));
    }
    Line::from(spans)
}

/// Finds the tab at a column of the tab line.
pub(crate) fn tab_at(model: &Model, column: usize) -> Option<usize> {
    let mut end = 0;
    tab_labels(model).iter().position(|label| {
        end += label.chars().count() + GAP.len();
        column < end
    })
}

/// Explains why content cannot be shown, or cannot be shown yet. Returns `None` if it is ready.
pub(super) fn describe_load<T>(load: &Load<T>, theme: Theme) -> Option<Vec<Line<'static>>> {
    match load {
        Load::Ready(_) => None,
        Load::Idle | Load::Waiting => Some(Vec::new()),
        Load::Failed(problem) => Some(describe_problem(problem, theme)),
    }
}

fn describe_problem(problem: &Problem, theme: Theme) -> Vec<Line<'static>> {
    let mut lines = vec![Line::styled(problem.line(), theme.style(Ink::Warning))];
    let hint = problem.hint.as_ref().map(|hint| format!("hint: {hint}"));
    lines.extend(hint.map(|hint| Line::styled(hint, Style::new())));
    lines
}
