//! The fleet's database fulfils the ledger's contract: it passes the same tests.

#[path = "../../../ledger/tests/contract/mod.rs"]
mod parts;

use std::io::Write;

use takeback_fleet::{Encrypt, FleetResults, JoinOptions};
use takeback_ledger::{
    Ledger, ListOptions, PriceFn, SearchOptions, SearchResults, SessionSummary, Time, UsageBy,
    UsageTotal,
};

use self::parts::{Backend, PARTS};
use crate::machine::Machine;
use crate::server::Server;

/// A fleet of one machine.
struct OneMachine(Machine);

impl OneMachine {
    fn ship(&mut self) {
        self.0.sync().unwrap();
    }
}

impl Backend for OneMachine {
    fn ledger(&mut self) -> &mut Ledger {
        &mut self.0.ledger
    }

    fn search(&mut self, query: &str, options: &SearchOptions) -> SearchResults {
        self.ship();
        let found = self.0.fleet().search(query, options, &|| false).unwrap();
        let FleetResults { hits, total, more, stopped } = found;
        let results = hits.into_iter().map(|found| found.hit).collect();
        SearchResults { results, total, more, stopped }
    }

    fn sessions(&mut self, options: &ListOptions) -> Vec<SessionSummary> {
        self.ship();
        let found = self.0.fleet().sessions(options).unwrap();
        found.into_iter().map(|session| session.summary).collect()
    }

    fn usage_by(
        &mut self,
        by: UsageBy,
        day: &dyn Fn(Time) -> String,
        price: &PriceFn<'_>,
    ) -> Vec<UsageTotal> {
        self.ship();
        self.0.fleet().usage_by(by, day, price).unwrap()
    }

    fn cases(&self) -> u32 {
        let wanted = std::env::var("TAKEBACK_SEARCH_CASES").ok();
        wanted.and_then(|cases| cases.parse().ok()).unwrap_or(3)
    }
}

fn check(encrypt: Encrypt) {
    let Some(server) = Server::start() else { return };
    for (name, part) in PARTS {
        // If a part fails, the output of the test shows its name.
        let _ = writeln!(std::io::stderr(), "{name}");
        server.query("DROP SCHEMA IF EXISTS takeback CASCADE");
        let mut machine = Machine::new("m", &server.address());
        machine.settings.encrypt = encrypt;
        machine.join(&JoinOptions::default()).unwrap();
        part(&mut OneMachine(machine));
    }
}

#[test]
fn the_fleet_fulfils_the_contract() {
    check(Encrypt::Private);
}

#[test]
fn an_encrypted_fleet_fulfils_the_contract() {
    check(Encrypt::All);
}
