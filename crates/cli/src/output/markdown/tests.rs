use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::output::text::width_of;

/// Renders text that arrives in these pieces.
fn render_pieces<'t>(pieces: impl IntoIterator<Item = &'t str>, columns: usize) -> Vec<String> {
    let mut stream = MarkdownStream::default();
    let mut lines = Vec::new();
    for piece in pieces {
        lines.extend(stream.push(piece, columns));
        stream.unfinished(columns);
    }
    lines.extend(stream.finish(columns));
    lines
}

fn plain(lines: &[String]) -> String {
    let lines = lines.iter().map(|line| anstream::adapter::strip_str(line).to_string());
    lines.map(|line| line.trim_end().to_owned() + "\n").collect()
}

#[track_caller]
fn check(text: &str, columns: usize, expected: &str) {
    let seen = plain(&render_pieces([text], columns));
    assert_eq!(seen, expected.trim_start_matches('\n'), "\n{seen}");
}

#[test]
fn blocks_keep_the_blank_lines_of_the_source() {
    check(
        "# Title\nFirst.\nSecond.\n\n\n- one\n- two\n\n  more\n  1. a\n  2. b\n\n- three\n> quote\n>\n> more\n***\nend",
        40,
        "
# Title
First.
Second.

• one
• two

  more
  1. a
  2. b

• three
│ quote
│
│ more
────────────────────────────────────────
end
",
    );
}

#[test]
fn code_is_indented_and_not_wrapped() {
    let long = "x".repeat(60);
    check(
        &format!(
            "Run:\n```sh\ncargo test\n\n\tindented {long}\n```\n1. in a list\n   ```\n   a\n   ```"
        ),
        40,
        &format!("Run:\n  cargo test\n\n      indented {long}\n1. in a list\n     a\n"),
    );
}

#[test]
fn text_is_wrapped_at_words_and_at_wide_characters() {
    check("one two three four", 10, "one two\nthree four\n");
    check("- one two three four", 12, "• one two\n  three four\n");
    check("日本語の文章です", 10, "日本語の文\n章です\n");
    check("a\u{301}bcdefghijkl mn", 10, "a\u{301}bcdefghij\nkl mn\n");
}

#[test]
fn links_show_their_addresses() {
    check(
        "[docs](https://a.b/c) <https://a.b> [https://a.b](https://a.b) ![pic](x.png) <me@a.b>",
        99,
        "docs (https://a.b/c) https://a.b https://a.b pic (x.png) me@a.b\n",
    );
    // A link definition is shown as plain text: if it took effect, it would change a line that has
    // already been shown.
    check(
        "See [docs] and [the *docs*][docs].\n\n[docs]: /u 'x'\n\nend",
        99,
        "
See [docs] and [the docs][docs].

[docs]: /u 'x'

end
",
    );
}

#[test]
fn tables_are_aligned_or_become_lists_if_they_are_too_wide() {
    let table = "| name | size |\n|:--|--:|\n| a `b` | 1 |\n| long name | 1000 |\n";
    check(
        table,
        40,
        "
name       size
─────────  ────
a b           1
long name  1000
",
    );
    check(
        table,
        12,
        "
name: a b
size: 1

name: long
name
size: 1000
",
    );
}

#[test]
fn emphasis_and_code_and_headings_are_styled() {
    let lines = render_pieces(["## *a* `b`\n**c** ~~d~~ [e](f)"], 40);
    let expected = [
        "\u{1b}[1m## \u{1b}[0m\u{1b}[1m\u{1b}[3ma\u{1b}[0m\u{1b}[1m \u{1b}[0m\u{1b}[36mb\u{1b}[0m",
        "\u{1b}[1mc\u{1b}[0m \u{1b}[9md\u{1b}[0m \u{1b}[4me\u{1b}[0m\u{1b}[2m (f)\u{1b}[0m",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn finished_lines_are_returned_as_soon_as_they_are_certain() {
    let mut stream = MarkdownStream::default();
    let mut push = |text: &str| {
        let finished = plain(&stream.push(text, 40));
        (finished, plain(&stream.unfinished(40).unwrap()))
    };
    let line = |text: &str| if text.is_empty() { String::new() } else { format!("{text}\n") };
    for (text, finished, unfinished) in [
        ("Hel", "", "Hel"),
        ("lo *wor", "", "Hello *wor"),
        ("ld*", "", "Hello world"),
        ("\n\n", "", "Hello world"),
        ("- on", "", "Hello world\n\n• on"),
        ("e\n", "Hello world\n", "• one"),
        ("- two\n", "• one", "• two"),
        ("```\nfn", "• two", "  fn"),
        (" main\n", "  fn main", ""),
        ("}\n", "  }", ""),
        ("``", "", "  ``"),
        ("`\n", "", ""),
        ("end", "", "end"),
    ] {
        let (seen_finished, seen_unfinished) = push(text);
        let finished = finished.replace("world\n", "world");
        let seen =
            (seen_finished.trim_start_matches('\n'), seen_unfinished.trim_start_matches('\n'));
        assert_eq!(seen, (line(&finished).as_str(), line(unfinished).as_str()), "{text:?}");
    }
}

#[test]
fn text_cannot_control_the_terminal() {
    let text = "a\u{1b}[2Jb &#27;[31mc `\u{9b}1A`\n```\n\u{7}\u{1b}]0;t\u{7}\n```\n| \u{8} |\n|--|\n\u{202e}d";
    let lines = render_pieces([text], 80);
    for line in &lines {
        let plain = anstream::adapter::strip_str(line).to_string();
        assert!(!plain.chars().any(takeback_base::text::is_armed), "{plain:?}");
        assert!(!line.contains("[2J") || plain.contains("[2J"), "{line:?}");
    }
    assert!(plain(&lines).starts_with("a\\u{1b}[2Jb \\u{1b}[31mc \\u{9b}1A\n"), "{lines:?}");
}

#[test]
fn a_huge_block_is_rendered_only_occasionally() {
    let mut stream = MarkdownStream::default();
    let mut rendered = 0;
    for _ in 0..2_000 {
        stream.push(&"word ".repeat(10), 80);
        rendered += usize::from(stream.unfinished(80).is_some());
    }
    assert!(rendered < 250, "{rendered}");
    assert_eq!(stream.finish(80).len(), 20_000 / 16);
}

#[test]
fn a_gap_after_code_is_kept() {
    let text = "```\nlet a;\n```\n\n# ";
    let pieces = text.split_inclusive('\n').collect::<Vec<_>>();
    assert_eq!(render_pieces(pieces, 40), render_pieces([text], 40));
}

#[test]
fn an_open_block_of_code_does_not_accumulate_in_memory() {
    let mut stream = MarkdownStream::default();
    let mut lines = stream.push("```text\n", 80);
    for number in 0..10_000 {
        lines.extend(stream.push(&format!("line {number}\n"), 80));
        assert!(stream.source.len() < 100);
    }
    lines.extend(stream.push("```\nend\n", 80));
    lines.extend(stream.finish(80));
    assert_eq!((lines.len(), lines.last().unwrap().as_str()), (10_001, "end"));
}

/// Parts from which every kind of block can be put together, whole or broken.
const PARTS: [&str; 44] = [
    "word",
    "two words",
    " ",
    "  ",
    "    ",
    "\t",
    "\n",
    "\n",
    "\n",
    "\n\n",
    "\r\n",
    "\r",
    "# ",
    "## x",
    "- ",
    "* ",
    "+ ",
    "1. ",
    "7) ",
    "> ",
    ">",
    "```",
    "```rust\n",
    "~~~",
    "`",
    "**",
    "*",
    "_",
    "~~",
    "[a](b)",
    "[a]",
    "[a]: /u",
    "'t'",
    "![i](j)",
    "| a | b |\n",
    "|--|:-:|\n",
    "|",
    "---",
    "===",
    "<div>",
    "</div>\n",
    "日本",
    "&#27;",
    "- [x] ",
];

fn cases() -> u32 {
    std::env::var("TAKEBACK_MARKDOWN_CASES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(2_000)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn the_lines_do_not_depend_on_how_the_text_is_split(
        parts in vec(select(&PARTS[..]), 0..30),
        lengths in vec(1_usize..12, 1..20),
        columns in 12_usize..40,
    ) {
        let text = parts.concat();
        let whole = render_pieces([text.as_str()], columns);
        let mut lengths = lengths.into_iter().cycle();
        let (mut rest, mut pieces) = (text.as_str(), Vec::new());
        while !rest.is_empty() {
            let length = lengths.next().unwrap();
            let end = rest.char_indices().nth(length).map_or(rest.len(), |(at, _)| at);
            let (piece, other) = rest.split_at(end);
            pieces.push(piece);
            rest = other;
        }
        prop_assert_eq!(&render_pieces(pieces, columns), &whole, "{:?}", text);
        let is_code = |line: &String| line.contains("\u{1b}[36m") || text.contains('<');
        for line in whole.iter().filter(|line| !is_code(line)) {
            let plain = anstream::adapter::strip_str(line).to_string();
            prop_assert!(!plain.chars().any(takeback_base::text::is_armed), "{:?}", plain);
        }
    }

    #[test]
    fn no_word_is_lost(lengths in vec(1_usize..14, 1..40), columns in 10_usize..50) {
        let letters = ('a'..='z').cycle();
        let words: Vec<String> = letters
            .zip(lengths)
            .map(|(letter, length)| letter.to_string().repeat(length))
            .collect();
        let text = words.join(" ");
        let lines = render_pieces([text.as_str()], columns);
        for line in &lines {
            prop_assert!(width_of(line) <= columns.max(10), "{:?}", line);
        }
        prop_assert_eq!(lines.concat().replace(' ', ""), words.concat());
    }
}
