//! The turns of many calls.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::iter;

use rusqlite::Connection;
use serde_json::Value;

use crate::sessions::head;
use crate::turns::is_named_by_messages;
use crate::{CallId, Ledger, LedgerError, Turn};

/// A cache for looking up the turns of many calls. To look up the turn of one call, use
/// [`Ledger::turn_of_call`]. The messages of a session are searched only once, when the first of
/// its calls is looked up.
pub struct CallTurns<'l> {
    ledger: &'l Ledger,
    /// For each session that was searched, by its key: the turns of the calls that its messages
    /// name.
    naming: HashMap<i64, NamingTurns>,
}

/// The first and the last turn in which a message names a call, by the call's id as JSON text.
type NamingTurns = HashMap<String, (i64, i64)>;

/// The maximum length, in bytes, of an id that is kept in memory. Longer strings are not kept,
/// because they may be the contents of files. A call with a longer id is looked up separately.
const MAX_ID: usize = 256;

impl Ledger {
    /// Returns an empty cache for looking up the turns of many calls.
    pub fn call_turns(&self) -> CallTurns<'_> {
        CallTurns { ledger: self, naming: HashMap::new() }
    }
}

impl<'l> CallTurns<'l> {
    /// Returns the ledger.
    pub fn ledger(&self) -> &'l Ledger {
        self.ledger
    }

    /// Returns the turn that a call is part of.
    pub fn find(&mut self, call: &CallId<'_>) -> Result<Option<Turn>, LedgerError> {
        let id = json_text(call.call);
        if !is_named_by_messages(call) || id.len() > MAX_ID {
            return self.ledger.turn_of_call(call);
        }
        let connection = self.ledger.database.reader()?;
        let owner = head(connection, call.session)?.key;
        let naming = match self.naming.entry(owner) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(read_naming_turns(connection, owner)?),
        };
        let found = naming.get(&id).filter(|(first, last)| first == last);
        self.ledger.turn_of_named_call(owner, call, found.map(|(turn, _)| *turn))
    }
}

/// Finds the calls that a session's messages name, and the turns of these messages.
fn read_naming_turns(connection: &Connection, session: i64) -> Result<NamingTurns, LedgerError> {
    let mut statement = connection.prepare_cached(
        "SELECT turn, tool_call_id, tool_calls FROM messages
         WHERE session = ?1 AND (tool_call_id IS NOT NULL OR tool_calls IS NOT NULL)",
    )?;
    let mut rows = statement.query([session])?;
    let mut naming = NamingTurns::new();
    while let Some(row) = rows.next()? {
        let turn: i64 = row.get(0)?;
        let mut note = |id: &str| {
            if !naming.contains_key(id) {
                naming.insert(id.to_owned(), (turn, turn));
            }
            let (first, last) = naming.get_mut(id).expect("the id was just added");
            (*first, *last) = (turn.min(*first), turn.max(*last));
        };
        if let Some(id) = row.get::<_, Option<String>>(1)? {
            note(&json_text(&id));
        }
        if let Some(calls) = row.get::<_, Option<String>>(2)? {
            json_strings(&calls).filter(|text| text.len() <= MAX_ID).for_each(note);
        }
    }
    Ok(naming)
}

/// Returns a string as it is written in JSON, but without the quotation marks.
fn json_text(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Lists the strings in a JSON text, without their quotation marks.
fn json_strings(json: &str) -> impl Iterator<Item = &str> {
    let mut rest = json;
    iter::from_fn(move || {
        let (_, after) = rest.split_once('"')?;
        let mut is_escaped = false;
        let end = after.bytes().position(|byte| {
            let is_end = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            is_end
        })?;
        rest = &after[end + 1..];
        Some(&after[..end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_found_in_json_with_escapes() {
        let json = Value::from(vec!["a", "b \"c\"", "\\", "", "ä"]).to_string();
        let found: Vec<&str> = json_strings(&json).collect();
        assert_eq!(found, ["a", "b \\\"c\\\"", "\\\\", "", "ä"]);
        assert_eq!(json_text("b \"c\""), found[1]);
        assert_eq!(json_strings("[\"a\", \"cut").collect::<Vec<_>>(), ["a"]);
    }
}
