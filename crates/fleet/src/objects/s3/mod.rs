//! The S3 protocol: GET, PUT with `If-None-Match: *`, DELETE and ListObjectsV2.

mod sign;

use std::time::SystemTime;

use jiff::Timestamp;
use ureq::http::Method;

use self::sign::{Credentials, Signable, sign};
use super::access::{Provider, S3Access};
use super::bucket::{Content, ListedObject};
use super::error::ObjectsError;
use super::remote::{
    ErrorBody, ErrorMeaning, Operation, Origin, Page, Protocol, Request, encode_key, find_element,
    parse_error, split_elements, to_timestamp,
};

/// A bucket of a server that speaks the S3 protocol.
pub(super) struct S3 {
    credentials: Credentials,
    region: String,
    host: String,
    /// The beginning of all paths: the path in the server's address, followed by the name of the
    /// bucket unless the host name contains it.
    base: String,
}

impl S3 {
    /// Returns the bucket, and the address of its server.
    pub(super) fn open(bucket: &str, access: &S3Access) -> Result<(Origin, S3), ObjectsError> {
        let (Some(access_key), Some(secret_key)) = (&access.access_key, &access.secret_key) else {
            return Err(ObjectsError::NoCredentials { provider: Provider::S3 });
        };
        let credentials = Credentials {
            access_key: access_key.clone(),
            secret_key: secret_key.clone(),
            session_token: access.session_token.clone(),
        };
        let region = access.region.clone().unwrap_or_else(|| "us-east-1".to_owned());
        let (endpoint, in_path) = match &access.endpoint {
            Some(endpoint) => (endpoint.clone(), true),
            // A certificate for `*.s3.region.amazonaws.com` is not valid for a name with a dot.
            None if bucket.contains('.') => (format!("https://s3.{region}.amazonaws.com"), true),
            None => (format!("https://{bucket}.s3.{region}.amazonaws.com"), false),
        };
        let origin = Origin::parse(&endpoint)?;
        let base = match in_path {
            true => format!("{}/{bucket}", origin.path),
            false => origin.path.clone(),
        };
        let host = origin.host.clone();
        Ok((origin, S3 { credentials, region, host, base }))
    }
}

impl Protocol for S3 {
    fn make_request(&self, operation: &Operation<'_>) -> Request {
        let (method, key) = match operation {
            Operation::Download { key } => (Method::GET, *key),
            Operation::Create { key } => (Method::PUT, *key),
            Operation::Remove { key } => (Method::DELETE, *key),
            Operation::List { .. } => (Method::GET, ""),
        };
        let mut request = Request::new(method, format!("{}/{}", self.base, encode_key(key)));
        match operation {
            Operation::Create { .. } => request.headers.push(("if-none-match", "*".to_owned())),
            Operation::List { prefix, page } => {
                let page = page.map(|page| ("continuation-token", page.to_owned()));
                request.query.extend(page);
                request.query.push(("list-type", "2".to_owned()));
                request.query.push(("prefix", (*prefix).to_owned()));
            }
            _ => {}
        }
        request
    }

    fn authorize(
        &self,
        request: &mut Request,
        content: &Content<'_>,
        now: SystemTime,
    ) -> Result<(), ObjectsError> {
        let digest = content.digest();
        let time = format_time(now);
        request.headers.push(("host", self.host.clone()));
        request.headers.push(("x-amz-content-sha256", digest.to_string()));
        request.headers.push(("x-amz-date", time.clone()));
        if let Some(token) = &self.credentials.session_token {
            request.headers.push(("x-amz-security-token", token.clone()));
        }
        let signable = Signable {
            method: request.method.as_str(),
            path: &request.path,
            query: &request.encoded_query(),
            headers: request.headers.clone(),
            digest: &digest,
        };
        let authorization = sign(&signable, &self.credentials, &self.region, &time);
        request.headers.push(("authorization", authorization));
        Ok(())
    }

    fn parse_page(&self, text: &str) -> Option<Page> {
        if !text.contains("<ListBucketResult") {
            return None;
        }
        let mut objects = Vec::new();
        for part in split_elements(text, "Contents")? {
            let created: Timestamp = find_element(part, "LastModified")?.parse().ok()?;
            objects.push(ListedObject {
                key: find_element(part, "Key")?,
                size: find_element(part, "Size")?.parse().ok()?,
                created: created.as_millisecond(),
            });
        }
        let is_truncated = find_element(text, "IsTruncated").as_deref() == Some("true");
        let next = match is_truncated {
            true => Some(find_element(text, "NextContinuationToken")?),
            false => None,
        };
        Some(Page { objects, next })
    }

    fn parse_error(&self, body: &str) -> Option<ErrorBody> {
        parse_error(body)
    }

    /// A creation is refused with 409 while another request for the same key is being carried out.
    fn is_temporary(&self, status: u16) -> bool {
        status == 409
    }

    fn find_meaning(
        &self,
        _operation: &Operation<'_>,
        status: u16,
        error: Option<&ErrorBody>,
    ) -> Option<ErrorMeaning> {
        Some(match error.map_or("", |error| error.code.as_str()) {
            "NoSuchBucket" => ErrorMeaning::NoBucket,
            "NoSuchKey" | "NoSuchVersion" => ErrorMeaning::NoObject,
            "InvalidAccessKeyId"
            | "SignatureDoesNotMatch"
            | "InvalidToken"
            | "ExpiredToken"
            | "InvalidClientTokenId" => ErrorMeaning::BadCredentials,
            "PermanentRedirect"
            | "AuthorizationHeaderMalformed"
            | "IllegalLocationConstraintException" => ErrorMeaning::WrongRegion,
            "RequestTimeTooSkewed" | "RequestExpired" => ErrorMeaning::WrongClock,
            _ if status == 412 => ErrorMeaning::Exists,
            _ => return None,
        })
    }
}

/// Formats a time as signatures need it.
fn format_time(time: SystemTime) -> String {
    to_timestamp(time).strftime("%Y%m%dT%H%M%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn a_listing_is_parsed_and_anything_else_is_refused() {
        let access = S3Access {
            access_key: Some("a".into()),
            secret_key: Some("b".into()),
            ..S3Access::default()
        };
        let s3 = S3::open("bucket", &access).unwrap().1;
        let text = "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"x\"><IsTruncated>true\
            </IsTruncated><Contents><Key>p/a/1</Key><LastModified>2026-11-19T04:23:50.000Z\
            </LastModified><Size>7</Size></Contents><NextContinuationToken>a&amp;b=\
            </NextContinuationToken></ListBucketResult>";
        let page = s3.parse_page(text).unwrap();
        let created = 1_795_062_230_000;
        assert_eq!(page.objects, [ListedObject { key: "p/a/1".into(), size: 7, created }]);
        assert_eq!(page.next.as_deref(), Some("a&b="));
        assert!(s3.parse_page("<html></html>").is_none());
        let broken = text.replace("<Size>7</Size>", "");
        assert!(s3.parse_page(&broken).is_none());
        let cut_off = text.split("</Contents>").next().unwrap();
        assert!(s3.parse_page(cut_off).is_none());
    }

    #[test]
    fn times_are_those_of_signatures() {
        let time = UNIX_EPOCH + Duration::from_secs(1_369_353_600);
        assert_eq!(format_time(time), "20130524T000000Z");
    }
}
