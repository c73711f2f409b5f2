//! The settings in the table `[fleet]` of config.toml.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// The maximum number of characters in the name of a machine.
const MAX_NAME: usize = 64;

/// The settings of a machine that belongs to a fleet.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FleetSettings {
    /// The data that leaves this machine only encrypted.
    pub encrypt: Encrypt,
    /// The name of this machine; its host name by default.
    #[serde(deserialize_with = "parse_name")]
    pub name: Option<String>,
    /// The address of the fleet's database.
    #[serde(deserialize_with = "parse_postgres")]
    pub postgres: Option<String>,
}

/// The data that is encrypted with the fleet's key before it leaves the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encrypt {
    /// Everything that people read: messages, calls, effects, titles and directories.
    All,
    /// Private files. No file leaves the machine yet, so nothing in the ledger is encrypted.
    #[default]
    Private,
    /// Nothing; a machine can then join without the key.
    Off,
}

fn parse_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let name = Option::<String>::deserialize(deserializer)?;
    match &name {
        Some(name) if !is_name(name) => Err(D::Error::custom(format!(
            "invalid value: a machine's name has 1 to {MAX_NAME} characters on one line"
        ))),
        _ => Ok(name),
    }
}

/// True if a machine can have this name.
pub(crate) fn is_name(name: &str) -> bool {
    let length = name.chars().count();
    (1..=MAX_NAME).contains(&length) && name.trim() == name && !name.contains(char::is_control)
}

fn parse_postgres<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let address = Option::<String>::deserialize(deserializer)?;
    match address.as_deref().map(check_postgres) {
        Some(Err(problem)) => Err(D::Error::custom(format!("invalid value: {problem}"))),
        _ => Ok(address),
    }
}

/// Checks the form of a database's address. The problem does not repeat the address, which may
/// contain a password.
pub(crate) fn check_postgres(address: &str) -> Result<postgres::Config, String> {
    if !address.starts_with("postgres://") && !address.starts_with("postgresql://") {
        return Err("the address of a database begins with postgres://".to_owned());
    }
    let config: postgres::Config = address.parse().map_err(|error: postgres::Error| {
        let causes = takeback_base::errors::error_messages(&error);
        format!("the address of the database cannot be parsed: {}", causes.join(": "))
    })?;
    match config.get_hosts().is_empty() {
        true => Err("the address of the database names no host".to_owned()),
        false => Ok(config),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_for_a_malformed_address_does_not_repeat_the_address() {
        for bad in ["mysql://h/db", "postgres://u:secret@h:port/db", "postgres://", "h"] {
            let problem = check_postgres(bad).unwrap_err();
            assert!(!problem.contains("secret"), "{problem}");
        }
        for good in ["postgres://u:p@h/db", "postgresql:///db?host=/run/postgresql"] {
            assert!(check_postgres(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn the_name_of_a_machine_is_one_line_without_surrounding_spaces() {
        assert!(is_name("build-7") && is_name("Büro 2"));
        for bad in ["", " a", "a\n", "a\u{7}", &"x".repeat(65)] {
            assert!(!is_name(bad), "{bad:?}");
        }
    }
}
