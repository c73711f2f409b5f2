//! The days on which takeback ran. Only these days count toward an age, so nothing ages when a
//! clock jumps ahead.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Serialize;
use takeback_ledger::Time;

use crate::Opened;

const DAY_MS: i64 = 86_400_000;

/// Takeback reports a gap if more than this many days passed without a run.
const LONG_GAP: i64 = 7;

/// After takeback has run on this many days since the clock was set back, it no longer reports that
/// the clock was ahead.
const MAX_REPORTED: usize = 7;

/// The days on which takeback ran.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DaysSeen {
    /// The days in UTC, each as the number of days since 1970-01-01.
    days: BTreeSet<i64>,
    /// The number of days that were added after the day with the latest date. It is 0 unless the
    /// clock was set back.
    since_latest: usize,
}

/// A span of time that does not count toward the age of checkpoints, because takeback was
/// not running or the clock jumped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClockJump {
    /// The last day before the gap, as `YYYY-MM-DD`.
    pub from: String,
    /// The next day on which takeback ran. It is before `from` if the clock was set back.
    pub to: String,
}

impl ClockJump {
    /// Returns true if the clock certainly jumped: takeback has already run on a day that is still
    /// in the future.
    pub fn is_back(&self) -> bool {
        self.to < self.from
    }
}

impl DaysSeen {
    /// Reads the days and adds today.
    pub(crate) fn read(opened: &Opened) -> DaysSeen {
        let mut days = read_days(opened);
        days.push(day_of(opened.now()));
        DaysSeen::new(&days)
    }

    /// Builds the value from days in the order in which they were seen.
    fn new(seen: &[i64]) -> DaysSeen {
        let latest = seen.iter().max();
        let at = seen.iter().rposition(|day| Some(day) == latest).unwrap_or_default();
        let since: BTreeSet<&i64> = seen.iter().skip(at + 1).collect();
        DaysSeen { days: seen.iter().copied().collect(), since_latest: since.len() }
    }

    /// Reads the days, and adds today in memory and on disk.
    pub(crate) fn note_today(opened: &Opened) -> DaysSeen {
        let mut days = read_days(opened);
        let today = day_of(opened.now());
        // If the day cannot be written, checkpoints seem younger than they are, which is safe.
        if !days.contains(&today) && opened.has_store() {
            let _ = append_day(opened, today);
        }
        days.push(today);
        DaysSeen::new(&days)
    }

    /// Returns the time before which everything is older than `days` days, both by the clock and
    /// by the days on which takeback ran.
    pub(crate) fn cutoff(&self, now: Time, days: u64) -> Time {
        let by_clock = now.minus(Duration::from_secs(days.saturating_mul(86_400)));
        let Some(index) = days.checked_sub(1) else { return by_clock };
        let mut seen = self.days.range(..=day_of(now)).rev();
        match seen.nth(usize::try_from(index).unwrap_or(usize::MAX)) {
            Some(day) => by_clock.min(Time(day.saturating_mul(DAY_MS))),
            None => Time(i64::MIN),
        }
    }

    /// Finds the latest jump or long gap that affects an age of this many days.
    pub(crate) fn find_jump(&self, now: Time, days: u64) -> Option<ClockJump> {
        let today = day_of(now);
        let latest = self.days.last().copied().filter(|latest| *latest > today + 1);
        if let Some(latest) = latest.filter(|_| self.since_latest <= MAX_REPORTED) {
            return Some(ClockJump { from: format_day(latest), to: format_day(today) });
        }
        let seen: Vec<i64> = self.days.range(..=today).rev().copied().collect();
        let days = usize::try_from(days).unwrap_or(usize::MAX);
        let gap = seen.windows(2).take(days).find(|pair| pair[0] - pair[1] > LONG_GAP)?;
        Some(ClockJump { from: format_day(gap[1]), to: format_day(gap[0]) })
    }
}

/// Reads the days in the order in which the file lists them. Ignores lines that are not dates.
fn read_days(opened: &Opened) -> Vec<i64> {
    let text = fs::read(days_file(opened)).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().filter_map(parse_day).collect()
}

fn days_file(opened: &Opened) -> PathBuf {
    opened.checkpoints_directory().join("days")
}

/// Appends a day to the file. If two processes append the same day, the second entry has no effect.
fn append_day(opened: &Opened, day: i64) -> io::Result<()> {
    let mut file = fs::File::options().append(true).create(true).open(days_file(opened))?;
    file.write_all(format!("{}\n", format_day(day)).as_bytes())?;
    file.sync_data()
}

fn day_of(time: Time) -> i64 {
    time.0.div_euclid(DAY_MS)
}

fn format_day(day: i64) -> String {
    let start = jiff::Timestamp::from_millisecond(day.saturating_mul(DAY_MS)).unwrap_or_default();
    start.strftime("%Y-%m-%d").to_string()
}

fn parse_day(line: &str) -> Option<i64> {
    let start = line.trim().parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok()?;
    Some(day_of(Time(start.timestamp().as_millisecond())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: i64 = DAY_MS / 2;

    fn at(day: i64) -> Time {
        Time(day * DAY_MS + NOON)
    }

    fn seen(days: impl IntoIterator<Item = i64>) -> DaysSeen {
        DaysSeen::new(&days.into_iter().collect::<Vec<_>>())
    }

    #[test]
    fn only_days_on_which_takeback_ran_count_toward_an_age() {
        let daily = seen(1000..=1040);
        assert!(at(1009) < daily.cutoff(at(1040), 30));
        assert!(at(1011) >= daily.cutoff(at(1040), 30));
        let jumped = seen((1000..=1010).chain([1400]));
        assert!(at(1000) >= jumped.cutoff(at(1400), 30));
        assert!(at(1000) < jumped.cutoff(at(1400), 10));
        assert!(at(1399) < jumped.cutoff(at(1400), 0));
        // Days in the future do not count toward the age.
        assert!(at(1000) >= seen((1000..=1005).chain(1400..1440)).cutoff(at(1006), 6));
    }

    #[test]
    fn jumps_of_the_clock_are_found_in_both_directions() {
        assert_eq!(seen(1000..=1040).find_jump(at(1040), 30), None);
        let ahead = seen((1000..=1010).chain([1400])).find_jump(at(1400), 30);
        let ahead = ahead.expect("the gap is long");
        assert_eq!((ahead.from.as_str(), ahead.to.as_str()), ("1972-10-07", "1973-11-01"));
        assert!(!ahead.is_back());
        let back = seen((1000..=1010).chain([1400])).find_jump(at(1010), 30);
        assert!(back.is_some_and(|jump| jump.is_back()));
        // The clock was ahead, but too long ago to be reported.
        let mended = seen([1000, 5000].into_iter().chain(1001..1010));
        assert_eq!(mended.find_jump(at(1009), 30), None);
        // The gap was too long ago to be reported.
        assert_eq!(seen([1000].into_iter().chain(1400..1440)).find_jump(at(1439), 30), None);
    }

    #[test]
    fn days_are_written_as_dates() {
        for day in [0, 1, 20_000, 25_000] {
            assert_eq!(parse_day(&format_day(day)), Some(day));
        }
        assert_eq!(parse_day("2026-13-45"), None);
        assert_eq!(parse_day(""), None);
    }
}
