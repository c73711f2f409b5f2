//! Timelines that were read recently. Reading a timeline of ten thousand checkpoints takes a while,
//! and most requests come in bursts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use axum::body::Bytes;
use takeback_ledger::Time;
use takeback_tree::WorkspaceId;
use takeback_undo::Opened;
use takeback_undo::history::{WorkspaceRef, history_changed_at};

use crate::events::{Seen, ledger_stamp, look_at};
use crate::problem::WorkError;
use crate::view::timeline::{Timeline, read_timeline};

/// The maximum number of timelines that are kept.
const MAX_KEPT: usize = 64;

/// A timeline or an answer is kept only if the latest change was at least this old when the data
/// was read. A file system may give the same time to two changes in quick succession, so the second
/// could go unnoticed.
const SETTLED: Duration = Duration::from_millis(100);

/// The minimum age on a file system whose timestamps are accurate only to a hundredth of a second
/// or worse.
const COARSELY_SETTLED: Duration = Duration::from_secs(2);

/// Values that change whenever the data of a timeline changes. The data comes from the pins and the
/// ledger.
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
        // The stamp and the time are taken before the timeline is read, so a change in the meantime
        // is noticed the next time.
        let now = system_time(opened.now());
        let timeline = Arc::new(read_timeline(opened, workspace)?);
        let mut kept = lock();
        kept.remove(workspace.id());
        if stamp.latest().is_some_and(|latest| is_settled(latest, now)) {
            if kept.len() >= MAX_KEPT {
                kept.clear();
            }
            kept.insert(workspace.id().clone(), (stamp, timeline.clone()));
        }
        Ok(timeline)
    }
}

/// The maximum number of answers that are kept.
const MAX_ANSWERS: usize = 64;

/// The largest answer that is kept, in bytes.
const MAX_ANSWER: usize = 1 << 20;

/// Answers that the API gave recently, by the parameters of their requests. Front ends ask for the
/// same list again and again.
#[derive(Default)]
pub(crate) struct AnswerCache(Mutex<HashMap<String, (Seen, Bytes)>>);

impl AnswerCache {
    /// Returns the answer for a key, if nothing has changed since the answer was given.
    pub(crate) fn find(&self, key: &str, opened: &Opened) -> Option<Bytes> {
        let (seen, answer) = {
            let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.get(key)?.clone()
        };
        (look_at(opened) == seen).then_some(answer)
    }

    /// Keeps an answer. `seen` and `now` were determined before the answer, so a change in the
    /// meantime is noticed the next time.
    pub(crate) fn keep(&self, key: String, seen: Seen, now: Time, answer: Bytes) {
        let is_settled = seen.latest().is_some_and(|latest| is_settled(latest, system_time(now)));
        if !is_settled || answer.len() > MAX_ANSWER {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_ANSWERS {
            kept.clear();
        }
        kept.insert(key, (seen, answer));
    }
}

fn system_time(time: Time) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(time.0).unwrap_or(0))
}

/// Returns true if a change after `now` would get a later time than `latest`.
fn is_settled(latest: SystemTime, now: SystemTime) -> bool {
    let since_epoch = latest.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // On a coarse file system, times are accurate to hundredths of a second at best. By chance, a
    // time on a more accurate file system may look coarse, too.
    let is_coarse = since_epoch.subsec_nanos().is_multiple_of(10_000_000);
    let needed = if is_coarse { COARSELY_SETTLED } else { SETTLED };
    now.duration_since(latest).is_ok_and(|age| age > needed)
}

impl Stamp {
    fn latest(&self) -> Option<SystemTime> {
        self.ledger.iter().flatten().map(|(_, time)| *time).chain(self.pins).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_settles_later_on_a_coarse_file_system() {
        let time = |millis| SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
        assert!(!is_settled(time(5_003), time(5_053)));
        assert!(is_settled(time(5_003), time(5_153)));
        assert!(!is_settled(time(5_000), time(5_153)));
        assert!(is_settled(time(5_000), time(7_001)));
        // The clock of a file server may be ahead.
        assert!(!is_settled(time(9_003), time(5_000)));
    }
}
