//! Tokens of service accounts: JSON Web Tokens that the account's key signs. Google accepts them
//! directly: they need not be exchanged for access tokens first.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::sign::SigningKey;
use serde::Deserialize;
use serde_json::json;

use crate::objects::access::Provider;
use crate::objects::error::ObjectsError;
use crate::objects::remote::to_timestamp;

/// The right to read, write and delete objects.
const SCOPE: &str = "https://www.googleapis.com/auth/devstorage.read_write";

/// The time for which a token is valid. Google does not allow a longer one.
const LIFETIME: Duration = Duration::from_secs(3600);

/// A service account and its key.
pub(super) struct ServiceAccount {
    email: String,
    key_id: String,
    key: Arc<dyn SigningKey>,
}

/// The file that Google issues for a key.
#[derive(Deserialize)]
struct KeyFile {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    client_email: String,
    #[serde(default)]
    private_key_id: String,
    #[serde(default)]
    private_key: String,
}

impl ServiceAccount {
    pub(super) fn read(path: &Path) -> Result<ServiceAccount, ObjectsError> {
        let bad = |problem: &str| bad_key(format!("{}: {problem}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| bad(&error.to_string()))?;
        ServiceAccount::parse(&text).map_err(bad)
    }

    fn parse(text: &str) -> Result<ServiceAccount, &'static str> {
        let no_account = "it is not the JSON file of a service account's key";
        let file: KeyFile = serde_json::from_str(text).map_err(|_| no_account)?;
        if file.kind != "service_account" {
            return Err(no_account);
        }
        let no_key = "its private key cannot be read";
        let der = PrivateKeyDer::from_pem_slice(file.private_key.as_bytes()).map_err(|_| no_key)?;
        let key = any_supported_type(&der).map_err(|_| no_key)?;
        if key.choose_scheme(&[SignatureScheme::RSA_PKCS1_SHA256]).is_none() {
            return Err(no_key);
        }
        Ok(ServiceAccount { email: file.client_email, key_id: file.private_key_id, key })
    }

    /// Returns a token that is valid for an hour.
    pub(super) fn sign_token(&self, now: SystemTime) -> Result<String, ObjectsError> {
        let header = json!({ "alg": "RS256", "typ": "JWT", "kid": self.key_id });
        let claims = json!({
            "iss": self.email,
            "sub": self.email,
            "scope": SCOPE,
            "iat": to_timestamp(now).as_second(),
            "exp": to_timestamp(now + LIFETIME).as_second(),
        });
        let encode = |part: serde_json::Value| URL_SAFE_NO_PAD.encode(part.to_string());
        self.sign(&format!("{}.{}", encode(header), encode(claims)))
    }

    /// Appends the signature to the first two parts of a token.
    fn sign(&self, parts: &str) -> Result<String, ObjectsError> {
        let failed = || bad_key("it cannot sign".to_owned());
        let signer = self.key.choose_scheme(&[SignatureScheme::RSA_PKCS1_SHA256]);
        let signature = signer.ok_or_else(failed)?.sign(parts.as_bytes()).map_err(|_| failed())?;
        Ok(format!("{parts}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

fn bad_key(reason: String) -> ObjectsError {
    ObjectsError::BadKey { provider: Provider::Google, reason }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use serde_json::Value;

    use super::*;

    /// The key of RFC 7515, appendix A.2.
    const KEY: &str = include_str!("../../../tests/fixtures/rfc7515.pem");

    fn file(kind: &str, key: &str) -> String {
        let email = "takeback@project.iam.gserviceaccount.com";
        let file = json!({
            "type": kind, "client_email": email, "private_key_id": "7", "private_key": key,
        });
        file.to_string()
    }

    #[test]
    fn the_documented_example_has_the_documented_signature() {
        let account = ServiceAccount::parse(&file("service_account", KEY)).unwrap();
        let parts = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6\
            Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
        let signature = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh\
            -0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK\
            5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6B\
            fI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlU\
            PQGe77Rw";
        assert_eq!(account.sign(parts).unwrap(), format!("{parts}.{signature}"));
    }

    #[test]
    fn a_token_names_the_account_and_ends_after_an_hour() {
        let account = ServiceAccount::parse(&file("service_account", KEY)).unwrap();
        let token = account.sign_token(UNIX_EPOCH + Duration::from_secs(1_000)).unwrap();
        let part = |index: usize| -> Value {
            let part = token.split('.').nth(index).unwrap();
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
        };
        assert_eq!(part(0), json!({ "alg": "RS256", "typ": "JWT", "kid": "7" }));
        let claims = part(1);
        assert_eq!(claims["iss"], "takeback@project.iam.gserviceaccount.com");
        assert_eq!(claims["sub"], claims["iss"]);
        assert_eq!((claims["iat"].as_i64(), claims["exp"].as_i64()), (Some(1_000), Some(4_600)));
        assert!(claims.get("aud").is_none(), "a token has a scope or an audience, not both");
    }

    #[test]
    fn other_files_are_refused() {
        for text in ["", "{}", &file("authorized_user", KEY), &file("service_account", "no key")] {
            assert!(ServiceAccount::parse(text).is_err(), "{text}");
        }
    }
}
