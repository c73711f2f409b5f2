//! `takeback export`: writes a turn, a session or a day to a file that can be shared.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Serialize;
use takeback_undo::History;
use takeback_undo::history::find_workspace;
use takeback_web::{ExportOptions, ExportSubject, Problem, export_html};

use super::serve::ServedHome;
use super::sessions::export::NewFile;
use crate::context::Context;
use crate::failure::Failure;
use crate::logs;
use crate::output;

/// Write a turn, a session or a day to one file that you can share
///
/// The file is a web page with the prompt, the files, the diff, the conversation and the effects,
/// for a pull request or an incident report. It needs nothing else: no server, no script, no
/// network. Secrets are masked, and the contents of private files are left out.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback export --html 3 -o turn.html             the turn in row 3 of `takeback list`
  takeback export --html claude:4f2a -o talk.html   a session
  takeback export --html 2026-11-18 -o day.html     everything on that day
  takeback export --html today > day.html")]
pub(crate) struct Arguments {
    /// Write a web page, the only format so far
    #[arg(long, required = true)]
    html: bool,
    /// The number, name or id of a checkpoint; a session; or a day: today, yesterday, 2026-11-18
    #[arg(value_name = "TURN|SESSION|DAY")]
    subject: String,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// A file that was written.
#[derive(Serialize)]
struct ExportView {
    file: String,
    bytes: usize,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let file = arguments.output.as_deref().filter(|file| *file != Path::new("-"));
    if file.is_none() && (io::stdout().is_terminal() || context.globals.json) {
        return Err(Failure::new("no output file is given")
            .hint("name a file with -o FILE, or redirect the output"));
    }
    let subject = find_subject(&arguments.subject, context)?;
    let options = ExportOptions {
        home: Arc::new(ServedHome::new(context)),
        zone: TimeZone::system(),
        user_home: context.user_home().and_then(|home| home.canonicalize().ok()),
    };
    let page = export_html(options, &subject).map_err(|problem| {
        let Problem { title, causes, hint, .. } = problem;
        Failure { causes, hint, ..Failure::new(title) }
    })?;
    let Some(file) = file else {
        return match io::stdout().write_all(page.as_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::new("cannot write the page").because(&error))
            }
            _ => Ok(ExitCode::SUCCESS),
        };
    };
    let file = context.directory.join(file);
    write_file(&file, page.as_bytes()).map_err(|error| {
        Failure::new(format!("cannot write {}", file.display())).because(&error)
    })?;
    let view = ExportView { file: file.to_string_lossy().into_owned(), bytes: page.len() };
    if context.globals.json {
        output::print_json(&view);
    } else {
        let size = output::bytes(view.bytes as u64);
        println!("Wrote {} ({size}). Secrets are masked.", output::disarm(&view.file));
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a file. A regular file is replaced only once the new content has been written completely.
fn write_file(file: &Path, content: &[u8]) -> io::Result<()> {
    let target = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    if fs::metadata(&target).is_ok_and(|found| !found.is_file()) {
        return fs::OpenOptions::new().write(true).open(&target)?.write_all(content);
    }
    let new = NewFile::create_beside(&target)?;
    (&new.file).write_all(content)?;
    new.move_to(&target)
}

/// Finds what the user means: a day, a checkpoint of this workspace, or a session.
fn find_subject(typed: &str, context: &Context) -> Result<ExportSubject, Failure> {
    if let Some(day) = find_day(typed) {
        return Ok(ExportSubject::Day(day));
    }
    let opened = context.opened_anyway()?;
    let workspace = find_workspace(opened, &context.directory);
    let missing = match workspace {
        Ok(workspace) => {
            let history = History::read(workspace.store(), workspace.id())?;
            match history.find(workspace.store(), typed) {
                Ok(found) => {
                    let checkpoint = found.checkpoint.pin.id.to_string();
                    let workspace = workspace.id().to_string();
                    return Ok(ExportSubject::Turn { workspace, checkpoint });
                }
                Err(error) => Failure::from(error),
            }
        }
        Err(error) => Failure::from(error),
    };
    let ledger = logs::current_ledger(context)?;
    match ledger.resolve(typed) {
        Ok(session) => Ok(ExportSubject::Session(session)),
        Err(error) => {
            Err(Failure::new(format!("{} is not a turn, session or day", output::disarm(typed)))
                .because(&error)
                .hint(missing.hint.unwrap_or_else(|| {
                    "`takeback list` lists turns; `takeback sessions` lists sessions".into()
                })))
        }
    }
}

fn find_day(typed: &str) -> Option<Date> {
    let today = jiff::Zoned::now().date();
    match typed {
        "today" => Some(today),
        "yesterday" => today.yesterday().ok(),
        typed => typed.parse().ok(),
    }
}
