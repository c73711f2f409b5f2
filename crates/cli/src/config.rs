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

/// True if the file contains the line `strict = true`, even if the file as a whole is malformed: an
/// error in another line must not switch strict mode off.
pub(crate) fn asks_to_be_strict(home: &Path) -> bool {
    let is_it =
        |line: &str| line.split('#').next().unwrap_or_default().replace(' ', "") == "strict=true";
    read_text(home).is_ok_and(|text| text.lines().any(is_it))
}

impl Config {
    /// Reads the settings and ignores invalid lines, for commands that an invalid file must not
    /// block. Also returns the first problem.
    pub(crate) fn read_anyway(home: &Path) -> (Config, Option<Failure>) {
        let problem = match Config::read(home) {
            Ok(config) => return (config, None),
            Err(problem) => problem,
        };
        let text = read_text(home).unwrap_or_default();
        let mut lines: Vec<&str> = text.lines().collect();
        loop {
            let text = lines.join("\n");
            let error = match toml::from_str::<Config>(&text) {
                Ok(config) => return (config, Some(problem)),
                Err(error) => error,
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
        match &config.protection.mirror {
            Some(mirror) if !mirror.is_absolute() && !mirror.starts_with("~") => {
                let path = config_path(home);
                let problem = format!("{}: mirror must be an absolute path", path.display());
                Err(Failure::new(problem).hint("write the whole path, or begin it with ~/"))
            }
            _ => Ok(config),
        }
    }
}

/// Returns the number of the line that contains the byte `at`, starting at 1.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}
