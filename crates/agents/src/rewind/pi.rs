//! pi: a log whose entries form a tree. Only the branch that leads to the last entry to keep is
//! copied.

use std::collections::{BTreeSet, HashMap};

use super::directory::place_logs;
use super::lines::{copy_header, find_header, find_once, join_lines, parse_lines};
use super::{Copy, Cut, RewindError};

/// Copies a log up to an entry.
pub(super) fn cut(cut: &Cut<'_>) -> Result<Copy, RewindError> {
    let lines = parse_lines(cut.bytes)?;
    let header = find_header(&lines, cut, "session", 3)?;
    let mut next = match cut.anchor {
        Some(anchor) => {
            let anchor = find_once(&lines[1..], |line| line["id"] == anchor)? + 1;
            lines[anchor].value["parentId"].as_str()
        }
        None => Some(cut.last),
    };
    let ids = lines.iter().enumerate().skip(1);
    let index_of: HashMap<&str, usize> =
        ids.filter_map(|(index, line)| Some((line.value["id"].as_str()?, index))).collect();
    let mut branch = BTreeSet::new();
    while let Some(id) = next {
        let index = *index_of.get(id).ok_or(RewindError::UnknownFormat("an entry is missing"))?;
        if !branch.insert(index) {
            return Err(RewindError::UnknownFormat("its entries form a cycle"));
        }
        next = lines[index].value["parentId"].as_str();
    }
    let first = copy_header(header, cut)?;
    let rest = branch.iter().map(|index| lines[*index].text);
    let content = join_lines(std::iter::once(first.as_str()).chain(rest));
    let name = cut.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = match name.contains(cut.old) {
        true => name.replace(cut.old, cut.new),
        false => format!("{}.jsonl", cut.new),
    };
    let logs = cut.path.parent().ok_or(RewindError::NoAnchor)?;
    let logs = place_logs(cut, logs, header.value["cwd"].as_str(), name_directory)?;
    Ok(Copy::of_log(logs.join(name), content))
}

/// Returns the name that pi gives to the directory of a project's logs.
fn name_directory(path: &str) -> String {
    let path = path.strip_prefix(['/', '\\']).unwrap_or(path);
    format!("--{}--", path.replace(['/', '\\', ':'], "-"))
}
