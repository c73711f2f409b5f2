//! `takeback sessions export`: writes whole sessions, for other programs or for people.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{ArgGroup, Args, ValueEnum};
use serde::Serialize;
use takeback_ledger::{ExchangeError, Ledger, LedgerError, Transcript, mask_transcript, render};

use crate::context::Context;
use crate::failure::Failure;
use crate::logs;
use crate::output::{self, Progress};

/// Export sessions with all their messages
#[derive(Args)]
#[command(group(ArgGroup::new("choice").args(["sessions", "all"]).required(true)), after_help = "\
Examples:
  takeback sessions export --all -o all.jsonl
  takeback sessions export 4f2a 'Fix Docker Build' --format md --redact
  takeback sessions export --all --source codex --format html -o codex.html")]
pub(super) struct Arguments {
    /// The sessions: their ids, the beginnings of their ids, or their titles
    #[arg(value_name = "SESSION")]
    sessions: Vec<String>,
    /// Export all sessions, the oldest first
    #[arg(long)]
    all: bool,
    /// Export only sessions of this agent or platform (repeatable)
    #[arg(long = "source", value_name = "SOURCE", conflicts_with = "sessions")]
    sources: Vec<String>,
    /// The format of the export [default: jsonl]
    #[arg(long, value_enum)]
    format: Option<ExportFormat>,
    /// Mask API keys, tokens and other secrets
    #[arg(long)]
    redact: bool,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum ExportFormat {
    /// One JSON object per line, as `takeback sessions import` reads it
    Jsonl,
    /// One JSON array
    Json,
    /// A Markdown document
    Md,
    /// A web page
    Html,
}

#[derive(Serialize)]
struct ExportView {
    sessions: usize,
    format: ExportFormat,
    file: String,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let ledger = logs::current_ledger(context)?;
    let ids = choose_sessions(&ledger, arguments)?;
    let file = arguments.output.as_deref().filter(|file| *file != Path::new("-"));
    let Some(file) = file else {
        let format = resolve_output_format(arguments, context)?;
        let export = Export { ledger: &ledger, ids: &ids, format, redact: arguments.redact };
        return export_to_output(&export);
    };
    let file = context.directory.join(file);
    let format = arguments.format.unwrap_or(ExportFormat::Jsonl);
    let export = Export { ledger: &ledger, ids: &ids, format, redact: arguments.redact };
    let sessions = export_to_file(&export, &file)?;
    let view = ExportView { sessions, format, file: file.to_string_lossy().into_owned() };
    if context.globals.json {
        output::print_json(&view);
    } else {
        let sessions = output::count(sessions, "session");
        println!("Exported {sessions} to {}.", output::disarm(&view.file));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the ids of the sessions to export, without duplicates.
fn choose_sessions(ledger: &Ledger, arguments: &Arguments) -> Result<Vec<String>, Failure> {
    if arguments.all {
        return Ok(ledger.session_ids(&arguments.sources)?);
    }
    let mut ids: Vec<String> = Vec::new();
    for typed in &arguments.sessions {
        let id = ledger.resolve(typed)?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    Ok(ids)
}

/// Determines the format of an export to standard output. For standard output, `--json` asks for
/// one JSON array.
fn resolve_output_format(
    arguments: &Arguments,
    context: &Context,
) -> Result<ExportFormat, Failure> {
    match (arguments.format, context.globals.json) {
        (None | Some(ExportFormat::Json), true) => Ok(ExportFormat::Json),
        (Some(_), true) => Err(Failure::new("--json prints one JSON document")
            .hint("drop --format, or write to a file with -o")),
        (format, false) => Ok(format.unwrap_or(ExportFormat::Jsonl)),
    }
}

/// The sessions to write, and their format.
struct Export<'e> {
    ledger: &'e Ledger,
    ids: &'e [String],
    format: ExportFormat,
    redact: bool,
}

impl Export<'_> {
    /// Writes all sessions and returns their number. A web page is written only after all sessions
    /// have been read; the other formats are written session by session.
    fn write_to(&self, out: &mut dyn Write) -> Result<usize, ExchangeError> {
        let bar = Progress::counting("exporting", "sessions");
        let mut written = 0;
        let mut page = Vec::new();
        if self.format == ExportFormat::Json {
            out.write_all(b"[")?;
        }
        for id in self.ids {
            let transcript = match self.read_transcript(id) {
                // Another process has deleted the session in the meantime.
                Err(LedgerError::NoSuchSession(_)) => continue,
                other => other?,
            };
            match self.format {
                ExportFormat::Jsonl => {
                    write_json(&transcript, out)?;
                    out.write_all(b"\n")?;
                }
                ExportFormat::Json => {
                    out.write_all(if written == 0 { b"\n" } else { b",\n" })?;
                    write_json(&transcript, out)?;
                }
                ExportFormat::Md => {
                    out.write_all(if written == 0 { b"" } else { b"\n" })?;
                    out.write_all(render::markdown(&transcript).as_bytes())?;
                }
                ExportFormat::Html => page.push(transcript),
            }
            written += 1;
            bar.step(written as u64, Some(self.ids.len() as u64));
        }
        match self.format {
            ExportFormat::Json => out.write_all(b"\n]\n")?,
            ExportFormat::Html => out.write_all(render::html(&page).as_bytes())?,
            ExportFormat::Jsonl | ExportFormat::Md => {}
        }
        out.flush()?;
        Ok(written)
    }

    fn read_transcript(&self, id: &str) -> Result<Transcript, LedgerError> {
        let mut transcript = self.ledger.transcript(id)?;
        if self.redact {
            mask_transcript(&mut transcript);
        }
        Ok(transcript)
    }
}

fn write_json(transcript: &Transcript, out: &mut dyn Write) -> io::Result<()> {
    Ok(serde_json::to_writer(out, transcript)?)
}

fn export_to_output(export: &Export<'_>) -> Result<ExitCode, Failure> {
    let stdout = io::stdout();
    let written = if stdout.is_terminal() {
        export.write_to(&mut output::DisarmedLines::default())
    } else {
        export.write_to(&mut BufWriter::new(stdout.lock()))
    };
    match written {
        // The reader has closed the pipe.
        Err(ExchangeError::Io(error)) if error.kind() == ErrorKind::BrokenPipe => {}
        other => {
            other?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes either the whole file or nothing: an old file is replaced only when the new one is
/// complete.
fn export_to_file(export: &Export<'_>, file: &Path) -> Result<usize, Failure> {
    let failed =
        |error: &io::Error| Failure::new(format!("cannot write {}", file.display())).because(error);
    // A link is kept, and its target is replaced. A device or a pipe is opened and written to.
    let target = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    if fs::metadata(&target).is_ok_and(|found| !found.is_file()) {
        let opened = OpenOptions::new().write(true).open(&target);
        return Ok(export.write_to(&mut BufWriter::new(opened.map_err(|error| failed(&error))?))?);
    }
    let new = NewFile::create_beside(&target).map_err(|error| failed(&error))?;
    let written = match export.write_to(&mut BufWriter::new(&new.file)) {
        Err(ExchangeError::Io(error)) => return Err(failed(&error)),
        other => other?,
    };
    new.move_to(&target).map_err(|error| failed(&error))?;
    Ok(written)
}

/// A temporary file that is deleted unless it is moved to its final location.
pub(crate) struct NewFile {
    pub(crate) file: File,
    path: PathBuf,
}

impl NewFile {
    pub(crate) fn create_beside(target: &Path) -> io::Result<NewFile> {
        let name = target.file_name().ok_or(ErrorKind::IsADirectory)?.to_string_lossy();
        let path = target.with_file_name(format!(".{name}.takeback-{}", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(NewFile { file, path })
    }

    pub(crate) fn move_to(&self, target: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, target)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // After `move_to` there is nothing left to delete.
        let _ = fs::remove_file(&self.path);
    }
}
