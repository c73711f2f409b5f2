//! `takeback man-pages`: writes the manual, which is generated from the definitions of the
//! commands.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::context::Context;
use crate::failure::Failure;

/// Write a manual page for each command
///
/// For packagers of takeback.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The directory to write the pages to
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let directory = context.directory.join(&arguments.directory);
    let mut root = crate::arguments::Arguments::command().disable_help_subcommand(true);
    // This gives every command its full name, and the global options.
    root.build();
    let written = fs::create_dir_all(&directory).and_then(|()| write_pages(&root, &directory));
    written.map_err(|error| {
        Failure::new(format!("cannot write to {}", directory.display())).because(&error)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the pages of a command and of its subcommands.
fn write_pages(command: &clap::Command, directory: &Path) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let page = render_page(command)?;
    fs::write(directory.join(format!("{name}.1")), page)?;
    let mut shown = command.get_subcommands().filter(|known| !known.is_hide_set());
    shown.try_for_each(|known| write_pages(known, directory))
}

fn render_page(command: &clap::Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let man = Man::new(command.clone());
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.get_subcommands().any(|known| !known.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(examples) = command.get_after_help() {
        render_examples(&examples.to_string(), &mut page)?;
    }
    Ok(page)
}

/// Writes examples line by line. clap_mangen would join the lines into a paragraph.
fn render_examples(text: &str, page: &mut Vec<u8>) -> io::Result<()> {
    let (title, lines) = text.split_once(":\n").unwrap_or(("Examples", text));
    let mut roff = Roff::new();
    roff.control("SH", [title.to_uppercase().as_str()]);
    roff.control("nf", []);
    lines.lines().for_each(|line| {
        roff.text([roman(line)]);
    });
    roff.control("fi", []);
    roff.to_writer(page)
}
