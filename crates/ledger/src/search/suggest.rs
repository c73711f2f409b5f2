//! Suggests another spelling for a query that finds nothing.

use rusqlite::Connection;
use takeback_base::text::find_similar_at_least;

use super::fold::fold;
use super::tokens::{Piece, cut_word, pieces};
use crate::{Ledger, LedgerError};

/// The minimum length of a word that is replaced. Shorter words are similar to too many others.
const SHORTEST: usize = 4;

/// The minimum similarity of a suggested word. In a large vocabulary, every word resembles some
/// other word.
const LEAST: f64 = 0.87;

impl Ledger {
    /// Looks for words of the query that occur in no message, and replaces each of them with the
    /// most similar known word. Returns `None` if there is nothing to replace.
    pub fn suggest_query(&self, query: &str) -> Result<Option<String>, LedgerError> {
        let connection = self.database.reader()?;
        let mut suggested = Vec::new();
        let mut has_changed = false;
        for typed in query.split_whitespace() {
            let similar = find_similar_word(connection, typed)?;
            has_changed |= similar.is_some();
            suggested.push(similar.unwrap_or_else(|| typed.to_owned()));
        }
        Ok(has_changed.then(|| suggested.join(" ")))
    }
}

/// Finds an indexed word that is similar to a typed one. Returns `None` if the typed word is in the
/// index, or consists of more than one word.
fn find_similar_word(connection: &Connection, typed: &str) -> Result<Option<String>, LedgerError> {
    let folded = fold(typed);
    let mut parts = pieces(&folded);
    let (Some((0, Piece::Word(word))), None) = (parts.next(), parts.next()) else {
        return Ok(None);
    };
    let length = word.chars().count();
    if word.len() != folded.len() || length < SHORTEST || is_operator(typed) {
        return Ok(None);
    }
    // SQLite offers the vocabulary of an index as a table.
    connection.execute_batch(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab (main, words, row)",
    )?;
    let mut statement = connection.prepare_cached(
        "SELECT term FROM temp.vocabulary WHERE length(term) BETWEEN ?1 AND ?2 ORDER BY doc",
    )?;
    let bounds = [length.saturating_sub(2), length + 2].map(|bound| bound as i64);
    let known = statement
        .query_map(bounds, |row| row.get(0))?
        .collect::<Result<Vec<String>, rusqlite::Error>>()?;
    let cut = cut_word(word);
    if known.iter().any(|known| known == cut) {
        return Ok(None);
    }
    Ok(find_similar_at_least(LEAST, cut, known.iter().map(String::as_str)).map(str::to_owned))
}

fn is_operator(word: &str) -> bool {
    matches!(word, "OR" | "NOT" | "AND")
}
