//! The size of the store on each day, so that its growth can be shown.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use crate::Opened;
use crate::hook::state;

/// The maximum number of days that are remembered.
const MAX_DAYS: usize = 400;

/// The size of the store at the end of a day on which it changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct DaySize {
    /// The day in UTC: `2026-11-18`.
    pub day: String,
    pub bytes: u64,
}

/// Remembers the size of the store today. A failure only leaves a gap in the chart.
pub(super) fn note_size(opened: &Opened, bytes: u64) {
    let mut sizes: BTreeMap<String, u64> = state::read(&sizes_path(opened)).unwrap_or_default();
    let today = today(opened);
    if sizes.get(&today) == Some(&bytes) {
        return;
    }
    sizes.insert(today, bytes);
    while sizes.len() > MAX_DAYS {
        sizes.pop_first();
    }
    let _ = state::write(&sizes_path(opened), &sizes);
}

/// Returns the sizes of the store on the days that are remembered, oldest first.
pub fn read_growth(opened: &Opened) -> Vec<DaySize> {
    let sizes: BTreeMap<String, u64> = state::read(&sizes_path(opened)).unwrap_or_default();
    sizes.into_iter().map(|(day, bytes)| DaySize { day, bytes }).collect()
}

fn today(opened: &Opened) -> String {
    let mut moment = opened.now().rfc3339();
    moment.truncate("2026-11-18".len());
    moment
}

fn sizes_path(opened: &Opened) -> PathBuf {
    opened.checkpoints_directory().join(".sizes")
}
