//! Splitting folded text into pieces, and pieces into index tokens.
//!
//! For each message, the index has each of these tokens once: every word (its first 32 characters),
//! every pair of adjacent characters in a script without spaces, the last character of each run of
//! such characters, and every symbol that is not ASCII. A single character in a script without
//! spaces is found as the beginning of a pair.

use std::collections::HashSet;

use unicode_normalization::char::canonical_combining_class;

/// The maximum number of indexed characters per word. The rest is compared when the message is
/// checked.
const WORD_LENGTH: usize = 32;

/// A part of folded text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'t> {
    /// Adjacent letters and digits in a script with spaces.
    Word(&'t str),
    /// Adjacent characters in scripts without spaces.
    Run(&'t str),
    /// A single non-ASCII character of any other kind.
    Symbol(&'t str),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CharacterKind {
    Word,
    Spaceless,
    Symbol,
    /// ASCII punctuation and white space.
    Other,
}

/// True if a character is part of a word. There is no boundary between two such characters.
pub(crate) fn is_word(c: char) -> bool {
    kind_of(c) == CharacterKind::Word
}

fn kind_of(c: char) -> CharacterKind {
    if c.is_ascii() {
        return if c.is_ascii_alphanumeric() { CharacterKind::Word } else { CharacterKind::Other };
    }
    let is_letter = c.is_alphanumeric() || canonical_combining_class(c) != 0;
    match c {
        _ if is_letter && is_spaceless(c) => CharacterKind::Spaceless,
        _ if is_letter => CharacterKind::Word,
        _ if c.is_whitespace() => CharacterKind::Other,
        _ => CharacterKind::Symbol,
    }
}

/// True for characters of scripts that are written without spaces between words. Also true for
/// Hangul, because its words take endings.
fn is_spaceless(c: char) -> bool {
    matches!(c,
        '\u{e00}'..='\u{eff}'         // Thai, Lao
        | '\u{f00}'..='\u{fff}'       // Tibetan
        | '\u{1000}'..='\u{109f}'     // Burmese
        | '\u{1100}'..='\u{11ff}'     // Hangul letters
        | '\u{1780}'..='\u{17ff}'     // Khmer
        | '\u{1950}'..='\u{19ff}'     // Tai Le, New Tai Lue, Khmer symbols
        | '\u{1a20}'..='\u{1aaf}'     // Tai Tham
        | '\u{2e80}'..='\u{2fdf}'     // Han radicals
        | '\u{3005}'..='\u{3007}' | '\u{3021}'..='\u{3029}' | '\u{3031}'..='\u{3035}'
        | '\u{3038}'..='\u{303c}'     // Han iteration and number signs
        | '\u{3041}'..='\u{31ff}'     // Kana, Bopomofo, Hangul letters
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' // Han
        | '\u{a000}'..='\u{a4cf}'     // Yi
        | '\u{a960}'..='\u{a97f}'     // Hangul letters
        | '\u{a9e0}'..='\u{a9ff}' | '\u{aa60}'..='\u{aadf}' // Burmese, Tai Viet
        | '\u{ac00}'..='\u{d7ff}'     // Hangul
        | '\u{f900}'..='\u{faff}'     // Han
        | '\u{ff66}'..='\u{ffdc}'     // Half-width Kana and Hangul
        | '\u{1aff0}'..='\u{1b16f}'   // Kana
        | '\u{20000}'..='\u{3fffd}'   // Han
    )
}

/// Splits folded text into pieces, each with its offset. Between the pieces there are only ASCII
/// punctuation and spaces.
pub(crate) fn pieces(text: &str) -> impl Iterator<Item = (usize, Piece<'_>)> {
    let mut characters = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, kind) = loop {
            let (at, c) = characters.next()?;
            match kind_of(c) {
                CharacterKind::Other => {}
                kind => break (at, kind),
            }
        };
        let mut end = characters.peek().map_or(text.len(), |(at, _)| *at);
        if kind != CharacterKind::Symbol {
            while let Some((at, c)) = characters.peek().copied() {
                if kind_of(c) != kind {
                    break;
                }
                characters.next();
                end = at + c.len_utf8();
            }
        }
        let part = &text[start..end];
        Some((
            start,
            match kind {
                CharacterKind::Word => Piece::Word(part),
                CharacterKind::Spaceless => Piece::Run(part),
                CharacterKind::Symbol | CharacterKind::Other => Piece::Symbol(part),
            },
        ))
    })
}

/// Cuts a word down to the characters that are indexed.
pub(crate) fn cut_word(word: &str) -> &str {
    match word.char_indices().nth(WORD_LENGTH) {
        Some((end, _)) => &word[..end],
        None => word,
    }
}

/// Returns every pair of adjacent characters.
pub(crate) fn pairs(run: &str) -> impl Iterator<Item = &str> {
    let starts = run.char_indices().map(|(at, _)| at);
    let ends = run.char_indices().map(|(at, c)| at + c.len_utf8()).skip(1);
    starts.zip(ends).map(|(start, end)| &run[start..end])
}

/// Builds the index entry for folded text: its tokens, each once, separated by spaces.
pub(crate) fn index_entry(text: &str) -> String {
    let mut seen: HashSet<&str> = HashSet::new();
    let mut entry = String::with_capacity(text.len());
    let mut add = |token| {
        if seen.insert(token) {
            entry.push_str(token);
            entry.push(' ');
        }
    };
    for (_, piece) in pieces(text) {
        match piece {
            Piece::Word(word) => add(cut_word(word)),
            Piece::Symbol(symbol) => add(symbol),
            Piece::Run(run) => {
                pairs(run).for_each(&mut add);
                let last = run.chars().next_back().map_or(0, char::len_utf8);
                add(&run[run.len() - last..]);
            }
        }
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry_tokens(text: &str) -> Vec<String> {
        index_entry(text).split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn words_and_pairs_and_symbols_are_each_indexed_once() {
        assert_eq!(entry_tokens("let x = main.rs; let y"), ["let", "x", "main", "rs", "y"]);
        assert_eq!(entry_tokens("数据库v2"), ["数据", "据库", "库", "v2"]);
        assert_eq!(entry_tokens("ok 👍👍 → done"), ["ok", "👍", "→", "done"]);
        assert_eq!(entry_tokens("中"), ["中"]);
        assert_eq!(entry_tokens(&"a".repeat(50)), ["a".repeat(32)]);
        assert_eq!(entry_tokens("c++ 50%"), ["c", "50"]);
    }

    #[test]
    fn marks_belong_to_their_words() {
        assert_eq!(entry_tokens("हिन्दी"), ["हिन्दी"]);
    }
}
