//! Hints for errors about model providers, with the exact lines to add to config.toml.

use takeback_runtime::settings::{READY_PROVIDERS, ResolveError, find_ready};

use crate::failure::Failure;

impl Failure {
    /// Explains an error about model providers. `config` is the path of config.toml, as the hints
    /// show it.
    pub(crate) fn of_provider(error: &ResolveError, config: &str) -> Failure {
        let failure = Failure::of(error);
        match error {
            ResolveError::NoProvider { found } => failure.hint(choose_provider(found, config)),
            ResolveError::UnknownProvider { nearest: Some(nearest), .. } => {
                failure.hint(format!("did you mean `{nearest}`?"))
            }
            ResolveError::UnknownProvider { name, nearest: None } => failure.hint(format!(
                "the built-in providers are {}; add your own to {config}:\n{}",
                ready_names(),
                own_provider(name)
            )),
            ResolveError::NoAddress { name } => {
                failure.hint(format!("add these lines to {config}:\n{}", own_provider(name)))
            }
            ResolveError::NoModel { name, base_url } => failure.hint(format!(
                "`curl {base_url}/models` lists the models; add one to {config}:\n\
                 {}\nmodel = \"NAME\"",
                header(name)
            )),
            ResolveError::NoKey { variable, .. } | ResolveError::MalformedKey { variable, .. } => {
                failure.hint(format!("run `export {variable}=…` with the key in place of the dots"))
            }
            ResolveError::OutputTooLarge { name, .. } => failure.hint(format!(
                "lower max_output or raise context_window under {} in {config}",
                header(name)
            )),
        }
    }
}

/// Suggests lines for config.toml that choose a provider: one whose key is in the environment or,
/// if there is none, a local server.
fn choose_provider(found: &[&str], config: &str) -> String {
    let Some((first, others)) = found.split_first() else {
        return format!(
            "set {}, or use a local server; for Ollama, add these lines to {config}:\n\
             [chat]\nprovider = \"ollama\"\nmodel = \"NAME\"\n\
             # for another server, these lines instead:\n\
             [chat]\nprovider = \"local\"\n{}",
            key_variables(),
            own_provider("local")
        );
    };
    let variable = find_ready(first).and_then(|ready| ready.api_key_env).unwrap_or_default();
    let others: Vec<String> = others.iter().map(|name| format!("\"{name}\"")).collect();
    let others = match others.is_empty() {
        true => String::new(),
        false => format!("    # or {}", others.join(" or ")),
    };
    format!(
        "{variable} is set; to use it, add these lines to {config}:\n\
         [chat]\nprovider = \"{first}\"{others}"
    )
}

fn key_variables() -> String {
    let variables: Vec<&str> =
        READY_PROVIDERS.iter().filter_map(|ready| ready.api_key_env).collect();
    variables.join(" or ")
}

fn ready_names() -> String {
    READY_PROVIDERS.iter().map(|ready| ready.name).collect::<Vec<_>>().join(", ")
}

/// Returns the lines that describe a server of the user's own.
fn own_provider(name: &str) -> String {
    format!(
        "{}\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:8080/v1\"\nmodel = \"NAME\"",
        header(name)
    )
}

/// Returns the header of a provider's table. Most names need no quotes.
fn header(name: &str) -> String {
    let is_bare = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    match !name.is_empty() && name.chars().all(is_bare) {
        true => format!("[providers.{name}]"),
        false => format!("[providers.{}]", serde_json::Value::from(name)),
    }
}

#[cfg(test)]
mod tests {
    use takeback_runtime::settings::{ProviderChoice, resolve_provider};

    use super::*;
    use crate::config::Config;

    /// Resolves the provider of a configuration. All keys in `keys` have the value `k`.
    fn resolve(text: &str, keys: &[&str]) -> Result<String, Failure> {
        let config: Config = toml::from_str(text).unwrap();
        let environment = |name: &str| keys.contains(&name).then(|| "k".to_owned());
        let (chat, choice) = (&config.chat, ProviderChoice::default());
        let provider = resolve_provider(chat, &config.providers, choice, &environment);
        let provider = provider.map_err(|error| Failure::of_provider(&error, "config.toml"))?;
        Ok(provider.name)
    }

    /// Returns the lines of a hint that belong in config.toml.
    fn lines_to_write(failure: &Failure) -> String {
        let hint = failure.hint.as_deref().unwrap();
        let lines = hint.lines().skip_while(|line| !line.starts_with('['));
        let lines: Vec<&str> = lines.take_while(|line| !line.starts_with("# for ")).collect();
        lines.join("\n")
    }

    #[test]
    fn the_lines_in_the_hint_make_the_provider_work() {
        for keys in [&["OPENAI_API_KEY"][..], &["OPENAI_API_KEY", "ANTHROPIC_API_KEY"], &[]] {
            let failure = resolve("", keys).unwrap_err();
            assert_eq!(failure.message, "no model provider is set");
            let name = resolve(&lines_to_write(&failure), keys).unwrap();
            let expected = match keys.len() {
                0 => "ollama",
                1 => "openai",
                _ => "anthropic",
            };
            assert_eq!(name, expected, "{failure:?}");
        }
        for name in ["mine", "my.own server", "vllm"] {
            let choice = format!("chat.provider = '{name}'\n");
            let failure = resolve(&choice, &[]).unwrap_err();
            assert_eq!(resolve(&(choice + &lines_to_write(&failure)), &[]).unwrap(), name);
        }
    }

    #[test]
    fn a_missing_key_and_a_mistyped_name_are_explained() {
        let failure = resolve("chat.provider = 'anthropic'", &[]).unwrap_err();
        assert!(failure.hint.unwrap().contains("export ANTHROPIC_API_KEY="));
        let failure = resolve("chat.provider = 'anthropc'", &[]).unwrap_err();
        assert_eq!(failure.hint.as_deref(), Some("did you mean `anthropic`?"));
    }
}
