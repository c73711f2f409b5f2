//! A tool call: what it began with and what it led to, kept for each place that it may change.

use std::path::PathBuf;

use takeback_ledger::Time;
use takeback_tree::{Oid, RelPath, Workspace};

use crate::keeper::{Keeper, TakeError, has_pin};
use crate::notes::{self, CallKey, Notes, OpenCall, StepNote, Turn, file_name};
use crate::places::{Place, PlaceKind};
use crate::protect::GoneOn;
use crate::record::{Began, CallOf, Kind, Record};
use crate::report::{Report, ToolCall};
use crate::settings::Granularity;

/// A tool call as it is recorded.
pub(crate) struct Call<'a> {
    pub(crate) report: &'a Report,
    pub(crate) call: &'a ToolCall,
    /// The session that reports.
    pub(crate) reporter: String,
    /// The session and turn that it is part of: its parent's, for a subagent.
    pub(crate) session: String,
    pub(crate) turn: Turn,
    /// What pairs its end with its beginning.
    pub(crate) key: CallKey,
    pub(crate) id: String,
    pub(crate) time: Time,
    pub(crate) gone_on: GoneOn<'a>,
}

impl Keeper {
    /// Where it is noted which places a call was protected in: by its end, the agent may be
    /// somewhere else.
    pub(crate) fn places_path(&self, call: &Call<'_>) -> PathBuf {
        let name = file_name(&[&call.reporter, &call.key.text]);
        self.checkpoints_directory().join("calls").join(name)
    }

    /// Captures a place before a call. Gives the tree, and the checkpoint if one was needed.
    pub(crate) fn protect(
        &self,
        place: &Place,
        call: &Call<'_>,
    ) -> Result<(Oid, Option<Oid>), TakeError> {
        let workspace = self.open(place)?;
        let mut lock = self.lock(&workspace)?;
        let capture = lock.capture(&self.capture_options(&place.rules, &place.named))?;
        let late = call.gone_on.yet();
        let notes = Notes::new(workspace.notes());
        let step = notes.step(&call.session);
        let last = step
            .as_ref()
            .filter(|step| step.turn == call.turn.number && has_pin(&workspace, step.seq));
        let is_row = match last {
            None => true,
            Some(last) => {
                self.settings.granularity == Granularity::Step && last.tree != capture.tree
            }
        };
        let (seq, tree) = (lock.next_seq()?, capture.tree);
        let uncovered = capture.uncovered.iter().map(|uncovered| uncovered.path.clone()).collect();
        // Even without a step of its own, what the call began with has to be kept.
        let is_known = last.is_some_and(|last| last.tree == tree);
        let mut checkpoint = None;
        if is_row || !is_known {
            let kind = if is_row { Kind::Call } else { Kind::State };
            let reason = call.call.reason(&call.tool());
            let record = Record {
                // The same as that of its effects.
                time: call.time.rfc3339(),
                call: Some(call.of(&place.named)),
                first: last.is_none(),
                late,
                ..self.record(&mut lock, kind, &reason)?
            };
            let taken = self.pin(&mut lock, tree, record.of(capture))?;
            checkpoint = is_row.then_some(taken.pin.id);
            if is_row {
                let step = StepNote { turn: call.turn.number, tree, seq };
                self.keep(&workspace, notes.set_step(&call.session, &step));
            }
        }
        let open = OpenCall {
            session: call.reporter.clone(),
            turn: call.turn.id.clone(),
            call: call.id.clone(),
            tool: call.call.tool.clone(),
            named: place.named.clone(),
            tree,
            uncovered,
            seq,
            time: call.time,
            late,
            has_pin: is_row || !is_known,
        };
        self.keep(&workspace, notes.open_call(&call.reporter, &call.key, &open));
        lock.finish(self.system_time())?;
        Ok((tree, checkpoint))
    }

    /// Captures a place after a call. `None` if nothing is known of its beginning.
    pub(crate) fn conclude(
        &self,
        place: &Place,
        call: &Call<'_>,
    ) -> Result<Option<(OpenCall, Oid)>, TakeError> {
        if !place.path().exists() && matches!(place.kind, PlaceKind::Directory(_)) {
            // It is gone altogether: what it was is in the checkpoint before.
            return Ok(None);
        }
        let workspace = self.open(place)?;
        let mut lock = self.lock(&workspace)?;
        let notes = Notes::new(workspace.notes());
        let Some((open, note)) = notes.call(&call.reporter, &call.key) else { return Ok(None) };
        let capture = lock.capture(&self.capture_options(&place.rules, &place.named))?;
        let (tree, late) = (capture.tree, call.gone_on.yet());
        // A call that changed nothing is of interest only if its beginning is a checkpoint: then
        // the next one would be taken for its end.
        if open.has_pin || tree != open.tree {
            let began = Began {
                tree: open.tree,
                seq: open.seq,
                time: open.time.rfc3339(),
                uncovered: open.uncovered.clone(),
                late: open.late || late,
            };
            let of = CallOf {
                turn: open.turn.clone(),
                id: open.call.clone(),
                began: Some(began),
                ..call.of(&open.named)
            };
            let reason = format!("after {}", call.tool());
            let record = Record { call: Some(of), ..self.record(&mut lock, Kind::After, &reason)? };
            self.pin(&mut lock, tree, record.of(capture))?;
        }
        notes::remove(&note);
        lock.finish(self.system_time())?;
        Ok(Some((open, tree)))
    }

    /// A note that cannot be written costs accuracy, not a checkpoint.
    fn keep(&self, workspace: &Workspace<'_>, written: std::io::Result<()>) {
        if let Err(error) = written {
            self.note_failure(workspace.path(), &format!("cannot take a note: {error}"));
        }
    }
}

impl Call<'_> {
    fn tool(&self) -> String {
        match self.call.tool.as_str() {
            "" => "a tool".to_owned(),
            tool => tool.to_owned(),
        }
    }

    fn of(&self, named: &[RelPath]) -> CallOf {
        CallOf {
            agent: self.report.agent.clone(),
            session: self.session.clone(),
            subagent: (self.reporter != self.session).then(|| self.reporter.clone()),
            turn: self.turn.id.clone(),
            id: self.id.clone(),
            tool: self.call.tool.clone(),
            named: named.to_vec(),
            began: None,
        }
    }
}
