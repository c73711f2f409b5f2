//! `config.toml` in takeback's home: the user's settings.

pub(crate) mod known;

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use takeback_base::text::find_similar;
use takeback_runtime::settings::{ChatSettings, PriceList, Providers};
use takeback_undo::{Protection, Settings};
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer, ValueDeserializer};

use crate::commands::fleet::FleetSettings;
use crate::context::Context;
use crate::failure::Failure;

/// All settings. Settings that are missing from the file have their default values.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table of settings")]
pub(crate) struct Config {
    pub(crate) checkpoints: Settings,
    pub(crate) ledger: LedgerConfig,
    pub(crate) protection: Protection,
    pub(crate) fleet: FleetSettings,
    pub(crate) chat: ChatSettings,
    pub(crate) prices: PriceList,
    pub(crate) providers: Providers,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LedgerConfig {
    /// True if secrets are masked before anything is written into the ledger.
    pub(crate) redact: bool,
}

/// The table that contains the profiles, each as a table of its own.
pub(crate) const PROFILES: &str = "profiles";

/// Returns the path of `config.toml`.
pub(crate) fn config_path(home: &Path) -> PathBuf {
    home.join("config.toml")
}

/// Reads `config.toml`. A missing file counts as empty.
pub(crate) fn read_text(home: &Path) -> Result<String, Failure> {
    let path = config_path(home);
    match fs::read_to_string(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        text => text.map_err(|error| {
            Failure::new(format!("cannot read {}", path.display())).because(&error)
        }),
    }
}

/// True if a line of a malformed file sets a key to anything but `false`, however the key is
/// written. An error in the file must not switch off strict mode or the masking of secrets.
fn may_switch_on(text: &str, key: &str) -> bool {
    let is_in = |line: &str| {
        let plain: String = strip_comment(line).chars().filter(|c| !is_filler(*c)).collect();
        plain.match_indices(key).any(|(at, _)| {
            let is_end_of_word = plain[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            let value = plain[at + key.len()..].strip_prefix('=');
            !is_end_of_word && value.is_some_and(|value| !value.starts_with("false"))
        })
    };
    text.lines().any(is_in)
}

/// True for characters that may surround a key without being part of it: whitespace and quotes.
fn is_filler(c: char) -> bool {
    c.is_whitespace() || c == '"' || c == '\''
}

/// Cuts off the comment at the end of a line.
fn strip_comment(line: &str) -> &str {
    let mut quote = None;
    for (at, c) in line.char_indices() {
        match (c, quote) {
            ('#', None) => return &line[..at],
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            _ => {}
        }
    }
    line
}

/// Parses the valid lines of a malformed file. An unknown profile is ignored.
fn parse_valid_lines(text: &str, mut profile: Option<&str>) -> Config {
    let mut lines: Vec<&str> = text.lines().collect();
    loop {
        let text = lines.join("\n");
        let error = match parse(&text, profile) {
            Ok(config) => return config,
            Err(ParseError::Malformed(error)) => error,
            Err(ParseError::UnknownProfile { .. }) => {
                profile = None;
                continue;
            }
        };
        let line = error.span().map(|span| line_of(&text, span.start.min(text.len())) - 1);
        match line.and_then(|line| lines.get_mut(line)) {
            Some(line) if !line.is_empty() => *line = "",
            _ => return Config::default(),
        }
    }
}

/// True if the file has a profile with this name.
pub(crate) fn has_profile(home: &Path, name: &str) -> bool {
    read_text(home).is_ok_and(|text| profile_names(&text).iter().any(|known| known == name))
}

/// Returns the names of the profiles, or an empty list if the file cannot be parsed.
pub(crate) fn profile_names(text: &str) -> Vec<String> {
    let Ok(tables) = DeTable::parse(text) else { return Vec::new() };
    let profiles =
        tables.get_ref().get(PROFILES).and_then(|profiles| profiles.get_ref().as_table());
    let names = profiles.into_iter().flat_map(|profiles| profiles.keys());
    names.map(|name| name.get_ref().to_string()).collect()
}

/// A reason why the settings cannot be used.
enum ParseError {
    Malformed(toml::de::Error),
    UnknownProfile { known: Vec<String> },
}

impl From<toml::de::Error> for ParseError {
    fn from(error: toml::de::Error) -> ParseError {
        ParseError::Malformed(error)
    }
}

/// Parses the settings. The settings in the profile take precedence.
fn parse(text: &str, profile: Option<&str>) -> Result<Config, ParseError> {
    let (span, mut tables) = split_span(DeTable::parse(text)?);
    let mut known = Vec::new();
    if let Some(profiles) = tables.remove(PROFILES) {
        // A mistake in a profile is an error even while the profile is not used.
        let checked =
            BTreeMap::<String, Config>::deserialize(ValueDeserializer::from(profiles.clone()))?;
        known = checked.into_keys().collect();
        if let (Some(profile), DeValue::Table(mut profiles)) = (profile, profiles.into_inner())
            && let Some(DeValue::Table(profile)) = profiles.remove(profile).map(Spanned::into_inner)
        {
            merge_tables(&mut tables, profile);
        }
    }
    if profile.is_some_and(|profile| !known.iter().any(|name| name == profile)) {
        return Err(ParseError::UnknownProfile { known });
    }
    Ok(Config::deserialize(Deserializer::from(Spanned::new(span, tables)))?)
}

fn split_span<T>(spanned: Spanned<T>) -> (std::ops::Range<usize>, T) {
    (spanned.span(), spanned.into_inner())
}

/// Merges the changes into a table. A changed value replaces the old value, but a nested table is
/// merged with the old nested table.
fn merge_tables<'t>(tables: &mut DeTable<'t>, changes: DeTable<'t>) {
    for (key, change) in changes {
        let (span, change) = split_span(change);
        let old = tables.remove_entry(&key).map(|(_, old)| old.into_inner());
        let new = match (old, change) {
            (Some(DeValue::Table(mut old)), DeValue::Table(changes)) => {
                merge_tables(&mut old, changes);
                DeValue::Table(old)
            }
            (_, change) => change,
        };
        tables.insert(key, Spanned::new(span, new));
    }
}

impl Config {
    /// Reads the settings and ignores invalid ones and an unknown profile. This is for hooks, and
    /// for commands that must work in spite of such errors. Also returns the first problem.
    pub(crate) fn read_anyway(home: &Path, profile: Option<&str>) -> (Config, Option<Failure>) {
        let problem = match Config::read(home, profile) {
            Ok(config) => return (config, None),
            Err(problem) => problem,
        };
        let text = read_text(home).unwrap_or_default();
        let mut config = parse_valid_lines(&text, profile);
        if config.has_relative_mirror() {
            config.protection.mirror = None;
        }
        config.checkpoints.strict |= may_switch_on(&text, "strict");
        config.ledger.redact |= may_switch_on(&text, "redact");
        (config, Some(problem))
    }

    /// Reads the settings. A malformed file is an error, not a reason to use the defaults, because
    /// the file may ask takeback to mask secrets.
    pub(crate) fn read(home: &Path, profile: Option<&str>) -> Result<Config, Failure> {
        let text = read_text(home)?;
        if text.is_empty() && profile.is_none() {
            return Ok(Config::default());
        }
        parse_or_explain(&text, home, profile)
    }

    fn has_relative_mirror(&self) -> bool {
        let mirror = self.protection.mirror.as_ref();
        mirror.is_some_and(|mirror| !mirror.is_absolute() && !mirror.starts_with("~"))
    }
}

/// Fails if this text is not a valid config.toml.
pub(crate) fn check(text: &str, context: &Context) -> Result<(), Failure> {
    // The profile that the user chose may be new, and therefore not yet in the file.
    let names = profile_names(text);
    let profile = context.profile().filter(|profile| names.iter().any(|name| name == profile));
    parse_or_explain(text, &context.home, profile).map(drop)
}

/// Parses the settings. If that fails, the error says which line is wrong, why, and what to do.
fn parse_or_explain(text: &str, home: &Path, profile: Option<&str>) -> Result<Config, Failure> {
    let path = config_path(home);
    let config = parse(text, profile).map_err(|error| match error {
        ParseError::Malformed(error) => {
            let line = error.span().map_or(1, |span| line_of(text, span.start));
            Failure::new(format!("{}, line {line}: {}", path.display(), error.message()))
                .hint(suggest_fix(error.message(), text, line))
        }
        ParseError::UnknownProfile { known } => {
            unknown_profile(&path, profile.unwrap_or_default(), &known)
        }
    })?;
    if config.has_relative_mirror() {
        let problem = format!("{}: mirror must be an absolute path", path.display());
        return Err(Failure::new(problem).hint("write the whole path, or begin it with ~/"));
    }
    Ok(config)
}

/// Suggests how to fix a mistake in this line of config.toml.
fn suggest_fix(problem: &str, text: &str, line: usize) -> String {
    let quoted: Vec<&str> = problem.split('`').skip(1).step_by(2).collect();
    if let ([typed, names @ ..], true) = (quoted.as_slice(), problem.starts_with("unknown field"))
        && *typed != PROFILES
        && let Some(similar) = find_similar(typed, names.iter().copied())
    {
        return format!("did you mean `{similar}`?");
    }
    let is_value = ["invalid type", "invalid value", "unknown variant"];
    let lines = match is_value.iter().any(|begin| problem.starts_with(begin)) {
        true => find_lines(text),
        false => Vec::new(),
    };
    let key = lines.iter().find(|(_, at)| *at == line).map(|(key, _)| key.as_str());
    let key = key.map(|key| match key.split('.').collect::<Vec<_>>().as_slice() {
        [PROFILES, _, rest @ ..] => rest.join("."),
        whole => whole.join("."),
    });
    match key.as_deref().and_then(known::find_known) {
        Some(setting) => {
            let known::KnownSetting { values, meaning, .. } = setting;
            format!("`{}` is {values}: {meaning}", setting.name())
        }
        None => "fix the file, or remove it to use the defaults".to_owned(),
    }
}

/// Finds the keys that the file sets, and their lines.
pub(crate) fn find_lines(text: &str) -> Vec<(String, usize)> {
    let mut keys = Vec::new();
    if let Ok(table) = DeTable::parse(text) {
        add_lines(text, "", table.get_ref(), &mut keys);
    }
    keys
}

fn add_lines(text: &str, path: &str, table: &DeTable<'_>, keys: &mut Vec<(String, usize)>) {
    for (key, value) in table {
        let path = format!("{path}{}", key.get_ref());
        match value.get_ref().as_table() {
            Some(table) => add_lines(text, &format!("{path}."), table, keys),
            None => keys.push((path, line_of(text, key.span().start))),
        }
    }
}

/// Says that a profile does not exist, and names those that do.
fn unknown_profile(path: &Path, name: &str, known: &[String]) -> Failure {
    let hint = match find_similar(name, known.iter().map(String::as_str)) {
        Some(similar) => format!("did you mean `{similar}`?"),
        None if known.is_empty() => {
            "a profile is a table such as [profiles.work.checkpoints]".to_owned()
        }
        None => format!("the profiles are: {}", known.join(", ")),
    };
    Failure::new(format!("no profile `{name}` in {}", path.display())).hint(hint)
}

/// Returns the number of the line that contains the byte `at`. The first line has the number 1.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_mirror_is_left_out_of_the_valid_settings() {
        let home = tempfile::tempdir().unwrap();
        let text = "[protection]\nmirror = \"backup\"\n[checkpoints]\nmax_files = 7\n";
        fs::write(config_path(home.path()), text).unwrap();
        let (config, problem) = Config::read_anyway(home.path(), None);
        assert!(problem.unwrap().to_string().contains("mirror must be an absolute path"));
        assert_eq!((config.protection.mirror, config.checkpoints.max_files), (None, 7));
    }

    #[test]
    fn a_line_switches_a_setting_on_unless_the_value_is_false() {
        for on in ["strict=true", "a.strict = yes", "x = { strict\t= 1 }", "'strict' = true # no"] {
            assert!(may_switch_on(on, "strict"), "{on}");
        }
        for off in
            ["strict = false", "# strict = true", "unstrict = true", "strict", "a = '#' # strict=1"]
        {
            assert!(!may_switch_on(off, "strict"), "{off}");
        }
    }
}
