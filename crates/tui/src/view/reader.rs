//! The screen with the sessions: a list or the results of a search, and a conversation.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use takeback_undo::view::text::{absolute, count, one_line, relative};

use super::conversation::ConversationView;
use super::foot::{add_keys, render_note};
use super::text::LineBuilder;
use super::{draw_rules, mark_selected, put_lines};
use crate::content::{FoundSession, Hit};
use crate::model::reader::Reader;
use crate::model::{Load, Model};
use crate::theme::{Ink, Theme};

pub(super) fn draw(model: &Model, reader: &Reader, theme: Theme, buffer: &mut Buffer) {
    let layout = model.layout();
    draw_head(reader, theme, layout.head, buffer);
    if let Some(area) = layout.list {
        draw_list(model, reader, theme, area, buffer);
    }
    if let (Some(tabs), Some(body)) = (layout.tabs, layout.body)
        && let Some(found) = reader.selected()
    {
        buffer.set_line(tabs.x, tabs.y, &render_title(found, theme, tabs.width), tabs.width);
        let start = reader.conversation_top;
        let range = start..start + usize::from(body.height);
        let (messages, is_unfolded) = (&reader.conversation, reader.is_unfolded);
        let view = ConversationView { model, messages, is_unfolded, theme };
        put_lines(buffer, body, &view.render(range, usize::from(body.width)));
    }
    draw_rules(theme, layout.rule, layout.foot, buffer);
    draw_foot(model, reader, theme, layout.foot, buffer);
}

/// Draws the first line: the words to search for, and the number of results.
fn draw_head(reader: &Reader, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let width = usize::from(area.width);
    let number = match (&reader.found, reader.words.is_empty()) {
        (Load::Ready(found), true) => count(found.len() as u64, "session"),
        (Load::Ready(found), false) => count(found.len() as u64, "message"),
        (Load::Failed(_), _) => String::new(),
        _ => "searching …".to_owned(),
    };
    let mut line = LineBuilder::new(width);
    let room = width.saturating_sub(number.chars().count() + 1);
    let mut left = LineBuilder::new(room);
    left.add(" Search everything ever said: ", theme.style(Ink::Faint));
    left.add(&one_line_kept(&reader.words), theme.style(Ink::Strong));
    left.add(if reader.is_typing { "▌" } else { "" }, theme.style(Ink::Key));
    let gap = left.left();
    for span in left.build().spans {
        line.add(&span.content, span.style);
    }
    line.add(&" ".repeat(gap), theme.style(Ink::Text)).add(&number, theme.style(Ink::Faint));
    buffer.set_line(area.x, area.y, &line.build(), area.width);
}

/// Makes text harmless to the terminal, but keeps its spaces.
fn one_line_kept(text: &str) -> String {
    takeback_base::text::disarm(text)
}

fn draw_list(model: &Model, reader: &Reader, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let found = match &reader.found {
        Load::Ready(found) if found.is_empty() => {
            return put_lines(buffer, area, &describe_nothing(reader));
        }
        Load::Ready(found) => found,
        Load::Failed(problem) => {
            let line = Line::styled(format!(" {}", problem.line()), theme.style(Ink::Warning));
            return put_lines(buffer, area, &[Line::default(), line]);
        }
        Load::Idle | Load::Waiting => return,
    };
    let rows = (area.y..area.bottom()).step_by(2);
    for (y, (place, found)) in rows.zip(found.iter().enumerate().skip(reader.top)) {
        let [first, second] = render_found(model, found, theme, usize::from(area.width));
        buffer.set_line(area.x, y, &first, area.width);
        let height = (area.bottom() - y).min(2);
        if height == 2 {
            buffer.set_line(area.x, y + 1, &second, area.width);
        }
        if place == reader.at {
            for line in y..y + height {
                let line = Rect { y: line, height: 1, ..area };
                mark_selected(buffer, line, !reader.is_pane_focused);
            }
        }
    }
}

fn describe_nothing(reader: &Reader) -> Vec<Line<'static>> {
    let lines = match reader.words.trim() {
        "" => {
            vec!["No sessions yet.".to_owned(), "They appear with an agent’s next prompt.".into()]
        }
        words => vec![
            format!("No message contains “{}”.", one_line(words)),
            "Try fewer words, or a part of a word with a star: migrat*".into(),
        ],
    };
    let indent = |line: String| Line::raw(format!("  {line}"));
    std::iter::once(Line::default()).chain(lines.into_iter().map(indent)).collect()
}

/// Renders a session in two lines: the agent and the title, then the time and other facts.
fn render_found(
    model: &Model,
    found: &FoundSession,
    theme: Theme,
    width: usize,
) -> [Line<'static>; 2] {
    let mut first = LineBuilder::new(width);
    let agent = one_line(&found.agent);
    let time = match model.has_absolute_times {
        true => absolute(found.time, &model.zone),
        false => relative(found.time, model.now),
    };
    first.add_right(&time, theme.style(Ink::Faint), 6).add("  ", theme.style(Ink::Text));
    first.add(&agent, theme.agent(&agent)).add("  ", theme.style(Ink::Text));
    match found.title.trim().is_empty() {
        true => first.add(&one_line(&found.session), theme.style(Ink::Faint)),
        false => first.add(&one_line(&found.title), theme.style(Ink::Text)),
    };
    let mut second = LineBuilder::new(width);
    second.add("        ", theme.style(Ink::Text));
    match &found.hit {
        Some(hit) => add_snippet(&mut second, hit, theme),
        None if found.title.trim().is_empty() => {}
        None => {
            second.add(&one_line(&found.session), theme.style(Ink::Faint));
        }
    }
    [first.build(), second.build()]
}

/// Adds the words around a match, with the match highlighted.
fn add_snippet(line: &mut LineBuilder, hit: &Hit, theme: Theme) {
    line.add(&format!("{}: ", one_line(&hit.role)), theme.style(Ink::Faint));
    let snippet = one_line(&hit.snippet);
    let mut parts = snippet.split(">>>");
    line.add(parts.next().unwrap_or_default(), theme.style(Ink::Faint));
    for part in parts {
        let (found, rest) = part.split_once("<<<").unwrap_or((part, ""));
        line.add(found, theme.style(Ink::Match)).add(rest, theme.style(Ink::Faint));
    }
}

fn render_title(found: &FoundSession, theme: Theme, width: u16) -> Line<'static> {
    let mut line = LineBuilder::new(usize::from(width));
    let agent = one_line(&found.agent);
    line.add(&agent, theme.agent(&agent)).add("  ", theme.style(Ink::Text));
    let title = if found.title.trim().is_empty() { &found.session } else { &found.title };
    line.add(&one_line(title), theme.style(Ink::Strong));
    line.build()
}

fn draw_foot(model: &Model, reader: &Reader, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let width = usize::from(area.width);
    let mut lines = match &model.note {
        Some(note) => render_note(note, theme, width),
        None => Vec::new(),
    };
    lines.resize(usize::from(area.height.saturating_sub(2)), Line::default());
    let mut keys = LineBuilder::new(width);
    keys.add(" ", theme.style(Ink::Text));
    let back = if model.is_reader_only { "quit" } else { "back to the history" };
    let last = [("?", "help"), ("q", "quit")];
    let shown = match (reader.is_typing, reader.is_pane_focused) {
        (true, _) => vec![("Enter", "done"), ("↑↓", "move")],
        (false, true) => {
            [&[("o", "open calls"), ("y", "copy resume command"), ("←", "back")], &last[..]]
                .concat()
        }
        (false, false) => {
            let first = [("Enter", "read"), ("/", "search"), ("y", "copy resume command")];
            [&first[..], &[("Esc", back)], &last].concat()
        }
    };
    add_keys(&mut keys, &shown, theme);
    lines.push(keys.build());
    let below = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    put_lines(buffer, below, &lines);
}
