//! A reply that is still arriving.

use serde_json::Value;
use takeback_ledger::Tokens;

use super::failure::ErrorReport;
use super::{Delta, Finish, Reply, RequestedCall};

/// A function that receives the pieces of a reply.
pub(crate) type OnDelta<'a> = dyn FnMut(Delta<'_>) + 'a;

/// A reply that is still arriving.
#[derive(Debug, Default)]
pub(crate) struct ReplyDraft {
    text: String,
    reasoning: String,
    /// The reasoning in the form that the provider uses.
    pub(crate) details: Option<Value>,
    calls: Vec<CallDraft>,
    pub(crate) usage: Option<Tokens>,
    end: Option<ReplyEnd>,
    /// True if nothing more is expected from the stream, not even the usage.
    pub(crate) is_done: bool,
    /// True if the next piece of text begins a new block.
    is_new_text: bool,
    is_new_reasoning: bool,
    /// True if the last thing that the model wrote is a call.
    ends_in_call: bool,
}

/// The end of a reply, as the provider reports it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ReplyEnd {
    Finished(Finish),
    Failed(ErrorReport),
}

/// A tool call that is still arriving.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallDraft {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
    /// True if the provider has marked the end of the call.
    pub(crate) is_complete: bool,
}

impl ReplyDraft {
    /// Adds a piece of text.
    pub(crate) fn add_text(&mut self, piece: &str, on_delta: &mut OnDelta<'_>) {
        if piece.is_empty() {
            return;
        }
        self.ends_in_call = false;
        let is_new = std::mem::take(&mut self.is_new_text);
        append_piece(&mut self.text, piece, is_new, |piece| on_delta(Delta::Text(piece)));
    }

    /// Adds a piece of reasoning.
    pub(crate) fn add_reasoning(&mut self, piece: &str, on_delta: &mut OnDelta<'_>) {
        if piece.is_empty() {
            return;
        }
        let is_new = std::mem::take(&mut self.is_new_reasoning);
        append_piece(&mut self.reasoning, piece, is_new, |piece| on_delta(Delta::Reasoning(piece)));
    }

    /// Separates the next piece of text from the text before it.
    pub(crate) fn begin_text(&mut self) {
        self.is_new_text = true;
    }

    /// Separates the next piece of reasoning from the reasoning before it.
    pub(crate) fn begin_reasoning(&mut self) {
        self.is_new_reasoning = true;
    }

    /// Adds a call, and returns its index.
    pub(crate) fn begin_call(&mut self, call: CallDraft, on_delta: &mut OnDelta<'_>) -> usize {
        if !call.name.is_empty() {
            on_delta(Delta::Call { name: &call.name });
        }
        self.ends_in_call = true;
        self.calls.push(call);
        self.calls.len() - 1
    }

    /// Returns the calls so far.
    pub(crate) fn calls(&mut self) -> &mut [CallDraft] {
        &mut self.calls
    }

    /// True if no reasoning has arrived.
    pub(crate) fn has_no_reasoning(&self) -> bool {
        self.reasoning.is_empty()
    }

    /// Sets the end of the reply. A later end does not replace a failure.
    pub(crate) fn set_end(&mut self, end: ReplyEnd) {
        if !matches!(self.end, Some(ReplyEnd::Failed(_))) {
            self.end = Some(end);
        }
    }

    /// Ends the reply with an error.
    pub(crate) fn fail_with(&mut self, report: ErrorReport) {
        self.set_end(ReplyEnd::Failed(report));
        self.is_done = true;
    }

    /// Returns the end of the reply, if the provider has reported it.
    pub(crate) fn end(&self) -> Option<&ReplyEnd> {
        self.end.as_ref()
    }

    /// Converts the draft to a reply. Only calls that the model has finished are part of it.
    ///
    /// A call that the output limit cut off can look complete, because some servers close its JSON.
    /// So if a reply reached the output limit and ends with a call, that call is left out.
    pub(crate) fn into_reply(mut self) -> Reply {
        let is_whole = matches!(self.end, Some(ReplyEnd::Finished(Finish::Stop)));
        let is_limited = matches!(self.end, Some(ReplyEnd::Finished(_)));
        if is_limited
            && !is_whole
            && self.ends_in_call
            && let Some(last) = self.calls.last_mut()
        {
            last.is_complete = false;
        }
        let count = self.calls.len();
        let complete = self.calls.into_iter().filter(|call| call.is_complete);
        let calls: Vec<RequestedCall> = complete
            .map(|CallDraft { id, name, arguments, .. }| RequestedCall { id, name, arguments })
            .collect();
        Reply {
            text: self.text,
            reasoning: Some(self.reasoning).filter(|text| !text.is_empty()),
            reasoning_details: self.details,
            cut_calls: count - calls.len(),
            calls,
            usage: self.usage,
        }
    }
}

/// Appends a piece to a string, after a blank line if the piece begins a new block.
fn append_piece(text: &mut String, piece: &str, is_new: bool, mut show: impl FnMut(&str)) {
    if is_new && !text.is_empty() && !text.ends_with("\n\n") {
        let gap = if text.ends_with('\n') { "\n" } else { "\n\n" };
        text.push_str(gap);
        show(gap);
    }
    text.push_str(piece);
    show(piece);
}
