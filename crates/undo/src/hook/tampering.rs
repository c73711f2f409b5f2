//! Tampering: calls that would delete or change takeback's own history, settings or hooks.
//!
//! An agent has the same rights as its user, so this check stops mistakes and simple attempts, but
//! not a program that hides what it does.

use std::path::{Path, PathBuf};

use serde_json::Value;
use takeback_base::foreign;
use takeback_base::paths::canonicalize_or_keep;

use super::call::{analyze_call, may_mutate};
use super::protected::{Mention, find_mentions};
use super::report::{Report, ReportedEvent, ToolCall};
use crate::Opened;
use crate::history::record::clean_reason;
use crate::open::HookFile;
use crate::settings::HistoryProtection;
use crate::shell::{HistoryCommand, HistoryHarm};

/// The maximum size of a hook file. A larger file is not read.
const MAX_SETTINGS: u64 = 16 << 20;

/// Keys in a tool's input that may hold the whole new content of a file.
const CONTENT_KEYS: [&str; 4] = ["content", "contents", "file_text", "text"];

/// Words, in lower case, that show that an edit concerns hooks.
const HOOK_WORDS: [&str; 2] = ["takeback", "hook"];

/// Describes everything in a call that would delete or change takeback's own history, settings or
/// hooks. Each description completes "this call would …". This is quick, because nothing is
/// captured.
pub fn find_tampering(opened: &Opened, report: &Report) -> Vec<String> {
    let ReportedEvent::BeforeTool(call) = &report.event else { return Vec::new() };
    if opened.protection.history == HistoryProtection::Off {
        return Vec::new();
    }
    let root = call.script().and_then(|_| opened.find_root(&report.directory).ok());
    let analysis = analyze_call(opened, call, &report.directory, root.as_deref());
    if !may_mutate(call, analysis.as_ref()) {
        return Vec::new();
    }
    let homes = own_directories(opened);
    let commands = analysis.iter().flat_map(|analysis| &analysis.history);
    let commands = commands.filter(|command| {
        let home = command.home.as_deref().map(canonicalize_or_keep);
        home.is_none_or(|home| homes.contains(&home))
    });
    let describe = |own: &HistoryCommand| {
        let result = match own.harm {
            HistoryHarm::Deletes => "deletes takeback's history",
            HistoryHarm::RemovesHooks => "removes takeback's hooks",
            HistoryHarm::ChangesSettings => "changes takeback's settings",
        };
        format!("run `{}`, which {result}", clean_reason(&own.command))
    };
    let mut found: Vec<String> = commands.map(describe).collect();
    let mentions = find_mentions(call, &report.directory, analysis.as_ref());
    if mentions.is_empty() {
        return found;
    }
    let hook_files = (opened.find_hook_files)(opened.home());
    for (path, mention) in &mentions {
        // An unknown tool that names the home directory most likely only lists it.
        let is_deleted = call.script().is_some() && *mention != Mention::Named;
        let is_around = |own: &PathBuf| is_deleted && own.starts_with(path);
        let name = path.display();
        if homes.iter().any(|home| path.starts_with(home)) {
            found.push(format!("change {name}, which is part of takeback's history"));
        } else if homes.iter().any(is_around) {
            found.push(format!("delete files in {name}, which contains takeback's history"));
        }
        for file in &hook_files {
            let is_meant = file.path == *path && changes_hooks(call, file);
            if is_meant || (file.path != *path && is_around(&file.path)) {
                found.push(format!("change {}, which holds takeback's hooks", file.path.display()));
            }
        }
    }
    found.dedup();
    found
}

/// Lists the directories that hold takeback's history, with all links resolved.
fn own_directories(opened: &Opened) -> Vec<PathBuf> {
    let mirror = opened.protection.mirror.as_deref();
    [Some(opened.home()), mirror].into_iter().flatten().map(canonicalize_or_keep).collect()
}

/// Returns true if a call that names a file with hooks may change the hooks. A script may change
/// anything in the file. If the call replaces the whole content, the new content is compared with
/// the current content. An edit is judged by the strings in its input. An agent can therefore still
/// change other settings.
fn changes_hooks(call: &ToolCall, file: &HookFile) -> bool {
    let input = &call.input;
    if file.is_own || !call.names_everything() {
        return true;
    }
    let whole = CONTENT_KEYS.iter().find_map(|key| input.get(key)?.as_str());
    let is_replacement =
        ["old_string", "oldString", "old_str"].iter().all(|key| input.get(key).is_none());
    match whole.filter(|_| is_replacement) {
        Some(new) => {
            let present = foreign::read_regular(&file.path, MAX_SETTINGS).unwrap_or_default();
            !(file.keeps_hooks)(&file.path, &String::from_utf8_lossy(&present), new)
        }
        None => mentions_hooks(input, &file.path),
    }
}

/// Returns true if a string in the input mentions hooks. The path of the file itself is ignored.
fn mentions_hooks(input: &Value, path: &Path) -> bool {
    match input {
        Value::String(text) if Path::new(text).file_name() == path.file_name() => false,
        Value::String(text) => {
            let text = text.to_lowercase();
            HOOK_WORDS.iter().any(|word| text.contains(word))
        }
        Value::Array(values) => values.iter().any(|value| mentions_hooks(value, path)),
        Value::Object(fields) => fields.values().any(|value| mentions_hooks(value, path)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
