//! Weaving messages that hooks reported and messages from a log into one conversation.
//!
//! Hooks report prompts immediately, but answers become known only when the log is read. So the
//! ledger may have a prompt before it has the answer to the previous one.

use crate::Time;

/// A stored message that no log has confirmed.
#[derive(Clone, Debug)]
pub(super) struct UnconfirmedMessage {
    pub(super) time: Time,
    pub(super) is_prompt: bool,
    pub(super) text: String,
    /// True if the message must keep its number.
    pub(super) is_fixed: bool,
}

/// A message from a log.
#[derive(Clone, Debug)]
pub(super) struct IncomingMessage {
    pub(super) time: Time,
    pub(super) is_prompt: bool,
    pub(super) text: String,
}

/// A message of the woven conversation, identified by its index in each list that contains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WovenMessage {
    /// A stored message. The second index is the index of the same message in the log, if the log
    /// has it.
    Stored(usize, Option<usize>),
    /// A message that only the log has.
    Incoming(usize),
}

/// The maximum time, in milliseconds, between a hook's record of a message and the log's record of
/// the same message.
const SAME_TEXT_WITHIN: i64 = 30_000;

/// The range of the delay, in milliseconds, between a hook's record of a prompt and the log's
/// record of the same prompt with different wording. The wording can differ because agents expand
/// prompts. An agent logs a prompt only after it has started the hook, and the hook takes less than
/// a second to record the time. So an entry that is more than a second older than the hook's record
/// is a different prompt.
const OTHER_TEXT_WITHIN: std::ops::RangeInclusive<i64> = -1_000..=5_000;

/// Merges both lists into one sequence that contains each message once.
pub(super) fn weave(
    stored: &[UnconfirmedMessage],
    incoming: &[IncomingMessage],
) -> Vec<WovenMessage> {
    let pairs = find_pairs(stored, incoming);
    let mut woven = Vec::new();
    let mut next = 0;
    let fixed = stored.iter().rposition(|stored| stored.is_fixed).map_or(0, |last| last + 1);
    let partner = |number: usize| pairs.iter().position(|pair| *pair == Some(number));
    while next < fixed {
        woven.push(WovenMessage::Stored(next, partner(next)));
        next += 1;
    }
    for (number, entry) in incoming.iter().enumerate() {
        match pairs[number] {
            Some(pair) => {
                while next <= pair {
                    woven.push(WovenMessage::Stored(next, partner(next)));
                    next += 1;
                }
            }
            None => {
                let is_earlier = |next: usize| {
                    stored.get(next).is_some_and(|stored| stored.time < entry.time)
                        && partner(next).is_none()
                };
                while is_earlier(next) {
                    woven.push(WovenMessage::Stored(next, None));
                    next += 1;
                }
                woven.push(WovenMessage::Incoming(number));
            }
        }
    }
    woven.extend((next..stored.len()).map(|next| WovenMessage::Stored(next, None)));
    woven
}

/// For each incoming message, finds the index of the stored message that it corresponds to. The
/// indexes are in ascending order.
fn find_pairs(stored: &[UnconfirmedMessage], incoming: &[IncomingMessage]) -> Vec<Option<usize>> {
    let mut pairs = vec![None; incoming.len()];
    let mut next = 0;
    for (number, entry) in incoming.iter().enumerate() {
        // If the same text occurs several times, the occurrence nearest in time is the match.
        let is_nearest = |here: &UnconfirmedMessage| {
            let later = incoming[number + 1..].iter().filter(|later| later.text == entry.text);
            let nearest = later.map(|later| time_between(here.time, later.time)).min();
            nearest.is_none_or(|nearest| time_between(here.time, entry.time) <= nearest)
        };
        let is_same = |here: &UnconfirmedMessage| {
            here.is_prompt == entry.is_prompt
                && here.text == entry.text
                && time_between(here.time, entry.time) <= SAME_TEXT_WITHIN
                && is_nearest(here)
        };
        let found = stored[next..].iter().position(is_same).map(|found| next + found);
        // Otherwise, match two prompts with different wording, but only if the stored text does not
        // occur later in the log.
        let found = found.or_else(|| {
            let here = stored.get(next).filter(|here| here.is_prompt && entry.is_prompt)?;
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

fn time_between(one: Time, other: Time) -> i64 {
    one.0.saturating_sub(other.0).saturating_abs()
}

#[cfg(test)]
mod tests {
    use super::WovenMessage::{Incoming as In, Stored as Here};
    use super::*;

    fn stored_prompts(list: &[(i64, &str)]) -> Vec<UnconfirmedMessage> {
        let one = |(time, text): &(i64, &str)| UnconfirmedMessage {
            time: Time(*time * 1_000),
            is_prompt: true,
            text: (*text).to_owned(),
            is_fixed: false,
        };
        list.iter().map(one).collect()
    }

    /// Builds log entries. An entry whose text starts with `>` is a prompt.
    fn log_entries(list: &[(i64, &str)]) -> Vec<IncomingMessage> {
        let one = |(time, text): &(i64, &str)| IncomingMessage {
            time: Time(*time * 1_000),
            is_prompt: text.starts_with('>'),
            text: text.trim_start_matches('>').to_owned(),
        };
        list.iter().map(one).collect()
    }

    #[test]
    fn a_prompt_that_a_hook_reported_is_recognized_in_the_log() {
        let places = weave(
            &stored_prompts(&[(10, "fix it")]),
            &log_entries(&[(9, ">fix it"), (12, "done")]),
        );
        assert_eq!(places, [Here(0, Some(0)), In(1)]);
    }

    #[test]
    fn the_answer_to_a_prompt_comes_before_the_next_prompt() {
        let hooks = stored_prompts(&[(10, "one"), (20, "two")]);
        let places =
            weave(&hooks, &log_entries(&[(10, ">one"), (15, "first"), (20, ">two"), (25, "2nd")]));
        assert_eq!(places, [Here(0, Some(0)), In(1), Here(1, Some(2)), In(3)]);
        let places = weave(&hooks, &log_entries(&[(10, ">one"), (15, "first")]));
        assert_eq!(places, [Here(0, Some(0)), In(1), Here(1, None)]);
    }

    #[test]
    fn a_prompt_that_is_in_no_log_keeps_its_place() {
        let hooks = stored_prompts(&[(10, "/rollback"), (20, "two")]);
        let places = weave(&hooks, &log_entries(&[(5, "before"), (20, ">two"), (25, "2nd")]));
        assert_eq!(places, [In(0), Here(0, None), Here(1, Some(1)), In(2)]);
    }

    #[test]
    fn an_expanded_prompt_is_recognized() {
        let hooks = stored_prompts(&[(10, "/fix 3"), (20, "two")]);
        let places =
            weave(&hooks, &log_entries(&[(11, ">Fix issue 3."), (12, "ok"), (20, ">two")]));
        assert_eq!(places, [Here(0, Some(0)), In(1), Here(1, Some(2))]);
    }

    #[test]
    fn a_prompt_that_no_hook_reported_is_not_mistaken_for_the_next_one() {
        let places = weave(&stored_prompts(&[(14, "two")]), &log_entries(&[(10, ">one")]));
        assert_eq!(places, [In(0), Here(0, None)]);
    }

    #[test]
    fn the_same_words_at_a_different_time_are_a_different_prompt() {
        let hooks = stored_prompts(&[(10_000, "go on")]);
        let places = weave(&hooks, &log_entries(&[(10, ">go on"), (9_999, ">go on")]));
        assert_eq!(places, [In(0), Here(0, Some(1))]);
    }

    #[test]
    fn the_same_words_are_matched_by_the_nearest_time() {
        let hooks = stored_prompts(&[(12, "what?"), (20, "go on")]);
        let places = weave(&hooks, &log_entries(&[(5, ">go on"), (12, ">what?"), (20, ">go on")]));
        assert_eq!(places, [In(0), Here(0, Some(1)), Here(1, Some(2))]);
    }

    #[test]
    fn a_message_that_must_keep_its_number_comes_first() {
        let mut hooks = stored_prompts(&[(10, "one"), (20, "two")]);
        hooks[0].is_fixed = true;
        let places = weave(&hooks, &log_entries(&[(5, "late"), (10, ">one"), (15, "first")]));
        assert_eq!(places, [Here(0, Some(1)), In(0), In(2), Here(1, None)]);
    }
}
