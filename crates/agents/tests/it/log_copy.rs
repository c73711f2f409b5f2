//! Copies of the captured logs, and the entries read from them.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use takeback_agents::{LOG_FORMATS, LogFormat, LogRef, ReadPage, log_format};
use takeback_ledger::{Bookmark, LogEntry, LogFact};
use tempfile::TempDir;

/// Lists an agent's logs: files or, for opencode, the SQL that creates its database.
pub(crate) fn logs_of(agent: &str) -> Vec<PathBuf> {
    fn walk(directory: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { walk(&path, files) } else { files.push(path) }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/logs").join(agent);
    let mut files = Vec::new();
    walk(&root, &mut files);
    let is_log = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        let is_beside = name.ends_with(".settings.json")
            || (agent == "cline" && !name.ends_with(".messages.json"));
        !name.starts_with('.') && !is_beside
    };
    files.retain(is_log);
    files.sort();
    files
}

/// Returns the log with the most kinds of entries.
pub(crate) fn richest_log() -> PathBuf {
    logs_of("claude").into_iter().find(|path| path.ends_with("rich.jsonl")).unwrap()
}

/// A copy of a log that a test can change.
pub(crate) struct LogCopy {
    pub(crate) directory: TempDir,
    pub(crate) log: LogRef,
    pub(crate) format: &'static LogFormat,
}

impl LogCopy {
    pub(crate) fn new(agent: &str, source: &Path) -> LogCopy {
        let format = log_format(agent).unwrap();
        let directory = TempDir::new().unwrap();
        let name = source.file_name().unwrap();
        if source.extension() == Some("sql".as_ref()) {
            let path = directory.path().join("opencode.db");
            let database = rusqlite::Connection::open(&path).unwrap();
            database.execute_batch("PRAGMA journal_mode = WAL").unwrap();
            database.execute_batch(&fs::read_to_string(source).unwrap()).unwrap();
            let log = format.find_logs(&path).unwrap().remove(0);
            return LogCopy { directory, log, format };
        }
        let path = directory.path().join(name);
        fs::copy(source, &path).unwrap();
        // Also copy the other files that belong to the session.
        for other in [source.with_extension("settings.json"), source.with_file_name("real.json")] {
            if other.exists() && other != source {
                fs::copy(&other, directory.path().join(other.file_name().unwrap())).unwrap();
            }
        }
        if agent == "gemini" {
            fs::write(directory.path().join(".project_root"), "/PROJECT\n").unwrap();
        }
        LogCopy { directory, log: LogRef { path, session: None }, format }
    }

    pub(crate) fn read_page(&self, from: Option<Bookmark>) -> ReadPage {
        self.format.read_page(&self.log, from).unwrap()
    }

    /// Reads from a bookmark to the end of the log, and returns the last bookmark.
    pub(crate) fn read_to_end(&self, seen: &mut SeenEntries, from: Option<Bookmark>) -> Bookmark {
        let mut from = from;
        loop {
            let read = self.read_page(from);
            seen.bad_lines.extend(read.bad_lines);
            read.page.entries.into_iter().for_each(|entry| seen.add_entry(entry));
            from = Some(read.page.to.clone());
            if !read.has_more {
                return read.page.to;
            }
        }
    }
}

/// The entries that the ledger would contain, without duplicates.
#[derive(Default, Debug, PartialEq)]
pub(crate) struct SeenEntries {
    pub(crate) entries: Vec<LogEntry>,
    pub(crate) origins: HashSet<(String, String)>,
    pub(crate) bad_lines: Vec<u64>,
}

impl SeenEntries {
    pub(crate) fn add_entry(&mut self, entry: LogEntry) {
        let is_counted =
            matches!(entry.fact, LogFact::Message(_) | LogFact::Summary(_) | LogFact::Usage(_));
        let origin = (entry.session.clone(), entry.origin.clone());
        if !is_counted || self.origins.insert(origin) {
            self.entries.push(entry);
        }
    }

    pub(crate) fn show_all(&self) -> String {
        self.entries.iter().map(|entry| show_entry(entry) + "\n").collect()
    }
}

/// Shows an entry on one line.
pub(crate) fn show_entry(entry: &LogEntry) -> String {
    let text = |content: &Option<Value>| match content {
        None => "-".to_owned(),
        Some(content) => content.to_string(),
    };
    let told = match &entry.fact {
        LogFact::Session(record) => {
            let facts = [
                ("in", &record.workspace),
                ("branch", &record.git_branch),
                ("model", &record.model),
                ("title", &record.title),
                ("for", &record.parent_session_id),
            ];
            let known = facts.iter().filter_map(|(what, fact)| Some((what, fact.as_ref()?)));
            known.map(|(what, fact)| format!(" {what} {fact}")).collect::<String>()
        }
        LogFact::Message(message) => {
            let mut line = format!(" {} {}", message.role, text(&message.content));
            if let Some(thoughts) = &message.reasoning {
                line += &format!(" thinks {thoughts:?}");
            }
            if let Some(calls) = &message.tool_calls {
                line += &format!(" calls {calls}");
            }
            if let Some(call) = &message.tool_call_id {
                line += &format!(" of {call} {}", message.tool_name.as_deref().unwrap_or("?"));
            }
            line
        }
        LogFact::Summary(message) => format!(" summary {}", text(&message.content)),
        LogFact::Usage(usage) => format!(
            " {} × {}: {} in, {} out, {} and {} cached, {} thought",
            usage.api_call_count,
            usage.model,
            usage.tokens.input,
            usage.tokens.output,
            usage.tokens.cache_read,
            usage.tokens.cache_write,
            usage.tokens.reasoning
        ),
        LogFact::ForkedFrom { parent, before } => format!(" continues {parent} before {before}"),
        LogFact::Outcome { call, outcome } => format!(" {call} → {outcome}"),
    };
    let time = entry.time.map_or("-".to_owned(), takeback_ledger::Time::rfc3339);
    format!("{} {} {time}{told}", entry.session, entry.origin)
}

/// Lists the logs that agents only append to.
pub(crate) fn growing_logs() -> Vec<(&'static str, PathBuf)> {
    let all = LOG_FORMATS.iter().flat_map(|format| {
        logs_of(format.agent).into_iter().map(move |source| (format.agent, source))
    });
    all.filter(|(_, source)| source.extension() == Some("jsonl".as_ref())).collect()
}
