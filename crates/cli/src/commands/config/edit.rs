//! `takeback config edit`: opens the settings in the user's editor.

use std::fs;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::{Command, ExitCode};

use takeback_base::durable::Temporary;

use super::change::{lock_file, save_text};
use crate::config;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// Lets the user edit a copy of config.toml. Once the copy has no mistakes, it replaces
/// config.toml.
pub(super) fn run(context: &Context) -> Result<ExitCode, Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::new("there is no terminal to edit the settings in")
            .hint("use `takeback config set SETTING VALUE`"));
    }
    let failed = |error: std::io::Error| Failure::new("cannot edit config.toml").because(&error);
    let before = config::read_text(&context.home)?;
    takeback_base::durable::create_directory(&context.home).map_err(failed)?;
    // Editors recognize the format by the extension of the file name.
    let copy = context.home.join(format!("config-{}.toml", std::process::id()));
    let mut copy = Temporary::create_at(copy).map_err(failed)?;
    let shown = if before.is_empty() { config::known::write_template() } else { before.clone() };
    copy.write_all(shown.as_bytes()).map_err(failed)?;
    loop {
        open_editor(copy.path(), context)?;
        let text = fs::read_to_string(copy.path()).map_err(failed)?;
        if text == shown {
            println!("Nothing was changed.");
            return Ok(ExitCode::SUCCESS);
        }
        match config::check(&text, context) {
            Ok(()) => {
                let _lock = lock_file(context)?;
                if config::read_text(&context.home)? != before {
                    return Err(keep_copy(copy, context));
                }
                save_text(&text, context)?;
                println!("The new settings are in effect.");
                return Ok(ExitCode::SUCCESS);
            }
            Err(failure) => {
                failure.report(false);
                if !output::is_agreed("Edit again?") {
                    return Err(Failure::new("the old settings were kept"));
                }
            }
        }
    }
}

/// Keeps the user's edited copy, because another process has changed the file in the meantime.
fn keep_copy(copy: Temporary, context: &Context) -> Failure {
    let failure = Failure::new("another process has changed config.toml in the meantime");
    let kept = context.home.join("config.edited.toml");
    match copy.persist(&kept) {
        Ok(()) => failure.hint(format!("your edited copy is in {}", kept.display())),
        Err(error) => failure.because(&error),
    }
}

/// Opens the user's editor, and waits until the user closes it.
fn open_editor(file: &Path, context: &Context) -> Result<(), Failure> {
    let chosen = context.variable("VISUAL").or_else(|| context.variable("EDITOR"));
    let chosen = chosen.map_or_else(|| "vi".to_owned(), |text| text.to_string_lossy().into_owned());
    let words = takeback_agents::split_words(&chosen);
    let Some((program, arguments)) = words.split_first() else {
        return Err(Failure::new("VISUAL or EDITOR is set, but names no program"));
    };
    let status = Command::new(program).args(arguments).arg(file).status();
    let status = status.map_err(|error| {
        Failure::new(format!("cannot start the editor `{program}`"))
            .because(&error)
            .hint("set VISUAL or EDITOR to the name of your editor")
    })?;
    match status.success() {
        true => Ok(()),
        false => Err(Failure::new(format!("the editor ended with {status}; nothing was changed"))),
    }
}
