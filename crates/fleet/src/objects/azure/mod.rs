//! The protocol of Azure Blob Storage: Get Blob, Put Blob with `If-None-Match: *`, Delete Blob and
//! List Blobs.

mod sign;

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ureq::http::Method;

use self::sign::sign;
use super::access::{AzureAccess, Provider};
use super::bucket::{Content, ListedObject};
use super::error::ObjectsError;
use super::remote::{
    ErrorBody, ErrorMeaning, Operation, Origin, Page, Protocol, Request, encode_key, find_element,
    format_http_date, parse_error, parse_http_date, split_elements,
};

/// The version of the protocol.
const VERSION: &str = "2021-12-02";

/// A container of a storage account.
pub(super) struct Azure {
    credentials: Credentials,
    /// The beginning of all paths: the path in the server's address, followed by the name of the
    /// container.
    base: String,
}

enum Credentials {
    Key {
        account: String,
        key: Vec<u8>,
    },
    /// A shared access signature: encoded parameters.
    Sas(String),
}

impl Azure {
    /// Returns the container, and the address of its server.
    pub(super) fn open(
        container: &str,
        access: &AzureAccess,
    ) -> Result<(Origin, Azure), ObjectsError> {
        let missing = || ObjectsError::NoCredentials { provider: Provider::Azure };
        let account = access.account.clone().ok_or_else(missing);
        let endpoint = match &access.endpoint {
            Some(endpoint) => endpoint.clone(),
            None => {
                format!("https://{}.blob.core.windows.net", account.as_ref().or(Err(missing()))?)
            }
        };
        let credentials = match (&access.key, &access.sas_token) {
            (Some(key), _) => {
                let key = STANDARD.decode(key.trim()).map_err(|_| ObjectsError::BadKey {
                    provider: Provider::Azure,
                    reason: "it is not in base64".to_owned(),
                })?;
                Credentials::Key { account: account?, key }
            }
            (None, Some(token)) => Credentials::Sas(token.trim_start_matches('?').to_owned()),
            (None, None) => return Err(missing()),
        };
        let origin = Origin::parse(&endpoint)?;
        let base = format!("{}/{container}", origin.path);
        Ok((origin, Azure { credentials, base }))
    }
}

impl Protocol for Azure {
    fn make_request(&self, operation: &Operation<'_>) -> Request {
        let (method, path) = match operation {
            Operation::Download { key } => (Method::GET, self.path_of(key)),
            Operation::Create { key } => (Method::PUT, self.path_of(key)),
            Operation::Remove { key } => (Method::DELETE, self.path_of(key)),
            Operation::List { .. } => (Method::GET, self.base.clone()),
        };
        let mut request = Request::new(method, path);
        request.headers.push(("x-ms-version", VERSION.to_owned()));
        match operation {
            Operation::Create { .. } => {
                request.headers.push(("if-none-match", "*".to_owned()));
                request.headers.push(("x-ms-blob-type", "BlockBlob".to_owned()));
            }
            Operation::List { prefix, page } => {
                request.query.push(("comp", "list".to_owned()));
                request.query.extend(page.map(|page| ("marker", page.to_owned())));
                request.query.push(("prefix", (*prefix).to_owned()));
                request.query.push(("restype", "container".to_owned()));
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
        match &self.credentials {
            Credentials::Key { account, key } => {
                request.headers.push(("x-ms-date", format_http_date(now)));
                let authorization = sign(request, content.length(), account, key);
                request.headers.push(("authorization", authorization));
            }
            Credentials::Sas(token) => request.signed_query = Some(token.clone()),
        }
        Ok(())
    }

    fn parse_page(&self, text: &str) -> Option<Page> {
        if !text.contains("<EnumerationResults") {
            return None;
        }
        let mut objects = Vec::new();
        for part in split_elements(text, "Blob")? {
            // Accounts with a hierarchical namespace also list directories.
            if find_element(part, "ResourceType").as_deref() == Some("directory") {
                continue;
            }
            objects.push(ListedObject {
                key: find_element(part, "Name")?,
                size: find_element(part, "Content-Length")?.parse().ok()?,
                created: parse_http_date(&find_element(part, "Creation-Time")?)?,
            });
        }
        let next = find_element(text, "NextMarker").filter(|marker| !marker.is_empty());
        text.contains("</EnumerationResults>").then_some(Page { objects, next })
    }

    fn parse_error(&self, body: &str) -> Option<ErrorBody> {
        parse_error(body)
    }

    fn find_meaning(
        &self,
        _operation: &Operation<'_>,
        status: u16,
        error: Option<&ErrorBody>,
    ) -> Option<ErrorMeaning> {
        Some(match error.map_or("", |error| error.code.as_str()) {
            "ContainerNotFound" | "ContainerBeingDeleted" => ErrorMeaning::NoBucket,
            "BlobNotFound" => ErrorMeaning::NoObject,
            "BlobAlreadyExists" => ErrorMeaning::Exists,
            "AuthenticationFailed"
            | "InvalidAuthenticationInfo"
            | "NoAuthenticationInformation" => ErrorMeaning::BadCredentials,
            _ if status == 412 => ErrorMeaning::Exists,
            _ => return None,
        })
    }
}

impl Azure {
    fn path_of(&self, key: &str) -> String {
        format!("{}/{}", self.base, encode_key(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_parsed_and_anything_else_is_refused() {
        let access = AzureAccess {
            account: Some("account".into()),
            sas_token: Some("?sig=x".into()),
            ..AzureAccess::default()
        };
        let (origin, azure) = Azure::open("box", &access).unwrap();
        assert_eq!(origin.host, "account.blob.core.windows.net");
        let blob = |name: &str, kind: &str| {
            format!(
                "<Blob><Name>{name}</Name><Properties><Creation-Time>Fri, 24 May 2013 00:00:00 GMT\
                 </Creation-Time><Content-Length>7</Content-Length>{kind}</Properties></Blob>"
            )
        };
        let directory = blob("p/a", "<ResourceType>directory</ResourceType>");
        let text = format!(
            "\u{feff}<?xml version=\"1.0\"?><EnumerationResults ContainerName=\"box\"><Blobs>\
             {directory}{}</Blobs><NextMarker>2!8</NextMarker></EnumerationResults>",
            blob("p/a/1", "")
        );
        let page = azure.parse_page(&text).unwrap();
        let created = 1_369_353_600_000;
        assert_eq!(page.objects, [ListedObject { key: "p/a/1".into(), size: 7, created }]);
        assert_eq!(page.next.as_deref(), Some("2!8"));
        for end in ["<NextMarker/>", "<NextMarker></NextMarker>"] {
            let last = text.replace("<NextMarker>2!8</NextMarker>", end);
            assert_eq!(azure.parse_page(&last).unwrap().next, None);
        }
        assert!(azure.parse_page("<html></html>").is_none());
        assert!(azure.parse_page(&text.replace("</Blob>", "")).is_none());
        assert!(azure.parse_page(text.split("<NextMarker>").next().unwrap()).is_none());
    }

    #[test]
    fn credentials_are_needed_and_must_be_usable() {
        let is_missing = |access: &AzureAccess| {
            matches!(Azure::open("box", access), Err(ObjectsError::NoCredentials { .. }))
        };
        let account = Some("account".to_owned());
        assert!(is_missing(&AzureAccess::default()));
        assert!(is_missing(&AzureAccess { account: account.clone(), ..AzureAccess::default() }));
        let key = Some("a2V5".to_owned());
        let endpoint = Some("http://127.0.0.1:1/account".to_owned());
        let only_key = AzureAccess { key, endpoint, ..AzureAccess::default() };
        assert!(is_missing(&only_key), "a key needs an account");
        let with_account = AzureAccess { account, ..only_key };
        let (origin, azure) = Azure::open("box", &with_account).unwrap();
        assert_eq!((origin.host.as_str(), azure.base.as_str()), ("127.0.0.1:1", "/account/box"));
        let bad = AzureAccess { key: Some("no base64".into()), ..with_account };
        assert!(matches!(Azure::open("box", &bad), Err(ObjectsError::BadKey { .. })));
    }
}
