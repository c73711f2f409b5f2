//! Text for users: shortened, measured, and disarmed. To disarm a text means to escape the
//! characters that a terminal would interpret instead of showing.

use std::path::Path;

pub(crate) use takeback_base::columns::{shorten, shorten_start, width_of};
pub(crate) use takeback_base::text::{disarm, format_bytes as bytes};
use takeback_tree::{BlockedPath, Uncovered};
use takeback_undo::view::text::relative;

use crate::context::Context;

/// Disarms text that may have several lines. Line breaks stay, and tabs become spaces.
pub(crate) fn disarm_lines(text: &str) -> String {
    let lines = text.split('\n').map(|line| disarm(&line.replace('\t', "    ")));
    lines.collect::<Vec<_>>().join("\n")
}

/// Joins the words of some text into one line.
pub(crate) fn join_lines(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Formats a timestamp as a local date and time.
pub(crate) fn local(moment: jiff::Timestamp) -> String {
    moment.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
}

/// Formats a timestamp as a local time of day, with the date unless it is today.
pub(crate) fn short_local(moment: jiff::Timestamp) -> String {
    let zone = jiff::tz::TimeZone::system();
    let (then, now) = (moment.to_zoned(zone.clone()), jiff::Timestamp::now().to_zoned(zone));
    let format = if then.date() == now.date() { "%H:%M" } else { "%Y-%m-%d %H:%M" };
    then.strftime(format).to_string()
}

/// Formats a time in RFC 3339 as a local time of day, with the date unless it is today.
pub(crate) fn local_time(time: &str) -> String {
    time.parse::<jiff::Timestamp>().map_or_else(|_| disarm(time), short_local)
}

/// Formats a time in RFC 3339 as the time that has passed since then: `2m`, `3h`, `5d`.
pub(crate) fn relative_time(time: &str) -> String {
    let then = time.parse::<jiff::Timestamp>();
    then.map_or_else(|_| disarm(time), |then| relative(then, jiff::Timestamp::now()))
}

/// Formats a path with `~` for the home directory, and escapes its control characters.
pub(crate) fn tilde(path: &Path, context: &Context) -> String {
    let short = context.user_home().and_then(|home| {
        let home = std::fs::canonicalize(home).ok()?;
        Some(format!("~/{}", path.strip_prefix(home).ok()?.display()))
    });
    disarm(&short.unwrap_or_else(|| path.display().to_string()))
}

/// Formats a number with its noun: `1 file`, `2 files`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Formats a path that is not covered, with the reason.
pub(crate) fn uncovered_line(uncovered: &Uncovered) -> String {
    format!("{}  ({})", uncovered.path, disarm(&uncovered.reason.to_string()))
}

/// Names a path that cannot be restored, and says why.
pub(crate) fn blocked_line(blocked: &BlockedPath) -> String {
    format!("{}  ({})", blocked.path, disarm(&blocked.describe_reason()))
}
