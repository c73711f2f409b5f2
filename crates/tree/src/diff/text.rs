//! Differences as text, for users and for `git apply`.

use super::hunks::{self, Hunk};
use super::{ChangeKind, ChangeSide, Diff, TreeChange, read_content};
use crate::oid::Oid;
use crate::path::RelPath;
use crate::store::{ObjectError, Store};

/// The number of equal lines that are shown around lines that differ.
const CONTEXT: usize = 3;

/// The number of bytes at the start of the content that are checked for a NUL. A NUL makes the
/// content binary.
const SNIFFED: usize = 8000;

/// The maximum size in bytes of content that is compared line by line.
const MAX_TEXT: usize = 4 << 20;

/// True if content is binary or too large. In that case, only its size is shown.
pub(super) fn is_binary(content: &[u8]) -> bool {
    content.len() > MAX_TEXT || content[..content.len().min(SNIFFED)].contains(&0)
}

/// A difference in git's unified format.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UnifiedDiff {
    /// The text, in complete lines. Names are quoted as in git, so that no name can be mistaken for
    /// another part of the diff. Contents may be any bytes.
    pub text: Vec<u8>,
    /// The number of lines that were left out because of the limit.
    pub left_out: usize,
}

impl Diff {
    /// Writes the difference in git's unified format, without the content of private and binary
    /// files. Writes at most `max_lines` lines.
    ///
    /// A section that `git apply` can apply begins with `diff --git`. Other sections (changes to
    /// directories and to most permission bits) begin with `diff --takeback`.
    pub fn to_unified(
        &self,
        store: &Store,
        max_lines: Option<usize>,
    ) -> Result<UnifiedDiff, ObjectError> {
        let mut page =
            Page { unified: UnifiedDiff::default(), room: max_lines.unwrap_or(usize::MAX) };
        for change in &self.changes {
            let (from, to) = (change.from.as_ref(), change.to.as_ref());
            if change.kind == ChangeKind::KindChanged {
                page.write_section(store, change, from, None)?;
                page.write_section(store, change, None, to)?;
            } else {
                page.write_section(store, change, from, to)?;
            }
        }
        Ok(page.unified)
    }
}

/// A unified diff under construction.
struct Page {
    unified: UnifiedDiff,
    /// The number of lines that can still be written.
    room: usize,
}

impl Page {
    fn write_line(&mut self, parts: &[&[u8]]) {
        if self.room == 0 {
            self.unified.left_out += 1;
            return;
        }
        self.room -= 1;
        parts.iter().for_each(|part| self.unified.text.extend_from_slice(part));
        self.unified.text.push(b'\n');
    }

    /// Writes a line of a file, and a note if the line has no newline.
    fn write_content_line(&mut self, sign: &[u8], line: &[u8]) {
        let end = line.strip_suffix(b"\n");
        self.write_line(&[sign, end.unwrap_or(line)]);
        if end.is_none() {
            self.write_line(&[b"\\ No newline at end of file"]);
        }
    }

    /// Writes everything about one change.
    fn write_section(
        &mut self,
        store: &Store,
        change: &TreeChange,
        from: Option<&ChangeSide>,
        to: Option<&ChangeSide>,
    ) -> Result<(), ObjectError> {
        let old_name = quote_path(b"a/", change.old_path());
        let new_name = quote_path(b"b/", &change.path);
        let is_directory = from.or(to).is_some_and(|side| side.mode.is_directory());
        let is_executable = |side: Option<&ChangeSide>| {
            side.is_some_and(|side| side.mode.permissions() & 0o100 != 0)
        };
        let is_unknown_to_git = is_directory
            || change.kind == ChangeKind::ModeChanged && is_executable(from) == is_executable(to);
        // Git tracks no directories and only one permission bit. `git apply` skips a section that
        // does not begin with `diff --git`.
        let format: &[u8] = if is_unknown_to_git { b"diff --takeback " } else { b"diff --git " };
        self.write_line(&[format, &old_name, b" ", &new_name]);
        self.write_modes(from, to, if is_directory { "directory" } else { "file" });
        if let ChangeKind::Renamed { from } = &change.kind {
            self.write_line(&[b"rename from ", &quote_path(b"", from)]);
            self.write_line(&[b"rename to ", &quote_path(b"", &change.path)]);
        }
        if is_directory || from.map(|side| side.oid) == to.map(|side| side.oid) {
            return Ok(());
        }
        let old_name = if from.is_some() { old_name } else { b"/dev/null".to_vec() };
        let new_name = if to.is_some() { new_name } else { b"/dev/null".to_vec() };
        if change.private {
            // The ids of the contents are not shown either, because a reader could use them to
            // confirm a guess about the content.
            self.write_names(&old_name, &new_name);
            self.write_line(&[b"(private: content not shown)"]);
            return Ok(());
        }
        self.write_ids(from, to);
        let (old, new) = (read_content(store, from)?, read_content(store, to)?);
        if is_binary(&old) || is_binary(&new) {
            let sizes = format!(" differ ({} B → {} B)", old.len(), new.len());
            self.write_line(&[b"Binary files ", &old_name, b" and ", &new_name, sizes.as_bytes()]);
            return Ok(());
        }
        let (old, new) = (hunks::split_lines(&old), hunks::split_lines(&new));
        let hunks = hunks::find_hunks(&old, &new);
        if !hunks.is_empty() {
            self.write_names(&old_name, &new_name);
        }
        for group in hunks.chunk_by(|a, b| b.before.start - a.before.end <= 2 * CONTEXT) {
            self.write_hunks(group, &old, &new);
        }
        Ok(())
    }

    fn write_modes(&mut self, from: Option<&ChangeSide>, to: Option<&ChangeSide>, what: &str) {
        let mut mode = |words: &str, side: &ChangeSide| {
            self.write_line(&[format!("{words} mode {:o}", side.mode.0).as_bytes()]);
        };
        match (from, to) {
            (None, Some(to)) => mode(&format!("new {what}"), to),
            (Some(from), None) => mode(&format!("deleted {what}"), from),
            (Some(from), Some(to)) if from.mode != to.mode => {
                mode("old", from);
                mode("new", to);
            }
            _ => {}
        }
    }

    fn write_ids(&mut self, from: Option<&ChangeSide>, to: Option<&ChangeSide>) {
        let id = |side: Option<&ChangeSide>| side.map_or(Oid::ZERO, |side| side.oid).to_string();
        let mode = match (from, to) {
            (Some(from), Some(to)) if from.mode == to.mode => format!(" {:o}", to.mode.0),
            _ => String::new(),
        };
        let line = format!("index {:.7}..{:.7}{mode}", id(from), id(to));
        self.write_line(&[line.as_bytes()]);
    }

    fn write_names(&mut self, old_name: &[u8], new_name: &[u8]) {
        self.write_line(&[b"--- ", old_name, tab_after(old_name)]);
        self.write_line(&[b"+++ ", new_name, tab_after(new_name)]);
    }

    /// Writes hunks that are close enough to each other to share one header.
    fn write_hunks(&mut self, group: &[Hunk], old: &[&[u8]], new: &[&[u8]]) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { return };
        let before = first.before.start.min(CONTEXT);
        let after = (old.len() - last.before.end).min(CONTEXT);
        let head = format!(
            "@@ -{} +{} @@",
            format_range(first.before.start - before, last.before.end + after),
            format_range(first.after.start - before, last.after.end + after),
        );
        self.write_line(&[head.as_bytes()]);
        let mut shown = first.before.start - before;
        for hunk in group {
            old[shown..hunk.before.start]
                .iter()
                .for_each(|line| self.write_content_line(b" ", line));
            old[hunk.before.clone()].iter().for_each(|line| self.write_content_line(b"-", line));
            new[hunk.after.clone()].iter().for_each(|line| self.write_content_line(b"+", line));
            shown = hunk.before.end;
        }
        old[shown..shown + after].iter().for_each(|line| self.write_content_line(b" ", line));
    }
}

/// Formats a range of lines for the header of a hunk. Lines are numbered starting at 1. For an
/// empty range, the header gives the line before it.
fn format_range(start: usize, end: usize) -> String {
    match end - start {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        length => format!("{},{length}", start + 1),
    }
}

/// Returns the tab that must follow a name with spaces, so that `patch` can find the end of the
/// name.
fn tab_after(name: &[u8]) -> &'static [u8] {
    if name.contains(&b' ') { b"\t" } else { b"" }
}

/// Quotes a name if it has unusual characters, as git does with `core.quotePath`.
fn quote_path(prefix: &[u8], path: &RelPath) -> Vec<u8> {
    let mut name = prefix.to_vec();
    for byte in path.as_bytes() {
        match byte {
            0x07 => name.extend(b"\\a"),
            0x08 => name.extend(b"\\b"),
            b'\t' => name.extend(b"\\t"),
            b'\n' => name.extend(b"\\n"),
            0x0b => name.extend(b"\\v"),
            0x0c => name.extend(b"\\f"),
            b'\r' => name.extend(b"\\r"),
            b'"' => name.extend(b"\\\""),
            b'\\' => name.extend(b"\\\\"),
            b' '..=b'~' => name.push(*byte),
            _ => name.extend(format!("\\{byte:03o}").into_bytes()),
        }
    }
    if name.len() == prefix.len() + path.as_bytes().len() {
        return name;
    }
    [b"\"", &name[..], b"\""].concat()
}
