//! A workspace with many checkpoints.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use takeback_undo::{
    Deadline, OpenOptions, Opened, Report, ReportedEvent, Settings, ToolCall, ToolWork, hook,
};

use crate::Failure;
use crate::bench::scratch::io_failure;

/// A workspace in which two agents work. Each turn changes one file.
pub(crate) struct LongHistory {
    opened: Opened,
    project: PathBuf,
    turns: usize,
}

/// Writes the history of a workspace, and turns off its pruning.
pub(in crate::bench) fn write_history(
    home: &Path,
    project: &Path,
    turns: usize,
) -> Result<(), Failure> {
    let mut history = LongHistory::begin(home, project)?;
    history.play(turns)?;
    history.tend()?;
    // Neither the pages nor the server may prune the history.
    fs::write(home.join("config.toml"), "[checkpoints]\nauto_prune = false\n")
        .map_err(io_failure("write", home))
}

impl LongHistory {
    pub(crate) fn begin(home: &Path, project: &Path) -> Result<LongHistory, Failure> {
        // Without a repository of its own, the directory would belong to the repository around it.
        for directory in ["src", ".git/objects", ".git/refs/heads"] {
            fs::create_dir_all(project.join(directory)).map_err(io_failure("create", project))?;
        }
        fs::write(project.join(".git/HEAD"), "ref: refs/heads/main\n")
            .map_err(io_failure("write", project))?;
        for file in 0..40 {
            write(project, file, 0)?;
        }
        let opened = Opened::new(OpenOptions {
            settings: Settings { auto_prune: false, ..Settings::default() },
            ..OpenOptions::new(home.to_owned())
        });
        Ok(LongHistory { opened, project: project.to_owned(), turns: 0 })
    }

    /// Plays more turns.
    pub(crate) fn play(&mut self, turns: usize) -> Result<(), Failure> {
        let store = self.opened.store().map_err(|error| error.to_string())?;
        for _ in 0..turns {
            play_turn(&self.opened, &self.project, self.turns)?;
            self.turns += 1;
            // takeback itself merges packs in the background after a hook.
            if store.needs_merge() {
                store.merge().map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// Does what takeback does at the end of a turn, such as counting the changes of all turns.
    pub(crate) fn tend(&self) -> Result<(), Failure> {
        let (opened, session) = (&self.opened, session_of(self.turns.saturating_sub(1)));
        let session = format!("{}:{}", session.0, session.1);
        hook::tend_workspace(opened, &self.project, &session, opened.now())
            .map_err(|error| error.to_string())
    }
}

/// Returns the agent of a turn, and the agent's session.
fn session_of(turn: usize) -> (&'static str, String) {
    let agent = if turn.is_multiple_of(3) { "codex" } else { "claude" };
    (agent, format!("s{}", turn / 50))
}

fn write(project: &Path, file: usize, turn: usize) -> Result<(), Failure> {
    let path = project.join(format!("src/module_{file}.py"));
    let text = format!("\"\"\"Module {file}.\"\"\"\n\nVERSION = {turn}\n");
    fs::write(&path, text).map_err(io_failure("write", &path))
}

/// Returns the prompt of a turn.
pub(in crate::bench) fn prompt(turn: usize) -> String {
    format!("raise the version of module {} and explain why, turn {turn}", turn % 40)
}

fn play_turn(opened: &Opened, project: &Path, turn: usize) -> Result<(), Failure> {
    let (agent, session) = session_of(turn);
    let report = |event| {
        let report = Report {
            agent: agent.into(),
            session: session.clone(),
            parent: None,
            turn: None,
            directory: project.to_owned(),
            model: None,
            event,
        };
        let handled = hook::handle(opened, &report, &Deadline::open());
        match handled.failures.is_empty() {
            true => Ok(()),
            false => Err(handled.failures.join("; ")),
        }
    };
    report(ReportedEvent::TurnStart { prompt: Some(prompt(turn)) })?;
    let command = "make version";
    let call = ToolCall {
        id: Some(format!("call-{turn}")),
        tool: "Bash".into(),
        input: json!({ "command": command }),
        work: ToolWork::run_script(command),
    };
    report(ReportedEvent::BeforeTool(call.clone()))?;
    write(project, turn % 40, turn + 1)?;
    report(ReportedEvent::AfterTool { call, outcome: None })?;
    report(ReportedEvent::TurnEnd)
}
