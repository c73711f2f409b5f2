//! Messages that stay in a log, but no longer reach the model.
//!
//! Cline keeps an open conversation in memory, so shortening the log would have no effect. takeback
//! lists the messages to hide in a file, one per session, and its plugin leaves them out of each
//! request to the model. The log stays unchanged. The list is removed once no message is hidden any
//! more.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use takeback_base::durable::{self, Durability};
use takeback_undo::Opened;

use super::{Conversation, ConversationError, find_logs, notes};
use crate::rewind::{MessagePart, Rewind, RewindError};

/// Lists the messages that the plugin must leave out so that the conversation matches the ledger.
/// Fails, and changes nothing, if the log contains messages that are not in the ledger, or if the
/// checks for a copy fail.
pub(super) fn update(
    opened: &Opened,
    rewind: &Rewind,
    session: &str,
) -> Result<(), ConversationError> {
    let (agent, id) = session.split_once(':').unwrap_or_default();
    let conversation = Conversation::read(opened, session, None)?;
    let logs = find_logs(opened, agent, id);
    let log = logs.first().ok_or(ConversationError::NoLog)?;
    let (kept, own) = (conversation.kept(), notes::own_directory(opened));
    let known: BTreeSet<&str> =
        conversation.messages.iter().filter_map(|message| message.origin.as_deref()).collect();
    if !rewind.has_only(log, &known, &own)? {
        return Err(RewindError::Differs.into());
    }
    let parts = rewind.list_parts(&conversation.request(opened, log, &kept, &own))?;
    write_list(&list_path(opened, id), &parts).map_err(ConversationError::Note)
}

/// Updates the list of a session, if there is one. If that is impossible, the list stays unchanged.
pub(super) fn refresh(opened: &Opened, rewind: &Rewind, session: &str) {
    let (_, id) = session.split_once(':').unwrap_or_default();
    if rewind.needs_plugin() && list_path(opened, id).exists() {
        let _ = update(opened, rewind, session);
    }
}

/// Writes the parts of all messages, so that the plugin can distinguish equal texts. If no message
/// is hidden, removes the list.
fn write_list(path: &Path, parts: &[MessagePart]) -> std::io::Result<()> {
    if !parts.iter().any(|part| part.hidden) {
        return durable::ignore_missing(fs::remove_file(path));
    }
    let text = serde_json::to_vec(parts).map_err(std::io::Error::other)?;
    durable::replace_file(path, &text, Durability::Synced)
}

/// Counts the conversations in which the plugin hides messages. `home` is takeback's home.
pub fn count_hidden(home: &Path) -> usize {
    fs::read_dir(list_directory(home)).map_or(0, Iterator::count)
}

fn list_path(opened: &Opened, id: &str) -> PathBuf {
    list_directory(opened.home()).join(format!("{id}.json"))
}

/// Returns the directory with the lists. The plugin reads the lists from the same path.
fn list_directory(home: &Path) -> PathBuf {
    home.join("conversations").join("hidden")
}
