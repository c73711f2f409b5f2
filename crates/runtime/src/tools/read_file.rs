//! The tool `read_file`: a text file, or some of its lines.
//!
//! The text is plain, without line numbers: the model copies it into `patch`, where it must match
//! exactly.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use takeback_base::hex;
use takeback_undo::ToolWork;

use super::files::{MAX_EDITED, describe_error, is_missing, open_file};
use super::paths::{resolve_path, show_path};
use super::text::{count_noun, cut_text, find_binary_kind, has_crlf, without_mark};
use super::{KnownFile, Tool, ToolContext, ToolOutput, ToolSpec, input};

/// The maximum number of bytes that one call returns.
const MAX_TEXT: usize = 64 * 1024;

/// The maximum number of bytes that are read from a file whose size the system does not report,
/// such as a file in `/proc`.
const MAX_UNSIZED: u64 = 1 << 20;

/// The tool that reads a text file.
pub(super) struct ReadFile {
    pub(super) home: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    path: String,
    offset: Option<usize>,
    limit: Option<usize>,
}

impl Tool for ReadFile {
    fn spec(&self) -> ToolSpec {
        let properties = json!({
            "path": { "type": "string" },
            "offset": { "type": "integer", "minimum": 1, "description": "first line" },
            "limit": { "type": "integer", "minimum": 1, "description": "number of lines" },
        });
        input::describe_tool("read_file", "Reads a text file.", &properties, &["path"])
    }

    fn work(&self, _: &Value, _: &ToolContext<'_>) -> ToolWork {
        ToolWork::Reads
    }

    fn paths(&self, input: &Value, context: &ToolContext<'_>) -> Vec<PathBuf> {
        let path = input::parse_input::<Input>(input)
            .and_then(|input| resolve_path(&input.path, context.directory, self.home.as_deref()));
        path.into_iter().collect()
    }

    fn run(&self, input: &Value, context: &ToolContext<'_>) -> ToolOutput {
        self.read(input, context).into()
    }
}

impl ReadFile {
    fn read(&self, input: &Value, context: &ToolContext<'_>) -> Result<ToolOutput, String> {
        let input: Input = input::parse_input(input)?;
        let path = resolve_path(&input.path, context.directory, self.home.as_deref())?;
        let name = show_path(&path, context.directory);
        let file = match open_file(&path, context.directory) {
            Ok(file) => file,
            Err(message) if is_missing(&path) => {
                // Now the model knows that the file does not exist, so it may create the file.
                let known_files = vec![KnownFile { path, digest: None }];
                return Ok(ToolOutput { known_files, ..ToolOutput::error(message) });
            }
            Err(message) if path.is_dir() => return Err(format!("{message}: use list_files")),
            Err(message) => return Err(message),
        };
        let read = read_lines(file, &input, context)
            .map_err(|error| format!("cannot read {name}: {}", describe_error(&error)))?;
        let (selection, facts) = read.ok_or("cancelled")?;
        let digest = facts.digest.clone();
        let known_files = digest.map(|digest| KnownFile { path, digest: Some(digest) });
        let text = match facts.kind {
            Some(kind) => format!("{name} is not text: {kind}, {} bytes", facts.size),
            None => selection.describe(&facts),
        };
        let known_files = known_files.into_iter().collect();
        Ok(ToolOutput { known_files, ..ToolOutput::success(text) })
    }
}

/// The requested lines of a file that is being read.
struct Selection {
    first: usize,
    limit: usize,
    text: Vec<u8>,
    /// The start of the current line in `text`.
    line_start: usize,
    /// The number of the current line.
    line: usize,
    /// True if the current line has at least one byte.
    has_begun: bool,
    /// The number of the first line that is not in `text`, if not all requested lines fit.
    rest: Option<usize>,
    /// True if the first requested line did not fit, so only its beginning is in `text`.
    is_cut: bool,
}

/// The properties of a file that was read, apart from its lines.
struct FileFacts {
    size: u64,
    /// The kind of file, if it is not text.
    kind: Option<&'static str>,
    /// The digest of the whole content; `None` for a large file, which is not read to its end.
    digest: Option<String>,
}

impl Selection {
    fn new(input: &Input) -> Selection {
        Selection {
            first: input.offset.unwrap_or(1).max(1),
            limit: input.limit.unwrap_or(usize::MAX),
            text: Vec::new(),
            line_start: 0,
            line: 1,
            has_begun: false,
            rest: None,
            is_cut: false,
        }
    }

    /// Returns true if no more lines will be selected.
    fn is_complete(&self) -> bool {
        self.rest.is_some() || self.line >= self.first.saturating_add(self.limit)
    }

    fn push(&mut self, chunk: &[u8]) {
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            if self.line >= self.first && !self.is_complete() {
                self.select(piece);
            }
            self.has_begun = true;
            if piece.ends_with(b"\n") {
                self.line += 1;
                self.line_start = self.text.len();
                self.has_begun = false;
            }
        }
    }

    fn select(&mut self, piece: &[u8]) {
        let room = MAX_TEXT - self.text.len();
        if piece.len() <= room {
            return self.text.extend_from_slice(piece);
        }
        self.is_cut = self.line_start == 0;
        if self.is_cut {
            self.text.extend_from_slice(&piece[..room]);
            self.rest = Some(self.line + 1);
        } else {
            self.text.truncate(self.line_start);
            self.rest = Some(self.line);
        }
    }

    /// Returns the number of lines so far.
    fn count_lines(&self) -> usize {
        self.line - usize::from(!self.has_begun)
    }

    /// Returns the text as the model reads it, with notes about everything that it does not show.
    fn describe(&self, facts: &FileFacts) -> String {
        let text = without_mark(&self.text);
        let (is_crlf, is_utf8) = (has_crlf(text), std::str::from_utf8(text).is_ok() || self.is_cut);
        let mut shown = String::from_utf8_lossy(text).into_owned();
        let mut notes = Vec::new();
        let lines = self.count_lines();
        if lines < self.first && facts.digest.is_some() {
            notes.push(match lines {
                0 => "the file is empty".to_owned(),
                _ => format!("the file has only {}", count_noun(lines, "line")),
            });
        }
        if self.is_cut {
            shown = cut_text(&shown, MAX_TEXT - 3).to_owned();
            notes.push(format!(
                "line {} is longer than {} KiB and is cut off",
                self.first,
                MAX_TEXT >> 10
            ));
        }
        let end = self.first.saturating_add(self.limit);
        let next = self.rest.or(self.is_complete().then_some(end));
        if let Some(next) = next
            && (next <= lines || facts.digest.is_none())
        {
            let total = match facts.digest {
                Some(_) => format!("of {lines}"),
                None => format!("of a file of {} bytes", facts.size),
            };
            let range = format!("lines {}-{} {total}", self.first, next - 1);
            notes.push(format!("{range}; the rest: offset={next}"));
        }
        if facts.digest.is_none() {
            notes.push("too large for patch and write_file".to_owned());
        }
        if is_crlf {
            shown = shown.replace("\r\n", "\n");
            notes
                .push("the file has CRLF line endings, which patch and write_file keep".to_owned());
        }
        if !is_utf8 {
            notes.push("bytes that are not UTF-8 are shown as \u{fffd}".to_owned());
        }
        append_notes(shown, &notes)
    }
}

/// Adds notes in brackets after a text.
fn append_notes(mut text: String, notes: &[String]) -> String {
    if notes.is_empty() {
        return text;
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text + &format!("[{}]", notes.join("; "))
}

/// Reads the requested lines. A file that is small enough to be edited is read to its end, because
/// its digest is needed before an edit. Returns `None` if the call was cancelled.
fn read_lines(
    file: File,
    input: &Input,
    context: &ToolContext<'_>,
) -> io::Result<Option<(Selection, FileFacts)>> {
    let size = file.metadata()?.len();
    let is_whole = size <= MAX_EDITED;
    // A file such as a log may grow while it is being read.
    let bounded = file.take(if size == 0 { MAX_UNSIZED } else { size });
    let mut reader = BufReader::with_capacity(MAX_TEXT, bounded);
    let mut selection = Selection::new(input);
    let mut facts = FileFacts { size, kind: find_binary_kind(reader.fill_buf()?), digest: None };
    let mut hash = Sha256::new();
    loop {
        if context.cancel.is_cancelled() {
            return Ok(None);
        }
        let chunk = reader.fill_buf()?;
        if chunk.is_empty() || (!is_whole && (selection.is_complete() || facts.kind.is_some())) {
            break;
        }
        hash.update(chunk);
        selection.push(chunk);
        let length = chunk.len();
        reader.consume(length);
    }
    facts.digest = is_whole.then(|| hex::encode(&hash.finalize()));
    Ok(Some((selection, facts)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what the model sees of a file that has this text and is read in chunks of `chunk`
    /// bytes.
    fn show_lines(text: &[u8], chunk: usize, offset: usize, limit: Option<usize>) -> String {
        let input = Input { path: String::new(), offset: Some(offset), limit };
        let mut selection = Selection::new(&input);
        text.chunks(chunk).for_each(|chunk| selection.push(chunk));
        let facts = FileFacts { size: text.len() as u64, kind: None, digest: Some(String::new()) };
        selection.describe(&facts)
    }

    #[test]
    fn lines_are_selected_from_chunks_of_any_size() {
        for chunk in 1..8 {
            let show = |offset, limit| show_lines(b"one\ntwo\n\nfour", chunk, offset, limit);
            assert_eq!(show(1, None), "one\ntwo\n\nfour");
            assert_eq!(show(1, Some(1)), "one\n[lines 1-1 of 4; the rest: offset=2]");
            assert_eq!(show(2, Some(2)), "two\n\n[lines 2-3 of 4; the rest: offset=4]");
            assert_eq!(show(2, Some(3)), "two\n\nfour");
            assert_eq!(show(4, None), "four");
            assert_eq!(show(5, None), "[the file has only 4 lines]");
            assert_eq!(show(usize::MAX, Some(usize::MAX)), "[the file has only 4 lines]");
        }
        assert_eq!(show_lines(b"", 1, 1, None), "[the file is empty]");
        assert_eq!(show_lines(b"one\n", 1, 1, None), "one\n");
        assert_eq!(show_lines(b"one\n", 1, 2, None), "[the file has only 1 line]");
    }

    #[test]
    fn a_long_text_ends_with_a_whole_line_and_says_how_to_read_the_rest() {
        let line = [vec![b'x'; 999], vec![b'\n']].concat();
        let text = line.repeat(100);
        let shown = show_lines(&text, 4096, 1, None);
        assert!(shown.ends_with("x\n[lines 1-65 of 100; the rest: offset=66]"), "{shown}");
        assert!(shown.len() <= MAX_TEXT + 100);
        assert_eq!(show_lines(&text, 4096, 66, None).len(), 35 * 1000);
    }

    #[test]
    fn a_line_that_is_too_long_is_cut_between_characters() {
        let text = ["a".to_owned(), "é".repeat(MAX_TEXT), "\nend\n".to_owned()].concat();
        let shown = show_lines(text.as_bytes(), 4096, 1, None);
        assert!(!shown.contains('\u{fffd}'));
        assert!(
            shown.ends_with(
                "é\n[line 1 is longer than 64 KiB and is cut off; lines 1-1 of 2; the rest: offset=2]"
            ),
            "{}",
            &shown[shown.len() - 200..]
        );
        assert_eq!(show_lines(text.as_bytes(), 4096, 2, None), "end\n");
    }

    #[test]
    fn unusual_encodings_are_noted() {
        let show = |text: &[u8]| show_lines(text, 100, 1, None);
        assert_eq!(
            show(b"a\r\nb\r\n"),
            "a\nb\n[the file has CRLF line endings, which patch and write_file keep]"
        );
        assert_eq!(show(b"a\r\nb\n"), "a\r\nb\n");
        assert_eq!(
            show(b"caf\xe9\n"),
            "caf\u{fffd}\n[bytes that are not UTF-8 are shown as \u{fffd}]"
        );
        assert_eq!(show(b"\xef\xbb\xbfa\n"), "a\n");
    }
}
