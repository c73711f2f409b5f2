//! Shows the turns of a job to the clients of its room.

use std::sync::Arc;

use serde_json::{Value, json};
use takeback_runtime::{Answer, FrontEnd, Question, TurnEvent, TurnOutcome};
use takeback_undo::Opened;

use super::live::{describe_call, describe_output};
use super::room::Room;
use super::rooms::Rooms;
use crate::text;

/// The front end of a job.
pub(super) struct RoomFront<'a> {
    pub(super) room: &'a Arc<Room>,
    pub(super) rooms: &'a Rooms,
    pub(super) opened: &'a Opened,
}

impl FrontEnd for RoomFront<'_> {
    fn show(&self, event: &TurnEvent<'_>) {
        match event {
            TurnEvent::Text(piece) => self.show_text(piece),
            TurnEvent::Reasoning(piece) => {
                let mut state = self.room.lock();
                state.live.push_reasoning(piece);
                state.publish("reasoning", &json!({ "text": text::visible(piece) }));
            }
            TurnEvent::CallStarted { call, subagent } => {
                let fields = describe_call(call, *subagent);
                let mut state = self.room.lock();
                state.live.start_call(fields.clone());
                state.publish("call_started", &fields);
            }
            TurnEvent::CallOutput { call, text } => {
                let mut state = self.room.lock();
                let text = text::visible(text);
                if state.live.push_output(call, &text) {
                    state.publish("call_output", &json!({ "call": call, "text": text }));
                }
            }
            TurnEvent::CallEnded { call, output, subagent } => {
                let mut fields = describe_call(call, *subagent);
                fields["output"] = describe_output(&output.text).into();
                fields["is_error"] = output.is_error.into();
                let mut state = self.room.lock();
                state.live.end_call(&call.id, fields.clone());
                state.publish("call_ended", &fields);
            }
            TurnEvent::Compressed { session } => self.enter_session(session),
            TurnEvent::TurnEnded { outcome, tokens, cost } => {
                let mut fields = describe_outcome(outcome);
                fields["tokens"] = json!(tokens);
                fields["cost"] = json!(cost);
                self.end_turn(outcome, &fields);
            }
            event => self.show_note(event),
        }
    }

    fn approve(&self, question: &Question<'_>) -> Answer {
        self.room.ask(question)
    }
}

impl RoomFront<'_> {
    fn show_text(&self, piece: &str) {
        let mut state = self.room.lock();
        let piece = text::visible(piece);
        let finished = state.live.push_text(&piece);
        state.publish("text", &json!({ "text": piece }));
        if let Some((html, rest)) = finished {
            state.publish("html", &json!({ "html": html, "rest": rest }));
        }
    }

    /// Shows an event that is a message to the user, such as a warning.
    fn show_note(&self, event: &TurnEvent<'_>) {
        let (name, fields) = match event {
            TurnEvent::Retrying { because, wait } => {
                let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                ("retrying", json!({ "because": because, "wait_ms": wait }))
            }
            TurnEvent::Continuing { because } => ("continuing", json!({ "because": because })),
            TurnEvent::FailedOver { because, provider } => {
                ("failed_over", json!({ "because": because, "provider": provider }))
            }
            TurnEvent::Warning(text) => ("warning", json!({ "text": text })),
            _ => return,
        };
        let mut state = self.room.lock();
        state.live.push_fixed(name, &fields);
        state.publish(name, &fields);
    }

    /// Continues in the new session, which begins with a summary of the conversation.
    fn enter_session(&self, session: &str) {
        self.rooms.add_name(session, self.room);
        let base = self.find_last_message(session);
        let mut state = self.room.lock();
        // The new session's messages contain everything so far.
        state.live.clear();
        state.base = base.unwrap_or(0);
        state.enter(session);
        let fields = json!({ "session": session });
        state.live.push_fixed("compressed", &fields);
        state.publish("compressed", &fields);
    }

    fn end_turn(&self, outcome: &TurnOutcome, fields: &Value) {
        let session = self.room.session();
        let base = self.find_last_message(&session);
        let mut state = self.room.lock();
        if let Some(base) = base {
            // Everything so far is in the ledger. For a goal, the next turn follows.
            state.live.clear();
            state.base = base;
        }
        state.publish("turn_ended", fields);
        drop(state);
        if *outcome != TurnOutcome::Complete {
            self.room.note_end(fields);
        }
    }

    fn find_last_message(&self, session: &str) -> Option<i64> {
        let ledger = self.opened.ledger().ok()??;
        Some(ledger.conversation_mark(session).ok()?.last_seq)
    }
}

fn describe_outcome(outcome: &TurnOutcome) -> Value {
    serde_json::to_value(outcome).expect("plain data becomes JSON")
}
