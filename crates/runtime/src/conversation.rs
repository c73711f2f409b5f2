//! The messages that the next request carries.

use std::cell::RefCell;

use serde_json::Value;
use takeback_ledger::{ConversationMark, Ledger, LedgerError, MessageFilter, MessageRecord};

use crate::clearing::clear_results;
use crate::model::ConversationPrefix;

/// The finish reason of an answer that was cut off.
pub(crate) const INTERRUPTED: &str = "interrupted";

/// The finish reason of an answer that reached the output limit.
pub(crate) const LENGTH: &str = "length";

/// The number of characters at the end of an interrupted answer that are shown to the model again.
const REMINDED: usize = 200;

/// The minimum length of a repeated passage that counts as an overlap, in characters.
const SHORTEST_OVERLAP: usize = 12;

/// The current messages of a session, as they are stored in the ledger.
#[derive(Default)]
pub(crate) struct Conversation {
    pub(crate) messages: Vec<MessageRecord>,
    /// The older messages in the form in which requests contain them. Each message is converted to
    /// this form only once.
    pub(crate) prefix: RefCell<ConversationPrefix>,
    /// The state of the session when the messages were read, or when it was last noted.
    mark: Option<ConversationMark>,
    /// True if the messages were read.
    is_read: bool,
}

impl Conversation {
    /// Notes the state of a session without reading the messages, of which there may be many.
    pub(crate) fn note(ledger: &Ledger, session: &str) -> Result<Conversation, LedgerError> {
        let mark = Some(ledger.conversation_mark(session)?);
        Ok(Conversation { mark, ..Conversation::default() })
    }

    /// Reads the messages unless the current ones have already been read. Returns true if another
    /// process has changed the conversation since its state was noted, for example in a rollback.
    pub(crate) fn refresh(&mut self, ledger: &Ledger, session: &str) -> Result<bool, LedgerError> {
        let mark = ledger.conversation_mark(session)?;
        let is_current =
            |known: ConversationMark| (known.last_seq, known.moves) == (mark.last_seq, mark.moves);
        let is_changed = self.mark.is_some_and(|known| !is_current(known));
        if is_changed || !self.is_read {
            self.messages = ledger.messages(session, MessageFilter::Current)?;
            self.prefix = RefCell::default();
            (self.mark, self.is_read) = (Some(mark), true);
        }
        Ok(is_changed)
    }

    /// Adds a message that this process has just written.
    pub(crate) fn push(&mut self, message: MessageRecord) {
        if let Some(mark) = &mut self.mark {
            mark.last_seq = message.seq;
        }
        self.messages.push(message);
    }

    /// Returns the messages of the next request, beginning at the index `first`, together with
    /// those that are about to be written. The results up to the message `cleared` are left out. If
    /// the last answer was cut off, a prompt to continue it is added at the end. That prompt is not
    /// part of the conversation.
    pub(crate) fn for_request(
        &self,
        first: usize,
        new: &[MessageRecord],
        cleared: i64,
    ) -> Vec<MessageRecord> {
        let mut messages = self.messages[first..].to_vec();
        clear_results(&mut messages, cleared);
        messages.extend_from_slice(new);
        if let Some(text) = messages.last().and_then(cut_text) {
            messages.push(MessageRecord {
                role: "user".to_owned(),
                content: Some(Value::from(ask_for_rest(text))),
                ..MessageRecord::default()
            });
        }
        messages
    }

    /// Returns the text of the last answer, if it was cut off and called no tools.
    pub(crate) fn cut_answer(&self) -> Option<&str> {
        self.messages.last().and_then(cut_text)
    }

    /// Returns the text of the last answer.
    pub(crate) fn last_answer(&self) -> &str {
        let mut newest_first = self.messages.iter().rev();
        let answer = newest_first.find(|message| message.role == "assistant");
        answer.and_then(|message| message.content.as_ref()?.as_str()).unwrap_or_default()
    }
}

/// Returns the text of an answer, if it was cut off and called no tools.
fn cut_text(message: &MessageRecord) -> Option<&str> {
    let is_cut = matches!(message.finish_reason.as_deref(), Some(INTERRUPTED | LENGTH));
    let text = message.content.as_ref().and_then(Value::as_str)?;
    (is_cut && message.role == "assistant" && message.tool_calls.is_none()).then_some(text)
}

fn ask_for_rest(text: &str) -> String {
    let tail = last_characters(text, REMINDED);
    format!(
        "Your answer was cut off by a technical problem. It ended with:\n\n{tail}\n\n\
         Continue exactly where it stopped. Do not repeat anything, and do not comment on this."
    )
}

fn last_characters(text: &str, count: usize) -> &str {
    let start = text.char_indices().rev().nth(count.saturating_sub(1)).map_or(0, |(at, _)| at);
    &text[start..]
}

/// A filter for the continuation of an interrupted answer. It removes the passage at the beginning
/// that repeats the end of the answer.
pub(crate) struct OverlapTrimmer {
    /// The end of the answer so far; `None` once the overlap is known.
    tail: Option<String>,
    held: String,
}

impl OverlapTrimmer {
    pub(crate) fn new(answer: Option<&str>) -> OverlapTrimmer {
        let tail = answer.map(|text| last_characters(text, REMINDED).to_owned());
        OverlapTrimmer { tail, held: String::new() }
    }

    /// Takes the next piece of the continuation. Returns the text that is certainly new.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        let Some(tail) = &self.tail else { return piece.to_owned() };
        self.held.push_str(piece);
        let can_grow = suffixes(tail).any(|suffix| suffix.starts_with(&self.held));
        if can_grow { String::new() } else { self.finish() }
    }

    /// Returns the rest of the new text, which was held back.
    pub(crate) fn finish(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        let Some(tail) = self.tail.take() else { return held };
        let overlap = suffixes(&tail).find(|suffix| held.starts_with(suffix)).unwrap_or_default();
        match overlap.chars().count() >= SHORTEST_OVERLAP {
            true => held[overlap.len()..].to_owned(),
            false => held,
        }
    }
}

/// Lists the suffixes of a text, longest first.
fn suffixes(text: &str) -> impl Iterator<Item = &str> {
    text.char_indices().map(|(at, _)| &text[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trim(answer: &str, pieces: &[&str]) -> String {
        let mut trimmer = OverlapTrimmer::new(Some(answer));
        let mut text: String = pieces.iter().map(|piece| trimmer.push(piece)).collect();
        text.push_str(&trimmer.finish());
        text
    }

    #[test]
    fn a_repeated_passage_is_left_out() {
        let answer = "The quick brown fox jumps over";
        assert_eq!(trim(answer, &["brown fox ", "jumps over", " the dog"]), " the dog");
        assert_eq!(trim(answer, &["brown fox jumps over the dog"]), " the dog");
        assert_eq!(trim(answer, &["brown fox jumps over"]), "");
    }

    #[test]
    fn a_new_passage_is_kept_even_if_it_begins_like_the_end_of_the_answer() {
        assert_eq!(trim("a list: one, two, o", &["one more"]), "one more");
        assert_eq!(trim("…aaa", &["aab"]), "aab");
        assert_eq!(trim("", &["x"]), "x");
        let mut plain = OverlapTrimmer::new(None);
        assert_eq!(plain.push("at once"), "at once");
    }

    #[test]
    fn a_cut_answer_is_followed_by_a_request_for_its_rest() {
        let answer = MessageRecord {
            seq: 2,
            role: "assistant".into(),
            content: Some("It is".into()),
            finish_reason: Some(INTERRUPTED.into()),
            ..MessageRecord::default()
        };
        let mut conversation = Conversation::default();
        conversation.push(answer.clone());
        let messages = conversation.for_request(0, &[], 0);
        assert_eq!(messages.len(), 2);
        assert!(messages[1].content.as_ref().unwrap().as_str().unwrap().contains("It is"));
        let whole = MessageRecord { finish_reason: Some("stop".into()), ..answer };
        let mut conversation = Conversation::default();
        conversation.push(whole);
        assert_eq!(conversation.for_request(0, &[], 0).len(), 1);
    }
}
