//! Reading a server's answers.

use std::io::Read;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

use super::protocol::{ErrorBody, ErrorMeaning, Operation, Protocol};
use crate::objects::access::Provider;
use crate::objects::error::ObjectsError;

/// The maximum difference between the clocks of client and server, in milliseconds. If the
/// difference is larger, servers refuse requests.
const MAX_SKEW: i64 = 15 * 60_000;

/// An answer whose body has not been read yet.
pub(super) struct Answer {
    pub(super) status: u16,
    /// The time on the server's clock, in milliseconds since 1970.
    pub(super) date: Option<i64>,
    /// The time on this machine's clock when the request was made.
    pub(super) sent: i64,
    pub(super) body: Box<dyn Read + Send>,
}

/// An answer that is an error.
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) body: String,
    /// The time by which this machine's clock is ahead of the server's, in milliseconds.
    pub(super) ahead: Option<i64>,
}

/// Converts a time to jiff's type.
pub(in crate::objects) fn to_timestamp(time: SystemTime) -> Timestamp {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    Timestamp::from_second(seconds as i64).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Formats a time as HTTP headers need it.
pub(in crate::objects) fn format_http_date(time: SystemTime) -> String {
    to_timestamp(time).strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// Parses the time in an HTTP header. Returns milliseconds since 1970.
pub(in crate::objects) fn parse_http_date(text: &str) -> Option<i64> {
    let zoned = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(zoned.timestamp().as_millisecond())
}

/// Determines what an error means, and the reason that the server gives in words. The meaning is
/// `None` if the answer does not come from this kind of server.
pub(super) fn find_meaning(
    protocol: &dyn Protocol,
    operation: &Operation<'_>,
    refusal: &Refusal,
) -> (Option<ErrorMeaning>, String) {
    let Refusal { status, body, ahead } = refusal;
    let parsed = protocol.parse_error(body);
    let reason = parsed.as_ref().map_or_else(String::new, |ErrorBody { code, message }| {
        // Some servers add lines with the request's id and time.
        let first_line = message.lines().next().unwrap_or_default();
        let parts = [code.as_str(), first_line].into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(": ")
    });
    let reason = if reason.is_empty() { format!("status {status}") } else { reason };
    let is_denied = matches!(status, 401 | 403);
    let meaning = match protocol.find_meaning(operation, *status, parsed.as_ref()) {
        Some(ErrorMeaning::WrongClock) => Some(ErrorMeaning::WrongClock),
        _ if is_denied && ahead.is_some_and(|ahead| ahead.abs() > MAX_SKEW) => {
            Some(ErrorMeaning::WrongClock)
        }
        Some(meaning) => Some(meaning),
        None if is_denied => Some(ErrorMeaning::NoPermission),
        // This answer may come from a proxy in front of an overloaded server.
        None if *status >= 500 || matches!(*status, 408 | 429) => Some(ErrorMeaning::Other),
        None => parsed.map(|_| ErrorMeaning::Other),
    };
    (meaning, reason)
}

/// Returns the error for a refused request.
pub(super) fn explain(
    provider: Provider,
    target: &str,
    meaning: Option<ErrorMeaning>,
    reason: String,
    ahead: Option<i64>,
) -> ObjectsError {
    let target = target.to_owned();
    let Some(meaning) = meaning else { return ObjectsError::NotStorage { target } };
    match meaning {
        ErrorMeaning::NoObject => ObjectsError::Missing { key: "an object".into() },
        ErrorMeaning::NoBucket => ObjectsError::NoBucket { target },
        ErrorMeaning::BadCredentials => ObjectsError::Credentials { provider, target, reason },
        ErrorMeaning::NoPermission => ObjectsError::Permission { target, reason },
        ErrorMeaning::WrongRegion => ObjectsError::Region { target, reason },
        ErrorMeaning::WrongClock => ObjectsError::Clock { difference: describe_skew(ahead) },
        ErrorMeaning::Exists | ErrorMeaning::Other => ObjectsError::Server { target, reason },
    }
}

fn describe_skew(ahead: Option<i64>) -> String {
    let Some(ahead) = ahead else { return "wrong".to_owned() };
    let minutes = ahead.abs() / 60_000;
    let amount = match minutes {
        0..=119 => format!("{minutes} minutes"),
        120..=2879 => format!("{} hours", minutes / 60),
        _ => format!("{} days", minutes / 1440),
    };
    format!("{amount} {}", if ahead > 0 { "ahead" } else { "behind" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_protocol() {
        let time = UNIX_EPOCH + std::time::Duration::from_secs(1_369_353_600);
        assert_eq!(format_http_date(time), "Fri, 24 May 2013 00:00:00 GMT");
        assert_eq!(parse_http_date("Fri, 24 May 2013 00:00:00 GMT"), Some(1_369_353_600_000));
        assert_eq!(parse_http_date("yesterday"), None);
    }
}
