//! Differences as text that people and `git apply` read.

use crate::diff::hunks::{self, Hunk};
use crate::diff::{Change, ChangeKind, Diff, Side, content};
use crate::oid::Oid;
use crate::path::RelPath;
use crate::store::{ObjectError, Store};

/// Equal lines around those that differ.
const CONTEXT: usize = 3;

/// Content with a NUL in this many bytes at its start is binary.
const SNIFFED: usize = 8000;

/// Larger content is not compared by lines.
const MAX_TEXT: usize = 4 << 20;

/// Whether content is shown by its size alone.
pub(super) fn is_binary(content: &[u8]) -> bool {
    content.len() > MAX_TEXT || content[..content.len().min(SNIFFED)].contains(&0)
}

/// A difference in git's unified format.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Unified {
    /// Whole lines, whatever bytes the files have in them. Names are quoted as git does it, so that
    /// none can pass for something else; contents are as they are.
    pub text: Vec<u8>,
    /// How many more lines there would have been.
    pub left_out: usize,
}

impl Diff {
    /// Writes the difference in git's unified format, not more than `max_lines` of it. The content
    /// of private files is not in it, and that of binary files neither.
    ///
    /// What `git apply` can do begins with `diff --git`, the rest (directories, most permission
    /// bits) with `diff --takeback`.
    pub fn unified(&self, store: &Store, max_lines: Option<usize>) -> Result<Unified, ObjectError> {
        let mut page = Page { unified: Unified::default(), room: max_lines.unwrap_or(usize::MAX) };
        for change in &self.changes {
            let (from, to) = (change.from.as_ref(), change.to.as_ref());
            if change.kind == ChangeKind::KindChanged {
                page.section(store, change, from, None)?;
                page.section(store, change, None, to)?;
            } else {
                page.section(store, change, from, to)?;
            }
        }
        Ok(page.unified)
    }
}

struct Page {
    unified: Unified,
    /// How many more lines may be written.
    room: usize,
}

impl Page {
    fn line(&mut self, parts: &[&[u8]]) {
        if self.room == 0 {
            self.unified.left_out += 1;
            return;
        }
        self.room -= 1;
        parts.iter().for_each(|part| self.unified.text.extend_from_slice(part));
        self.unified.text.push(b'\n');
    }

    /// A line of a file. If it is the last and has no newline, that is said.
    fn content_line(&mut self, sign: &[u8], line: &[u8]) {
        let end = line.strip_suffix(b"\n");
        self.line(&[sign, end.unwrap_or(line)]);
        if end.is_none() {
            self.line(&[b"\\ No newline at end of file"]);
        }
    }

    fn section(
        &mut self,
        store: &Store,
        change: &Change,
        from: Option<&Side>,
        to: Option<&Side>,
    ) -> Result<(), ObjectError> {
        let old_name = quoted(b"a/", change.old_path());
        let new_name = quoted(b"b/", &change.path);
        let is_directory = from.or(to).is_some_and(|side| side.mode.is_directory());
        let runs =
            |side: Option<&Side>| side.is_some_and(|side| side.mode.permissions() & 0o100 != 0);
        let bits_only = change.kind == ChangeKind::ModeChanged && runs(from) == runs(to);
        // Git knows no directories and one permission bit. `git apply` passes over the rest if it
        // does not begin like git's own.
        let format: &[u8] =
            if is_directory || bits_only { b"diff --takeback " } else { b"diff --git " };
        self.line(&[format, &old_name, b" ", &new_name]);
        self.modes(from, to, if is_directory { "directory" } else { "file" });
        if let ChangeKind::Renamed { from } = &change.kind {
            self.line(&[b"rename from ", &quoted(b"", from)]);
            self.line(&[b"rename to ", &quoted(b"", &change.path)]);
        }
        if is_directory || from.map(|side| side.oid) == to.map(|side| side.oid) {
            return Ok(());
        }
        let old_name = if from.is_some() { old_name } else { b"/dev/null".to_vec() };
        let new_name = if to.is_some() { new_name } else { b"/dev/null".to_vec() };
        if change.private {
            // No ids either: who guesses the content could tell by them.
            self.names(&old_name, &new_name);
            self.line(&[b"(private: content not shown)"]);
            return Ok(());
        }
        self.ids(from, to);
        let (old, new) = (content(store, from)?, content(store, to)?);
        if is_binary(&old) || is_binary(&new) {
            let sizes = format!(" differ ({} B → {} B)", old.len(), new.len());
            self.line(&[b"Binary files ", &old_name, b" and ", &new_name, sizes.as_bytes()]);
            return Ok(());
        }
        let (old, new) = (hunks::lines(&old), hunks::lines(&new));
        let hunks = hunks::hunks(&old, &new);
        if !hunks.is_empty() {
            self.names(&old_name, &new_name);
        }
        for group in hunks.chunk_by(|a, b| b.before.start - a.before.end <= 2 * CONTEXT) {
            self.hunks(group, &old, &new);
        }
        Ok(())
    }

    fn modes(&mut self, from: Option<&Side>, to: Option<&Side>, what: &str) {
        let mut mode = |words: &str, side: &Side| {
            self.line(&[format!("{words} mode {:o}", side.mode.0).as_bytes()]);
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

    fn ids(&mut self, from: Option<&Side>, to: Option<&Side>) {
        let id = |side: Option<&Side>| side.map_or(Oid::ZERO, |side| side.oid).to_string();
        let mode = match (from, to) {
            (Some(from), Some(to)) if from.mode == to.mode => format!(" {:o}", to.mode.0),
            _ => String::new(),
        };
        let line = format!("index {:.7}..{:.7}{mode}", id(from), id(to));
        self.line(&[line.as_bytes()]);
    }

    fn names(&mut self, old_name: &[u8], new_name: &[u8]) {
        self.line(&[b"--- ", old_name, tab_after(old_name)]);
        self.line(&[b"+++ ", new_name, tab_after(new_name)]);
    }

    /// Hunks that are near enough to each other to share one head.
    fn hunks(&mut self, group: &[Hunk], old: &[&[u8]], new: &[&[u8]]) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { return };
        let before = first.before.start.min(CONTEXT);
        let after = (old.len() - last.before.end).min(CONTEXT);
        let head = format!(
            "@@ -{} +{} @@",
            span(first.before.start - before, last.before.end + after),
            span(first.after.start - before, last.after.end + after),
        );
        self.line(&[head.as_bytes()]);
        let mut shown = first.before.start - before;
        for hunk in group {
            old[shown..hunk.before.start].iter().for_each(|line| self.content_line(b" ", line));
            old[hunk.before.clone()].iter().for_each(|line| self.content_line(b"-", line));
            new[hunk.after.clone()].iter().for_each(|line| self.content_line(b"+", line));
            shown = hunk.before.end;
        }
        old[shown..shown + after].iter().for_each(|line| self.content_line(b" ", line));
    }
}

/// A range of lines as a hunk's head names it: the first counts from 1, and no lines at all are
/// named by the one before them.
fn span(start: usize, end: usize) -> String {
    match end - start {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        length => format!("{},{length}", start + 1),
    }
}

/// What ends a name with spaces, so that `patch` finds its end.
fn tab_after(name: &[u8]) -> &'static [u8] {
    if name.contains(&b' ') { b"\t" } else { b"" }
}

/// A name as git writes it with `core.quotePath`: in quotes if there is anything unusual in it.
fn quoted(prefix: &[u8], path: &RelPath) -> Vec<u8> {
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
