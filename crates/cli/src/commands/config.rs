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

Examples:
  takeback config
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
    settings: Vec<SettingView>,
}

/// Collects all settings that are in force.
pub(crate) fn collect_settings(context: &Context) -> Result<SettingsView, Failure> {
    let config = Config::read(&context.home)?;
    let text = config::read_text(&context.home)?;
    let set = find_lines(&text);
    let all = serde_json::to_value(&config).expect("plain data becomes JSON");
    let mut settings = Vec::new();
    for (section, values) in all.as_object().into_iter().flatten() {
        for (key, value) in values.as_object().into_iter().flatten() {
            let key = format!("{section}.{key}");
            let line = set.iter().find(|(known, _)| *known == key);
            let source =
                line.map_or("default".into(), |(_, line)| format!("config.toml, line {line}"));
            settings.push(SettingView { key, value: value.clone(), source });
        }
    }
    if context.is_switched_off()
        && let Some(enabled) = settings.iter_mut().find(|item| item.key == "checkpoints.enabled")
    {
        enabled.value = Value::Bool(false);
        enabled.source = "environment, TAKEBACK_CHECKPOINTS".into();
    }
    let file = config::config_path(&context.home).display().to_string();
    Ok(SettingsView { file, settings })
}

pub(crate) fn run(_: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let view = collect_settings(context)?;
    if context.globals.json {
        output::print_json(&view);
        return Ok(ExitCode::SUCCESS);
    }
    println!("{}", output::disarm(&view.file));
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
    let Ok(table) = DeTable::parse(text) else { return Vec::new() };
    let mut keys = Vec::new();
    for (section, values) in table.get_ref() {
        let Some(values) = values.get_ref().as_table() else { continue };
        for key in values.keys() {
            let line = config::line_of(text, key.span().start);
            keys.push((format!("{}.{}", section.get_ref(), key.get_ref()), line));
        }
    }
    keys
}
