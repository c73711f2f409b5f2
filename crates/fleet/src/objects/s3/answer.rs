//! Reading a server's answers.

use std::io::Read;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

use crate::objects::bucket::ListedObject;
use crate::objects::error::ObjectsError;

/// An answer, with its body still to be read.
pub(super) struct Answer {
    pub(super) status: u16,
    /// The time of the server's clock, in milliseconds since 1970.
    pub(super) date: Option<i64>,
    /// The time of this machine's clock when the request was made.
    pub(super) sent: i64,
    pub(super) body: Box<dyn Read + Send>,
}

/// A page of a listing.
pub(super) struct Page {
    pub(super) objects: Vec<ListedObject>,
    /// The token of the next page.
    pub(super) next: Option<String>,
}

/// Formats a time as signatures need it.
pub(super) fn format_time(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let time = Timestamp::from_second(seconds as i64).unwrap_or(Timestamp::UNIX_EPOCH);
    time.strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// Parses the header `date`. Returns milliseconds since 1970.
pub(super) fn parse_http_date(text: &str) -> Option<i64> {
    let zoned = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(zoned.timestamp().as_millisecond())
}

/// Parses a page of a listing. Returns `None` if it is something else. Keys lose the prefix.
pub(super) fn parse_listing(text: &str, prefix: &str) -> Option<Page> {
    if !text.contains("<ListBucketResult") {
        return None;
    }
    let mut objects = Vec::new();
    for part in text.split("<Contents>").skip(1) {
        let part = part.split("</Contents>").next()?;
        let key = find_element(part, "Key")?;
        let created: Timestamp = find_element(part, "LastModified")?.parse().ok()?;
        let size = find_element(part, "Size")?.parse().ok()?;
        let key = key.strip_prefix(prefix)?.to_owned();
        objects.push(ListedObject { key, size, created: created.as_millisecond() });
    }
    let is_truncated = find_element(text, "IsTruncated").as_deref() == Some("true");
    let next = match is_truncated {
        true => Some(find_element(text, "NextContinuationToken")?),
        false => None,
    };
    Some(Page { objects, next })
}

/// Returns the text of the first element with this name.
fn find_element(text: &str, name: &str) -> Option<String> {
    let start = text.find(&format!("<{name}>"))? + name.len() + 2;
    let length = text[start..].find(&format!("</{name}>"))?;
    let text = &text[start..start + length];
    Some(
        text.replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&quot;", "\"")
            .replace("&#39;", "'")
            .replace("&amp;", "&"),
    )
}

/// Returns the reason for an error. `ahead` is the time by which this machine's clock is ahead of
/// the server's, in milliseconds.
pub(super) fn classify_error(
    target: &str,
    status: u16,
    body: &str,
    ahead: Option<i64>,
) -> ObjectsError {
    let target = target.to_owned();
    let code = find_element(body, "Code").unwrap_or_default();
    let message = find_element(body, "Message").unwrap_or_default();
    let reason = match (code.is_empty(), message.is_empty()) {
        (true, _) => format!("status {status}"),
        (false, true) => code.clone(),
        (false, false) => format!("{code}: {message}"),
    };
    let skew = ahead.filter(|ahead| ahead.abs() > 15 * 60_000);
    match (code.as_str(), skew) {
        ("RequestTimeTooSkewed" | "RequestExpired", _) => {
            ObjectsError::Clock { difference: describe_skew(ahead) }
        }
        (_, Some(ahead)) if status == 403 => {
            ObjectsError::Clock { difference: describe_skew(Some(ahead)) }
        }
        ("NoSuchBucket", _) => ObjectsError::NoBucket { target },
        ("NoSuchKey" | "NoSuchVersion", _) => ObjectsError::Missing { key: "an object".into() },
        (
            "InvalidAccessKeyId"
            | "SignatureDoesNotMatch"
            | "InvalidToken"
            | "ExpiredToken"
            | "InvalidClientTokenId",
            _,
        ) => ObjectsError::Credentials { target, reason },
        (
            "PermanentRedirect"
            | "AuthorizationHeaderMalformed"
            | "IllegalLocationConstraintException",
            _,
        ) => ObjectsError::Region { target, reason },
        ("", _) if status == 403 || status == 401 => ObjectsError::Permission { target, reason },
        ("", _) => ObjectsError::NotS3 { target },
        _ if status == 403 || status == 401 => ObjectsError::Permission { target, reason },
        _ => ObjectsError::Server { target, reason },
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
    fn a_listing_is_parsed_and_anything_else_is_refused() {
        let text = "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"x\"><IsTruncated>true\
            </IsTruncated><Contents><Key>p/a/1</Key><LastModified>2026-11-19T04:23:50.000Z\
            </LastModified><Size>7</Size></Contents><NextContinuationToken>a&amp;b=\
            </NextContinuationToken></ListBucketResult>";
        let page = parse_listing(text, "p/").unwrap();
        let created = 1_795_062_230_000;
        assert_eq!(page.objects, [ListedObject { key: "a/1".into(), size: 7, created }]);
        assert_eq!(page.next.as_deref(), Some("a&b="));
        assert!(parse_listing("<html></html>", "").is_none());
        assert!(parse_listing(text, "other/").is_none());
        let broken = text.replace("<Size>7</Size>", "");
        assert!(parse_listing(&broken, "p/").is_none());
    }

    #[test]
    fn times_are_those_of_the_protocol() {
        let time = UNIX_EPOCH + std::time::Duration::from_secs(1_369_353_600);
        assert_eq!(format_time(time), "20130524T000000Z");
        assert_eq!(parse_http_date("Fri, 24 May 2013 00:00:00 GMT"), Some(1_369_353_600_000));
        assert_eq!(parse_http_date("yesterday"), None);
    }

    #[test]
    fn errors_are_told_apart() {
        let answer =
            |code: &str| format!("<Error><Code>{code}</Code><Message>because</Message></Error>");
        let text = |status, body: &str, ahead| {
            classify_error("the bucket b", status, body, ahead).to_string()
        };
        let day = 86_400_000;
        for (status, code, ahead, expected) in [
            (404, "NoSuchBucket", None, "the bucket b does not exist"),
            (403, "AccessDenied", Some(0), "access to the bucket b is denied"),
            (403, "SignatureDoesNotMatch", Some(0), "refuses the keys"),
            (403, "RequestTimeTooSkewed", Some(3 * day), "clock is 3 days ahead"),
            (403, "SignatureDoesNotMatch", Some(-3 * day), "clock is 3 days behind"),
            (301, "PermanentRedirect", None, "another region"),
            (500, "InternalError", None, "answers with an error"),
        ] {
            let text = text(status, &answer(code), ahead);
            assert!(text.contains(expected), "{code}: {text}");
        }
        assert!(text(404, "<html>", None).contains("does not speak the S3 protocol"));
    }
}
