//! Markdown for a terminal, rendered while it streams in.
//!
//! [`MarkdownStream`] takes pieces of text and returns lines. A line is *finished* when no further
//! text can change it. The lines of a block or of an item are finished once the next block or item
//! begins. In an open block of code, each line is finished once it is complete. The other lines are
//! *unfinished*; they are rendered from the text so far, so they can be shown and replaced later.
//! The finished lines do not depend on how the text was divided into pieces.

mod render;
mod table;
#[cfg(test)]
mod tests;
mod wrap;

use pulldown_cmark::{Event, Options, Parser, Tag};

use self::render::{RenderedBlock, render_block};
pub(crate) use self::wrap::{last_lines, wrap_text};

/// The size, in bytes, above which an unfinished block is not rendered again for every piece.
const LARGE: usize = 8 << 10;

/// A large block is rendered again when it has grown by its size divided by this number. The total
/// effort then stays proportional to the length of the text.
const GROWTH: usize = 16;

/// A character that is inserted between `]` and `:` in the source, and is never shown. It keeps the
/// parser from finding link definitions: a definition would change lines that are already finished,
/// and would itself not be shown. The character is one that Unicode reserves for such uses.
const NO_DEFINITION: char = '\u{fdd0}';

/// Renders a whole text as lines of at most this many columns.
pub(crate) fn render_markdown(text: &str, columns: usize) -> Vec<String> {
    let mut stream = MarkdownStream::default();
    let mut lines = stream.push(text, columns);
    lines.extend(stream.finish(columns));
    lines
}

/// Markdown that streams in.
#[derive(Default)]
pub(crate) struct MarkdownStream {
    /// The text of the unfinished block, and of the blocks after it that have not been recognized
    /// yet.
    source: String,
    /// True if a blank line belongs before the unfinished block.
    has_gap: bool,
    /// If the source begins with an item of a numbered list, the number of that item.
    number: Option<u64>,
    /// The number of lines in the unfinished block that are already finished.
    finished: usize,
    /// The length of the source when it was last rendered.
    rendered_length: usize,
    /// True if the last character was a carriage return, which counts as a line break.
    is_after_return: bool,
}

fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}

impl MarkdownStream {
    /// Adds a piece of text. Returns the lines that are finished now, for a terminal with this many
    /// columns.
    pub(crate) fn push(&mut self, text: &str, columns: usize) -> Vec<String> {
        let mut has_new_line = false;
        for character in text.chars() {
            let is_second = std::mem::replace(&mut self.is_after_return, character == '\r');
            match character {
                '\n' if is_second => {}
                '\r' | '\n' => {
                    self.source.push('\n');
                    has_new_line = true;
                }
                NO_DEFINITION => {}
                ':' if self.source.ends_with(']') => self.source.extend([NO_DEFINITION, ':']),
                _ => self.source.push(character),
            }
        }
        match has_new_line && self.is_due() {
            true => self.finish_blocks(columns),
            false => Vec::new(),
        }
    }

    /// Renders the unfinished lines. Returns `None` if they need not be shown again, because a
    /// large block has grown only a little.
    pub(crate) fn unfinished(&mut self, columns: usize) -> Option<Vec<String>> {
        if !self.is_due() {
            return None;
        }
        self.rendered_length = self.source.len();
        Some(self.render(self.source.len(), columns))
    }

    /// Ends the text. Returns all lines that were not finished.
    pub(crate) fn finish(&mut self, columns: usize) -> Vec<String> {
        let mut lines = self.finish_blocks(columns);
        lines.extend(self.render(self.source.len(), columns));
        *self = MarkdownStream::default();
        lines
    }

    fn is_due(&self) -> bool {
        let (now, then) = (self.source.len(), self.rendered_length);
        now < LARGE || now < then || now - then >= now / GROWTH
    }

    /// Renders the source up to `end`, without the lines that are finished already.
    fn render(&self, end: usize, columns: usize) -> Vec<String> {
        let lines = render_block(&self.source[..end], self.number, columns).lines;
        self.add_gap(lines.into_iter().skip(self.finished).collect())
    }

    /// If these are the first lines of the unfinished block, adds the blank line that belongs
    /// before them.
    fn add_gap(&self, mut lines: Vec<String>) -> Vec<String> {
        if self.has_gap && self.finished == 0 && !lines.is_empty() {
            lines.insert(0, String::new());
        }
        lines
    }

    /// Takes all blocks except the last one out of the source, and returns their lines. Also
    /// returns the finished lines of the last block.
    fn finish_blocks(&mut self, columns: usize) -> Vec<String> {
        // The last line may become a different kind of line, so only complete lines count.
        let complete = self.source.rfind('\n').map_or(0, |at| at + 1);
        let blocks = find_blocks(&self.source[..complete], self.number);
        let mut lines = Vec::new();
        let mut taken = 0;
        for block in blocks.iter().skip(1) {
            let end = block.start - taken;
            lines.extend(self.render(end, columns));
            self.has_gap = is_after_blank_line(&self.source, end);
            self.source.drain(..end);
            (taken, self.finished, self.number) = (block.start, 0, block.number);
        }
        if let Some(last) = blocks.last() {
            let start = last.start.saturating_sub(taken);
            lines.extend(self.finish_lines(start, complete - taken, columns));
        }
        lines
    }

    /// Returns the newly finished lines of the last block. The block begins at `start`, and its
    /// complete lines end at `end`.
    fn finish_lines(&mut self, start: usize, end: usize, columns: usize) -> Vec<String> {
        let RenderedBlock { mut lines, settled } =
            render_block(&self.source[..end], self.number, columns);
        if settled <= self.finished {
            return Vec::new();
        }
        let lines = self.add_gap(lines.drain(self.finished..settled).collect());
        self.finished = settled;
        let last = start_of_line(&self.source, end - 1);
        let fence = open_fence(&self.source[start..end]);
        if let Some(fence) = fence.filter(|fence| last >= start + fence.len()) {
            // Lines of code do not depend on each other, so only the last line is kept in the
            // source.
            self.source = format!("{fence}{}", &self.source[last..]);
            self.finished = 1;
        }
        lines
    }
}

/// A part of the source that is rendered separately: a top-level block, or an item of a top-level
/// list.
struct Block {
    /// The start of the block's first line.
    start: usize,
    /// The number of an item in a numbered list.
    number: Option<u64>,
}

/// Finds the blocks. If the source begins with an item of a numbered list, `number` is the number
/// of that item.
fn find_blocks(source: &str, number: Option<u64>) -> Vec<Block> {
    let (mut blocks, mut depth, mut next) = (Vec::new(), 0, None);
    for (event, range) in Parser::new_ext(source, options()).into_offset_iter() {
        let start = || start_of_line(source, range.start);
        match (&event, depth) {
            (Event::Start(Tag::List(first)), 0) => {
                next = if blocks.is_empty() { number.or(*first) } else { *first };
            }
            (Event::Start(Tag::Item), 1) => {
                blocks.push(Block { start: start(), number: next });
                next = next.map(|number| number.saturating_add(1));
            }
            (Event::Start(_) | Event::Rule, 0) => {
                blocks.push(Block { start: start(), number: None });
            }
            _ => {}
        }
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth -= 1,
            _ => {}
        }
    }
    blocks
}

/// Returns the start of the line that contains the byte `at`.
fn start_of_line(source: &str, at: usize) -> usize {
    source[..at].rfind('\n').map_or(0, |end| end + 1)
}

/// True if the last line before the byte `at`, which is the start of a line, is blank. The `>` of a
/// quote does not count.
fn is_after_blank_line(source: &str, at: usize) -> bool {
    let Some(before) = source[..at].strip_suffix('\n') else { return false };
    let line = &before[start_of_line(before, before.len())..];
    line.chars().all(|character| character.is_whitespace() || character == '>')
}

/// Returns the first line of a block, if that line begins a block of code that is not closed.
fn open_fence(block: &str) -> Option<&str> {
    let first = block.split_inclusive('\n').next()?;
    let begin = first.trim_start_matches(' ');
    let mark = begin.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let length = begin.len() - begin.trim_start_matches(mark).len();
    let is_fence = length >= 3 && first.len() - begin.len() <= 3;
    let may_close = |line: &str| {
        let line = line.trim();
        line.len() >= length && line.chars().all(|character| character == mark)
    };
    let is_open = !block[first.len()..].lines().any(may_close);
    (is_fence && is_open).then_some(first)
}
