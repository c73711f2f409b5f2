//! Public access to private parsers, for the targets in `fuzz/`. It exists only in fuzzing builds.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::hook::state::{IndexState, OpenCall, SessionState, StepState};
use crate::{Failure, Planned, Record, Turn};

/// Parses the input as the record of a checkpoint, as a plan, and as state files of several kinds.
/// Panics if a parsed value changes when it is written and read again.
pub fn record(bytes: &[u8]) {
    if let Ok(message) = std::str::from_utf8(bytes)
        && let Ok(record) = Record::parse(message)
    {
        assert_eq!(Record::parse(&record.message()).as_ref(), Ok(&record));
        let subject = record.message();
        let subject = subject.split("\n\n").next().unwrap_or_default();
        assert!(!subject.chars().any(char::is_control), "{subject:?}");
    }
    if let Ok(mut state) = serde_json::from_slice::<SessionState>(bytes) {
        let turn = state.current_turn();
        state.begin_turn(Some(turn.id));
    }
    check_round_trip::<SessionState>(bytes);
    check_round_trip::<StepState>(bytes);
    check_round_trip::<OpenCall>(bytes);
    check_round_trip::<IndexState>(bytes);
    check_round_trip::<Vec<Failure>>(bytes);
    check_round_trip::<Turn>(bytes);
    check_round_trip::<Planned>(bytes);
}

fn check_round_trip<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    let Ok(state) = serde_json::from_slice::<T>(bytes) else { return };
    let once = serde_json::to_value(&state).expect("plain data becomes JSON");
    let again: T = serde_json::from_value(once.clone()).expect("it was just written");
    assert_eq!(serde_json::to_value(&again).expect("plain data becomes JSON"), once);
}
