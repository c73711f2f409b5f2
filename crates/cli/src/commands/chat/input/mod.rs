//! Reads the user's prompts: with a line editor on a terminal, and line by line from a pipe.

mod editor;
mod helper;
mod history;
#[cfg(test)]
mod tests;

use std::io::{self, BufRead, IsTerminal, Read};
use std::path::Path;

use self::editor::LineEditor;
use crate::failure::Failure;
use crate::slash::SlashNames;

/// The maximum size of a prompt in bytes.
const MAX_PROMPT: usize = 4 << 20;

/// The prompt, or the reason why there is none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PromptInput {
    /// A prompt that is not blank.
    Text(String),
    /// Ctrl-C in an empty line. In a line with text, Ctrl-C clears the line.
    Interrupted,
    /// Ctrl-D in an empty line, or the end of the input.
    End,
}

/// The source of prompts.
pub(crate) enum PromptReader {
    Terminal(Box<LineEditor>),
    /// A pipe or a file: each line is a prompt.
    Lines(Box<dyn BufRead>),
}

impl PromptReader {
    /// Creates a reader for standard input. On a terminal, it completes the given slash commands
    /// and, after `@`, the paths in `directory`. It keeps its history in takeback's `home`.
    pub(crate) fn new(
        home: &Path,
        directory: &Path,
        commands: SlashNames,
    ) -> Result<PromptReader, Failure> {
        // The line editor needs a terminal for its output, too, because it shows what the user
        // types.
        if io::stdin().is_terminal() && io::stdout().is_terminal() {
            let editor = LineEditor::new(home, directory, commands)?;
            return Ok(PromptReader::Terminal(Box::new(editor)));
        }
        Ok(PromptReader::Lines(Box::new(io::BufReader::new(io::stdin()))))
    }

    /// Returns true if a line editor reads the keys of a terminal.
    pub(crate) fn is_editor(&self) -> bool {
        matches!(self, PromptReader::Terminal(_))
    }

    /// Sets the directory whose paths are completed.
    pub(crate) fn set_directory(&mut self, directory: &Path) {
        if let PromptReader::Terminal(editor) = self {
            editor.set_directory(directory);
        }
    }

    /// Reads the next prompt. Blank lines are skipped.
    pub(crate) fn read_prompt(&mut self) -> Result<PromptInput, Failure> {
        loop {
            let input = match self {
                PromptReader::Terminal(editor) => editor.read_line()?,
                PromptReader::Lines(lines) => read_line(lines)?,
            };
            match input {
                PromptInput::Text(text) if text.trim().is_empty() => {}
                input => return Ok(input),
            }
        }
    }
}

/// Reads the whole input as one prompt, for `-p -`.
pub(crate) fn read_whole_prompt(input: impl Read) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    input
        .take(MAX_PROMPT as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| cannot_read(&error))?;
    let text = check_prompt(bytes)?;
    match text.trim().is_empty() {
        true => Err(Failure::new("the prompt on standard input is empty")),
        false => Ok(text),
    }
}

fn read_line(input: &mut dyn BufRead) -> Result<PromptInput, Failure> {
    let mut bytes = Vec::new();
    let mut limited = input.take(MAX_PROMPT as u64 + 1);
    limited.read_until(b'\n', &mut bytes).map_err(|error| cannot_read(&error))?;
    if bytes.is_empty() {
        return Ok(PromptInput::End);
    }
    let text = check_prompt(bytes)?;
    Ok(PromptInput::Text(text.trim_end_matches(['\n', '\r']).to_owned()))
}

fn cannot_read(error: &io::Error) -> Failure {
    Failure::new("cannot read the prompt").because(error)
}

fn check_prompt(bytes: Vec<u8>) -> Result<String, Failure> {
    if bytes.len() > MAX_PROMPT {
        let limit = crate::output::bytes(MAX_PROMPT as u64);
        return Err(Failure::new(format!("the prompt is longer than {limit}"))
            .hint("write the text into a file, and name the file in the prompt"));
    }
    String::from_utf8(bytes).map_err(|_| Failure::new("the prompt is not UTF-8"))
}
