//! Finds the turns whose conversations contain given words.

use std::collections::{BTreeMap, HashMap, HashSet};

use takeback_ledger::SearchOptions;
use takeback_tree::Oid;
use takeback_undo::Opened;
use takeback_undo::history::find_first_message;

use super::Work;
use crate::host::Error;

/// The maximum number of messages that are examined.
const MAX_HITS: usize = 300;

impl Work {
    /// Finds the workspace's rows whose messages contain all of these words.
    pub(super) fn find_said(
        &self,
        opened: &Opened,
        words: &str,
        is_outdated: &dyn Fn() -> bool,
    ) -> Result<HashSet<Oid>, Error> {
        if !opened.has_store() {
            return Ok(HashSet::new());
        }
        let options = SearchOptions { undone: true, limit: MAX_HITS, ..SearchOptions::default() };
        // In messages, a word of the filter matches whole words and the beginnings of longer ones.
        // In a row's own texts and paths, it matches anywhere.
        let query: Vec<String> = words.split_whitespace().map(|word| format!("{word}*")).collect();
        let hits = match opened.ledger()? {
            Some(mut ledger) => {
                ledger.search_until(&query.join(" "), &options, is_outdated)?.results
            }
            None => return Ok(HashSet::new()),
        };
        let hits: Vec<(String, i64)> =
            hits.into_iter().map(|hit| (hit.session, hit.message)).collect();
        let sessions: HashSet<&str> = hits.iter().map(|(session, _)| session.as_str()).collect();
        // The first message of each turn, by session.
        let (_, history) = self.history(opened)?;
        let mut turns: HashMap<&str, BTreeMap<i64, Oid>> = HashMap::new();
        for row in history.rows() {
            if let Some((session, _)) = row.turn()
                && sessions.contains(session)
                && let Some(first) = find_first_message(opened, &row)?
            {
                turns.entry(session).or_default().insert(first, row.first().pin.id);
            }
        }
        let turn_of = |(session, message): &(String, i64)| {
            let turns = turns.get(session.as_str())?;
            turns.range(..=*message).next_back().map(|(_, id)| *id)
        };
        Ok(hits.iter().filter_map(turn_of).collect())
    }
}
