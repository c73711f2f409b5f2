//! The steps that send requests to the model.

use std::time::Duration;

use sha2::{Digest, Sha256};
use takeback_ledger::{Event, MessageRecord, Tokens, UsageRecord};

use crate::clearing::{can_clear, clear_results, find_clearing};
use crate::compress::can_compress;
use crate::conversation::OverlapTrimmer;
use crate::entry::{Bill, Entry};
use crate::error::TaskError;
use crate::front_end::{FrontEnd, TurnEvent, TurnOutcome};
use crate::model::{
    Attempt, AttemptEnd, AttemptFailure, Delta, FailureKind, Finish, ModelRequest, Provider, Reply,
    RequestBody, estimate_tokens, to_message,
};
use crate::recovery::Setback;
use crate::state::{ModelStep, State};
use crate::task::Task;

/// The number of tokens that are kept free for the reply, unless the output limit is even lower.
const RESERVED: u64 = 20_000;

/// A request that can be sent as soon as the journal contains its entry.
pub(crate) struct PreparedRequest {
    step: ModelStep,
    provider: Provider,
    body: RequestBody,
}

impl PreparedRequest {
    /// Returns the journal entry for the request.
    pub(crate) fn entry(&self) -> Entry {
        Entry::Requested {
            provider: self.provider.name.clone(),
            model: self.provider.model.clone(),
            digest: self.body.digest().to_owned(),
            max_output: self.step.max_output,
        }
    }
}

impl Task {
    /// Asks the model for its next reply. If the conversation has become too long, shortens it
    /// instead.
    pub(crate) fn ask_model(
        &mut self,
        step: ModelStep,
        front: &dyn FrontEnd,
    ) -> Result<(), TaskError> {
        if !step.wait.is_zero() {
            let wait = self.spread_wait(step.wait);
            self.announce(wait, front);
            if !self.cancel.wait(wait) {
                return Ok(());
            }
        }
        let Some(prepared) = self.prepare_request(step, &self.state, &[]) else {
            return match can_clear(&self.conversation.messages, &[], self.state.cleared) {
                true => self.clear(),
                false => self.compress(front).map(drop),
            };
        };
        self.append(&[], |_| vec![prepared.entry()])?;
        self.send_request(prepared, front)
    }

    /// Prepares the next request from a state and the messages that are about to be written.
    /// Returns `None` if the conversation is too long and can be shortened.
    pub(crate) fn prepare_request(
        &self,
        step: ModelStep,
        state: &State,
        new: &[MessageRecord],
    ) -> Option<PreparedRequest> {
        let provider = self.agent.provider(step.use_fallback);
        let (cleared, written) = (state.cleared, &self.conversation.messages);
        let mut prefix = self.conversation.prefix.borrow_mut();
        let clear = |messages: &mut [MessageRecord]| clear_results(messages, cleared);
        prefix.extend(provider, &self.session, written, cleared, clear);
        let messages = self.conversation.for_request(prefix.count(), new, cleared);
        let tools = self.tool_specs();
        let request = ModelRequest {
            session: &self.session,
            messages: &messages,
            tools: &tools,
            max_output: step.max_output,
        };
        let tokens = prefix.tokens() + estimate_tokens(&request);
        let can_shrink =
            || can_clear(written, new, cleared) || can_compress(written.iter().chain(new), true);
        if tokens > room_for_input(provider, step.max_output) && can_shrink() {
            return None;
        }
        let body = prefix.write_request(provider, &request);
        Some(PreparedRequest { step, provider: provider.clone(), body })
    }

    /// Leaves results of old calls out of the next requests.
    pub(crate) fn clear(&mut self) -> Result<(), TaskError> {
        let use_fallback = self.state.turn.as_ref().is_some_and(|turn| turn.is_failed_over);
        let provider = self.agent.provider(use_fallback);
        let messages = self.conversation.for_request(0, &[], self.state.cleared);
        let (session, tools) = (&self.session, &self.tool_specs());
        let max_output = provider.max_output;
        let request = ModelRequest { session, messages: &messages, tools, max_output };
        let wanted = room_for_input(provider, max_output) / 2;
        let excess = estimate_tokens(&request).saturating_sub(wanted);
        let cleared = self.state.cleared;
        let Some(through) = find_clearing(&self.conversation.messages, cleared, excess) else {
            return Ok(());
        };
        self.append(&[], |_| vec![Entry::Cleared { through }])
    }

    /// Sends a request, and records the reply or the failure.
    pub(crate) fn send_request(
        &mut self,
        prepared: PreparedRequest,
        front: &dyn FrontEnd,
    ) -> Result<(), TaskError> {
        let PreparedRequest { step, provider, body, .. } = prepared;
        if step.wait.is_zero() {
            self.announce(step.wait, front);
        }
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
        let mut attempt = self.agent.client.send(&provider, &body, &self.cancel, &mut on_delta);
        let rest = trimmer.finish();
        show_text(&rest, &mut text, front);
        attempt.reply.text = text;
        self.record_attempt(&provider, attempt)
    }

    /// Makes a wait up to a quarter longer, so that clients whose requests failed at the same time
    /// do not all retry at the same time.
    fn spread_wait(&self, wait: Duration) -> Duration {
        let digest = Sha256::digest(format!("{} {}", self.id(), self.journal.next_seq()));
        wait + wait * u32::from(digest[0]) / 1_024
    }

    /// Tells the user why the request is made again.
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
        let Attempt { mut reply, end } = attempt;
        let bill = bill_of(provider, reply.usage);
        let usage = self.usage_event(provider, &bill);
        self.name_calls(&mut reply);
        match end {
            AttemptEnd::Finished(finish) => {
                self.record_reply(provider, &reply, finish, bill, usage)
            }
            AttemptEnd::Failed(failure) => self.record_part(provider, reply, &failure, bill, usage),
            AttemptEnd::Cancelled => {
                let failure = self.describe_stop();
                self.record_part(provider, reply, &failure, bill, usage)
            }
        }
    }

    /// Describes the end of an attempt that was stopped.
    fn describe_stop(&self) -> AttemptFailure {
        match self.cancel.is_suspended() {
            true => {
                let message = "the process ended while it was receiving the answer".to_owned();
                AttemptFailure { message, ..cancelled() }
            }
            false => cancelled(),
        }
    }

    /// Records a whole reply. A reply is not kept as a message if it is empty, or if its only call
    /// reached the output limit.
    fn record_reply(
        &mut self,
        provider: &Provider,
        reply: &Reply,
        finish: Finish,
        bill: Bill,
        usage: Option<Event>,
    ) -> Result<(), TaskError> {
        let Reply { calls, cut_calls, .. } = reply;
        let is_cut_call = finish == Finish::Length && *cut_calls > 0 && calls.is_empty();
        let is_empty = reply.text.is_empty() && calls.is_empty();
        let end = AttemptEnd::Finished(finish);
        let message = (!is_cut_call && !is_empty).then(|| to_message(reply, provider, &end));
        self.append(&self.events_of(message, usage), |messages| {
            vec![Entry::Replied {
                message: messages.first().map(|message| message.seq),
                finish,
                calls: calls.clone(),
                cut_calls: *cut_calls,
                bill,
            }]
        })
    }

    /// Records the part of a reply that arrived before it was cut off.
    fn record_part(
        &mut self,
        provider: &Provider,
        mut reply: Reply,
        failure: &AttemptFailure,
        bill: Bill,
        usage: Option<Event>,
    ) -> Result<(), TaskError> {
        // The provider would reject a request that contains reasoning without its signature.
        (reply.reasoning, reply.reasoning_details) = (None, None);
        let is_empty = reply.text.is_empty() && reply.calls.is_empty();
        let end = AttemptEnd::Failed(failure.clone());
        let message = (!is_empty).then(|| to_message(&reply, provider, &end));
        self.append(&self.events_of(message, usage), |messages| {
            vec![Entry::Interrupted {
                message: messages.first().map(|message| message.seq),
                calls: reply.calls.clone(),
                failure: failure.clone(),
                bill,
            }]
        })
    }

    fn events_of(&self, message: Option<MessageRecord>, usage: Option<Event>) -> Vec<Event> {
        let session = self.session.id.clone();
        let message = message
            .map(|message| Event::Messages { session: session.clone(), messages: vec![message] });
        message.into_iter().chain(usage).collect()
    }

    /// Gives each call an id that is unique in the session. Some servers reuse the same ids in
    /// every reply.
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

    /// Switches to the fallback provider for the rest of the turn.
    pub(crate) fn fail_over(&mut self, front: &dyn FrontEnd) -> Result<(), TaskError> {
        let Some(fallback) = self.agent.fallback.as_ref().map(|fallback| fallback.name.clone())
        else {
            let because = "there is no fallback provider".to_owned();
            return self.append_end(&TurnOutcome::Failed { because, is_limited: false });
        };
        let setback = self.state.turn.as_ref().and_then(|turn| turn.attempts.setback.as_ref());
        let because = match setback {
            Some(Setback::Failed(failure) | Setback::Cut(failure)) => failure.message.as_str(),
            _ => "",
        };
        front.show(&TurnEvent::FailedOver { because, provider: &fallback });
        self.append(&[], |_| vec![Entry::FailedOver { provider: fallback.clone() }])
    }
}

/// Returns the maximum number of input tokens in a request.
fn room_for_input(provider: &Provider, max_output: u64) -> u64 {
    provider.context_window.saturating_sub(RESERVED.min(max_output))
}

/// Describes an attempt that the user stopped.
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
