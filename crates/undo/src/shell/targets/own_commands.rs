//! Takeback's own commands that delete its history or its hooks, or change its settings.

use super::Finder;
use super::arguments::split_operands;
use super::value::Value;
use crate::shell::analyzer::shorten;
use crate::shell::{HistoryCommand, HistoryHarm};

/// The commands that end the protection of the history, each with the harm that it does.
const HARMFUL: &[(&[&str], HistoryHarm)] = &[
    (&["checkpoints", "clear"], HistoryHarm::Deletes),
    (&["checkpoints", "clear-legacy"], HistoryHarm::Deletes),
    (&["checkpoints", "delete"], HistoryHarm::Deletes),
    (&["checkpoints", "prune"], HistoryHarm::Deletes),
    (&["checkpoints", "unpin"], HistoryHarm::Deletes),
    (&["fleet", "gc"], HistoryHarm::Deletes),
    (&["sessions", "clear"], HistoryHarm::Deletes),
    (&["sessions", "delete"], HistoryHarm::Deletes),
    (&["sessions", "prune"], HistoryHarm::Deletes),
    (&["uninstall"], HistoryHarm::RemovesHooks),
    (&["config", "set"], HistoryHarm::ChangesSettings),
    (&["config", "unset"], HistoryHarm::ChangesSettings),
    (&["config", "edit"], HistoryHarm::ChangesSettings),
];

/// The command that gives a checkpoint a name. Without a name, or with an empty one, it removes the
/// name that protects the checkpoint.
const NAME: &[&str] = &["checkpoints", "name"];

/// The command that reads requests. A request with one of the [`DELETING_METHODS`] deletes
/// conversations.
const RPC: &[&str] = &["rpc"];

/// The methods of `takeback rpc` that delete conversations.
const DELETING_METHODS: [&str; 4] =
    ["sessions.clear", "threads.delete", "threads.delete_runs", "threads.prune"];

/// Takeback's options that take a value, for [`split_operands`].
const VALUED: &str = "C home profile color end-after";

/// Returns true if a script mentions a method that deletes conversations.
pub(super) fn names_deleting_method(script: &str) -> bool {
    DELETING_METHODS.iter().any(|method| script.contains(method))
}

impl Finder<'_> {
    /// Records a takeback command that ends the protection of the history.
    pub(super) fn visit_own_command(&mut self, args: &[Vec<Value>], text: &str) {
        let split = split_operands(args, VALUED);
        if split.has(&["--help", "-h", "--dry-run"]) {
            return;
        }
        let is_word = |at: usize, word: &str| {
            let values = split.operands.get(at).map(Vec::as_slice).unwrap_or_default();
            values.iter().any(|value| value.text() == Some(word))
        };
        let is_verb = |verb: &[&str]| verb.iter().enumerate().all(|(at, word)| is_word(at, word));
        let has_name = split.operands.len() > NAME.len() + 1 && !is_word(NAME.len() + 1, "");
        let removes_name = is_verb(NAME) && !has_name;
        let harm = match HARMFUL.iter().find(|(verb, _)| is_verb(verb)) {
            Some((_, harm)) => *harm,
            None if removes_name => HistoryHarm::Deletes,
            None if is_verb(RPC) && self.names_deleting_method => HistoryHarm::Deletes,
            None => return,
        };
        let home = split.option(&["--home"]).unwrap_or_default();
        let home = match home.as_slice() {
            [value @ Value::Text(_)] => self.resolve_value(value).and_then(|paths| {
                let [path] = paths.as_slice() else { return None };
                Some(path.clone())
            }),
            _ => None,
        };
        let command = shorten(text.trim());
        self.history.push(HistoryCommand { command, home, harm });
    }
}
