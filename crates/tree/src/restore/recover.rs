//! Finishing or reverting a failed or interrupted restore.

use std::io;
use std::os::fd::AsFd;

use super::Recovery;
use super::apply::{Action, Restore, failed_at, order_steps};
use super::draft::is_directory;
use super::journal::{Journal, Phase};
use super::plan::stat_beneath;
use super::{RestoreError, Step};
use crate::beneath;
use crate::compare::Node;
use crate::fault;
use crate::lock::Lock;
use crate::path::RelPath;
use crate::pins::PinName;
use crate::store::StoreError;

impl Lock<'_> {
    /// Finishes or reverts an interrupted restore.
    pub(crate) fn recover(&mut self) {
        let directory = self.directory.clone();
        let (journal, phase) = match Journal::load(self.workspace().root(), &directory) {
            Ok(None) => return,
            Ok(Some(found)) => found,
            Err(error) => {
                let error = StoreError::io("read the journal in", &directory)(error);
                self.recovery = Some(Recovery::Failed(error.into()));
                return;
            }
        };
        let (root, store) = (self.workspace().root(), self.store());
        let restore = Restore { root, store, journal, seen: Vec::new() };
        let safety = restore.journal.safety.clone();
        let safety = safety.map(|pin| {
            let name = PinName { workspace: self.workspace().id().clone(), seq: pin.seq };
            (name, pin)
        });
        self.recovered_pin = safety.as_ref().map(|(name, _)| name.clone());
        let mut settle = |direction: Direction| -> Result<Vec<RelPath>, RestoreError> {
            let left = restore.settle(direction)?;
            if let Some((name, pin)) = &safety {
                let is_done = direction == Direction::Forward;
                let message = if is_done { &pin.done } else { &pin.attempt };
                self.change_message(name, message)?;
            }
            Ok(left)
        };
        let finished = match phase {
            Phase::Staging => None,
            Phase::Moving => settle(Direction::Forward).ok(),
            Phase::Restored => {
                self.recovery = Some(Recovery::Restored);
                return;
            }
        };
        let recovery = match finished {
            Some(left) => Ok(Recovery::Finished(left)),
            None => Journal::start_reverting(&directory)
                .map_err(|error| StoreError::io("write the journal in", &directory)(error).into())
                .and_then(|()| settle(Direction::Back).map(Recovery::Reverted)),
        };
        // If the restore was recorded, the caller may have further work to do. In that case, the
        // caller ends the restore.
        let is_ended = match &recovery {
            Ok(Recovery::Finished(_)) => self.recovered_pin.is_none(),
            Ok(_) => true,
            Err(_) => false,
        };
        if is_ended {
            self.end_restore();
        }
        self.recovery = Some(recovery.unwrap_or_else(Recovery::Failed));
    }
}

/// The way to settle a restore: finish it or revert it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Back,
}

impl Restore<'_> {
    /// Finishes or reverts the restore, however far it got. Compares content, not times. Does not
    /// touch paths that another process changed in the meantime, but returns them.
    pub(super) fn settle(&self, direction: Direction) -> Result<Vec<RelPath>, RestoreError> {
        let steps: Vec<Step> = match direction {
            Direction::Forward => self.journal.steps.clone(),
            Direction::Back => self.journal.steps.iter().map(Step::reversed).collect(),
        };
        // If a directory cannot be made writable, the steps that need it fail, and each error gives
        // the path of its step.
        let _ = self.loosen_directories(&steps);
        let mut left = Vec::new();
        for number in order_steps(&steps) {
            let step = &steps[number];
            fault::point("settle").map_err(failed_at(&step.path))?;
            match self.settle_step(number, step) {
                Err(RestoreError::Changed(path)) => left.push(path),
                result => result?,
            }
        }
        // Cleaning up requires writable directories. If modes cannot be set, the second call of
        // `set_final_modes` fails.
        let _ = self.set_final_modes(&steps, 0o700);
        self.sync_directories(&steps)?;
        for (number, step) in steps.iter().enumerate() {
            self.save_unknown_temporaries(number, step, &mut left)
                .map_err(failed_at(&step.path))?;
            self.discard_temporaries(number, step).map_err(failed_at(&step.path))?;
        }
        self.set_final_modes(&steps, 0)?;
        left.sort();
        left.dedup();
        Ok(left)
    }

    /// Brings one path to the state that its step should produce, unless another process has
    /// changed the path.
    fn settle_step(&self, number: usize, step: &Step) -> Result<(), RestoreError> {
        let present = self.read_node(&step.path).map_err(failed_at(&step.path))?;
        let node = present.map(|(node, _)| node);
        let writes = matches!(step.action(), Action::Put | Action::Replace);
        let is_as_expected = match step.action() {
            _ if node == step.to => return Ok(()),
            // Modes of directories are set at the end.
            _ if is_directory(step.to) && is_directory(node) => return Ok(()),
            // The mode may already have been changed, but the file is still the same.
            Action::ChangeMode => node.zip(step.from).is_some_and(|(node, from)| {
                node.oid == from.oid && node.mode.is_same_kind(from.mode)
            }),
            Action::RemoveDirectory => is_directory(node),
            _ => node == step.from || (writes && node.is_none()),
        };
        let stage = stat_beneath(self.root, &step.stage).map_err(failed_at(&step.stage))?;
        if !is_as_expected || !stage.is_some_and(|stat| stat.is_directory()) {
            return Err(RestoreError::Changed(step.path.clone()));
        }
        if writes {
            self.ensure_staged(number, step)?;
        }
        // If the old file no longer exists, the new one is moved into place without an exchange.
        let from = step.from.filter(|_| node.is_some());
        let step = Step { from, ..step.clone() };
        self.perform_step(number, &step, present.map(|(_, stat)| stat)).map(drop)
    }

    /// Makes sure that the temporary file of a step has the content that the step writes.
    fn ensure_staged(&self, number: usize, step: &Step) -> Result<(), RestoreError> {
        let name = step.stage.join(&self.journal.temporary_name(number));
        let staged = self.read_node(&name).map_err(failed_at(&name))?;
        if staged.map(|(node, _)| node) == step.to {
            return Ok(());
        }
        if let Some((node, _)) = staged {
            // The old file is in the store and can be deleted. Any other content is saved.
            if Some(node) == step.from {
                self.unlink_if_exists(&name).map_err(failed_at(&name))?;
            } else {
                self.save_under_other_name(&name, &step.path).map_err(failed_at(&name))?;
            }
        }
        if let Some(file) = self.stage_file(number, step)? {
            file.sync_data().map_err(failed_at(&step.path))?;
        }
        Ok(())
    }

    /// Saves the temporary files of a step whose content is neither the old nor the new content of
    /// the step's file. Another process wrote to them just before they were moved aside.
    fn save_unknown_temporaries(
        &self,
        number: usize,
        step: &Step,
        left: &mut Vec<RelPath>,
    ) -> io::Result<()> {
        for name in self.temporary_names(number) {
            let path = step.stage.join(&name);
            if let Some((node, _)) = self.read_node(&path)?
                && Some(node) != step.from
                && Some(node) != step.to
                && !self.is_half_staged(&path, step)?
            {
                left.push(self.save_under_other_name(&path, &step.path)?);
            }
        }
        Ok(())
    }

    /// True if a temporary file was only partly staged: it still has the mode that staging begins
    /// with, and its content is a prefix of the old or new content.
    fn is_half_staged(&self, path: &RelPath, step: &Step) -> io::Result<bool> {
        let Some((directory, name)) = self.open_parent(path)? else { return Ok(false) };
        let Ok(file) = beneath::open_file(directory.as_fd(), &name) else { return Ok(false) };
        let stat = beneath::stat_fd(&file)?;
        if !stat.is_file() || stat.mode & 0o7777 != 0o600 {
            return Ok(false);
        }
        let mut content = Vec::new();
        io::Read::read_to_end(&mut &file, &mut content)?;
        let wanted = [step.to, step.from].into_iter().flatten();
        let begins = |node: Node| {
            !node.mode.is_directory()
                && self.store.blob(&node.oid).is_ok_and(|whole| whole.starts_with(&content))
        };
        Ok(wanted.into_iter().any(begins))
    }
}
