//! Renders a block of Markdown as lines for a terminal.

use std::ops::Range;

use anstyle::{AnsiColor, Style as Ansi};
use pulldown_cmark::{Event, HeadingLevel, Parser, Tag, TagEnd};

use super::table::MarkdownTable;
use super::wrap::{Span, wrap_spans};
use super::{NO_DEFINITION, is_after_blank_line, options, start_of_line};
use crate::output::text::{disarm_lines, width_of};

/// The minimum width of text, even on a narrow terminal or deep inside lists.
const LEAST_COLUMNS: usize = 10;

/// The maximum width of a separator line.
const RULE_COLUMNS: usize = 40;

const CODE: Ansi = AnsiColor::Cyan.on_default();
const FAINT: Ansi = Ansi::new().dimmed();

/// The lines of a block.
#[derive(Default)]
pub(super) struct RenderedBlock {
    pub(super) lines: Vec<String>,
    /// The number of lines that can no longer change, if the source ends with a complete line.
    pub(super) settled: usize,
}

/// Renders a block for a terminal with this many columns. If the block is an item of a numbered
/// list, `number` is its number.
pub(super) fn render_block(source: &str, number: Option<u64>, columns: usize) -> RenderedBlock {
    let mut renderer = Renderer {
        source,
        columns,
        number,
        last_line: None,
        block: RenderedBlock::default(),
        containers: Vec::new(),
        spans: Vec::new(),
        styles: vec![Ansi::new()],
        links: Vec::new(),
        verbatim: None,
        table: None,
    };
    for (event, range) in Parser::new_ext(source, options()).into_offset_iter() {
        renderer.add(event, range);
    }
    renderer.end_text();
    renderer.block
}

struct Renderer<'s> {
    source: &'s str,
    columns: usize,
    /// The number of the first item, which replaces the number in the source.
    number: Option<u64>,
    /// The start of the line in which the last block begins.
    last_line: Option<usize>,
    block: RenderedBlock,
    /// The lists, items and quotes that contain the current text.
    containers: Vec<Container>,
    /// The text of the current paragraph.
    spans: Vec<Span>,
    /// The styles of the current text, the innermost last.
    styles: Vec<Ansi>,
    links: Vec<Link>,
    /// The text of the current block of code or HTML.
    verbatim: Option<String>,
    table: Option<MarkdownTable>,
}

enum Container {
    /// A list, with the number of its next item if the list is numbered.
    List(Option<u64>),
    /// An item, with its mark. After the first line, the mark is replaced by spaces.
    Item {
        mark: String,
        is_begun: bool,
    },
    Quote,
}

/// A link whose text is being read.
struct Link {
    address: String,
    /// The number of spans before the link's text.
    from: usize,
}

impl Renderer<'_> {
    fn add(&mut self, event: Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(tag) => self.start(tag, &range),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.add_text(&text),
            Event::Code(text) => self.push_span(&text, CODE),
            Event::SoftBreak | Event::HardBreak => self.push_text("\n"),
            Event::TaskListMarker(is_done) => {
                self.push_text(if is_done { "[x] " } else { "[ ] " });
            }
            Event::Rule => {
                self.begin_block(range.start);
                let width = self.text_columns().min(RULE_COLUMNS);
                self.push_lines([Span { text: "─".repeat(width), style: FAINT }.painted()]);
            }
            // The parser's options do not enable these events.
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                self.push_text(&text);
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>, range: &Range<usize>) {
        match tag {
            Tag::Paragraph => self.begin_block(range.start),
            Tag::Heading { level, .. } => {
                self.begin_block(range.start);
                self.push_style(Ansi::bold);
                self.push_text(&format!("{} ", "#".repeat(number_of(level))));
            }
            Tag::BlockQuote(_) => {
                self.begin_block(range.start);
                self.containers.push(Container::Quote);
            }
            Tag::CodeBlock(_) | Tag::HtmlBlock => {
                self.begin_block(range.start);
                self.verbatim = Some(String::new());
            }
            Tag::List(first) => {
                self.begin_block(range.start);
                let first = self.number.take().or(first);
                self.containers.push(Container::List(first));
            }
            Tag::Item => {
                self.begin_block(range.start);
                let mark = self.next_mark();
                self.containers.push(Container::Item { mark, is_begun: false });
            }
            Tag::Table(alignments) => {
                self.begin_block(range.start);
                self.table = Some(MarkdownTable::new(alignments));
            }
            Tag::TableHead | Tag::TableRow => {
                self.table.iter_mut().for_each(MarkdownTable::begin_row);
            }
            Tag::Emphasis => self.push_style(Ansi::italic),
            Tag::Strong => self.push_style(Ansi::bold),
            Tag::Strikethrough => self.push_style(Ansi::strikethrough),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.push_style(Ansi::underline);
                self.links.push(Link { address: clean(&dest_url), from: self.spans.len() });
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => self.end_text(),
            TagEnd::Heading(_) => {
                self.end_text();
                self.styles.pop();
            }
            TagEnd::BlockQuote(_) | TagEnd::List(_) | TagEnd::Item => {
                self.end_text();
                // An item without text still has a mark.
                if matches!(self.containers.last(), Some(Container::Item { is_begun: false, .. })) {
                    self.push_lines([String::new()]);
                }
                self.containers.pop();
            }
            TagEnd::CodeBlock => self.end_verbatim(CODE, "  "),
            TagEnd::HtmlBlock => self.end_verbatim(Ansi::new(), ""),
            TagEnd::TableCell => {
                let text: String = self.spans.drain(..).map(|span| span.text).collect();
                self.table.iter_mut().for_each(|table| table.add_cell(text.replace('\n', " ")));
            }
            TagEnd::Table => {
                let table = self.table.take();
                let lines = table.map(|table| table.lines(self.text_columns()));
                self.push_lines(lines.unwrap_or_default());
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => drop(self.styles.pop()),
            TagEnd::Link | TagEnd::Image => self.end_link(),
            _ => {}
        }
    }

    fn end_link(&mut self) {
        let style = self.styles.pop().unwrap_or_default();
        let Some(Link { address, from }) = self.links.pop() else { return };
        let text: String = self.spans[from..].iter().map(|span| span.text.as_str()).collect();
        if text.is_empty() {
            self.push_span(&address, style);
        } else if text != address && address != format!("mailto:{text}") {
            self.push_span(&format!(" ({address})"), FAINT);
        }
    }

    /// Ends the text before a block, and adds a blank line if the source has one.
    fn begin_block(&mut self, at: usize) {
        self.end_text();
        self.block.settled = self.block.lines.len();
        let line = start_of_line(self.source, at);
        // An item and its first paragraph begin on the same line.
        let is_begun = self.last_line.replace(line) == Some(line);
        let is_first = self.block.lines.is_empty();
        if !is_begun && !is_first && is_after_blank_line(self.source, line) {
            self.push_lines([String::new()]);
        }
    }

    fn add_text(&mut self, text: &str) {
        match &mut self.verbatim {
            Some(verbatim) => verbatim.push_str(text),
            None => self.push_text(text),
        }
    }

    fn push_text(&mut self, text: &str) {
        let style = self.styles.last().copied().unwrap_or_default();
        self.push_span(text, style);
    }

    fn push_span(&mut self, text: &str, style: Ansi) {
        self.spans.push(Span { text: clean(text), style });
    }

    fn push_style(&mut self, change: impl FnOnce(Ansi) -> Ansi) {
        self.styles.push(change(self.styles.last().copied().unwrap_or_default()));
    }

    /// Renders the text of a paragraph.
    fn end_text(&mut self) {
        let spans = std::mem::take(&mut self.spans);
        if !spans.is_empty() {
            let lines = wrap_spans(&spans, self.text_columns());
            self.push_lines(lines);
        }
    }

    /// Renders code or HTML. Long lines are not wrapped, so that they can be copied.
    fn end_verbatim(&mut self, style: Ansi, indent: &str) {
        let text = self.verbatim.take().unwrap_or_default();
        let lines = text.lines().map(|line| {
            let text = format!("{indent}{}", clean(line));
            Span { text: text.trim_end().to_owned(), style }.painted()
        });
        let lines: Vec<String> = lines.collect();
        self.push_lines(lines);
        self.block.settled = self.block.lines.len();
    }

    /// Returns the mark of the next item in the current list.
    fn next_mark(&mut self) -> String {
        match self.containers.last_mut() {
            Some(Container::List(Some(number))) => {
                let mark = format!("{number}. ");
                *number = number.saturating_add(1);
                mark
            }
            _ => "• ".to_owned(),
        }
    }

    /// Returns the number of columns that are left for text beside the marks of lists and quotes.
    fn text_columns(&self) -> usize {
        let taken: usize = self.containers.iter().map(Container::width).sum();
        self.columns.saturating_sub(taken).max(LEAST_COLUMNS)
    }

    /// Adds lines, each after the marks of the lists and quotes that contain it.
    fn push_lines(&mut self, lines: impl IntoIterator<Item = String>) {
        for line in lines {
            let marks = self.containers.iter_mut().map(Container::take_mark).collect::<String>();
            self.block.lines.push(match line.is_empty() {
                true => marks.trim_end().to_owned(),
                false => marks + &line,
            });
        }
    }
}

impl Container {
    fn width(&self) -> usize {
        match self {
            Container::List(_) => 0,
            Container::Item { mark, .. } => width_of(mark),
            Container::Quote => 2,
        }
    }

    /// Returns the marks that belong before the next line.
    fn take_mark(&mut self) -> String {
        match self {
            Container::List(_) => String::new(),
            Container::Item { mark, is_begun } => match std::mem::replace(is_begun, true) {
                true => " ".repeat(width_of(mark)),
                false => mark.clone(),
            },
            Container::Quote => Span { text: "│ ".into(), style: FAINT }.painted(),
        }
    }
}

/// Escapes control characters, and removes the characters that were inserted for the parser.
fn clean(text: &str) -> String {
    disarm_lines(&text.replace(NO_DEFINITION, ""))
}

fn number_of(level: HeadingLevel) -> usize {
    level as usize
}
