//! Content that workers prepare for the panes: lines of diffs, messages, versions of a file.

use jiff::Timestamp;
use ratatui::text::Line as TextLine;
use takeback_tree::TreeChange;
use takeback_undo::view::{FileDiff, Line, Part, Section};

/// A line of a diff.
#[derive(Debug)]
pub(crate) enum DiffRow {
    /// The heading of a file.
    File(Box<TreeChange>),
    /// Unchanged lines that are not shown.
    Fold(usize),
    Same(usize, Vec<Part>),
    Removed(usize, Vec<Part>),
    Added(usize, Vec<Part>),
    /// The reason why no lines are shown.
    Note(String),
    Gap,
}

/// Converts the diff of a file into rows, and appends them to `rows`.
pub(crate) fn add_rows(rows: &mut Vec<DiffRow>, change: &TreeChange, diff: FileDiff) {
    if !rows.is_empty() {
        rows.push(DiffRow::Gap);
    }
    rows.push(DiffRow::File(Box::new(change.clone())));
    let sections = match diff {
        FileDiff::Lines(sections) => sections,
        FileDiff::Note(note) => return rows.push(DiffRow::Note(note)),
        FileDiff::Images(sides) => {
            let size = |side: Option<takeback_undo::view::Image>| {
                side.map_or("nothing".to_owned(), |side| {
                    takeback_base::text::format_bytes(side.size)
                })
            };
            let [old, new] = sides.map(size);
            return rows.push(DiffRow::Note(format!("A picture: {old} → {new}.")));
        }
    };
    let removed = |Line { number, parts }| DiffRow::Removed(number, parts);
    let added = |Line { number, parts }| DiffRow::Added(number, parts);
    for section in sections {
        match section {
            Section::Fold(count) => rows.push(DiffRow::Fold(count)),
            Section::Same(lines) => {
                rows.extend(lines.into_iter().map(|(_, new, parts)| DiffRow::Same(new, parts)));
            }
            Section::Changed { old, new } => {
                rows.extend(old.into_iter().map(removed));
                rows.extend(new.into_iter().map(added));
            }
        }
    }
}

/// A message of a conversation, rendered for the width of the pane.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) role: String,
    pub(crate) number: i64,
    pub(crate) time: Option<Timestamp>,
    /// The words for the message's state, such as `taken back`.
    pub(crate) marks: Vec<String>,
    pub(crate) blocks: Vec<Block>,
}

/// A part of a message.
#[derive(Debug)]
pub(crate) enum Block {
    Text(Vec<TextLine<'static>>),
    /// A tool call or its result, which is folded at first.
    Tool {
        head: String,
        body: Vec<ToolLine>,
    },
}

/// A line of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ToolLine {
    Plain(String),
    Removed(String),
    Added(String),
}

/// The three versions of a file that has conflicts. `None` means that the file does not exist in
/// that version.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Versions {
    pub(crate) before: Option<Vec<String>>,
    pub(crate) after: Option<Vec<String>>,
    pub(crate) now: Option<Vec<String>>,
}

/// A session in the list, or a search result: a session and the message that was found in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundSession {
    pub(crate) session: String,
    pub(crate) agent: String,
    /// The title, or the beginning of the conversation.
    pub(crate) title: String,
    pub(crate) time: Timestamp,
    /// The message that was found: its number, its role, and the words around the match.
    pub(crate) hit: Option<Hit>,
}

/// A message that a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) message: i64,
    pub(crate) role: String,
    /// The words around the match, which is between `>>>` and `<<<`.
    pub(crate) snippet: String,
}
