//! pi: the entries of a tree. Only the branch that leads to the kept end is copied.

use std::collections::{BTreeSet, HashMap};

use serde_json::json;

use super::lines::{find_once, join_lines, parse_lines, with_fields};
use super::{Copy, Cut, RewindError};

/// Copies a log up to an entry.
pub(super) fn cut(cut: &Cut<'_>) -> Result<Copy, RewindError> {
    let lines = parse_lines(cut.bytes)?;
    let header = lines.first().ok_or(RewindError::UnknownFormat("it is empty"))?;
    let is_known = header.value["type"] == "session" && header.value["version"] == 3;
    if !is_known || header.value["id"] != cut.old {
        return Err(RewindError::UnknownFormat("it does not begin with its own session"));
    }
    let anchor = find_once(&lines[1..], |line| line["id"] == cut.anchor)? + 1;
    let ids = lines.iter().enumerate().skip(1);
    let index_of: HashMap<&str, usize> =
        ids.filter_map(|(index, line)| Some((line.value["id"].as_str()?, index))).collect();
    let mut branch = BTreeSet::new();
    let mut next = lines[anchor].value["parentId"].as_str();
    while let Some(id) = next {
        let index = *index_of.get(id).ok_or(RewindError::UnknownFormat("an entry is missing"))?;
        if !branch.insert(index) {
            return Err(RewindError::UnknownFormat("its entries form a circle"));
        }
        next = lines[index].value["parentId"].as_str();
    }
    let first = with_fields(header.text, &[("id", json!(cut.new))])?;
    let rest = branch.iter().map(|index| lines[*index].text);
    let content = join_lines(std::iter::once(first.as_str()).chain(rest));
    let name = cut.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = match name.contains(cut.old) {
        true => name.replace(cut.old, cut.new),
        false => format!("{}.jsonl", cut.new),
    };
    Ok(Copy::of_log(cut.path.with_file_name(name), content))
}
