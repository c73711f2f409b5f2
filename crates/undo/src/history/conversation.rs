//! The part of a conversation that belongs to a row.

use takeback_ledger::{LedgerError, MessageFilter, MessageRecord, OpenError};

use super::Row;
use super::list::find_ledger_turn;
use crate::Opened;

/// The messages of a row's turn.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct TurnMessages {
    pub session: String,
    /// The messages in order, including those that were taken back.
    pub messages: Vec<MessageRecord>,
}

/// The reason why a conversation could not be read.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[allow(missing_docs, reason = "the messages explain the variants")]
pub enum ConversationError {
    Open(#[from] OpenError),
    Ledger(#[from] LedgerError),
}

/// Reads the messages of a row's turn. Returns `None` if the ledger does not know the turn.
pub fn read_turn_messages(
    opened: &Opened,
    row: &Row<'_>,
) -> Result<Option<TurnMessages>, ConversationError> {
    let (Some((session, _)), Some(ledger)) = (row.turn(), opened.ledger()?) else {
        return Ok(None);
    };
    let Some(turn) = find_ledger_turn(&mut ledger.call_turns(), row)? else { return Ok(None) };
    let turns = ledger.turns(session)?;
    let next = turns.iter().find(|other| other.turn > turn.turn).map(|next| next.first_seq);
    let is_part = |message: &MessageRecord| {
        message.seq >= turn.first_seq && next.is_none_or(|next| message.seq < next)
    };
    let mut messages = ledger.messages(session, MessageFilter::All)?;
    messages.retain(is_part);
    Ok(Some(TurnMessages { session: session.to_owned(), messages }))
}

/// Finds the message with which a row's turn begins. Returns `None` if the ledger does not know the
/// turn.
pub fn find_first_message(
    opened: &Opened,
    row: &Row<'_>,
) -> Result<Option<i64>, ConversationError> {
    let Some(ledger) = opened.ledger()? else { return Ok(None) };
    Ok(find_ledger_turn(&mut ledger.call_turns(), row)?.map(|turn| turn.first_seq))
}
