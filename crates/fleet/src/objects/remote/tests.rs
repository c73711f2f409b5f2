//! Tests with prepared answers from servers of each kind.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use std::io::{Read, Write};
use std::net::TcpListener;

use super::answer::{Refusal, explain, find_meaning};
use super::*;
use crate::objects::access::{AzureAccess, GoogleAccess, S3Access};
use crate::objects::azure::Azure;
use crate::objects::google::Google;
use crate::objects::s3::S3;

const PROVIDERS: [Provider; 3] = [Provider::S3, Provider::Google, Provider::Azure];

fn open(provider: Provider, endpoint: Option<String>) -> (Origin, Box<dyn Protocol>) {
    let some = |text: &str| Some(text.to_owned());
    match provider {
        Provider::S3 => {
            let (access_key, secret_key) = (some("a"), some("b"));
            let access = S3Access { access_key, secret_key, endpoint, ..S3Access::default() };
            let (origin, s3) = S3::open("box", &access).unwrap();
            (origin, Box::new(s3))
        }
        Provider::Google => {
            let access = GoogleAccess { token: some("t"), endpoint, ..GoogleAccess::default() };
            let (origin, google) = Google::open("box", &access).unwrap();
            (origin, Box::new(google))
        }
        Provider::Azure => {
            let (account, key) = (some("me"), some("a2V5"));
            let access = AzureAccess { account, key, endpoint, ..AzureAccess::default() };
            let (origin, azure) = Azure::open("box", &access).unwrap();
            (origin, Box::new(azure))
        }
    }
}

/// Starts a server that gives these answers, one for each connection. Returns its address.
fn serve(answers: Vec<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for (client, answer) in listener.incoming().zip(answers) {
            let mut client = client.unwrap();
            let _ = client.read(&mut [0; 4096]);
            client.write_all(answer.as_bytes()).unwrap();
        }
    });
    address
}

fn answer(status: u16, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
}

fn bucket(provider: Provider, answers: Vec<String>) -> RemoteBucket {
    let (origin, protocol) = open(provider, Some(serve(answers)));
    RemoteBucket::new(provider, origin, protocol, "the bucket box", "p/", None)
}

fn xml_error(code: &str) -> String {
    format!("<Error><Code>{code}</Code><Message>because\nTime: now</Message></Error>")
}

fn json_error(reason: &str) -> String {
    format!("{{\"error\":{{\"message\":\"because\",\"errors\":[{{\"reason\":\"{reason}\"}}]}}}}")
}

#[test]
fn errors_are_told_apart() {
    let day = 86_400_000;
    let (s3, google, azure) = (xml_error, json_error, xml_error);
    for (provider, status, body, ahead, expected) in [
        (Provider::S3, 404, s3("NoSuchBucket"), None, "the bucket b does not exist"),
        (Provider::S3, 403, s3("AccessDenied"), Some(0), "access to the bucket b is denied"),
        (Provider::S3, 403, s3("SignatureDoesNotMatch"), Some(0), "refuses the keys"),
        (Provider::S3, 403, s3("RequestTimeTooSkewed"), Some(3 * day), "clock is 3 days ahead"),
        (Provider::S3, 403, s3("SignatureDoesNotMatch"), Some(-3 * day), "clock is 3 days behind"),
        (Provider::S3, 301, s3("PermanentRedirect"), None, "another region"),
        (Provider::S3, 500, s3("InternalError"), None, "answers with an error"),
        (Provider::S3, 502, "<html>".into(), None, "answers with an error"),
        (Provider::Google, 404, google("notFound"), None, "the bucket b does not exist"),
        (Provider::Google, 404, String::new(), None, "the bucket b does not exist"),
        (Provider::Google, 403, google("forbidden"), Some(0), "access to the bucket b is denied"),
        (Provider::Google, 401, google("authError"), Some(0), "refuses the keys"),
        (Provider::Google, 401, google("authError"), Some(3 * day), "clock is 3 days ahead"),
        (Provider::Google, 500, google("backendError"), None, "answers with an error"),
        (Provider::Azure, 404, azure("ContainerNotFound"), None, "the bucket b does not exist"),
        (
            Provider::Azure,
            403,
            azure("AuthorizationPermissionMismatch"),
            Some(0),
            "access to the bucket b is denied",
        ),
        (Provider::Azure, 403, azure("AuthenticationFailed"), Some(0), "refuses the keys"),
        (Provider::Azure, 403, azure("AuthenticationFailed"), Some(-day), "24 hours behind"),
        (Provider::Azure, 400, azure("InvalidUri"), None, "answers with an error"),
    ] {
        let protocol = open(provider, None).1;
        let operation = Operation::List { prefix: "p/", page: None };
        let refusal = Refusal { status, body, ahead };
        let (meaning, reason) = find_meaning(protocol.as_ref(), &operation, &refusal);
        assert!(!reason.contains('\n'), "{reason}");
        let error = explain(provider, "the bucket b", meaning, reason, ahead).to_string();
        assert!(error.contains(expected), "{provider:?} {}: {error}", refusal.body);
    }
}

#[test]
fn a_server_of_another_kind_is_recognized() {
    for provider in PROVIDERS {
        for status in [200, 404] {
            let page = answer(status, "<html>hello</html>");
            let listed = bucket(provider, vec![page]).list("");
            assert!(matches!(listed, Err(ObjectsError::NotStorage { .. })), "{listed:?}");
        }
    }
}

#[test]
fn a_missing_object_is_told_from_a_missing_bucket() {
    let page = "{\"kind\":\"storage#objects\"}";
    let no_bucket = answer(404, &json_error("notFound"));
    let no_object = answer(404, "No such object: box/p/a");
    for (provider, answers) in [
        (Provider::S3, vec![answer(404, &xml_error("NoSuchKey"))]),
        (Provider::Azure, vec![answer(404, &xml_error("BlobNotFound"))]),
        (Provider::Google, vec![no_object.clone(), answer(200, page)]),
    ] {
        assert_eq!(bucket(provider, answers).read("a").unwrap(), None);
    }
    for (provider, answers) in [
        (Provider::S3, vec![answer(404, &xml_error("NoSuchBucket"))]),
        (Provider::Azure, vec![answer(404, &xml_error("ContainerNotFound"))]),
        (Provider::Google, vec![no_object, no_bucket]),
    ] {
        let read = bucket(provider, answers).read("a");
        assert!(matches!(read, Err(ObjectsError::NoBucket { .. })), "{provider:?}: {read:?}");
    }
}

#[test]
fn an_overloaded_server_is_asked_again() {
    for status in [408, 429, 500, 503] {
        let answers = vec![answer(status, &xml_error("SlowDown")), answer(200, "content")];
        let read = bucket(Provider::S3, answers).read("a").unwrap();
        assert_eq!(read.as_deref(), Some(b"content".as_slice()));
    }
    let answers = (0..ATTEMPTS).map(|_| answer(503, &xml_error("SlowDown"))).collect();
    let refused = bucket(Provider::S3, answers).read("a");
    assert!(matches!(refused, Err(ObjectsError::Server { .. })), "{refused:?}");
}

#[test]
fn a_creation_that_conflicts_with_another_request_is_tried_again() {
    let conflict = || answer(409, &xml_error("ConditionalRequestConflict"));
    let create = |answers| bucket(Provider::S3, answers).create("a", &Content::Bytes(b"x"));
    assert!(create(vec![conflict(), conflict(), answer(200, "")]).unwrap());
    assert!(!create(vec![conflict(), answer(412, &xml_error("PreconditionFailed"))]).unwrap());
    let refused = create((0..ATTEMPTS).map(|_| conflict()).collect());
    assert!(matches!(refused, Err(ObjectsError::Server { .. })), "{refused:?}");

    // In Azure's protocol, status 409 means that the object exists.
    let exists = vec![answer(409, &xml_error("BlobAlreadyExists"))];
    assert!(!bucket(Provider::Azure, exists).create("a", &Content::Bytes(b"x")).unwrap());
}

#[test]
fn a_listing_with_other_keys_is_refused() {
    let listing = "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>q/1</Key>\
        <LastModified>2026-11-19T04:23:50.000Z</LastModified><Size>7</Size></Contents>\
        </ListBucketResult>";
    let listed = bucket(Provider::S3, vec![answer(200, listing)]).list("");
    assert!(matches!(listed, Err(ObjectsError::NotStorage { .. })), "{listed:?}");
}

#[test]
fn addresses_of_servers_are_checked() {
    let origin = Origin::parse("http://127.0.0.1:9000/account/").unwrap();
    assert_eq!((origin.host.as_str(), origin.path.as_str()), ("127.0.0.1:9000", "/account"));
    assert_eq!(Origin::parse("https://storage.example").unwrap().path, "");
    for bad in ["", "nonsense", "ftp://host", "https://", "http://host/?a=b", "http://a b"] {
        assert!(matches!(Origin::parse(bad), Err(ObjectsError::BadAddress(_))), "{bad}");
    }
}
