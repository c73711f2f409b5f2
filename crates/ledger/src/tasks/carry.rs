//! Carrying a task from one machine's ledger to another's.

use rusqlite::{OptionalExtension, Transaction, params};
use serde_json::Value;

use super::goals::{insert_goal, mask_goal, update_goal};
use super::journal::{insert_entries, mask_value, move_task, update_row};
use super::lease::TaskHead;
use super::{GoalRecord, GoalUpdate, Lease, TaskBase, TaskRecord, TaskStep, check_id, find_task};
use super::{find_key, insert_task};
use crate::event::apply_events;
use crate::{
    Event, ImportError, Ledger, LedgerError, ParentKind, Time, Tokens, Transcript, mask_transcript,
    outbox,
};

impl Ledger {
    /// Describes a whole task for the log that machines share. `state` is the task's state after
    /// its last journal entry. Secrets are masked.
    pub fn describe_task(&self, id: &str, state: &Value) -> Result<TaskBase, LedgerError> {
        let task = self.task(id)?;
        let mut snapshot = state.clone();
        let masked = mask_value(&mut snapshot);
        let mut sessions = Vec::new();
        let mut next = Some(task.session.clone());
        while let Some(session) = next {
            let transcript = match self.transcript(&session) {
                // The user has deleted the parent session, so only its summary is left.
                Err(LedgerError::NoSuchSession(_)) if !sessions.is_empty() => break,
                transcript => transcript?,
            };
            let is_summary = transcript.session.parent_kind == Some(ParentKind::Compaction);
            next = transcript.session.parent_session_id.clone().filter(|_| is_summary);
            sessions.insert(0, without_usage(transcript));
        }
        let mut goals = self.goals(Some(id))?;
        goals.iter_mut().for_each(mask_goal);
        Ok(TaskBase {
            epoch: self.entry_epoch(id, task.last_seq)?.unwrap_or(0),
            kind: task.kind,
            state: task.state,
            workspace: task.workspace,
            seq: task.last_seq,
            time: task.updated_at,
            snapshot,
            masked,
            sessions,
            goals,
        })
    }

    /// Returns the epoch of a journal entry, or `None` if this ledger does not have the entry. Only
    /// one process writes under an epoch, so entries with equal numbers and epochs are equal.
    pub fn entry_epoch(&self, task: &str, seq: i64) -> Result<Option<i64>, LedgerError> {
        let mut statement = self.database.reader()?.prepare_cached(
            "SELECT j.epoch FROM journal j JOIN tasks t ON t.key = j.task
             WHERE t.id = ?1 AND j.seq = ?2
             UNION ALL
             SELECT s.epoch FROM snapshots s JOIN tasks t ON t.key = s.task
             WHERE t.id = ?1 AND s.seq = ?2",
        )?;
        Ok(statement.query_row(params![task, seq], |row| row.get(0)).optional()?)
    }

    /// Raises the epoch of a lease that this process holds.
    pub fn raise_lease(&mut self, lease: &mut Lease, epoch: i64) -> Result<(), LedgerError> {
        if epoch <= lease.epoch() {
            return Ok(());
        }
        self.database.write(|transaction| {
            super::lease::check_lease(transaction, lease)?;
            transaction.execute(
                "UPDATE tasks SET epoch = ?2 WHERE id = ?1",
                params![lease.task(), epoch],
            )?;
            Ok::<_, LedgerError>(())
        })?;
        lease.set_epoch(epoch);
        Ok(())
    }

    /// Takes over a task from another machine, with its sessions and goals, to continue it in
    /// `workspace`. If the ledger already has the task, that copy must be an earlier state of the
    /// same history.
    pub fn adopt_task(
        &mut self,
        id: &str,
        base: &TaskBase,
        workspace: &str,
        now: Time,
    ) -> Result<(), ImportError> {
        check_id(id)?;
        let Some(last) = base.sessions.last() else {
            return Err(ImportError::Malformed("the task has no session".to_owned()));
        };
        for transcript in &base.sessions {
            let mut transcript = transcript.clone();
            transcript.session.workspace = Some(workspace.to_owned());
            self.import(&transcript, now)?;
        }
        let session = last.session.id.clone();
        self.database.write(|transaction| {
            let is_new = find_key(transaction, id).is_err();
            if is_new {
                let task = TaskRecord {
                    id: id.to_owned(),
                    session: session.clone(),
                    kind: base.kind.clone(),
                    state: base.state.clone(),
                    workspace: Some(workspace.to_owned()),
                    ..TaskRecord::default()
                };
                insert_task(transaction, &task, now)?;
            }
            let mut head = read_head(transaction, id)?;
            move_task(transaction, &mut head, &session)?;
            transaction.execute(
                "UPDATE sessions SET workspace = ?2 WHERE key = ?1",
                params![head.session, workspace],
            )?;
            if head.last_seq < base.seq {
                transaction.execute(
                    "UPDATE tasks SET last_seq = ?2, epoch = max(epoch, ?3), state = ?4, workspace = ?5
                     WHERE key = ?1",
                    params![head.key, base.seq, base.epoch, base.state, workspace],
                )?;
                transaction.execute(
                    "INSERT OR REPLACE INTO snapshots (task, seq, epoch, time, masked, state)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                    params![
                        head.key,
                        base.seq,
                        base.epoch,
                        base.time,
                        base.masked,
                        base.snapshot.to_string()
                    ],
                )?;
            }
            base.goals.iter().try_for_each(|goal| carry_goal(transaction, goal, now))
        })?;
        Ok(())
    }

    /// Repeats an append that another machine has made. Returns false if this ledger already has
    /// it.
    pub fn replay_step(&mut self, id: &str, step: &TaskStep) -> Result<bool, LedgerError> {
        self.database.write(|transaction| {
            let mut head = read_head(transaction, id)?;
            let Some(first) = step.entries.first() else { return Ok(false) };
            let last = step.entries.last().map_or(first, |last| last);
            if last.seq <= head.last_seq {
                return Ok(false);
            }
            if first.seq != head.last_seq + 1 {
                let task = id.to_owned();
                return Err(LedgerError::NoSuchEntry { task, seq: head.last_seq + 1 });
            }
            let events: Vec<Event> =
                step.events.iter().filter(|event| is_carried(event)).cloned().collect();
            let messages = apply_events(transaction, &events, step.time)?;
            if messages != step.messages {
                let task = id.to_owned();
                return Err(LedgerError::Diverged { task, seq: first.seq });
            }
            if let Some(session) = &step.session {
                move_task(transaction, &mut head, session)?;
            }
            step.goal.iter().try_for_each(|goal| carry_goal(transaction, goal, step.time))?;
            insert_entries(transaction, &head, &step.entries)?;
            update_row(transaction, &head, step.entries.len(), step.state.as_deref(), step.time)?;
            transaction.execute(
                "UPDATE tasks SET epoch = max(epoch, ?2) WHERE key = ?1",
                params![head.key, last.epoch],
            )?;
            Ok(true)
        })
    }

    /// Gives a task and its session new ids, so that another history of the task can use the old
    /// ids. Returns the new id of the session.
    pub fn set_task_aside(
        &mut self,
        lease: &mut Lease,
        new_id: &str,
    ) -> Result<String, LedgerError> {
        check_id(new_id)?;
        let id = lease.task().to_owned();
        let id = id.as_str();
        let session = self.database.write(|transaction| {
            let task = find_task(transaction, id)?;
            if find_key(transaction, new_id).is_ok() {
                return Err(LedgerError::TaskExists(new_id.to_owned()));
            }
            let key = read_head(transaction, id)?.session;
            let agent = task.session.split_once(':').map_or("", |(agent, _)| agent);
            let session = format!("{agent}:{new_id}");
            transaction.execute("UPDATE tasks SET id = ?2 WHERE id = ?1", [id, new_id])?;
            transaction.execute("UPDATE tasks SET parent = ?2 WHERE parent = ?1", [id, new_id])?;
            transaction.execute(
                "UPDATE sessions SET id = ?2, parent_session_id = ?3, parent_kind = ?4 WHERE key = ?1",
                params![key, session, task.session, ParentKind::Fork.as_str()],
            )?;
            outbox::mark_renamed(transaction, key, &task.session)?;
            Ok::<_, LedgerError>(session)
        })?;
        lease.rename(new_id);
        Ok(session)
    }
}

/// True if an event of another machine also belongs in this ledger. Usage and notices belong only
/// to the machine where they arose.
fn is_carried(event: &Event) -> bool {
    !matches!(event, Event::Usage { .. } | Event::Notice { .. } | Event::NoticesDelivered { .. })
}

fn without_usage(mut transcript: Transcript) -> Transcript {
    mask_transcript(&mut transcript);
    transcript.usage.clear();
    let session = &mut transcript.session;
    session.tokens = Tokens::default();
    session.api_call_count = 0;
    (session.estimated_cost_usd, session.actual_cost_usd) = (None, None);
    transcript
}

fn read_head(transaction: &Transaction<'_>, id: &str) -> Result<TaskHead, LedgerError> {
    let sql = "SELECT key, session, last_seq, state FROM tasks WHERE id = ?1";
    let head = transaction
        .query_row(sql, [id], |row| {
            Ok(TaskHead {
                key: row.get(0)?,
                session: row.get(1)?,
                last_seq: row.get(2)?,
                state: row.get(3)?,
            })
        })
        .optional()?;
    head.ok_or_else(|| LedgerError::NoSuchTask(id.to_owned()))
}

/// Creates a goal, or brings it up to date.
fn carry_goal(
    transaction: &Transaction<'_>,
    goal: &GoalRecord,
    now: Time,
) -> Result<(), LedgerError> {
    match insert_goal(transaction, goal, now) {
        Ok(()) | Err(LedgerError::GoalExists(_)) => {}
        Err(error) => return Err(error),
    }
    let sql = "UPDATE goals SET tokens = 0, usd = 0, ms = 0, turns = 0 WHERE id = ?1";
    transaction.execute(sql, [&goal.id])?;
    let update = GoalUpdate {
        goal: goal.id.clone(),
        state: Some((goal.state, goal.reason.clone())),
        budget: Some(goal.budget),
        only_if_active: false,
        begins_run: true,
        spent: goal.spent,
    };
    update_goal(transaction, &update, now).map(drop)
}
