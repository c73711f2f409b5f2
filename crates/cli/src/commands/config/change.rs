//! `takeback config set` and `unset`: change one setting.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use serde_json::Value as Json;
use takeback_base::durable::{Durability, FileLock, create_directory, replace_file};
use takeback_base::paths::canonicalize_or_keep;
use takeback_base::text::find_similar;
use toml_edit::{Array, DocumentMut, Item, Table, Value};

use super::show::collect_settings;
use crate::config::known::{SETTINGS, find_known};
use crate::config::{self, Config, PROFILES};
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// Change a setting
///
/// The rest of config.toml stays as it is. With --profile, the setting applies only to that
/// profile.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback config set max_snapshots 100
  takeback config set checkpoints.exclude '*.iso' '*.img'
  takeback config set chat.provider ollama --profile local")]
pub(super) struct SetArguments {
    /// The setting, with or without its table
    #[arg(value_name = "SETTING")]
    key: String,
    /// The new value; several values make a list
    #[arg(value_name = "VALUE", required = true, allow_negative_numbers = true)]
    values: Vec<String>,
}

/// Return a setting to its default
#[derive(Args)]
#[command(after_help = "\
Example:
  takeback config unset max_snapshots")]
pub(super) struct UnsetArguments {
    /// The setting, with or without its table
    #[arg(value_name = "SETTING")]
    key: String,
}

/// A changed setting.
#[derive(Serialize)]
struct ChangeView {
    key: String,
    value: Json,
    /// The value before the change.
    previous: Json,
    file: String,
}

pub(super) fn set(arguments: &SetArguments, context: &Context) -> Result<ExitCode, Failure> {
    let key = resolve_key(&arguments.key)?;
    let _lock = lock_file(context)?;
    let previous = find_value(&key, context);
    let document = parse_document(context)?;
    let mut problem = None;
    for value in list_readings(&arguments.values) {
        let mut changed = document.clone();
        insert(changed.as_table_mut(), &path_of(&key, context), value)?;
        match config::check(&changed.to_string(), context) {
            Ok(()) => {
                save(&changed, context)?;
                return report(key, previous, context);
            }
            // If no reading fits the setting, report the error of the first one, which is most
            // likely what the user meant.
            Err(failure) => problem = problem.or(Some(failure)),
        }
    }
    Err(problem.unwrap_or_else(|| Failure::new("no value")))
}

pub(super) fn unset(arguments: &UnsetArguments, context: &Context) -> Result<ExitCode, Failure> {
    let key = resolve_key(&arguments.key)?;
    let _lock = lock_file(context)?;
    let previous = find_value(&key, context);
    let text = config::read_text(&context.home)?;
    let mut document = parse_document(context)?;
    let path = path_of(&key, context);
    if remove(document.as_table_mut(), &path) {
        // Removing whole lines keeps all comments above the setting.
        let text = super::lines::remove_setting(&text, &path, &document)
            .unwrap_or_else(|| document.to_string());
        config::check(&text, context)?;
        save_text(&text, context)?;
    }
    report(key, previous, context)
}

/// Waits until no other process is changing config.toml, and locks it. Without the lock, one of two
/// simultaneous changes would be lost.
pub(super) fn lock_file(context: &Context) -> Result<FileLock, Failure> {
    let failed = |error: std::io::Error| Failure::new("cannot lock config.toml").because(&error);
    create_directory(&context.home).map_err(failed)?;
    FileLock::exclusive_on_directory(&context.home).map_err(failed)
}

/// Returns the full key of a setting, which the user may have typed without its table.
pub(super) fn resolve_key(typed: &str) -> Result<String, Failure> {
    if find_known(typed).is_some() {
        return Ok(typed.to_owned());
    }
    let named: Vec<&str> = SETTINGS
        .iter()
        .filter(|setting| setting.name() == typed && !setting.key.contains("NAME"))
        .map(|setting| setting.key)
        .collect();
    if let [key] = named.as_slice() {
        return Ok((*key).to_owned());
    }
    let names = SETTINGS.iter().flat_map(|setting| [setting.key, setting.name()]);
    let hint = match find_similar(typed, names) {
        Some(similar) => format!("did you mean `{similar}`? `takeback config` lists all settings"),
        None => "`takeback config` lists all settings".to_owned(),
    };
    Err(Failure::new(format!("there is no setting `{typed}`")).hint(hint))
}

/// Returns the names of the tables that contain a setting, and then its own name. If the user chose
/// a profile, the tables are those in the profile.
fn path_of<'k>(key: &'k str, context: &'k Context) -> Vec<&'k str> {
    let profile = context.profile().map(|profile| [PROFILES, profile]);
    profile.into_iter().flatten().chain(split_key(key)).collect()
}

/// Splits the key of a setting into its tables and its name.
fn split_key(key: &str) -> Vec<&str> {
    find_known(key).map_or_else(|| key.split('.').collect(), |setting| setting.split(key))
}

/// Lists the ways to read the typed words: as TOML, as a string, and as a list of strings. The
/// first reading that fits the setting is used.
fn list_readings(words: &[String]) -> Vec<Value> {
    let list = || Value::Array(words.iter().map(String::as_str).collect::<Array>());
    let [word] = words else { return vec![list()] };
    let written = word.parse::<Value>().ok();
    written.into_iter().chain([Value::from(word.as_str()), list()]).collect()
}

/// Reads config.toml in a form that keeps its comments and its layout.
fn parse_document(context: &Context) -> Result<DocumentMut, Failure> {
    let text = config::read_text(&context.home)?;
    config::check(&text, context)?;
    text.parse().map_err(|error: toml_edit::TomlError| {
        Failure::new("cannot parse config.toml").because(&error)
    })
}

/// Sets a value, and creates the tables that contain it if they do not exist.
fn insert(table: &mut Table, path: &[&str], mut value: Value) -> Result<(), Failure> {
    let [tables @ .., name] = path else { return Ok(()) };
    let mut table: &mut dyn toml_edit::TableLike = table;
    for inner in tables {
        let item = table.entry(inner).or_insert_with(|| {
            let mut new = Table::new();
            // A table that contains only tables needs no heading of its own.
            new.set_implicit(true);
            Item::Table(new)
        });
        table = item
            .as_table_like_mut()
            .ok_or_else(|| Failure::new(format!("`{inner}` in config.toml is not a table")))?;
    }
    let old = table.get_mut(name).and_then(Item::as_value_mut);
    match old {
        Some(old) => {
            // This keeps the comment at the end of the line.
            *value.decor_mut() = old.decor().clone();
            *old = value;
        }
        None => drop(table.insert(name, Item::Value(value))),
    }
    Ok(())
}

/// Removes a value, and the tables around it that become empty. Returns false if there is no such
/// value.
fn remove(table: &mut dyn toml_edit::TableLike, path: &[&str]) -> bool {
    match path {
        [] => false,
        [name] => table.remove(name).is_some(),
        [name, rest @ ..] => {
            let Some(inner) = table.get_mut(name).and_then(Item::as_table_like_mut) else {
                return false;
            };
            let is_removed = remove(inner, rest);
            if is_removed && inner.is_empty() {
                table.remove(name);
            }
            is_removed
        }
    }
}

/// Replaces config.toml with this document.
fn save(document: &DocumentMut, context: &Context) -> Result<(), Failure> {
    save_text(&document.to_string(), context)
}

/// Replaces config.toml, or the file that it links to.
pub(super) fn save_text(text: &str, context: &Context) -> Result<(), Failure> {
    let path = canonicalize_or_keep(&config::config_path(&context.home));
    replace_file(&path, text.as_bytes(), Durability::Synced)
        .map_err(|error| Failure::new(format!("cannot write {}", path.display())).because(&error))
}

/// Returns the value that is in effect for a setting.
fn find_value(key: &str, context: &Context) -> Json {
    let config = Config::read_anyway(&context.home, context.profile()).0;
    let all = serde_json::to_value(&config).expect("plain data becomes JSON");
    let value = split_key(key).into_iter().try_fold(&all, |value, part| value.get(part));
    value.cloned().unwrap_or_default()
}

fn report(key: String, previous: Json, context: &Context) -> Result<ExitCode, Failure> {
    // This also checks that the new file can be read.
    let file = collect_settings(context)?.file;
    let value = find_value(&key, context);
    let view = ChangeView { key, value, previous, file };
    if !output::answers_json(&view, context) {
        let ChangeView { key, value, previous, .. } = &view;
        let was = match value == previous {
            true => "as before".to_owned(),
            false => format!("was {previous}"),
        };
        println!("{}", output::disarm(&format!("{key} = {value}  ({was})")));
    }
    Ok(ExitCode::SUCCESS)
}
