//! The settings in the table `[fleet]` of config.toml.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// The maximum number of characters in the name of a machine.
const MAX_NAME: usize = 64;

/// The settings of a machine that belongs to a fleet.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FleetSettings {
    /// The data that is encrypted before it leaves this machine.
    pub encrypt: Encrypt,
    /// The number of seconds after which another machine may continue a task whose machine is
    /// silent.
    pub lease_seconds: LeaseSeconds,
    /// The name of this machine; its host name by default.
    #[serde(deserialize_with = "parse_name")]
    pub name: Option<String>,
    /// The address of the object storage for checkpoints.
    #[serde(deserialize_with = "parse_objects")]
    pub objects: Option<String>,
    /// The address of the fleet's database.
    #[serde(deserialize_with = "parse_postgres")]
    pub postgres: Option<String>,
    /// The maximum number of kilobytes of checkpoints to upload per second.
    pub upload_kb_per_second: Option<u64>,
}

/// The length of a lease, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32")]
pub struct LeaseSeconds(u32);

impl Default for LeaseSeconds {
    fn default() -> LeaseSeconds {
        LeaseSeconds(60)
    }
}

impl TryFrom<u32> for LeaseSeconds {
    type Error = &'static str;

    fn try_from(seconds: u32) -> Result<LeaseSeconds, &'static str> {
        match (1..=86_400).contains(&seconds) {
            true => Ok(LeaseSeconds(seconds)),
            false => Err("invalid value: a lease lasts 1 to 86400 seconds"),
        }
    }
}

impl LeaseSeconds {
    pub(crate) fn get(self) -> u32 {
        self.0
    }
}

/// The data that is encrypted with the fleet's key before it leaves the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encrypt {
    /// Everything that people read: messages, calls, effects, titles and directories.
    All,
    /// Private files. Nothing in the ledger is encrypted.
    #[default]
    Private,
    /// Nothing is encrypted, so a machine can join without the key.
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
    match address.as_deref().map(parse_address) {
        Some(Err(problem)) => Err(D::Error::custom(format!("invalid value: {problem}"))),
        _ => Ok(address),
    }
}

fn parse_objects<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let address = Option::<String>::deserialize(deserializer)?;
    match address.as_deref().map(crate::objects::check_address) {
        Some(Err(problem)) => Err(D::Error::custom(format!("invalid value: {problem}"))),
        _ => Ok(address),
    }
}

/// The address of a database.
pub(crate) struct Address {
    pub(crate) config: postgres::Config,
    /// The file with the certificates of the authorities that may have issued the server's
    /// certificate; `None` for the authorities that the system trusts.
    pub(crate) root_certificates: Option<PathBuf>,
}

/// Parses a database's address. The error does not repeat the address, which may contain a
/// password.
pub(crate) fn parse_address(address: &str) -> Result<Address, String> {
    if !address.starts_with("postgres://") && !address.starts_with("postgresql://") {
        return Err("the address of a database begins with postgres://".to_owned());
    }
    let (address, root_certificates) = take_own_parameters(address);
    let config: postgres::Config = address.parse().map_err(|error: postgres::Error| {
        let causes = takeback_base::errors::error_messages(&error);
        format!("the address of the database cannot be parsed: {}", causes.join(": "))
    })?;
    match config.get_hosts().is_empty() {
        true => Err("the address of the database names no host".to_owned()),
        false => Ok(Address { config, root_certificates }),
    }
}

/// Removes the parameters that the client library does not know from an address. Also returns the
/// file that `sslrootcert` names. The server's certificate is always checked, so modes such as
/// `verify-full` are replaced with `require`.
fn take_own_parameters(address: &str) -> (String, Option<PathBuf>) {
    let Some((start, parameters)) = address.split_once('?') else {
        return (address.to_owned(), None);
    };
    let mut root_certificates = None;
    let mut kept = Vec::new();
    for parameter in parameters.split('&') {
        match parameter.split_once('=') {
            Some(("sslrootcert", path)) => root_certificates = Some(decode_path(path)),
            Some(("sslmode", "verify-full" | "verify-ca")) => kept.push("sslmode=require"),
            _ => kept.push(parameter),
        }
    }
    let mark = if kept.is_empty() { "" } else { "?" };
    (format!("{start}{mark}{}", kept.join("&")), root_certificates)
}

/// Decodes a percent-encoded path in an address, in which `%2F` is a slash.
fn decode_path(text: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let decoded = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match decoded.filter(|_| first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_for_a_malformed_address_does_not_repeat_the_address() {
        for bad in ["mysql://h/db", "postgres://u:secret@h:port/db", "postgres://", "h"] {
            let problem = parse_address(bad).err().unwrap();
            assert!(!problem.contains("secret"), "{problem}");
        }
        for good in ["postgres://u:p@h/db", "postgresql:///db?host=/run/postgresql"] {
            assert!(parse_address(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn an_address_can_name_the_authorities() {
        let address =
            "postgres://h/db?sslrootcert=%2Fa%20b%25&sslmode=verify-full&connect_timeout=3";
        let address = parse_address(address).unwrap();
        assert_eq!(address.root_certificates, Some(PathBuf::from("/a b%")));
        assert_eq!(address.config.get_ssl_mode(), postgres::config::SslMode::Require);
        let address = parse_address("postgres://h/db?sslrootcert=/ca.pem").unwrap();
        assert_eq!(address.root_certificates, Some(PathBuf::from("/ca.pem")));
    }

    #[test]
    fn the_name_of_a_machine_is_one_line_without_surrounding_spaces() {
        assert!(is_name("build-7") && is_name("Büro 2"));
        for bad in ["", " a", "a\n", "a\u{7}", &"x".repeat(65)] {
            assert!(!is_name(bad), "{bad:?}");
        }
    }
}
