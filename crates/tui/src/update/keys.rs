//! The keys that work while no question is open.

use takeback_undo::LabelChange;
use takeback_undo::view::text::one_line;

use crate::input::Key;
use crate::message::{Command, Read};
use crate::model::dialog::{Confirm, Dialog, Purpose, TextInput};
use crate::model::pane::Tab;
use crate::model::plan::Wanted;
use crate::model::reader::Reader;
use crate::model::{Load, Model, Note, NoteKind, SubjectKind};

impl Model {
    /// Carries out the action of a key, which depends on the current state.
    pub(super) fn press(&mut self, key: Key) -> Vec<Command> {
        match key {
            Key::Ctrl('c') if self.is_applying() => {
                // A restore that has begun is finished, so that its result can be shown.
                self.is_leaving = true;
                return Vec::new();
            }
            Key::Ctrl('c') => return vec![Command::Quit],
            Key::Ctrl('z') => return vec![Command::Suspend],
            Key::Ctrl('l') => return vec![Command::Redraw, Command::Read(Read::Past)],
            _ => {}
        }
        if self.dialog.is_some() {
            return self.press_in_dialog(key);
        }
        if self.reader.is_some() {
            return self.press_in_reader(key);
        }
        if self.is_filtering {
            return self.press_in_filter(key);
        }
        self.note = None;
        if let Some(commands) = self.press_to_act(key) {
            return commands;
        }
        match self.is_pane_focused {
            true => self.press_in_pane(key),
            false => self.press_in_list(key),
        }
    }

    /// Returns true while a plan is being carried out.
    fn is_applying(&self) -> bool {
        matches!(&self.dialog, Some(Dialog::Confirm(confirm)) if confirm.is_applied)
    }

    /// Adds pasted text to the line that the user types. If the user is not typing a line, the text
    /// is ignored, because its characters would act as keys.
    pub(super) fn paste(&mut self, text: &str) -> Vec<Command> {
        let is_typing = match (&self.dialog, &self.reader) {
            (Some(dialog), _) => matches!(dialog, Dialog::Input(_)),
            (None, Some(reader)) => reader.is_typing,
            (None, None) => self.is_filtering,
        };
        if !is_typing {
            let text = "Pasted text was ignored. Press / or s first to search for it.".to_owned();
            self.note = Some(Note { text, kind: NoteKind::Warning });
            return Vec::new();
        }
        let typed = one_line(text);
        typed.chars().flat_map(|character| self.press(Key::Char(character))).collect()
    }

    /// Handles the keys that have the same effect in both panes.
    fn press_to_act(&mut self, key: Key) -> Option<Vec<Command>> {
        let mut commands = Vec::new();
        match key {
            Key::Char('q') => commands.push(Command::Quit),
            Key::Char('?') => self.dialog = Some(Dialog::Help),
            Key::Char('/') => self.is_filtering = true,
            Key::Char('s') => self.reader = Some(Reader::new(true)),
            Key::Char('t') => self.has_absolute_times = !self.has_absolute_times,
            Key::Char(digit @ '1'..='5') => self.show_tab(digit as usize - '1' as usize),
            Key::Tab => self.change_tab(1),
            Key::BackTab => self.change_tab(-1),
            Key::Enter => {
                let wanted = self.wanted_now();
                commands = wanted.map(|wanted| self.ask_first(wanted)).unwrap_or_default();
            }
            Key::Char('u') => commands = self.undo_turn(),
            Key::Char('U') => commands = self.ask_first(Wanted::TakeBack),
            Key::Char('R') => commands = self.ask_first(Wanted::Repeat),
            Key::Char('d') => commands.extend(self.subject().map(|at| Command::PageDiff(at.id))),
            Key::Char('p') => commands.extend(self.toggle_pin()),
            Key::Char('n') => self.ask_for_name(),
            Key::Char('c') => {
                let purpose = Purpose::Checkpoint;
                self.dialog = Some(Dialog::Input(TextInput { purpose, text: String::new() }));
            }
            Key::Char('y') => commands.extend(self.find_resume()),
            _ => return None,
        }
        Some(commands)
    }

    fn press_in_list(&mut self, key: Key) -> Vec<Command> {
        let page = self.layout().list_height().saturating_sub(2).max(1) as isize;
        match key {
            Key::Char('j') | Key::Down => self.list.move_by(1),
            Key::Char('k') | Key::Up => self.list.move_by(-1),
            Key::PageDown | Key::Ctrl('d' | 'f') => self.list.move_by(page),
            Key::PageUp | Key::Ctrl('u' | 'b') => self.list.move_by(-page),
            Key::Home | Key::Char('g') => self.list.move_to_end(false),
            Key::End | Key::Char('G') => self.list.move_to_end(true),
            Key::Right | Key::Char('l') => {
                let is_opened = self.open_steps(true);
                self.is_pane_focused = !is_opened && self.subject().is_some();
            }
            Key::Left | Key::Char('h') => drop(self.open_steps(false)),
            // The files to restore are chosen in the right pane.
            Key::Char(' ') => {
                self.show_tab(0);
                self.is_pane_focused = self.subject().is_some();
            }
            Key::Escape if !self.list.filter.is_empty() => self.set_filter(String::new()),
            Key::Escape if !self.pane.chosen.is_empty() => self.pane.chosen.clear(),
            Key::Escape => return vec![Command::Quit],
            _ => {}
        }
        Vec::new()
    }

    fn press_in_pane(&mut self, key: Key) -> Vec<Command> {
        let page = self.layout().body_height().saturating_sub(2).max(1) as isize;
        let is_files = self.pane.tab == Tab::Files;
        match key {
            Key::Char('j') | Key::Down => self.scroll_pane(1),
            Key::Char('k') | Key::Up => self.scroll_pane(-1),
            Key::PageDown | Key::Ctrl('d' | 'f') => self.scroll_pane(page),
            Key::PageUp | Key::Ctrl('u' | 'b') => self.scroll_pane(-page),
            Key::Home | Key::Char('g') => self.scroll_pane(isize::MIN),
            Key::End | Key::Char('G') => self.scroll_pane(isize::MAX),
            Key::Char(' ') if is_files => {
                self.pane.toggle_file();
                self.scroll_pane(1);
            }
            Key::Char(' ') => self.scroll_pane(page),
            Key::Char('a') if is_files => self.pane.toggle_all(),
            Key::Right | Key::Char('l') if is_files => self.show_file_diff(),
            Key::Char('v') if self.pane.tab == Tab::Diff => {
                self.pane.is_since = !self.pane.is_since;
                (self.pane.diff, self.pane.top) = (Load::Idle, 0);
            }
            Key::Char('o') => self.pane.is_unfolded = !self.pane.is_unfolded,
            Key::Left | Key::Char('h') | Key::Escape => self.is_pane_focused = false,
            _ => {}
        }
        Vec::new()
    }

    /// Handles keys while the user types the filter. The list is filtered again after every key.
    fn press_in_filter(&mut self, key: Key) -> Vec<Command> {
        let mut filter = self.list.filter.clone();
        match key {
            Key::Char(character) => filter.push(character),
            Key::Backspace => drop(filter.pop()),
            Key::Ctrl('u') => filter.clear(),
            Key::Escape => {
                self.is_filtering = false;
                filter.clear();
            }
            Key::Enter | Key::Tab => self.is_filtering = false,
            Key::Down => self.list.move_by(1),
            Key::Up => self.list.move_by(-1),
            _ => {}
        }
        if filter == self.list.filter {
            return Vec::new();
        }
        self.set_filter(filter);
        match self.list.filter.trim() {
            "" => Vec::new(),
            _ => vec![Command::Read(Read::Said(self.list.filter.clone()))],
        }
    }

    fn set_filter(&mut self, filter: String) {
        self.list.filter = filter;
        self.rebuild_list();
    }

    fn open_steps(&mut self, is_open: bool) -> bool {
        let Load::Ready(past) = &self.past else { return false };
        let past = past.clone();
        let has_changed = self.list.open_steps(is_open, &past.timeline);
        if has_changed {
            self.rebuild_list();
        }
        has_changed
    }

    /// Shows a tab, and moves to the right pane if that pane is not visible.
    pub(super) fn show_tab(&mut self, tab: usize) {
        self.pane.tab = Tab::ALL[tab];
        self.pane.top = 0;
        self.is_pane_focused |= self.layout().body.is_none() && self.subject().is_some();
    }

    fn change_tab(&mut self, step: isize) {
        // On a narrow screen, the first press of the key only shows the pane.
        let is_hidden = self.layout().body.is_none();
        let tab = if is_hidden { self.pane.tab } else { self.pane.tab.next(step) };
        self.show_tab(tab as usize);
    }

    /// Shows the diff of the selected file.
    fn show_file_diff(&mut self) {
        let Some(path) = self.pane.selected_file().map(|change| change.path.clone()) else {
            return;
        };
        self.pane.tab = Tab::Diff;
        if self.pane.is_since {
            self.pane.is_since = false;
            self.pane.diff = Load::Idle;
        }
        self.pane.top = 0;
        self.pane.goal = Some(path);
    }

    /// Asks the user whether to make this change. Its plan may not be ready yet.
    pub(super) fn ask_first(&mut self, wanted: Wanted) -> Vec<Command> {
        let mut commands = Vec::new();
        let subject = self.subject();
        // The plan in the foot is shown at once, but a new plan is requested, because the user may
        // have edited files in the meantime.
        let known = std::mem::replace(&mut self.plan, Load::Waiting);
        let known = match known {
            Load::Ready(plan) if Some(&wanted) == self.wanted.as_ref() => Load::Ready(plan),
            _ => Load::Waiting,
        };
        self.ask_for_plan(Some(wanted.clone()), &mut commands);
        let turn = self.row().filter(|row| row.kind == "turn").map(|row| row.id);
        let is_turn = subject.is_some_and(|subject| subject.kind == SubjectKind::Turn);
        let confirm = Confirm {
            words: self.button_words(&wanted),
            subject: match &wanted {
                Wanted::TakeBack | Wanted::Repeat => String::new(),
                _ => self.subject_words(),
            },
            wanted,
            turn: turn.filter(|_| is_turn),
            plan: known,
            button: 0,
            file: 0,
            top: 0,
            versions: Load::Idle,
            asked: None,
            is_applied: false,
            has_changed: false,
        };
        self.dialog = Some(Dialog::Confirm(Box::new(confirm)));
        commands
    }

    fn undo_turn(&mut self) -> Vec<Command> {
        match self.row().filter(|row| row.kind == "turn").map(|row| row.id) {
            Some(turn) => {
                self.ask_first(Wanted::Undo { turn, files: Vec::new(), taken: Vec::new() })
            }
            None => {
                let text = "Only a turn can be undone. Enter returns to this checkpoint.".into();
                self.note = Some(Note { text, kind: NoteKind::Warning });
                Vec::new()
            }
        }
    }

    fn toggle_pin(&self) -> Option<Command> {
        let pinned = Some(!self.row()?.pinned);
        Some(Command::Label(self.row()?.id, LabelChange { pinned, ..LabelChange::default() }))
    }

    fn ask_for_name(&mut self) {
        if let Some(row) = self.row() {
            let text = row.name.as_deref().map(one_line).unwrap_or_default();
            let purpose = Purpose::Name(row.id);
            self.dialog = Some(Dialog::Input(TextInput { purpose, text }));
        }
    }

    fn find_resume(&mut self) -> Option<Command> {
        let session = self.entry().and_then(|entry| entry.session()).map(str::to_owned);
        if session.is_none() {
            let text = "This checkpoint belongs to no conversation.".into();
            self.note = Some(Note { text, kind: NoteKind::Warning });
        }
        session.map(Command::FindResume)
    }
}
