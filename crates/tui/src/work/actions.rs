//! Makes and applies plans, and changes checkpoints.

use takeback_runtime::find_working_sessions;
use takeback_tree::Oid;
use takeback_undo::history::label_checkpoint;
use takeback_undo::rollback::{apply, literal_path, plan};
use takeback_undo::{Destination, LabelChange, Opened, Request, RollbackError, TurnUndo};

use super::{Job, Work};
use crate::host::{Error, Problem};
use crate::message::Message;
use crate::model::plan::{Plan, Wanted};

impl Work {
    /// Carries out a job.
    pub(crate) fn act(&self, job: Job) -> Message {
        match job {
            Job::MakePlan(number, wanted) => {
                Message::Plan(number, self.make_plan(&wanted).map(Box::new))
            }
            Job::Apply(plan) => {
                let applied = self.explain(|opened| Ok(apply(opened, plan.planned)?));
                Message::Applied(applied.map(Box::new))
            }
            Job::Label(id, change) => {
                Message::Done(self.explain(|opened| self.label(opened, &id, &change)))
            }
            Job::TakeCheckpoint(reason) => {
                let reason = Some(reason.as_str()).filter(|reason| !reason.is_empty());
                Message::Done(self.host.take_checkpoint(reason))
            }
            Job::FindResume(session) => Message::Resume(self.host.find_resume_command(&session)),
        }
    }

    fn make_plan(&self, wanted: &Wanted) -> Result<Plan, Problem> {
        // The latest messages may still be only in the agent's own log.
        self.host.catch_up();
        let opened = self.host.open()?;
        let request = self.request_of(&opened, wanted)?;
        let planned = plan(&opened, &request).map_err(|error| self.host.explain(error.into()))?;
        // Rows are numbered from the newest, so a checkpoint that was taken in the meantime changes
        // their numbers.
        if let Wanted::Undo { turn, .. } = wanted
            && planned.view().checkpoint != *turn
        {
            return Err(Problem::new("a new turn began meanwhile").hint("try again"));
        }
        let working = self.explain(|opened| {
            let (workspace, history) = self.history(opened)?;
            Ok(find_working_sessions(opened, &workspace.path, history.working_sessions())?)
        })?;
        Ok(Plan { planned, working })
    }

    fn request_of(&self, opened: &Opened, wanted: &Wanted) -> Result<Request, Problem> {
        let request = |to| Request::new(&self.directory, to);
        let to = |id: &Oid| Destination::Checkpoint(id.to_string());
        Ok(match wanted {
            Wanted::Rollback(id) => request(to(id)),
            Wanted::Files(id, paths) => {
                let root = opened.find_root(&self.directory);
                let root = root.unwrap_or_else(|_| self.directory.clone());
                let paths =
                    paths.iter().map(|path| literal_path(&root.join(path.as_path()))).collect();
                Request { paths, ..request(to(id)) }
            }
            Wanted::Undo { turn, files, taken } => {
                let row = self.row_of(opened, turn).map_err(|error| self.host.explain(error))?;
                let (files, taken) = (files.clone(), taken.clone());
                let options = TurnUndo { row: Some(row), files, taken, ..TurnUndo::default() };
                request(Destination::WithoutTurn(options))
            }
            Wanted::TakeBack => request(Destination::BeforeLastRollback),
            Wanted::Repeat => request(Destination::BeforeLastUndo),
        })
    }

    /// Finds the number of the row whose first checkpoint has this id.
    fn row_of(&self, opened: &Opened, id: &Oid) -> Result<usize, Error> {
        let (_, history) = self.history(opened)?;
        let row = history.rows().find(|row| row.first().pin.id == *id).map(|row| row.number);
        Ok(row.ok_or(RollbackError::NoTurn)?)
    }

    fn label(&self, opened: &Opened, id: &Oid, change: &LabelChange) -> Result<String, Error> {
        let (workspace, _) = self.history(opened)?;
        let changed = label_checkpoint(&workspace, &id.to_string(), change)?.record;
        Ok(match (&change.name, changed.pinned) {
            (Some(Some(name)), _) => format!("Named the checkpoint {name}."),
            (Some(None), _) => "Removed the name of the checkpoint.".to_owned(),
            (None, true) => "Pinned: it is never pruned.".to_owned(),
            (None, false) => "The checkpoint is no longer pinned.".to_owned(),
        })
    }
}
