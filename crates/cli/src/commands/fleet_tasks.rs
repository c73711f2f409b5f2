//! The tasks that all machines of a fleet share.

use std::process::ExitCode;

use serde_json::json;
use takeback_ledger::{LedgerError, LoggedTask};
use takeback_runtime::{AdoptOptions, AdoptedTask, TaskError};

use super::chat::Conversation;
use super::fleet::open_journal;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Cell, Column, Style, Table};

/// Lists the tasks of all machines.
pub(super) fn list(all: bool, context: &Context) -> Result<ExitCode, Failure> {
    let mut tasks = open_journal(context)?.list().map_err(TaskError::Log)?;
    tasks.retain(|task| all || task.state != "idle");
    if output::answers_json(&json!({ "tasks": tasks }), context) {
        return Ok(ExitCode::SUCCESS);
    }
    if tasks.is_empty() {
        println!("No tasks of the fleet are running or interrupted.");
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new([
        Column::left(),
        Column::left(),
        Column::left().shrinks(1, 8),
        Column::left().shrinks(2, 12),
        Column::free().keeps_end(),
    ]);
    for task in &tasks {
        let machine = match task.is_this {
            true => format!("{} (this machine)", task.machine),
            false => task.machine.clone(),
        };
        table.add([
            Cell::styled(Style::Id, &task.id),
            Cell::new(&task.state),
            Cell::new(machine),
            Cell::new(&task.session),
            Cell::new(task.workspace.as_deref().unwrap_or_default()),
        ]);
    }
    table.print();
    Ok(ExitCode::SUCCESS)
}

/// If the machines of the fleet share their tasks, makes a task of any machine ready to continue
/// here. Returns the id of the task.
pub(super) fn adopt(
    typed: &str,
    options: AdoptOptions<'_>,
    conversation: &mut Conversation,
) -> Result<String, Failure> {
    let Some(tasks) = conversation.list_shared_tasks()? else {
        let ledger = conversation.context().ledger()?;
        return Ok(ledger.resolve_task(typed)?);
    };
    let Some(id) = resolve(typed, &tasks)? else {
        // The fleet does not know the task, for example because it began before tasks were shared.
        let ledger = conversation.context().ledger()?;
        return Ok(ledger.resolve_task(typed)?);
    };
    let AdoptedTask { from, kept } = conversation.adopt(&id, options)?;
    if let (Some(from), false) = (from, conversation.context().globals.json) {
        eprintln!("Continuing the task of machine {}.", output::disarm(&from));
    }
    if let Some(kept) = kept {
        eprintln!("The steps that only this machine had made are kept as session {kept}.");
    }
    Ok(id)
}

/// Finds the task that the user means by its id, or by an unambiguous beginning of the id.
fn resolve(typed: &str, tasks: &[LoggedTask]) -> Result<Option<String>, Failure> {
    let mut found: Vec<String> = tasks
        .iter()
        .filter(|task| task.id.starts_with(typed))
        .map(|task| task.id.clone())
        .collect();
    match found.iter().position(|id| id == typed) {
        Some(exact) => Ok(Some(found.swap_remove(exact))),
        None if found.len() > 1 => {
            Err(LedgerError::Ambiguous { typed: typed.to_owned(), candidates: found }.into())
        }
        None => Ok(found.pop()),
    }
}
