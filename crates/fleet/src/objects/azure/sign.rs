//! Signing requests with Azure's Shared Key scheme.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::objects::remote::Request;

/// Signs a request with a body of this length. Returns the value of the header `authorization`.
pub(super) fn sign(request: &Request, length: u64, account: &str, key: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key may have any length");
    mac.update(string_to_sign(request, length, account).as_bytes());
    let signature = STANDARD.encode(mac.finalize().into_bytes());
    format!("SharedKey {account}:{signature}")
}

fn string_to_sign(request: &Request, length: u64, account: &str) -> String {
    let find = |name: &str| {
        let header = request.headers.iter().find(|(found, _)| *found == name);
        header.map_or("", |(_, value)| value.as_str())
    };
    let length = if length == 0 { String::new() } else { length.to_string() };
    let mut lines = vec![request.method.to_string()];
    lines.extend(["content-encoding", "content-language"].map(|name| find(name).to_owned()));
    lines.push(length);
    let standard = [
        "content-md5",
        "content-type",
        "date",
        "if-modified-since",
        "if-match",
        "if-none-match",
        "if-unmodified-since",
        "range",
    ];
    lines.extend(standard.map(|name| find(name).to_owned()));
    let mut own: Vec<String> = request
        .headers
        .iter()
        .filter(|(name, _)| name.starts_with("x-ms-"))
        .map(|(name, value)| format!("{name}:{value}"))
        .collect();
    own.sort_unstable();
    lines.extend(own);
    lines.push(format!("/{account}{}", request.path));
    lines.extend(request.query.iter().map(|(name, value)| format!("{name}:{value}")));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use ureq::http::Method;

    use super::*;

    /// The example in Microsoft's documentation, "Authorize with Shared Key". Microsoft did not
    /// publish the key, so the signature itself cannot be compared.
    #[test]
    fn the_documented_example_has_the_documented_string_to_sign() {
        let mut request = Request::new(Method::GET, "/mycontainer".into());
        request.headers.push(("x-ms-version", "2015-02-21".into()));
        request.headers.push(("x-ms-date", "Fri, 26 Jun 2015 23:39:12 GMT".into()));
        let query = [("comp", "metadata"), ("restype", "container"), ("timeout", "20")];
        request.query.extend(query.map(|(name, value)| (name, value.to_owned())));
        assert_eq!(
            string_to_sign(&request, 0, "myaccount"),
            "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\n\
             x-ms-version:2015-02-21\n/myaccount/mycontainer\ncomp:metadata\nrestype:container\n\
             timeout:20"
        );
    }

    #[test]
    fn the_length_and_the_condition_are_signed() {
        let mut request = Request::new(Method::PUT, "/box/a".into());
        request.headers.push(("if-none-match", "*".into()));
        assert_eq!(string_to_sign(&request, 11, "me"), "PUT\n\n\n11\n\n\n\n\n\n*\n\n\n/me/box/a");
    }
}
