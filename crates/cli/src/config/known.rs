//! The settings in config.toml, each with its meaning in one line.

/// A setting in config.toml.
pub(crate) struct KnownSetting {
    /// The tables and the name of the setting, separated by dots. `NAME` stands for the name of a
    /// provider or a model.
    pub(crate) key: &'static str,
    /// The values that the setting can have.
    pub(crate) values: &'static str,
    /// The meaning of the setting, in a few words.
    pub(crate) meaning: &'static str,
}

impl KnownSetting {
    /// Returns the name of the setting without its tables.
    pub(crate) fn name(&self) -> &'static str {
        self.key.rsplit('.').next().unwrap_or(self.key)
    }

    /// Returns true if a key names this setting.
    fn matches(&self, key: &str) -> bool {
        match self.key.split_once("NAME") {
            None => self.key == key,
            Some(_) => self.name_in(key).is_some(),
        }
    }

    /// Returns the name of the provider or model in a key. Names may contain dots.
    fn name_in<'k>(&self, key: &'k str) -> Option<&'k str> {
        let (begin, end) = self.key.split_once("NAME")?;
        let name = key.strip_prefix(begin)?.strip_suffix(end)?;
        Some(name).filter(|name| !name.is_empty())
    }

    /// Splits a key of this setting into its tables and its name.
    pub(crate) fn split<'k>(&'k self, key: &'k str) -> Vec<&'k str> {
        let name = self.name_in(key);
        self.key.split('.').map(|part| name.filter(|_| part == "NAME").unwrap_or(part)).collect()
    }
}

/// Finds the setting that a key names.
pub(crate) fn find_known(key: &str) -> Option<&'static KnownSetting> {
    SETTINGS.iter().find(|setting| setting.matches(key))
}

/// Returns the text of a config.toml that lists all settings as comments, for users without such a
/// file.
pub(crate) fn write_template() -> String {
    let mut text =
        "# The settings of takeback. Remove the # before a setting to change it.\n".to_owned();
    let mut last = "";
    for setting in SETTINGS.iter().filter(|setting| !setting.key.contains("NAME")) {
        let table = setting.key.split('.').next().unwrap_or_default();
        if table != last {
            text.push_str(&format!("\n[{table}]\n"));
            last = table;
        }
        let KnownSetting { values, meaning, .. } = setting;
        text.push_str(&format!("# {} =   # {values}: {meaning}\n", setting.name()));
    }
    text
}

const SWITCH: &str = "true or false";
const NUMBER: &str = "a whole number";
const PATTERNS: &str = "a list of patterns";
const TEXT: &str = "a text";

/// All settings, sorted by their keys.
pub(crate) const SETTINGS: &[KnownSetting] = &[
    setting("chat.approve", "effects, ask, auto or never", "the calls that you are asked about"),
    setting("chat.auto_resume", SWITCH, "continue interrupted conversations without asking"),
    setting("chat.fallback", TEXT, "the provider that takes over when the first one keeps failing"),
    setting("chat.fetch_url", SWITCH, "let the model read web pages"),
    setting("chat.journal", "local or fleet", "fleet lets another machine continue a task"),
    setting("chat.model", TEXT, "the model, in place of the provider's default"),
    setting("chat.provider", TEXT, "the provider that answers"),
    setting("chat.system_prompt", TEXT, "the text that replaces the agent's system prompt"),
    setting("checkpoints.auto_prune", SWITCH, "enforce the limits automatically"),
    setting(
        "checkpoints.delete_orphans",
        SWITCH,
        "also delete the history of directories that no longer exist",
    ),
    setting("checkpoints.enabled", SWITCH, "take checkpoints"),
    setting("checkpoints.exclude", PATTERNS, "paths that are not captured"),
    setting(
        "checkpoints.granularity",
        "step or turn",
        "a checkpoint before each mutating call, or only before the first one of a turn",
    ),
    setting("checkpoints.include", PATTERNS, "paths that are captured despite all other rules"),
    setting(
        "checkpoints.max_file_size_mb",
        NUMBER,
        "larger files are captured only if git tracks them or a call names them",
    ),
    setting(
        "checkpoints.max_files",
        NUMBER,
        "in a workspace with more files, only the paths that calls name are captured",
    ),
    setting("checkpoints.max_guarded_kb", NUMBER, "the largest ignored file that is captured"),
    setting(
        "checkpoints.max_named_mb",
        NUMBER,
        "the total size of files captured only because a call names them",
    ),
    setting(
        "checkpoints.max_snapshots",
        NUMBER,
        "the number of rows, and of further steps, that a workspace keeps",
    ),
    setting("checkpoints.max_total_size_mb", NUMBER, "the size of the store"),
    setting("checkpoints.min_interval_hours", NUMBER, "the time between two prunes by age"),
    setting(
        "checkpoints.private",
        "a list of patterns, or skip",
        "files whose content is never shown",
    ),
    setting(
        "checkpoints.retention_days",
        NUMBER,
        "the time for which an unused workspace keeps its history",
    ),
    setting("checkpoints.strict", SWITCH, "refuse a call that cannot be fully protected"),
    setting(
        "checkpoints.timeout_ms",
        NUMBER,
        "the longest time that an agent waits for a checkpoint",
    ),
    setting(
        "fleet.encrypt",
        "all, private or off",
        "the data that takeback encrypts before sending it",
    ),
    setting(
        "fleet.lease_seconds",
        NUMBER,
        "how long a machine must be silent before other machines may continue its tasks",
    ),
    setting("fleet.name", TEXT, "the name of this machine, in place of its host name"),
    setting("fleet.objects", "an address", "the object storage for the fleet's checkpoints"),
    setting("fleet.postgres", "an address", "the address of the fleet's database"),
    setting(
        "fleet.upload_kb_per_second",
        NUMBER,
        "the highest rate at which checkpoints are uploaded",
    ),
    setting("ledger.redact", SWITCH, "mask secrets before anything is written into the ledger"),
    setting("prices.NAME.cache_read", PRICE, "the price of a model's cached input"),
    setting("prices.NAME.cache_write", PRICE, "the price of a model's input written to a cache"),
    setting("prices.NAME.input", PRICE, "the price of a model's input"),
    setting("prices.NAME.output", PRICE, "the price of a model's output"),
    setting(
        "protection.history",
        "refuse, warn or off",
        "the answer to a call that would delete takeback's history or hooks",
    ),
    setting("protection.mirror", "a path", "the directory with a second copy of all checkpoints"),
    setting("providers.NAME.api_key_env", TEXT, "the environment variable that holds the key"),
    setting("providers.NAME.base_url", "an address", "the address of the API"),
    setting("providers.NAME.context_window", NUMBER, "the number of tokens that the model accepts"),
    setting("providers.NAME.kind", "openai, responses or anthropic", "the API"),
    setting("providers.NAME.max_output", NUMBER, "the number of tokens that a reply may have"),
    setting("providers.NAME.model", TEXT, "the name of the model"),
    setting("providers.NAME.prices.cache_read", PRICE, "the price of cached input"),
    setting("providers.NAME.prices.cache_write", PRICE, "the price of input written to a cache"),
    setting("providers.NAME.prices.input", PRICE, "the price of input"),
    setting("providers.NAME.prices.output", PRICE, "the price of output"),
];

const PRICE: &str = "US dollars per million tokens";

const fn setting(key: &'static str, values: &'static str, meaning: &'static str) -> KnownSetting {
    KnownSetting { key, values, meaning }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::config::show::list_leaves;
    use crate::config::Config;

    #[test]
    fn every_setting_has_a_meaning() {
        let defaults = serde_json::to_value(Config::default()).unwrap();
        let mut keys: Vec<String> =
            list_leaves(&defaults).into_iter().map(|(key, _)| key).collect();
        keys.retain(|key| key != "providers" && key != "prices");
        let known = SETTINGS.iter().map(|setting| setting.key);
        let known: Vec<&str> = known.filter(|key| !key.contains("NAME")).collect();
        assert_eq!(known, keys);
    }

    #[test]
    fn every_setting_of_a_provider_has_a_meaning() {
        let text = "[providers.x]\nkind = 'openai'\nbase_url = 'http://127.0.0.1/v1'\n\
            api_key_env = 'K'\nmodel = 'm'\ncontext_window = 1\nmax_output = 1\n\
            prices = { input = 1, output = 1, cache_read = 1, cache_write = 1 }\n";
        let config: Config = toml::from_str(text).unwrap();
        let all = serde_json::to_value(&config.providers).unwrap();
        let mut keys: Vec<String> = list_leaves(&all)
            .into_iter()
            .map(|(key, _)| format!("providers.{key}").replacen(".x.", ".NAME.", 1))
            .collect();
        keys.sort();
        let known = SETTINGS.iter().map(|setting| setting.key);
        let known: Vec<&str> = known.filter(|key| key.starts_with("providers.")).collect();
        assert_eq!(known, keys);
    }

    #[test]
    fn names_in_keys_may_contain_dots() {
        let setting = find_known("prices.gpt-6.1.input").unwrap();
        assert_eq!(setting.key, "prices.NAME.input");
        assert_eq!(setting.split("prices.gpt-6.1.input"), ["prices", "gpt-6.1", "input"]);
        assert!(find_known("prices..input").is_none() && find_known("prices.x.y").is_none());
    }

    #[test]
    fn the_template_is_valid_and_changes_nothing() {
        let config: Config = toml::from_str(&write_template()).unwrap();
        let [left, right] = [config, Config::default()].map(|it| serde_json::to_value(it).unwrap());
        assert_eq!(left, right);
    }
}
