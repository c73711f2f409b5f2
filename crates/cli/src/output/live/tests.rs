use std::num::NonZero;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::output::markdown::MarkdownStream;

/// A terminal, and the live lines that are shown on it.
struct Shown {
    size: Size,
    terminal: vt100::Parser,
    region: LiveRegion,
}

impl Shown {
    fn new(columns: u16, rows: u16) -> Shown {
        let size = Size { columns: columns.into(), rows: rows.into() };
        let number = |number| NonZero::new(number).unwrap();
        let terminal = vt100::Parser::new(number(rows), number(columns), 10_000);
        Shown { size, terminal, region: LiveRegion::default() }
    }

    /// Updates the live lines, and returns the text for the terminal.
    fn update(&mut self, finished: &[&str], live: &[&str]) -> String {
        let own = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        let text = self.region.update(&own(finished), &own(live), self.size);
        self.terminal.process(text.as_bytes());
        text
    }

    /// Returns all rows, including those that have scrolled out of the screen. Rows that continue a
    /// line are joined.
    fn lines(&mut self) -> Vec<String> {
        let columns = u16::try_from(self.size.columns).unwrap();
        let mut lines: Vec<String> = Vec::new();
        let mut is_continued = false;
        let screen = self.terminal.screen_mut();
        screen.set_scrollback(usize::MAX);
        for offset in (0..=screen.scrollback()).rev() {
            screen.set_scrollback(offset);
            let rows: Vec<String> = screen.rows(0, columns).collect();
            let shown = if offset == 0 { rows.len() } else { 1 };
            for (number, row) in rows.into_iter().take(shown).enumerate() {
                match lines.last_mut().filter(|_| is_continued) {
                    Some(line) => line.push_str(&row),
                    None => lines.push(row),
                }
                is_continued = screen.row_wrapped(u16::try_from(number).unwrap());
            }
        }
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        lines
    }
}

#[test]
fn growing_text_is_appended_without_moving_the_cursor() {
    let mut shown = Shown::new(20, 10);
    assert_eq!(shown.update(&[], &["Hel"]), "Hel");
    assert_eq!(shown.update(&[], &["Hello"]), "lo");
    assert_eq!(shown.update(&[], &["Hello"]), "");
    assert_eq!(shown.update(&[], &["Hello", "you"]), "\r\nyou");
    assert_eq!(shown.update(&["Hello", "you"], &[]), "\r\n");
    assert_eq!(shown.update(&[], &[]), "");
    assert_eq!(shown.lines(), ["Hello", "you"]);
}

#[test]
fn only_changed_lines_are_printed_again() {
    let mut shown = Shown::new(20, 10);
    shown.update(&[], &["one", "a *b", "c"]);
    let text = shown.update(&["one"], &["a b", "c"]);
    assert!(!text.contains("one") && text.contains("a b\r\nc"), "{text:?}");
    assert_eq!(shown.lines(), ["one", "a b", "c"]);
    shown.update(&["done"], &[]);
    assert_eq!(shown.lines(), ["one", "done"]);
    assert_eq!(shown.terminal.screen().cursor_position(), (2, 0));
}

#[test]
fn lines_that_are_wider_than_the_terminal_are_replaced_as_a_whole() {
    for wide in ["0123456789abcdef012", "日本語日本語日本語", "0123456789", "a日本語日本語"]
    {
        let mut shown = Shown::new(10, 10);
        shown.update(&["first"], &[wide, "x"]);
        shown.update(&["second"], &[]);
        assert_eq!(shown.lines(), ["first", "second"], "{wide}");
    }
}

#[test]
fn live_lines_that_do_not_fit_leave_no_trace() {
    let mut shown = Shown::new(20, 4);
    let lines: Vec<String> = (0..9).map(|number| format!("live {number}")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    for count in 1..=9 {
        shown.update(&[], &lines[..count]);
    }
    assert_eq!(shown.lines(), ["live 6", "live 7", "live 8"]);
    shown.update(&["a", "b"], &["c"]);
    assert_eq!(shown.lines(), ["a", "b", "c"]);
}

const TEXT: &str = "# Title\n\nSome *emphasized* text, and **more** of it.\n\n- one\n- two, which is longer\n\n```sh\ncargo test --all\n```\n| a | b |\n|---|---|\n| 1 | 2 |\n\nThe [end](x).";

const LINES: [&str; 8] =
    ["", "a", "ab", "abc", "\u{1b}[1mab\u{1b}[0m", "日本語日本", "0123456789abcdef", "0123456789"];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn the_terminal_shows_all_finished_lines_and_the_last_live_ones(
        steps in vec((vec(select(&LINES[..]), 0..3), vec(select(&LINES[..]), 0..5)), 1..12),
        rows in 3_u16..12,
    ) {
        let mut shown = Shown::new(10, rows);
        let mut expected: Vec<String> = Vec::new();
        let plain = |line: &&str| anstream::adapter::strip_str(line).to_string();
        for (finished, live) in &steps {
            shown.update(finished, live);
            expected.extend(finished.iter().map(plain));
        }
        let live: Vec<String> = steps.last().unwrap().1.iter().map(|line| (*line).to_owned()).collect();
        expected.extend(last_rows(&live, shown.size).iter().map(|line| plain(&line.as_str())));
        while expected.last().is_some_and(String::is_empty) {
            expected.pop();
        }
        prop_assert_eq!(shown.lines(), expected);
    }

    #[test]
    fn streamed_markdown_leaves_only_its_finished_lines(
        lengths in vec(1_usize..9, 1..9),
        columns in 16_u16..30,
        rows in 4_u16..12,
    ) {
        let text = TEXT;
        let mut shown = Shown::new(columns, rows);
        let width = usize::from(columns);
        let mut stream = MarkdownStream::default();
        let (mut rest, mut lengths) = (text, lengths.into_iter().cycle());
        while !rest.is_empty() {
            let (piece, other) = rest.split_at(lengths.next().unwrap().min(rest.len()));
            let finished = stream.push(piece, width);
            let live = stream.unfinished(width).unwrap();
            let text = shown.region.update(&finished, &live, shown.size);
            shown.terminal.process(text.as_bytes());
            rest = other;
        }
        let text = shown.region.update(&stream.finish(width), &[], shown.size);
        shown.terminal.process(text.as_bytes());
        let mut whole = MarkdownStream::default();
        let mut expected = whole.push(TEXT, width);
        expected.extend(whole.finish(width));
        let expected: Vec<String> =
            expected.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect();
        prop_assert_eq!(shown.lines(), expected);
    }
}
