//! The well-known providers, which need only a key or a running server.

use crate::model::{ApiKind, Prices};

/// A provider that can be used by its name alone.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct ReadyProvider {
    pub name: &'static str,
    pub kind: ApiKind,
    pub base_url: &'static str,
    /// The environment variable that holds the key; `None` for a local server.
    pub api_key_env: Option<&'static str>,
    /// The model that is used unless the user names another.
    pub model: Option<ReadyModel>,
    /// The context window of the provider's other models, unless the user sets it.
    pub context_window: u64,
    /// The output limit of the provider's other models, unless the user sets it.
    pub max_output: u64,
}

/// A model whose limits and prices are known.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct ReadyModel {
    pub name: &'static str,
    pub context_window: u64,
    pub max_output: u64,
    /// `None` if the model costs nothing, because it runs on the user's machine.
    pub prices: Option<Prices>,
}

const CLAUDE_PRICES: Prices =
    Prices { input: 2.0, output: 10.0, cache_read: 0.2, cache_write: 2.5 };

/// The well-known providers. Limits and prices are those of November 2026.
pub const READY_PROVIDERS: [ReadyProvider; 7] = [
    ReadyProvider {
        name: "anthropic",
        kind: ApiKind::Anthropic,
        base_url: "https://api.anthropic.com/v1",
        api_key_env: Some("ANTHROPIC_API_KEY"),
        model: Some(ReadyModel {
            name: "claude-sonnet-5-5",
            context_window: 1_000_000,
            max_output: 128_000,
            prices: Some(CLAUDE_PRICES),
        }),
        context_window: 200_000,
        max_output: 32_000,
    },
    ReadyProvider {
        name: "openai",
        kind: ApiKind::Responses,
        base_url: "https://api.openai.com/v1",
        api_key_env: Some("OPENAI_API_KEY"),
        model: Some(ReadyModel {
            name: "gpt-6.1-sol",
            // The model accepts 1,050,000 tokens, but a request above 272,000 costs twice as much.
            context_window: 272_000,
            max_output: 128_000,
            prices: Some(Prices { input: 2.0, output: 10.0, cache_read: 0.1, cache_write: 2.5 }),
        }),
        context_window: 128_000,
        max_output: 16_384,
    },
    ReadyProvider {
        name: "openrouter",
        kind: ApiKind::Openai,
        base_url: "https://openrouter.ai/api/v1",
        api_key_env: Some("OPENROUTER_API_KEY"),
        model: Some(ReadyModel {
            name: "anthropic/claude-sonnet-5.5",
            context_window: 1_000_000,
            max_output: 128_000,
            prices: Some(CLAUDE_PRICES),
        }),
        context_window: 128_000,
        max_output: 16_384,
    },
    local("ollama", "http://127.0.0.1:11434/v1", None),
    // A llama.cpp server runs one model, and accepts any name for it.
    local(
        "llamacpp",
        "http://127.0.0.1:8080/v1",
        Some(ReadyModel {
            name: "default",
            context_window: LOCAL_WINDOW,
            max_output: LOCAL_OUTPUT,
            prices: None,
        }),
    ),
    local("lmstudio", "http://127.0.0.1:1234/v1", None),
    local("vllm", "http://127.0.0.1:8000/v1", None),
];

const LOCAL_WINDOW: u64 = 32_768;
const LOCAL_OUTPUT: u64 = 8_192;

const fn local(
    name: &'static str,
    base_url: &'static str,
    model: Option<ReadyModel>,
) -> ReadyProvider {
    ReadyProvider {
        name,
        kind: ApiKind::Openai,
        base_url,
        api_key_env: None,
        model,
        context_window: LOCAL_WINDOW,
        max_output: LOCAL_OUTPUT,
    }
}

/// Finds a well-known provider by its name.
///
/// ```
/// use takeback_runtime::settings::find_ready;
///
/// let ready = find_ready("anthropic").unwrap();
/// assert_eq!(ready.api_key_env, Some("ANTHROPIC_API_KEY"));
/// assert!(find_ready("unknown").is_none());
/// ```
pub fn find_ready(name: &str) -> Option<&'static ReadyProvider> {
    const { &READY_PROVIDERS }.iter().find(|ready| ready.name == name)
}
