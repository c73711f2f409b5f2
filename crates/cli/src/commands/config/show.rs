//! `takeback config show`: shows the settings, what they mean, and where they come from.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::change::resolve_key;
use crate::config::known::find_known;
use crate::config::{self, Config};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Cell, Column, Style, Table};

/// Show all settings, what they mean, and where each one comes from
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback config
  takeback config show max_files exclude
  takeback config --profile work
  takeback config --json")]
pub(super) struct Arguments {
    /// Only these settings, with or without their tables
    #[arg(value_name = "SETTING")]
    keys: Vec<String>,
}

/// The source of a setting that the user has not changed.
const DEFAULT: &str = "default";

/// A setting and its source.
#[derive(Serialize)]
struct SettingView {
    key: String,
    value: Value,
    source: String,
    /// The meaning of the setting in a few words.
    meaning: Option<&'static str>,
}

/// All settings, and the path of config.toml, which overrides some of the defaults.
#[derive(Serialize)]
pub(crate) struct SettingsView {
    pub(super) file: String,
    /// The profile whose settings take precedence.
    profile: Option<String>,
    /// The names of all profiles.
    profiles: Vec<String>,
    settings: Vec<SettingView>,
}

/// Collects all settings that are in effect.
pub(crate) fn collect_settings(context: &Context) -> Result<SettingsView, Failure> {
    let config = Config::read(&context.home, context.profile())?;
    let text = config::read_text(&context.home)?;
    let lines = config::find_lines(&text);
    let all = serde_json::to_value(&config).expect("plain data becomes JSON");
    let mut settings = Vec::new();
    for (key, value) in list_leaves(&all) {
        let line = |key: &str| lines.iter().find(|(known, _)| known == key).map(|(_, line)| line);
        let in_profile = context.profile().and_then(|profile| {
            let line = line(&format!("{}.{profile}.{key}", config::PROFILES))?;
            Some(format!("config.toml, line {line}, profile {profile}"))
        });
        let in_file = || Some(format!("config.toml, line {}", line(&key)?));
        let source = in_profile.or_else(in_file).unwrap_or_else(|| DEFAULT.into());
        let meaning = find_known(&key).map(|setting| setting.meaning);
        settings.push(SettingView { key, value, source, meaning });
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
pub(crate) fn list_leaves(value: &Value) -> Vec<(String, Value)> {
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

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let mut view = collect_settings(context)?;
    let wanted = arguments.keys.iter().map(|key| resolve_key(key));
    let wanted = wanted.collect::<Result<Vec<String>, Failure>>()?;
    view.settings.retain(|setting| wanted.is_empty() || wanted.contains(&setting.key));
    if context.globals.json {
        output::print_json(&view);
        return Ok(ExitCode::SUCCESS);
    }
    let profile = view.profile.as_ref().map(|name| format!(", profile {name}"));
    println!("{}", output::disarm(&format!("{}{}", view.file, profile.unwrap_or_default())));
    let columns = [Column::left(), Column::left().shrinks(1, 12), Column::free().shrinks(0, 0)];
    let mut table = Table::new(columns).indented(2);
    for item in &view.settings {
        let source = (item.source != DEFAULT).then(|| format!("({}) ", item.source));
        let meaning = format!("{}{}", source.unwrap_or_default(), item.meaning.unwrap_or(""));
        table.add([
            Cell::new(&item.key),
            Cell::new(item.value.to_string()).between("= ", ""),
            Cell::styled(Style::Faint, meaning.trim_end()),
        ]);
    }
    table.print();
    Ok(ExitCode::SUCCESS)
}
