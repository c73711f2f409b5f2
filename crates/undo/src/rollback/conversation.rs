//! Conversations in the ledger. A rollback returns them to the same point in time as the files.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use takeback_base::errors::error_chain;
use takeback_ledger::{CallId, ConversationMove, ConversationPoint, Ledger, LedgerError, Time};

use super::planned::{ChatView, Goal, MovedSession, PlannedWork, RollbackView};
use super::{RollbackError, Scope};
use crate::Opened;
use crate::history::record::{CallRef, Chat, Checkpoint, Kind, RollbackRecord};
use crate::history::{FoundCheckpoint, History, Row};

/// The longest time that a rollback waits for the ledger to be up to date.
const LEDGER_WAIT: Duration = Duration::from_secs(5);

/// The conversations that a return to a checkpoint affects.
#[derive(Default)]
pub(super) struct FoundConversations {
    /// True if the ledger has the conversation of the checkpoint's own session.
    pub(super) has_own: bool,
    /// The conversations to move to another point. The conversation of the checkpoint's own session
    /// comes first.
    pub(super) moved: Vec<Chat>,
}

/// Finds the conversations that a return to a checkpoint moves to another point: the conversation
/// of the checkpoint's own session and, if files are also restored, those of all sessions that have
/// worked in the workspace since the checkpoint.
pub(super) fn find_conversations(
    opened: &Opened,
    history: &History,
    found: &FoundCheckpoint<'_>,
    scope: Scope,
    warnings: &mut Vec<String>,
) -> FoundConversations {
    let record = &found.checkpoint.record;
    let is_call = record.kind == Kind::Call;
    let Some(ledger) = open_ledger(opened, warnings) else { return FoundConversations::default() };
    let mut search = Search::new(&ledger);
    let mut conversations = FoundConversations::default();
    if is_call && let Some(call) = record.call_id() {
        let point = search.find_point(&call, found.is_step);
        conversations.has_own = point.is_some();
        search.take(call.session, point);
    }
    if scope == Scope::Both {
        search.add_sessions_since(history, found.checkpoint, is_call);
    }
    conversations.moved = search.finish(warnings);
    conversations
}

/// Finds the point before a turn that the user undoes, but only if the turn is the last one of its
/// conversation. Otherwise, later turns would be taken back, too, even though their changes stay.
/// The conversations of the turn's subagents return to the same point in time.
pub(super) fn find_undone_turn(
    opened: &Opened,
    history: &History,
    row: &Row<'_>,
    warnings: &mut Vec<String>,
) -> Vec<Chat> {
    let record = &row.first().record;
    let call = record.call_id().filter(|_| record.kind == Kind::Call);
    let Some(call) = call else { return Vec::new() };
    let Some(ledger) = open_ledger(opened, warnings) else { return Vec::new() };
    let mut search = Search::new(&ledger);
    let Some(point) = search.find_point(&call, false) else { return search.finish(warnings) };
    let count = search.count(call.session, point).unwrap_or_default();
    if count.turns != 1 || count.brought_back > 0 {
        return search.finish(warnings);
    }
    search.take(call.session, Some(point));
    for step in row.steps() {
        search.add_subagents(history, step, row.first().pin.name.seq);
    }
    search.finish(warnings)
}

/// Finds the conversations that the reversal of a rollback moves back to where they were before the
/// rollback.
pub(super) fn find_reversed_conversations(
    opened: &Opened,
    history: &History,
    safety: &Checkpoint,
    warnings: &mut Vec<String>,
) -> Vec<Chat> {
    let Some(done) = &safety.record.rollback else { return Vec::new() };
    let is_whole = done.is_whole();
    if !is_whole && done.chats().next().is_none() {
        return Vec::new();
    }
    let Some(ledger) = open_ledger(opened, warnings) else { return Vec::new() };
    let mut search = Search::new(&ledger);
    for chat in done.chats() {
        search.take_if_known(&chat.session, before_rewind(safety));
    }
    if is_whole {
        search.add_sessions_since(history, safety, true);
    }
    search.finish(warnings)
}

/// Finds the point that a session's conversation had reached when a checkpoint was taken. An inner
/// `None` means that the conversation has not changed since the checkpoint. Returns `None` if the
/// point is not known.
pub(crate) fn find_point_of_session(
    ledger: &Ledger,
    history: &History,
    found: &FoundCheckpoint<'_>,
    session: &str,
) -> Result<Option<Option<ConversationPoint>>, LedgerError> {
    let checkpoint = found.checkpoint;
    let mut search = Search::new(ledger);
    let own = checkpoint.record.call_id().filter(|_| checkpoint.record.kind == Kind::Call);
    let own = own.filter(|call| call.session == session);
    match &own {
        Some(call) => {
            let point = search.find_point(call, found.is_step);
            search.take(session, point);
        }
        None => search.add_sessions_since(history, checkpoint, false),
    }
    if let Some(error) = search.failures.remove(session) {
        return Err(error);
    }
    let point = search.found.iter().find(|chat| chat.session == session).map(Chat::point);
    Ok(match point {
        Some(point) => Some(Some(point)),
        None if own.is_some() => None,
        None => Some(None),
    })
}

fn before_rewind(safety: &Checkpoint) -> ConversationPoint {
    ConversationPoint::BeforeRewind(safety.record.moment())
}

/// Opens the ledger and adds all events that hooks have reported. Adds a warning if this fails.
fn open_ledger<'o>(
    opened: &'o Opened,
    warnings: &mut Vec<String>,
) -> Option<crate::LedgerGuard<'o>> {
    let mut keep = |error: String| {
        warnings.push(format!("the conversation is left unchanged: {error}"));
        None
    };
    let mut ledger = match opened.ledger() {
        Ok(ledger) => ledger?,
        Err(error) => return keep(error_chain(&error)),
    };
    ledger.set_wait(LEDGER_WAIT);
    match ledger.catch_up() {
        Ok(true) => Some(ledger),
        Ok(false) => keep("the latest turns are not in the ledger yet".to_owned()),
        Err(error) => keep(error_chain(&error)),
    }
}

/// A search for the point that each session had reached when a checkpoint was taken.
struct Search<'l> {
    ledger: &'l Ledger,
    /// The sessions whose point is known, or cannot be found because of an error.
    seen: BTreeSet<String>,
    found: Vec<Chat>,
    /// The errors, by session. The conversations of these sessions are left unchanged.
    failures: BTreeMap<String, LedgerError>,
}

impl<'l> Search<'l> {
    fn new(ledger: &'l Ledger) -> Search<'l> {
        Search { ledger, seen: BTreeSet::new(), found: Vec::new(), failures: BTreeMap::new() }
    }

    fn take(&mut self, session: &str, point: Option<ConversationPoint>) {
        if let Some(point) = point
            && self.seen.insert(session.to_owned())
        {
            self.found.push(Chat::new(session, point));
        }
    }

    /// Adds a point for a session if the ledger knows the point.
    fn take_if_known(&mut self, session: &str, point: ConversationPoint) {
        if !self.seen.contains(session) && self.count(session, point).is_some() {
            self.take(session, Some(point));
        }
    }

    /// Finds the point that each session had reached when a checkpoint was taken. This is the point
    /// before the session's first event since then. `is_seen` is true if the checkpoint's own event
    /// has already been handled.
    fn add_sessions_since(&mut self, history: &History, checkpoint: &Checkpoint, is_seen: bool) {
        let seq = checkpoint.pin.name.seq;
        let id = checkpoint.pin.id;
        for known in history.events().skip_while(|known| known.pin.id != id) {
            self.add_subagents(history, known, seq);
            if is_seen && known.pin.id == id {
                continue;
            }
            let record = &known.record;
            for chat in record.rollback.iter().flat_map(RollbackRecord::chats) {
                self.take_if_known(&chat.session, before_rewind(known));
            }
            if record.kind == Kind::Call
                && let Some(call) = record.call_id()
                && !self.seen.contains(call.session)
            {
                let point = self.find_point(&call, !record.first);
                self.take(call.session, point);
            }
        }
    }

    /// Finds a point for each subagent that made one of a checkpoint's calls. The subagent's
    /// conversation returns to the point before its turn, or to the point before the call if the
    /// turn began before checkpoint `seq`.
    fn add_subagents(&mut self, history: &History, known: &Checkpoint, seq: u64) {
        for call in known.record.calls().filter(|call| known.start_of(call) >= seq) {
            let Some(session) = call.subagent.as_deref().filter(|id| !self.seen.contains(*id))
            else {
                continue;
            };
            let began = call.began.as_ref().and_then(|began| Time::parse(&began.time));
            let began = began.unwrap_or_else(|| known.record.moment());
            let late = known.record.late || call.began.as_ref().is_some_and(|began| began.late);
            // Records do not contain the times of the prompts that subagents receive.
            let prompted = None;
            let id = CallId { session, reporter: session, call: &call.id, began, late, prompted };
            let is_same = |other: &CallRef| other.reporter() == session && other.turn == call.turn;
            let has_begun = history.events().any(|known| {
                known.record.calls().any(|other| known.start_of(other) < seq && is_same(other))
            });
            let point = self.find_point(&id, has_begun);
            self.take(session, point);
        }
    }

    /// Finds the point before a call's turn, or, for a step, before the call itself.
    fn find_point(&mut self, call: &CallId<'_>, is_step: bool) -> Option<ConversationPoint> {
        let turn = self.ledger.turn_of_call(call);
        let turn = self.accept(call.session, turn)??;
        if is_step && call.reporter == call.session {
            let point = self.ledger.point_of_call(&turn, call);
            return self.accept(call.session, point);
        }
        Some(ConversationPoint::BeforeMessage(turn.first_seq))
    }

    fn count(&mut self, session: &str, point: ConversationPoint) -> Option<ConversationMove> {
        let count = self.ledger.count_move(session, point);
        self.accept(session, count)
    }

    /// Unwraps the result of a ledger call for a session. Stores the error, unless it only says
    /// that the session or the rewind does not exist.
    fn accept<T>(&mut self, session: &str, result: Result<T, LedgerError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(LedgerError::NoSuchSession(_) | LedgerError::NothingToUnrewind(_)) => None,
            Err(error) => {
                self.seen.insert(session.to_owned());
                self.failures.insert(session.to_owned(), error);
                None
            }
        }
    }

    /// Returns the conversations that still have to be moved. A conversation may already be at the
    /// point that it should return to.
    fn finish(mut self, warnings: &mut Vec<String>) -> Vec<Chat> {
        let mut moved = std::mem::take(&mut self.found);
        moved.retain(|chat| {
            self.count(&chat.session, chat.point()).is_some_and(|count| !count.is_empty())
        });
        let describe = |(session, error): (String, LedgerError)| {
            format!("the conversation of {session} is left unchanged: {}", error_chain(&error))
        };
        warnings.extend(self.failures.into_iter().map(describe));
        moved
    }
}

/// Counts the messages that will be taken back or restored, and finds the first prompt that will be
/// taken back.
pub(super) fn count_messages(opened: &Opened, goal: &Goal, view: &mut RollbackView) {
    if goal.chats.is_empty() {
        return;
    }
    let Ok(Some(ledger)) = opened.ledger() else { return };
    for chat in &goal.chats {
        let count = ledger.count_move(&chat.session, chat.point()).unwrap_or_default();
        view.add_moved(&chat.session, &count);
        if view.chat.is_some() || count.taken_back == 0 {
            continue;
        }
        view.chat = Some(ChatView {
            session: chat.session.clone(),
            prompt: count.prompt,
            resume: (opened.resume_hint)(&chat.session),
        });
    }
}

/// Moves the conversations of a plan to the points that the plan gives. If files have been
/// restored, a failure is only a warning. Returns false if a conversation could not be moved.
pub(super) fn move_conversation(
    opened: &Opened,
    work: &PlannedWork,
    now: Time,
    view: &mut RollbackView,
) -> Result<bool, RollbackError> {
    let planned = std::mem::take(&mut view.sessions);
    (view.undone_messages, view.redone_messages) = (0, 0);
    let mut is_complete = true;
    for chat in &work.goal.chats {
        match move_messages(opened, chat, now) {
            Ok(mut moved) => {
                let planned = planned.iter().find(|planned| planned.session == chat.session);
                if let Some(planned) = planned {
                    (moved.turns, moved.prompt) = (planned.undone_turns, planned.prompt.clone());
                }
                view.add_moved(&chat.session, &moved);
            }
            Err(error) if work.files.is_some() => {
                view.chat = view.chat.take().filter(|view| view.session != chat.session);
                let error = error_chain(&error);
                view.warnings.push(format!(
                    "the conversation does not match the restored files yet: {error}. The next \
                     takeback command tries again"
                ));
                is_complete = false;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(is_complete)
}

/// Moves one conversation. Returns how many messages were taken back and how many were restored.
pub(super) fn move_messages(
    opened: &Opened,
    chat: &Chat,
    now: Time,
) -> Result<ConversationMove, RollbackError> {
    let moved = {
        let Some(mut ledger) = opened.ledger()? else { return Ok(ConversationMove::default()) };
        ledger.return_to_point(&chat.session, chat.point(), now)
    };
    // The next prompt begins another turn, even if the agent gives that turn the same name.
    if let Some(mut state) = opened.session_state(&chat.session) {
        state.over = true;
        let _ = opened.set_session_state(&state);
    }
    match moved {
        Err(LedgerError::NothingToUnrewind(_)) => Ok(ConversationMove::default()),
        moved => Ok(moved?),
    }
}

impl RollbackView {
    fn add_moved(&mut self, session: &str, moved: &ConversationMove) {
        if moved.is_empty() {
            return;
        }
        self.undone_messages += moved.taken_back;
        self.redone_messages += moved.brought_back;
        self.sessions.push(MovedSession {
            session: session.to_owned(),
            undone_messages: moved.taken_back,
            redone_messages: moved.brought_back,
            undone_turns: moved.turns,
            prompt: moved.prompt.clone(),
            resume: None,
            stays: None,
        });
    }
}
