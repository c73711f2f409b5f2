//! `takeback sessions import`: sessions from a file or from another program's database.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde::Serialize;
use takeback_ledger::{ExchangeError, HermesDatabase, ImportReport, Ledger};

use crate::context::Context;
use crate::failure::{self, Failure};
use crate::output::{self, Bar, Progress};

/// Bring sessions in
///
/// What is here already stays as it is; what is new is added. The same file twice adds nothing.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback sessions import all.jsonl
  ssh laptop takeback sessions export --all | takeback sessions import -
  takeback sessions import --from hermes              from ~/.hermes
  takeback sessions import --from hermes /mnt/old/.hermes/state.db")]
pub(super) struct Arguments {
    /// One JSON object per line; `-` is standard input
    #[arg(value_name = "FILE", required_unless_present = "from")]
    path: Option<PathBuf>,
    /// From the database of this program: FILE is that or its directory
    #[arg(long, value_enum, value_name = "PROGRAM")]
    from: Option<Program>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Program {
    Hermes,
}

/// What came in.
#[derive(Default, Serialize)]
struct View {
    sessions: usize,
    new_sessions: usize,
    messages: usize,
    bad: Vec<Bad>,
}

/// What did not: a line of a file, or a session of a database, counted from 1.
#[derive(Serialize)]
struct Bad {
    line: usize,
    message: String,
}

impl View {
    fn new(report: ImportReport, mut bad: Vec<Bad>) -> View {
        let ImportReport { sessions, new_sessions, messages, bad: lines } = report;
        bad.extend(
            lines.iter().map(|bad| Bad { line: bad.line, message: failure::chain(&bad.error) }),
        );
        bad.sort_by_key(|bad| bad.line);
        View { sessions, new_sessions, messages, bad }
    }
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let mut ledger = context.ledger()?;
    let path = arguments.path.as_deref();
    let (view, unit) = match (arguments.from, path) {
        (Some(Program::Hermes), _) => {
            (from_hermes(&mut ledger, &hermes_path(path, context)?, context)?, "session")
        }
        (None, Some(path)) => (from_file(&mut ledger, path, context)?, "line"),
        (None, None) => return Err(Failure::new("name a file, or - for standard input")),
    };
    show(&view, unit, context);
    Ok(if view.bad.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn from_file(ledger: &mut Ledger, path: &Path, context: &Context) -> Result<View, Failure> {
    let failed =
        |error: io::Error| Failure::new(format!("cannot read {}", path.display())).because(&error);
    let mut lines: Box<dyn BufRead> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(context.directory.join(path)).map_err(failed)?;
        Box::new(BufReader::with_capacity(1 << 16, file))
    };
    let bar = Bar::new("importing", "lines");
    let progress = |line: usize| bar.step(line as u64, None);
    let report = match ledger.import_lines(&mut lines, context.now(), &progress) {
        Err(ExchangeError::Io(error)) => return Err(failed(error)),
        outcome => outcome?,
    };
    Ok(View::new(report, Vec::new()))
}

fn hermes_path(typed: Option<&Path>, context: &Context) -> Result<PathBuf, Failure> {
    match (typed, context.user_home()) {
        (Some(typed), _) => Ok(context.directory.join(typed)),
        (None, Some(home)) => Ok(home.join(".hermes")),
        (None, None) => Err(Failure::new("there is no home directory to find Hermes in")
            .hint("name Hermes's directory: `takeback sessions import --from hermes DIR`")),
    }
}

fn from_hermes(ledger: &mut Ledger, path: &Path, context: &Context) -> Result<View, Failure> {
    // Copies are private and may be large: they belong beside the ledger, not in /tmp.
    let scratch = context.home.join("tmp");
    let read = read_hermes(ledger, path, &scratch, context);
    // Another import may have a copy there.
    let _ = fs::remove_dir(&scratch);
    read
}

fn read_hermes(
    ledger: &mut Ledger,
    path: &Path,
    scratch: &Path,
    context: &Context,
) -> Result<View, Failure> {
    let progress = Progress::new("copying the database");
    let database = HermesDatabase::open(path, scratch)?;
    let transcripts = database.transcripts()?;
    drop(progress);
    let bar = Bar::new("importing", "sessions");
    let total = transcripts.len();
    let mut report = ImportReport::default();
    let mut bad = Vec::new();
    for (number, transcript) in (1..).zip(transcripts) {
        let imported = transcript.map_err(|error| failure::chain(&error)).and_then(|read| {
            ledger.import(&read, context.now()).map_err(|error| failure::chain(&error))
        });
        match imported {
            Ok(imported) => report.add(&imported),
            Err(message) => bad.push(Bad { line: number, message }),
        }
        bar.step(number as u64, Some(total as u64));
    }
    Ok(View::new(report, bad))
}

fn show(view: &View, unit: &str, context: &Context) {
    if context.globals.json {
        output::print_json(view);
        return;
    }
    println!(
        "{} read, {} of them new; {} added.",
        output::count(view.sessions, "session"),
        view.new_sessions,
        output::count(view.messages, "message")
    );
    for bad in &view.bad {
        eprintln!("error: {unit} {}: {}", bad.line, output::disarm(&bad.message));
    }
}
