//! `takeback doctor --bundle`: a report that can be shared, without paths, names or secrets.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use takeback_ledger::Redactor;
use takeback_tree::AnyPath;

use super::DoctorView;
use crate::config::{self, Config};
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

pub(super) fn write_bundle(
    view: &DoctorView,
    file: &Path,
    context: &Context,
) -> Result<(), Failure> {
    let mut report = json!({
        "takeback": view,
        "system": describe_system(),
        "git": read_output(Command::new("git").arg("--version")),
        "config": read_config(&context.home),
    });
    mask_strings(&mut report, &private_names(context));
    if file == Path::new("-") {
        output::print_json(&report);
        return Ok(());
    }
    let path = context.directory.join(file);
    let failed = |error: std::io::Error| {
        let failure = Failure::new(format!("cannot write {}", path.display())).because(&error);
        match error.kind() {
            std::io::ErrorKind::AlreadyExists => failure.hint("name another file"),
            _ => failure,
        }
    };
    let mut new =
        File::options().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
    writeln!(new, "{report:#}").map_err(failed)?;
    if context.globals.json {
        output::print_json(&json!({ "file": AnyPath(path) }));
    } else {
        let path = output::tilde(&path, context);
        println!("Wrote {path}. Read it before you share it.");
    }
    Ok(())
}

/// Reads the settings without their comments. Patterns, addresses and prompts are masked, because
/// they name files, projects and servers. Returns `None` if the file cannot be parsed: the report
/// mentions that elsewhere.
fn read_config(home: &Path) -> Option<Value> {
    let mut settings: Value = toml::from_str(&config::read_text(home).ok()?).ok()?;
    mask_patterns(&mut settings);
    Some(settings)
}

/// The settings whose values are masked.
const MASKED: [&str; 2] = ["base_url", "system_prompt"];

/// Masks every element of every list, and the settings in [`MASKED`].
fn mask_patterns(settings: &mut Value) {
    match settings {
        Value::Object(table) => {
            for (key, value) in table {
                match MASKED.contains(&key.as_str()) {
                    true => *value = format!("<{key}>").into(),
                    false => mask_patterns(value),
                }
            }
        }
        Value::Array(patterns) => {
            for (number, pattern) in (1..).zip(patterns) {
                *pattern = format!("<pattern {number}>").into();
            }
        }
        _ => {}
    }
}

fn describe_system() -> Value {
    let system = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    json!({
        "name": text(system.sysname()),
        "release": text(system.release()),
        "machine": text(system.machine()),
    })
}

fn read_output(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Returns the names and paths to mask, each with its replacement. The longest come first: if one
/// name contains another, the longer name is then masked as a whole.
fn private_names(context: &Context) -> Vec<(String, String)> {
    let mut names = Vec::new();
    let opened = &context.open_with(Config::default());
    let mut paths = Vec::new();
    if let Ok(status) = takeback_undo::retention::read_status(opened) {
        paths.extend(status.workspaces.into_iter().map(|known| known.path.0));
        // A workspace with failures may have no checkpoints, so it may be missing from the list of
        // workspaces.
        paths.extend(status.failures.into_iter().map(|failure| failure.workspace.0));
    }
    for (number, path) in (1..).zip(paths) {
        names.push((path.display().to_string(), format!("<workspace {number}>")));
        names.push((output::tilde(&path, context), format!("<workspace {number}>")));
        let project = path.file_name().map(|name| name.to_string_lossy().into_owned());
        names.extend(project.map(|project| (project, format!("<project {number}>"))));
    }
    names.push((context.directory.display().to_string(), "<here>".into()));
    names.push((context.home.display().to_string(), "<takeback>".into()));
    if let Some(home) = context.user_home() {
        names.push((home.display().to_string(), "~".into()));
        let user = home.file_name().map(|name| name.to_string_lossy().into_owned());
        names.extend(user.map(|user| (user, "<user>".into())));
    }
    // Very short names are not masked, because they could be parts of other words.
    names.retain(|(name, _)| name.len() > 3);
    names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    names
}

/// Masks names, paths and secrets in all strings in a JSON value.
fn mask_strings(value: &mut Value, names: &[(String, String)]) {
    match value {
        Value::String(text) => {
            for (name, instead) in names {
                *text = text.replace(name, instead);
            }
            *text = Redactor::shared().mask_text(text).into_owned();
        }
        Value::Array(list) => list.iter_mut().for_each(|value| mask_strings(value, names)),
        Value::Object(fields) => fields.values_mut().for_each(|value| mask_strings(value, names)),
        _ => {}
    }
}
