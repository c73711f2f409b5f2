//! Wraps pieces of styled text to a width.

use anstyle::Style as Ansi;
use unicode_segmentation::UnicodeSegmentation;

use crate::output::text::width_of;

/// A piece of text in one style, with control characters escaped. `\n` is a line break.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Span {
    pub(super) text: String,
    pub(super) style: Ansi,
}

impl Span {
    /// Formats the piece with its style.
    pub(super) fn painted(&self) -> String {
        let style = self.style;
        match self.text.is_empty() || style == Ansi::new() {
            true => self.text.clone(),
            false => format!("{style}{}{style:#}", self.text),
        }
    }
}

/// Wraps text to this many columns. Words that are longer than a line are broken, and lines can
/// break before and after each wide character.
pub(super) fn wrap_spans(spans: &[Span], columns: usize) -> Vec<String> {
    let mut wrapping = Wrapping { columns: columns.max(1), ..Wrapping::default() };
    for span in spans {
        if span.text.is_ascii() {
            let parts = span.text.split_inclusive([' ', '\n']);
            parts.for_each(|part| wrapping.add_ascii(part, span.style));
        } else {
            let graphemes = span.text.graphemes(true);
            graphemes.for_each(|grapheme| wrapping.add(grapheme, span.style));
        }
    }
    wrapping.end_word();
    wrapping.end_line();
    wrapping.lines
}

/// Wraps plain text to this many columns. Control characters in the text must already be escaped.
pub(crate) fn wrap_text(text: &str, columns: usize) -> Vec<String> {
    wrap_spans(&[Span { text: text.to_owned(), style: Ansi::new() }], columns)
}

/// Wraps plain text, and returns its last lines.
pub(crate) fn last_lines(text: &str, columns: usize, count: usize) -> Vec<String> {
    if text.is_empty() {
        return Vec::new();
    }
    let mut lines = wrap_text(text, columns);
    lines.drain(..lines.len().saturating_sub(count));
    lines
}

#[derive(Default)]
struct Wrapping {
    columns: usize,
    lines: Vec<String>,
    line: Run,
    /// The spaces between the line and the word.
    spaces: Run,
    word: Run,
}

/// A part of a line, with its width in columns.
#[derive(Default)]
struct Run {
    spans: Vec<Span>,
    width: usize,
}

impl Run {
    fn push(&mut self, grapheme: &str, style: Ansi) {
        self.width += width_of(grapheme);
        match self.spans.last_mut() {
            Some(last) if last.style == style => last.text.push_str(grapheme),
            _ => self.spans.push(Span { text: grapheme.to_owned(), style }),
        }
    }

    /// Moves all text of another run to the end of this one.
    fn append(&mut self, other: &mut Run) {
        for span in std::mem::take(other).spans {
            self.push(&span.text, span.style);
        }
    }
}

impl Wrapping {
    /// Adds a word, and the space or line break after it. For most text, this is much faster than
    /// adding one character at a time.
    fn add_ascii(&mut self, part: &str, style: Ansi) {
        let word = part.trim_end_matches([' ', '\n']);
        if !word.is_empty() {
            self.word.push(word, style);
        }
        if word.len() < part.len() {
            self.add(&part[word.len()..], style);
        }
    }

    fn add(&mut self, grapheme: &str, style: Ansi) {
        match grapheme {
            "\n" => {
                self.end_word();
                self.end_line();
            }
            " " => {
                self.end_word();
                self.spaces.push(grapheme, style);
            }
            _ if width_of(grapheme) > 1 => {
                self.end_word();
                self.word.push(grapheme, style);
                self.end_word();
            }
            _ => self.word.push(grapheme, style),
        }
    }

    /// Adds the word to the line, or begins another line with it.
    fn end_word(&mut self) {
        if self.word.spans.is_empty() {
            return;
        }
        if self.line.width + self.spaces.width + self.word.width > self.columns
            && self.line.width > 0
        {
            self.end_line();
        }
        if self.line.width > 0 || self.lines.is_empty() {
            self.line.append(&mut self.spaces);
        }
        self.spaces = Run::default();
        if self.line.width + self.word.width <= self.columns {
            self.line.append(&mut self.word);
            return;
        }
        for span in std::mem::take(&mut self.word).spans {
            for grapheme in span.text.graphemes(true) {
                if self.line.width > 0 && self.line.width + width_of(grapheme) > self.columns {
                    self.end_line();
                }
                self.line.push(grapheme, span.style);
            }
        }
    }

    fn end_line(&mut self) {
        self.spaces = Run::default();
        let line = std::mem::take(&mut self.line);
        self.lines.push(line.spans.iter().map(Span::painted).collect());
    }
}
