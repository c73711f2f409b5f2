//! Shortening a conversation that no longer fits into the model's context window.

use takeback_ledger::{Event, MessageRecord, ParentKind, SessionRecord, TaskChange};

use crate::agent::AGENT;
use crate::entry::{Bill, Entry};
use crate::error::TaskError;
use crate::front_end::{FrontEnd, TurnEvent};
use crate::model::{
    Attempt, AttemptEnd, AttemptFailure, FailureKind, Finish, ModelRequest, Provider, RequestBody,
    build_request,
};
use crate::request::{bill_of, cancelled};
use crate::summary::describe_for_summary;
use crate::task::{Task, new_message};

/// The maximum number of turns that are kept unchanged.
const KEPT_TURNS: usize = 20;

/// The maximum number of tokens in a summary.
const SUMMARY_TOKENS: u64 = 4_096;

/// The part of a conversation that a summary replaces.
struct Cut {
    /// The index of the first message that is kept.
    first_kept: usize,
    /// The index of the open turn's prompt, if it comes before the first kept message. The prompt
    /// is also kept, because the turn continues.
    prompt: Option<usize>,
}

impl Task {
    /// Returns true if the conversation has an older part to summarize.
    pub(crate) fn can_compress(&self) -> bool {
        can_compress(&self.conversation.messages, self.state.turn.is_some())
    }

    /// Summarizes the older part of the conversation, and continues in a child session. If the
    /// model does not provide a summary, returns the reason.
    pub(crate) fn compress(&mut self, front: &dyn FrontEnd) -> Result<Option<String>, TaskError> {
        let Some(cut) = find_cut(&self.conversation.messages, self.state.turn.is_some()) else {
            return Ok(None);
        };
        let use_fallback = self.state.turn.as_ref().is_some_and(|turn| turn.is_failed_over);
        let provider = self.agent.provider(use_fallback).clone();
        let (summary, bill) = match self.ask_for_summary(&provider, cut.first_kept)? {
            Ok(summary) => summary,
            Err((failure, bill)) => {
                // This request counts like any other request that failed.
                let usage: Vec<Event> = self.usage_event(&provider, &bill).into_iter().collect();
                let because = failure.message.clone();
                let failed = Entry::Interrupted { message: None, calls: Vec::new(), failure, bill };
                self.append(&usage, |_| vec![failed.clone()])?;
                return Ok(Some(because));
            }
        };
        self.continue_in_child(&cut, summary, &provider, bill)?;
        front.show(&TurnEvent::Compressed { session: &self.session.id });
        Ok(None)
    }

    /// Creates the session that begins with the summary and the kept messages.
    fn continue_in_child(
        &mut self,
        cut: &Cut,
        summary: MessageRecord,
        provider: &Provider,
        bill: Bill,
    ) -> Result<(), TaskError> {
        let child = self.describe_continuation()?;
        let (old, id) = (self.session.id.clone(), child.id.clone());
        let all = &self.conversation.messages;
        let prompt = cut.prompt.map(|at| all[at].clone());
        let kept: Vec<MessageRecord> =
            prompt.into_iter().chain(all[cut.first_kept..].iter().cloned()).collect();
        let open_prompt = self.state.turn.as_ref().map(|turn| turn.prompt);
        let position = kept.iter().position(|message| Some(message.seq) == open_prompt);
        let turn = kept.iter().filter(|message| message.role == "user").count() as i64;
        let moves = self.journal.ledger()?.conversation_mark(&old)?.moves;
        let messages: Vec<MessageRecord> = std::iter::once(summary).chain(kept).collect();
        let mut events = vec![
            Event::SessionEnd { session: old, reason: "compacted".to_owned() },
            Event::Session { record: Box::new(child) },
            Event::Messages { session: id.clone(), messages },
        ];
        events.extend(self.usage_event(provider, &bill));
        let change = TaskChange { events: &events, session: Some(&id), ..TaskChange::default() };
        self.append_change(&change, |messages| {
            // The summary is the first message.
            let prompt = position.map_or(0, |at| messages[at + 1].seq);
            vec![Entry::Compressed { session: id.clone(), turn, prompt, moves, bill }]
        })?;
        self.enter_session(&id)
    }

    /// Describes the session that continues this one.
    fn describe_continuation(&mut self) -> Result<SessionRecord, TaskError> {
        let id = format!("{AGENT}:{}-{}", self.id(), self.journal.next_seq());
        let parent = self.session.clone();
        let title = match &parent.title {
            Some(title) => Some(self.journal.ledger()?.next_title(title)?),
            None => None,
        };
        Ok(SessionRecord {
            id,
            source: parent.source,
            user_id: parent.user_id,
            model: parent.model,
            model_config: parent.model_config,
            system_prompt: parent.system_prompt,
            parent_session_id: Some(parent.id),
            parent_kind: Some(ParentKind::Compaction),
            workspace: parent.workspace,
            git_branch: parent.git_branch,
            title,
            ..SessionRecord::default()
        })
    }

    /// Asks the model for a summary of all messages before `first_kept`.
    #[allow(clippy::type_complexity, reason = "a failed attempt is billed as well")]
    fn ask_for_summary(
        &mut self,
        provider: &Provider,
        first_kept: usize,
    ) -> Result<Result<(MessageRecord, Bill), (AttemptFailure, Bill)>, TaskError> {
        let older = &self.conversation.messages[..first_kept];
        let max_output = SUMMARY_TOKENS.min(provider.max_output);
        let room = provider.context_window.saturating_sub(max_output);
        let failures = self.state.turn.as_ref().map_or(0, |turn| turn.attempts.failures);
        let text = describe_for_summary(older, room, failures);
        let messages = [new_message("user", text)];
        let request = ModelRequest {
            session: &SessionRecord::default(),
            messages: &messages,
            tools: &[],
            max_output,
        };
        let body = RequestBody::from(&build_request(provider, &request));
        let requested = Entry::Requested {
            provider: provider.name.clone(),
            model: provider.model.clone(),
            digest: body.digest().to_owned(),
            max_output,
        };
        self.append(&[], |_| vec![requested.clone()])?;
        let attempt = self.agent.client.send(provider, &body, &self.cancel, &mut |_| {});
        Ok(read_summary(provider, attempt))
    }
}

/// Takes the summary from a reply.
fn read_summary(
    provider: &Provider,
    attempt: Attempt,
) -> Result<(MessageRecord, Bill), (AttemptFailure, Bill)> {
    let Attempt { reply, end } = attempt;
    let bill = bill_of(provider, reply.usage);
    match end {
        AttemptEnd::Finished(Finish::Stop | Finish::Length) if !reply.text.is_empty() => {
            let text = format!("Summary of the earlier conversation:\n\n{}", reply.text);
            Ok((new_message("system", text), bill))
        }
        AttemptEnd::Failed(failure) => Err((failure, bill)),
        AttemptEnd::Cancelled => Err((cancelled(), bill)),
        AttemptEnd::Finished(_) => {
            let message = "the model gave no summary".to_owned();
            let kind = FailureKind::Server;
            Err((AttemptFailure { kind, status: None, message, retry_after: None }, bill))
        }
    }
}

/// Returns true if a conversation has an older part to summarize.
pub(crate) fn can_compress<'a>(
    messages: impl IntoIterator<Item = &'a MessageRecord>,
    is_in_turn: bool,
) -> bool {
    find_cut(messages, is_in_turn).is_some()
}

/// Finds the part to summarize. At most 20 turns are kept, and at most half of all turns, so that
/// the conversation becomes shorter. If the open turn is the only one, its prompt is kept, together
/// with at most half of its replies.
fn find_cut<'a>(
    messages: impl IntoIterator<Item = &'a MessageRecord>,
    is_in_turn: bool,
) -> Option<Cut> {
    let (mut prompts, mut replies) = (Vec::new(), Vec::new());
    for (at, message) in messages.into_iter().enumerate() {
        match message.role.as_str() {
            "user" => prompts.push(at),
            "assistant" => replies.push(at),
            _ => {}
        }
    }
    let kept = KEPT_TURNS.min(prompts.len() / 2).max(1);
    // At least one turn must precede the kept ones, because summarizing only the previous summary
    // would not shorten anything.
    let first = prompts.len().checked_sub(kept)?;
    if first > 0 {
        return Some(Cut { first_kept: prompts[first], prompt: None });
    }
    let prompt = *prompts.first().filter(|_| is_in_turn)?;
    replies.retain(|reply| *reply > prompt);
    let first = replies.len().checked_sub((replies.len() / 2).max(1))?;
    (first > 0).then(|| Cut { first_kept: replies[first], prompt: Some(prompt) })
}
