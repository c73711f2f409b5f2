//! Times: milliseconds in the ledger, and epoch seconds in JSON.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point in time, as milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub i64);

impl Time {
    /// Converts seconds since 1970 to a time, rounded to the nearest millisecond.
    pub fn from_seconds(seconds: f64) -> Time {
        Time((seconds * 1e3).round() as i64)
    }

    /// Returns the time as seconds since 1970.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// Parses epoch seconds or an RFC 3339 timestamp.
    pub fn parse(text: &str) -> Option<Time> {
        if let Ok(seconds) = text.trim().parse::<f64>() {
            return seconds.is_finite().then(|| Time::from_seconds(seconds));
        }
        let text = text.trim();
        let moment = text.parse::<jiff::Timestamp>().ok().or_else(|| {
            // A time without an offset is read as UTC.
            let civil = text.parse::<jiff::civil::DateTime>().ok()?;
            Some(civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
        })?;
        Some(Time(moment.as_millisecond()))
    }

    /// Formats the time as RFC 3339, in UTC.
    pub fn rfc3339(self) -> String {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(moment) => moment.to_string(),
            Err(_) => format!("{}", self.seconds()),
        }
    }

    /// Subtracts `span` from the time.
    pub fn minus(self, span: Duration) -> Time {
        Time(self.0.saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }
}

impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Time {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 % 1_000 {
            0 => serializer.serialize_i64(self.0 / 1_000),
            _ => serializer.serialize_f64(self.seconds()),
        }
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        deserializer.deserialize_any(TimeVisitor)
    }
}

struct TimeVisitor;

impl Visitor<'_> for TimeVisitor {
    type Value = Time;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time as epoch seconds or RFC 3339")
    }

    fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Time, E> {
        seconds.checked_mul(1_000).map(Time).ok_or_else(|| E::custom("time out of range"))
    }

    fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Time, E> {
        i64::try_from(seconds).map_err(E::custom).and_then(|seconds| self.visit_i64(seconds))
    }

    fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Time, E> {
        if seconds.abs() < 9e15 / 1e3 {
            Ok(Time::from_seconds(seconds))
        } else {
            Err(E::custom("time out of range"))
        }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Time, E> {
        Time::parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_time_is_read_and_one_form_is_written() {
        let read = |json: &str| serde_json::from_str::<Time>(json).unwrap();
        assert_eq!(read("1731715200"), Time(1_731_715_200_000));
        assert_eq!(read("1731715200.1234"), Time(1_731_715_200_123));
        assert_eq!(read("\"2024-11-16T00:00:00Z\""), Time(1_731_715_200_000));
        assert_eq!(read("\"2024-11-16T01:00:00.5+01:00\""), Time(1_731_715_200_500));
        assert_eq!(read("\"2024-11-16T00:00:00\""), Time(1_731_715_200_000));
        assert!(serde_json::from_str::<Time>("\"yesterday\"").is_err());
        assert_eq!(serde_json::to_string(&Time(1_731_715_200_123)).unwrap(), "1731715200.123");
        assert_eq!(serde_json::to_string(&Time(1_731_715_200_000)).unwrap(), "1731715200");
    }

    #[test]
    fn milliseconds_survive_json() {
        for time in (1_731_715_200_000..1_731_715_202_000).chain([-1, -1_001, 0, 1]).map(Time) {
            let json = serde_json::to_string(&time).unwrap();
            assert_eq!(serde_json::from_str::<Time>(&json).unwrap(), time, "{json}");
        }
    }
}
