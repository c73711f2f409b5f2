//! An agent with a scripted model, and a few commands, for conversations.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use takeback_runtime::approval::ApprovalMode;
use takeback_runtime::model::{ApiKind, Client, ClientOptions, Prices, Provider};
use takeback_runtime::tools::{ToolSettings, Tools};
use takeback_runtime::{Agent, NewSession};
use takeback_undo::Opened;
use takeback_web::{BuiltAgent, ChatHost, Problem, SlashAction, SlashAnswer, SlashLine};

pub(crate) struct TestChat {
    pub(crate) opened: Arc<Opened>,
    pub(crate) url: String,
    pub(crate) directory: PathBuf,
}

/// The next id of a task. Ids must be unique even across restarts of the server.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl ChatHost for TestChat {
    fn directory(&self) -> PathBuf {
        self.directory.clone()
    }

    fn build_agent(&self, _: &Path, model: Option<&str>) -> Result<BuiltAgent, Problem> {
        let path = ("PATH".into(), std::env::var_os("PATH").unwrap_or_default());
        let settings = ToolSettings { environment: vec![path], ..ToolSettings::default() };
        let agent = Agent {
            opened: self.opened.clone(),
            client: Client::new(ClientOptions::default()),
            provider: Provider {
                name: "scripted".into(),
                kind: ApiKind::Openai,
                base_url: format!("{}/v1", self.url),
                key: None,
                model: model.unwrap_or("m").to_owned(),
                context_window: 100_000,
                max_output: 1_000,
                prices: Some(Prices { input: 1.0, output: 10.0, ..Prices::default() }),
            },
            fallback: None,
            tools: Tools::standard(&settings),
            approval: ApprovalMode::Effects,
            has_checkpoints: true,
            user_home: None,
            on_follow_up: Box::new(|_, _| {}),
            shared: None,
        };
        Ok(BuiltAgent { agent: Arc::new(agent), new_session: NewSession::default() })
    }

    fn answer_slash(&self, line: &SlashLine<'_>) -> Option<SlashAnswer> {
        let answer = |text: &str| SlashAnswer { text: text.into(), ..SlashAnswer::default() };
        Some(match line.text {
            "/where" => SlashAnswer {
                data: Some(json!({ "session": line.session, "directory": line.directory })),
                ..answer("here")
            },
            "/busy" => answer(if line.is_busy { "busy" } else { "at rest" }),
            "/model other" => SlashAnswer {
                action: Some(SlashAction::Model { name: "other".into() }),
                ..answer("Now asking other.")
            },
            "/fail" => SlashAnswer { failed: true, ..answer("error: no") },
            _ => return None,
        })
    }

    fn commands(&self) -> &'static [(&'static str, &'static str)] {
        &[("where", "says where we are"), ("model", "asks another model")]
    }

    fn new_id(&self) -> String {
        format!("t{}", NEXT_ID.fetch_add(1, Ordering::SeqCst))
    }
}
