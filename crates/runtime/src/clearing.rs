//! Leaving the results of old tool calls out of requests, so that a long turn fits into the model's
//! context window. The session keeps the results, so they can still be searched and shown.

use serde_json::Value;
use takeback_ledger::MessageRecord;

use crate::model::estimate_message;

/// The text that replaces a result that was left out.
const CLEARED: &str = "[left out to save space; make the call again if the result is still needed]";

/// The minimum size of a result that is worth leaving out, in bytes.
const MIN_CLEARED: usize = 4 * CLEARED.len();

/// Replaces the results up to the message `through` with a short note.
pub(crate) fn clear_results(messages: &mut [MessageRecord], through: i64) {
    let old = messages.iter_mut().filter(|message| message.seq <= through);
    for message in old.filter(|message| is_long_result(message)) {
        message.content = Some(Value::from(CLEARED));
    }
}

/// Returns true if there are results to leave out after the message `cleared`, assuming that the
/// messages `new` have been written as well.
pub(crate) fn can_clear(messages: &[MessageRecord], new: &[MessageRecord], cleared: i64) -> bool {
    match new.iter().any(|message| message.role == "tool") {
        true => list_long_results(messages, cleared).next().is_some(),
        false => list_clearable(messages, cleared).next().is_some(),
    }
}

/// Finds the results to leave out, oldest first. Leaving them out saves at least `excess` tokens,
/// if that is possible. It also saves at least half of the tokens that can be saved, so that
/// results rarely have to be left out again. Returns the number of the message with the last of
/// these results.
pub(crate) fn find_clearing(messages: &[MessageRecord], cleared: i64, excess: u64) -> Option<i64> {
    let all: u64 = list_clearable(messages, cleared).map(estimate_message).sum();
    let wanted = excess.max(all / 2);
    let mut saved = 0;
    let mut last = None;
    for message in list_clearable(messages, cleared) {
        saved += estimate_message(message);
        last = Some(message.seq);
        if saved >= wanted {
            break;
        }
    }
    last
}

/// Lists the results that can be left out. The newest result is kept, because otherwise the model
/// could never read it.
fn list_clearable(
    messages: &[MessageRecord],
    cleared: i64,
) -> impl Iterator<Item = &MessageRecord> + '_ {
    let newest = messages.iter().rposition(|message| message.role == "tool").unwrap_or(0);
    list_long_results(&messages[..newest], cleared)
}

fn list_long_results(
    messages: &[MessageRecord],
    cleared: i64,
) -> impl Iterator<Item = &MessageRecord> + '_ {
    messages.iter().filter(move |message| message.seq > cleared && is_long_result(message))
}

fn is_long_result(message: &MessageRecord) -> bool {
    if message.role != "tool" {
        return false;
    }
    let length = match &message.content {
        Some(Value::String(text)) => text.len(),
        Some(other) => other.to_string().len(),
        None => 0,
    };
    length >= MIN_CLEARED
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(seq: i64, length: usize) -> MessageRecord {
        MessageRecord {
            seq,
            role: "tool".into(),
            content: Some("x".repeat(length).into()),
            ..MessageRecord::default()
        }
    }

    #[test]
    fn the_oldest_results_are_left_out_first_and_the_newest_one_stays() {
        let messages: Vec<MessageRecord> = (1..=5).map(|seq| result(seq, 3_000)).collect();
        assert_eq!(find_clearing(&messages, 0, 0), Some(2), "half of what can be saved");
        assert_eq!(find_clearing(&messages, 0, 2_500), Some(3));
        assert_eq!(find_clearing(&messages, 0, 1_000_000), Some(4));
        assert_eq!(find_clearing(&messages, 4, 1_000_000), None);
        assert!(can_clear(&messages, &[], 3) && !can_clear(&messages, &[], 4));
        assert!(can_clear(&messages, &[result(6, 10)], 4), "there is a newer one");
    }

    #[test]
    fn short_results_and_other_messages_stay() {
        let prompt = MessageRecord { role: "user".into(), ..result(1, 9_000) };
        let mut messages = vec![prompt.clone(), result(2, 10), result(3, 9_000), result(4, 9_000)];
        assert_eq!(find_clearing(&messages, 0, 1), Some(3));
        clear_results(&mut messages, 3);
        assert_eq!(messages[0], prompt);
        assert_eq!(messages[1], result(2, 10));
        assert_eq!(messages[2].content.as_ref().unwrap().as_str(), Some(CLEARED));
        assert_eq!(messages[3], result(4, 9_000));
    }
}
