//! `config.toml` in takeback's own directory: what the user wants otherwise.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde::Deserialize;

use crate::failure::Failure;

/// All settings, with their defaults where the file says nothing.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) ledger: LedgerConfig,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LedgerConfig {
    /// Whether secrets are masked before anything is written.
    pub(crate) redact: bool,
}

impl Config {
    /// No file is as good as an empty one. One that cannot be understood is an error: it may ask
    /// for secrets to be masked.
    pub(crate) fn read(home: &Path) -> Result<Config, Failure> {
        let path = home.join("config.toml");
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Config::default()),
            text => text.map_err(|error| {
                Failure::new(format!("cannot read {}", path.display())).because(&error)
            })?,
        };
        toml::from_str(&text).map_err(|error: toml::de::Error| {
            let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            Failure::new(format!("{}, line {line}: {}", path.display(), error.message()))
                .hint("correct the file, or remove it to get the defaults")
        })
    }
}
