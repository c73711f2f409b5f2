//! Matching every call with its result, wherever the result was stored.

use std::collections::HashMap;

use super::calls::{Call, ToolResult};
use super::reading::{ReplayItem, ReplayMessage};

/// Moves results to their calls. A result that has no call, or whose call already has a different
/// result, becomes user text where it was stored.
pub(super) fn pair_results(items: Vec<ReplayItem>) -> Vec<ReplayMessage> {
    let mut pairing = Pairing::default();
    for item in items {
        match item {
            ReplayItem::Message(message) => pairing.add_message(message),
            ReplayItem::Result(result) => pairing.add_result(result),
        }
    }
    pairing.messages
}

/// The messages so far, and the calls among them.
#[derive(Default)]
struct Pairing {
    messages: Vec<ReplayMessage>,
    /// For each call id, the index of the last message that has a call with this id. Agents reuse
    /// ids, so a result belongs to the latest call with its id.
    by_id: HashMap<String, usize>,
    /// The index of the last message with calls.
    last: Option<usize>,
}

impl Pairing {
    fn add_message(&mut self, message: ReplayMessage) {
        if let ReplayMessage::Assistant(assistant) = &message
            && !assistant.calls.is_empty()
        {
            let index = self.messages.len();
            self.last = Some(index);
            let named = assistant.calls.iter().filter(|call| !call.id.is_empty());
            self.by_id.extend(named.map(|call| (call.id.clone(), index)));
        }
        self.messages.push(message);
    }

    fn add_result(&mut self, result: ToolResult) {
        match self.find_call(&result) {
            Target::Open(call) => call.result = Some(result.result),
            Target::Repeated => {}
            Target::None => self.messages.push(ReplayMessage::User(result.into_parts())),
        }
    }

    fn find_call(&mut self, result: &ToolResult) -> Target<'_> {
        let by_id = self.by_id.get(&result.id).copied();
        let Some(index) = by_id.or(self.last) else { return Target::None };
        let Some(ReplayMessage::Assistant(assistant)) = self.messages.get_mut(index) else {
            return Target::None;
        };
        let fits = |call: &Call| match by_id {
            Some(_) => call.id == result.id,
            None => can_belong(result, call),
        };
        let mut is_repeated = false;
        for call in assistant.calls.iter_mut().filter(|call| fits(call)) {
            match &call.result {
                None => return Target::Open(call),
                Some(first) => is_repeated |= by_id.is_some() && *first == result.result,
            }
        }
        if is_repeated { Target::Repeated } else { Target::None }
    }
}

/// The call that a result belongs to.
enum Target<'a> {
    Open(&'a mut Call),
    /// The call already has an identical result, so the repeated one can be dropped.
    Repeated,
    None,
}

/// True if a result may belong to a call even though the ids do not show it: one of the two has no
/// id, and the tools, if both are known, are the same.
fn can_belong(result: &ToolResult, call: &Call) -> bool {
    (result.id.is_empty() || call.id.is_empty())
        && (result.name.is_empty() || result.name == call.name)
}
