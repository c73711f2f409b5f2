//! Turning settings into a [`Provider`] to which requests can be sent.

use thiserror::Error;

use super::{
    ChatSettings, ProviderSettings, Providers, READY_PROVIDERS, ReadyModel, ReadyProvider,
    find_ready,
};
use crate::model::{ApiKind, Provider};

/// The assumed limits of a model about which nothing is known.
const UNKNOWN_WINDOW: u64 = 32_768;
const UNKNOWN_OUTPUT: u64 = 8_192;

/// A provider and a model that the user asks for, instead of those in the settings.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct ProviderChoice<'a> {
    pub provider: Option<&'a str>,
    pub model: Option<&'a str>,
}

/// The reason why no provider can be used. The messages never contain a key.
#[derive(Debug, Error, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum ResolveError {
    /// `found` lists the well-known providers whose keys are in the environment.
    #[error("no model provider is set")]
    NoProvider { found: Vec<&'static str> },
    #[error("unknown provider `{name}`")]
    UnknownProvider { name: String, nearest: Option<String> },
    #[error("provider `{name}` has no base_url")]
    NoAddress { name: String },
    #[error("provider `{name}` has no model")]
    NoModel { name: String, base_url: String },
    #[error("{variable}, the key of provider `{name}`, is {}", if *is_empty { "empty" } else { "not set" })]
    NoKey { name: String, variable: String, is_empty: bool },
    #[error("{variable}, the key of provider `{name}`, contains spaces or control characters")]
    MalformedKey { name: String, variable: String },
    #[error(
        "max_output of provider `{name}` ({max_output}) is larger than its context_window \
         ({context_window})"
    )]
    OutputTooLarge { name: String, max_output: u64, context_window: u64 },
}

/// Returns the provider that answers. `environment` looks up environment variables.
///
/// ```
/// use takeback_runtime::settings::{
///     ChatSettings, ProviderChoice, Providers, resolve_provider,
/// };
///
/// let chat = ChatSettings { provider: Some("llamacpp".into()), ..ChatSettings::default() };
/// let choice = ProviderChoice::default();
/// let provider = resolve_provider(&chat, &Providers::new(), choice, &|_| None).unwrap();
/// assert_eq!(provider.base_url, "http://127.0.0.1:8080/v1");
/// ```
pub fn resolve_provider(
    chat: &ChatSettings,
    providers: &Providers,
    choice: ProviderChoice<'_>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Provider, ResolveError> {
    let set = chat.provider.as_deref();
    let Some(name) = choice.provider.or(set) else {
        return Err(ResolveError::NoProvider { found: find_keys(environment) });
    };
    // The model in the settings applies only to the provider in the settings.
    let set_model = chat.model.as_deref().filter(|_| set == Some(name));
    resolve_named(providers, name, choice.model.or(set_model), environment)
}

/// Returns the provider that takes over when the first one keeps failing, if there is one.
pub fn resolve_fallback(
    chat: &ChatSettings,
    providers: &Providers,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Provider>, ResolveError> {
    let fallback = chat.fallback.as_deref();
    fallback.map(|name| resolve_named(providers, name, None, environment)).transpose()
}

/// Lists the names of the well-known providers whose keys are in the environment.
fn find_keys(environment: &dyn Fn(&str) -> Option<String>) -> Vec<&'static str> {
    let has_key = |ready: &&ReadyProvider| {
        let key = ready.api_key_env.and_then(environment);
        key.is_some_and(|key| !key.trim().is_empty())
    };
    const { &READY_PROVIDERS }.iter().filter(has_key).map(|ready| ready.name).collect()
}

fn resolve_named(
    providers: &Providers,
    name: &str,
    model: Option<&str>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Provider, ResolveError> {
    let ready = find_ready(name);
    let unset = ProviderSettings::default();
    let set = match (providers.get(name), ready) {
        (Some(set), _) => set,
        (None, Some(_)) => &unset,
        (None, None) => return Err(unknown(providers, name)),
    };
    let base_url = set.base_url.as_ref().map(ToString::to_string);
    let Some(base_url) = base_url.or_else(|| Some(ready?.base_url.to_owned())) else {
        return Err(ResolveError::NoAddress { name: name.to_owned() });
    };
    let ready_model = ready.and_then(|ready| ready.model.as_ref());
    let model = model.or(set.model.as_deref()).or_else(|| Some(ready_model?.name));
    let Some(model) = model.filter(|model| !model.is_empty()) else {
        return Err(ResolveError::NoModel { name: name.to_owned(), base_url });
    };
    // The known limits and prices apply to one model only, not to all models of the provider.
    let known = ready_model.filter(|known| known.name == model);
    let (context_window, max_output) = find_limits(name, set, ready, known)?;
    Ok(Provider {
        name: name.to_owned(),
        kind: set.kind.or(ready.map(|ready| ready.kind)).unwrap_or(ApiKind::Openai),
        base_url,
        key: find_key(name, set, ready, environment)?,
        model: model.to_owned(),
        context_window,
        max_output,
        prices: set.prices.or_else(|| known?.prices),
    })
}

/// Returns the context window and the output limit.
fn find_limits(
    name: &str,
    set: &ProviderSettings,
    ready: Option<&ReadyProvider>,
    known: Option<&ReadyModel>,
) -> Result<(u64, u64), ResolveError> {
    let (context_window, max_output) = match (known, ready) {
        (Some(known), _) => (known.context_window, known.max_output),
        (None, Some(ready)) => (ready.context_window, ready.max_output),
        (None, None) => (UNKNOWN_WINDOW, UNKNOWN_OUTPUT),
    };
    let context_window = set.context_window.map_or(context_window, u64::from);
    // A small window must leave room for the input.
    let max_output = set.max_output.map_or(max_output.min(context_window / 2), u64::from);
    match max_output > context_window {
        true => {
            let name = name.to_owned();
            Err(ResolveError::OutputTooLarge { name, max_output, context_window })
        }
        false => Ok((context_window, max_output)),
    }
}

fn unknown(providers: &Providers, name: &str) -> ResolveError {
    let ready = const { &READY_PROVIDERS }.iter().map(|ready| ready.name);
    let names = providers.keys().map(String::as_str).chain(ready);
    let nearest = takeback_base::text::find_similar(name, names).map(str::to_owned);
    ResolveError::UnknownProvider { name: name.to_owned(), nearest }
}

/// Reads the key of a provider, or returns `None` if the provider needs none.
fn find_key(
    name: &str,
    set: &ProviderSettings,
    ready: Option<&ReadyProvider>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<String>, ResolveError> {
    let set = set.api_key_env.as_ref().map(super::VariableName::as_str);
    let Some(variable) = set.or_else(|| ready?.api_key_env) else { return Ok(None) };
    let (value, name) = (environment(variable), name.to_owned());
    let variable = variable.to_owned();
    match value.as_deref().map(str::trim) {
        None => Err(ResolveError::NoKey { name, variable, is_empty: false }),
        Some("") => Err(ResolveError::NoKey { name, variable, is_empty: true }),
        Some(key) if key.chars().all(|letter| letter.is_ascii_graphic()) => {
            Ok(Some(key.to_owned()))
        }
        // Such a key could not be sent in a header.
        Some(_) => Err(ResolveError::MalformedKey { name, variable }),
    }
}
