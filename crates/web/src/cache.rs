//! Timelines that were read recently. Reading one of ten thousand checkpoints takes a while, and
//! most requests come in groups.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use takeback_ledger::Time;
use takeback_tree::WorkspaceId;
use takeback_undo::Opened;
use takeback_undo::history::{WorkspaceRef, history_changed_at};

use crate::events::ledger_stamp;
use crate::problem::WorkError;
use crate::view::timeline::{Timeline, read_timeline};

/// The maximum number of timelines that are kept.
const MAX_KEPT: usize = 64;

/// The age that a change must have before its effects are kept. A file system may give the same
/// time to two changes in quick succession.
const SETTLED: Duration = Duration::from_secs(2);

/// The times of everything that a timeline is made from.
#[derive(Clone, PartialEq)]
struct Stamp {
    pins: Option<SystemTime>,
    ledger: [Option<(u64, SystemTime)>; 2],
}

/// The timelines that were read recently.
#[derive(Default)]
pub(crate) struct TimelineCache(Mutex<HashMap<WorkspaceId, (Stamp, Arc<Timeline>)>>);

impl TimelineCache {
    /// Returns the timeline of a workspace, and reads it only if something has changed.
    pub(crate) fn read(
        &self,
        opened: &Opened,
        workspace: &WorkspaceRef<'_>,
    ) -> Result<Arc<Timeline>, WorkError> {
        let stamp = Stamp {
            pins: history_changed_at(workspace.store(), workspace.id()),
            ledger: ledger_stamp(&opened.ledger_path()),
        };
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, timeline)) = lock().get(workspace.id())
            && *known == stamp
        {
            return Ok(timeline.clone());
        }
        // The stamp is from before the timeline: a change in between is noticed the next time.
        let timeline = Arc::new(read_timeline(opened, workspace)?);
        let mut kept = lock();
        kept.remove(workspace.id());
        if stamp.is_settled(system_time(opened.now())) {
            if kept.len() >= MAX_KEPT {
                kept.clear();
            }
            kept.insert(workspace.id().clone(), (stamp, timeline.clone()));
        }
        Ok(timeline)
    }
}

fn system_time(time: Time) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(time.0).unwrap_or(0))
}

impl Stamp {
    fn is_settled(&self, now: SystemTime) -> bool {
        let times = self.ledger.iter().flatten().map(|(_, time)| *time).chain(self.pins);
        times.max().is_some_and(|latest| now.duration_since(latest).is_ok_and(|age| age > SETTLED))
    }
}
