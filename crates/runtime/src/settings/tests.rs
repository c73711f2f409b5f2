use super::*;
use crate::model::Provider;

/// The tables of `config.toml` that this crate reads.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    chat: ChatSettings,
    providers: Providers,
}

const KEY: &str = "sk-ant-0123456789abcdef";

fn resolve_in(
    text: &str,
    choice: ProviderChoice<'_>,
    variables: &[(&str, &str)],
) -> Result<Provider, ResolveError> {
    let file: File = toml::from_str(text).unwrap();
    let environment = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    resolve_provider(&file.chat, &file.providers, choice, &environment)
}

fn resolve(text: &str, variables: &[(&str, &str)]) -> Result<Provider, ResolveError> {
    resolve_in(text, ProviderChoice::default(), variables)
}

fn parse_error(text: &str) -> String {
    toml::from_str::<File>(text).err().map(|error| error.message().to_owned()).unwrap_or_default()
}

#[test]
fn a_well_known_provider_needs_only_its_key() {
    let variables = [("ANTHROPIC_API_KEY", KEY)];
    let provider = resolve("chat.provider = 'anthropic'", &variables).unwrap();
    assert_eq!(provider.kind, ApiKind::Anthropic);
    assert_eq!(provider.base_url, "https://api.anthropic.com/v1");
    assert_eq!(provider.key.as_deref(), Some(KEY));
    assert!(!provider.model.is_empty() && provider.prices.is_some());
    assert!(provider.max_output < provider.context_window);
}

#[test]
fn every_well_known_provider_is_complete() {
    for ready in &READY_PROVIDERS {
        let text = format!("[chat]\nprovider = '{}'\nmodel = 'm'", ready.name);
        let variables: Vec<_> = ready.api_key_env.map(|name| (name, KEY)).into_iter().collect();
        let provider = resolve(&text, &variables).unwrap();
        BaseUrl::try_from(provider.base_url.clone()).unwrap();
        assert_eq!(provider.base_url, ready.base_url, "no slash at the end");
        assert_eq!((provider.prices, provider.model.as_str()), (None, "m"));
        assert_eq!(provider.key.is_some(), ready.api_key_env.is_some());
        if let Some(model) = &ready.model {
            let named = resolve(&format!("chat.provider = '{}'", ready.name), &variables).unwrap();
            assert_eq!((named.model.as_str(), named.prices), (model.name, model.prices));
        }
    }
}

#[test]
fn the_users_own_provider_gets_no_key_unless_one_is_named() {
    let text = "
        [chat]
        provider = 'local'
        [providers.local]
        kind = 'responses'
        base_url = 'http://127.0.0.1:8080/v1/'
        model = 'm'
        context_window = 8192
        prices = { input = 1, output = 2.5 }
    ";
    let provider = resolve(text, &[("OPENAI_API_KEY", KEY)]).unwrap();
    let prices = Prices { input: 1.0, output: 2.5, ..Prices::default() };
    let expected = Provider {
        name: "local".into(),
        kind: ApiKind::Responses,
        base_url: "http://127.0.0.1:8080/v1".into(),
        key: None,
        model: "m".into(),
        context_window: 8192,
        max_output: 4096,
        prices: Some(prices),
    };
    assert_eq!(provider, expected);
}

#[test]
fn a_table_changes_only_the_settings_that_it_names() {
    let text = "
        chat.provider = 'openai'
        [providers.openai]
        base_url = 'https://proxy.example/v1'
        max_output = 1000
    ";
    let provider = resolve(text, &[("OPENAI_API_KEY", KEY)]).unwrap();
    assert_eq!(provider.base_url, "https://proxy.example/v1");
    assert_eq!((provider.kind, provider.max_output), (ApiKind::Responses, 1000));
    assert!(provider.key.is_some());
}

#[test]
fn the_model_in_the_settings_applies_only_to_the_provider_in_the_settings() {
    let text = "
        [chat]
        provider = 'ollama'
        model = 'qwen'
        [providers.vllm]
        model = 'llama'
    ";
    let resolve = |provider, model| {
        resolve_in(text, ProviderChoice { provider, model }, &[]).map(|found| found.model).unwrap()
    };
    assert_eq!(resolve(None, None), "qwen");
    assert_eq!(resolve(Some("ollama"), None), "qwen");
    assert_eq!(resolve(Some("vllm"), None), "llama");
    assert_eq!(resolve(Some("vllm"), Some("other")), "other");
}

#[test]
fn without_a_provider_the_error_names_the_providers_whose_keys_are_set() {
    let found = |variables: &[(&str, &str)]| match resolve("", variables) {
        Err(ResolveError::NoProvider { found }) => found,
        other => panic!("{other:?}"),
    };
    assert_eq!(found(&[]), [""; 0]);
    assert_eq!(found(&[("ANTHROPIC_API_KEY", "")]), [""; 0]);
    let both = [("OPENROUTER_API_KEY", KEY), ("ANTHROPIC_API_KEY", KEY)];
    assert_eq!(found(&both), ["anthropic", "openrouter"]);
}

#[test]
fn errors_say_what_is_missing() {
    let message =
        |text: &str, variables: &[(&str, &str)]| resolve(text, variables).unwrap_err().to_string();
    for (text, expected) in [
        ("chat.provider = 'antropic'", "unknown provider `antropic`"),
        (
            "chat.provider = 'anthropic'",
            "ANTHROPIC_API_KEY, the key of provider `anthropic`, is not set",
        ),
        ("chat.provider = 'ollama'", "provider `ollama` has no model"),
        (
            "chat.provider = 'mine'\n[providers.mine]\nmodel = 'm'",
            "provider `mine` has no base_url",
        ),
        (
            "[chat]\nprovider = 'vllm'\nmodel = 'm'\n[providers.vllm]\nmax_output = 40000",
            "max_output of provider `vllm` (40000) is larger than its context_window (32768)",
        ),
    ] {
        assert_eq!(message(text, &[]), expected);
    }
    let text = "chat.provider = 'anthropic'";
    assert_eq!(
        message(text, &[("ANTHROPIC_API_KEY", " ")]),
        "ANTHROPIC_API_KEY, the key of provider `anthropic`, is empty"
    );
    let Err(ResolveError::UnknownProvider { nearest, .. }) =
        resolve("chat.provider = 'opnai'", &[])
    else {
        panic!("the provider is unknown");
    };
    assert_eq!(nearest.as_deref(), Some("openai"));
}

#[test]
fn the_fallback_has_its_own_model() {
    let text = "
        [chat]
        provider = 'ollama'
        model = 'qwen'
        fallback = 'llamacpp'
    ";
    let file: File = toml::from_str(text).unwrap();
    let fallback = resolve_fallback(&file.chat, &file.providers, &|_| None).unwrap().unwrap();
    assert_eq!((fallback.name.as_str(), fallback.model.as_str()), ("llamacpp", "default"));
    let none = resolve_fallback(&ChatSettings::default(), &file.providers, &|_| None).unwrap();
    assert_eq!(none, None);
}

#[test]
fn a_key_appears_in_no_error_and_no_debug_output() {
    let text = "chat.provider = 'anthropic'";
    let provider = resolve(text, &[("ANTHROPIC_API_KEY", KEY)]).unwrap();
    assert!(!format!("{provider:?}").contains(KEY));
    let broken = format!("{KEY}\r\nX-Other: 1");
    let error = resolve(text, &[("ANTHROPIC_API_KEY", &broken)]).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("sk-ant"), "{error}");
    // Some users write the key itself where the name of the variable belongs.
    let error = parse_error(&format!("providers.mine.api_key_env = '{KEY}'"));
    assert!(error.contains("not the key itself") && !error.contains("sk-ant"), "{error}");
    let error = parse_error(&format!("providers.mine.base_url = 'https://me:{KEY}@host/v1'"));
    assert!(error.contains("api_key_env") && !error.contains("sk-ant"), "{error}");
}

#[test]
fn spaces_around_a_key_are_removed() {
    let variables = [("ANTHROPIC_API_KEY", " sk-1\n")];
    let provider = resolve("chat.provider = 'anthropic'", &variables).unwrap();
    assert_eq!(provider.key.as_deref(), Some("sk-1"));
}

#[test]
fn malformed_settings_are_refused() {
    for (text, expected) in [
        ("providers.x.base_url = 'localhost:8080/v1'", "begins with http:// or https://"),
        ("providers.x.base_url = 'ftp://host/v1'", "begins with http:// or https://"),
        ("providers.x.base_url = 'http:///v1'", "names a host"),
        ("providers.x.base_url = 'http://:8080'", "names a host"),
        ("providers.x.base_url = 'http://host/v 1'", "no spaces"),
        ("providers.x.base_url = 'http://host/v1?key=1'", "no query"),
        ("providers.x.kind = 'gemini'", "unknown variant `gemini`"),
        ("providers.x.api_key = 'k'", "unknown field `api_key`"),
        ("providers.x.context_window = 0", "expected a nonzero"),
        ("providers.x.prices = { input = -1 }", "not negative"),
        ("providers.x.prices = { input = nan }", "not negative"),
        ("providers.x.prices = { in = 1 }", "unknown field `in`"),
        ("chat.approve = 'yes'", "unknown variant `yes`"),
        ("chat.color = 'red'", "unknown field `color`"),
    ] {
        let error = parse_error(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
}
