//! `takeback sessions export`: whole sessions, for other programs or people.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde::Serialize;
use takeback_ledger::{ExchangeError, Ledger, LedgerError, Transcript, mask, render};

use crate::context::Context;
use crate::failure::Failure;
use crate::logs;
use crate::output::{self, Progress};

/// Write sessions out whole
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback sessions export --all -o all.jsonl
  takeback sessions export 4f2a 'Fix Docker Build' --format md --redact
  takeback sessions export --all --source codex --format html -o codex.html")]
pub(super) struct Arguments {
    /// Their ids, titles, or beginnings of ids
    #[arg(value_name = "SESSION", conflicts_with = "all")]
    sessions: Vec<String>,
    /// All sessions, oldest first
    #[arg(long)]
    all: bool,
    /// Only of this agent or platform; may be repeated
    #[arg(long = "source", value_name = "SOURCE")]
    sources: Vec<String>,
    /// One JSON object per line (what `import` reads), one JSON array, Markdown, or a web page
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Mask API keys, tokens and other secrets
    #[arg(long)]
    redact: bool,
    /// To this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Format {
    Jsonl,
    Json,
    Md,
    Html,
}

#[derive(Serialize)]
struct View {
    sessions: usize,
    format: Format,
    file: String,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let ledger = logs::current_ledger(context)?;
    let ids = choose(&ledger, arguments)?;
    let file = arguments.output.as_deref().filter(|file| *file != Path::new("-"));
    let Some(file) = file else {
        let format = format_of_output(arguments, context)?;
        let export = Export { ledger: &ledger, ids: &ids, format, redact: arguments.redact };
        return to_output(&export);
    };
    let file = context.directory.join(file);
    let format = arguments.format.unwrap_or(Format::Jsonl);
    let export = Export { ledger: &ledger, ids: &ids, format, redact: arguments.redact };
    let sessions = to_file(&export, &file)?;
    let view = View { sessions, format, file: file.to_string_lossy().into_owned() };
    if context.globals.json {
        output::print_json(&view);
    } else {
        let sessions = output::count(sessions, "session");
        println!("{sessions} written to {}.", output::disarm(&view.file));
    }
    Ok(ExitCode::SUCCESS)
}

/// The sessions that are meant, each once.
fn choose(ledger: &Ledger, arguments: &Arguments) -> Result<Vec<String>, Failure> {
    if arguments.all {
        return Ok(ledger.session_ids(&arguments.sources)?);
    }
    if arguments.sessions.is_empty() {
        return Err(Failure::new("which sessions?").hint("name some, or give --all"));
    }
    let mut ids: Vec<String> = Vec::new();
    for typed in &arguments.sessions {
        let id = ledger.resolve(typed)?;
        let sources = &arguments.sources;
        let is_wanted = sources.is_empty() || sources.contains(&ledger.session(&id)?.source);
        if is_wanted && !ids.contains(&id) {
            ids.push(id);
        }
    }
    Ok(ids)
}

/// On standard output `--json` is about the export itself.
fn format_of_output(arguments: &Arguments, context: &Context) -> Result<Format, Failure> {
    match (arguments.format, context.globals.json) {
        (None | Some(Format::Json), true) => Ok(Format::Json),
        (Some(_), true) => Err(Failure::new("--json prints one JSON document")
            .hint("leave --format away, or write to a file with -o")),
        (format, false) => Ok(format.unwrap_or(Format::Jsonl)),
    }
}

/// What is to be written.
struct Export<'e> {
    ledger: &'e Ledger,
    ids: &'e [String],
    format: Format,
    redact: bool,
}

impl Export<'_> {
    /// Writes everything and tells how many sessions that were. Only a web page needs them all at
    /// once.
    fn write(&self, out: &mut dyn Write) -> Result<usize, ExchangeError> {
        let bar = Progress::counting("exporting", "sessions");
        let mut written = 0;
        let mut page = Vec::new();
        if self.format == Format::Json {
            out.write_all(b"[")?;
        }
        for id in self.ids {
            let transcript = match self.transcript(id) {
                // Somebody has deleted it meanwhile.
                Err(LedgerError::NoSuchSession(_)) => continue,
                other => other?,
            };
            match self.format {
                Format::Jsonl => {
                    json(&transcript, out)?;
                    out.write_all(b"\n")?;
                }
                Format::Json => {
                    out.write_all(if written == 0 { b"\n" } else { b",\n" })?;
                    json(&transcript, out)?;
                }
                Format::Md => {
                    out.write_all(if written == 0 { b"" } else { b"\n" })?;
                    out.write_all(render::markdown(&transcript).as_bytes())?;
                }
                Format::Html => page.push(transcript),
            }
            written += 1;
            bar.step(written as u64, Some(self.ids.len() as u64));
        }
        match self.format {
            Format::Json => out.write_all(b"\n]\n")?,
            Format::Html => out.write_all(render::html(&page).as_bytes())?,
            Format::Jsonl | Format::Md => {}
        }
        out.flush()?;
        Ok(written)
    }

    fn transcript(&self, id: &str) -> Result<Transcript, LedgerError> {
        let mut transcript = self.ledger.transcript(id)?;
        if self.redact {
            mask(&mut transcript);
        }
        Ok(transcript)
    }
}

fn json(transcript: &Transcript, out: &mut dyn Write) -> io::Result<()> {
    Ok(serde_json::to_writer(out, transcript)?)
}

fn to_output(export: &Export<'_>) -> Result<ExitCode, Failure> {
    let stdout = io::stdout();
    let written = if stdout.is_terminal() {
        export.write(&mut output::Disarmed::new(stdout.lock()))
    } else {
        export.write(&mut BufWriter::new(stdout.lock()))
    };
    match written {
        // Whoever reads has seen enough.
        Err(ExchangeError::Io(error)) if error.kind() == ErrorKind::BrokenPipe => {}
        other => {
            other?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// All of it or nothing: the file is replaced when the new one is whole.
fn to_file(export: &Export<'_>, file: &Path) -> Result<usize, Failure> {
    let failed =
        |error: &io::Error| Failure::new(format!("cannot write {}", file.display())).because(error);
    // What a link leads to is meant; a device or a pipe is written to, not replaced.
    let target = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    if fs::metadata(&target).is_ok_and(|found| !found.is_file()) {
        let opened = OpenOptions::new().write(true).open(&target);
        return Ok(export.write(&mut BufWriter::new(opened.map_err(|error| failed(&error))?))?);
    }
    let new = NewFile::beside(&target).map_err(|error| failed(&error))?;
    let written = match export.write(&mut BufWriter::new(&new.file)) {
        Err(ExchangeError::Io(error)) => return Err(failed(&error)),
        other => other?,
    };
    new.put(&target).map_err(|error| failed(&error))?;
    Ok(written)
}

/// A file that is gone unless it is put into its place.
struct NewFile {
    file: File,
    path: PathBuf,
}

impl NewFile {
    fn beside(target: &Path) -> io::Result<NewFile> {
        let name = target.file_name().ok_or(ErrorKind::IsADirectory)?.to_string_lossy();
        let path = target.with_file_name(format!(".{name}.takeback-{}", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(NewFile { file, path })
    }

    fn put(&self, target: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, target)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // After `put` there is none.
        let _ = fs::remove_file(&self.path);
    }
}
