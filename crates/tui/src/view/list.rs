//! The list of turns: one line per turn, grouped by day and session.

use jiff::Timestamp;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use takeback_base::columns::width_of;
use takeback_undo::RowView;
use takeback_undo::view::text::{agent_of, clock, count, effect_kinds, one_line, relative};
use takeback_undo::view::{Entry, RollbackEntry, describe_rollback};

use super::mark_selected;
use super::text::{LineBuilder, short_number};
use crate::model::list::ListLine;
use crate::model::{Model, Past};
use crate::theme::{Ink, Theme};

/// The minimum width at which a row shows its agent and the number of changed files.
const WIDE: usize = 72;

/// The minimum width at which a row shows its effects.
const VERY_WIDE: usize = 84;

pub(super) fn draw(model: &Model, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let Some(past) = model.past.ready() else { return };
    let view = ListView { model, past, theme, width: usize::from(area.width) };
    let lines = model.list.lines.iter().enumerate().skip(model.list.top);
    for (y, (place, line)) in (area.y..area.bottom()).zip(lines) {
        buffer.set_line(area.x, y, &view.render(line), area.width);
        if place == model.list.at {
            let line = Rect { y, height: 1, ..area };
            mark_selected(buffer, line, !model.is_pane_focused);
        }
    }
}

struct ListView<'a> {
    model: &'a Model,
    past: &'a Past,
    theme: Theme,
    width: usize,
}

impl ListView<'_> {
    fn render(&self, line: &ListLine) -> Line<'static> {
        match line {
            ListLine::Problem(text) => {
                let mut line = LineBuilder::new(self.width);
                line.add(" ⚠ ", self.theme.style(Ink::Warning));
                line.add(&one_line(text), self.theme.style(Ink::Warning));
                line.build()
            }
            ListLine::Day(name) => Line::styled(format!(" {name}"), self.theme.style(Ink::Strong)),
            ListLine::Session(session) => self.render_session(session),
            ListLine::Entry(place) => match &self.past.timeline.entries[*place] {
                Entry::Row(row) => self.render_row(row),
                Entry::Rollback(rollback) => self.render_rollback(rollback),
            },
            ListLine::Step(place, step) => self.render_step(*place, *step),
        }
    }

    fn render_session(&self, session: &str) -> Line<'static> {
        let mut line = LineBuilder::new(self.width);
        let agent = one_line(agent_of(session));
        let own = session.split_once(':').map_or(session, |(_, own)| own);
        let title = self.past.timeline.titles.get(session).map_or(own, String::as_str);
        line.add(" ", self.theme.style(Ink::Text));
        line.add(&agent, self.theme.agent(&agent)).add("  ", self.theme.style(Ink::Text));
        line.add(&one_line(title), self.theme.style(Ink::Faint));
        if self.past.working.iter().any(|working| working == session) {
            line.add("  ● working now", self.theme.style(Ink::Here));
        }
        line.build()
    }

    /// Formats a time as the time of day, or says how long ago it was.
    fn time(&self, time: &str) -> String {
        let time: Timestamp = time.parse().unwrap_or_default();
        match self.model.has_absolute_times {
            true => clock(time, &self.model.zone),
            false => relative(time, self.model.now),
        }
    }

    fn render_row(&self, row: &RowView) -> Line<'static> {
        let theme = self.theme;
        let is_here = self.past.timeline.current() == Some(row.id);
        let (mark, ink) = match (is_here, row.kind) {
            (true, _) => ("●", Ink::Here),
            (_, "manual") => ("◆", Ink::Text),
            _ => ("○", Ink::Faint),
        };
        let mut line = LineBuilder::new(self.width);
        line.add(" ", theme.style(Ink::Text)).add(mark, theme.style(ink));
        line.add_right(&self.time(&row.time), theme.style(Ink::Faint), 5);
        line.add("  ", theme.style(Ink::Text));
        let agent = row.agent.as_deref().map(one_line).unwrap_or_default();
        if self.width >= WIDE {
            line.add_filled(&agent, theme.agent(&agent), 9).add(" ", theme.style(Ink::Text));
        }
        let facts = self.facts_of(row);
        let room = line.left().saturating_sub(width_of_line(&facts));
        self.add_subject(&mut line, row, room);
        for span in facts.spans {
            line.add(&span.content, span.style);
        }
        line.build()
    }

    /// Adds the prompt, and the signs for the row's steps, name and pin.
    fn add_subject(&self, line: &mut LineBuilder, row: &RowView, room: usize) {
        let theme = self.theme;
        let mut badges = String::new();
        if let Some(name) = &row.name {
            badges.push_str(&format!(" [{}]", one_line(name)));
        }
        if row.pinned {
            badges.push_str(" pinned");
        }
        if row.late {
            badges.push_str(" late");
        }
        let badges = takeback_base::columns::shorten(&badges, room / 2);
        let steps = match (row.steps.len(), self.model.list.is_open(&row.id)) {
            (0 | 1, _) => "",
            (_, true) => " ▾",
            (_, false) => " ▸",
        };
        let used = width_of(&badges) + width_of(steps);
        let subject = one_line(row.prompt.as_deref().unwrap_or(&row.reason));
        let ink = match (row.taken_back, row.prompt.is_some()) {
            (true, _) => Ink::TakenBack,
            (false, true) => Ink::Text,
            // A row without a prompt shows the reason for the checkpoint, which takeback may have
            // written.
            (false, false) => Ink::Faint,
        };
        let subject = takeback_base::columns::shorten(&subject, room.saturating_sub(used));
        let gap = room.saturating_sub(width_of(&subject) + used);
        line.add(&subject, theme.style(ink)).add(steps, theme.style(Ink::Faint));
        line.add(&badges, theme.style(Ink::Key)).add(&" ".repeat(gap), theme.style(Ink::Text));
    }

    /// Renders the counts and effects of a row, in columns of fixed width.
    fn facts_of(&self, row: &RowView) -> Line<'static> {
        let theme = self.theme;
        let mut line = LineBuilder::new(self.width);
        let number = |sign: &str, number: Option<u64>| match number {
            Some(number) if number > 0 => format!("{sign}{}", short_number(number)),
            _ => String::new(),
        };
        if self.width >= WIDE {
            let files = row.files_changed.filter(|files| *files > 0);
            let files = files.map(|files| count(files, "file")).unwrap_or_default();
            line.add_right(&files, theme.style(Ink::Faint), 11);
        }
        line.add_right(&number("+", row.insertions), theme.style(Ink::Added), 7);
        line.add_right(&number("−", row.deletions), theme.style(Ink::Removed), 6);
        let kinds = effect_kinds(&row.effects);
        let warning = match kinds.is_empty() {
            true => String::new(),
            false if self.width >= VERY_WIDE => format!("⚠ {}", one_line(&kinds.join(", "))),
            false => "⚠".to_owned(),
        };
        let room = if self.width >= VERY_WIDE { 14 } else { 2 };
        line.add(" ", theme.style(Ink::Text));
        line.add_filled(&warning, theme.style(Ink::Warning), room);
        line.build()
    }

    fn render_rollback(&self, rollback: &RollbackEntry) -> Line<'static> {
        let theme = self.theme;
        let mut line = LineBuilder::new(self.width);
        line.add(" ◇", theme.style(Ink::Faint));
        line.add_right(&self.time(&rollback.time), theme.style(Ink::Faint), 5);
        line.add("  ", theme.style(Ink::Text));
        line.add(&describe_rollback(rollback), theme.style(Ink::Faint));
        line.build()
    }

    fn render_step(&self, place: usize, step: usize) -> Line<'static> {
        let theme = self.theme;
        let Entry::Row(row) = &self.past.timeline.entries[place] else { return Line::default() };
        let found = &row.steps[step];
        let mut line = LineBuilder::new(self.width);
        line.add(" │", theme.style(Ink::Faint));
        line.add_right(&self.time(&found.time), theme.style(Ink::Faint), 5);
        line.add("  ", theme.style(Ink::Text));
        line.add(&format!("{}  ", found.number), theme.style(Ink::Faint));
        let reason = one_line(found.reason.strip_prefix("before ").unwrap_or(&found.reason));
        line.add(&reason, theme.style(if row.taken_back { Ink::TakenBack } else { Ink::Text }));
        line.build()
    }
}

fn width_of_line(line: &Line<'_>) -> usize {
    line.spans.iter().map(|span| width_of(&span.content)).sum()
}
