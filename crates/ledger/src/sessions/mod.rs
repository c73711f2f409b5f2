//! Sessions: creating, ending, finding, listing and deleting them.

mod deletion;
mod rows;

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde_json::{Map, Value};

pub use self::deletion::{PruneOptions, SessionState};
pub(crate) use self::rows::{SELECT_SESSION, read_session, upsert_session};
use crate::{Ledger, LedgerError, SessionRecord, Time, mask};

/// The selection of sessions to list.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Only sessions from these sources; if empty, from all sources.
    pub sources: Vec<String>,
    /// Only sessions in this workspace.
    pub workspace: Option<String>,
    /// True to include archived sessions.
    pub archived: bool,
    /// The maximum number of sessions; `None` for all.
    pub limit: Option<usize>,
}

/// New values for those fields of a session that the agent sets. `None` keeps the old value.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct SessionSettings {
    pub user_id: Option<String>,
    pub model: Option<String>,
    pub model_config: Option<Value>,
    pub system_prompt: Option<String>,
}

/// A session in a list.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct SessionSummary {
    pub session: SessionRecord,
    /// The beginning of the first prompt, with at most 63 characters.
    pub preview: String,
    pub last_activity: Time,
}

/// The columns of a session that are needed to append to it.
pub(crate) struct SessionHead {
    pub(crate) key: i64,
    pub(crate) last_seq: i64,
    pub(crate) last_turn: i64,
}

/// Reads the columns of a session that are needed to append to it.
pub(crate) fn head(connection: &Connection, id: &str) -> Result<SessionHead, LedgerError> {
    connection
        .prepare_cached("SELECT key, last_seq, last_turn FROM sessions WHERE id = ?1")?
        .query_row([id], |row| {
            Ok(SessionHead { key: row.get(0)?, last_seq: row.get(1)?, last_turn: row.get(2)? })
        })
        .optional()?
        .ok_or_else(|| LedgerError::NoSuchSession(id.to_owned()))
}

impl Ledger {
    /// Creates a session. If the session exists, only its empty fields are filled in.
    pub fn create_session(
        &mut self,
        session: &SessionRecord,
        now: Time,
    ) -> Result<(), LedgerError> {
        let mut session = session.clone();
        if self.redact {
            mask::mask_session(&mut session);
        }
        self.database.write(|transaction| upsert_session(transaction, &session, now).map(|_| ()))
    }

    /// Replaces fields of a session.
    pub fn update_session(
        &mut self,
        id: &str,
        settings: &SessionSettings,
    ) -> Result<(), LedgerError> {
        let mut masked = SessionRecord {
            user_id: settings.user_id.clone(),
            model: settings.model.clone(),
            model_config: settings.model_config.clone(),
            system_prompt: settings.system_prompt.clone(),
            ..SessionRecord::default()
        };
        if self.redact {
            mask::mask_session(&mut masked);
        }
        let SessionRecord { user_id, model, model_config, system_prompt, .. } = masked;
        self.database.write(|transaction| {
            let key = head(transaction, id)?.key;
            transaction.execute(
                "UPDATE sessions SET user_id = ifnull(?2, user_id), model = ifnull(?3, model)
                 WHERE key = ?1",
                params![key, user_id, model],
            )?;
            let model_config = model_config.as_ref().map(Value::to_string);
            if system_prompt.is_some() || model_config.is_some() {
                transaction.execute(
                    "INSERT INTO session_texts (session, system_prompt, model_config)
                     VALUES (?1, ?2, ?3)
                     ON CONFLICT (session) DO UPDATE SET
                         system_prompt = ifnull(excluded.system_prompt, system_prompt),
                         model_config = ifnull(excluded.model_config, model_config)",
                    params![key, system_prompt, model_config],
                )?;
            }
            Ok(())
        })
    }

    /// Ends a session. Returns false, and keeps the first reason, if it had already ended.
    pub fn end_session(&mut self, id: &str, reason: &str, now: Time) -> Result<bool, LedgerError> {
        let mut reason = reason.to_owned();
        if self.redact {
            mask::mask_text(&mut reason);
        }
        self.database.write(|transaction| end_session(transaction, id, &reason, now))
    }

    /// Reopens a session that had ended.
    pub fn reopen_session(&mut self, id: &str) -> Result<(), LedgerError> {
        self.database.write(|transaction| reopen_session(transaction, id))
    }

    /// Archives a session, or removes it from the archive.
    pub fn archive_session(&mut self, id: &str, archived: bool) -> Result<(), LedgerError> {
        self.database.write(|transaction| {
            head(transaction, id)?;
            transaction.execute(
                "UPDATE sessions SET archived = ?2 WHERE id = ?1",
                params![id, archived],
            )?;
            Ok(())
        })
    }

    /// Returns the session with exactly this id.
    pub fn session(&self, id: &str) -> Result<SessionRecord, LedgerError> {
        let connection = self.database.reader()?;
        let sql = format!("{SELECT_SESSION} WHERE s.id = ?1");
        let found = connection.prepare_cached(&sql)?.query_row([id], read_session).optional()?;
        found.ok_or_else(|| LedgerError::NoSuchSession(id.to_owned()))
    }

    /// Finds the session that the user means. The user can type an id, a title, or an unambiguous
    /// beginning of an id; an id can be typed with or without the agent's name before it.
    pub fn resolve(&self, typed: &str) -> Result<String, LedgerError> {
        let connection = self.database.reader()?;
        if head(connection, typed).is_ok() {
            return Ok(typed.to_owned());
        }
        if let Some(id) = self.resolve_title(typed)? {
            return Ok(id);
        }
        if typed.is_empty() {
            return Err(LedgerError::NoSuchSession(typed.to_owned()));
        }
        let mut statement = connection.prepare_cached(
            "SELECT id FROM sessions
             WHERE substr(id, 1, length(?1)) = ?1
                OR substr(id, instr(id, ':') + 1, length(?1)) = ?1
             ORDER BY last_activity DESC LIMIT 6",
        )?;
        let mut candidates =
            statement.query_map([typed], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
        match candidates.len() {
            0 => Err(LedgerError::NoSuchSession(typed.to_owned())),
            1 => Ok(candidates.remove(0)),
            _ => Err(LedgerError::Ambiguous { typed: typed.to_owned(), candidates }),
        }
    }

    /// Lists sessions, starting with the one that was active last.
    ///
    /// ```
    /// use takeback_ledger::{Ledger, LedgerOptions, ListOptions, MessageRecord, SessionRecord, Time};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let scratch = tempfile::tempdir()?;
    /// # let mut ledger = Ledger::open(&scratch.path().join("ledger.db"), &LedgerOptions::default())?;
    /// # let now = Time(1_795_003_200_000);
    /// # let session = SessionRecord { id: "mine:1".into(), source: "mine".into(), ..Default::default() };
    /// # ledger.create_session(&session, now)?;
    /// # let say = |role: &str, text: &str| MessageRecord {
    /// #     role: role.into(),
    /// #     content: Some(text.into()),
    /// #     ..MessageRecord::default()
    /// # };
    /// ledger.append("mine:1", &[say("user", "Tidy up the imports")], now)?;
    /// let options = ListOptions { sources: vec!["mine".into()], ..ListOptions::default() };
    /// assert_eq!(ledger.sessions(&options)?[0].preview, "Tidy up the imports");
    /// # Ok(())
    /// # }
    /// ```
    pub fn sessions(&self, options: &ListOptions) -> Result<Vec<SessionSummary>, LedgerError> {
        let sql = format!(
            "{SELECT_SESSION}
             WHERE (?1 = '[]' OR s.source IN (SELECT value FROM json_each(?1)))
               AND (?2 IS NULL OR s.workspace = ?2)
               AND (?3 OR NOT s.archived)
             ORDER BY s.last_activity DESC, s.key DESC
             LIMIT ?4"
        );
        let sources = Value::from(options.sources.clone()).to_string();
        let limit = options.limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
        self.database.snapshot(|connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            let rows = statement
                .query_map(params![sources, options.workspace, options.archived, limit], |row| {
                    Ok((row.get("key")?, row.get("last_activity")?, read_session(row)?))
                })?;
            let mut list = Vec::new();
            for row in rows {
                let (key, last_activity, session) = row?;
                let preview = read_preview(connection, key)?;
                list.push(SessionSummary { session, preview, last_activity });
            }
            Ok(list)
        })
    }

    /// Returns the ids of all sessions from these sources, in the order in which they began. If
    /// `sources` is empty, returns the ids of all sessions.
    pub fn session_ids(&self, sources: &[String]) -> Result<Vec<String>, LedgerError> {
        let connection = self.database.reader()?;
        let mut statement = connection.prepare_cached(
            "SELECT id FROM sessions
             WHERE ?1 = '[]' OR source IN (SELECT value FROM json_each(?1))
             ORDER BY started_at, key",
        )?;
        let rows =
            statement.query_map([Value::from(sources.to_vec()).to_string()], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

/// Ends a session. Returns false if it had already ended.
pub(crate) fn end_session(
    transaction: &Transaction<'_>,
    id: &str,
    reason: &str,
    now: Time,
) -> Result<bool, LedgerError> {
    head(transaction, id)?;
    let changed = transaction.execute(
        "UPDATE sessions SET ended_at = ?2, end_reason = ?3 WHERE id = ?1 AND ended_at IS NULL",
        params![id, now, reason],
    )?;
    Ok(changed == 1)
}

/// Reopens a session if it has ended.
pub(crate) fn reopen_session(transaction: &Transaction<'_>, id: &str) -> Result<(), LedgerError> {
    head(transaction, id)?;
    let sql = "UPDATE sessions SET ended_at = NULL, end_reason = NULL
               WHERE id = ?1 AND ended_at IS NOT NULL";
    transaction.prepare_cached(sql)?.execute([id])?;
    Ok(())
}

/// Reads the beginning of the first prompt.
fn read_preview(connection: &Connection, key: i64) -> Result<String, LedgerError> {
    let mut statement = connection.prepare_cached(
        "SELECT content, structured FROM messages
         WHERE session = ?1 AND role = 'user' AND NOT undone AND content IS NOT NULL
         ORDER BY seq LIMIT 1",
    )?;
    let first = statement
        .query_row([key], |row| Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?)))
        .optional()?;
    Ok(match first {
        Some((json, true)) => preview_of(&parse_json(&json)),
        Some((text, false)) => shorten_prompt(&text),
        None => String::new(),
    })
}

/// Returns the beginning of a prompt, as the list of sessions shows it.
pub fn preview_of(content: &Value) -> String {
    match content {
        Value::String(text) => shorten_prompt(text),
        content => shorten_prompt(&crate::messages::text_of(content)),
    }
}

fn shorten_prompt(text: &str) -> String {
    const LENGTH: usize = 63;
    let line = text.split_whitespace().take(LENGTH).collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LENGTH) {
        None => line,
        Some(_) => line.chars().take(LENGTH - 1).chain(['…']).collect(),
    }
}

/// Parses a JSON column. A value that is not JSON becomes a string. Only another program can have
/// written such a value.
pub(crate) fn parse_json(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|_| Value::from(json))
}

/// Parses a JSON column that contains an object. Returns an empty map for anything else.
pub(crate) fn parse_map(json: &str) -> Map<String, Value> {
    serde_json::from_str(json).unwrap_or_default()
}
