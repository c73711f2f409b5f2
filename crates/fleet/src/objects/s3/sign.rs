//! Signing requests with AWS Signature Version 4.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use takeback_base::hex;

/// The keys for a bucket.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub(crate) access_key: String,
    pub(crate) secret_key: String,
    pub(crate) session_token: Option<String>,
}

/// A request that is to be signed.
pub(crate) struct Signable<'a> {
    pub(crate) method: &'a str,
    /// The path, percent-encoded.
    pub(crate) path: &'a str,
    /// The parameters, percent-encoded and sorted.
    pub(crate) query: &'a str,
    /// The headers, with names in lower case.
    pub(crate) headers: Vec<(&'a str, String)>,
    /// The SHA-256 of the body, in hexadecimal digits.
    pub(crate) digest: &'a str,
}

/// Signs a request. `time` is the time in the form `20130524T000000Z`. Returns the value of the
/// header `authorization`. `request.headers` must contain all headers that are to be signed.
pub(crate) fn sign(
    request: &Signable<'_>,
    credentials: &Credentials,
    region: &str,
    time: &str,
) -> String {
    let mut headers = request.headers.clone();
    headers.sort();
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let lines: String =
        headers.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
    let Signable { method, path, query, digest, .. } = request;
    let canonical = format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{digest}");
    let date = &time[..8];
    let scope = format!("{date}/{region}/s3/aws4_request");
    let hash = hex::encode(&Sha256::digest(canonical.as_bytes()));
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{hash}");
    let mut key = authenticate(format!("AWS4{}", credentials.secret_key).as_bytes(), date);
    for part in [region, "s3", "aws4_request"] {
        key = authenticate(&key, part);
    }
    let signature = hex::encode(&authenticate(&key, &text));
    let user = &credentials.access_key;
    format!(
        "AWS4-HMAC-SHA256 Credential={user}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
}

fn authenticate(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key may have any length");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header<'a>(name: &'a str, value: &str) -> (&'a str, String) {
        (name, value.to_owned())
    }

    /// The examples in Amazon's documentation, "Signature Calculations for the Authorization
    /// Header".
    #[test]
    fn the_documented_examples_have_the_documented_signatures() {
        let credentials = Credentials {
            access_key: "AKIAIOSFODNN7EXAMPLE".into(),
            secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            session_token: None,
        };
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let host = header("host", "examplebucket.s3.amazonaws.com");
        let date = header("x-amz-date", "20130524T000000Z");
        let hash = |digest: &str| header("x-amz-content-sha256", digest);
        let put = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
        let cases = [
            (
                Signable {
                    method: "GET",
                    path: "/test.txt",
                    query: "",
                    headers: vec![
                        host.clone(),
                        header("range", "bytes=0-9"),
                        hash(empty),
                        date.clone(),
                    ],
                    digest: empty,
                },
                "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            ),
            (
                Signable {
                    method: "PUT",
                    path: "/test%24file.text",
                    query: "",
                    headers: vec![
                        header("date", "Fri, 24 May 2013 00:00:00 GMT"),
                        host.clone(),
                        hash(put),
                        date.clone(),
                        header("x-amz-storage-class", "REDUCED_REDUNDANCY"),
                    ],
                    digest: put,
                },
                "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
            ),
            (
                Signable {
                    method: "GET",
                    path: "/",
                    query: "max-keys=2&prefix=J",
                    headers: vec![host, hash(empty), date],
                    digest: empty,
                },
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            ),
        ];
        for (request, signature) in cases {
            let signed = sign(&request, &credentials, "us-east-1", "20130524T000000Z");
            assert!(signed.ends_with(&format!("Signature={signature}")), "{signed}");
        }
    }
}
