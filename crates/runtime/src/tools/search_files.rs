//! The tool `search_files`: finds lines that match a regular expression.

use std::io;
use std::path::{Path, PathBuf};

use bstr::ByteSlice;
use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch,
};
use serde::Deserialize;
use serde_json::{Value, json};
use takeback_base::foreign;
use takeback_undo::ToolWork;

use super::files::describe_error;
use super::list_files::check_directory;
use super::paths::{resolve_path, show_path};
use super::text::{count_noun, cut_text};
use super::walk::{FileGlob, walk_files};
use super::{Tool, ToolContext, ToolOutput, ToolSpec, input};

/// The maximum size of a result, in bytes.
const MAX_TEXT: usize = 32 * 1024;

/// The maximum number of bytes of a line that are shown.
const MAX_LINE: usize = 400;

/// The maximum number of context lines that are shown before and after a match.
const MAX_CONTEXT: usize = 20;

/// The maximum number of files that are reported because they could not be searched.
const MAX_UNREAD: usize = 5;

/// The memory limit for a line. A file with a longer line is not searched.
const MAX_LINE_MEMORY: usize = 32 << 20;

/// The memory limit for a compiled expression.
const MAX_REGEX_MEMORY: usize = 10 << 20;

/// The tool that searches files.
pub(super) struct SearchFiles {
    pub(super) home: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    #[serde(default)]
    context: usize,
}

impl Tool for SearchFiles {
    fn spec(&self) -> ToolSpec {
        let properties = json!({
            "pattern": { "type": "string", "description": "regular expression, as in ripgrep" },
            "path": { "type": "string", "description": "file or directory" },
            "glob": { "type": "string", "description": "only these files: *.rs" },
            "context": { "type": "integer", "minimum": 0, "description": "lines around matches" },
        });
        let description = "Finds lines in text files. Skips ignored files.";
        input::describe_tool("search_files", description, &properties, &["pattern"])
    }

    fn work(&self, _: &Value, _: &ToolContext<'_>) -> ToolWork {
        ToolWork::Reads
    }

    fn paths(&self, input: &Value, context: &ToolContext<'_>) -> Vec<PathBuf> {
        input::parse_input(input)
            .and_then(|input| self.find_root(&input, context))
            .into_iter()
            .collect()
    }

    fn run(&self, input: &Value, context: &ToolContext<'_>) -> ToolOutput {
        self.search(input, context).map(ToolOutput::success).into()
    }
}

impl SearchFiles {
    fn find_root(&self, input: &Input, context: &ToolContext<'_>) -> Result<PathBuf, String> {
        let name = input.path.as_deref().unwrap_or(".");
        resolve_path(name, context.directory, self.home.as_deref())
    }

    fn search(&self, input: &Value, context: &ToolContext<'_>) -> Result<String, String> {
        let input: Input = input::parse_input(input)?;
        let root = self.find_root(&input, context)?;
        let matcher = compile(&input.pattern)?;
        let mut searcher = build_searcher(input.context.min(MAX_CONTEXT));
        let mut results = Results::default();
        if root.is_file() {
            let name = show_path(&root, context.directory);
            results.search_file(&mut searcher, &matcher, &root, &name, context);
            return Ok(results.finish());
        }
        check_directory(&root, context.directory)?;
        let glob = input.glob.as_ref().map(|glob| FileGlob::parse(glob, &root)).transpose()?;
        for entry in walk_files(&root, None).flatten() {
            if context.cancel.is_cancelled() {
                return Err("cancelled".to_owned());
            }
            let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
            if is_file && glob.as_ref().is_none_or(|glob| glob.matches(entry.path())) {
                let name = show_path(entry.path(), context.directory);
                results.search_file(&mut searcher, &matcher, entry.path(), &name, context);
            }
        }
        Ok(results.finish())
    }
}

/// Compiles an expression. The error explains what is wrong with it.
fn compile(pattern: &str) -> Result<RegexMatcher, String> {
    let mut builder = RegexMatcherBuilder::new();
    builder.crlf(true).multi_line(true).size_limit(MAX_REGEX_MEMORY);
    builder.build(pattern).map_err(|error| {
        format!("not a valid regular expression: {error}\n(lines are searched one by one)")
    })
}

fn build_searcher(context: usize) -> Searcher {
    SearcherBuilder::new()
        .line_number(true)
        .line_terminator(LineTerminator::crlf())
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(MAX_LINE_MEMORY))
        .before_context(context)
        .after_context(context)
        .build()
}

/// The matches in all files, up to a maximum size.
#[derive(Default)]
struct Results {
    text: String,
    matches: usize,
    /// The number of matches that are not shown, and the number of files that contain them.
    left_out: (usize, usize),
    unread: Vec<String>,
}

impl Results {
    fn search_file(
        &mut self,
        searcher: &mut Searcher,
        matcher: &RegexMatcher,
        path: &Path,
        name: &str,
        context: &ToolContext<'_>,
    ) {
        let room = MAX_TEXT.saturating_sub(self.text.len() + name.len());
        let mut found = FileMatches::new(room, context);
        let searched = foreign::open_regular(path)
            .and_then(|file| searcher.search_file(matcher, &file, &mut found));
        if let Err(error) = searched {
            self.unread.push(format!("cannot search {name}: {}", describe_error(&error)));
        }
        if found.is_binary {
            return;
        }
        self.matches += found.matches;
        if found.shown > 0 {
            let gap = if self.text.is_empty() { "" } else { "\n" };
            self.text.push_str(&format!("{gap}{name}\n{}", found.text));
        }
        if found.matches > found.shown {
            self.left_out.0 += found.matches - found.shown;
            self.left_out.1 += 1;
        }
    }

    /// Returns the text with notes about everything that it does not show.
    fn finish(mut self) -> String {
        let (matches, files) = self.left_out;
        if self.matches == 0 {
            self.text.push_str("[no matches]\n");
        } else if matches > 0 {
            let (more, files) = (count_noun(matches, "more match"), count_noun(files, "file"));
            self.text.push_str(&format!("[{more} in {files} not shown: narrow the search]\n"));
        }
        for note in self.unread.iter().take(MAX_UNREAD) {
            self.text.push_str(&format!("[{note}]\n"));
        }
        self.text
    }
}

/// The matches in one file.
struct FileMatches<'a> {
    text: String,
    matches: usize,
    /// The number of matches that are in the text.
    shown: usize,
    is_binary: bool,
    room: usize,
    context: &'a ToolContext<'a>,
}

impl<'a> FileMatches<'a> {
    fn new(room: usize, context: &'a ToolContext<'a>) -> FileMatches<'a> {
        FileMatches { text: String::new(), matches: 0, shown: 0, is_binary: false, room, context }
    }

    /// Adds a line, if there is room for it. Returns true if it was added.
    fn push(&mut self, number: Option<u64>, mark: char, line: &[u8]) -> bool {
        let line = String::from_utf8_lossy(line.trim_end_with(|c| c == '\n' || c == '\r'));
        let shown = cut_text(&line, MAX_LINE);
        let more = if shown.len() < line.len() { "…" } else { "" };
        let line = format!("{}{mark} {shown}{more}\n", number.unwrap_or_default());
        // After the first line that does not fit, no other line is shown, even if it is shorter.
        let has_room = line.len() <= self.room;
        self.room = if has_room { self.room - line.len() } else { 0 };
        if has_room {
            self.text.push_str(&line);
        }
        has_room
    }
}

impl Sink for FileMatches<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.matches += 1;
        self.shown += usize::from(self.push(found.line_number(), ':', found.bytes()));
        Ok(!self.context.cancel.is_cancelled())
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> io::Result<bool> {
        self.push(found.line_number(), '-', found.bytes());
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        if self.room > 0 {
            self.text.push_str("--\n");
        }
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.is_binary = finish.binary_byte_offset().is_some();
        Ok(())
    }
}
