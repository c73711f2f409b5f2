//! The JSON API of Google Cloud Storage: `objects` with get, insert with `ifGenerationMatch=0`, delete
//! and list.

mod token;

use std::time::SystemTime;

use jiff::Timestamp;
use serde::Deserialize;
use ureq::http::Method;

use self::token::ServiceAccount;
use super::access::{GoogleAccess, Provider};
use super::bucket::{Content, ListedObject};
use super::error::ObjectsError;
use super::remote::{ErrorBody, ErrorMeaning, Operation, Origin, Page, Protocol, Request, encode};

/// A bucket of Google Cloud Storage.
pub(super) struct Google {
    credentials: Credentials,
    /// The path of the bucket's objects, without a leading slash.
    base: String,
}

enum Credentials {
    None,
    Token(String),
    Account(ServiceAccount),
}

impl Google {
    /// Returns the bucket, and the address of its server.
    pub(super) fn open(
        bucket: &str,
        access: &GoogleAccess,
    ) -> Result<(Origin, Google), ObjectsError> {
        let credentials = match (&access.token, &access.key_file) {
            (Some(token), _) => Credentials::Token(token.clone()),
            (None, Some(path)) => Credentials::Account(ServiceAccount::read(path)?),
            (None, None) if access.endpoint.is_some() => Credentials::None,
            (None, None) => {
                return Err(ObjectsError::NoCredentials { provider: Provider::Google });
            }
        };
        let endpoint = match &access.endpoint {
            // Other programs also accept the address of an emulator without its scheme.
            Some(endpoint) if !endpoint.contains("://") => format!("http://{endpoint}"),
            Some(endpoint) => endpoint.clone(),
            None => "https://storage.googleapis.com".to_owned(),
        };
        let origin = Origin::parse(&endpoint)?;
        Ok((origin, Google { credentials, base: format!("storage/v1/b/{}/o", encode(bucket)) }))
    }
}

impl Protocol for Google {
    fn make_request(&self, operation: &Operation<'_>) -> Request {
        let base = &self.base;
        let object = |key: &str| format!("/{base}/{}", encode(key));
        match operation {
            Operation::Download { key } => {
                let mut request = Request::new(Method::GET, object(key));
                request.query.push(("alt", "media".to_owned()));
                request
            }
            Operation::Create { key } => {
                let mut request = Request::new(Method::POST, format!("/upload/{base}"));
                request.headers.push(("content-type", "application/octet-stream".to_owned()));
                // Generation 0 means that the object must not exist yet.
                request.query.push(("ifGenerationMatch", "0".to_owned()));
                request.query.push(("name", (*key).to_owned()));
                request.query.push(("uploadType", "media".to_owned()));
                request
            }
            Operation::Remove { key } => Request::new(Method::DELETE, object(key)),
            Operation::List { prefix, page } => {
                let mut request = Request::new(Method::GET, format!("/{base}"));
                let fields = "kind,items(name,size,timeCreated),nextPageToken";
                request.query.push(("fields", fields.to_owned()));
                request.query.extend(page.map(|page| ("pageToken", page.to_owned())));
                request.query.push(("prefix", (*prefix).to_owned()));
                request
            }
        }
    }

    fn authorize(
        &self,
        request: &mut Request,
        _content: &Content<'_>,
        now: SystemTime,
    ) -> Result<(), ObjectsError> {
        let token = match &self.credentials {
            Credentials::None => return Ok(()),
            Credentials::Token(token) => token.clone(),
            Credentials::Account(account) => account.sign_token(now)?,
        };
        request.headers.push(("authorization", format!("Bearer {token}")));
        Ok(())
    }

    fn parse_page(&self, text: &str) -> Option<Page> {
        let listed: ListedPage = serde_json::from_str(text).ok()?;
        if listed.kind != "storage#objects" {
            return None;
        }
        let read = |item: Item| {
            let created: Timestamp = item.time_created.parse().ok()?;
            let size = item.size.parse().ok()?;
            Some(ListedObject { key: item.name, size, created: created.as_millisecond() })
        };
        let objects = listed.items.into_iter().map(read).collect::<Option<_>>()?;
        Some(Page { objects, next: listed.next_page_token })
    }

    fn parse_error(&self, body: &str) -> Option<ErrorBody> {
        // Some servers send only a status, without a body.
        if body.is_empty() {
            return Some(ErrorBody::default());
        }
        let ErrorAnswer { error } = serde_json::from_str(body).ok()?;
        let code = error.errors.into_iter().next().map(|first| first.reason).unwrap_or_default();
        Some(ErrorBody { code, message: error.message })
    }

    fn find_meaning(
        &self,
        operation: &Operation<'_>,
        status: u16,
        error: Option<&ErrorBody>,
    ) -> Option<ErrorMeaning> {
        Some(match (operation, status) {
            (Operation::Download { .. } | Operation::Remove { .. }, 404) => ErrorMeaning::NoObject,
            (_, 404) if error.is_some() => ErrorMeaning::NoBucket,
            (_, 412) => ErrorMeaning::Exists,
            (_, 401) => ErrorMeaning::BadCredentials,
            _ => return None,
        })
    }

    fn confuses_missing(&self) -> bool {
        true
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedPage {
    kind: String,
    #[serde(default)]
    items: Vec<Item>,
    next_page_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    name: String,
    size: String,
    time_created: String,
}

#[derive(Deserialize)]
struct ErrorAnswer {
    error: ErrorObject,
}

#[derive(Deserialize)]
struct ErrorObject {
    #[serde(default)]
    message: String,
    #[serde(default)]
    errors: Vec<ErrorItem>,
}

#[derive(Deserialize)]
struct ErrorItem {
    #[serde(default)]
    reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_parsed_and_anything_else_is_refused() {
        let access = GoogleAccess { endpoint: Some("host:1".into()), ..GoogleAccess::default() };
        let (origin, google) = Google::open("bucket", &access).unwrap();
        assert_eq!(origin.host, "host:1");
        let text = r#"{"kind": "storage#objects", "nextPageToken": "abc", "items":
            [{"name": "p/a/1", "size": "7", "timeCreated": "2026-11-19T04:23:50.123Z"}]}"#;
        let page = google.parse_page(text).unwrap();
        let created = 1_795_062_230_123;
        assert_eq!(page.objects, [ListedObject { key: "p/a/1".into(), size: 7, created }]);
        assert_eq!(page.next.as_deref(), Some("abc"));
        assert!(google.parse_page(r#"{"kind": "storage#objects"}"#).unwrap().objects.is_empty());
        for other in ["<html></html>", "{}", r#"{"kind": "other"}"#, &text.replace("\"7\"", "7")] {
            assert!(google.parse_page(other).is_none(), "{other}");
        }
    }

    #[test]
    fn credentials_are_needed_and_sent() {
        let missing = Google::open("bucket", &GoogleAccess::default());
        assert!(matches!(missing, Err(ObjectsError::NoCredentials { .. })));
        let access = GoogleAccess { token: Some("secret".into()), ..GoogleAccess::default() };
        let (origin, google) = Google::open("bucket", &access).unwrap();
        assert_eq!(origin.host, "storage.googleapis.com");
        let mut request = google.make_request(&Operation::Create { key: "a/b" });
        google.authorize(&mut request, &Content::Bytes(b""), SystemTime::UNIX_EPOCH).unwrap();
        assert!(request.headers.contains(&("authorization", "Bearer secret".into())));
        assert_eq!(request.path, "/upload/storage/v1/b/bucket/o");
        assert_eq!(request.encoded_query(), "ifGenerationMatch=0&name=a%2Fb&uploadType=media");
    }
}
