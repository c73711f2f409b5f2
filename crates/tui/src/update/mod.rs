//! Changes the state of the screen. Nothing here reads files, the clock or the terminal: actions
//! that need them are returned as commands.

mod dialog;
mod keys;
mod mouse;
mod reader;
mod scroll;

use std::sync::Arc;

use takeback_tree::{Oid, RelPath};
use takeback_undo::{RollbackView, RowView};

use crate::host::Problem;
use crate::input::Input;
use crate::layout::Layout;
use crate::message::{Command, Message, Read};
use crate::model::dialog::Dialog;
use crate::model::pane::Tab;
use crate::model::plan::{Plan, Wanted, describe_result};
use crate::model::{Load, Model, Note, NoteKind, Past, SubjectKind};

/// Updates the state in response to a message, and returns the commands to carry out.
pub(crate) fn update(model: &mut Model, message: Message) -> Vec<Command> {
    let mut commands = Vec::new();
    match message {
        Message::Input(Input::Resize(columns, rows)) => model.resize((columns, rows)),
        Message::Input(Input::Key(key)) => commands = model.press(key),
        Message::Input(Input::Paste(text)) => commands = model.paste(&text),
        Message::Input(Input::Click(column, row)) => model.click(column, row),
        Message::Input(Input::Wheel(column, row, lines)) => model.wheel(column, row, lines),
        Message::Tick(now) => {
            model.now = now;
            if !model.is_reader_only {
                commands.push(Command::Read(Read::Changes));
            }
        }
        Message::Past(past) => commands = model.set_past(past),
        Message::Paths(paths) => {
            model.list.set_paths(paths);
            model.rebuild_list();
        }
        Message::Said(words, rows) => {
            model.list.set_said(words, rows);
            model.rebuild_list();
        }
        Message::Details(id, details) if model.pane.subject == Some(id) => {
            model.pane.details = details.map(|details| *details).into();
        }
        Message::Diff(id, since, diff) if model.pane.subject == Some(id) => {
            if model.pane.is_since == since {
                model.pane.diff = diff.into();
            }
        }
        Message::Conversation(id, messages) if model.pane.subject == Some(id) => {
            model.pane.conversation = messages.into();
        }
        Message::Plan(number, plan) if number == model.generation => model.set_plan(plan.into()),
        Message::Versions(path, versions) => {
            if let Some(Dialog::Confirm(confirm)) = &mut model.dialog {
                confirm.versions = versions.map(|versions| (path, versions)).into();
            }
        }
        Message::Sessions(words, found) => model.set_found(&words, found.into()),
        Message::Transcript(session, messages) => model.set_transcript(&session, messages.into()),
        Message::Applied(result) => commands = model.finish_plan(result),
        Message::Done(result) => commands = model.finish_change(result),
        Message::Resume(result) => commands = model.offer_resume(result),
        Message::Notes(lines) => {
            let text = lines.join(" · ");
            model.note = Some(Note { text, kind: NoteKind::Warning });
        }
        // The user has selected something else since these answers were requested.
        Message::Details(..) | Message::Diff(..) | Message::Conversation(..) => {}
        Message::Plan(..) => {}
    }
    model.request_missing(&mut commands);
    commands
}

/// Returns the values that change while a turn continues.
fn fingerprint(row: &RowView) -> (Oid, usize, [Option<u64>; 3], bool) {
    let counts = [row.files_changed, row.insertions, row.deletions];
    (row.id, row.steps.len(), counts, row.taken_back)
}

impl Model {
    /// Returns the areas of the screen.
    pub(crate) fn layout(&self) -> Layout {
        let is_pane_focused =
            self.reader.as_ref().map_or(self.is_pane_focused, |reader| reader.is_pane_focused);
        Layout::new(self.size, is_pane_focused, self.foot_height())
    }

    fn resize(&mut self, size: (u16, u16)) {
        self.size = size;
        // Messages are rendered for the width of the pane.
        self.pane.conversation = Load::Idle;
        if let Some(reader) = &mut self.reader {
            reader.conversation = Load::Idle;
        }
    }

    pub(crate) fn rebuild_list(&mut self) {
        let selected = self.timeline().and_then(|timeline| self.list.selected_id(timeline));
        self.rebuild_list_around(selected);
    }

    fn rebuild_list_around(&mut self, selected: Option<Oid>) {
        if let Load::Ready(past) = &self.past {
            let past = Arc::clone(past);
            self.list.rebuild(&past, selected, self.now, &self.zone);
        }
    }

    fn set_past(&mut self, past: Result<Arc<Past>, Problem>) -> Vec<Command> {
        let is_first = self.past.ready().is_none();
        let selected = self.timeline().and_then(|timeline| self.list.selected_id(timeline));
        let row = self.row().map(fingerprint);
        match past {
            // If the history cannot be read again, the old content stays on the screen.
            Err(problem) if !is_first => {
                self.note = Some(Note { text: problem.line(), kind: NoteKind::Warning });
                return Vec::new();
            }
            past => self.past = past.into(),
        }
        self.rebuild_list_around(selected);
        let is_partial = self.timeline().is_some_and(|timeline| timeline.is_partial);
        let mut commands = vec![Command::Read(if is_partial { Read::Past } else { Read::Paths })];
        if is_first {
            return commands;
        }
        // While an agent is working, no new plan is requested, because the plan would change with
        // each of the agent's calls.
        if self.past.ready().is_some_and(|past| past.working.is_empty()) {
            self.wanted = None;
        }
        // The turn has continued. The old content stays on the screen until the new content
        // arrives.
        if row != self.row().map(fingerprint) {
            self.refresh_content(&mut commands);
        }
        commands
    }

    /// Requests the content of the right pane again.
    fn refresh_content(&mut self, commands: &mut Vec<Command>) {
        let (Some(id), columns) = (self.pane.subject, self.layout().body_width()) else { return };
        let pane = &self.pane;
        let reads = [
            (!pane.details.is_idle(), Read::Details(id)),
            (!pane.diff.is_idle(), Read::Diff(id, pane.is_since)),
            (!pane.conversation.is_idle(), Read::Conversation(id, columns)),
        ];
        let reads = reads.into_iter().filter(|(is_shown, _)| *is_shown);
        commands.extend(reads.map(|(_, read)| Command::Read(read)));
    }

    fn set_plan(&mut self, plan: Load<Box<Plan>>) {
        match &mut self.dialog {
            Some(Dialog::Confirm(confirm)) => {
                // The button was selected for the plan that was shown. If the plan has changed, the
                // selection is reset.
                let digest = |plan: &Load<Box<Plan>>| plan.ready().map(|it| it.planned.digest());
                if digest(&confirm.plan) != digest(&plan) {
                    confirm.has_changed = confirm.plan.ready().is_some();
                    confirm.button = 0;
                }
                confirm.plan = plan;
            }
            _ => self.plan = plan,
        }
    }

    /// Closes the question after its plan has been carried out, or says why that failed.
    fn finish_plan(&mut self, result: Result<Box<RollbackView>, Problem>) -> Vec<Command> {
        self.wanted = None;
        match result {
            Ok(view) => {
                self.dialog = None;
                self.pane.chosen.clear();
                self.last_words = describe_result(&view);
                let text = self.last_words.join(" ");
                self.note = Some(Note { text, kind: NoteKind::Done });
            }
            Err(problem) => {
                self.dialog = None;
                self.tell_problem(&problem);
                if self.is_leaving {
                    self.last_words = vec![problem.line()];
                }
            }
        }
        match self.is_leaving {
            true => vec![Command::Quit],
            false => vec![Command::Read(Read::Past)],
        }
    }

    /// Keeps the result of a change that ended after the screen was closed.
    pub(crate) fn add_last_words(&mut self, message: Message) {
        match message {
            Message::Applied(Ok(view)) => self.last_words = describe_result(&view),
            Message::Done(Ok(text)) => self.last_words.push(text),
            Message::Applied(Err(problem)) | Message::Done(Err(problem)) => {
                self.last_words.push(problem.line());
            }
            _ => {}
        }
    }

    fn finish_change(&mut self, result: Result<String, Problem>) -> Vec<Command> {
        match result {
            Ok(text) => self.note = Some(Note { text, kind: NoteKind::Done }),
            Err(problem) => self.tell_problem(&problem),
        }
        vec![Command::Read(Read::Past)]
    }

    fn offer_resume(&mut self, result: Result<String, Problem>) -> Vec<Command> {
        match result {
            Ok(command) => {
                let text = format!("Copied: {command}");
                self.note = Some(Note { text, kind: NoteKind::Done });
                vec![Command::Copy(command)]
            }
            Err(problem) => {
                self.tell_problem(&problem);
                Vec::new()
            }
        }
    }

    fn tell_problem(&mut self, problem: &Problem) {
        let hint = problem.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        let text = format!("{}{hint}", problem.line());
        self.note = Some(Note { text, kind: NoteKind::Warning });
    }

    /// Returns the change that Enter would make now.
    pub(crate) fn wanted_now(&self) -> Option<Wanted> {
        let subject = self.subject()?;
        if self.pane.subject == Some(subject.id) && !self.pane.chosen.is_empty() {
            let paths: Vec<RelPath> = self.pane.chosen.iter().cloned().collect();
            return Some(Wanted::Files(subject.id, paths));
        }
        Some(Wanted::Rollback(subject.id))
    }

    /// Requests everything that the screen needs and does not have yet.
    fn request_missing(&mut self, commands: &mut Vec<Command>) {
        if self.reader.is_some() {
            return self.request_for_reader(commands);
        }
        let layout = self.layout();
        self.list.scroll_to_selection(layout.list_height());
        let id = self.subject().map(|subject| subject.id);
        if self.pane.subject != id {
            self.pane.show(id);
        }
        if let Some(id) = id.filter(|_| layout.body.is_some()) {
            self.request_content(id, layout.body_width(), commands);
        }
        self.scroll_pane(0);
        if matches!(self.dialog, Some(Dialog::Confirm(_))) {
            self.request_versions(commands);
            return;
        }
        let wanted = self.wanted_now();
        if wanted != self.wanted {
            self.ask_for_plan(wanted, commands);
        }
    }

    fn request_content(&mut self, id: Oid, columns: usize, commands: &mut Vec<Command>) {
        let pane = &mut self.pane;
        if pane.details.is_idle() {
            pane.details = Load::Waiting;
            commands.push(Command::Read(Read::Details(id)));
        }
        if pane.tab == Tab::Diff && pane.diff.is_idle() {
            pane.diff = Load::Waiting;
            commands.push(Command::Read(Read::Diff(id, pane.is_since)));
        }
        if pane.tab == Tab::Conversation && pane.conversation.is_idle() {
            pane.conversation = Load::Waiting;
            commands.push(Command::Read(Read::Conversation(id, columns)));
        }
    }

    /// Requests a plan. Any plan that was requested earlier is dropped when it arrives.
    pub(crate) fn ask_for_plan(&mut self, wanted: Option<Wanted>, commands: &mut Vec<Command>) {
        self.generation += 1;
        self.plan = Load::Idle;
        if let Some(wanted) = &wanted {
            self.plan = Load::Waiting;
            commands.push(Command::MakePlan(self.generation, wanted.clone()));
        }
        self.wanted = wanted;
    }

    /// Returns the words on the button for the change that Enter would make.
    pub(crate) fn button_words(&self, wanted: &Wanted) -> String {
        match wanted {
            Wanted::Rollback(_) => {
                self.subject().map_or(SubjectKind::Turn.words(), |found| found.kind.words()).into()
            }
            Wanted::Files(_, paths) => match paths.len() {
                1 => "Restore the selected file".into(),
                count => format!("Restore {count} selected files"),
            },
            Wanted::Undo { .. } => crate::model::dialog::UNDO.into(),
            Wanted::TakeBack => "Take that back".into(),
            Wanted::Repeat => "Repeat the rollback".into(),
        }
    }
}
