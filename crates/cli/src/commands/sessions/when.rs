//! Points in time as people type them: `7d` ago, or a date.

use jiff::{Span, Timestamp, Zoned, civil};
use takeback_ledger::Time;

/// How they may be written, for the help.
pub(crate) const FORMS: &str =
    "give a time span like 30m, 12h, 7d, 3w, 6mo or 1y, or a date like 2026-01-31";

/// For the command line.
pub(crate) fn parse(text: &str) -> Result<Time, String> {
    at(text, &Zoned::now()).ok_or_else(|| FORMS.to_owned())
}

/// A span before `now`, a day (where `now` is), or a moment in RFC 3339.
fn at(text: &str, now: &Zoned) -> Option<Time> {
    let moment = if let Some(span) = span(text) {
        now.checked_sub(span).ok()?.timestamp()
    } else if let Ok(moment) = text.parse::<Timestamp>() {
        moment
    } else {
        text.parse::<civil::Date>().ok()?.to_zoned(now.time_zone().clone()).ok()?.timestamp()
    };
    Some(Time(moment.as_millisecond()))
}

/// Digits and a unit. Months and years are those of the calendar.
fn span(text: &str) -> Option<Span> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let count: i64 = text[..text.len() - unit.len()].parse().ok()?;
    let span = Span::new();
    match unit {
        "m" => span.try_minutes(count),
        "h" => span.try_hours(count),
        "d" => span.try_days(count),
        "w" => span.try_weeks(count),
        "mo" => span.try_months(count),
        "y" => span.try_years(count),
        _ => return None,
    }
    .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        let now: Zoned = "2026-03-31T12:00:00+02:00[Europe/Berlin]".parse().unwrap();
        let expected = expected.map(|time| Time::parse(time).unwrap());
        assert_eq!(at(text, &now), expected, "{text}");
    }

    #[test]
    fn spans_count_back_from_now() {
        check("30m", Some("2026-03-31T09:30:00Z"));
        check("12h", Some("2026-03-30T22:00:00Z"));
        check("1d", Some("2026-03-30T10:00:00Z"));
        // Across the change to summer time the clock shows the same.
        check("1w", Some("2026-03-24T11:00:00Z"));
        check("1mo", Some("2026-02-28T11:00:00Z"));
        check("1y", Some("2025-03-31T10:00:00Z"));
    }

    #[test]
    fn dates_are_local_and_moments_are_exact() {
        check("2026-01-31", Some("2026-01-30T23:00:00Z"));
        check("2026-01-31T10:00:00Z", Some("2026-01-31T10:00:00Z"));
        check("2026-01-31T10:00:00.5-05:00", Some("2026-01-31T15:00:00.5Z"));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "7", "d", "7 d", "-7d", "7dd", "soon", "2026-02-30", "99999999999999999y"]
        {
            check(text, None);
        }
        check("30000y", None);
    }
}
