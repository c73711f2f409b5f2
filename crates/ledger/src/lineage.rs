//! Lineage: finding the ancestors and descendants of a session, and forking a session.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, Transaction, params};

use crate::logs::adopt_pages;
use crate::rewinds::find_conversation;
use crate::sessions::{SELECT_SESSION, end_session, head, read_session, upsert_session};
use crate::{
    ConversationPoint, Ledger, LedgerError, LogPage, ParentKind, SessionRecord, Time, messages,
    titles,
};

/// A descendant of a session.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Descendant {
    /// The number of generations from the session to the descendant. A child has depth 1.
    pub depth: usize,
    pub session: SessionRecord,
}

/// The description of a fork that is to be made.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct NewFork<'a> {
    /// The id of the new session.
    pub id: &'a str,
    /// The point in the parent's conversation at which the fork begins. `None` means the end of the
    /// conversation.
    pub point: Option<ConversationPoint>,
    /// The directory that the fork works in; `None` if it is the parent's.
    pub workspace: Option<&'a str>,
    /// The branch that the directory is on, if the fork has a directory of its own.
    pub git_branch: Option<&'a str>,
    /// The agent's log of the fork, if the fork has one already.
    pub log: ForkLog<'a>,
}

/// The agent's own log of a fork. The log begins with copies of the entries in the parent's log, so
/// reading it later adds only the new entries.
#[derive(Clone, Copy, Debug, Default)]
pub struct ForkLog<'a> {
    /// The content of the log; empty if the fork has no log.
    pub pages: &'a [LogPage],
    /// A map from the new id of an entry to its id in the parent's log, if the two differ.
    pub origins: Option<&'a BTreeMap<String, String>>,
}

/// The result of making a fork.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct MadeFork {
    pub session: SessionRecord,
    /// The number that the last turn of the fork has in the parent; 0 if the fork contains no turn.
    pub turn: i64,
}

impl Ledger {
    /// Returns the parent, the grandparent, and so on, as far as they are known.
    pub fn ancestors(&self, id: &str) -> Result<Vec<SessionRecord>, LedgerError> {
        self.database.snapshot(|_| {
            let mut next = self.session(id)?.parent_session_id;
            let mut ancestors: Vec<SessionRecord> = Vec::new();
            while let Some(parent) = next {
                // Imported data may contain cycles, or refer to an unknown session.
                if parent == id || ancestors.iter().any(|known| known.id == parent) {
                    break;
                }
                let session = match self.session(&parent) {
                    Ok(session) => session,
                    Err(LedgerError::NoSuchSession(_)) => break,
                    Err(error) => return Err(error),
                };
                next = session.parent_session_id.clone();
                ancestors.push(session);
            }
            Ok(ancestors)
        })
    }

    /// Returns all descendants of a session, each parent before its children.
    pub fn descendants(&self, id: &str) -> Result<Vec<Descendant>, LedgerError> {
        self.database.snapshot(|connection| {
            head(connection, id)?;
            let sql = format!(
                "{SELECT_SESSION} WHERE s.parent_session_id = ?1 ORDER BY s.started_at DESC, s.key DESC"
            );
            let mut statement = connection.prepare_cached(&sql)?;
            let mut children = |id: &str| -> Result<Vec<SessionRecord>, LedgerError> {
                Ok(statement.query_map([id], read_session)?.collect::<Result<_, _>>()?)
            };
            let mut found: Vec<Descendant> = Vec::new();
            let mut open: Vec<(usize, SessionRecord)> =
                children(id)?.into_iter().map(|session| (1, session)).collect();
            while let Some((depth, session)) = open.pop() {
                if session.id == id || found.iter().any(|known| known.session.id == session.id) {
                    continue;
                }
                let below = children(&session.id)?;
                open.extend(below.into_iter().map(|session| (depth + 1, session)));
                found.push(Descendant { depth, session });
            }
            Ok(found)
        })
    }

    /// Continues a session under a new id after its conversation was summarized. Ends the session
    /// with the reason `compacted`, and creates a child with the same settings and the next title
    /// of the series.
    pub fn continue_session(
        &mut self,
        id: &str,
        new_id: &str,
        now: Time,
    ) -> Result<SessionRecord, LedgerError> {
        let parent = self.session(id)?;
        self.database.write(|transaction| {
            if head(transaction, new_id).is_ok() {
                return Err(LedgerError::Exists(new_id.to_owned()));
            }
            end_session(transaction, id, "compacted", now)?;
            create_child(transaction, &child_of(&parent, new_id, ParentKind::Compaction), now)
        })?;
        self.session(new_id)
    }

    /// Copies a session up to and including message `at`, under a new id. The copy has the same
    /// settings, the next title of the series, and no cost of its own.
    ///
    /// ```
    /// use takeback_ledger::{Ledger, LedgerOptions, MessageRecord, SessionRecord, Time};
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
    /// ledger.append("mine:1", &[say("user", "Tidy up"), say("user", "Now delete it")], now)?;
    /// let fork = ledger.fork("mine:1", 1, "mine:2", now)?;
    /// assert_eq!(fork.message_count, 1);
    /// assert_eq!(ledger.ancestors("mine:2")?[0].id, "mine:1");
    /// # Ok(())
    /// # }
    /// ```
    pub fn fork(
        &mut self,
        id: &str,
        at: i64,
        new_id: &str,
        now: Time,
    ) -> Result<SessionRecord, LedgerError> {
        let parent = self.session(id)?;
        let appended = self.database.write(|transaction| {
            let key = head(transaction, id)?.key;
            if head(transaction, new_id).is_ok() {
                return Err(LedgerError::Exists(new_id.to_owned()));
            }
            let stored = messages::read_all(transaction, key)?;
            if !stored.iter().any(|stored| stored.message.seq == at && !stored.message.undone) {
                return Err(LedgerError::NoSuchMessage { session: id.to_owned(), seq: at });
            }
            create_child(transaction, &child_of(&parent, new_id, ParentKind::Fork), now)?;
            let head = head(transaction, new_id)?;
            let kept = stored.into_iter().filter(|stored| stored.message.seq <= at);
            set_inherited(transaction, head.key, at)?;
            messages::copy_messages(transaction, head, kept, now)
        })?;
        self.index_after_bulk(appended);
        self.session(new_id)
    }

    /// Copies the conversation of a session, as it was at an earlier point or as it is now, under a
    /// new id. Messages that were taken back after that point are part of the copy; messages that
    /// had been taken back before it are not. The copy has the same settings, the next title of the
    /// series, and no cost of its own.
    pub fn fork_at(
        &mut self,
        id: &str,
        new: &NewFork<'_>,
        now: Time,
    ) -> Result<MadeFork, LedgerError> {
        let parent = self.session(id)?;
        let mut child = child_of(&parent, new.id, ParentKind::Fork);
        if let Some(workspace) = new.workspace {
            child.workspace = Some(workspace.to_owned());
            child.git_branch = new.git_branch.map(str::to_owned);
        }
        let (appended, turn) = self.database.write(|transaction| {
            let key = head(transaction, id)?.key;
            if head(transaction, new.id).is_ok() {
                return Err(LedgerError::Exists(new.id.to_owned()));
            }
            let kept = find_conversation(transaction, id, new.point)?;
            let turn = find_turn(transaction, key, kept.last().copied())?;
            let mut stored = messages::read_all(transaction, key)?;
            stored.retain(|stored| kept.contains(&stored.message.seq));
            stored.iter_mut().for_each(|stored| stored.message.undone = false);
            create_child(transaction, &child, now)?;
            let head = head(transaction, new.id)?;
            let child_key = head.key;
            set_inherited(transaction, child_key, kept.last().copied().unwrap_or(0))?;
            let appended = messages::copy_messages(transaction, head, stored.into_iter(), now)?;
            adopt_pages(transaction, key, child_key, &new.log, now)?;
            Ok((appended, turn))
        })?;
        self.index_after_bulk(appended);
        Ok(MadeFork { session: self.session(new.id)?, turn })
    }

    /// Remembers the agent's own log of a fork. `source` is the session that the log was copied
    /// from: the fork's parent or an earlier ancestor.
    pub fn adopt_log(
        &mut self,
        source: &str,
        fork: &str,
        log: &ForkLog<'_>,
        now: Time,
    ) -> Result<(), LedgerError> {
        self.database.write(|transaction| {
            let (source, fork) = (head(transaction, source)?.key, head(transaction, fork)?.key);
            adopt_pages(transaction, source, fork, log, now)
        })
    }
}

/// Finds the turn of a message. Returns 0 if there is no such message.
fn find_turn(
    transaction: &Transaction<'_>,
    key: i64,
    seq: Option<i64>,
) -> Result<i64, LedgerError> {
    let mut statement =
        transaction.prepare_cached("SELECT turn FROM messages WHERE session = ?1 AND seq = ?2")?;
    Ok(statement.query_row(params![key, seq], |row| row.get(0)).optional()?.unwrap_or(0))
}

/// Records the number of the last message that a fork has in common with its parent.
fn set_inherited(transaction: &Transaction<'_>, key: i64, last: i64) -> Result<(), LedgerError> {
    transaction.execute("UPDATE sessions SET inherited = ?2 WHERE key = ?1", [key, last])?;
    Ok(())
}

/// Returns the record of a new session that has the settings of its parent.
fn child_of(parent: &SessionRecord, id: &str, kind: ParentKind) -> SessionRecord {
    SessionRecord {
        id: id.to_owned(),
        source: parent.source.clone(),
        user_id: parent.user_id.clone(),
        model: parent.model.clone(),
        model_config: parent.model_config.clone(),
        system_prompt: parent.system_prompt.clone(),
        parent_session_id: Some(parent.id.clone()),
        parent_kind: Some(kind),
        title: parent.title.clone(),
        workspace: parent.workspace.clone(),
        git_branch: parent.git_branch.clone(),
        ..SessionRecord::default()
    }
}

/// Creates a child session. Its title is the next one in the series that the parent's title belongs
/// to.
fn create_child(
    transaction: &Transaction<'_>,
    child: &SessionRecord,
    now: Time,
) -> Result<(), LedgerError> {
    let record = SessionRecord { title: None, started_at: Some(now), ..child.clone() };
    upsert_session(transaction, &record, now)?;
    if let Some(title) = &child.title {
        let title = titles::find_next_title(transaction, title)?;
        let sql = "UPDATE sessions SET title = ?2 WHERE id = ?1";
        transaction.execute(sql, params![child.id, title])?;
    }
    Ok(())
}
