//! The tool that restores a checkpoint, after the user has approved the plan.

use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};
use takeback_base::paths::canonicalize_or_keep;
use takeback_undo::hook::quote_word;
use takeback_undo::rollback;
use takeback_undo::{Destination, Planned, Request, RollbackView, Scope};

use super::messages::Message;
use super::tools::{Answer, CheckpointName, read_arguments};
use super::{Server, send};
use crate::commands::rollback::render::{Report, print_result};
use crate::context::Context;
use crate::failure::Failure;
use crate::logs;
use crate::output::{capture_output, disarm_lines};

pub(super) const NAME: &str = "restore_checkpoint";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RestoreArguments {
    checkpoint: CheckpointName,
    #[serde(default)]
    paths: Vec<String>,
    #[serde(default)]
    scope: Scope,
    directory: Option<PathBuf>,
}

/// The user's answer to the question of whether to carry out a plan.
enum Approval {
    Given,
    Refused,
    /// The agent cannot ask the user, or its attempt to ask failed.
    Impossible,
    /// The agent no longer wants an answer.
    Cancelled,
}

/// Describes the tool for the model.
pub(super) fn describe(checkpoint: &Value, paths: &Value, directory: &Value) -> Value {
    json!({
        "name": NAME,
        "description":
            "Offer the user a rollback to a checkpoint: the files, and the conversation with them. \
             The user sees the plan and decides; nothing happens without approval. Every rollback \
             can be undone",
        "inputSchema": {
            "type": "object",
            "properties": {
                "checkpoint": checkpoint, "paths": paths, "directory": directory,
                "scope": {
                    "type": "string", "enum": ["both", "files", "chat"], "default": "both",
                    "description": "Restore files, the conversation, or both",
                },
            },
            "required": ["checkpoint"],
            "additionalProperties": false,
        },
        "annotations": { "readOnlyHint": false, "destructiveHint": true, "openWorldHint": false },
    })
}

/// Plans a rollback, asks the user, and carries it out if the user approves. Returns `None` if the
/// agent no longer wants an answer.
pub(super) fn restore(
    server: &mut Server,
    id: &Value,
    arguments: Value,
) -> io::Result<Option<Answer>> {
    let offer = match Offer::make(arguments, &server.context) {
        Ok(offer) => offer,
        Err(failure) => return Ok(Some(Answer::failure(&failure))),
    };
    if offer.planned.is_blocked() || offer.planned.is_empty() {
        return Ok(Some(show(offer.planned.view(), true, &offer.context)));
    }
    // The user may think for a while, and other processes need the ledger.
    offer.context.close_ledger();
    let approval = match server.can_ask {
        true => ask(server, id, &offer.question())?,
        false => Approval::Impossible,
    };
    Ok(match approval {
        Approval::Given => Some(offer.carry_out()),
        Approval::Refused => Some(Answer::text("The user declined. Nothing was changed.")),
        Approval::Impossible => Some(offer.refer_to_user()),
        Approval::Cancelled => None,
    })
}

/// A planned rollback that the user has to approve.
struct Offer {
    planned: Planned,
    /// The command with which the user can carry out the same rollback.
    command: String,
    context: Context,
}

impl Offer {
    fn make(arguments: Value, context: &Context) -> Result<Offer, Failure> {
        let arguments: RestoreArguments = read_arguments(arguments)?;
        let directory = context.directory.join(arguments.directory.unwrap_or_default());
        let directory = canonicalize_or_keep(&directory);
        let context = context.in_directory(&directory);
        let checkpoint = arguments.checkpoint.into_word()?;
        if arguments.scope == Scope::Chat && !arguments.paths.is_empty() {
            return Err(Failure::new("scope \"chat\" takes no paths"));
        }
        let command = command_line(&directory, &checkpoint, arguments.scope, &arguments.paths);
        let mut request = Request::new(&directory, Destination::Checkpoint(checkpoint));
        request.paths = arguments.paths.iter().map(PathBuf::from).collect();
        request.scope = arguments.scope;
        // New entries in the agent's log belong to the conversation that the rollback takes back.
        logs::catch_up_ledger(&context);
        let planned = rollback::plan(context.opened_anyway()?, &request)?;
        Ok(Offer { planned, command, context })
    }

    fn question(&self) -> String {
        let plan = show(self.planned.view(), true, &self.context).text;
        let directory = self.context.directory.display();
        disarm_lines(&format!("The agent proposes a rollback in {directory}.\n\n{plan}"))
    }

    /// Carries out the plan that the user has seen, or does nothing if anything has changed since.
    fn carry_out(self) -> Answer {
        let applied = self
            .context
            .opened_anyway()
            .and_then(|opened| Ok(rollback::apply(opened, self.planned)?));
        match applied {
            Ok(view) => show(&view, false, &self.context),
            Err(failure) => Answer::failure(&failure),
        }
    }

    /// Tells the model to leave the decision to the user.
    fn refer_to_user(&self) -> Answer {
        let plan = show(self.planned.view(), true, &self.context);
        let text = format!(
            "{}\n\nNothing was changed: this agent cannot ask its user on behalf of takeback. Show \
             the user this plan, and the command that carries it out:\n\n  {}\n\nDo not run the \
             command yourself.",
            plan.text, self.command
        );
        Answer { text, ..plan }
    }
}

/// Formats a plan or a result as `takeback rollback` shows it.
fn show(view: &RollbackView, is_plan: bool, context: &Context) -> Answer {
    let report = if is_plan { Report::DryRun } else { Report::Done };
    let (code, captured) = capture_output(|| print_result(view, report, context));
    Answer {
        text: disarm_lines(&captured.text()),
        data: serde_json::to_value(view).ok(),
        failed: code != std::process::ExitCode::SUCCESS,
    }
}

/// Formats the command that the user can type instead.
fn command_line(directory: &Path, checkpoint: &str, scope: Scope, paths: &[String]) -> String {
    let mut words = vec!["takeback".to_owned(), "-C".to_owned()];
    words.push(quote_word(&directory.to_string_lossy()));
    words.extend(["rollback".to_owned(), quote_word(checkpoint)]);
    words.extend(match scope {
        Scope::Both => None,
        Scope::Files => Some("--files-only".to_owned()),
        Scope::Chat => Some("--chat-only".to_owned()),
    });
    if !paths.is_empty() {
        words.push("--".to_owned());
    }
    words.extend(paths.iter().map(|path| quote_word(path)));
    words.join(" ")
}

/// Asks the user through the agent. Other messages that arrive meanwhile are kept for later.
fn ask(server: &mut Server, request: &Value, question: &str) -> io::Result<Approval> {
    server.asked += 1;
    let own = json!(format!("takeback-{}", server.asked));
    let schema = json!({
        "type": "object",
        "properties": {
            "approve": {
                "type": "boolean", "title": "Roll back",
                "description": "`takeback rollback undo` takes it back",
            },
        },
        "required": ["approve"],
    });
    let params = json!({ "message": question, "requestedSchema": schema });
    send(&json!({
        "jsonrpc": "2.0", "id": own, "method": "elicitation/create", "params": params,
    }))?;
    loop {
        match server.receive()? {
            None => return Ok(Approval::Cancelled),
            Some(Message::Response { id, result }) if id == own => {
                return Ok(read_approval(result));
            }
            // Answers to earlier questions are no longer needed.
            Some(Message::Response { .. }) => {}
            Some(Message::Notification { method, params }) => {
                if method == "notifications/cancelled" && params["requestId"] == *request {
                    return Ok(Approval::Cancelled);
                }
            }
            Some(Message::Request { id, method, .. }) if method == "ping" => {
                send(&json!({ "jsonrpc": "2.0", "id": id, "result": {} }))?;
            }
            Some(message) => server.waiting.push_back(message),
        }
    }
}

fn read_approval(result: Option<Value>) -> Approval {
    let Some(result) = result else { return Approval::Impossible };
    let is_accepted = result["action"] == "accept" && result["content"]["approve"] == true;
    if is_accepted { Approval::Given } else { Approval::Refused }
}
