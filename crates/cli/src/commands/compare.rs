//! `takeback compare`: shows how two directories differ, and what the agents' work in them cost.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use takeback_ledger::{ListOptions, MessageOrigin};
use takeback_tree::{AnyPath, TreeChange};
use takeback_undo::history;

use super::diff::describe_change;
use super::rollback::handled_files;
use crate::context::Context;
use crate::failure::Failure;
use crate::logs;
use crate::output::{self, Cell, Column, Progress, Table};

/// The maximum number of output lines that are shown for a test.
const SHOWN: usize = 5;

/// Compare the files of two directories, and the cost of the agents' work there
///
/// This is useful after you have tried two ideas in two forks of the same moment. Shows the changes
/// from the first directory to the second. With --test, also runs a command in both directories and
/// shows whether it succeeds.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback compare ../try-a ../try-b
  takeback compare ../try-a ../try-b --test 'cargo test'")]
pub(crate) struct Arguments {
    /// The first directory
    #[arg(value_name = "DIR")]
    first: PathBuf,
    /// The second directory, which is compared with the first
    #[arg(value_name = "OTHER")]
    second: PathBuf,
    /// Run this command in both directories, in a shell
    #[arg(long, value_name = "COMMAND")]
    test: Option<String>,
}

/// The differences between two directories.
#[derive(Serialize)]
struct Comparison {
    directories: [SideView; 2],
    files_changed: usize,
    insertions: u64,
    deletions: u64,
    /// The changes that turn the first directory into the second.
    changes: Vec<TreeChange>,
}

/// The work in one directory.
#[derive(Serialize)]
struct SideView {
    directory: AnyPath,
    sessions: usize,
    /// The number of prompts, not counting those that were undone and those that a fork shares with
    /// its parent.
    turns: usize,
    input_tokens: i64,
    output_tokens: i64,
    /// All tokens, including those in the provider's cache.
    tokens: i64,
    cost_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    test: Option<TestView>,
}

/// The result of the test command.
#[derive(Serialize)]
struct TestView {
    passed: bool,
    /// The exit code; `None` if a signal ended the command.
    code: Option<i32>,
    seconds: f64,
    /// The last lines of the output.
    output: String,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let opened = context.opened_anyway()?;
    let find = |directory: &Path| find_directory(directory, context);
    let directories = [find(&arguments.first)?, find(&arguments.second)?];
    if directories[0] == directories[1] {
        return Err(Failure::new("both paths name the same directory"));
    }
    logs::catch_up_ledger(context);
    let progress = Progress::of_files("comparing", handled_files(opened));
    let diff = history::compare_directories(opened, &directories[0], &directories[1])?;
    drop(progress);
    let [first, second] = &directories;
    let view = |directory| view_side(directory, arguments.test.as_deref(), context);
    let counts = diff.changes.iter().filter_map(|change| change.lines);
    let (insertions, deletions) =
        counts.fold((0, 0), |sum, lines| (sum.0 + lines.insertions, sum.1 + lines.deletions));
    let comparison = Comparison {
        directories: [view(first)?, view(second)?],
        files_changed: diff.changes.len(),
        insertions,
        deletions,
        changes: diff.changes,
    };
    if !output::answers_json(&comparison, context) {
        print_comparison(&comparison, context);
    }
    Ok(ExitCode::SUCCESS)
}

/// Finds the root of the workspace that a directory belongs to.
fn find_directory(directory: &Path, context: &Context) -> Result<PathBuf, Failure> {
    let path = context.directory.join(directory);
    if !path.is_dir() {
        let name = directory.display();
        return Err(Failure::new(format!("{name} is not a directory")));
    }
    let path = path.canonicalize().map_err(|error| {
        Failure::new(format!("cannot open {}", directory.display())).because(&error)
    })?;
    Ok(context.root(&path))
}

fn view_side(directory: &Path, test: Option<&str>, context: &Context) -> Result<SideView, Failure> {
    let workspace = Some(directory.display().to_string());
    let ledger = context.ledger()?;
    let sessions = ledger.sessions(&ListOptions { workspace, ..ListOptions::default() })?;
    let mut side = SideView {
        directory: AnyPath(directory.to_owned()),
        sessions: sessions.len(),
        turns: 0,
        input_tokens: 0,
        output_tokens: 0,
        tokens: 0,
        cost_usd: None,
        test: None,
    };
    for found in &sessions {
        let session = &found.session;
        let messages = ledger.message_origins(&session.id)?;
        let is_prompt = |message: &&MessageOrigin| {
            message.role == "user" && !message.inherited && !message.undone
        };
        side.turns += messages.iter().filter(is_prompt).count();
        side.input_tokens += session.tokens.input;
        side.output_tokens += session.tokens.output;
        side.tokens += session.tokens.total();
        if let Some(cost) = session.actual_cost_usd.or(session.estimated_cost_usd) {
            side.cost_usd = Some(side.cost_usd.unwrap_or_default() + cost);
        }
    }
    drop(ledger);
    if let Some(command) = test {
        let _progress = Progress::new("testing");
        side.test = Some(run_test(command, directory)?);
    }
    Ok(side)
}

fn run_test(command: &str, directory: &Path) -> Result<TestView, Failure> {
    let start = Instant::now();
    let done = Command::new("sh")
        .args(["-c", command])
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failure::new("cannot start a shell for the test").because(&error))?;
    let text = [done.stdout, done.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(SHOWN)..];
    Ok(TestView {
        passed: done.status.success(),
        code: done.status.code(),
        seconds: start.elapsed().as_secs_f64(),
        output: last.join("\n"),
    })
}

fn print_comparison(comparison: &Comparison, context: &Context) {
    let mut table = Table::new([
        Column::left(),
        Column::right(),
        Column::right(),
        Column::right(),
        Column::right(),
        Column::left(),
    ]);
    for side in &comparison.directories {
        let tokens = usize::try_from(side.tokens).unwrap_or_default();
        let cost = side.cost_usd.map(|cost| format!("${cost:.2}"));
        table.add([
            Cell::new(output::tilde(&side.directory.0, context)),
            Cell::new(output::count(side.sessions, "session")),
            Cell::new(output::count(side.turns, "turn")),
            Cell::new(output::count(tokens, "token")),
            Cell::new(cost.unwrap_or_default()),
            Cell::new(side.test.as_ref().map(describe_test).unwrap_or_default()),
        ]);
    }
    table.print();
    for side in &comparison.directories {
        if let Some(test) = side.test.as_ref().filter(|test| !test.passed) {
            let place = output::tilde(&side.directory.0, context);
            let lines = test.output.lines().map(output::disarm);
            output::print_section(&format!("Last lines of the test in {place}"), lines, context);
        }
    }
    println!(
        "{}, +{}/−{} from the first to the second",
        output::count(comparison.files_changed, "file"),
        comparison.insertions,
        comparison.deletions
    );
    let changes = comparison.changes.iter().map(describe_change);
    output::print_section("Changed", changes, context);
}

fn describe_test(test: &TestView) -> String {
    match (test.passed, test.code) {
        (true, _) => format!("passed ({:.1} s)", test.seconds),
        (false, Some(code)) => format!("failed with exit code {code} ({:.1} s)", test.seconds),
        (false, None) => "was killed".to_owned(),
    }
}
