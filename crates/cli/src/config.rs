//! `config.toml` in takeback's own directory: what the user wants otherwise.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use takeback_undo::Settings;

use crate::failure::Failure;

/// All settings, with their defaults where the file says nothing.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) checkpoints: Settings,
    pub(crate) ledger: LedgerConfig,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LedgerConfig {
    /// Whether secrets are masked before anything is written.
    pub(crate) redact: bool,
}

/// Where the file is.
pub(crate) fn path(home: &Path) -> PathBuf {
    home.join("config.toml")
}

/// What the file says; nothing if there is none.
pub(crate) fn text(home: &Path) -> Result<String, Failure> {
    let path = path(home);
    match fs::read_to_string(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        text => text.map_err(|error| {
            Failure::new(format!("cannot read {}", path.display())).because(&error)
        }),
    }
}

/// Whether a file that cannot be understood has a line that asks to be strict: what is wrong with
/// the others must not switch that off.
pub(crate) fn asks_to_be_strict(home: &Path) -> bool {
    let is_it =
        |line: &str| line.split('#').next().unwrap_or_default().replace(' ', "") == "strict=true";
    text(home).is_ok_and(|text| text.lines().any(is_it))
}

impl Config {
    /// No file is as good as an empty one. One that cannot be understood is an error: it may ask
    /// for secrets to be masked.
    pub(crate) fn read(home: &Path) -> Result<Config, Failure> {
        let text = text(home)?;
        if text.is_empty() {
            return Ok(Config::default());
        }
        toml::from_str(&text).map_err(|error: toml::de::Error| {
            let line = error.span().map_or(1, |span| line_of(&text, span.start));
            Failure::new(format!("{}, line {line}: {}", path(home).display(), error.message()))
                .hint("correct the file, or remove it to get the defaults")
        })
    }
}

/// The line, from 1, that a byte is in.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}
