//! The tabs Effects and Coverage.

use ratatui::text::Line;
use takeback_tree::Head;
use takeback_undo::EffectView;
use takeback_undo::view::text::{count, one_line};

use super::pane::describe_load;
use super::text::{LineBuilder, wrap};
use crate::model::Model;
use crate::model::pane::{Details, Tab};
use crate::theme::{Ink, Theme};

pub(super) fn render(model: &Model, theme: Theme, width: usize) -> Vec<Line<'static>> {
    if let Some(lines) = describe_load(&model.pane.details, theme) {
        return lines;
    }
    let Some(details) = model.pane.details.ready() else { return Vec::new() };
    let mut facts = Facts { theme, width, lines: Vec::new() };
    match model.pane.tab {
        Tab::Effects => facts.add_effects(details, model.row().map_or(&[], |row| &row.effects)),
        _ => facts.add_coverage(details),
    }
    facts.lines
}

struct Facts {
    theme: Theme,
    width: usize,
    lines: Vec<Line<'static>>,
}

impl Facts {
    /// Adds text, wrapped to the width.
    fn say(&mut self, text: &str, ink: Ink) {
        let style = self.theme.style(ink);
        self.lines.extend(wrap(text, self.width).into_iter().map(|line| Line::styled(line, style)));
    }

    fn add_pair(&mut self, name: &str, value: &str, ink: Ink) {
        let mut line = LineBuilder::new(self.width);
        line.add_filled(name, self.theme.style(ink), 12);
        line.add(value, self.theme.style(Ink::Text));
        self.lines.push(line.build());
    }

    fn add_effects(&mut self, details: &Details, effects: &[EffectView]) {
        let checkpoint = &details.checkpoint;
        if effects.is_empty() {
            self.say(
                "No command of this turn had effects that a rollback cannot reverse.",
                Ink::Faint,
            );
        } else {
            self.say(
                "No rollback reverses what these commands did outside the files.",
                Ink::Warning,
            );
            self.lines.push(Line::default());
            for effect in effects {
                self.add_pair(
                    &format!("⚠ {}", one_line(&effect.kind)),
                    &one_line(&effect.command),
                    Ink::Warning,
                );
            }
        }
        self.lines.push(Line::default());
        self.say("The git repository", Ink::Strong);
        self.add_pair("HEAD then", &describe_head(checkpoint.repository.as_ref()), Ink::Faint);
        self.add_pair("HEAD now", &describe_head(details.head.as_ref()), Ink::Faint);
        let has_moved = checkpoint.repository.is_some()
            && details.head.is_some()
            && checkpoint.repository != details.head;
        if has_moved {
            let moved = "HEAD has moved since. A rollback restores the files, and names the git \
                         command that moves HEAD back.";
            self.lines.push(Line::default());
            self.say(moved, Ink::Text);
        }
    }

    fn add_coverage(&mut self, details: &Details) {
        let checkpoint = &details.checkpoint;
        if let Some(files) = checkpoint.files {
            self.say(&format!("This checkpoint holds {}.", count(files, "file")), Ink::Text);
        }
        if !checkpoint.unsettled.is_empty() {
            let why = "These databases were written to while they were captured, and may be \
                       inconsistent:";
            self.say(why, Ink::Warning);
            for path in &checkpoint.unsettled {
                self.say(&format!("  {path}"), Ink::Text);
            }
        }
        if checkpoint.uncovered.is_empty() {
            self.say("Nothing in this workspace was left out.", Ink::Faint);
            return;
        }
        self.lines.push(Line::default());
        self.say(
            "These paths are not protected. A rollback leaves them as they are.",
            Ink::Warning,
        );
        self.lines.push(Line::default());
        for found in &checkpoint.uncovered {
            let mut line = LineBuilder::new(self.width);
            let room = self.width / 2;
            line.add_filled(&found.path.to_string(), self.theme.style(Ink::Text), room);
            line.add("  ", self.theme.style(Ink::Text));
            line.add(&one_line(&found.reason.to_string()), self.theme.style(Ink::Faint));
            self.lines.push(line.build());
        }
    }
}

fn describe_head(head: Option<&Head>) -> String {
    let Some(head) = head else { return "no repository".into() };
    let commit =
        head.commit.as_deref().map_or("no commit", |commit| commit.get(..10).unwrap_or(commit));
    match &head.branch {
        Some(branch) => format!("{commit} on {}", one_line(branch)),
        None => format!("{commit} (detached)"),
    }
}
