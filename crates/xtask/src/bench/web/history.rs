//! A workspace with many checkpoints.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use takeback_undo::{
    Deadline, OpenOptions, Opened, Report, ReportedEvent, Settings, ToolCall, ToolWork, hook,
};

use crate::Failure;
use crate::bench::scratch::io_failure;
use crate::run::run_step;

/// Plays turns of two agents, each of which changes one file.
pub(in crate::bench) fn write_history(
    home: &Path,
    project: &Path,
    turns: usize,
) -> Result<(), Failure> {
    fs::create_dir_all(project.join("src")).map_err(io_failure("create", project))?;
    // Otherwise, the project would be part of the repository that contains the scratch files.
    run_step(Command::new("git").args(["init", "--quiet"]).arg(project))?;
    for file in 0..40 {
        write(project, file, 0)?;
    }
    let opened = Opened::new(OpenOptions {
        settings: Settings { auto_prune: false, ..Settings::default() },
        ..OpenOptions::new(home.to_owned())
    });
    for turn in 0..turns {
        play_turn(&opened, project, turn)?;
    }
    let store = opened.store().map_err(|error| error.to_string())?;
    store.merge().map_err(|error| error.to_string())?;
    // Neither the pages nor the server may prune the history.
    fs::write(home.join("config.toml"), "[checkpoints]\nauto_prune = false\n")
        .map_err(io_failure("write", home))
}

fn write(project: &Path, file: usize, turn: usize) -> Result<(), Failure> {
    let path = project.join(format!("src/module_{file}.py"));
    let text = format!("\"\"\"Module {file}.\"\"\"\n\nVERSION = {turn}\n");
    fs::write(&path, text).map_err(io_failure("write", &path))
}

fn play_turn(opened: &Opened, project: &Path, turn: usize) -> Result<(), Failure> {
    let agent = if turn.is_multiple_of(3) { "codex" } else { "claude" };
    let report = |event| {
        let report = Report {
            agent: agent.into(),
            session: format!("s{}", turn / 50),
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
    let prompt = format!("raise the version of module {} and explain why, turn {turn}", turn % 40);
    report(ReportedEvent::TurnStart { prompt: Some(prompt) })?;
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
