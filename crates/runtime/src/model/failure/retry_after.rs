//! The time that a provider asks the client to wait.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

use super::super::response::Headers;

/// Returns the time that a response asks the client to wait, taken from its headers or from its
/// message.
///
/// A date is compared with the server's own clock, which is also in the response.
pub(crate) fn find_retry_after(headers: &Headers, message: &str) -> Option<Duration> {
    let milliseconds = || parse_number(headers.get("retry-after-ms")?, 1e-3);
    let seconds = || parse_number(headers.get("retry-after")?, 1.0);
    milliseconds().or_else(seconds).or_else(|| until_date(headers)).or_else(|| in_message(message))
}

fn parse_number(text: &str, unit: f64) -> Option<Duration> {
    let number: f64 = text.trim().parse().ok()?;
    Duration::try_from_secs_f64(number * unit).ok()
}

fn until_date(headers: &Headers) -> Option<Duration> {
    let then = parse_date(headers.get("retry-after")?)?;
    let now = parse_date(headers.get("date")?)?;
    Some(Duration::try_from(then.duration_since(now)).unwrap_or_default())
}

fn parse_date(text: &str) -> Option<Timestamp> {
    DateTimeParser::new().parse_timestamp(text.trim()).ok()
}

/// Finds `try again in 1m2.5s` in a message. In a stream, only the message can contain the time.
fn in_message(message: &str) -> Option<Duration> {
    let (_, rest) = message.split_once("try again in ")?;
    let mut rest = rest.trim_start();
    let mut seconds = None;
    while rest.starts_with(|c: char| c.is_ascii_digit()) {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        let after = rest[end..].trim_start();
        let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
        let (unit, factor) = units.into_iter().find(|(unit, _)| after.starts_with(unit))?;
        *seconds.get_or_insert(0.0) += number * factor;
        rest = &after[unit.len()..];
    }
    Duration::try_from_secs_f64(seconds?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(headers: &[(&str, &str)], message: &str) -> Option<Duration> {
        find_retry_after(&Headers::from_pairs(headers.iter().copied()), message)
    }

    #[test]
    fn seconds_and_milliseconds_and_dates_are_understood() {
        let seconds = |number| Some(Duration::from_secs_f64(number));
        assert_eq!(find(&[("retry-after", "7")], ""), seconds(7.0));
        assert_eq!(find(&[("Retry-After", " 1.5 ")], ""), seconds(1.5));
        assert_eq!(find(&[("retry-after", "7"), ("retry-after-ms", "250")], ""), seconds(0.25));
        let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        let then = ("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT");
        assert_eq!(find(&[date, then], ""), seconds(30.0));
        assert_eq!(
            find(&[date, ("retry-after", "Sat, 05 Nov 1994 08:50:07 GMT")], ""),
            seconds(0.0)
        );
    }

    #[test]
    fn a_time_in_the_message_is_understood() {
        let find = |message| find(&[], message);
        assert_eq!(find("Please try again in 1.898s. Visit"), Some(Duration::from_millis(1898)));
        assert_eq!(find("Please try again in 20ms."), Some(Duration::from_millis(20)));
        assert_eq!(find("try again in 6m0s"), Some(Duration::from_secs(360)));
        assert_eq!(find("try again in 1h2m3s"), Some(Duration::from_secs(3723)));
        assert_eq!(find("try again in 5 seconds"), Some(Duration::from_secs(5)));
    }

    #[test]
    fn times_that_make_no_sense_are_ignored() {
        let then = ("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT");
        for headers in
            [vec![], vec![then], vec![("retry-after", "soon")], vec![("retry-after", "-1")]]
        {
            assert_eq!(find(&headers, "try again in a while"), None);
        }
        for number in ["NaN", "inf", "1e300"] {
            assert_eq!(find(&[("retry-after", number)], ""), None);
        }
        assert_eq!(find(&[], "try again in 5 parsecs"), None);
        assert_eq!(find(&[], "try again in 1.2.3s"), None);
    }
}
