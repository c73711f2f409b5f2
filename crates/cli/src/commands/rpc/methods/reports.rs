//! What the agent does: the same as its hook would report, without a process for each.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;
use takeback_agents::{ParsedPayload, find_agent, parse_payload};
use takeback_tree::Oid;
use takeback_undo::{Deadline, Report};

use super::super::Server;
use super::super::params::{Name, Params};
use super::super::protocol::{Answer, Error, answer};
use crate::context::Context;
use crate::failure::Failure;
use crate::reporting::{self, PendingReport, Waited, workspace_of};

/// What a tool call has.
pub(super) const CALL: [&str; 3] = ["call", "tool", "input"];
/// What one has that is over.
pub(super) const ENDED_CALL: [&str; 4] = ["call", "tool", "input", "outcome"];
/// What everything that is reported has.
const EVERY: [&str; 5] = ["agent", "session", "parent", "turn", "model"];

/// What came of it.
#[derive(Default, Serialize)]
struct View {
    /// As the ledger knows it.
    session: String,
    /// Whether checkpoints are switched on at all.
    enabled: bool,
    checkpoints: Vec<Oid>,
    /// Whether something is not protected.
    missed: bool,
    /// Whether it is not done yet, and goes on.
    late: bool,
    failures: Vec<String>,
}

/// Reports an event of the generic hook, with these parameters besides those that all have.
pub(super) fn report(
    event: &str,
    fields: &[&'static str],
    server: &Server,
    context: &Context,
    params: Params,
) -> Answer {
    let report = read(event, fields, context, params)?;
    let mut view = View { session: report.session_id(), ..View::default() };
    let Some((opened, failures)) = reporting::open(context) else { return answer(&view) };
    for failure in &failures {
        opened.note_failure(&workspace_of(&opened, &report.directory), failure);
    }
    (view.enabled, view.failures) = (true, failures);
    let pending = PendingReport::start(&opened, &report, Deadline::open());
    match pending.wait() {
        Waited::Done(handled) => {
            pending.spawn_follow_up(context, &handled, None);
            (view.checkpoints, view.missed) = (handled.checkpoints, handled.missed);
            view.failures.extend(handled.failures);
        }
        Waited::TooLong { message } => {
            (view.late, view.missed) = (true, true);
            view.failures.push(message);
            server.late.add(pending, context);
        }
        Waited::Broken { message } => {
            view.missed = true;
            view.failures.push(message.into());
        }
    }
    answer(&view)
}

/// Understands the parameters as the generic hook does, except that what is wrong is said.
fn read(
    event: &str,
    fields: &[&'static str],
    context: &Context,
    mut params: Params,
) -> Result<Report, Error> {
    let mut told: BTreeMap<&str, Box<RawValue>> = BTreeMap::new();
    for name in EVERY.iter().chain(fields) {
        let raw = match *name {
            // It may be deeper than what can be read, and is of use all the same.
            "input" | "outcome" => params.take(name),
            name => params.raw::<Name>(name)?,
        };
        told.extend(raw.map(|raw| (*name, raw)));
    }
    params.end()?;
    let told = serde_json::to_vec(&told).expect("JSON becomes JSON");
    let generic = find_agent("generic").expect("it is in the table");
    match parse_payload(generic, Some(event), &told, &context.directory) {
        Ok(Some(ParsedPayload::Report { report, .. })) => Ok(*report),
        Ok(_) => Err(Error::internal()),
        Err(error) => Err(Failure::new("this cannot be understood").because(&error).into()),
    }
}
