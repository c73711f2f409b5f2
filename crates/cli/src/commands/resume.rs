//! `takeback resume`: continues a conversation of any agent.

use std::io::{self, BufRead, IsTerminal, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use clap::Args;
use takeback_ledger::{Ledger, ListOptions, SessionSummary};
use takeback_undo::Resume;

use crate::context::Context;
use crate::failure::Failure;
use crate::logs;
use crate::output;

/// Continue a conversation of any agent, in its directory
///
/// Starts the agent at the current end of the conversation. After a rollback, this is the point
/// that the rollback returned to. Without a session, lists the latest sessions to choose from.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback resume                 choose from the latest sessions
  takeback resume 4f2a            continue session 4f2a
  takeback resume 4f2a --at 3     continue from the end of its third turn, in a copy
  takeback resume 4f2a --print    print the command instead of running it")]
pub(crate) struct Arguments {
    /// The session: its id, or a part of its id
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// Continue from the end of this turn
    #[arg(long, value_name = "TURN", requires = "session")]
    at: Option<i64>,
    /// Print the command instead of running it
    #[arg(long)]
    print: bool,
}

/// The maximum number of sessions that the user can choose from.
const SHOWN: usize = 15;

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let session = {
        let ledger = logs::current_ledger(context)?;
        match &arguments.session {
            Some(typed) => ledger.resolve(typed)?,
            None => choose_session(&ledger, context)?,
        }
    };
    let resume = find_way(&session, arguments.at, context)?;
    if context.globals.json {
        output::print_json(&resume);
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.print {
        println!("{}", output::continuation(&resume));
        return Ok(ExitCode::SUCCESS);
    }
    start_agent(&resume)
}

/// Finds the command that continues a session. For a session of takeback's own agent, this is
/// `takeback chat`.
pub(super) fn find_way(
    session: &str,
    at: Option<i64>,
    context: &Context,
) -> Result<Resume, Failure> {
    let record = context.ledger()?.session(session)?;
    if record.source != takeback_runtime::AGENT {
        return takeback_agents::continue_session(context.opened()?, session, at).map_err(
            |error| {
                Failure::new(format!("cannot continue {session}"))
                    .because(&error)
                    .hint("`takeback sessions show` shows the conversation")
            },
        );
    }
    let argv = match at {
        None => vec!["takeback".into(), "chat".into(), "--resume".into(), session.to_owned()],
        Some(turn) => {
            let from = format!("{session}@{turn}");
            vec!["takeback".into(), "chat".into(), "--fork".into(), from]
        }
    };
    Ok(Resume {
        agent: record.source,
        session: Some(session.to_owned()),
        argv,
        cwd: record.workspace,
        typed: None,
        file: None,
        in_place: false,
    })
}

/// Replaces this process with the agent.
pub(crate) fn start_agent(resume: &Resume) -> Result<ExitCode, Failure> {
    let (program, rest) = resume.argv.split_first().expect("a command has a program");
    let mut command = match program.as_str() {
        "takeback" => Command::new(std::env::current_exe().unwrap_or_else(|_| program.into())),
        _ => Command::new(program),
    };
    command.args(rest);
    if let Some(directory) = &resume.cwd {
        command.current_dir(directory);
    }
    output::flush();
    let error = command.exec();
    Err(Failure::new(format!("cannot start {program}"))
        .because_of(&error.to_string())
        .hint(format!("start it yourself: `{}`", output::continuation(resume))))
}

/// Lets the user choose one of the latest sessions, by its number or by words that narrow the list.
fn choose_session(ledger: &Ledger, context: &Context) -> Result<String, Failure> {
    let hint = "`takeback sessions` lists them; `takeback resume SESSION` continues one";
    if context.globals.json || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::new("no session is given").hint(hint));
    }
    let all = ledger.sessions(&ListOptions { limit: Some(1_000), ..ListOptions::default() })?;
    let is_own = |found: &SessionSummary| !found.session.id.contains('/');
    let all: Vec<SessionSummary> = all.into_iter().filter(is_own).collect();
    let mut words = String::new();
    loop {
        let shown: Vec<&SessionSummary> =
            all.iter().filter(|found| matches_words(found, &words)).take(SHOWN).collect();
        if shown.is_empty() && words.is_empty() {
            return Err(Failure::new("there are no sessions yet").hint(hint));
        }
        print_choices(&shown);
        words = ask("Number, or words to search for (empty to quit): ")?;
        if words.is_empty() {
            return Err(Failure::new("nothing was started"));
        }
        let number = words.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        if let Some(chosen) = number.and_then(|number| shown.get(number)) {
            return Ok(chosen.session.id.clone());
        }
    }
}

/// Returns true if each word occurs in the id, the title, the directory or the first prompt of a
/// session.
fn matches_words(found: &SessionSummary, words: &str) -> bool {
    let session = &found.session;
    let texts = [Some(&session.id), session.title.as_ref(), session.workspace.as_ref()];
    let mut text = found.preview.to_lowercase();
    for more in texts.into_iter().flatten() {
        text.push(' ');
        text += &more.to_lowercase();
    }
    words.split_whitespace().all(|word| text.contains(&word.to_lowercase()))
}

fn print_choices(shown: &[&SessionSummary]) {
    for (index, found) in shown.iter().enumerate() {
        let session = &found.session;
        let name = session.title.as_deref().unwrap_or(&found.preview);
        let place = session.workspace.as_deref().unwrap_or_default();
        eprintln!(
            "{:3}  {:8}  {}  {}",
            index + 1,
            session.source,
            output::disarm(&output::shorten(name, 60)),
            output::disarm(place)
        );
    }
    if shown.is_empty() {
        eprintln!("No session has these words.");
    }
}

fn ask(question: &str) -> Result<String, Failure> {
    output::flush();
    let mut stderr = io::stderr().lock();
    let _ = write!(stderr, "{question}").and_then(|()| stderr.flush());
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(|error| Failure::new(error.to_string()))?;
    Ok(answer.trim().to_owned())
}
