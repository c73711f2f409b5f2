//! The line editor for prompts on a terminal.

use std::path::Path;

use anstream::{AutoStream, ColorChoice};
use rustyline::config::Configurer;
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{
    Cmd, ColorMode, CompletionType, ConditionalEventHandler, Config, Editor, Event, EventContext,
    EventHandler, KeyCode, KeyEvent, Modifiers, Movement, RepeatCount,
};

use super::helper::InputHelper;
use super::history::{HistoryFile, MAX_ENTRIES};
use super::{PromptInput, cannot_read};
use crate::failure::Failure;
use crate::slash::SlashNames;

const PROMPT: &str = "> ";

/// A line editor with a history. Alt-Enter, and Enter after a backslash, begin a new line.
pub(crate) struct LineEditor {
    editor: Editor<InputHelper, MemHistory>,
    history: HistoryFile,
}

impl LineEditor {
    pub(super) fn new(
        home: &Path,
        directory: &Path,
        commands: SlashNames,
    ) -> Result<LineEditor, Failure> {
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .history_ignore_space(true)
            .max_history_size(MAX_ENTRIES)
            .map_err(failed)?
            .build();
        let history = MemHistory::with_config(&config);
        let mut editor = Editor::with_history(config, history).map_err(failed)?;
        if AutoStream::choice(&std::io::stdout()) == ColorChoice::Never {
            editor.set_color_mode(ColorMode::Disabled);
        }
        editor.set_helper(Some(InputHelper::new(directory, commands)));
        bind(&mut editor, KeyCode::Enter, Modifiers::ALT, EventHandler::Simple(Cmd::Newline));
        let continues = EventHandler::Conditional(Box::new(ContinueAfterBackslash));
        bind(&mut editor, KeyCode::Enter, Modifiers::NONE, continues);
        let clears = EventHandler::Conditional(Box::new(ClearBeforeInterrupt));
        bind(&mut editor, KeyCode::Char('C'), Modifiers::CTRL, clears);
        let history = HistoryFile::new(home);
        for entry in history.load() {
            editor.add_history_entry(entry).map_err(failed)?;
        }
        Ok(LineEditor { editor, history })
    }

    /// Sets the directory whose paths are completed.
    pub(super) fn set_directory(&mut self, directory: &Path) {
        if let Some(helper) = self.editor.helper_mut() {
            helper.set_directory(directory);
        }
    }

    /// Reads a prompt, which may contain line breaks.
    pub(super) fn read_line(&mut self) -> Result<PromptInput, Failure> {
        match self.editor.readline(PROMPT) {
            Ok(text) => {
                let text = join_continuations(&text);
                // If the prompt cannot be added to the history, it is still a valid prompt.
                let is_new = self.editor.add_history_entry(text.as_str()).unwrap_or(false);
                if is_new {
                    self.history.add(&text);
                }
                Ok(PromptInput::Text(text))
            }
            Err(ReadlineError::Interrupted) => Ok(PromptInput::Interrupted),
            Err(ReadlineError::Eof) => Ok(PromptInput::End),
            Err(error) => Err(failed(error)),
        }
    }
}

fn bind(
    editor: &mut Editor<InputHelper, MemHistory>,
    key: KeyCode,
    modifiers: Modifiers,
    handler: EventHandler,
) {
    editor.bind_sequence(Event::from(KeyEvent(key, modifiers)), handler);
}

fn failed(error: ReadlineError) -> Failure {
    match error {
        ReadlineError::Io(error) => cannot_read(&error),
        error => Failure::new("cannot read the prompt").because(&error),
    }
}

/// The text that Enter inserts after a typed backslash. The invisible space distinguishes that
/// backslash from a backslash at the end of a pasted line, which stays as it is.
const CONTINUATION: &str = "\u{200b}\n";

/// Removes the backslashes that were typed to begin a new line.
fn join_continuations(text: &str) -> String {
    text.replace(&format!("\\{CONTINUATION}"), "\n")
}

/// Begins a new line if the last character before Enter is a backslash.
struct ContinueAfterBackslash;

impl ConditionalEventHandler for ContinueAfterBackslash {
    fn handle(
        &self,
        _: &Event,
        _: RepeatCount,
        _: bool,
        context: &EventContext<'_>,
    ) -> Option<Cmd> {
        let is_continued = context.line()[..context.pos()].ends_with('\\');
        is_continued.then(|| Cmd::Insert(1, CONTINUATION.into()))
    }
}

/// Clears the line if there is text in it, and otherwise interrupts the prompt.
struct ClearBeforeInterrupt;

impl ConditionalEventHandler for ClearBeforeInterrupt {
    fn handle(
        &self,
        _: &Event,
        _: RepeatCount,
        _: bool,
        context: &EventContext<'_>,
    ) -> Option<Cmd> {
        let has_text = !context.line().is_empty();
        Some(if has_text { Cmd::Kill(Movement::WholeBuffer) } else { Cmd::Interrupt })
    }
}
