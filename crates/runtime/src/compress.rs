//! Making a conversation smaller that no longer fits into the model's context window.

use takeback_ledger::{Event, MessageRecord, ParentKind, SessionRecord, TaskChange};

use crate::agent::AGENT;
use crate::entry::{Bill, Entry};
use crate::error::TaskError;
use crate::front_end::{FrontEnd, TurnEvent};
use crate::model::{Attempt, AttemptEnd, AttemptFailure, FailureKind, Finish, ModelRequest};
use crate::request::{bill_of, cancelled};
use crate::task::{Task, new_message};

/// The number of turns that are kept as they are.
const KEPT_TURNS: usize = 20;

/// The number of tokens that a summary may have.
const SUMMARY_TOKENS: u64 = 4_096;

/// The request for a summary.
const ASK_FOR_SUMMARY: &str = "Summarize this conversation for yourself, so that you can continue \
    the work without it. Keep: what the user wants, decisions and their reasons, the state of the \
    work, file names, commands, errors that are not solved, and what is to be done next. Do not \
    call tools. Answer with the summary only.";

impl Task {
    /// Returns true if there are older turns to summarize.
    pub(crate) fn can_compress(&self) -> bool {
        self.find_cut().is_some()
    }

    /// Finds the first message to keep: at most the last 20 turns are kept, and at most half of
    /// them, so that the conversation becomes smaller.
    fn find_cut(&self) -> Option<usize> {
        let messages = self.conversation.messages.iter().enumerate();
        let prompts: Vec<usize> =
            messages.filter(|(_, message)| message.role == "user").map(|(at, _)| at).collect();
        let kept = KEPT_TURNS.min(prompts.len() / 2).max(1);
        // At least one turn must come before the kept ones: a summary alone would not get shorter.
        let first = prompts.len().checked_sub(kept).filter(|first| *first > 0)?;
        prompts.get(first).copied()
    }

    /// Summarizes older turns, and continues in a child session.
    pub(crate) fn compress(&mut self, front: &dyn FrontEnd) -> Result<(), TaskError> {
        let Some(cut) = self.find_cut() else { return Ok(()) };
        let (summary, bill) = match self.ask_for_summary(cut) {
            Ok(summary) => summary,
            Err((failure, bill)) => {
                // The failure counts like that of any other request.
                let failed = Entry::Interrupted { message: None, calls: Vec::new(), failure, bill };
                return self.append(&[], |_| vec![failed]);
            }
        };
        let child = self.describe_continuation()?;
        let id = child.id.clone();
        let old = self.session.id.clone();
        let kept = self.conversation.messages[cut..].to_vec();
        let position = |prompt: i64| kept.iter().position(|message| message.seq == prompt);
        let prompt = self.state.turn.as_ref().and_then(|turn| position(turn.prompt));
        let turn = kept.iter().filter(|message| message.role == "user").count() as i64;
        let moves = self.journal.ledger()?.conversation_mark(&old)?.moves;
        let messages: Vec<MessageRecord> = std::iter::once(summary).chain(kept).collect();
        let use_fallback = self.state.turn.as_ref().is_some_and(|turn| turn.is_failed_over);
        let provider = self.agent.provider(use_fallback).clone();
        let mut events = vec![
            Event::SessionEnd { session: old, reason: "compacted".to_owned() },
            Event::Session { record: Box::new(child) },
            Event::Messages { session: id.clone(), messages },
        ];
        events.extend(self.usage_event(&provider, &bill));
        let change = TaskChange { events: &events, session: Some(&id), ..TaskChange::default() };
        self.append_change(&change, |messages| {
            // The summary is the first message.
            let prompt = prompt.map_or(0, |at| messages[at + 1].seq);
            vec![Entry::Compressed { session: id.clone(), turn, prompt, moves, bill }]
        })?;
        self.enter_session(&id)?;
        front.show(&TurnEvent::Compressed { session: &id });
        Ok(())
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

    /// Asks the model for a summary of all messages before `cut`.
    fn ask_for_summary(&self, cut: usize) -> Result<(MessageRecord, Bill), (AttemptFailure, Bill)> {
        let mut messages = self.conversation.messages[..cut].to_vec();
        messages.push(new_message("user", ASK_FOR_SUMMARY.to_owned()));
        let use_fallback = self.state.turn.as_ref().is_some_and(|turn| turn.is_failed_over);
        let provider = self.agent.provider(use_fallback);
        let request = ModelRequest {
            session: &self.session,
            messages: &messages,
            tools: &[],
            max_output: SUMMARY_TOKENS.min(provider.max_output),
        };
        let attempt = self.agent.client.request(provider, &request, &self.cancel, &mut |_| {});
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
                let kind = FailureKind::Rejected;
                Err((AttemptFailure { kind, status: None, message, retry_after: None }, bill))
            }
        }
    }
}
