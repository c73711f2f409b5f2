//! An agent built on takeback's crates, with a tool of its own.
//!
//! ```text
//! cargo run --example durable_agent -- "what time is it?"
//! ```
//!
//! The environment variables `MODEL` and `MODEL_URL` choose the model and its server. The default
//! is a local server with OpenAI's chat completions API. If you kill the agent in the middle of a
//! turn and start it again, it continues at the step where it was killed.

#![allow(clippy::print_stdout, reason = "an example talks to its user")]

use std::error::Error;
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Value, json};
use takeback_runtime::approval::ApprovalMode;
use takeback_runtime::model::{ApiKind, Client, ClientOptions, Provider, ToolSpec};
use takeback_runtime::tools::{Tool, ToolContext, ToolOutput, ToolSettings, Tools};
use takeback_runtime::{Agent, Answer, FrontEnd, NewSession, Question, Task, TurnEvent};
use takeback_undo::{OpenOptions, Opened, ToolWork};

/// A tool of our own: it tells the time.
struct Clock;

impl Tool for Clock {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "clock".into(),
            description: "Returns the number of seconds since 1970.".into(),
            schema: json!({ "type": "object", "properties": {} }),
        }
    }

    fn work(&self, _: &Value, _: &ToolContext<'_>) -> ToolWork {
        ToolWork::Reads
    }

    fn run(&self, _: &Value, _: &ToolContext<'_>) -> ToolOutput {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        ToolOutput::success(now.as_secs().to_string())
    }
}

/// A front end that prints the answer and allows every call.
struct Printer;

impl FrontEnd for Printer {
    fn show(&self, event: &TurnEvent<'_>) {
        match event {
            TurnEvent::Text(text) => print!("{text}"),
            TurnEvent::CallStarted { call, .. } => println!("[{} {}]", call.name, call.arguments),
            TurnEvent::TurnEnded { outcome, .. } => println!("\n{outcome:?}"),
            _ => {}
        }
    }

    fn approve(&self, _: &Question<'_>) -> Answer {
        Answer::Allow
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::current_dir()?;
    let home = directory.join(".durable-agent");
    let opened = Opened::new(OpenOptions::new(home));
    let settings =
        ToolSettings { environment: std::env::vars_os().collect(), ..ToolSettings::default() };
    let agent = Arc::new(Agent {
        opened: Arc::new(opened),
        client: Client::new(ClientOptions::default()),
        provider: Provider {
            name: "local".into(),
            kind: ApiKind::Openai,
            base_url: std::env::var("MODEL_URL").unwrap_or("http://127.0.0.1:8080/v1".into()),
            key: None,
            model: std::env::var("MODEL").unwrap_or("m".into()),
            context_window: 32_768,
            max_output: 4_096,
            prices: None,
        },
        fallback: None,
        tools: Tools::standard(&settings).with(Box::new(Clock)),
        approval: ApprovalMode::Effects,
        has_checkpoints: true,
        user_home: None,
        on_follow_up: Box::new(|_, _| {}),
        shared: None,
    });
    let is_begun = agent.opened.ledger()?.is_some_and(|ledger| ledger.task("example").is_ok());
    let mut task = match is_begun {
        true => Task::resume_task(agent, "example")?,
        false => Task::begin(agent, &directory, NewSession::default(), "example")?,
    };
    if task.is_interrupted() {
        println!("Continuing the interrupted turn.");
        task.proceed(&Printer)?;
    }
    if let Some(prompt) = std::env::args().nth(1) {
        task.prompt(&prompt, &Printer)?;
    }
    Ok(())
}
