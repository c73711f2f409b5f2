//! A small agent with takeback built in: checkpoints, a ledger, a rollback, and a notice.
//!
//! ```text
//! cargo run -p takeback-undo --example agent_loop
//! ```
//!
//! The model is a script, and the project and takeback's home are in a scratch directory, so the
//! example runs anywhere. In your own agent, only `ScriptedModel` and `main` differ.
//! `crates/cli/examples/durable_agent.rs` is an agent that also continues after it has been killed.

#![allow(clippy::print_stdout, reason = "an example talks to its user")]

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::SystemTime;

use serde_json::json;
use takeback_ledger::MessageRecord;
use takeback_undo::hook::{find_tampering, handle};
use takeback_undo::rollback::{self, notice_text, take_notices};
use takeback_undo::{
    Deadline, Destination, OpenOptions, Opened, Report, ReportedEvent, Request, ToolCall, ToolWork,
};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The prompts, and the model's answers.
const SCRIPT: &[(&str, &str)] =
    &[("tidy up", "rm cart.rs"), ("clear the history", "takeback checkpoints clear --yes")];

/// A model that answers each prompt with one shell command.
struct ScriptedModel(&'static [(&'static str, &'static str)]);

impl ScriptedModel {
    fn answer(&self, prompt: &str) -> &'static str {
        self.0.iter().find(|(asked, _)| prompt.ends_with(asked)).map_or("true", |(_, run)| *run)
    }
}

/// A loop that asks the model, runs the tool that the model calls, and records the model's answer.
struct Agent {
    model: ScriptedModel,
    opened: Opened,
    directory: PathBuf,
}

impl Agent {
    fn report(&self, event: ReportedEvent) -> Report {
        Report {
            agent: "example".into(),
            session: "1".into(),
            parent: None,
            turn: None,
            directory: self.directory.clone(),
            model: None,
            event,
        }
    }

    /// Works on a prompt, and returns everything that the model was told.
    fn prompt(&self, text: &str) -> Outcome<String> {
        let start = self.report(ReportedEvent::TurnStart { prompt: Some(text.into()) });
        let session = start.session_id();
        handle(&self.opened, &start, &Deadline::open());
        // After a rollback, the model must know that its picture of the files is out of date.
        let notice = notice_text(&take_notices(&self.opened, &session)?).unwrap_or_default();
        let mut told = format!("{notice}\n{text}");
        let output = self.run_tool(self.model.answer(&told))?;
        told += &format!("\n{output}");
        let done = MessageRecord {
            role: "assistant".into(),
            content: Some("Done.".into()),
            ..MessageRecord::default()
        };
        self.opened.ledger_or_new()?.append(&session, &[done], SystemTime::now().into())?;
        handle(&self.opened, &self.report(ReportedEvent::TurnEnd), &Deadline::open());
        Ok(told)
    }

    /// Runs a shell command after takeback has taken a checkpoint.
    fn run_tool(&self, script: &str) -> Outcome<String> {
        let call = ToolCall {
            tool: "bash".into(),
            input: json!({ "command": script }),
            work: ToolWork::Shell { script: script.into(), paths: Vec::new() },
            ..ToolCall::default()
        };
        let before = self.report(ReportedEvent::BeforeTool(call.clone()));
        if let Some(clause) = find_tampering(&self.opened, &before).first() {
            return Ok(format!("takeback refuses this call: it would {clause}"));
        }
        let handled = handle(&self.opened, &before, &Deadline::open());
        for path in &handled.unprotected {
            println!("  not protected: {}: {}", path.path.display(), path.reason);
        }
        println!("  $ {script}");
        let done = Command::new("sh").args(["-c", script]).current_dir(&self.directory).output()?;
        let outcome = Some(if done.status.success() { "ok" } else { "error" }.to_owned());
        let after = self.report(ReportedEvent::AfterTool { call, outcome });
        handle(&self.opened, &after, &Deadline::open());
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }
}

fn open(home: PathBuf) -> Opened {
    Opened::new(OpenOptions::new(home))
}

fn main() -> Outcome<()> {
    let scratch = std::env::temp_dir().join(format!("agent-loop-{}", std::process::id()));
    let directory = scratch.join("shop");
    fs::create_dir_all(&directory)?;
    let directory = directory.canonicalize()?;
    fs::write(directory.join("cart.rs"), "let total = 0;\n")?;
    let agent =
        Agent { model: ScriptedModel(SCRIPT), opened: open(scratch.join("home")), directory };
    let worked = work(&agent);
    fs::remove_dir_all(&scratch)?;
    worked
}

fn work(agent: &Agent) -> Outcome<()> {
    println!("> tidy up");
    agent.prompt("tidy up")?;
    assert!(!agent.directory.join("cart.rs").exists(), "the agent deleted the file");

    let request = Request::new(&agent.directory, Destination::Checkpoint("1".into()));
    let planned = rollback::plan(&agent.opened, &request)?;
    println!("A rollback would restore {:?}", planned.view().restored);
    let done = rollback::apply(&agent.opened, planned)?;
    assert_eq!(fs::read_to_string(agent.directory.join("cart.rs"))?, "let total = 0;\n");
    println!("{} messages were taken back", done.undone_messages);

    println!("> clear the history");
    let told = agent.prompt("clear the history")?;
    assert!(told.contains("cart.rs") && told.contains("takeback refuses this call"), "{told}");
    println!("{told}");
    Ok(())
}
