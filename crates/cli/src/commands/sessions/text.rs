//! Pieces of text that several of the `sessions` commands print.

use takeback_ledger::{Ledger, SessionRecord, Time};

use crate::failure::Failure;
use crate::output::{self, Cell};

/// Formats a time as a local date and time.
pub(crate) fn local_time(time: Time) -> String {
    jiff::Timestamp::from_millisecond(time.0).map_or_else(|_| time.rfc3339(), output::local)
}

/// Returns the title of a session or, if it has none, the beginning of its first prompt.
pub(super) fn session_name(title: Option<&str>, preview: &str) -> Cell {
    match title {
        Some(title) => Cell::new(title),
        None if preview.is_empty() => Cell::new("(no messages)"),
        None => Cell::new(preview).between("“", "”"),
    }
}

/// Formats a number with separators: `1,234,567`.
pub(crate) fn group_digits(number: i64) -> String {
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

/// Formats the cost of a session: the billed cost or, if that is unknown, the estimated cost.
pub(super) fn session_cost(session: &SessionRecord) -> Option<String> {
    match (session.actual_cost_usd, session.estimated_cost_usd) {
        (Some(actual), _) => Some(format_dollars(actual)),
        (None, Some(estimated)) => Some(format!("about {}", format_dollars(estimated))),
        (None, None) => None,
    }
}

/// Formats an amount with cents or, if it is below one dollar, with more digits.
pub(crate) fn format_dollars(amount: f64) -> String {
    if amount != 0.0 && amount.abs() < 1.0 {
        format!("${amount:.4}")
    } else {
        format!("${amount:.2}")
    }
}

/// The ids of all sessions, used to find the shortest unambiguous beginning of each.
pub(super) struct ShortIds {
    /// Every id, and every id without its agent's name, sorted.
    known: Vec<String>,
}

impl ShortIds {
    /// The minimum length. Shorter beginnings would soon become ambiguous.
    const SHORTEST: usize = 8;

    pub(super) fn new(ledger: &Ledger) -> Result<ShortIds, Failure> {
        let mut known = ledger.session_ids(&[])?;
        let bare: Vec<String> = known
            .iter()
            .filter(|id| id.contains(':'))
            .map(|id| without_agent(id).to_owned())
            .collect();
        known.extend(bare);
        known.sort();
        Ok(ShortIds { known })
    }

    /// Creates a value that knows no ids, so that every id is shown in full.
    pub(super) fn none() -> ShortIds {
        ShortIds { known: Vec::new() }
    }

    /// Returns the shortest beginning of an id that names only this session, with control
    /// characters escaped.
    pub(super) fn short_id(&self, id: &str) -> String {
        let bare = without_agent(id);
        let ends = bare.char_indices().map(|(at, _)| at).skip(Self::SHORTEST).chain([bare.len()]);
        let short = ends.map(|end| &bare[..end]).find(|short| self.is_unique(short));
        output::disarm(short.unwrap_or(id))
    }

    fn is_unique(&self, short: &str) -> bool {
        let first = self.known.partition_point(|id| id.as_str() < short);
        let fits = |at: usize| self.known.get(at).is_some_and(|id: &String| id.starts_with(short));
        fits(first) && !fits(first + 1)
    }
}

/// Removes the agent's name from the beginning of an id.
fn without_agent(id: &str) -> &str {
    id.split_once(':').map_or(id, |(_, bare)| bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_id_names_one_session() {
        let ids = ["a:12345678x", "a:12345678y", "b:abc", "c:abc", "20260101_aa", "d:"];
        let known = ids.iter().flat_map(|id| [*id, without_agent(id)]).map(str::to_owned);
        let mut known: Vec<String> = known.collect();
        known.sort();
        known.dedup_by(|a, b| a == b && !a.contains("abc"));
        let ids = ShortIds { known };
        assert_eq!(ids.short_id("a:12345678x"), "12345678x");
        assert_eq!(ids.short_id("20260101_aa"), "20260101");
        // Two agents chose the same id.
        assert_eq!(ids.short_id("b:abc"), "b:abc");
        assert_eq!(ids.short_id("d:"), "d:");
    }

    #[test]
    fn numbers_and_amounts_are_formatted() {
        let numbers = [0, 999, 1_000, -1_234_567].map(group_digits);
        assert_eq!(numbers, ["0", "999", "1,000", "-1,234,567"]);
        assert_eq!([0.0, 0.0123, 12.3].map(format_dollars), ["$0.00", "$0.0123", "$12.30"]);
    }
}
