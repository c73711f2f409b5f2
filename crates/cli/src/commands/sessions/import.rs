//! `takeback sessions import`: imports sessions from a file, from another program's database, or
//! from an agent's logs.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde::Serialize;
use takeback_agents::{LOG_FORMATS, LogError, LogRef, log_format};
use takeback_base::scratch::Scratch;
use takeback_import::hermes::HermesDatabase;
use takeback_ledger::{
    ExchangeError, ImportReport, InterruptedImport, Ledger, LogIntake, MAX_BAD, MAX_LINE,
};

use crate::context::Context;
use crate::failure::{self, Failure};
use crate::output::{self, Progress};

/// Import sessions from a file, from another program, or from the logs of an agent
///
/// Adds only what the ledger does not have yet. Importing a file twice adds nothing.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback sessions import all.jsonl
  ssh laptop takeback sessions export --all | takeback sessions import -
  takeback sessions import --from hermes              from $HERMES_HOME or ~/.hermes
  takeback sessions import --from hermes /mnt/old/.hermes/state.db
  takeback sessions import --from claude              from the logs in ~/.claude
  takeback sessions import --from codex rollout.jsonl")]
pub(super) struct Arguments {
    /// A file with one JSON object per line, as `export` writes it; `-` is standard input
    #[arg(value_name = "FILE", required_unless_present = "from")]
    path: Option<PathBuf>,
    /// Import from the database or logs of this program; FILE is then the database, a log, or the
    /// directory that contains them
    #[arg(long, value_name = "PROGRAM", value_parser = program_parser())]
    from: Option<String>,
}

const HERMES: &str = "hermes";

fn program_parser() -> PossibleValuesParser {
    let agents = LOG_FORMATS.iter().map(|format| format.agent);
    PossibleValuesParser::new([HERMES].into_iter().chain(agents))
}

/// The counts and errors of an import.
#[derive(Default, Serialize)]
pub(crate) struct ImportView {
    pub(crate) sessions: usize,
    pub(crate) new_sessions: usize,
    pub(crate) messages: usize,
    bad: Vec<BadEntry>,
    /// The number of items that could not be imported and are not listed.
    #[serde(skip_serializing_if = "is_zero")]
    more_bad: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// An item that could not be imported: a line in a file, or a session in a database. Both are
/// numbered starting at 1. `file` is set only for agents' logs.
#[derive(Serialize)]
struct BadEntry {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    message: String,
}

impl ImportView {
    fn new(report: ImportReport, mut bad: Vec<BadEntry>) -> ImportView {
        let ImportReport { sessions, new_sessions, messages, bad: lines, mut more_bad } = report;
        bad.extend(lines.iter().map(|bad| BadEntry::new(bad.line, failure::chain(&bad.error))));
        bad.sort_by_key(|bad| bad.line);
        more_bad += bad.len().saturating_sub(MAX_BAD);
        bad.truncate(MAX_BAD);
        ImportView { sessions, new_sessions, messages, bad, more_bad }
    }
}

impl BadEntry {
    fn new(line: usize, message: String) -> BadEntry {
        BadEntry { file: None, line: Some(line), message }
    }
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let path = arguments.path.as_deref();
    let (view, unit) = match (arguments.from.as_deref(), path) {
        (Some(HERMES), _) => {
            let hermes = hermes_path(path, context)?;
            (import_hermes(&mut *context.ledger()?, &hermes, context)?, "session")
        }
        (Some(agent), path) => (import_agent_logs(agent, path, context)?, "line"),
        (None, Some(path)) => (import_file(&mut *context.ledger()?, path, context)?, "line"),
        (None, None) => unreachable!("clap requires a file without --from"),
    };
    print_counts(&view, unit, context);
    Ok(if view.bad.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn import_file(ledger: &mut Ledger, path: &Path, context: &Context) -> Result<ImportView, Failure> {
    let failed =
        |error: io::Error| Failure::new(format!("cannot read {}", path.display())).because(&error);
    let mut lines: Box<dyn BufRead> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(context.directory.join(path)).map_err(failed)?;
        Box::new(BufReader::with_capacity(1 << 16, file))
    };
    let bar = Progress::counting("importing", "lines");
    let progress = |line: usize| bar.step(line as u64, None);
    match ledger.import_lines(&mut lines, context.now(), &progress) {
        Ok(report) => Ok(ImportView::new(report, Vec::new())),
        Err(interrupted) => Err(describe_interrupted(*interrupted, path)),
    }
}

/// Describes an import that ended early, and says what had been imported by then.
fn describe_interrupted(interrupted: InterruptedImport, path: &Path) -> Failure {
    let InterruptedImport { line, report, cause } = interrupted;
    let sessions = output::count(report.sessions, "session");
    let were = if report.sessions == 1 { "was" } else { "were" };
    let imported = format!("{sessions} before line {line} {were} imported");
    let path = path.display();
    let (failure, next) = match cause {
        ExchangeError::LongLine => {
            let limit = MAX_LINE >> 20;
            let failure = Failure::new(format!("line {line} of {path} is longer than {limit} MB"));
            (failure, "remove the line to import the rest".to_owned())
        }
        ExchangeError::Io(error) => {
            let failure = Failure::new(format!("cannot read {path}")).because(&error);
            (failure, "import the file again to import the rest".to_owned())
        }
        ExchangeError::Ledger(error) => {
            let failure = Failure::from(error);
            let first =
                failure.hint.as_ref().map(|hint| format!("{hint}, then ")).unwrap_or_default();
            let next = format!("{first}import the file again to import the rest");
            (failure, next)
        }
    };
    failure.hint(format!("{imported}; {next}"))
}

fn hermes_path(typed: Option<&Path>, context: &Context) -> Result<PathBuf, Failure> {
    match (typed, context.hermes_home()) {
        (Some(typed), _) => Ok(context.directory.join(typed)),
        (None, Some(hermes)) => Ok(hermes),
        (None, None) => Err(Failure::new("cannot find Hermes: HOME is not set")
            .hint("name its directory: `takeback sessions import --from hermes DIR`")),
    }
}

fn import_hermes(
    ledger: &mut Ledger,
    path: &Path,
    context: &Context,
) -> Result<ImportView, Failure> {
    let directory = context.scratch();
    let scratch = Scratch::open(&directory).map_err(|error| {
        Failure::new(format!("cannot use {}", directory.display())).because(&error)
    })?;
    import_hermes_copy(ledger, path, scratch.directory(), context)
}

fn import_hermes_copy(
    ledger: &mut Ledger,
    path: &Path,
    scratch: &Path,
    context: &Context,
) -> Result<ImportView, Failure> {
    let progress = Progress::new("copying the database");
    let database = HermesDatabase::open(path, scratch)?;
    let transcripts = database.transcripts()?;
    drop(progress);
    let bar = Progress::counting("importing", "sessions");
    let total = transcripts.len();
    let mut report = ImportReport::default();
    let mut bad = Vec::new();
    for (number, transcript) in (1..).zip(transcripts) {
        let imported = transcript.map_err(|error| failure::chain(&error)).and_then(|read| {
            ledger.import(&read, context.now()).map_err(|error| failure::chain(&error))
        });
        match imported {
            Ok(imported) => report.add(&imported),
            Err(message) if bad.len() < MAX_BAD => bad.push(BadEntry::new(number, message)),
            Err(_) => report.more_bad += 1,
        }
        bar.step(number as u64, Some(total as u64));
    }
    Ok(ImportView::new(report, bad))
}

/// Imports an agent's logs: those at `path`, or all logs that the agent keeps.
pub(crate) fn import_agent_logs(
    agent: &str,
    path: Option<&Path>,
    context: &Context,
) -> Result<ImportView, Failure> {
    let unknown = || Failure::new(format!("takeback cannot read the logs of {agent}"));
    let format = log_format(agent).ok_or_else(unknown)?;
    let hint = format!("name their directory: `takeback sessions import --from {agent} DIR`");
    let place = match path {
        Some(path) => Some(context.directory.join(path)),
        None => context.logs_of(format),
    };
    let place = place.ok_or_else(|| {
        Failure::new(format!("cannot find the logs of {agent}: HOME is not set")).hint(&hint)
    })?;
    let logs = format.find_logs(&place).map_err(|error| Failure::from(error).hint(&hint))?;
    let mut ledger = context.ledger()?;
    let bar = Progress::counting("importing", "logs");
    let total = logs.len() as u64;
    let (mut taken, mut bad) = (LogIntake::default(), Vec::new());
    for (number, log) in (1..).zip(&logs) {
        match format.catch_up(&mut ledger, log, &|directory| context.root(directory), context.now())
        {
            Ok(caught_up) => {
                taken.add(caught_up.taken_in);
                bad.extend(describe_bad_lines(log, &caught_up.bad_lines));
            }
            // If the ledger fails, no other log can be imported either.
            Err(LogError::Ledger(error)) => return Err(error.into()),
            Err(error) => {
                let message = match &error {
                    LogError::Malformed { reason, .. } => reason.clone(),
                    LogError::Io { source, .. } => source.to_string(),
                    error => failure::chain(error),
                };
                bad.push(BadEntry { file: Some(log.name()), line: None, message });
            }
        }
        bar.step(number, Some(total));
    }
    Ok(ImportView {
        sessions: taken.sessions.len(),
        new_sessions: taken.new_sessions.len(),
        messages: taken.messages,
        bad,
        more_bad: 0,
    })
}

/// Reports the first of the lines that could not be read, and the number of the others.
fn describe_bad_lines(log: &LogRef, lines: &[u64]) -> Option<BadEntry> {
    let line = usize::try_from(*lines.first()?).ok();
    let message = match lines.len() {
        1 => "not a JSON object".to_owned(),
        count => {
            let others = output::count(count - 1, "later line");
            format!("not a JSON object (the same is true of {others})")
        }
    };
    Some(BadEntry { file: Some(log.name()), line, message })
}

fn print_counts(view: &ImportView, unit: &str, context: &Context) {
    if context.globals.json {
        output::print_json(view);
        return;
    }
    println!(
        "Read {}, {} of them new. Added {}.",
        output::count(view.sessions, "session"),
        view.new_sessions,
        output::count(view.messages, "message")
    );
    for bad in &view.bad {
        let file = bad.file.iter().map(|file| format!("{file}: "));
        let line = bad.line.iter().map(|line| format!("{unit} {line}: "));
        let place: String = file.chain(line).collect();
        eprintln!("error: {}{}", output::disarm(&place), output::disarm(&bad.message));
    }
    if view.more_bad > 0 {
        eprintln!(
            "error: {} could not be imported",
            output::count(view.more_bad, &format!("more {unit}"))
        );
    }
}
