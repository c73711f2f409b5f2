//! `config.toml` in takeback's home: the user's settings.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use takeback_undo::{Protection, Settings};

use crate::failure::Failure;

/// All settings. Those missing from the file have their default values.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) checkpoints: Settings,
    pub(crate) ledger: LedgerConfig,
    pub(crate) protection: Protection,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LedgerConfig {
    /// True if secrets are masked before anything is written into the ledger.
    pub(crate) redact: bool,
}

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

/// True if a line of a malformed file sets a key to anything but `false`, in whatever form. An error
/// in the file must not switch off strict mode or the masking of secrets.
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

/// True for the characters around keys that do not matter: whitespace and quotes.
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

/// Parses the valid lines of a malformed file.
fn parse_valid_lines(text: &str) -> Config {
    let mut lines: Vec<&str> = text.lines().collect();
    loop {
        let text = lines.join("\n");
        let error = match toml::from_str::<Config>(&text) {
            Ok(config) => return config,
            Err(error) => error,
        };
        let line = error.span().map(|span| line_of(&text, span.start.min(text.len())) - 1);
        match line.and_then(|line| lines.get_mut(line)) {
            Some(line) if !line.is_empty() => *line = "",
            _ => return Config::default(),
        }
    }
}

impl Config {
    /// Reads the settings and ignores invalid ones, for hooks and for commands that an invalid file
    /// must not block. Also returns the first problem.
    pub(crate) fn read_anyway(home: &Path) -> (Config, Option<Failure>) {
        let problem = match Config::read(home) {
            Ok(config) => return (config, None),
            Err(problem) => problem,
        };
        let text = read_text(home).unwrap_or_default();
        let mut config = parse_valid_lines(&text);
        if config.has_relative_mirror() {
            config.protection.mirror = None;
        }
        config.checkpoints.strict |= may_switch_on(&text, "strict");
        config.ledger.redact |= may_switch_on(&text, "redact");
        (config, Some(problem))
    }

    /// Reads the settings. A malformed file is an error, not a reason to use the defaults, because
    /// it may ask takeback to mask secrets.
    pub(crate) fn read(home: &Path) -> Result<Config, Failure> {
        let text = read_text(home)?;
        if text.is_empty() {
            return Ok(Config::default());
        }
        let config: Config = toml::from_str(&text).map_err(|error: toml::de::Error| {
            let line = error.span().map_or(1, |span| line_of(&text, span.start));
            let path = config_path(home);
            Failure::new(format!("{}, line {line}: {}", path.display(), error.message()))
                .hint("fix the file, or remove it to use the defaults")
        })?;
        if config.has_relative_mirror() {
            let path = config_path(home);
            let problem = format!("{}: mirror must be an absolute path", path.display());
            return Err(Failure::new(problem).hint("write the whole path, or begin it with ~/"));
        }
        Ok(config)
    }

    fn has_relative_mirror(&self) -> bool {
        let mirror = self.protection.mirror.as_ref();
        mirror.is_some_and(|mirror| !mirror.is_absolute() && !mirror.starts_with("~"))
    }
}

/// Returns the number of the line that contains the byte `at`, starting at 1.
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
        let (config, problem) = Config::read_anyway(home.path());
        assert!(problem.unwrap().to_string().contains("mirror must be an absolute path"));
        assert_eq!((config.protection.mirror, config.checkpoints.max_files), (None, 7));
    }

    #[test]
    fn only_settings_that_are_not_false_are_switched_on() {
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
