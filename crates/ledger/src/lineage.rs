//! Lineage: finding the ancestors and descendants of a session, and forking a session.

use rusqlite::{Transaction, params};

use crate::sessions::{SELECT_SESSION, end_session, head, read_session, upsert_session};
use crate::{Ledger, LedgerError, ParentKind, SessionRecord, Time, messages, titles};

/// A descendant of a session.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Descendant {
    /// The number of generations from the session to the descendant. A child has depth 1.
    pub depth: usize,
    pub session: SessionRecord,
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
            create_child(transaction, &parent, new_id, ParentKind::Compaction, now)
        })?;
        self.session(new_id)
    }

    /// Copies a session up to and including message `at`, under a new id. The copy has the same
    /// settings, the next title of the series, and no cost of its own.
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
            create_child(transaction, &parent, new_id, ParentKind::Fork, now)?;
            let head = head(transaction, new_id)?;
            let kept = stored.into_iter().filter(|stored| stored.message.seq <= at);
            messages::copy_messages(transaction, head, kept, now)
        })?;
        self.index_after_bulk(appended);
        self.session(new_id)
    }
}

/// Creates a session with the settings of its parent and the next title of the series.
fn create_child(
    transaction: &Transaction<'_>,
    parent: &SessionRecord,
    id: &str,
    kind: ParentKind,
    now: Time,
) -> Result<(), LedgerError> {
    let child = SessionRecord {
        id: id.to_owned(),
        source: parent.source.clone(),
        user_id: parent.user_id.clone(),
        model: parent.model.clone(),
        model_config: parent.model_config.clone(),
        system_prompt: parent.system_prompt.clone(),
        parent_session_id: Some(parent.id.clone()),
        parent_kind: Some(kind),
        started_at: Some(now),
        workspace: parent.workspace.clone(),
        git_branch: parent.git_branch.clone(),
        ..SessionRecord::default()
    };
    upsert_session(transaction, &child, now)?;
    if let Some(title) = &parent.title {
        let title = titles::find_next_title(transaction, title)?;
        transaction.execute("UPDATE sessions SET title = ?2 WHERE id = ?1", params![id, title])?;
    }
    Ok(())
}
