//! The kinds of secrets, as data.
//!
//! The order matters: if two rules find the same text, the mask names the earlier one. So exact
//! formats come first and guesses last.
//!
//! Expressions are written without Unicode tables (`[A-Za-z]`, `(?i-u:…)`, `[ \t]`), which keeps
//! them small. They need not check that a secret starts and ends where a word does: the search does.

/// One kind of secret.
pub(super) struct Rule {
    /// The name in the mask.
    pub(super) id: &'static str,
    /// A description for readers of this table.
    #[allow(dead_code)]
    pub(super) about: &'static str,
    /// Words of which every secret of this kind has one in it or beside it.
    pub(super) keywords: &'static [&'static str],
    /// The expression around the keyword. The secret is its group 1, or the whole match, or the
    /// value that follows.
    pub(super) regex: &'static str,
    /// The smallest entropy of the secret in bits per character: `AAAA…` is no key.
    pub(super) entropy: f32,
    pub(super) position: KeywordPosition,
    pub(super) test: SecretTest,
}

/// The position of the keyword in the expression.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum KeywordPosition {
    /// The secret starts with the keyword, in exactly this case.
    Start,
    /// The expression starts with the keyword, in any case; the secret comes later.
    Before,
    /// The keyword is the end of a name, in any case; the expression ends where the value starts.
    Name,
    /// The keyword is the end of an option of a command line, `--name value`; the expression ends
    /// where the value starts.
    Option,
    /// The expression starts at most so many bytes before the keyword.
    Around(usize),
    /// The keyword begins or ends a block of lines: see [`super::pem`].
    Block,
}

/// The test that a secret has to pass, beyond its expression and entropy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SecretTest {
    /// None: the format is proof enough.
    Format,
    /// Letters and digits in no order that a human would choose.
    Random,
    /// As random letters and digits, but no UUID: those are often called tokens without being
    /// secret.
    Token,
    /// Like a well chosen password.
    Password,
    /// Anything but an obvious placeholder.
    Any,
}

/// Makes a rule for a token that is known by its first characters.
const fn token(
    id: &'static str,
    about: &'static str,
    keywords: &'static [&'static str],
    regex: &'static str,
    entropy: f32,
) -> Rule {
    Rule {
        id,
        about,
        keywords,
        regex,
        entropy,
        position: KeywordPosition::Start,
        test: SecretTest::Format,
    }
}

impl Rule {
    const fn at(mut self, position: KeywordPosition) -> Rule {
        self.position = position;
        self
    }

    const fn test(mut self, test: SecretTest) -> Rule {
        self.test = test;
        self
    }
}

/// The expression between a name and its value: `=`, `: `, `:=`, `=>`, `": "`, `"] = `, `: &str = `.
macro_rules! gives {
    () => {
        r#"(?:\\{0,8}["'`])?\]?[ \t]{0,8}(?::[ \t]{0,4}&?(?:'static )?[A-Za-z]{2,12}[ \t]{0,4}=|:=|=>|={1,3}|:)[ \t]{0,8}"#
    };
}

#[rustfmt::skip] // One rule a paragraph reads better than one argument a line.
pub(super) const RULES: &[Rule] = &[
    // Keys in armor.
    token("private-key", "PEM, OpenSSH and PGP private keys, also cut off",
        &["-----BEGIN ", "-----END "],
        r"-----(?:BEGIN|END) (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----", 0.0)
        .at(KeywordPosition::Block).test(SecretTest::Any),
    token("age-secret-key", "age identity",
        &["AGE-SECRET-KEY-"], r"AGE-SECRET-KEY-(?:PQ-)?1[0-9A-Z]{58,}", 3.0),

    // Clouds.
    token("aws-access-key", "AWS access key id",
        &["AKIA", "ASIA", "ABIA", "ACCA"], r"A(?:KIA|SIA|BIA|CCA)[A-Z2-7]{16}", 2.8),
    token("aws-secret-key", "AWS secret access key beside its name",
        &["secret_access_key", "secretaccesskey", "secret-access-key", "aws_secret_key"],
        concat!(r"(?i-u:(?:aws_)?secret[_-]?(?:access)?[_-]?key)", gives!(), r#"\\*["']?([A-Za-z0-9/+]{40})"#), 3.5)
        .at(KeywordPosition::Before),
    token("aws-session-token", "AWS session token beside its name",
        &["session_token", "sessiontoken", "session-token"],
        concat!(r"(?i-u:session[_-]?token)", gives!(), r#"\\*["']?([A-Za-z0-9/+]{100,}={0,2})"#), 3.5)
        .at(KeywordPosition::Before),
    token("aws-bedrock-key", "AWS Bedrock API key",
        &["ABSK"], r"ABSK[A-Za-z0-9+/]{100,300}={0,2}", 3.5),
    token("google-api-key", "Google API key",
        &["AIza"], r"AIza[A-Za-z0-9_-]{35}", 3.2),
    token("google-oauth-secret", "Google OAuth client secret",
        &["GOCSPX-"], r"GOCSPX-[A-Za-z0-9_-]{28}", 3.0),
    token("google-access-token", "Google OAuth access token",
        &["ya29."], r"ya29\.[A-Za-z0-9_-]{30,}(?:\.[A-Za-z0-9_-]+)?", 3.2),
    token("google-refresh-token", "Google OAuth refresh token",
        &["1//0"], r"1//0[A-Za-z0-9_-]{40,}", 3.2),
    token("azure-storage-key", "key of an Azure storage account",
        &["AccountKey="], r"(?i-u:AccountKey)=([A-Za-z0-9+/]{86}==)", 4.0).at(KeywordPosition::Before),
    token("azure-shared-key", "Azure Service Bus, Event Hubs and IoT shared key",
        &["SharedAccessKey="], r"(?i-u:SharedAccessKey)=([A-Za-z0-9+/]{43}=)", 3.5).at(KeywordPosition::Before),
    token("azure-client-secret", "secret of a Microsoft Entra app",
        &["Q~"], r"[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}", 3.5).at(KeywordPosition::Around(4)),
    token("azure-sas", "signature of an Azure shared access URL",
        &["sig="], r"sig=([A-Za-z0-9%+/]{40,90}(?:%3[Dd]|=))", 3.5).at(KeywordPosition::Before),
    token("azure-devops-token", "Azure DevOps personal access token",
        &["AZDO"], r"[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}", 3.5).at(KeywordPosition::Around(76)),
    token("alibaba-access-key", "Alibaba Cloud access key id",
        &["LTAI"], r"LTAI[A-Za-z0-9]{16,24}", 3.0),
    token("tencent-secret-id", "Tencent Cloud secret id",
        &["AKID"], r"AKID[A-Za-z0-9]{32}", 3.2),
    token("digitalocean-token", "DigitalOcean token",
        &["dop_v1_", "doo_v1_", "dor_v1_"], r"do[opr]_v1_[a-f0-9]{64}", 3.0),
    token("cloudflare-token", "Cloudflare API token or key",
        &["cfut_", "cfat_", "cfk_"], r"cf(?:ut|at|k)_[A-Za-z0-9]{40,60}", 3.2),
    token("cloudflare-origin-key", "Cloudflare origin CA key",
        &["v1.0-"], r"v1\.0-[a-f0-9]{24}-[a-f0-9]{146}", 3.0),
    token("heroku-key", "Heroku API key",
        &["HRKU-"], r"HRKU-[A-Za-z0-9_-]{36,70}", 3.0),
    token("fly-token", "Fly.io access token",
        &["fm1_", "fm1a_", "fm1r_", "fm2_", "fo1_"], r"f(?:m[12][ar]?|o1)_[A-Za-z0-9+/_-]{40,}={0,2}", 3.5),
    token("netlify-token", "Netlify access token",
        &["nfp_", "nfc_", "nfo_", "nfu_", "nfb_"], r"nf[pcoub]_[A-Za-z0-9]{36}", 3.2),
    token("vault-token", "HashiCorp Vault token",
        &["hvs.", "hvb.", "hvr."], r"hv[sbr]\.[A-Za-z0-9_-]{24,}", 3.2),
    token("terraform-token", "HCP Terraform token",
        &[".atlasv1."], r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70}", 3.5).at(KeywordPosition::Around(14)),
    token("doppler-token", "Doppler token",
        &["dp.pt.", "dp.st.", "dp.sa.", "dp.ct.", "dp.scim.", "dp.audit."],
        r"dp\.[a-z]{2,5}\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}", 3.2),
    token("pulumi-token", "Pulumi access token",
        &["pul-"], r"pul-[a-f0-9]{40}", 3.0),
    token("planetscale-token", "PlanetScale token or password",
        &["pscale_"], r"pscale_(?:tkn|oauth|pw|app_secret)_[A-Za-z0-9=._-]{32,64}", 3.2),
    token("supabase-key", "Supabase secret key or access token",
        &["sbp_", "sb_secret_"], r"(?:sbp_[a-f0-9]{40}|sb_secret_[A-Za-z0-9_-]{31,})", 3.0),
    token("databricks-token", "Databricks access token",
        &["dapi"], r"dapi[a-f0-9]{32}(?:-[0-9])?", 3.0),
    token("mongodb-secret", "MongoDB Atlas service account secret",
        &["mdb_sa_sk_"], r"mdb_sa_sk_[A-Za-z0-9_-]{40}", 3.2),

    // Where code and packages are kept.
    token("github-pat", "GitHub personal access token",
        &["ghp_"], r"ghp_[A-Za-z0-9]{36,255}", 3.0),
    token("github-fine-grained-pat", "GitHub fine-grained access token",
        &["github_pat_"], r"github_pat_[A-Za-z0-9_]{50,255}", 3.2),
    token("github-oauth", "GitHub OAuth token",
        &["gho_"], r"gho_[A-Za-z0-9]{36,255}", 3.0),
    token("github-app-token", "GitHub App token, for a user or a server",
        &["ghu_", "ghs_"], r"gh[us]_[A-Za-z0-9]{36,255}", 3.0),
    token("github-refresh-token", "GitHub refresh token",
        &["ghr_"], r"ghr_[A-Za-z0-9]{36,255}", 3.0),
    token("gitlab-token", "GitLab token of any kind",
        &["glpat-", "gloas-", "gldt-", "glrt-", "glrtr-", "glcbt-", "glptt-", "glft-", "glimt-",
            "glagent-", "glsoat-", "glffct-", "glwt-"],
        r"gl(?:pat|oas|dt|rtr?|cbt|ptt|ft|imt|agent|soat|ffct|wt)-[A-Za-z0-9_=-]{20,}(?:\.[A-Za-z0-9]{2}\.[a-z0-9]{9})?", 3.0),
    token("gitlab-runner-token", "GitLab runner registration token",
        &["GR1348941"], r"GR1348941[A-Za-z0-9_-]{20}", 3.0),
    token("atlassian-token", "Atlassian and Bitbucket token",
        &["ATATT3", "ATCTT3", "ATBB"],
        r"AT(?:(?:ATT|CTT)3[A-Za-z0-9_=-]{100,}|BB[A-Za-z0-9]{32})", 3.2),
    token("sourcegraph-token", "Sourcegraph access token",
        &["sgp_"], r"sgp_(?:[a-f0-9]{16}_|local_)?[a-f0-9]{40}", 3.0),
    token("npm-token", "npm access token",
        &["npm_"], r"npm_[A-Za-z0-9]{36}", 3.2),
    token("pypi-token", "PyPI upload token",
        &["pypi-AgE"], r"pypi-AgE[A-Za-z0-9_-]{50,}", 3.5),
    token("crates-io-token", "crates.io token",
        &["cio"], r"cio[A-Za-z0-9]{32}", 3.2),
    token("rubygems-key", "RubyGems API key",
        &["rubygems_"], r"rubygems_[a-f0-9]{48}", 3.0),
    token("nuget-key", "NuGet API key",
        &["oy2"], r"oy2[a-z0-9]{43}", 3.2),
    token("clojars-token", "Clojars deploy token",
        &["CLOJARS_"], r"CLOJARS_[a-z0-9]{60}", 3.2),
    token("docker-token", "Docker Hub token of a person or an organization",
        &["dckr_pat_", "dckr_oat_"], r"dckr_[po]at_[A-Za-z0-9_-]{27,}", 3.0),
    token("artifactory-key", "JFrog Artifactory key or reference token",
        &["AKCp", "cmVmdGtu"], r"(?:AKCp[A-Za-z0-9]{69}|cmVmdGtu[A-Za-z0-9]{56})", 3.5),

    // Models.
    token("anthropic-key", "Anthropic API key or OAuth token",
        &["sk-ant-"], r"sk-ant-[a-z]{2,8}[0-9]{2}-[A-Za-z0-9_-]{24,}", 3.2),
    token("openrouter-key", "OpenRouter API key",
        &["sk-or-"], r"sk-or-v[0-9]-[a-f0-9]{64}", 3.0),
    token("langfuse-key", "Langfuse secret key",
        &["sk-lf-"], r"sk-lf-[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}", 2.8),
    token("openai-key", "OpenAI API key, and the many that look like it",
        &["sk-"], r"sk-(?:(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{40,}|[A-Za-z0-9]{32,})", 3.2),
    token("huggingface-token", "Hugging Face token",
        &["hf_", "api_org_"], r"(?:hf|api_org)_[A-Za-z0-9]{34,40}", 3.2),
    token("replicate-token", "Replicate API token",
        &["r8_"], r"r8_[A-Za-z0-9]{37}", 3.2),
    token("groq-key", "Groq API key",
        &["gsk_"], r"gsk_[A-Za-z0-9]{52}", 3.5),
    token("xai-key", "xAI API key",
        &["xai-"], r"xai-[A-Za-z0-9]{70,90}", 3.5),
    token("perplexity-key", "Perplexity API key",
        &["pplx-"], r"pplx-[A-Za-z0-9]{40,56}", 3.2),
    token("cerebras-key", "Cerebras API key",
        &["csk-"], r"csk-[a-z0-9]{48}", 3.2),
    token("nvidia-key", "NVIDIA API key",
        &["nvapi-"], r"nvapi-[A-Za-z0-9_-]{60,70}", 3.5),
    token("elevenlabs-key", "ElevenLabs API key",
        &["sk_"], r"sk_[a-f0-9]{48}", 3.0),
    token("tavily-key", "Tavily API key",
        &["tvly-"], r"tvly-(?:dev-|prod-)?[A-Za-z0-9]{32}", 3.2),
    token("firecrawl-key", "Firecrawl API key",
        &["fc-"], r"fc-[a-f0-9]{32}", 3.0),
    token("jina-key", "Jina API key",
        &["jina_"], r"jina_[A-Za-z0-9_-]{50,70}", 3.5),
    token("pinecone-key", "Pinecone API key",
        &["pcsk_"], r"pcsk_[A-Za-z0-9_]{60,80}", 3.5),
    token("langsmith-key", "LangSmith API key",
        &["lsv2_"], r"lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}", 3.0),

    // Messages and mail.
    token("slack-token", "Slack bot, user, refresh or app token",
        &["xoxa-", "xoxb-", "xoxc-", "xoxd-", "xoxe-", "xoxe.xox", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-"],
        r"(?:xox[a-es]-|xox[opr]-|xoxe\.xox[bp]-|xapp-)[A-Za-z0-9%-]{20,}", 2.8),
    token("slack-webhook", "Slack incoming webhook",
        &["hooks.slack.com/"],
        r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_-]{40,})", 3.2).at(KeywordPosition::Before),
    token("teams-webhook", "Microsoft Teams incoming webhook",
        &[".webhook.office.com/"],
        r"\.webhook\.office\.com/webhookb2/([a-f0-9@-]{70,80}/IncomingWebhook/[a-f0-9]{32}/[A-Za-z0-9_/-]{30,})", 3.0)
        .at(KeywordPosition::Before),
    token("discord-webhook", "Discord webhook",
        &["/api/webhooks/"], r"/api/webhooks/([0-9]{17,20}/[A-Za-z0-9_-]{60,})", 3.5).at(KeywordPosition::Before),
    token("discord-token", "Discord bot token near that name",
        &["discord"],
        r"(?i-u:discord)[^\r\n]{0,80}?[^A-Za-z0-9_\r\n-]([MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40})", 3.5)
        .at(KeywordPosition::Before),
    token("telegram-token", "Telegram bot token",
        &[":AA"], r"(?:^|[^0-9])([0-9]{8,10}:AA[A-Za-z0-9_-]{33})", 3.5).at(KeywordPosition::Around(11)),
    token("twilio-key", "Twilio API key",
        &["SK"], r"SK[a-f0-9]{32}", 3.0),
    token("sendgrid-key", "SendGrid API key",
        &["SG."], r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}", 3.5),
    token("mailgun-key", "Mailgun API key",
        &["key-"], r"key-[a-f0-9]{32}", 3.0),
    token("mailchimp-key", "Mailchimp API key",
        &["-us"], r"[a-f0-9]{32}-us[0-9]{1,2}", 3.0).at(KeywordPosition::Around(32)),
    token("brevo-key", "Brevo API or SMTP key",
        &["xkeysib-", "xsmtpsib-"], r"x(?:key|smtp)sib-[a-f0-9]{64}-[A-Za-z0-9]{16}", 3.0),
    token("resend-key", "Resend API key",
        &["re_"], r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{24}", 3.2),
    token("facebook-token", "Facebook access token",
        &["EAA"], r"EAA[A-Za-z0-9]{100,}", 3.8),
    token("twitter-bearer", "Bearer token of X, formerly Twitter",
        &["AAAAAAAAAAAAAAAAAAAA"], r"A{20,24}[A-Za-z0-9]{8,60}%[A-F0-9]{2}[A-Za-z0-9%]{20,120}", 3.0),

    // Money.
    token("stripe-key", "Stripe secret or restricted key",
        &["sk_live_", "sk_test_", "rk_live_", "rk_test_"], r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}", 3.0),
    token("webhook-secret", "signing secret of a webhook, of Stripe and others",
        &["whsec_"], r"whsec_[A-Za-z0-9+/]{24,}={0,2}", 3.0),
    token("square-token", "Square token or secret",
        &["sq0csp-", "sq0atp-", "EAAA"], r"(?:sq0csp-[A-Za-z0-9_-]{43}|sq0atp-[A-Za-z0-9_-]{22}|EAAA[A-Za-z0-9_-]{60})", 3.2),
    token("braintree-token", "PayPal Braintree access token",
        &["access_token$"], r"access_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[a-f0-9]{32}", 3.0),
    token("shopify-token", "Shopify token or shared secret",
        &["shpat_", "shpca_", "shppa_", "shpss_"], r"shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}", 3.0),
    token("flutterwave-key", "Flutterwave secret key",
        &["FLWSECK"], r"FLWSECK(?:_TEST)?-[A-Za-z0-9]{12,40}-X", 3.0),
    token("plaid-token", "Plaid access token",
        &["access-sandbox-", "access-development-", "access-production-"],
        r"access-(?:sandbox|development|production)-[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}", 3.0),
    token("easypost-key", "EasyPost API key",
        &["EZAK", "EZTK"], r"EZ[AT]K[A-Za-z0-9]{54}", 3.5),
    token("shippo-token", "Shippo API token",
        &["shippo_"], r"shippo_(?:live|test)_[a-f0-9]{40}", 3.0),

    // Services.
    token("grafana-token", "Grafana Cloud or service account token",
        &["glc_", "glsa_"], r"(?:glc_[A-Za-z0-9+/]{32,}={0,2}|glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8})", 3.2),
    token("sentry-token", "Sentry token of a person or an organization",
        &["sntrys_", "sntryu_"], r"sntry(?:u_[a-f0-9]{64}|s_[A-Za-z0-9+/=_-]{60,})", 3.0),
    token("newrelic-key", "New Relic key",
        &["NRAK-", "NRII-", "NRIQ-", "NRRA-"], r"NR(?:AK|II|IQ|RA)-[A-Za-z0-9_-]{27,42}", 3.0),
    token("honeycomb-key", "Honeycomb key",
        &["hcaik_", "hcbik_", "hcamk_", "hcbmk_", "hcxik_", "hcxlk_"], r"hc[a-z][iml]k_[a-z0-9]{40,64}", 3.2),
    token("dynatrace-token", "Dynatrace token",
        &["dt0c01.", "dt0s01.", "dt0s02.", "dt0s16."], r"dt0[a-z][0-9]{2}\.[A-Z0-9]{8,24}\.[A-Z0-9]{64}", 3.2),
    token("linear-key", "Linear API key or OAuth token",
        &["lin_api_", "lin_oauth_"], r"lin_(?:api|oauth)_[A-Za-z0-9]{32,64}", 3.2),
    token("notion-token", "Notion integration token",
        &["ntn_", "secret_"], r"(?:ntn_[A-Za-z0-9]{40,50}|secret_[A-Za-z0-9]{43})", 3.5),
    token("figma-token", "Figma token",
        &["figd_", "figu_", "figo_", "figr_", "figoh_", "figor_"], r"fig(?:[duor]|oh|or)_[A-Za-z0-9_-]{40,}", 3.2),
    token("postman-key", "Postman API key",
        &["PMAK-"], r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}", 3.0),
    token("airtable-token", "Airtable personal access token",
        &["pat"], r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}", 3.2),
    token("hubspot-token", "HubSpot private app token",
        &["pat-na", "pat-eu"], r"pat-(?:na|eu)[0-9]-[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}", 3.0),
    token("typeform-token", "Typeform access token",
        &["tfp_"], r"tfp_[A-Za-z0-9_.=-]{40,}", 3.2),
    token("contentful-token", "Contentful personal access token",
        &["CFPAT-"], r"CFPAT-[A-Za-z0-9_-]{43}", 3.2),
    token("launchdarkly-key", "LaunchDarkly SDK or API key",
        &["sdk-", "api-"], r"(?:sdk|api)-[a-f0-9]{8}-[a-f0-9]{4}-4[a-f0-9]{3}-[a-f0-9]{4}-[a-f0-9]{12}", 3.0),
    token("readme-key", "ReadMe API key",
        &["rdme_"], r"rdme_[a-z0-9]{70}", 3.2),
    token("posthog-key", "PostHog personal API key",
        &["phx_"], r"phx_[A-Za-z0-9]{40,60}", 3.2),
    token("mapbox-token", "Mapbox secret token",
        &["sk.eyJ"], r"sk\.eyJ[A-Za-z0-9_-]{40,}\.[A-Za-z0-9_-]{20,}", 3.5),
    token("adafruit-key", "Adafruit IO key",
        &["aio_"], r"aio_[A-Za-z0-9]{28}", 3.2),
    token("onepassword-token", "1Password service account token or secret key",
        &["ops_eyJ", "A3-"],
        r"(?:ops_eyJ[A-Za-z0-9+/_-]{100,}={0,2}|A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3})", 3.0),
    token("tailscale-key", "Tailscale key",
        &["tskey-"], r"tskey-[a-z]{3,10}-[A-Za-z0-9]{8,20}-[A-Za-z0-9]{20,40}", 3.2),
    token("buildkite-token", "Buildkite token",
        &["bkua_"], r"bkua_[a-f0-9]{40}", 3.0),
    token("circleci-token", "CircleCI token",
        &["CCIPAT_", "CCIPRJ_"], r"CCIP(?:AT|RJ)_[A-Za-z0-9]{22}_[a-f0-9]{40}", 3.0),
    token("sonar-token", "SonarQube token",
        &["squ_", "sqp_", "sqa_"], r"sq[pua]_[a-f0-9]{40}", 3.0),
    token("prefect-key", "Prefect API key",
        &["pnu_", "pnb_"], r"pn[ub]_[A-Za-z0-9]{36}", 3.2),

    // Kinds that many services share.
    token("jwt", "JSON Web Token",
        &["eyJ"], r"eyJ[A-Za-z0-9_-]{14,}\.eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{16,}", 3.5),
    token("url-password", "password in a URL",
        &["://"],
        r#"://[^ \t\r\n/?#@:"'`\\<>\[\](){}]{0,100}:([^ \t\r\n/@"'`\\<>\[\](){}]{4,200})@[A-Za-z0-9\[]"#, 1.5)
        .at(KeywordPosition::Before).test(SecretTest::Any),
    token("basic-auth", "Authorization header with a name and a password",
        &["basic "], r"(?i-u:basic) {1,4}([A-Za-z0-9+/]{16,400}={0,2})", 3.2)
        .at(KeywordPosition::Before).test(SecretTest::Random),
    token("bearer-token", "Authorization header with a token",
        &["bearer ", "authorization: token ", "authorization: bot ", "ssws "],
        r"(?i-u:bearer|authorization: (?:token|bot)|ssws) {1,4}([A-Za-z0-9._~+/-]{16,2000}={0,2})", 3.2)
        .at(KeywordPosition::Before).test(SecretTest::Random),
    token("curl-user", "name and password for curl or wget",
        &["curl ", "wget "],
        r#"(?i-u:curl|wget) [^\r\n]{0,200}? (?:-u|--user|--proxy-user)[ =]{0,2}\\*["']?[^ \t\r\n:"'\\$]{1,60}:([^ \t\r\n"'\\]{4,100})"#, 1.5)
        .at(KeywordPosition::Before).test(SecretTest::Any),
    token("netrc-password", "line of a .netrc file",
        &["machine "],
        r"machine [^ \t\r\n]{1,100}[ \t\r\n]{1,4}login [^ \t\r\n]{1,100}[ \t\r\n]{1,4}password ([^ \t\r\n\x22\x27\\]{4,100})", 1.5)
        .at(KeywordPosition::Before).test(SecretTest::Any),

    // Guesses by the name that a value is given to.
    token("password", "value called a password",
        &["password", "passwd", "passphrase", "pwd", "_pass"],
        concat!(r"(?i-u:password|passwd|passphrase|pwd|_pass)", gives!()), 2.5)
        .at(KeywordPosition::Name).test(SecretTest::Password),
    token("password-option", "password given to a command",
        &["password", "passwd", "passphrase"], r"(?:password|passwd|passphrase) {1,4}", 2.5)
        .at(KeywordPosition::Option).test(SecretTest::Password),
    token("api-key", "value called an API key or a secret",
        &["api_key", "apikey", "api-key", "access_key", "accesskey", "access-key", "secret_key", "secretkey",
            "secret-key", "private_key", "privatekey", "private-key", "auth_key", "authkey", "auth-key",
            "encryption_key", "signing_key", "master_key", "secret", "secret_key_base", "credential"],
        concat!(r"(?i-u:(?:api|access|secret|private|auth|encryption|signing|master)[_-]?key(?:_base)?|secret|credential)",
            gives!()), 3.2)
        .at(KeywordPosition::Name).test(SecretTest::Random),
    token("token", "value called a token",
        &["token"], concat!(r"(?i-u:token)", gives!()), 3.4)
        .at(KeywordPosition::Name).test(SecretTest::Token),
    token("key-option", "key, secret or token given to a command",
        &["api-key", "access-key", "secret-key", "secret", "token"],
        r"(?:api-key|access-key|secret-key|secret|token) {1,4}", 3.3)
        .at(KeywordPosition::Option).test(SecretTest::Token),
];
