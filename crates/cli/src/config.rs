//! `config.toml` in takeback's home: the user's settings.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use takeback_base::text::find_similar;
use takeback_runtime::settings::{ChatSettings, Providers};
use takeback_undo::{Protection, Settings};
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer, ValueDeserializer};

use crate::failure::Failure;

/// All settings. Those missing from the file have their default values.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table of settings")]
pub(crate) struct Config {
    pub(crate) checkpoints: Settings,
    pub(crate) ledger: LedgerConfig,
    pub(crate) protection: Protection,
    pub(crate) chat: ChatSettings,
    pub(crate) providers: Providers,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LedgerConfig {
    /// True if secrets are masked before anything is written into the ledger.
    pub(crate) redact: bool,
}

/// The table whose tables are the profiles.
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

/// True if the file contains the line `strict = true`, even if the file as a whole is malformed: an
/// error in another line must not switch strict mode off.
pub(crate) fn asks_to_be_strict(home: &Path) -> bool {
    let is_it =
        |line: &str| line.split('#').next().unwrap_or_default().replace(' ', "") == "strict=true";
    read_text(home).is_ok_and(|text| text.lines().any(is_it))
}

/// True if the file has a profile with this name.
pub(crate) fn has_profile(home: &Path, name: &str) -> bool {
    read_text(home).is_ok_and(|text| profile_names(&text).iter().any(|known| known == name))
}

/// Returns the names of the profiles, or nothing if the file cannot be parsed.
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

/// Parses the settings. Those in the profile take precedence.
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

/// Adds the values of a table to another one. A value takes the place of the old one, and a table
/// is added to the old one.
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
    /// Reads the settings and ignores invalid lines and an unknown profile, for commands that these
    /// must not block. Also returns the first problem.
    pub(crate) fn read_anyway(home: &Path, profile: Option<&str>) -> (Config, Option<Failure>) {
        let problem = match Config::read(home, profile) {
            Ok(config) => return (config, None),
            Err(problem) => problem,
        };
        let text = read_text(home).unwrap_or_default();
        let mut lines: Vec<&str> = text.lines().collect();
        let mut profile = profile;
        loop {
            let text = lines.join("\n");
            let error = match parse(&text, profile) {
                Ok(config) => return (config, Some(problem)),
                Err(ParseError::Malformed(error)) => error,
                Err(ParseError::UnknownProfile { .. }) => {
                    profile = None;
                    continue;
                }
            };
            let line = error.span().map(|span| line_of(&text, span.start.min(text.len())) - 1);
            match line.and_then(|line| lines.get_mut(line)) {
                Some(line) if !line.is_empty() => *line = "",
                _ => break,
            }
        }
        // Nothing in the file is usable. Mask secrets if a line might ask for that.
        let redact = text.lines().any(|line| line.trim_start().starts_with("redact"));
        let config = Config { ledger: LedgerConfig { redact }, ..Config::default() };
        (config, Some(problem))
    }

    /// Reads the settings as a hook does. If the profile is unknown, the other settings apply; if
    /// the file is malformed, the defaults apply, except that `strict = true` is still obeyed. Also
    /// returns the problem.
    pub(crate) fn read_or_default(home: &Path, profile: Option<&str>) -> (Config, Option<Failure>) {
        let problem = match Config::read(home, profile) {
            Ok(config) => return (config, None),
            Err(problem) => problem,
        };
        let config = Config::read(home, None).unwrap_or_else(|_| {
            let mut config = Config::default();
            config.checkpoints.strict = asks_to_be_strict(home);
            config
        });
        (config, Some(problem))
    }

    /// Reads the settings. A malformed file is an error, not a reason to use the defaults, because
    /// it may ask takeback to mask secrets.
    pub(crate) fn read(home: &Path, profile: Option<&str>) -> Result<Config, Failure> {
        let text = read_text(home)?;
        if text.is_empty() && profile.is_none() {
            return Ok(Config::default());
        }
        let path = config_path(home);
        let config = parse(&text, profile).map_err(|error| match error {
            ParseError::Malformed(error) => {
                let line = error.span().map_or(1, |span| line_of(&text, span.start));
                Failure::new(format!("{}, line {line}: {}", path.display(), error.message()))
                    .hint("fix the file, or remove it to use the defaults")
            }
            ParseError::UnknownProfile { known } => {
                unknown_profile(&path, profile.unwrap_or_default(), &known)
            }
        })?;
        match &config.protection.mirror {
            Some(mirror) if !mirror.is_absolute() && !mirror.starts_with("~") => {
                let problem = format!("{}: mirror must be an absolute path", path.display());
                Err(Failure::new(problem).hint("write the whole path, or begin it with ~/"))
            }
            _ => Ok(config),
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

/// Returns the number of the line that contains the byte `at`, starting at 1.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}
