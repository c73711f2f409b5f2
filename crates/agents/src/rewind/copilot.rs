//! Copilot CLI: a directory per session, with a log that only grows and a file about the session.

use serde_json::json;
use takeback_base::foreign;

use super::lines::{Line, find_end, join_lines, parse_lines, with_fields};
use super::{Copy, Cut, RewindError};

/// Copies a session's directory, with the log up to an event.
pub(super) fn cut(cut: &Cut<'_>) -> Result<Copy, RewindError> {
    let lines = parse_lines(cut.bytes)?;
    let header = lines.first().ok_or(RewindError::UnknownFormat("it is empty"))?;
    let start = &header.value["data"];
    let is_known = header.value["type"] == "session.start" && start["version"] == 1;
    if !is_known || start["sessionId"] != cut.old {
        return Err(RewindError::UnknownFormat("its beginning does not name the session"));
    }
    let is_hook =
        |line: &Line<'_>| line.value["type"].as_str().is_some_and(|kind| kind.starts_with("hook."));
    // The events of hooks that ran for a prompt come before the prompt, and quote it.
    let end = lines[..find_end(&lines, cut)?].iter().rposition(|line| !is_hook(line));
    let end = end.map_or(1, |last| last + 1);
    let mut data = start.clone();
    data["sessionId"] = json!(cut.new);
    if let Some(moved) = cut.moved {
        for name in ["cwd", "gitRoot"] {
            moved.map_value(&mut data["context"][name]);
        }
    }
    let first = with_fields(header.text, &[("data", data)])?;
    let rest = lines[1..end.max(1)].iter().map(|line| line.text);
    let content = join_lines(std::iter::once(first.as_str()).chain(rest));
    let old = cut.path.parent().ok_or(RewindError::NoAnchor)?;
    let new = old.with_file_name(cut.new);
    let about = foreign::read_regular(&old.join("workspace.yaml"), foreign::MAX_TEXT)?;
    let about = describe_copy(&String::from_utf8_lossy(&about), cut);
    let mut copy = Copy::of_log(new.join("events.jsonl"), content);
    copy.others.push((new.join("workspace.yaml"), about.into_bytes()));
    Ok(copy)
}

/// Returns the metadata file of the copy: that of the original, with the new id and, for a new
/// directory, the new paths. Copilot CLI changes to the directory that this file names.
fn describe_copy(about: &str, cut: &Cut<'_>) -> String {
    let describe = |line: &str| {
        let line = line.replace(cut.old, cut.new);
        match (line.split_once(": "), cut.moved) {
            (Some((name @ ("cwd" | "git_root"), path)), Some(moved)) => {
                format!("{name}: {}", moved.map(path))
            }
            _ => line,
        }
    };
    about.lines().map(|line| describe(line) + "\n").collect()
}
