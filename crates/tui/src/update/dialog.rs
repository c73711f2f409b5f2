//! The keys that answer a question.

use takeback_undo::LabelChange;

use crate::input::Key;
use crate::message::{Command, Read};
use crate::model::dialog::{Answer, Confirm, Dialog, KEEP, Purpose, TextInput, UNDO};
use crate::model::plan::Wanted;
use crate::model::{Load, Model, Note, NoteKind};

/// The limit on scrolling down in a plan. No plan has more lines than this.
const MOST_LINES: usize = 40;

impl Model {
    pub(super) fn press_in_dialog(&mut self, key: Key) -> Vec<Command> {
        match self.dialog.take() {
            Some(Dialog::Confirm(confirm)) => self.press_in_confirm(confirm, key),
            Some(Dialog::Input(input)) => self.press_in_input(input, key),
            // Any key closes the help.
            Some(Dialog::Help) | None => Vec::new(),
        }
    }

    fn press_in_confirm(&mut self, mut confirm: Box<Confirm>, key: Key) -> Vec<Command> {
        let mut commands = Vec::new();
        let buttons = confirm.buttons().len();
        let questions = confirm.questions().len();
        match key {
            // A restore that has begun is completed before the screen closes.
            _ if confirm.is_applied => {}
            Key::Escape | Key::Char('q' | 'n') => return self.close_confirm(*confirm),
            Key::Enter => return self.press_button(confirm),
            Key::Left | Key::BackTab | Key::Char('h') => {
                confirm.button = confirm.button.checked_sub(1).unwrap_or(buttons - 1);
            }
            Key::Right | Key::Tab | Key::Char('l') => {
                confirm.button = (confirm.button + 1) % buttons;
            }
            Key::Down | Key::Char('j') if questions > 0 => {
                confirm.file = (confirm.file + 1).min(questions - 1);
            }
            Key::Up | Key::Char('k') if questions > 0 => {
                confirm.file = confirm.file.saturating_sub(1);
            }
            Key::Down | Key::Char('j') => confirm.top = (confirm.top + 1).min(MOST_LINES),
            Key::Up | Key::Char('k') => confirm.top = confirm.top.saturating_sub(1),
            Key::Char(' ') if confirm.change_answer() => {
                confirm.plan = Load::Waiting;
                (confirm.button, confirm.has_changed) = (0, false);
                self.ask_for_plan(Some(confirm.wanted.clone()), &mut commands);
            }
            _ => {}
        }
        request_versions(&mut confirm, &mut commands);
        self.dialog = Some(Dialog::Confirm(confirm));
        commands
    }

    /// Carries out the action of the chosen button.
    fn press_button(&mut self, mut confirm: Box<Confirm>) -> Vec<Command> {
        let chosen = confirm.buttons().get(confirm.button).copied().unwrap_or(KEEP).to_owned();
        if chosen == KEEP {
            return self.close_confirm(*confirm);
        }
        if chosen == UNDO && !matches!(confirm.wanted, Wanted::Undo { .. }) {
            let Some(turn) = confirm.turn else { return self.close_confirm(*confirm) };
            return self.ask_first(Wanted::Undo { turn, files: Vec::new(), taken: Vec::new() });
        }
        match std::mem::replace(&mut confirm.plan, Load::Waiting) {
            Load::Ready(plan) => {
                confirm.is_applied = true;
                self.dialog = Some(Dialog::Confirm(confirm));
                vec![Command::Apply(plan)]
            }
            plan => {
                confirm.plan = plan;
                self.dialog = Some(Dialog::Confirm(confirm));
                Vec::new()
            }
        }
    }

    fn close_confirm(&mut self, confirm: Confirm) -> Vec<Command> {
        if Some(&confirm.wanted) == self.wanted_now().as_ref() {
            self.plan = confirm.plan;
        } else {
            // The foot of the screen must show the plan for the selection again.
            self.wanted = None;
        }
        self.note = Some(Note { text: "Nothing was changed.".into(), kind: NoteKind::Done });
        Vec::new()
    }

    fn press_in_input(&mut self, mut input: TextInput, key: Key) -> Vec<Command> {
        match key {
            Key::Escape => return Vec::new(),
            Key::Enter => return finish_input(&input),
            Key::Backspace => drop(input.text.pop()),
            Key::Ctrl('u') => input.text.clear(),
            Key::Char(character) => input.text.push(character),
            _ => {}
        }
        self.dialog = Some(Dialog::Input(input));
        Vec::new()
    }

    /// Requests the versions of the selected file once the plan is ready.
    pub(super) fn request_versions(&mut self, commands: &mut Vec<Command>) {
        if let Some(Dialog::Confirm(confirm)) = &mut self.dialog {
            request_versions(confirm, commands);
        }
    }
}

fn finish_input(input: &TextInput) -> Vec<Command> {
    let text = input.text.trim().to_owned();
    match input.purpose {
        Purpose::Name(id) => {
            let name = Some(Some(text).filter(|name| !name.is_empty()));
            vec![Command::Label(id, LabelChange { name, ..LabelChange::default() })]
        }
        Purpose::Checkpoint => vec![Command::TakeCheckpoint(text)],
    }
}

/// Requests the three versions of the selected file if it has conflicts, unless they are already
/// shown.
fn request_versions(confirm: &mut Confirm, commands: &mut Vec<Command>) {
    let Wanted::Undo { turn, .. } = &confirm.wanted else { return };
    let questions = confirm.questions();
    confirm.file = confirm.file.min(questions.len().saturating_sub(1));
    let question = questions.into_iter().nth(confirm.file);
    let conflict = question.filter(|question| matches!(question.answer, Answer::Conflict(_)));
    let Some(conflict) = conflict else {
        if !confirm.plan.is_waiting() {
            confirm.versions = Load::Idle;
        }
        return;
    };
    let is_shown = match &confirm.versions {
        Load::Ready((path, _)) => *path == conflict.path,
        Load::Waiting => confirm.asked.as_ref() == Some(&conflict.path),
        Load::Idle | Load::Failed(_) => false,
    };
    if !is_shown {
        confirm.versions = Load::Waiting;
        confirm.asked = Some(conflict.path.clone());
        commands.push(Command::Read(Read::Versions(*turn, conflict.path)));
    }
}
