//! `takeback sessions import`: sessions from a file, from another program's database, or from the
//! logs of an agent.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde::Serialize;
use takeback_agents::{LOG_FORMATS, LogError, LogRef, log_format};
use takeback_import::hermes::HermesDatabase;
use takeback_ledger::{ExchangeError, ImportReport, Ledger, TakenIn};

use crate::context::Context;
use crate::failure::{self, Failure};
use crate::output::{self, Progress};

/// Bring sessions in
///
/// What is here already stays as it is; what is new is added. The same file twice adds nothing.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback sessions import all.jsonl
  ssh laptop takeback sessions export --all | takeback sessions import -
  takeback sessions import --from hermes              from ~/.hermes
  takeback sessions import --from hermes /mnt/old/.hermes/state.db
  takeback sessions import --from claude              from ~/.claude: all that was ever said
  takeback sessions import --from codex rollout.jsonl")]
pub(super) struct Arguments {
    /// One JSON object per line; `-` is standard input
    #[arg(value_name = "FILE", required_unless_present = "from")]
    path: Option<PathBuf>,
    /// From the database or the logs of this program: FILE is one of them, or their directory
    #[arg(long, value_name = "PROGRAM", value_parser = programs())]
    from: Option<String>,
}

const HERMES: &str = "hermes";

fn programs() -> PossibleValuesParser {
    let agents = LOG_FORMATS.iter().map(|format| format.agent);
    PossibleValuesParser::new([HERMES].into_iter().chain(agents))
}

/// What came in.
#[derive(Default, Serialize)]
pub(crate) struct View {
    pub(crate) sessions: usize,
    pub(crate) new_sessions: usize,
    pub(crate) messages: usize,
    bad: Vec<Bad>,
}

/// What did not: a line of a file, or a session of a database, counted from 1; of several files,
/// which one.
#[derive(Serialize)]
struct Bad {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    message: String,
}

impl View {
    fn new(report: ImportReport, mut bad: Vec<Bad>) -> View {
        let ImportReport { sessions, new_sessions, messages, bad: lines } = report;
        bad.extend(lines.iter().map(|bad| Bad::new(bad.line, failure::chain(&bad.error))));
        bad.sort_by_key(|bad| bad.line);
        View { sessions, new_sessions, messages, bad }
    }
}

impl Bad {
    fn new(line: usize, message: String) -> Bad {
        Bad { file: None, line: Some(line), message }
    }
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let path = arguments.path.as_deref();
    let (view, unit) = match (arguments.from.as_deref(), path) {
        (Some(HERMES), _) => {
            let hermes = hermes_path(path, context)?;
            (from_hermes(&mut *context.ledger()?, &hermes, context)?, "session")
        }
        (Some(agent), path) => (from_agent(agent, path, context)?, "line"),
        (None, Some(path)) => (from_file(&mut *context.ledger()?, path, context)?, "line"),
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
    let bar = Progress::counting("importing", "lines");
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
            Err(message) => bad.push(Bad::new(number, message)),
        }
        bar.step(number as u64, Some(total as u64));
    }
    Ok(View::new(report, bad))
}

/// Brings in all that an agent ever logged, or what is at a place. Twice adds nothing.
pub(crate) fn from_agent(
    agent: &str,
    path: Option<&Path>,
    context: &Context,
) -> Result<View, Failure> {
    let unknown = || Failure::new(format!("the logs of {agent} are not known"));
    let format = log_format(agent).ok_or_else(unknown)?;
    let hint = format!("name where they are: `takeback sessions import --from {agent} DIR`");
    let place = match path {
        Some(path) => Some(context.directory.join(path)),
        None => context.logs_of(format),
    };
    let place = place.ok_or_else(|| {
        Failure::new(format!("there is no home directory to find the logs of {agent} in"))
            .hint(&hint)
    })?;
    let logs = format.find_logs(&place).map_err(|error| Failure::from(error).hint(&hint))?;
    let mut ledger = context.ledger()?;
    let bar = Progress::counting("importing", "logs");
    let total = logs.len() as u64;
    let (mut taken, mut bad) = (TakenIn::default(), Vec::new());
    for (number, log) in (1..).zip(&logs) {
        match format.catch_up(&mut ledger, log, &|directory| context.root(directory), context.now())
        {
            Ok(caught_up) => {
                taken.add(caught_up.taken_in);
                bad.extend(unreadable(log, &caught_up.bad_lines));
            }
            // Nothing else would come in either.
            Err(LogError::Ledger(error)) => return Err(error.into()),
            Err(error) => {
                let message = match &error {
                    LogError::Malformed { reason, .. } => reason.clone(),
                    LogError::Io { source, .. } => source.to_string(),
                    error => failure::chain(error),
                };
                bad.push(Bad { file: Some(log.name()), line: None, message });
            }
        }
        bar.step(number, Some(total));
    }
    Ok(View {
        sessions: taken.sessions.len(),
        new_sessions: taken.new_sessions.len(),
        messages: taken.messages,
        bad,
    })
}

/// Lines that cannot be read: the first, and how many there are.
fn unreadable(log: &LogRef, lines: &[u64]) -> Option<Bad> {
    let line = usize::try_from(*lines.first()?).ok();
    let message = match lines.len() {
        1 => "it is not a JSON object".to_owned(),
        count => {
            format!("this and {} are not JSON objects", output::count(count - 1, "later line"))
        }
    };
    Some(Bad { file: Some(log.name()), line, message })
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
        let file = bad.file.iter().map(|file| format!("{file}: "));
        let line = bad.line.iter().map(|line| format!("{unit} {line}: "));
        let place: String = file.chain(line).collect();
        eprintln!("error: {}{}", output::disarm(&place), output::disarm(&bad.message));
    }
}
