//! Tests of masking. The examples are templates, so that secret scanners do not report this file.
//!
//! In a template, `{a36}` is replaced with 36 letters and digits, and `{h64}` with 64 hexadecimal
//! digits; [`alphabet`] lists the other kinds. `«…»` marks the part that gets masked. Without these
//! marks, everything gets masked.

use std::borrow::Cow;
use std::collections::HashSet;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::rules::RULES;
use super::*;

/// A rule, a secret that it masks, and text that only resembles such a secret.
const EXAMPLES: &[(&str, &str, &str)] = &[
    (
        "private-key",
        "«-----BEGIN {P}PRIVATE KEY-----\n{b64}\n{b40}\n-----END {P}PRIVATE KEY-----»",
        "-----BEGIN {P}PRIVATE KEY-----\n...\n-----END {P}PRIVATE KEY-----",
    ),
    ("age-secret-key", "AGE-SECRET-KEY-1{U58}", "AGE-SECRET-KEY-1{U20}"),
    ("aws-access-key", "AKIA{u16}", "AKIA{u12}"),
    ("aws-secret-key", "aws_secret_access_key = «{a40}»", "aws_secret_access_key = {a20}(x)"),
    ("aws-session-token", "AWS_SESSION_TOKEN=«{a300}»", "AWS_SESSION_TOKEN=$(cat {a300})"),
    ("aws-signature", "x?X-Amz-Signature=«{h64}»", "x?X-Amz-Signature={h40}"),
    ("aws-bedrock-key", "ABSK{a120}=", "ABSK{a60}="),
    ("google-api-key", "AIza{w35}", "AIza{a36}"),
    ("google-oauth-secret", "GOCSPX-{a28}", "GOCSPX-{a20}"),
    ("google-access-token", "ya29.{w60}", "ya29.{a20}"),
    ("google-refresh-token", "1//0{w60}", "1//0{a20}"),
    ("azure-storage-key", "AccountName=a;AccountKey=«{a86}==»;x", "AccountKey={a60}=="),
    ("azure-shared-key", "SharedAccessKey=«{a43}=»", "SharedAccessKey={a12}="),
    ("azure-client-secret", "abC8Q~{a34}", "abC8Q~{a20}"),
    ("azure-sas", "?sv=2022&sig=«{a44}%3D»&se=1", "&sig={a20}%3D"),
    ("azure-devops-token", "{a76}AZDO{a4}", "{a40}AZDO{a4}"),
    ("alibaba-access-key", "LTAI{a20}", "LTAI{a10}"),
    ("tencent-secret-id", "AKID{a32}", "AKID{a20}"),
    ("digitalocean-token", "dop_v1_{h64}", "dop_v1_{h40}"),
    ("cloudflare-token", "cfut_{a48}", "cfut_{a30}"),
    ("cloudflare-origin-key", "v1.0-{h24}-{h146}", "v1.0-{h24}-{h14}"),
    ("heroku-key", "HRKU-{w60}", "HRKU-{a20}"),
    ("fly-token", "fm2_{a80}", "fm2_{a20}"),
    ("netlify-token", "nfp_{a36}", "nfp_{a30}"),
    ("vault-token", "hvs.{w90}", "hvs.{a16}"),
    ("vault-old-token", "s.{a24}", "is.{a24} and s.{a23}"),
    ("vault-unseal-key", "Unseal Key 1: «{a43}=»", "Unseal Key 1: {a20}"),
    ("terraform-token", "{a14}.atlasv1.{a67}", "{a14}.atlasv1.{a30}"),
    ("doppler-token", "dp.st.dev.{a43}", "dp.st.dev.{a20}"),
    ("pulumi-token", "pul-{h40}", "pul-{h30}"),
    ("planetscale-token", "pscale_tkn_{a43}", "pscale_tkn_{a20}"),
    ("supabase-key", "sbp_{h40}", "sbp_{h20}"),
    ("databricks-token", "dapi{h32}-2", "dapi{h24}"),
    ("mongodb-secret", "mdb_sa_sk_{a40}", "mdb_sa_sk_{a20}"),
    ("github-pat", "ghp_{a36}", "ghp_{a30}"),
    ("github-fine-grained-pat", "github_pat_{a22}_{a59}", "github_pat_{a22}"),
    ("github-oauth", "gho_{a36}", "gho_{a30}"),
    ("github-app-token", "ghs_{a36}", "ghs_{a30}"),
    ("github-refresh-token", "ghr_{a76}", "ghr_{a30}"),
    ("gitlab-token", "glpat-{a20}", "glpat-{a12}"),
    ("gitlab-runner-token", "GR1348941{a20}", "GR1348941{a10}"),
    ("atlassian-token", "ATATT3{w180}={u8}", "ATATT3{a40}"),
    ("sourcegraph-token", "sgp_{h16}_{h40}", "sgp_{h16}_{h20}"),
    ("npm-token", "npm_{a36}", "npm_config_{a36}"),
    ("pypi-token", "pypi-AgE{a120}", "pypi-AgE{a20}"),
    ("crates-io-token", "cio{a32}", "cio{a33}"),
    ("rubygems-key", "rubygems_{h48}", "rubygems_{h30}"),
    ("nuget-key", "oy2{l43}", "oy2{l30}"),
    ("clojars-token", "CLOJARS_{l60}", "CLOJARS_{l30}"),
    ("docker-token", "dckr_pat_{w27}", "dckr_pat_{a10}"),
    ("artifactory-key", "AKCp{a69}", "AKCp{a30}"),
    ("anthropic-key", "sk-ant-api03-{w95}", "sk-ant-api03-{a10}"),
    ("openrouter-key", "sk-or-v1-{h64}", "sk-or-v1-{h20}"),
    ("langfuse-key", "sk-lf-{h8}-{h4}-{h4}-{h4}-{h12}", "sk-lf-{h8}-{h4}"),
    ("openai-key", "sk-proj-{w120}", "sk-proj-{a20}"),
    ("huggingface-token", "hf_{a34}", "hf_{a20}"),
    ("replicate-token", "r8_{a37}", "r8_{a20}"),
    ("groq-key", "gsk_{a52}", "gsk_{a30}"),
    ("xai-key", "xai-{a80}", "xai-{a30}"),
    ("perplexity-key", "pplx-{a48}", "pplx-{a20}"),
    ("cerebras-key", "csk-{l48}", "csk-{l20}"),
    ("nvidia-key", "nvapi-{a64}", "nvapi-{a30}"),
    ("elevenlabs-key", "sk_{h48}", "sk_{h40}"),
    ("tavily-key", "tvly-dev-{a32}", "tvly-dev-{a12}"),
    ("firecrawl-key", "fc-{h32}", "fc-{h20}"),
    ("jina-key", "jina_{a60}", "jina_{a20}"),
    ("pinecone-key", "pcsk_{a70}", "pcsk_{a20}"),
    ("langsmith-key", "lsv2_pt_{h32}_{h10}", "lsv2_pt_{h32}"),
    ("slack-token", "xoxb-{d12}-{d12}-{a24}", "xoxb-{d12}"),
    (
        "slack-webhook",
        "https://hooks.slack.com/services/«T{u8}/B{u8}/{a24}»",
        "https://hooks.slack.com/services/T{u8}",
    ),
    (
        "teams-webhook",
        "https://a.webhook.office.com/webhookb2/«{h8}-{h4}-{h4}-{h4}-{h12}@{h8}-{h4}-{h4}-{h4}-{h12}/IncomingWebhook/{h32}/{h8}-{h4}-{h4}-{h4}-{h12}»",
        "https://a.webhook.office.com/webhookb2/{h8}/IncomingWebhook/",
    ),
    (
        "discord-webhook",
        "https://discord.com/api/webhooks/«{d18}/{a68}»",
        "https://discord.com/api/webhooks/{d18}",
    ),
    ("discord-token", "MTA{a23}.{a6}.{a38}", "MTA{a23}.{a6}"),
    ("telegram-token", "https://api.telegram.org/bot«7{d9}:AA{a33}»/getMe", "7{d9}:AA{a20}"),
    ("twilio-key", "SK{h32}", "SK{h30}"),
    ("sendgrid-key", "SG.{a22}.{a43}", "SG.{a22}"),
    ("mailgun-key", "key-{h32}", "key-{h20}"),
    ("mailchimp-key", "{h32}-us12", "{h32}-use"),
    ("brevo-key", "xkeysib-{h64}-{a16}", "xkeysib-{h64}"),
    ("resend-key", "re_{a8}_{a24}", "re_{a8}_{a10}"),
    ("facebook-token", "EAA{a180}", "EAA{a50}"),
    ("twitter-bearer", "AAAAAAAAAAAAAAAAAAAAAA{a22}%3D{a50}", "AAAAAAAAAAAAAAAAAAAAAA{a80}"),
    ("stripe-key", "sk_live_{a24}", "sk_live_{a10}"),
    ("webhook-secret", "whsec_{a32}", "whsec_{a10}"),
    ("square-token", "sq0csp-{a43}", "sq0csp-{a20}"),
    ("braintree-token", "access_token$production${l16}${h32}", "access_token$production${l16}"),
    ("shopify-token", "shpat_{h32}", "shpat_{h20}"),
    ("flutterwave-key", "FLWSECK-{h32}-X", "FLWSECK-{h32}-Y"),
    ("plaid-token", "access-sandbox-{h8}-{h4}-{h4}-{h4}-{h12}", "access-sandbox-{h8}-{h4}-{h4}"),
    ("easypost-key", "EZAK{a54}", "EZAK{a20}"),
    ("shippo-token", "shippo_live_{h40}", "shippo_live_{h20}"),
    ("grafana-token", "glsa_{a32}_{h8}", "glsa_{a32}"),
    ("sentry-token", "sntryu_{h64}", "sntryu_{h20}"),
    ("newrelic-key", "NRAK-{u27}", "NRAK-{u10}"),
    ("newrelic-license-key", "{h36}NRAL", "{h30}NRAL"),
    ("honeycomb-key", "hcaik_{l58}", "hcaik_{l20}"),
    ("dynatrace-token", "dt0c01.{u24}.{u64}", "dt0c01.{u24}.{u20}"),
    ("linear-key", "lin_api_{a40}", "lin_api_{a20}"),
    ("notion-token", "ntn_{a46}", "ntn_{a20}"),
    ("figma-token", "figd_{w40}", "figd_{a20}"),
    ("postman-key", "PMAK-{h24}-{h34}", "PMAK-{h24}"),
    ("airtable-token", "pat{a14}.{h64}", "pat{a14}.{h20}"),
    ("hubspot-token", "pat-na1-{h8}-{h4}-{h4}-{h4}-{h12}", "pat-na1-{h8}-{h4}"),
    ("typeform-token", "tfp_{a44}", "tfp_{a20}"),
    ("contentful-token", "CFPAT-{a43}", "CFPAT-{a20}"),
    ("launchdarkly-key", "sdk-{h8}-{h4}-4{h3}-{h4}-{h12}", "sdk-{h8}-{h4}"),
    ("readme-key", "rdme_{l70}", "rdme_{l30}"),
    ("posthog-key", "phx_{a47}", "phx_{a20}"),
    ("mapbox-token", "sk.eyJ{a80}.{a22}", "sk.eyJ{a80}"),
    ("adafruit-key", "aio_{a28}", "aio_{a20}"),
    ("onepassword-token", "ops_eyJ{a300}", "ops_eyJ{a50}"),
    ("tailscale-key", "tskey-auth-{a14}-{a32}", "tskey-auth-{a14}"),
    ("buildkite-token", "bkua_{h40}", "bkua_{h20}"),
    ("circleci-token", "CCIPAT_{a22}_{h40}", "CCIPAT_{a22}"),
    ("sonar-token", "squ_{h40}", "squ_{h20}"),
    ("prefect-key", "pnu_{a36}", "pnu_{a20}"),
    ("adobe-secret", "p8e-{a32}", "p8e-{a20}"),
    ("clickhouse-key", "4b1d{a38}", "4b1d{a20}"),
    ("dropbox-token", "sl.{w135}", "sl.{a30}"),
    ("duffel-token", "duffel_test_{a43}", "duffel_test_{a20}"),
    ("frameio-token", "fio-u-{a64}", "fio-u-{a20}"),
    ("harness-token", "pat.{a22}.{h24}.{a20}", "pat.{a22}.{h24}"),
    ("infracost-key", "ico-{a32}", "ico-{a20}"),
    ("intra-secret", "s-s4t2ud-{h64}", "s-s4t2ud-{h20}"),
    ("maxmind-key", "{a6}_{a29}_mmk", "{a6}_{a20}_mmk"),
    ("octopus-key", "API-{U26}", "API-{U20}"),
    ("openshift-token", "sha256~{w43}", "sha256~{a20}"),
    ("scalingo-token", "tk-us-{a48}", "tk-us-{a20}"),
    ("yandex-key", "AQVN{a36}", "AQVN{a20}"),
    ("laravel-key", "base64:{a43}=", "base64:{a20}="),
    ("kubernetes-client-key", "client-key-data: «{b200}=»", "client-key-data: DATA+OMITTED"),
    ("jwt", "eyJ{a33}.eyJ{w120}.{w43}", "eyJ{a33}.{a120}"),
    ("url-password", "postgres://app:«{a12}»@db.local/x", "postgres://app:${DB_PASS}@db.local/x"),
    ("url-token", "https://«{h40}»@git.local/x", "https://acme-deploy-bot-of-2024@git.local/x"),
    ("basic-auth", "Authorization: Basic «{a30}==»", "Basic understanding of the matter2"),
    ("bearer-token", "authorization: bearer «{w40}»", "the bearer of_this_letter_number_2"),
    ("session-cookie", "Cookie: a=1; session=«{a40}»; b=2", "ACCOUNT_SID={a34}"),
    ("curl-user", "curl -s -u me:«{a9}» https://a.b", "curl -s -u me:$PASS https://a.b"),
    ("mysql-password", "mysql -u root -p«{a9}» shop", "mysql -u root -p shop{a9}"),
    ("command-password", "sshpass -p «{a9}» ssh a.b", "ssh -p 2222{a9} a.b"),
    ("redis-password", "redis-cli -h a.b -a «{a9}» ping", "redis-cli -h a.b -p 6379 ping"),
    ("ldap-password", "ldapsearch -x -w «{a9}» -b dc=a", "ldapsearch -x -W -b dc=a"),
    ("archive-password", "unzip -P «{a9}» a.zip", "unzip -p a.zip file-{a9}"),
    ("openssl-password", "openssl rsa -passin pass:«{a9}»", "openssl rsa -passin env:{a9}"),
    ("smb-password", "smbclient //a/b -U me%«{a9}» -c ls", "smbclient //a/b -U me -c {a9}"),
    ("htpasswd-password", "htpasswd -bc .htpasswd me «{a9}»", "htpasswd -c .htpasswd me {a9}"),
    ("chpasswd-password", "echo me:«{a9}» | sudo chpasswd", "echo {a9} | sudo tee chpasswd"),
    ("piped-password", "echo «{a9}» | sudo -S ls", "echo {a9} | sudo tee a"),
    (
        "aws-configured-key",
        "aws configure set default.aws_access_key_id «{a20}»",
        "aws configure set region {a20}",
    ),
    (
        "netrc-password",
        "machine a.b login me password «{a10}»",
        "machine a.b login me password $PASSWORD",
    ),
    ("pgpass-password", "db.local:5432:shop:me:«{a10}»", "db.local:5432:{a10}"),
    ("php-constant", "define('AUTH_SALT', '«{a20}»');", "define('AUTH_SALT', getenv('{a20}'));"),
    ("xml-password", "<password>«{a12}»</password>", "<password>${env.{a12}}</password>"),
    ("sql-password", "IDENTIFIED BY '«{a12}»';", "IDENTIFIED BY '$PASSWORD';"),
    ("login-call", "auth=('me', '«{a12}»')", "auth=('me', {a12})"),
    ("password-argument", "setPassword('«{a12}»')", "setPassword(name{a12})"),
    ("password", "DB_PASSWORD=«{a14}»", "password = getPassword2(user)"),
    ("pass", "user=me&pass=«{a14}»", "--- PASS: Test{a14} (0.00s)"),
    ("password-option", "tool --db-password «{a14}» -v", "tool --password required -v"),
    ("told-password", "the password is «Dragon1703!»", "the password is argon2id-hashed"),
    ("bare-password", "user me, password «{a14}»", "password OAuth2Client"),
    ("api-key", "\"api_key\": \"«{a32}»\"", "api_key: config.api_key_v2"),
    ("told-key", "The API key is «{a32}»", "The API key is invalid-or-expired-2"),
    (
        "auth-token",
        "_authToken=«{h8}-{h4}-{h4}-{h4}-{h12}»",
        "request_token={h8}-{h4}-{h4}-{h4}-{h12}",
    ),
    ("token", "let token = '«{a40}»';", "token_count = total_tokens"),
    ("auth", "\"auth\": \"«{a40}»\"", "\"auth\": \"oauth2-client-credentials\""),
    ("key-option", "tool --api-key «{a32}» -v", "tool --api-key production-key-number-2"),
];

fn alphabet(kind: char) -> &'static [u8] {
    match kind {
        'a' => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
        'w' => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-",
        'b' => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
        'h' => b"0123456789abcdef",
        'l' => b"abcdefghijklmnopqrstuvwxyz0123456789",
        'u' => b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
        'U' => b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
        'd' => b"0123456789",
        _ => panic!("no alphabet {kind}"),
    }
}

/// Generates pseudorandom text that depends only on the arguments. Its last character is not
/// punctuation.
fn random_text(kind: char, length: usize, seed: usize) -> String {
    let alphabet = alphabet(kind);
    let mut state =
        88_172_645_463_325_252_u64 ^ (seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(alphabet[state as usize % alphabet.len()])
    };
    let mut text: String = (0..length).map(|_| next()).collect();
    if text.ends_with(['_', '-', '+', '/']) {
        text.replace_range(length - 1.., "k");
    }
    text
}

fn fill_template(template: &str) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let (hole, after) = after.split_once('}').expect("every placeholder is closed");
        match (hole, hole[1..].parse()) {
            ("P", _) => out.push_str("RSA "),
            (_, Ok(length)) => {
                out.push_str(&random_text(hole.as_bytes()[0].into(), length, out.len()));
            }
            (name, Err(_)) => out.push_str(&format!("{{{name}}}")),
        }
        rest = after;
    }
    out + rest
}

/// Returns the text of a template, and the masked text that is expected.
fn make_example(rule: &str, template: &str) -> (String, String) {
    let marked = match template.contains('«') {
        true => fill_template(template),
        false => format!("«{}»", fill_template(template)),
    };
    let (before, rest) = marked.split_once('«').unwrap();
    let (secret, after) = rest.split_once('»').unwrap();
    (format!("{before}{secret}{after}"), format!("{before}[redacted:{rule}]{after}"))
}

fn redactor() -> &'static Redactor {
    static REDACTOR: std::sync::LazyLock<Redactor> = std::sync::LazyLock::new(Redactor::new);
    &REDACTOR
}

fn mask_text(text: &str) -> String {
    redactor().mask_text(text).into_owned()
}

#[track_caller]
fn assert_kept(text: &str) {
    assert_eq!(mask_text(text), text);
}

#[test]
fn each_rule_is_well_formed_and_has_one_example() {
    let ids: Vec<&str> = RULES.iter().map(|rule| rule.id).collect();
    let shown: Vec<&str> = EXAMPLES.iter().map(|(id, ..)| *id).collect();
    assert_eq!(ids, shown);
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
    for (index, rule) in RULES.iter().enumerate() {
        redactor().regex(index);
        assert!(!rule.keywords.is_empty() && !rule.about.is_empty(), "{}", rule.id);
        assert!(rule.id.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{}", rule.id);
    }
}

#[test]
fn each_rule_masks_its_secret_and_nothing_around_it() {
    for (rule, template, _) in EXAMPLES {
        let (text, masked) = make_example(rule, template);
        for (before, after) in [("", ""), ("see é ", " …\n"), ("x=1;\n\"", "\" # é"), ("[", "\n]")]
        {
            let text = format!("{before}{text}{after}");
            assert_eq!(mask_text(&text), format!("{before}{masked}{after}"), "{rule}: {text}");
        }
    }
}

#[test]
fn each_rule_leaves_a_near_miss_unmasked() {
    for (rule, _, near_miss) in EXAMPLES {
        let text = format!("see {} there", fill_template(near_miss));
        assert!(
            matches!(redactor().mask_text(&text), Cow::Borrowed(_)),
            "{rule}: {}",
            mask_text(&text)
        );
    }
}

/// Secrets whose format differs from that of their rule's example.
const OTHER_SHAPES: &[&str] = &[
    "sb_secret_{a31}",
    "ATBB{a32}",
    "cmVmdGtu{a56}",
    "api_org_{a34}",
    "xoxe.xoxp-1-{a120}",
    "xapp-1-{u11}-{d13}-{h64}",
    "sq0atp-{a22}",
    "EAAA{a60}",
    "glc_{a80}",
    "sntrys_{a80}",
    "secret_{a43}",
    "A3-{U6}-{U11}-{U5}-{U5}-{U5}",
];

#[test]
fn each_keyword_at_the_start_of_a_token_is_found() {
    for (rule, (_, template, _)) in RULES.iter().zip(EXAMPLES) {
        if rule.position != KeywordPosition::Start {
            continue;
        }
        let shown = rule.keywords.iter().find(|word| template.starts_with(**word)).unwrap();
        for keyword in rule.keywords {
            let tail = &template[shown.len()..];
            let found = std::iter::once(format!("{keyword}{tail}"))
                .chain(OTHER_SHAPES.iter().map(|shape| (*shape).to_owned()))
                .filter(|template| template.starts_with(keyword))
                .any(|template| {
                    mask_text(&fill_template(&template)) == format!("[redacted:{}]", rule.id)
                });
            assert!(found, "{}: {keyword}", rule.id);
        }
    }
}

#[test]
fn placeholders_and_names_are_kept() {
    for text in [
        "api_key = \"<your key>\"",
        "API_KEY=${API_KEY_1}",
        "password: \"changeme123\"",
        "password=xxxxxxxx1",
        "token = 'example-token-0123456789'",
        "token_count = total_tokens",
        "\"max_tokens\": 4096, \"token\": 12345678901234567890",
        "const secret = process.env.CLIENT_SECRET_V2;",
        "self.token = response.json.access_token_v2",
        "let api_key = config.provider_api_key_name_v2;",
        "secret: kubernetes-secret-name-production-1",
        "password: String, token: Option<String>",
        "\"password\": \"must_contain_8\"",
        "if (password === confirmPassword2) {",
        "next_page_token: \"CAUQAAdGhpc0lzQVRva2VuMTIz\"",
        "the key is 550e8400-e29b-41d4-a716-446655440000",
        "request_token: 7c9e6b1f-3a52-4d08-b1f7-e0d92a5c8346",
        "const ERROR_INVALID_PASSWORD: WIN32_ERROR = 86u32;",
        "const STATUS_ILL_FORMED_PASSWORD: NTSTATUS = 0xC000006B_u32;",
        "secret = ctx7.kv2.s3cr.h4nd1e.q9",
        "commit 3f2a9d5e8b7c6f1a0e9d8c7b6a5f4e3d2c1b0a99",
        "checksum = \"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"",
        "https://user:password@host/ and http://localhost:8080/@x and git@host:a/b.git",
        "-----BEGIN PRIVATE KEY----- is how such a file starts, as everybody knows",
        "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUQz\n-----END CERTIFICATE-----",
    ] {
        assert_kept(text);
    }
    assert_kept(&format!("AKIA{}EXAMPLE", "IOSFODNN7"));
    assert_kept(&format!("ghp_{}", "x".repeat(36)));
    assert_kept(&format!("ghp_{}", "Zq".repeat(18)));
    assert_kept(&format!("\"integrity\": \"sha512-{}==\"", random_text('b', 86, 1)));
    assert_kept(&format!("\"token\": \"sha512-{}==\"", random_text('b', 86, 1)));
}

/// Templates of lines. The marked part is masked, no matter which rule finds it.
const COMMON_FORMS: &[&str] = &[
    "curl -u admin:«{a12}» https://a.b",
    "curl -uadmin:«{a12}» https://a.b",
    "curl -sku 'admin:«{a12}»' https://a.b",
    "curl --user=admin:«{a12}» https://a.b",
    "mysql -u root -p«{a12}» shop",
    "mysqldump -uroot -p'«{a12}»' --all-databases",
    "sshpass -p «{a12}» ssh me@a.b",
    "sshpass -p'«{a12}»' ssh me@a.b",
    "redis-cli -a «{a12}» ping",
    "docker login -u me -p «{a12}» a.b",
    "echo \"«{a12}»\" | docker login -u me --password-stdin",
    "aws configure set aws_secret_access_key «{a40}» --profile p",
    "tool --db-pass «{a12}»",
    "tool --db-pass=«{a12}»",
    "openssl rsa -in a -passin pass:«{a12}» -out b",
    "openssl enc -pass pass:«{a12}» -in a",
    "echo 'root:«{a12}»' | chpasswd",
    "chpasswd <<< root:«{a12}»",
    "htpasswd -b .htpasswd me «{a12}»",
    "htpasswd -nbB me «{a12}»",
    "//npm.local/:_auth=«{a40}==»",
    "//npm.local/:_authToken=«{h8}-{h4}-{h4}-{h4}-{h12}»",
    "\"a.b\": [\"auth\": \"«{a40}»\"]",
    "    client-key-data: «{b400}==»",
    "define('DB_PASSWORD', '«{a16}»');",
    "define( \"DB_PASSWORD\", \"«{a16}»\" );",
    "db.local:5432:shop:me:«{a12}»",
    "*:*:*:me:«{a12}»",
    "machine a.b\n  login me\n  password «{a12}»\n",
    "default login me password «{a12}»",
    "SECRET_KEY = '«django-insecure-{a20}&(#^{a20})»'",
    "SECRET_KEY = \"«{a25}(@{a24}»\"",
    "MTA{a23}.{a6}.{a38}",
    "vault login «s.{a24}»",
    "vault login «hvs.{a24}»",
    "git clone https://«{h40}»@a.b/c.git",
    "git clone https://«{h40}»:x-oauth-basic@a.b/c.git",
    "postgres://me:«{a6}/{a6}»@a.b/c",
    "postgres://me:«{a6}#{a6}»@a.b/c",
    "password: «{a6}example{a6}»",
    "ghp_{a16}your{a16}",
    "AWS_SECRET_ACCESS_KEY=«{a10}example{a23}»",
    "- name: DB_PASSWORD\n  value: «{a12}»",
];

#[test]
fn secrets_are_found_in_their_common_forms() {
    for template in COMMON_FORMS {
        let (text, expected) = make_example("", template);
        let (before, after) = expected.split_once("[redacted:]").unwrap();
        let masked = mask_text(&text);
        let mask = masked.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
        let is_mask = mask.is_some_and(|mask| mask.starts_with(MASK) && mask.ends_with(']'));
        assert!(is_mask, "{text} became {masked}");
    }
}

#[test]
fn the_data_of_an_image_is_not_masked() {
    let image: String = (0..200).map(|seed| random_text('b', 997, seed)).collect();
    let unlucky = format!("{}/AIza{}+", random_text('b', 400, 7), random_text('a', 35, 3));
    assert_kept(&format!("data:image/png;base64,{image}{unlucky}{image}"));
}

#[test]
fn a_secret_is_found_in_any_quoting() {
    let secret = random_text('a', 30, 5);
    for (before, after) in [
        ("password = \"", "\""),
        ("password: '", "'"),
        ("const API_KEY: &str = \"", "\";"),
        ("apiKey: string = '", "'"),
        ("env[\"API_KEY\"] = \"", "\""),
        ("{\\\"clientSecret\\\": \\\"", "\\\"}"),
        ("{\\\\\\\"clientSecret\\\\\\\": \\\\\\\"", "\\\\\\\"}"),
        ("?access_token=", "&x=1"),
        ("X-Api-Key: ", "\\nAccept: */*"),
        ("export PGPASSWORD=", "; psql"),
    ] {
        let masked = mask_text(&format!("{before}{secret}{after}"));
        let kept = masked.starts_with(&format!("{before}[redacted:"));
        assert!(kept && masked.ends_with(&format!("]{after}")), "{masked}");
    }
}

#[test]
fn a_token_is_found_after_an_escape() {
    let token = format!("ghp_{}", random_text('a', 36, 5));
    for before in ["\\n", "\\u00e9", "token%3D", "/", "-"] {
        assert_eq!(
            mask_text(&format!("{before}{token}")),
            format!("{before}[redacted:github-pat]")
        );
    }
}

#[test]
fn a_secret_is_named_by_an_exact_rule_rather_than_by_a_guess() {
    let token = format!("ghp_{}", random_text('a', 36, 5));
    for text in
        ["token=@", "Authorization: Bearer @", "https://me:@@github.com/a", "\"password\":\"@\""]
    {
        let (before, after) = text.split_once('@').unwrap();
        let masked = mask_text(&format!("{before}{token}{after}"));
        assert_eq!(masked, format!("{before}[redacted:github-pat]{after}"));
    }
}

#[test]
fn private_keys_are_found_even_if_they_are_escaped_or_numbered_or_cut_off() {
    let lines = [
        random_text('b', 64, 1),
        random_text('b', 64, 2),
        format!("{}==", random_text('b', 22, 3)),
    ];
    let dashes = "-----";
    let begin = format!("{dashes}BEGIN OPENSSH PRIVATE KEY{dashes}");
    let end = format!("{dashes}END OPENSSH PRIVATE KEY{dashes}");
    let mask = "[redacted:private-key]";
    for joint in ["\n", "\r\n", "\\n", "\\\\n", "\n    ", "\n> ", "\\n\" +\n\"", "\n   12→"] {
        let body = lines.join(joint);
        let whole = format!("a {begin}{joint}{body}{joint}{end} b");
        assert_eq!(mask_text(&whole), format!("a {mask} b"), "{whole}");
        if joint.contains('"') {
            continue; // A truncated key ends at a quote.
        }
        let cut = format!("a {begin}{joint}{body} b");
        assert_eq!(mask_text(&cut), format!("a {mask} b"), "{cut}");
        let tail = format!("a\n{body}{joint}{end} b");
        assert_eq!(mask_text(&tail), format!("a\n{mask} b"), "{tail}");
    }
    for escape in ["\\n", "\\u00e9"] {
        let tail = format!("a{escape}{}\\n{}\\n{end}", lines[0], lines[1]);
        assert_eq!(mask_text(&tail), format!("a{escape}{mask}"), "{tail}");
    }
    let in_key = format!("{{\"{begin}\\n{}\": \"{end}\"}}", lines[0]);
    assert_eq!(mask_text(&in_key), format!("{{\"{mask}\": \"{end}\"}}"));
    let header = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00FF\n";
    assert_eq!(mask_text(&format!("{begin}\n{header}\n{}", lines[0])), mask);
    let two = format!("{begin}\n{}\n{end}\n", lines[0]).repeat(2);
    assert_eq!(mask_text(&two), format!("{mask}\n{mask}\n"));
}

#[test]
fn masked_text_stays_as_it_is() {
    for (rule, template, _) in EXAMPLES {
        let once = mask_text(&make_example(rule, template).0);
        assert!(matches!(redactor().mask_text(&once), Cow::Borrowed(_)), "{rule}: {once}");
    }
    // The word `password` in a mask is not the name of the value that follows.
    assert_kept(&format!("[redacted:password]: \"{}\"", random_text('a', 20, 9)));
    assert_kept("[redacted:password]: [redacted:api-key]@x, \"token\": \"[redacted:token]\"");
}

#[test]
fn secrets_in_json_are_masked_and_keys_are_kept() {
    let token = format!("ghp_{}", random_text('a', 36, 5));
    let word = random_text('a', 20, 9);
    let mut value = json!({
        "password": word, "apiKey": word, "id": word, "token": "none of your business, sir 2",
        "password_hint": word, "nextToken": word, "count": 12, "ok": true, "none": null,
        "list": ["plain", { "text": format!("use {token} now") }],
        token.clone(): "kept",
    });
    redactor().mask_json(&mut value);
    let expected = json!({
        "password": "[redacted:password]", "apiKey": "[redacted:api-key]", "id": word,
        "token": "none of your business, sir 2", "password_hint": word, "nextToken": word,
        "count": 12, "ok": true, "none": null,
        "list": ["plain", { "text": "use [redacted:github-pat] now" }],
        token: "kept",
    });
    assert_eq!(value, expected);
}

#[test]
fn a_mask_does_not_split_an_escape() {
    let pm = random_text('a', 36, 5);
    // The text has the escape `\n` followed by `pm_…`, not a backslash followed by `npm_…`.
    assert_kept(&format!("\"x\\npm_{pm}\""));
    assert_kept(&format!("[\"PASSWORD=\":{}e5,\"x\"]", random_text('d', 12, 1)));
    assert_kept(&format!("{{\"token\":{}e-7}}", random_text('d', 17, 1)));
}

#[test]
fn hostile_text_takes_linear_time() {
    let size = 200_000;
    for piece in [
        "eyJ-",
        "ghp_-",
        "sk-",
        "-----BEGIN PRIVATE KEY-----",
        "-----END PRIVATE KEY-----",
        "://a:",
        "password=",
        "token=",
        "discord ",
        "curl ",
        "eyJaaaaaaaaaaaaaaaa.",
        "[redacted:",
        "session_token=",
        "--token ",
        "token=!",
        "password:é",
        ":AA",
        "A",
        "AKIA-",
        "machine a login ",
        "mysql -p!",
        "sshpass -",
        "docker login a ",
        "echo a | chpasswd ",
        "pass=!",
        "auth=(\"a\",",
        "define('_KEY',",
        "password is ",
        "MTA.",
        "s.",
        ":5432:a",
        "://a!",
        "-us",
        "\\u0061",
        "bearer ",
    ] {
        let text = piece.repeat(size / piece.len());
        let start = Instant::now();
        mask_text(&text);
        // With quadratic time, this would take minutes. The limit allows for a debug build on a
        // busy machine.
        assert!(start.elapsed() < Duration::from_secs(8), "{piece}: {:?}", start.elapsed());
    }
}

/// Generates text from pieces that matter to the rules and from arbitrary pieces.
fn any_pieces() -> impl Strategy<Value = String> {
    let example = (0..EXAMPLES.len()).prop_map(|at| make_example("", EXAMPLES[at].1).0);
    let keyword = (0..RULES.len(), any::<prop::sample::Index>())
        .prop_map(|(at, word)| RULES[at].keywords[word.index(RULES[at].keywords.len())].to_owned());
    let joint = prop::sample::select(vec![
        " ",
        "\n",
        "\"",
        "'",
        "\\",
        "\\n",
        "\\u00e9",
        "=",
        ": ",
        "://",
        "@",
        "-",
        "_",
        "[redacted:token]",
        "é",
        "{",
        "}",
        ",",
    ]);
    let joint = joint.prop_map(str::to_owned);
    let piece = prop_oneof![2 => example, 2 => keyword, 4 => joint, 2 => "[a-zA-Z0-9]{0,40}", 1 => any::<String>()];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => any_pieces().prop_map(Value::String),
        1 => any::<f64>().prop_map(|number| json!(number)),
        1 => any::<u64>().prop_map(|number| json!(number)),
        1 => any::<bool>().prop_map(Value::Bool),
    ];
    let key = prop_oneof![
        any_pieces(),
        prop::sample::select(vec!["password", "token", "x"]).prop_map(str::to_owned)
    ];
    leaf.prop_recursive(3, 12, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((key.clone(), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn masking_again_changes_nothing(text in any_pieces()) {
        let once = mask_text(&text);
        prop_assert_eq!(mask_text(&once), once);
    }

    #[test]
    fn text_without_keywords_is_borrowed(text in "[b-d ,.!?\n0-9é]{0,400}") {
        prop_assert!(matches!(redactor().mask_text(&text), Cow::Borrowed(same) if same == text));
    }

    #[test]
    fn text_around_a_secret_is_untouched(
        at in 0..EXAMPLES.len(), before in "[b-d ,.!?\n0-9é]{0,40}", after in "[b-d ,.!?\n0-9é]{0,40}",
    ) {
        let (text, masked) = make_example(EXAMPLES[at].0, EXAMPLES[at].1);
        let text = format!("{before}\n{text}\n{after}");
        prop_assert_eq!(mask_text(&text), format!("{before}\n{masked}\n{after}"));
    }

    #[test]
    fn masked_json_is_still_json(value in json_value()) {
        let text = value.to_string();
        let masked = mask_text(&text);
        prop_assert!(serde_json::from_str::<Value>(&masked).is_ok(), "{} became {}", text, masked);
        let within = Value::String(text).to_string();
        let masked = mask_text(&within);
        let outer = serde_json::from_str::<String>(&masked);
        prop_assert!(outer.is_ok(), "{} became {}", within, masked);
        let inner = serde_json::from_str::<Value>(&outer.unwrap());
        prop_assert!(inner.is_ok(), "{} became {}", within, masked);
    }

    #[test]
    fn a_json_value_keeps_its_shape(value in json_value()) {
        let mut masked = value.clone();
        redactor().mask_json(&mut masked);
        prop_assert!(have_same_shape(&value, &masked));
        let once = masked.clone();
        redactor().mask_json(&mut masked);
        prop_assert_eq!(masked, once);
    }
}

fn have_same_shape(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::String(_), Value::String(_)) => true,
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| have_same_shape(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.keys().eq(b.keys()) && a.values().zip(b.values()).all(|(a, b)| have_same_shape(a, b))
        }
        _ => one == other,
    }
}

#[test]
fn short_text_is_masked_like_long_text() {
    for (rule, template, near_miss) in EXAMPLES {
        let fresh = Redactor::new();
        for text in [make_example(rule, template).0, fill_template(near_miss)] {
            let long = format!("{text}{}", "\n".repeat(SHORT_TEXT));
            assert_eq!(mask_text(&long).trim_end(), fresh.mask_text(&text).trim_end(), "{rule}");
            assert!(fresh.keywords.get().is_none(), "{rule}: the automaton was built");
        }
    }
}
