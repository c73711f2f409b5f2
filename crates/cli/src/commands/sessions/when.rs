//! Parses points in time as users type them: a span before now, or a date.

use jiff::{Span, Timestamp, Zoned, civil};
use takeback_ledger::Time;

/// The accepted forms, for error messages.
pub(crate) const FORMS: &str =
    "give a time span like 30m, 12h, 7d, 3w, 6mo or 1y, or a date like 2026-01-31";

/// Parses a point in time from the command line.
pub(crate) fn parse(text: &str) -> Result<Time, String> {
    resolve(text, &Zoned::now()).ok_or_else(|| FORMS.to_owned())
}

/// Resolves a span before `now`, a day in the time zone of `now`, or a time in RFC 3339.
fn resolve(text: &str, now: &Zoned) -> Option<Time> {
    let moment = if let Some(span) = parse_span(text) {
        now.checked_sub(span).ok()?.timestamp()
    } else if let Ok(moment) = text.parse::<Timestamp>() {
        moment
    } else {
        text.parse::<civil::Date>().ok()?.to_zoned(now.time_zone().clone()).ok()?.timestamp()
    };
    Some(Time(moment.as_millisecond()))
}

/// Parses a time span such as `3w`, with or without `ago`. Months and years are calendar units.
fn parse_span(text: &str) -> Option<Span> {
    let text = text.trim();
    let text = text.strip_suffix("ago").unwrap_or(text);
    text.trim_end().parse::<Span>().ok().filter(|span| !span.is_negative())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        let now: Zoned = "2026-03-31T12:00:00+02:00[Europe/Berlin]".parse().unwrap();
        let expected = expected.map(|time| Time::parse(time).unwrap());
        assert_eq!(resolve(text, &now), expected, "{text}");
    }

    #[test]
    fn spans_count_back_from_now() {
        check("30m", Some("2026-03-31T09:30:00Z"));
        check("12h", Some("2026-03-30T22:00:00Z"));
        check("1d", Some("2026-03-30T10:00:00Z"));
        // A span across a daylight saving change leaves the time of day unchanged.
        check("1w", Some("2026-03-24T11:00:00Z"));
        check("1mo", Some("2026-02-28T11:00:00Z"));
        check("1y", Some("2025-03-31T10:00:00Z"));
        check("90d", Some("2025-12-31T11:00:00Z"));
        check("1d12h", Some("2026-03-29T22:00:00Z"));
    }

    #[test]
    fn spans_can_be_written_in_words() {
        check("7 d", Some("2026-03-24T11:00:00Z"));
        check("2 weeks", Some("2026-03-17T11:00:00Z"));
        check("2 weeks ago", Some("2026-03-17T11:00:00Z"));
        check("1 day 12 hours", Some("2026-03-29T22:00:00Z"));
        check("P1W", Some("2026-03-24T11:00:00Z"));
    }

    #[test]
    fn dates_are_local_and_moments_are_exact() {
        check("2026-01-31", Some("2026-01-30T23:00:00Z"));
        check("2026-01-31T10:00:00Z", Some("2026-01-31T10:00:00Z"));
        check("2026-01-31T10:00:00.5-05:00", Some("2026-01-31T15:00:00.5Z"));
    }

    #[test]
    fn other_forms_of_time_are_refused() {
        for text in [
            "",
            "7",
            "d",
            "ago",
            "-7d",
            "-7d ago",
            "7dd",
            "soon",
            "2026-02-30",
            "99999999999999999y",
        ] {
            check(text, None);
        }
        check("30000y", None);
    }
}
