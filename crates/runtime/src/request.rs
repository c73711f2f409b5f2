//! The steps that ask the model.

use std::time::Duration;

use takeback_ledger::{Event, MessageRecord, Tokens, UsageRecord};

use crate::conversation::OverlapTrimmer;
use crate::entry::{Bill, Entry};
use crate::error::TaskError;
use crate::front_end::{FrontEnd, TurnEvent, TurnOutcome};
use crate::model::{
    Attempt, AttemptEnd, AttemptFailure, Delta, FailureKind, Finish, ModelRequest, Provider, Reply,
    build_request, estimate_tokens, request_digest, to_message,
};
use crate::recovery::Setback;
use crate::state::ModelStep;
use crate::task::Task;

/// The number of tokens that are kept free for the reply, unless it may be even shorter.
const RESERVED: u64 = 20_000;

impl Task {
    /// Asks the model for its next reply, and records the reply or the failure.
    pub(crate) fn ask_model(
        &mut self,
        step: ModelStep,
        front: &dyn FrontEnd,
    ) -> Result<(), TaskError> {
        self.announce(step.wait, front);
        if !self.cancel.wait(step.wait) {
            return Ok(());
        }
        let agent = self.agent.clone();
        let provider = agent.provider(step.use_fallback);
        let (messages, tools) = (self.conversation.for_request(), self.tool_specs());
        let session = self.session.clone();
        let request = ModelRequest {
            session: &session,
            messages: &messages,
            tools: &tools,
            max_output: step.max_output,
        };
        let room = provider.context_window.saturating_sub(RESERVED.min(step.max_output));
        if estimate_tokens(&request) > room && self.can_compress() {
            return self.compress(front);
        }
        let body = build_request(provider, &request);
        let requested = Entry::Requested {
            provider: provider.name.clone(),
            model: provider.model.clone(),
            digest: request_digest(&body),
            max_output: step.max_output,
        };
        self.append(&[], |_| vec![requested])?;
        let mut trimmer = OverlapTrimmer::new(self.conversation.cut_answer());
        let mut text = String::new();
        let mut on_delta = |delta: Delta<'_>| match delta {
            Delta::Text(piece) => {
                let new = trimmer.push(piece);
                show_text(&new, &mut text, front);
            }
            Delta::Reasoning(piece) => front.show(&TurnEvent::Reasoning(piece)),
            Delta::Call { .. } => {}
        };
        let mut attempt = agent.client.send(provider, &body, &self.cancel, &mut on_delta);
        let rest = trimmer.finish();
        show_text(&rest, &mut text, front);
        attempt.reply.text = text;
        self.record_attempt(provider, attempt)
    }

    /// Tells the user why the model is asked again.
    fn announce(&self, wait: Duration, front: &dyn FrontEnd) {
        let setback = self.state.turn.as_ref().and_then(|turn| turn.attempts.setback.as_ref());
        match setback {
            Some(Setback::Failed(failure)) => {
                front.show(&TurnEvent::Retrying { because: &failure.message, wait });
            }
            Some(Setback::Cut(failure)) => {
                front.show(&TurnEvent::Continuing { because: &failure.message });
            }
            Some(Setback::LongText | Setback::LongCall) | None => {}
        }
    }

    fn record_attempt(&mut self, provider: &Provider, attempt: Attempt) -> Result<(), TaskError> {
        let Attempt { reply, end } = attempt;
        let bill = bill_of(provider, reply.usage);
        let usage = self.usage_event(provider, &bill);
        match end {
            AttemptEnd::Finished(finish) => self.record_reply(provider, reply, finish, bill, usage),
            AttemptEnd::Failed(failure) => self.record_part(provider, reply, failure, bill, usage),
            AttemptEnd::Cancelled => self.record_part(provider, reply, cancelled(), bill, usage),
        }
    }

    /// Records a whole reply. A reply that is empty, or that consists of a tool call that reached
    /// the output limit, is of no use.
    fn record_reply(
        &mut self,
        provider: &Provider,
        mut reply: Reply,
        finish: Finish,
        bill: Bill,
        usage: Option<Event>,
    ) -> Result<(), TaskError> {
        self.name_calls(&mut reply);
        let is_cut_call = finish == Finish::Length && reply.cut_calls > 0 && reply.calls.is_empty();
        let is_empty = reply.text.is_empty() && reply.calls.is_empty();
        let is_kept = !is_cut_call && !is_empty;
        let end = AttemptEnd::Finished(finish.clone());
        let message = is_kept.then(|| to_message(&reply, provider, &end));
        let (calls, cut_calls) = (reply.calls, reply.cut_calls);
        self.append(&self.events_of(message, usage), |messages| {
            let message = messages.first().map(|message| message.seq);
            vec![Entry::Replied { message, finish, calls, cut_calls, bill }]
        })
    }

    /// Records the part of a reply that arrived before it was cut off.
    fn record_part(
        &mut self,
        provider: &Provider,
        mut reply: Reply,
        failure: AttemptFailure,
        bill: Bill,
        usage: Option<Event>,
    ) -> Result<(), TaskError> {
        self.name_calls(&mut reply);
        // Reasoning without its signature is not accepted by the next request.
        (reply.reasoning, reply.reasoning_details) = (None, None);
        let is_empty = reply.text.is_empty() && reply.calls.is_empty();
        let end = AttemptEnd::Failed(failure.clone());
        let message = (!is_empty).then(|| to_message(&reply, provider, &end));
        let calls = reply.calls;
        self.append(&self.events_of(message, usage), |messages| {
            let message = messages.first().map(|message| message.seq);
            vec![Entry::Interrupted { message, calls, failure, bill }]
        })
    }

    fn events_of(&self, message: Option<MessageRecord>, usage: Option<Event>) -> Vec<Event> {
        let session = self.session.id.clone();
        let message = message
            .map(|message| Event::Messages { session: session.clone(), messages: vec![message] });
        message.into_iter().chain(usage).collect()
    }

    /// Gives each call an id that is unique in the session. Some servers use the same ids in every
    /// reply.
    fn name_calls(&self, reply: &mut Reply) {
        let number = self.journal.next_seq();
        for (index, call) in reply.calls.iter_mut().enumerate() {
            call.id = format!("call_{number}_{index}");
        }
    }

    pub(crate) fn usage_event(&self, provider: &Provider, bill: &Bill) -> Option<Event> {
        let tokens = bill.tokens?;
        let usage = UsageRecord {
            model: provider.model.clone(),
            billing_provider: Some(provider.name.clone()),
            billing_base_url: Some(provider.base_url.clone()),
            api_call_count: 1,
            tokens,
            estimated_cost_usd: bill.cost,
            ..UsageRecord::default()
        };
        Some(Event::Usage { session: self.session.id.clone(), usage })
    }

    /// Lets the fallback provider take over for the rest of the turn.
    pub(crate) fn fail_over(&mut self, front: &dyn FrontEnd) -> Result<(), TaskError> {
        let Some(fallback) = self.agent.fallback.clone() else {
            let because = "there is no fallback provider".to_owned();
            return self
                .end_turn(TurnOutcome::Failed { because, is_limited: false }, front)
                .map(drop);
        };
        let setback = self.state.turn.as_ref().and_then(|turn| turn.attempts.setback.clone());
        let because = match setback {
            Some(Setback::Failed(failure) | Setback::Cut(failure)) => failure.message,
            _ => String::new(),
        };
        front.show(&TurnEvent::FailedOver { because: &because, provider: &fallback.name });
        self.append(&[], |_| vec![Entry::FailedOver { provider: fallback.name }])
    }
}

/// Describes the end of an attempt that the user stopped.
pub(crate) fn cancelled() -> AttemptFailure {
    let message = "stopped by the user".to_owned();
    AttemptFailure { kind: FailureKind::Connection, status: None, message, retry_after: None }
}

fn show_text(new: &str, text: &mut String, front: &dyn FrontEnd) {
    if !new.is_empty() {
        text.push_str(new);
        front.show(&TurnEvent::Text(new));
    }
}

pub(crate) fn bill_of(provider: &Provider, tokens: Option<Tokens>) -> Bill {
    let cost = tokens.zip(provider.prices).map(|(tokens, prices)| prices.cost(tokens));
    Bill { tokens, cost }
}
