//! The ledger fulfills the contract that the fleet's database also fulfills.

#[path = "../contract/mod.rs"]
mod parts;

use std::io::Write;

use takeback_ledger::{
    Ledger, ListOptions, PriceFn, SearchOptions, SearchResults, SessionSummary, Time, UsageBy,
    UsageTotal,
};

use self::parts::{Backend, PARTS};
pub(crate) use self::parts::{case_count, oracle};
use crate::support::Fixture;

impl Backend for Fixture {
    fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    fn search(&mut self, query: &str, options: &SearchOptions) -> SearchResults {
        self.ledger.search(query, options).unwrap()
    }

    fn sessions(&mut self, options: &ListOptions) -> Vec<SessionSummary> {
        self.ledger.sessions(options).unwrap()
    }

    fn usage_by(
        &mut self,
        by: UsageBy,
        day: &dyn Fn(Time) -> String,
        price: &PriceFn<'_>,
    ) -> Vec<UsageTotal> {
        self.ledger.usage_by(by, day, price).unwrap()
    }

    fn cases(&self) -> u32 {
        case_count()
    }
}

#[test]
fn the_ledger_fulfils_the_contract() {
    for (name, part) in PARTS {
        // If a part fails, the output of the test shows its name.
        let _ = writeln!(std::io::stderr(), "{name}");
        part(&mut Fixture::new());
    }
}
