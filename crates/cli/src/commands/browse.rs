//! `takeback` and `takeback sessions` on a terminal: show the history or the sessions on a screen.

use std::io::{self, BufRead, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use takeback_tree::Oid;
use takeback_tui::{Colors, Error, Host, Options, Problem, ScreenKind, Theme};
use takeback_undo::{CheckpointOptions, Opened};

use super::serve::ServedHome;
use super::{Command, checkpoint, diff, resume};
use crate::context::{self, Context};
use crate::failure::Failure;
use crate::logs;
use crate::output::{self, Capture, Size};

/// The smallest terminal on which the screen is useful.
const SMALLEST: Size = Size { columns: 24, rows: 8 };

/// Shows the history or the sessions on a screen. Returns `None` if the command has no screen, or
/// if the terminal cannot show one. The caller must then run the command itself.
pub(crate) fn run(command: &Command, context: &Context) -> Option<Result<ExitCode, Failure>> {
    let screen = match command {
        Command::List(arguments) if !arguments.steps => ScreenKind::History,
        Command::Sessions(arguments) if arguments.is_plain_list() => ScreenKind::Sessions,
        _ => return None,
    };
    can_show(context).then(|| show(screen, context))
}

/// Returns true if there is a terminal that can show the screen, and a user in front of it.
fn can_show(context: &Context) -> bool {
    let is_large = Size::of(io::stdout())
        .is_some_and(|size| size.columns >= SMALLEST.columns && size.rows >= SMALLEST.rows);
    is_large && context.is_interactive() && io::stdin().is_terminal()
}

fn show(screen: ScreenKind, context: &Context) -> Result<ExitCode, Failure> {
    // The configuration is checked before the screen opens, so that warnings stay readable.
    context.opened_anyway()?;
    let host = Arc::new(TerminalHost { home: ServedHome::new(context) });
    let root = context.root(&context.directory);
    let options = Options {
        screen,
        directory: context.directory.clone(),
        place: output::tilde(&root, context),
        zone: TimeZone::system(),
        theme: find_theme(context),
        clock: Timestamp::now,
    };
    // Nothing else may write to the terminal while the screen is open.
    let capture = Capture::begin();
    let shown = takeback_tui::run(host, options);
    let missed = output::take_captured();
    drop(capture);
    missed.iter().for_each(|line| eprintln!("{line}"));
    let lines = shown.map_err(|error| {
        Failure::new("cannot use the terminal")
            .because(&error)
            .hint("`takeback list` prints the history")
    })?;
    lines.iter().for_each(|line| println!("{}", output::disarm(line)));
    Ok(ExitCode::SUCCESS)
}

fn find_theme(context: &Context) -> Theme {
    let has = |name: &str, part: &str| {
        context.variable(name).is_some_and(|value| value.to_string_lossy().contains(part))
    };
    let colors = match output::has_colors() {
        false => Colors::None,
        true if has("TERM", "256color") || has("COLORTERM", "") => Colors::Many,
        true => Colors::Basic,
    };
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| context.variable(name).filter(|value| !value.is_empty()));
    let is_unicode = locale.is_none_or(|locale| {
        let locale = locale.to_string_lossy().to_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    });
    Theme { colors, is_unicode }
}

/// The screen's access to takeback's home and to the commands of the CLI.
struct TerminalHost {
    home: ServedHome,
}

impl Host for TerminalHost {
    fn open(&self) -> Result<Arc<Opened>, Problem> {
        let context = self.home.context().map_err(describe)?;
        context.opened_arc().cloned().map_err(describe)
    }

    fn catch_up(&self) {
        if let Ok(context) = self.home.context() {
            logs::catch_up_ledger(&context);
        }
    }

    fn explain(&self, error: Error) -> Problem {
        describe(match error {
            Error::Compare(error) => error.into(),
            Error::Find(error) => error.into(),
            Error::Label(error) => error.into(),
            Error::Ledger(error) => error.into(),
            Error::Open(error) => error.into(),
            Error::Rollback(error) => error.into(),
            Error::Store(error) => error.into(),
            Error::Take(error) => error.into(),
            Error::Task(error) => error.into(),
        })
    }

    fn render_markdown(&self, text: &str, columns: usize) -> Vec<String> {
        output::render_markdown(text, columns)
    }

    fn find_resume_command(&self, session: &str) -> Result<String, Problem> {
        let find = || {
            let context = self.home.context()?;
            drop(logs::current_ledger(&context)?);
            resume::find_way(session, None, &context)
        };
        find().map(|way| output::continuation(&way)).map_err(describe)
    }

    fn take_checkpoint(&self, reason: Option<&str>) -> Result<String, Problem> {
        let wish =
            CheckpointOptions { reason: reason.map(str::to_owned), ..CheckpointOptions::default() };
        let take = || checkpoint::take_checkpoint(&wish, &self.home.context()?);
        take().map(|taken| taken.describe()).map_err(describe)
    }

    fn page_diff(&self, checkpoint: &Oid) -> Result<(), Problem> {
        let context = self.home.context().map_err(describe)?;
        let arguments = diff::Arguments::since(checkpoint.to_string(), Vec::new());
        let (result, captured) = output::capture_output(|| diff::run(&arguments, &context));
        result.map_err(describe)?;
        let words = context::find_pager(false).map(stay_open);
        if !words.is_some_and(|words| output::page_lines(&words, captured.lines())) {
            let _ = captured.print();
            output::ask("Enter returns to the history. ");
            let _ = io::stdin().lock().read_line(&mut String::new());
        }
        Ok(())
    }

    fn take_messages(&self) -> Vec<String> {
        output::take_captured()
    }
}

/// Replaces the default options of `less`, with which it would exit at once if the text fits on the
/// screen.
fn stay_open(words: Vec<String>) -> Vec<String> {
    match words.as_slice() {
        [program, options] if program == "less" && options == "-FRX" => {
            vec![program.clone(), "-R".to_owned()]
        }
        _ => words,
    }
}

fn describe(failure: Failure) -> Problem {
    let Failure { message, causes, hint, .. } = failure;
    Problem { message, causes, hint }
}
