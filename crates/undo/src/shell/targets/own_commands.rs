//! Takeback's own commands that delete its history or its hooks.

use super::Finder;
use super::arguments::split_operands;
use super::value::Value;
use crate::shell::HistoryCommand;
use crate::shell::analyzer::shorten;

/// The commands that delete checkpoints or conversations.
const DELETING: &[&[&str]] = &[
    &["checkpoints", "clear"],
    &["checkpoints", "clear-legacy"],
    &["checkpoints", "delete"],
    &["checkpoints", "prune"],
    &["checkpoints", "unpin"],
    &["sessions", "clear"],
    &["sessions", "delete"],
    &["sessions", "prune"],
];

/// The command that removes hooks.
const UNINSTALL: &[&str] = &["uninstall"];

/// Takeback's options that take a value, for [`split_operands`].
const VALUED: &str = "C home profile color end-after";

impl Finder<'_> {
    /// Notes a takeback command that deletes the history or the hooks.
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
        let removes_hooks = is_verb(UNINSTALL);
        if !removes_hooks && !DELETING.iter().any(|verb| is_verb(verb)) {
            return;
        }
        let home = split.option(&["--home"]).unwrap_or_default();
        let home = match home.as_slice() {
            [value @ Value::Text(_)] => self.resolve_value(value).and_then(|paths| {
                let [path] = paths.as_slice() else { return None };
                Some(path.clone())
            }),
            _ => None,
        };
        let command = shorten(text.trim());
        self.history.push(HistoryCommand { command, home, removes_hooks });
    }
}
