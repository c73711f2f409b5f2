//! What the renderings of sessions have in common.

use takeback_ledger::{Ledger, SessionRecord, Time};

use crate::failure::Failure;
use crate::output;

/// A moment as people here read it.
pub(super) fn local(time: Time) -> String {
    jiff::Timestamp::from_millisecond(time.0).map_or_else(|_| time.rfc3339(), output::local)
}

/// What to call a session: its title, or else the beginning of what the user said.
pub(super) fn name(title: Option<&str>, preview: &str) -> String {
    match title {
        Some(title) => output::disarm(title),
        None if preview.is_empty() => "(nothing said)".to_owned(),
        None => format!("“{}”", output::disarm(preview)),
    }
}

/// `1234567` → `1,234,567`.
pub(super) fn number(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut out = String::from(if number < 0 { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// What a session cost: what was billed, or else what was estimated.
pub(super) fn cost(session: &SessionRecord) -> Option<String> {
    match (session.actual_cost_usd, session.estimated_cost_usd) {
        (Some(actual), _) => Some(dollars(actual)),
        (None, Some(estimated)) => Some(format!("about {}", dollars(estimated))),
        (None, None) => None,
    }
}

/// Cents, and for small amounts more.
pub(super) fn dollars(amount: f64) -> String {
    if amount != 0.0 && amount.abs() < 1.0 {
        format!("${amount:.4}")
    } else {
        format!("${amount:.2}")
    }
}

/// Lines of cells, each column as wide as its widest cell and aligned to the left (`<`) or to the
/// right (`>`).
pub(super) fn columns(alignment: &[char], rows: &[Vec<String>]) -> Vec<String> {
    let width = |column: usize| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..alignment.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells =
            row.iter().zip(&widths).zip(alignment).map(|((cell, width), side)| match side {
                '>' => format!("{cell:>width$}"),
                _ => format!("{cell:<width$}"),
            });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// Finds for each session the shortest beginning of its id that means no other.
pub(super) struct ShortIds {
    /// All that somebody could type in full, sorted.
    typed: Vec<String>,
}

impl ShortIds {
    /// Shorter ones would soon mean several.
    const SHORTEST: usize = 8;

    pub(super) fn new(ledger: &Ledger) -> Result<ShortIds, Failure> {
        let mut typed = ledger.session_ids(&[])?;
        let tails: Vec<String> =
            typed.iter().filter(|id| id.contains(':')).map(|id| tail(id).to_owned()).collect();
        typed.extend(tails);
        typed.sort();
        Ok(ShortIds { typed })
    }

    pub(super) fn of(&self, id: &str) -> String {
        let tail = tail(id);
        let ends = tail.char_indices().map(|(at, _)| at).skip(Self::SHORTEST).chain([tail.len()]);
        let short = ends.map(|end| &tail[..end]).find(|short| self.means_one(short));
        output::disarm(short.unwrap_or(id))
    }

    fn means_one(&self, short: &str) -> bool {
        let first = self.typed.partition_point(|typed| typed.as_str() < short);
        let fits =
            |at: usize| self.typed.get(at).is_some_and(|typed: &String| typed.starts_with(short));
        fits(first) && !fits(first + 1)
    }
}

/// An id without the agent's name before it.
fn tail(id: &str) -> &str {
    id.split_once(':').map_or(id, |(_, tail)| tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_ids_mean_one_session() {
        let ids = ["a:12345678x", "a:12345678y", "b:abc", "c:abc", "20260101_aa", "d:"];
        let typed = ids.iter().flat_map(|id| [*id, tail(id)]).map(str::to_owned);
        let mut typed: Vec<String> = typed.collect();
        typed.sort();
        typed.dedup_by(|a, b| a == b && !a.contains("abc"));
        let short = ShortIds { typed };
        assert_eq!(short.of("a:12345678x"), "12345678x");
        assert_eq!(short.of("20260101_aa"), "20260101");
        // Two agents gave the same id.
        assert_eq!(short.of("b:abc"), "b:abc");
        assert_eq!(short.of("d:"), "d:");
    }

    #[test]
    fn numbers_and_amounts() {
        assert_eq!([0, 999, 1_000, -1_234_567].map(number), ["0", "999", "1,000", "-1,234,567"]);
        assert_eq!([0.0, 0.0123, 12.3].map(dollars), ["$0.00", "$0.0123", "$12.30"]);
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [["a", "1", "x"], ["bcd", "22", ""]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(columns(&['<', '>', '<'], &rows), ["a     1  x", "bcd  22"]);
    }
}
