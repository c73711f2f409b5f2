//! Slash commands: `/rollback`, `/search`, `/model` and others.
//!
//! This is the only dispatcher. [`answer_line`] answers a line for every front end: for the
//! terminal of `takeback chat`, for editors through `takeback acp`, for the pages of
//! `takeback serve`, and for other programs through the method `slash` of `takeback rpc`. The
//! commands of takeback run in this process, and their output becomes the answer: text for the
//! user, and the document that `--json` prints. A command that concerns a running conversation also
//! has an action, which the front end carries out.

mod line;
mod result;

use serde::Serialize;
use serde_json::{Value, json};
use takeback_ledger::Budget;
use takeback_tree::AnyPath;
use takeback_undo::ForkFiles;

pub(crate) use self::line::SlashLine;
use self::line::{ParsedLine, is_changing, needs_rest};
use self::result::describe_rollback;
use crate::arguments::Arguments;
use crate::commands::{Command, chat, fork, goal};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, CapturedOutput, capture_output};

/// Slash commands, each with its name without the slash and a short description.
pub(crate) type SlashNames = &'static [(&'static str, &'static str)];

/// The names of the commands, each with one line of help.
pub(crate) const COMMANDS: SlashNames = &[
    ("rollback", "list checkpoints, or return to one: /rollback 2"),
    ("undo", "take back the last turn, and keep your own edits"),
    ("redo", "reverse the last `/rollback undo`"),
    ("diff", "show what changed since a checkpoint: /diff 1"),
    ("fork", "continue in a copy of this conversation: /fork [TURN|CHECKPOINT] [--files]"),
    ("resume", "continue another session: /resume SESSION"),
    ("goal", "start, list, show, pause, resume or cancel goals: /goal start WORDS"),
    ("tasks", "list the tasks that are running, waiting or interrupted"),
    ("sessions", "list sessions"),
    ("search", "search what all agents said and did: /search WORDS"),
    ("cost", "show the tokens and the cost of this session"),
    ("model", "show the model, or use another one: /model NAME"),
    ("title", "name this session: /title TEXT"),
    ("compress", "summarize older turns"),
    ("help", "list the commands"),
    ("quit", "leave"),
];

/// The answer to a slash command.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct SlashAnswer {
    /// The text to show. It may have several lines.
    pub(crate) text: String,
    /// The document that the command prints with `--json`.
    pub(crate) data: Option<Value>,
    /// The change to the conversation that the front end has to make.
    pub(crate) action: Option<SlashAction>,
    /// True if the command was refused or failed.
    pub(crate) failed: bool,
}

/// A change to the conversation that a front end makes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum SlashAction {
    /// Continue in another session and, for a fork with files, in another directory.
    Resume { session: Option<String>, directory: Option<AnyPath> },
    /// Use another model from now on.
    Model { name: String },
    /// Summarize older turns.
    Compress,
    /// Begin to work on a goal.
    #[serde(skip)]
    StartGoal { objective: String, budget: Budget },
    /// Continue the work on a goal, with this budget.
    #[serde(skip)]
    ResumeGoal { goal: String, budget: Budget },
    /// End the chat.
    Quit,
}

impl SlashAnswer {
    pub(crate) fn text(text: impl Into<String>) -> SlashAnswer {
        SlashAnswer { text: text.into(), ..SlashAnswer::default() }
    }

    pub(crate) fn failure(failure: &Failure) -> SlashAnswer {
        let (_, captured) = capture_output(|| failure.report(false));
        SlashAnswer { failed: true, ..SlashAnswer::of(&captured) }
    }

    pub(crate) fn data(text: impl Into<String>, data: Value) -> SlashAnswer {
        SlashAnswer { data: Some(data), ..SlashAnswer::text(text) }
    }

    fn action(text: impl Into<String>, action: SlashAction) -> SlashAnswer {
        SlashAnswer { action: Some(action), ..SlashAnswer::text(text) }
    }

    /// Returns the answer for a program, without colors and control characters.
    pub(crate) fn plain(self) -> SlashAnswer {
        let text = anstream::adapter::strip_str(&self.text).to_string();
        SlashAnswer { text: output::disarm_lines(&text), ..self }
    }

    fn of(captured: &CapturedOutput) -> SlashAnswer {
        SlashAnswer { data: captured.data.clone(), ..SlashAnswer::text(captured.text()) }
    }
}

/// Answers a line. Returns `None` if the line is a prompt for the model.
pub(crate) fn answer_line(line: &SlashLine<'_>, context: &Context) -> Option<SlashAnswer> {
    let parsed = line.parse()?;
    let answer = match parsed.check() {
        Err(reason) => Err(Failure::new(reason)),
        Ok(()) if line.is_headless && is_changing(&parsed) => {
            let hint = format!("type /{} in a terminal", parsed.name);
            Err(Failure::new("nothing was changed: no user typed this line").hint(hint))
        }
        Ok(()) if line.is_busy && needs_rest(&parsed) => {
            let because = "a turn is running here; nothing was changed";
            Err(Failure::new(because).hint("wait until it ends, or stop it"))
        }
        Ok(()) => answer_command(&parsed, line, context),
    };
    Some(answer.unwrap_or_else(|failure| SlashAnswer::failure(&failure)))
}

fn answer_command(
    parsed: &ParsedLine<'_>,
    line: &SlashLine<'_>,
    context: &Context,
) -> Result<SlashAnswer, Failure> {
    let words: Vec<&str> = parsed.words.iter().map(String::as_str).collect();
    let run = |words: &[&str]| Ok(run_words(words, context));
    match (parsed.name, words.as_slice()) {
        ("rollback" | "undo" | "redo", _) => {
            let words = [&[parsed.name], words.as_slice()].concat();
            let answer = run_words(&words_in_agent(&words), context);
            Ok(describe_rollback(answer, line.session, context))
        }
        ("diff", words) => run(&[&["diff"], words].concat()),
        ("tasks", []) => run(&["tasks"]),
        ("sessions", words) => run(&[&["sessions", "list"], words].concat()),
        ("search", words) => run(&[&["search"], words].concat()),
        ("goal", words) => answer_goal(words, context),
        ("cost", []) => describe_cost(line.require_session()?, context),
        ("title", [_, ..]) => {
            run(&["sessions", "title", "--", line.require_session()?, parsed.rest])
        }
        ("fork", words) => make_fork(words, line, context),
        ("resume", []) => run(&["sessions", "list", "--source", takeback_runtime::AGENT]),
        ("resume", [typed]) => resume(typed, context),
        ("model", []) => match line.model {
            Some(model) => Ok(SlashAnswer::text(format!("Asking {model}."))),
            None => Ok(SlashAnswer::text(format!("Asking {}.", chat::find_model(None, context)?))),
        },
        ("model", [name]) => {
            let model = match (chat::find_model(Some(name), context), line.model) {
                (Ok(model), _) => model,
                // The front end uses a provider other than the one in the settings.
                (Err(_), Some(_)) => output::disarm(name),
                (Err(failure), None) => return Err(failure),
            };
            let action = SlashAction::Model { name: (*name).to_owned() };
            Ok(SlashAnswer::action(format!("Now asking {model}."), action))
        }
        ("compress", []) => {
            line.require_session()?;
            Ok(SlashAnswer::action(String::new(), SlashAction::Compress))
        }
        ("quit" | "exit", []) => Ok(SlashAnswer::action(String::new(), SlashAction::Quit)),
        ("help", _) => Ok(help()),
        (name, _) => Err(describe_misuse(name)),
    }
}

/// Turns a command that lists the checkpoints into `list --in-agent` with the same options. Returns
/// other commands unchanged.
pub(crate) fn words_in_agent<'w>(words: &[&'w str]) -> Vec<&'w str> {
    match words {
        ["rollback" | "list", rest @ ..]
            if rest.iter().all(|word| ["list", "--steps"].contains(word)) =>
        {
            let options = rest.iter().copied().filter(|word| *word != "list");
            ["list", "--in-agent"].into_iter().chain(options).collect()
        }
        words => words.to_vec(),
    }
}

/// Runs a command of takeback in this process. The caller has already checked the words.
pub(crate) fn run_words(words: &[&str], context: &Context) -> SlashAnswer {
    let context = context.in_directory(&context.directory);
    let all = std::iter::once("takeback").chain(words.iter().copied()).map(Into::into).collect();
    let (code, captured) = capture_output(|| match Arguments::parse_words(all) {
        Err(error) => error.report(),
        Ok(arguments) => match arguments.command.run(&context) {
            Ok(code) => code,
            Err(failure) => failure.report(false),
        },
    });
    let mut answer = SlashAnswer::of(&captured);
    answer.failed = code != std::process::ExitCode::SUCCESS;
    if answer.text.is_empty() {
        answer.text = "Done.".to_owned();
    }
    answer
}

/// Lists, shows, pauses or cancels goals. The front end itself starts and resumes goals.
fn answer_goal(words: &[&str], context: &Context) -> Result<SlashAnswer, Failure> {
    let words = if words.is_empty() { &["list"] } else { words };
    let all = ["takeback", "goal"].iter().chain(words).map(Into::into).collect();
    match Arguments::parse_words(all) {
        Ok(Arguments { command: Command::Goal(arguments), .. }) => {
            match goal::find_work(&arguments, context)? {
                Some(action) => Ok(SlashAnswer::action(String::new(), action)),
                None => Ok(run_words(&[&["goal"], words].concat(), context)),
            }
        }
        // The words are wrong: let the command explain its usage.
        _ => Ok(run_words(&[&["goal"], words].concat(), context)),
    }
}

/// Copies the conversation up to a moment and, if the user asks for them, the files of that moment.
fn make_fork(
    words: &[&str],
    line: &SlashLine<'_>,
    context: &Context,
) -> Result<SlashAnswer, Failure> {
    let wants_files = words.contains(&"--files");
    let mut points = words.iter().filter(|word| **word != "--files");
    let moment = match (points.next(), points.next()) {
        (None, _) => line.require_session()?.to_owned(),
        (Some(moment), None) if moment.contains('@') => (*moment).to_owned(),
        (Some(point), None) => format!("{}@{point}", line.require_session()?),
        (Some(_), Some(_)) => return Err(describe_misuse("fork")),
    };
    let files = match wants_files {
        true => ForkFiles::Beside,
        false => ForkFiles::Stay(context.directory.clone()),
    };
    let context = context.in_directory(&context.directory);
    let (made, captured) = capture_output(|| fork::make_and_print(&moment, files, &context));
    let made = made?;
    let mut answer = SlashAnswer::of(&captured);
    if let Some(session) = &made.session {
        answer.text.push_str(&format!("\nNow in {}.", output::disarm(session)));
    }
    let action = SlashAction::Resume { session: made.session, directory: made.directory };
    Ok(SlashAnswer { action: Some(action), ..answer })
}

fn resume(typed: &str, context: &Context) -> Result<SlashAnswer, Failure> {
    let session = chat::find_own_session(typed, context)?;
    let text = format!("Now in {}.", output::disarm(&session));
    let data = json!({ "session": session });
    let action = SlashAction::Resume { session: Some(session), directory: None };
    Ok(SlashAnswer { action: Some(action), ..SlashAnswer::data(text, data) })
}

/// Describes what a session has cost so far.
fn describe_cost(session: &str, context: &Context) -> Result<SlashAnswer, Failure> {
    let record = context.ledger()?.session(session)?;
    let (tokens, cost) = (record.tokens, record.estimated_cost_usd);
    let requests = usize::try_from(record.api_call_count).unwrap_or(0);
    let shown = match cost {
        Some(cost) => format!("${cost:.4}"),
        None => "the prices of this model are unknown".to_owned(),
    };
    let text = format!(
        "{}, {} tokens in, {} out: {shown}",
        output::count(requests, "request"),
        tokens.input + tokens.cache_read + tokens.cache_write,
        tokens.output + tokens.reasoning,
    );
    let data = json!({
        "session": session, "requests": requests, "tokens": tokens, "cost": cost,
    });
    Ok(SlashAnswer::data(text, data))
}

fn help() -> SlashAnswer {
    let line = |(name, about): &(&str, &str)| format!("/{name:<9} {about}");
    let text = COMMANDS.iter().map(line).collect::<Vec<_>>().join("\n");
    let command = |(name, about): &(&str, &str)| json!({ "name": name, "about": about });
    let commands: Vec<Value> = COMMANDS.iter().map(command).collect();
    SlashAnswer::data(text, json!({ "commands": commands }))
}

/// Explains how to use a command that was typed with the wrong words, or says that there is no
/// such command.
fn describe_misuse(name: &str) -> Failure {
    if let Some((name, about)) = COMMANDS.iter().find(|(known, _)| *known == name) {
        return Failure::new(format!("/{name}: {about}"));
    }
    let names = COMMANDS.iter().map(|(name, _)| *name);
    let failure = Failure::new(format!("there is no /{name}"));
    match takeback_base::text::find_similar(name, names) {
        Some(nearest) => failure.hint(format!("did you mean /{nearest}?")),
        None => failure.hint("/help lists the commands"),
    }
}
