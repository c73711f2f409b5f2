//! The precision of stored costs. The tests of the contract cover sums of costs.

use takeback_ledger::SessionRecord;

use crate::support::session;

#[test]
fn costs_are_stored_to_the_last_digit() {
    let mut cost = 0.1_f64;
    for number in 0..2_000 {
        cost = (cost * 1.618_033 + 0.377_1).fract() * 10_f64.powi(number % 20 - 10) + 1e-12;
        let session = SessionRecord { estimated_cost_usd: Some(cost), ..session("s") };
        let json = serde_json::to_string(&session).unwrap();
        let read: SessionRecord = serde_json::from_str(&json).unwrap();
        assert_eq!(read.estimated_cost_usd, Some(cost), "{json}");
    }
}
