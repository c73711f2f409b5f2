//! Every call gets its result, wherever that was stored.

use std::collections::HashMap;

use super::calls::{Answer, Call};
use super::reading::{Item, Said};

/// Moves results to their calls. Those that have no call, or whose call has another result
/// already, become text of the user's in their place.
pub(super) fn pair(items: Vec<Item>) -> Vec<Said> {
    let mut pairing = Pairing::default();
    for item in items {
        match item {
            Item::Said(said) => pairing.add(said),
            Item::Answer(answer) => pairing.answer(answer),
        }
    }
    pairing.said
}

#[derive(Default)]
struct Pairing {
    said: Vec<Said>,
    /// Where the last message is that has a call of this name. Agents use names again, and then
    /// a result belongs to the nearest.
    by_id: HashMap<String, usize>,
    /// Where the last message with calls is.
    last: Option<usize>,
}

impl Pairing {
    fn add(&mut self, said: Said) {
        if let Said::Assistant(assistant) = &said
            && !assistant.calls.is_empty()
        {
            let place = self.said.len();
            self.last = Some(place);
            let named = assistant.calls.iter().filter(|call| !call.id.is_empty());
            self.by_id.extend(named.map(|call| (call.id.clone(), place)));
        }
        self.said.push(said);
    }

    fn answer(&mut self, answer: Answer) {
        match self.call_for(&answer) {
            Target::Open(call) => call.outcome = Some(answer.outcome),
            Target::Repeated => {}
            Target::None => self.said.push(Said::User(answer.into_parts())),
        }
    }

    fn call_for(&mut self, answer: &Answer) -> Target<'_> {
        let by_id = self.by_id.get(&answer.id).copied();
        let Some(place) = by_id.or(self.last) else { return Target::None };
        let Some(Said::Assistant(assistant)) = self.said.get_mut(place) else {
            return Target::None;
        };
        let fits = |call: &Call| match by_id {
            Some(_) => call.id == answer.id,
            None => may_belong(answer, call),
        };
        let mut is_repeated = false;
        for call in assistant.calls.iter_mut().filter(|call| fits(call)) {
            match &call.outcome {
                None => return Target::Open(call),
                Some(outcome) => is_repeated |= by_id.is_some() && *outcome == answer.outcome,
            }
        }
        if is_repeated { Target::Repeated } else { Target::None }
    }
}

enum Target<'a> {
    Open(&'a mut Call),
    /// The very same result was there before: nothing is lost without it.
    Repeated,
    None,
}

/// Whether a result can be this call's although no name says so: one of the two has none, and
/// the tools are the same as far as is known.
fn may_belong(answer: &Answer, call: &Call) -> bool {
    (answer.id.is_empty() || call.id.is_empty())
        && (answer.name.is_empty() || answer.name == call.name)
}
