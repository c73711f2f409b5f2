//! `takeback config`: shows the settings and where they come from.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use toml::de::DeTable;

use crate::config::{self, Config};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Cell, Column, Style, Table};

/// Show all settings and where each one comes from
#[derive(Args)]
#[command(after_help = "\
The file config.toml in takeback's own directory holds the settings, for example:
  [checkpoints]
  max_snapshots = 100
  exclude = [\"*.iso\"]
  [ledger]
  redact = true
  [profiles.work.ledger]      the settings of a profile: --profile work, or TAKEBACK_PROFILE=work
  redact = false

Examples:
  takeback config
  takeback config --profile work
  takeback config --json")]
pub(crate) struct Arguments {}

/// A setting and its source.
#[derive(Serialize)]
struct SettingView {
    key: String,
    value: Value,
    source: String,
}

/// All settings, and the file that sets some of them.
#[derive(Serialize)]
pub(crate) struct SettingsView {
    file: String,
    /// The profile whose settings take precedence.
    profile: Option<String>,
    /// The names of all profiles.
    profiles: Vec<String>,
    settings: Vec<SettingView>,
}

/// Collects all settings that are in force.
pub(crate) fn collect_settings(context: &Context) -> Result<SettingsView, Failure> {
    let config = Config::read(&context.home, context.profile())?;
    let text = config::read_text(&context.home)?;
    let lines = find_lines(&text);
    let all = serde_json::to_value(&config).expect("plain data becomes JSON");
    let mut settings = Vec::new();
    for (key, value) in list_leaves(&all) {
        let line = |key: &str| lines.iter().find(|(known, _)| known == key).map(|(_, line)| line);
        let in_profile = context.profile().and_then(|profile| {
            let line = line(&format!("{}.{profile}.{key}", config::PROFILES))?;
            Some(format!("config.toml, line {line}, profile {profile}"))
        });
        let in_file = || Some(format!("config.toml, line {}", line(&key)?));
        let source = in_profile.or_else(in_file).unwrap_or_else(|| "default".into());
        settings.push(SettingView { key, value, source });
    }
    if context.is_switched_off()
        && let Some(enabled) = settings.iter_mut().find(|item| item.key == "checkpoints.enabled")
    {
        enabled.value = Value::Bool(false);
        enabled.source = "environment, TAKEBACK_CHECKPOINTS".into();
    }
    Ok(SettingsView {
        file: config::config_path(&context.home).display().to_string(),
        profile: context.profile().map(str::to_owned),
        profiles: config::profile_names(&text),
        settings,
    })
}

/// Lists all values that are not tables, with their keys.
fn list_leaves(value: &Value) -> Vec<(String, Value)> {
    let Some(table) = value.as_object() else { return vec![(String::new(), value.clone())] };
    let join = |key: &str, inner: String| match inner.as_str() {
        "" => key.to_owned(),
        inner => format!("{key}.{inner}"),
    };
    let mut leaves = Vec::new();
    for (key, value) in table {
        leaves.extend(list_leaves(value).into_iter().map(|(inner, leaf)| (join(key, inner), leaf)));
    }
    leaves
}

pub(crate) fn run(_: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let view = collect_settings(context)?;
    if context.globals.json {
        output::print_json(&view);
        return Ok(ExitCode::SUCCESS);
    }
    let profile = view.profile.as_ref().map(|name| format!(", profile {name}"));
    println!("{}", output::disarm(&format!("{}{}", view.file, profile.unwrap_or_default())));
    let columns = [Column::left(), Column::free().shrinks(1, 20), Column::free().shrinks(0, 0)];
    let mut table = Table::new(columns).indented(2);
    for item in &view.settings {
        table.add([
            Cell::new(&item.key),
            Cell::new(item.value.to_string()).between("= ", ""),
            Cell::styled(Style::Faint, format!("({})", item.source)),
        ]);
    }
    table.print();
    Ok(ExitCode::SUCCESS)
}

/// Finds the keys that the file sets, and their lines.
fn find_lines(text: &str) -> Vec<(String, usize)> {
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
            None => keys.push((path, config::line_of(text, key.span().start))),
        }
    }
}
