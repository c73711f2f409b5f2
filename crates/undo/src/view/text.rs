//! Text for users: times, counts and names, as all front ends show them.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use takeback_base::text::is_armed;
use takeback_ledger::{Redactor, Time};

use crate::history::EffectView;
use crate::history::record::Action;

/// Formats a number with its noun: `1 file`, `1,234 files`.
pub fn count(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", group_digits(number), if number == 1 { "" } else { "s" })
}

/// Formats a number with commas between groups of three digits.
pub fn group_digits(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats the time since a moment as a number with a unit: `2m`, `3h`, `5d`.
pub fn relative(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second() - then.as_second();
    match seconds {
        ..60 => "now".to_owned(),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        86_400..31_536_000 => format!("{}d", seconds / 86_400),
        _ => format!("{}y", seconds / 31_536_000),
    }
}

/// Formats a moment as a local date and time with its day of the week.
pub fn absolute(moment: Timestamp, zone: &TimeZone) -> String {
    moment.to_zoned(zone.clone()).strftime("%a %-d %b %Y, %H:%M:%S").to_string()
}

/// Formats the local time of day.
pub fn clock(moment: Timestamp, zone: &TimeZone) -> String {
    moment.to_zoned(zone.clone()).strftime("%H:%M").to_string()
}

/// Returns the local day of a moment in words: `Today`, `Yesterday`, or the date.
pub fn day_name(moment: Timestamp, now: Timestamp, zone: &TimeZone) -> String {
    let (then, today) = (moment.to_zoned(zone.clone()), now.to_zoned(zone.clone()).date());
    match then.date() {
        day if day == today => "Today".to_owned(),
        day if today.yesterday().is_ok_and(|yesterday| day == yesterday) => "Yesterday".to_owned(),
        day if day.year() == today.year() => then.strftime("%A, %-d %B").to_string(),
        _ => then.strftime("%A, %-d %B %Y").to_string(),
    }
}

/// Converts a time from the ledger into a timestamp.
pub fn timestamp(time: Time) -> Timestamp {
    Timestamp::from_millisecond(time.0).unwrap_or_default()
}

/// Turns a text into one line. Escapes characters that are invisible or change the direction of
/// text.
pub fn one_line(text: &str) -> String {
    visible(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Escapes characters that are invisible or change the direction of text. Line breaks and tabs are
/// kept.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.replace("\r\n", "\n").chars() {
        if matches!(character, '\n' | '\t') || !is_armed(character) {
            shown.push(character);
        } else {
            shown.extend(character.escape_default());
        }
    }
    shown
}

/// Masks the secrets in a text.
pub fn mask_text(text: &str) -> String {
    Redactor::shared().mask_text(text).into_owned()
}

/// Returns the argument that says the most about a tool call.
pub fn describe_input(arguments: &str) -> String {
    const TELLING: [&str; 9] =
        ["command", "file_path", "path", "pattern", "query", "url", "prompt", "task", "process"];
    let value: Option<serde_json::Value> = serde_json::from_str(arguments).ok();
    let found = value.as_ref().and_then(|value| {
        TELLING.iter().find_map(|name| value.get(name).and_then(serde_json::Value::as_str))
    });
    found.map_or_else(|| arguments.to_owned(), str::to_owned)
}

/// Returns the lines that a call to an editing tool removes, and the lines that it adds. Returns
/// `None` for other tools.
pub fn list_edited_lines(arguments: &str) -> Option<(Vec<String>, Vec<String>)> {
    const OLD: [&str; 3] = ["old_string", "old_str", "oldText"];
    const NEW: [&str; 3] = ["new_string", "new_str", "newText"];
    let value: serde_json::Value = serde_json::from_str(arguments).ok()?;
    let find = |names: [&str; 3]| {
        let text = names.iter().find_map(|name| value.get(name)?.as_str())?;
        Some(text.lines().map(str::to_owned).collect())
    };
    Some((find(OLD)?, find(NEW)?))
}

/// Cuts off a text after `length` characters, and adds an ellipsis if anything was cut off.
pub fn shorten(text: &str, length: usize) -> String {
    match text.char_indices().nth(length) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

/// Lists the kinds of effects, without duplicates.
pub fn effect_kinds(effects: &[EffectView]) -> Vec<&str> {
    let mut kinds: Vec<&str> = Vec::new();
    for effect in effects {
        if !kinds.contains(&effect.kind.as_str()) {
            kinds.push(&effect.kind);
        }
    }
    kinds
}

/// Describes what a rollback did, in the past tense.
pub fn describe_action(action: Action) -> &'static str {
    match action {
        Action::Rollback => "Rolled back",
        Action::UndoTurn => "Undid the turn",
        Action::Undo => "Took back a rollback",
        Action::Redo => "Repeated a rollback",
    }
}

/// Returns the agent of a session, which is the part of the session's id before the colon.
pub fn agent_of(session: &str) -> &str {
    session.split_once(':').map_or(session, |(agent, _)| agent)
}

/// Returns the number of the color for an agent's name. Well-known agents have different colors.
pub fn agent_hue(agent: &str) -> usize {
    const KNOWN: [&str; 11] = [
        "claude", "codex", "gemini", "opencode", "qwen", "copilot", "droid", "cline", "pi",
        "cursor", "goose",
    ];
    const HUES: usize = 12;
    let other = || agent.bytes().fold(7_usize, |sum, byte| sum * 31 % 1_009 + usize::from(byte));
    KNOWN.iter().position(|known| *known == agent).unwrap_or_else(other) % HUES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped() {
        let shown: Vec<String> = [0, 999, 1_000, 1_234_567].map(group_digits).into();
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn times_are_relative_and_days_have_names() {
        let now: Timestamp = "2026-11-18T12:00:00Z".parse().unwrap();
        let zone = TimeZone::UTC;
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert_eq!(relative(at("2026-11-18T11:59:30Z"), now), "now");
        assert_eq!(relative(at("2026-11-18T11:58:00Z"), now), "2m");
        assert_eq!(relative(at("2026-11-13T11:58:00Z"), now), "5d");
        assert_eq!(day_name(at("2026-11-18T00:00:00Z"), now, &zone), "Today");
        assert_eq!(day_name(at("2026-11-17T23:59:00Z"), now, &zone), "Yesterday");
        assert_eq!(day_name(at("2026-11-02T10:00:00Z"), now, &zone), "Monday, 2 November");
        assert_eq!(day_name(at("2025-11-02T10:00:00Z"), now, &zone), "Sunday, 2 November 2025");
    }

    #[test]
    fn hostile_characters_are_shown_as_escapes() {
        assert_eq!(one_line("a\nb\u{202e}c\u{1b}[0m"), "a b\\u{202e}c\\u{1b}[0m");
        assert_eq!(visible("a\n\tb\u{2066}"), "a\n\tb\\u{2066}");
    }
}
