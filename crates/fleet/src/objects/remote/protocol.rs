//! The differences between the kinds of object storage.

use std::time::SystemTime;

use ureq::http;

use crate::objects::bucket::{Content, ListedObject};
use crate::objects::error::ObjectsError;

/// The protocol of one kind of object storage, for one bucket. All keys are complete: they begin
/// with the prefix of the address.
pub(in crate::objects) trait Protocol: Send + Sync {
    /// Returns the request for an operation, without credentials.
    fn make_request(&self, operation: &Operation<'_>) -> Request;

    /// Adds the credentials to a request. `content` is the body of the request, and `now` is the
    /// time at which the request is made.
    fn authorize(
        &self,
        request: &mut Request,
        content: &Content<'_>,
        now: SystemTime,
    ) -> Result<(), ObjectsError>;

    /// Parses a page of a listing. Returns `None` if the text is not a listing.
    fn parse_page(&self, text: &str) -> Option<Page>;

    /// Parses the body of an error. Returns `None` if the body has a different format.
    fn parse_error(&self, body: &str) -> Option<ErrorBody>;

    /// Returns the meaning of an error, or `None` if the status alone determines it. `error` is the
    /// parsed body of the answer.
    fn find_meaning(
        &self,
        operation: &Operation<'_>,
        status: u16,
        error: Option<&ErrorBody>,
    ) -> Option<ErrorMeaning>;

    /// True if a request that was answered with this status can succeed a moment later. Statuses
    /// that are temporary in every protocol are handled elsewhere.
    fn is_temporary(&self, _status: u16) -> bool {
        false
    }

    /// True if the server answers in the same way when an object is missing and when the bucket is
    /// missing.
    fn confuses_missing(&self) -> bool {
        false
    }
}

/// An operation on a bucket. Each is one request.
pub(in crate::objects) enum Operation<'a> {
    Download {
        key: &'a str,
    },
    /// Creates an object, unless an object with this key exists.
    Create {
        key: &'a str,
    },
    Remove {
        key: &'a str,
    },
    /// Lists objects whose keys begin with the prefix. `page` is the name of the page to list;
    /// `None` for the first page.
    List {
        prefix: &'a str,
        page: Option<&'a str>,
    },
}

/// A request without the address of the server and without its body.
#[derive(Clone)]
pub(in crate::objects) struct Request {
    pub(in crate::objects) method: http::Method,
    /// The path, percent-encoded.
    pub(in crate::objects) path: String,
    /// The parameters, sorted by name, not encoded.
    pub(in crate::objects) query: Vec<(&'static str, String)>,
    /// Additional parameters, which are already encoded.
    pub(in crate::objects) signed_query: Option<String>,
    /// The headers, with names in lower case.
    pub(in crate::objects) headers: Vec<(&'static str, String)>,
}

impl Request {
    pub(in crate::objects) fn new(method: http::Method, path: String) -> Request {
        Request { method, path, query: Vec::new(), signed_query: None, headers: Vec::new() }
    }

    /// Returns the parameters, percent-encoded.
    pub(in crate::objects) fn encoded_query(&self) -> String {
        let pairs = self.query.iter().map(|(name, value)| format!("{name}={}", encode(value)));
        pairs.chain(self.signed_query.clone()).collect::<Vec<_>>().join("&")
    }
}

/// A page of a listing.
#[derive(Debug)]
pub(in crate::objects) struct Page {
    pub(in crate::objects) objects: Vec<ListedObject>,
    /// The name of the next page.
    pub(in crate::objects) next: Option<String>,
}

/// The content of an error. A field that the error lacks is empty.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::objects) struct ErrorBody {
    pub(in crate::objects) code: String,
    pub(in crate::objects) message: String,
}

/// The meaning of an error that a server reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::objects) enum ErrorMeaning {
    NoObject,
    NoBucket,
    Exists,
    BadCredentials,
    NoPermission,
    WrongRegion,
    WrongClock,
    Other,
}

/// Percent-encodes a part of a path or a value in a query. Letters, digits and `-._~` stay as they
/// are.
pub(in crate::objects) fn encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(byte as char);
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Encodes a key as the end of a path.
pub(in crate::objects) fn encode_key(key: &str) -> String {
    key.split('/').map(encode).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_urls_are_encoded() {
        assert_eq!(encode("a/b c$é"), "a%2Fb%20c%24%C3%A9");
        assert_eq!(encode_key("a/b c"), "a/b%20c");
        let mut request = Request::new(http::Method::GET, "/".into());
        assert_eq!(request.encoded_query(), "");
        request.query = vec![("a", "1".into()), ("b", "x&y".into())];
        request.signed_query = Some("sig=%2B".into());
        assert_eq!(request.encoded_query(), "a=1&b=x%26y&sig=%2B");
    }
}
