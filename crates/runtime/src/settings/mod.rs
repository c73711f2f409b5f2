//! The settings of the agent: the tables `[chat]` and `[providers.<name>]` of `config.toml`.

mod prices;
mod ready;
mod resolve;

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;

use serde::{Deserialize, Deserializer, Serialize};

use crate::approval::ApprovalMode;
use crate::model::{ApiKind, Prices};

pub use prices::PriceList;
pub use ready::{READY_PROVIDERS, ReadyModel, ReadyProvider, find_ready};
pub use resolve::{ProviderChoice, ResolveError, resolve_fallback, resolve_provider};

/// The table `[chat]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChatSettings {
    /// The name of the provider that answers.
    pub provider: Option<String>,
    /// The model to use, instead of the default model of that provider.
    pub model: Option<String>,
    /// The name of the provider that takes over when the first one keeps failing.
    pub fallback: Option<String>,
    /// The calls that the user is asked about.
    pub approve: ApprovalMode,
    /// The text that replaces the agent's own system prompt.
    pub system_prompt: Option<String>,
    /// True if interrupted tasks are continued without asking the user.
    pub auto_resume: bool,
    /// The journal that decides which steps count.
    pub journal: JournalPlace,
    /// True if the model may read web pages.
    pub fetch_url: bool,
}

/// The place of the journal that decides which steps of a task count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalPlace {
    /// The ledger of this machine.
    #[default]
    Local,
    /// The ledger of this machine and the fleet's database, so that another machine can continue.
    Fleet,
}

/// The tables `[providers.<name>]`, by name.
pub type Providers = BTreeMap<String, ProviderSettings>;

/// A table `[providers.<name>]`. If there is a well-known provider with this name, its values are
/// used for missing settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct ProviderSettings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<ApiKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<BaseUrl>,
    /// The environment variable that holds the key. `None` means that no key is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<VariableName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The number of tokens that the model accepts, input and output together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<NonZeroU64>,
    /// The maximum number of tokens in a reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output: Option<NonZeroU64>,
    /// The prices in US dollars per million tokens.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "check_prices")]
    pub prices: Option<Prices>,
}

fn check_prices<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Prices>, D::Error> {
    let prices = Prices::deserialize(deserializer)?;
    match are_valid(&prices) {
        true => Ok(Some(prices)),
        false => Err(serde::de::Error::custom(WRONG_PRICE)),
    }
}

const WRONG_PRICE: &str = "a price must be a number that is not negative";

fn are_valid(prices: &Prices) -> bool {
    let all = [prices.input, prices.output, prices.cache_read, prices.cache_write];
    all.iter().all(|price| price.is_finite() && *price >= 0.0)
}

/// The address of a model server, without a trailing slash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct BaseUrl(String);

impl TryFrom<String> for BaseUrl {
    type Error = &'static str;

    /// Checks the address. The errors do not repeat the address, because it may contain a password.
    fn try_from(url: String) -> Result<BaseUrl, &'static str> {
        let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
        let Some(rest) = rest else {
            return Err("a base_url begins with http:// or https://");
        };
        let host = rest.split('/').next().unwrap_or_default();
        if host.contains('@') {
            return Err("a base_url has no user or password; name the variable with the key in \
                        api_key_env");
        }
        if host.is_empty() || host.starts_with(':') {
            return Err("a base_url names a host, as in http://127.0.0.1:8080/v1");
        }
        if !url.chars().all(|character| character.is_ascii_graphic()) || url.contains(['?', '#']) {
            return Err("a base_url has no spaces, no query and no fragment");
        }
        Ok(BaseUrl(url.trim_end_matches('/').to_owned()))
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of an environment variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct VariableName(String);

impl VariableName {
    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for VariableName {
    type Error = &'static str;

    /// Checks the name. The error does not repeat the name, because it may be the key itself.
    fn try_from(name: String) -> Result<VariableName, &'static str> {
        let is_first = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
        let is_name = name.starts_with(is_first)
            && name.chars().all(|letter| is_first(letter) || letter.is_ascii_digit());
        match is_name {
            true => Ok(VariableName(name)),
            false => Err("api_key_env is the name of an environment variable, such as \
                          OPENAI_API_KEY, not the key itself"),
        }
    }
}

#[cfg(test)]
mod tests;
