//! Titles: unique, clean, and numbered when a conversation continues under the same name.

use rusqlite::{Connection, OptionalExtension, params};

use crate::sessions::head;
use crate::{Ledger, LedgerError, Redactor};

/// The maximum length of a title in characters.
const TITLE_LENGTH: usize = 100;

/// The reason why a title was refused.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum TitleError {
    /// The title consists only of invisible characters.
    #[error("the title is empty")]
    Empty,
    #[error("the title has {0} characters; the limit is {TITLE_LENGTH}")]
    TooLong(usize),
    /// Another session already has the title.
    #[error("session {by} already has the title {title:?}")]
    Taken { title: String, by: String },
}

/// Removes control, invisible and reordering characters from a title, and collapses each run of
/// white space to one space.
fn clean_title(title: &str) -> Result<String, TitleError> {
    let is_harmless = |c: &char| !c.is_control() && !is_invisible(*c);
    let spaced: String = title
        .chars()
        .map(|c| if c.is_whitespace() { ' ' } else { c })
        .filter(is_harmless)
        .collect();
    let clean = spaced.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    match clean.chars().count() {
        0 => Err(TitleError::Empty),
        1..=TITLE_LENGTH => Ok(clean),
        length => Err(TitleError::TooLong(length)),
    }
}

/// True for characters that are invisible or change the order of text. Joiners are not included,
/// because emoji and several scripts need them.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}')
}

impl Ledger {
    /// Sets or removes the title of a session.
    pub fn set_title(&mut self, id: &str, title: Option<&str>) -> Result<(), LedgerError> {
        let title = match title {
            Some(title) if self.redact => Some(clean_title(&Redactor::shared().mask_text(title))?),
            Some(title) => Some(clean_title(title)?),
            None => None,
        };
        self.database.write(|transaction| {
            let key = head(transaction, id)?.key;
            if let Some(title) = &title
                && let Some(by) = find_owner(transaction, title)?.filter(|by| by != id)
            {
                return Err(TitleError::Taken { title: title.clone(), by }.into());
            }
            transaction
                .execute("UPDATE sessions SET title = ?2 WHERE key = ?1", params![key, title])?;
            Ok(())
        })
    }

    /// Returns the next free title in a series: `Fix Docker Build`, `Fix Docker Build #2`, …
    ///
    /// ```
    /// use takeback_ledger::{Ledger, LedgerOptions, SessionRecord, Time};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let scratch = tempfile::tempdir()?;
    /// # let mut ledger = Ledger::open(&scratch.path().join("ledger.db"), &LedgerOptions::default())?;
    /// # let now = Time(1_795_003_200_000);
    /// # let session = SessionRecord { id: "mine:1".into(), source: "mine".into(), ..Default::default() };
    /// # ledger.create_session(&session, now)?;
    /// ledger.set_title("mine:1", Some("Fix the build"))?;
    /// assert_eq!(ledger.next_title("Fix the build")?, "Fix the build #2");
    /// # Ok(())
    /// # }
    /// ```
    pub fn next_title(&self, title: &str) -> Result<String, LedgerError> {
        find_next_title(self.database.reader()?, &clean_title(title)?)
    }

    /// Finds the session that a title refers to: the newest one in the series or, if that session
    /// was compacted, its last continuation.
    pub(crate) fn resolve_title(&self, title: &str) -> Result<Option<String>, LedgerError> {
        let Ok(title) = clean_title(title) else { return Ok(None) };
        let connection = self.database.reader()?;
        let newest =
            find_series(connection, &title)?.into_iter().max_by_key(|titled| titled.started_at);
        newest.map(|titled| find_latest_continuation(connection, titled.id)).transpose()
    }
}

/// Sets the title of a session that has none. If the title is taken, uses the next title in its
/// series. Ignores an empty title, because that is no reason to reject the session.
pub(crate) fn adopt_title(
    connection: &Connection,
    key: i64,
    title: &str,
) -> Result<(), LedgerError> {
    let cut: String = title.chars().take(TITLE_LENGTH).collect();
    let Ok(mut title) = clean_title(&cut) else { return Ok(()) };
    let mut has =
        connection.prepare_cached("SELECT title IS NOT NULL FROM sessions WHERE key = ?1")?;
    if has.query_row([key], |row| row.get(0))? {
        return Ok(());
    }
    if find_owner(connection, &title)?.is_some() {
        title = find_next_title(connection, &title)?;
    }
    connection.execute("UPDATE sessions SET title = ?2 WHERE key = ?1", params![key, title])?;
    Ok(())
}

/// Finds the next free title in a series. If the series is empty, the title gets no number.
pub(crate) fn find_next_title(connection: &Connection, title: &str) -> Result<String, LedgerError> {
    let base = split_number(title).0;
    let taken = find_series(connection, base)?.into_iter().map(|titled| titled.number).max();
    let Some(largest) = taken else { return Ok(base.to_owned()) };
    let suffix = format!(" #{}", largest + 1);
    let room = TITLE_LENGTH - suffix.chars().count();
    let base: String = base.chars().take(room).collect();
    let title = format!("{}{suffix}", base.trim_end());
    // Only a title that had to be shortened can collide with another series here.
    if find_owner(connection, &title)?.is_some() {
        find_next_title(connection, &title)
    } else {
        Ok(title)
    }
}

/// Finds the session that has the given title.
fn find_owner(connection: &Connection, title: &str) -> Result<Option<String>, LedgerError> {
    let mut statement = connection.prepare_cached("SELECT id FROM sessions WHERE title = ?1")?;
    Ok(statement.query_row([title], |row| row.get(0)).optional()?)
}

/// A session whose title belongs to a numbered series.
struct TitledSession {
    id: String,
    number: u64,
    started_at: (i64, i64),
}

/// Finds the sessions called `base` or `base #<number>`.
fn find_series(connection: &Connection, base: &str) -> Result<Vec<TitledSession>, LedgerError> {
    let mut statement = connection.prepare_cached(
        "SELECT id, title, started_at, key FROM sessions
         WHERE title = ?1 OR substr(title, 1, length(?1) + 2) = ?1 || ' #'",
    )?;
    let mut rows = statement.query([base])?;
    let mut series = Vec::new();
    while let Some(row) = rows.next()? {
        let title: String = row.get(1)?;
        let number = if title == base { 1 } else { split_number(&title).1 };
        if title == base || split_number(&title).0 == base {
            series.push(TitledSession {
                id: row.get(0)?,
                number,
                started_at: (row.get(2)?, row.get(3)?),
            });
        }
    }
    Ok(series)
}

/// Splits `Fix #2` into `Fix` and 2. A title without a number is the first of its series.
fn split_number(title: &str) -> (&str, u64) {
    if let Some((base, digits)) = title.rsplit_once(" #")
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && let Ok(number) = digits.parse::<u32>()
        && number >= 2
        && !base.is_empty()
    {
        return (base, number.into());
    }
    (title, 1)
}

/// Follows the chain of compactions from a session to its last continuation.
fn find_latest_continuation(connection: &Connection, id: String) -> Result<String, LedgerError> {
    let mut statement = connection.prepare_cached(
        "SELECT id FROM sessions WHERE parent_session_id = ?1 AND parent_kind = 'compaction'
         ORDER BY started_at DESC, key DESC LIMIT 1",
    )?;
    let mut path = vec![id];
    loop {
        let last = path.last().expect("the path is never empty");
        let next: Option<String> = statement.query_row([last], |row| row.get(0)).optional()?;
        match next {
            // Imported data may contain cycles.
            Some(next) if !path.contains(&next) => path.push(next),
            _ => return Ok(path.pop().expect("the path is never empty")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_cleaned() {
        assert_eq!(clean_title("  Fix\tDocker\u{202e} \u{7}Build\n").unwrap(), "Fix Docker Build");
        assert_eq!(clean_title("👩\u{200d}💻 at work").unwrap(), "👩\u{200d}💻 at work");
        assert!(matches!(clean_title("\u{200b}\n"), Err(TitleError::Empty)));
        assert!(clean_title(&"ü".repeat(100)).is_ok());
        assert!(matches!(clean_title(&"ü".repeat(101)), Err(TitleError::TooLong(101))));
    }

    #[test]
    fn numbers_are_split_off_from_titles() {
        assert_eq!(split_number("Fix #2"), ("Fix", 2));
        assert_eq!(split_number("Fix #1"), ("Fix #1", 1));
        assert_eq!(split_number("Fix #x"), ("Fix #x", 1));
        assert_eq!(split_number("Fix #"), ("Fix #", 1));
        assert_eq!(split_number("C #99999999999"), ("C #99999999999", 1));
    }
}
