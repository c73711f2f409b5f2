//! `takeback run`: runs a command between two checkpoints.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, ExitStatus};
use std::thread;

use clap::Args;
use rustix::process::{Pid, Signal};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use takeback_undo::hook::find_script;
use takeback_undo::{Opened, Report, ReportedEvent, ToolCall};

use super::rollback::handled_files;
use crate::background;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Progress};

/// Run a command between two checkpoints: for agents without hooks
///
/// Takes a checkpoint, runs the command, captures its changes, and exits with its exit code.
/// `takeback undo` takes the changes back. Files that changed while the command ran but are not
/// named in it may be your own edits: `undo` asks about each of them, and `undo --uncertain` takes
/// them all back.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback run -- aider --message 'add a cart'
  takeback run ./migrate.sh
  takeback rollback 1           return to before the command
  takeback undo                 take back what the command changed, and ask about the rest")]
pub(crate) struct Arguments {
    /// The command and its arguments
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    command: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let opened = context.opened()?;
    let session = CommandSession::new(arguments, context);
    let is_on = opened.settings().enabled;
    if is_on {
        session.begin(opened)?;
    }
    let ended = run_command(arguments, context);
    if is_on {
        session.end(opened, context, ended.as_ref().ok());
    }
    match ended {
        Ok(status) => Ok(exit_code(status)),
        Err(error) => {
            let program = arguments.command[0].to_string_lossy();
            Failure::new(format!("cannot run {program}"))
                .because(&error)
                .report(context.globals.json);
            // These are the exit codes that shells use.
            let is_missing = error.kind() == io::ErrorKind::NotFound;
            Ok(ExitCode::from(if is_missing { 127 } else { 126 }))
        }
    }
}

/// Runs the command. This process ignores SIGINT and SIGQUIT, so that it can still capture the
/// changes; the terminal sends these signals to the command as well. This process passes SIGTERM
/// and SIGHUP on to the command.
fn run_command(arguments: &Arguments, context: &Context) -> io::Result<ExitStatus> {
    let mut signals = Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP])?;
    let mut command = Command::new(&arguments.command[0]);
    command.args(&arguments.command[1..]).current_dir(&context.directory);
    let mut child = command.spawn()?;
    let pid = Pid::from_child(&child);
    let handle = signals.handle();
    let forwarding = thread::spawn(move || {
        for signal in signals.forever() {
            let signal = match signal {
                SIGTERM => Signal::TERM,
                SIGHUP => Signal::HUP,
                _ => continue,
            };
            // The command may have ended already.
            let _ = rustix::process::kill_process(pid, signal);
        }
    });
    let status = child.wait();
    handle.close();
    let _ = forwarding.join();
    status
}

/// The command, reported as if it were an agent's session.
struct CommandSession {
    report: Report,
    call: ToolCall,
    line: String,
}

impl CommandSession {
    fn new(arguments: &Arguments, context: &Context) -> CommandSession {
        let words: Vec<String> =
            arguments.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let input = json!({ "command": words });
        let line = find_script(&input).expect("a list of words is a command");
        let call = ToolCall {
            id: Some("1".into()),
            tool: "run".into(),
            input,
            work: takeback_undo::ToolWork::Changes {
                script: Some(line.clone()),
                paths: Vec::new(),
            },
        };
        let report = Report {
            agent: "run".into(),
            session: format!("{}-{}", context.now().0, std::process::id()),
            parent: None,
            turn: None,
            directory: context.directory.clone(),
            model: None,
            event: ReportedEvent::SessionStart,
        };
        CommandSession { report, call, line }
    }

    fn report(&self, opened: &Opened, event: ReportedEvent) -> takeback_undo::Handled {
        takeback_undo::hook::handle(
            opened,
            &Report { event, ..self.report.clone() },
            &takeback_undo::Deadline::open(),
        )
    }

    /// Takes a checkpoint, and fails if that is not possible, because the command must not run
    /// unprotected.
    fn begin(&self, opened: &Opened) -> Result<(), Failure> {
        let _progress = Progress::of_files("taking a checkpoint", handled_files(opened));
        self.report(opened, ReportedEvent::TurnStart { prompt: Some(self.line.clone()) });
        let handled = self.report(opened, ReportedEvent::BeforeTool(self.call.clone()));
        match handled.failures.first().filter(|_| handled.missed) {
            Some(failure) => {
                Err(Failure::new("no checkpoint could be taken; the command was not run")
                    .because_of(failure)
                    .hint("fix the problem, or run the command without takeback"))
            }
            None => Ok(()),
        }
    }

    /// Captures the changes, and reports failures.
    fn end(&self, opened: &Opened, context: &Context, status: Option<&ExitStatus>) {
        let outcome = match status {
            Some(status) if status.success() => "ok".to_owned(),
            Some(status) => status.to_string(),
            None => "not run".to_owned(),
        };
        let after = ReportedEvent::AfterTool { call: self.call.clone(), outcome: Some(outcome) };
        let handled = self.report(opened, after);
        let ended = self.report(opened, ReportedEvent::TurnEnd);
        let over = self.report(opened, ReportedEvent::SessionEnd);
        for failure in handled.failures.iter().chain(&ended.failures).chain(&over.failures) {
            output::warn(failure);
        }
        let session = self.report.session_id();
        over.follow_up
            .iter()
            .for_each(|later| background::spawn_follow_up(context, later, &session, None));
    }
}

/// Converts an exit status to an exit code as shells do: a signal becomes 128 plus its number.
pub(super) fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
