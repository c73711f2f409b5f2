//! Secrets that are guessed from the name of a value.

use super::{KeywordPosition, Rule, SecretTest, token};

#[rustfmt::skip] // One rule per paragraph reads better than one argument per line.
pub(super) const GUESSES: &[Rule] = &[
    token("password", "value called a password",
        &["password", "passwd", "passphrase", "pwd", "_pass", "-pass", "dbpass", "userpass", "rootpass",
            "storepass", "keypass", "sshpass", "become_pass", "passwort", "psk"],
        concat!(r"(?i-u:password|passwd|passphrase|pwd|[_-]pass|(?:db|user|root|store|key|ssh|become_)pass|passwort|psk)", gives!()), 2.5)
        .at(KeywordPosition::Name).test(SecretTest::Password),
    token("pass", "value called pass or pw",
        &["pass", "pw"],
        r#"(?:(?:^|[^A-Za-z])(?i-u:pass|pw)|[a-z](?:Pass|Pw))(?:(?:\\*["'`])?\]?[ \t]{0,8}(?:=>|:=|={1,3}|:)[ \t]{0,8}\\*["'`]([^ \t\r\n"'`\\]{6,})\\*["'`]|=([^ \t\r\n"'`\\,;&|<>(){}\[\]]{6,}))|(?:^|[^A-Za-z])(?i-u:pw): ([^ \t\r\n"'`\\,;&|<>(){}\[\]]{6,})"#, 2.5)
        .at(KeywordPosition::Around(1)).test(SecretTest::Password),
    token("password-option", "password given to a command",
        &["password", "passwd", "passphrase", "pass"], r"(?:password|passwd|passphrase|pass) {1,4}", 2.5)
        .at(KeywordPosition::Option).test(SecretTest::Password),
    token("told-password", "password in a sentence",
        &["password", "passwort", "passphrase"],
        r#"(?i-u:password|passwort|passphrase)(?: (?:for|of|to|auf|von) [^\r\n:=]+?)?(?: (?:is|was|ist|lautet)|:)[ \t]{1,4}["'`]?([^ \t\r\n"'`\\,;<>]{6,})"#, 2.5)
        .at(KeywordPosition::Before).test(SecretTest::Chosen),
    token("bare-password", "password after the word `password` and a space",
        &["password ", "passwort ", "passphrase "],
        r#"(?i-u:password|passwort|passphrase) ["'`]?([^ \t\r\n"'`\\,;<>]{8,})"#, 2.5)
        .at(KeywordPosition::Before).test(SecretTest::Jumbled),
    token("api-key", "value called an API key or a secret",
        &["api_key", "apikey", "api-key", "access_key", "accesskey", "access-key", "secret_key", "secretkey",
            "secret-key", "private_key", "privatekey", "private-key", "auth_key", "authkey", "auth-key",
            "app_key", "admin_key", "account_key", "account-key", "license_key", "service_key",
            "encryption_key", "signing_key", "master_key", "secret", "secret_key_base", "credential", "sonar.login"],
        concat!(r"(?i-u:(?:api|access|secret|private|auth|app|admin|account|license|service|encryption|signing|master)[_-]?key(?:_base)?|secret|credential|sonar\.login)",
            gives!()), 3.0)
        .at(KeywordPosition::Name).test(SecretTest::Random),
    token("told-key", "API key or token in a sentence",
        &["api key ", "api key:", "access token ", "token is "],
        r#"(?i-u:api key|access token|token)(?: (?:is|was|ist|lautet)|:)[ \t]{1,4}["'`]?([A-Za-z0-9_+/=.-]{16,})"#, 3.2)
        .at(KeywordPosition::Before).test(SecretTest::Token),
    token("auth-token", "value called a login token; can be a UUID",
        &["auth_token", "authtoken", "auth-token", "access_token", "accesstoken", "access-token", "api_token",
            "apitoken", "api-token", "http_token", "server_token", "server-token", "service_token",
            "private_token", "private-token", "deploy_token", "upload_token"],
        concat!(r"(?i-u:(?:auth|access|api|http|server|service|private|deploy|upload)[_-]?token)", gives!()), 3.0)
        .at(KeywordPosition::Name).test(SecretTest::Random),
    token("token", "value called a token",
        &["token"], concat!(r"(?i-u:token)", gives!()), 3.2)
        .at(KeywordPosition::Name).test(SecretTest::Token),
    token("auth", "value called auth, as in npm, Docker, Redis and URLs",
        &["auth"], concat!(r"(?i-u:auth)", gives!()), 3.2)
        .at(KeywordPosition::Name).test(SecretTest::Token),
    token("key-option", "key, secret or token given to a command",
        &["api-key", "access-key", "account-key", "secret-key", "secret", "token"],
        r"(?:api-key|access-key|account-key|secret-key|secret|token) {1,4}", 3.2)
        .at(KeywordPosition::Option).test(SecretTest::Random),
];
