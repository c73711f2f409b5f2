//! The keys on the screen that lists and shows sessions.

use crate::content::{FoundSession, Message};
use crate::input::Key;
use crate::message::{Command, Read};
use crate::model::dialog::Dialog;
use crate::model::reader::Reader;
use crate::model::{Load, Model};
use crate::view::{count_conversation, find_message_row};

impl Model {
    /// Carries out the action of a key on the screen with the sessions.
    pub(super) fn press_in_reader(&mut self, key: Key) -> Vec<Command> {
        let layout = self.layout();
        let page = layout.list_height().max(layout.body_height()).saturating_sub(2).max(1) as isize;
        let Some(reader) = &mut self.reader else { return Vec::new() };
        if reader.is_typing {
            reader.type_key(key);
            return Vec::new();
        }
        self.note = None;
        let is_pane = reader.is_pane_focused;
        match key {
            Key::Char('q') => return vec![Command::Quit],
            Key::Char('?') => self.dialog = Some(Dialog::Help),
            Key::Char('t') => self.has_absolute_times = !self.has_absolute_times,
            Key::Char('/' | 's') => reader.is_typing = true,
            Key::Char('o') => reader.is_unfolded = !reader.is_unfolded,
            Key::Char('y') => {
                let session = reader.selected().map(|found| found.session.clone());
                return session.map(Command::FindResume).into_iter().collect();
            }
            Key::Escape | Key::Left | Key::Char('h') if is_pane => reader.is_pane_focused = false,
            Key::Escape if !reader.words.is_empty() => reader.search(String::new()),
            Key::Escape if self.is_reader_only => return vec![Command::Quit],
            Key::Escape => self.reader = None,
            Key::Enter | Key::Right | Key::Tab | Key::Char('l') => {
                reader.is_pane_focused = reader.selected().is_some();
            }
            key => self.move_in_reader(key, page),
        }
        Vec::new()
    }

    fn move_in_reader(&mut self, key: Key, page: isize) {
        let distance = match key {
            Key::Char('j') | Key::Down => 1,
            Key::Char('k') | Key::Up => -1,
            Key::PageDown | Key::Char(' ') | Key::Ctrl('d' | 'f') => page,
            Key::PageUp | Key::Ctrl('u' | 'b') => -page,
            Key::Home | Key::Char('g') => isize::MIN,
            Key::End | Key::Char('G') => isize::MAX,
            _ => return,
        };
        let Some(reader) = &mut self.reader else { return };
        match reader.is_pane_focused {
            true => {
                reader.conversation_top = reader.conversation_top.saturating_add_signed(distance);
            }
            false => reader.move_by(distance),
        }
    }

    pub(super) fn set_found(&mut self, words: &str, found: Load<Vec<FoundSession>>) {
        if let Some(reader) = &mut self.reader
            && reader.words == words
        {
            (reader.found, reader.at, reader.top) = (found, 0, 0);
        }
    }

    pub(super) fn set_transcript(&mut self, session: &str, messages: Load<Vec<Message>>) {
        if let Some(reader) = &mut self.reader
            && reader.subject.as_deref() == Some(session)
        {
            reader.conversation = messages;
        }
    }

    /// Requests everything that the screen with the sessions needs and does not have yet.
    pub(super) fn request_for_reader(&mut self, commands: &mut Vec<Command>) {
        let layout = self.layout();
        let Some(reader) = &mut self.reader else { return };
        reader.scroll_to_selection(layout.list_height());
        if reader.found.is_idle() {
            reader.found = Load::Waiting;
            commands.push(Command::Read(Read::Sessions(reader.words.clone())));
        }
        let selected = reader
            .selected()
            .map(|found| (found.session.clone(), found.hit.as_ref().map(|hit| hit.message)));
        let goal = selected.as_ref().and_then(|(_, message)| *message);
        let session = selected.map(|(session, _)| session);
        if reader.subject != session {
            reader.conversation = Load::Idle;
            reader.subject = session.clone();
            (reader.goal, reader.reached, reader.conversation_top) = (goal, None, 0);
        } else if goal != reader.reached {
            reader.goal = goal;
        }
        if let Some(session) = session.filter(|_| layout.body.is_some())
            && reader.conversation.is_idle()
        {
            reader.conversation = Load::Waiting;
            commands.push(Command::Read(Read::Transcript(session, layout.body_width())));
        }
        reader.scroll(layout.body_height());
    }
}

impl Reader {
    /// Keeps the scroll position of the conversation valid, and scrolls to the message that was
    /// found.
    fn scroll(&mut self, height: usize) {
        let Some(messages) = self.conversation.ready() else { return };
        if let Some(goal) = self.goal.take() {
            self.reached = Some(goal);
            self.conversation_top = find_message_row(messages, self.is_unfolded, goal);
        }
        let last = count_conversation(messages, self.is_unfolded).saturating_sub(height);
        self.conversation_top = self.conversation_top.min(last);
    }

    fn search(&mut self, words: String) {
        if words != self.words {
            (self.words, self.found) = (words, Load::Idle);
        }
    }

    fn type_key(&mut self, key: Key) {
        let mut words = self.words.clone();
        match key {
            Key::Char(character) => words.push(character),
            Key::Backspace => drop(words.pop()),
            Key::Ctrl('u') => words.clear(),
            Key::Escape | Key::Enter | Key::Tab => self.is_typing = false,
            Key::Down => self.move_by(1),
            Key::Up => self.move_by(-1),
            _ => {}
        }
        self.search(words);
    }
}
