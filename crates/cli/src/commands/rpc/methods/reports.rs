//! Methods by which an agent reports its work, as hooks do.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use takeback_agents::{ParsedPayload, find_agent, parse_payload};
use takeback_undo::{Deadline, Report};

use super::super::Server;
use super::super::params::{Name, Params};
use super::super::protocol::{Answer, Error, answer};
use crate::context::Context;
use crate::failure::Failure;
use crate::reporting::{self, PendingReport, ReportView, Waited, workspace_of};

/// The parameters for the beginning of a tool call.
pub(super) const CALL: [&str; 3] = ["call", "tool", "input"];
/// The parameters for the end of a tool call.
pub(super) const ENDED_CALL: [&str; 4] = ["call", "tool", "input", "outcome"];
/// The parameters that all reports share.
const COMMON: [&str; 5] = ["agent", "session", "parent", "turn", "model"];

/// Handles a report as `takeback hook generic` does. `fields` are the parameters of the
/// report in addition to the common ones.
pub(super) fn report(
    event: &str,
    fields: &[&'static str],
    server: &Server,
    context: &Context,
    params: Params,
) -> Answer {
    let report = parse_report(event, fields, context, params)?;
    let mut view = ReportView { session: report.session_id(), ..ReportView::default() };
    let Some((opened, failures)) = reporting::open(context) else { return answer(&view) };
    for failure in &failures {
        opened.note_failure(&workspace_of(&opened, &report.directory), failure);
    }
    (view.enabled, view.failures) = (true, failures);
    view.note_tampering(&opened, &report);
    let pending = PendingReport::start(&opened, &report, Deadline::open());
    match pending.wait() {
        Waited::Done(handled) => {
            pending.spawn_follow_up(context, &handled, None);
            view.unprotected = handled.unprotected.iter().map(Into::into).collect();
            (view.checkpoints, view.missed) = (handled.checkpoints, handled.missed);
            view.failures.extend(handled.failures);
        }
        Waited::TooLong { message } => {
            (view.late, view.missed) = (true, true);
            view.failures.push(format!("{message}; the work continues in the background"));
            server.late.add(pending, context);
        }
        Waited::Broken { message } => {
            view.missed = true;
            view.failures.push(message.into());
        }
    }
    if opened.settings().strict && event == "before_tool" {
        view.refuse_unprotected();
    }
    answer(&view)
}

/// Parses the parameters as `takeback hook generic` does, except that a malformed parameter is an
/// error.
fn parse_report(
    event: &str,
    fields: &[&'static str],
    context: &Context,
    mut params: Params,
) -> Result<Report, Error> {
    let mut payload: BTreeMap<&str, Box<RawValue>> = BTreeMap::new();
    for name in COMMON.iter().chain(fields) {
        let raw = match *name {
            // These are passed on unparsed, because they can be nested more deeply than serde_json
            // can parse.
            "input" | "outcome" => params.take_raw(name),
            name => params.take_checked::<Name>(name)?,
        };
        payload.extend(raw.map(|raw| (*name, raw)));
    }
    params.end()?;
    let payload = serde_json::to_vec(&payload).expect("raw JSON can be serialized");
    let generic = find_agent("generic").expect("it is in the table");
    match parse_payload(generic, Some(event), &payload, &context.directory) {
        Ok(Some(ParsedPayload::Report { report, .. })) => Ok(*report),
        Ok(_) => Err(Error::internal()),
        Err(error) => Err(Failure::new("cannot read this report").because(&error).into()),
    }
}
