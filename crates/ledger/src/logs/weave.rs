//! The order of what hooks have told and what a log says: one conversation.
//!
//! Hooks tell prompts at once; what was said in between is known only when the log is read. So a
//! prompt may be here before the answer to the one before it.

use crate::Time;

/// A message that is here and that no log has confirmed.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) time: Time,
    pub(super) is_prompt: bool,
    pub(super) text: String,
    /// Whether it must stay under its number.
    pub(super) is_fixed: bool,
}

/// A message in a log.
#[derive(Clone, Debug)]
pub(super) struct Incoming {
    pub(super) time: Time,
    pub(super) is_prompt: bool,
    pub(super) text: String,
}

/// What stands at a place of the conversation, by its number in the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Here, and perhaps also in the log.
    Waiting(usize, Option<usize>),
    /// Only in the log.
    Incoming(usize),
}

/// A hook hears of a prompt at about the time that the log has for it.
const SAME_TEXT_WITHIN: i64 = 30_000;

/// A prompt that a hook sees may be what was typed, and the one in the log what became of it. That
/// is later, but for the time that a hook takes to begin: what was said before is another prompt.
const OTHER_TEXT_WITHIN: std::ops::RangeInclusive<i64> = -1_000..=5_000;

/// Both lists in one order, each message once.
pub(super) fn weave(waiting: &[Waiting], incoming: &[Incoming]) -> Vec<Place> {
    let pairs = pairs(waiting, incoming);
    let mut places = Vec::new();
    let mut next = 0;
    let fixed = waiting.iter().rposition(|waiting| waiting.is_fixed).map_or(0, |last| last + 1);
    let partner = |number: usize| pairs.iter().position(|pair| *pair == Some(number));
    while next < fixed {
        places.push(Place::Waiting(next, partner(next)));
        next += 1;
    }
    for (number, entry) in incoming.iter().enumerate() {
        match pairs[number] {
            Some(pair) => {
                while next <= pair {
                    places.push(Place::Waiting(next, partner(next)));
                    next += 1;
                }
            }
            None => {
                let is_earlier = |next: usize| {
                    waiting.get(next).is_some_and(|waiting| waiting.time < entry.time)
                        && partner(next).is_none()
                };
                while is_earlier(next) {
                    places.push(Place::Waiting(next, None));
                    next += 1;
                }
                places.push(Place::Incoming(number));
            }
        }
    }
    places.extend((next..waiting.len()).map(|next| Place::Waiting(next, None)));
    places
}

/// For each incoming message the one that is here already, in ascending order.
fn pairs(waiting: &[Waiting], incoming: &[Incoming]) -> Vec<Option<usize>> {
    let mut pairs = vec![None; incoming.len()];
    let mut next = 0;
    for (number, entry) in incoming.iter().enumerate() {
        // Of what is said several times, each is the one that is nearest to it.
        let is_nearest = |here: &Waiting| {
            let later = incoming[number + 1..].iter().filter(|later| later.text == entry.text);
            let nearest = later.map(|later| apart(here.time, later.time)).min();
            nearest.is_none_or(|nearest| apart(here.time, entry.time) <= nearest)
        };
        let is_same = |here: &Waiting| {
            here.is_prompt == entry.is_prompt
                && here.text == entry.text
                && apart(here.time, entry.time) <= SAME_TEXT_WITHIN
                && is_nearest(here)
        };
        let found = waiting[next..].iter().position(is_same).map(|found| next + found);
        // Said otherwise: only if what is here is not what the log says later on.
        let found = found.or_else(|| {
            let here = waiting.get(next).filter(|here| here.is_prompt && entry.is_prompt)?;
            let comes_later = incoming[number..].iter().any(|later| later.text == here.text);
            let is_near = OTHER_TEXT_WITHIN.contains(&entry.time.0.saturating_sub(here.time.0));
            (is_near && !comes_later).then_some(next)
        });
        if let Some(found) = found {
            pairs[number] = Some(found);
            next = found + 1;
        }
    }
    pairs
}

fn apart(one: Time, other: Time) -> i64 {
    one.0.saturating_sub(other.0).saturating_abs()
}

#[cfg(test)]
mod tests {
    use super::Place::{Incoming as In, Waiting as Here};
    use super::*;

    fn here(list: &[(i64, &str)]) -> Vec<Waiting> {
        let one = |(time, text): &(i64, &str)| Waiting {
            time: Time(*time * 1_000),
            is_prompt: true,
            text: (*text).to_owned(),
            is_fixed: false,
        };
        list.iter().map(one).collect()
    }

    /// A text with a `>` is a prompt.
    fn log(list: &[(i64, &str)]) -> Vec<Incoming> {
        let one = |(time, text): &(i64, &str)| Incoming {
            time: Time(*time * 1_000),
            is_prompt: text.starts_with('>'),
            text: text.trim_start_matches('>').to_owned(),
        };
        list.iter().map(one).collect()
    }

    #[test]
    fn a_prompt_of_a_hook_is_the_one_in_the_log() {
        let places = weave(&here(&[(10, "fix it")]), &log(&[(9, ">fix it"), (12, "done")]));
        assert_eq!(places, [Here(0, Some(0)), In(1)]);
    }

    #[test]
    fn the_answer_to_a_prompt_comes_before_the_next_prompt() {
        let hooks = here(&[(10, "one"), (20, "two")]);
        let places = weave(&hooks, &log(&[(10, ">one"), (15, "first"), (20, ">two"), (25, "2nd")]));
        assert_eq!(places, [Here(0, Some(0)), In(1), Here(1, Some(2)), In(3)]);
        let places = weave(&hooks, &log(&[(10, ">one"), (15, "first")]));
        assert_eq!(places, [Here(0, Some(0)), In(1), Here(1, None)]);
    }

    #[test]
    fn a_prompt_that_no_log_has_stays_where_it_was_said() {
        let hooks = here(&[(10, "/rollback"), (20, "two")]);
        let places = weave(&hooks, &log(&[(5, "before"), (20, ">two"), (25, "2nd")]));
        assert_eq!(places, [In(0), Here(0, None), Here(1, Some(1)), In(2)]);
    }

    #[test]
    fn a_prompt_that_was_expanded_is_the_same_one() {
        let hooks = here(&[(10, "/fix 3"), (20, "two")]);
        let places = weave(&hooks, &log(&[(11, ">Fix issue 3."), (12, "ok"), (20, ">two")]));
        assert_eq!(places, [Here(0, Some(0)), In(1), Here(1, Some(2))]);
    }

    #[test]
    fn a_prompt_that_no_hook_told_is_not_taken_for_the_next_one() {
        let places = weave(&here(&[(14, "two")]), &log(&[(10, ">one")]));
        assert_eq!(places, [In(0), Here(0, None)]);
    }

    #[test]
    fn the_same_words_at_another_time_are_another_prompt() {
        let hooks = here(&[(10_000, "go on")]);
        let places = weave(&hooks, &log(&[(10, ">go on"), (9_999, ">go on")]));
        assert_eq!(places, [In(0), Here(0, Some(1))]);
    }

    #[test]
    fn of_the_same_words_said_twice_the_nearest_ones_are_meant() {
        let hooks = here(&[(12, "what?"), (20, "go on")]);
        let places = weave(&hooks, &log(&[(5, ">go on"), (12, ">what?"), (20, ">go on")]));
        assert_eq!(places, [In(0), Here(0, Some(1)), Here(1, Some(2))]);
    }

    #[test]
    fn what_must_keep_its_number_comes_first() {
        let mut hooks = here(&[(10, "one"), (20, "two")]);
        hooks[0].is_fixed = true;
        let places = weave(&hooks, &log(&[(5, "late"), (10, ">one"), (15, "first")]));
        assert_eq!(places, [Here(0, Some(1)), In(0), In(2), Here(1, None)]);
    }
}
