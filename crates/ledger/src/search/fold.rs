//! Folding text, so that a search treats `Café`, `CAFE` and `ｃａｆｅ` as the same.
//!
//! Folding removes differences of case, accent and width, and collapses each run of white space to
//! one space. Marks that are letters in their script (Thai vowels, Japanese voicing marks,
//! Devanagari signs) are kept.

use unicode_normalization::char::{canonical_combining_class, decompose_compatible};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// Folds the text.
pub(crate) fn fold(text: &str) -> String {
    let mut folder = Folder { out: String::with_capacity(text.len()), starts: None };
    folder.fold_text(text);
    folder.out
}

/// Folds the text. Also returns, for each byte of the folded text and for its end, the
/// corresponding offset in `text`.
pub(crate) fn fold_mapped(text: &str) -> (String, Vec<usize>) {
    let mut folder = Folder {
        out: String::with_capacity(text.len()),
        starts: Some(Vec::with_capacity(text.len())),
    };
    folder.fold_text(text);
    let mut starts = folder.starts.expect("set above");
    starts.push(text.len());
    (folder.out, starts)
}

struct Folder {
    out: String,
    starts: Option<Vec<usize>>,
}

impl Folder {
    fn fold_text(&mut self, text: &str) {
        let mut at = 0;
        while at < text.len() {
            let plain = plain_length(&text.as_bytes()[at..]).max(self_folding_length(&text[at..]));
            if plain > 0 {
                self.push_plain(&text[at..at + plain], at);
                at += plain;
            } else {
                let end = cluster_end(text, at);
                self.fold_cluster(&text[at..end], at);
                at = end;
            }
        }
    }

    /// Adds text that folding only converts to lower case. Most text is of this kind.
    fn push_plain(&mut self, plain: &str, at: usize) {
        let start = self.out.len();
        self.out.push_str(plain);
        self.out[start..].make_ascii_lowercase();
        if let Some(starts) = &mut self.starts {
            for (offset, character) in plain.char_indices() {
                starts.extend(std::iter::repeat_n(at + offset, character.len_utf8()));
            }
        }
    }

    /// Folds a character and the marks that belong to it.
    fn fold_cluster(&mut self, cluster: &str, at: usize) {
        let mut characters = cluster.chars();
        if let (Some(only), None) = (characters.next(), characters.next())
            && only.is_ascii()
        {
            return self.push_character(only.to_ascii_lowercase(), at);
        }
        let folded = cluster.nfkd().filter(|c| !is_accent(*c)).flat_map(fold_case);
        for character in folded.nfc() {
            self.push_character(character, at);
        }
    }

    fn push_character(&mut self, character: char, at: usize) {
        let character = if character.is_whitespace() { ' ' } else { character };
        if character == ' ' && self.out.ends_with(' ') {
            return;
        }
        self.out.push(character);
        if let Some(starts) = &mut self.starts {
            starts.resize(self.out.len(), at);
        }
    }
}

/// Counts the leading bytes that folding leaves unchanged except for their case: ASCII words with
/// single spaces between them. The last letter before a non-ASCII character is left out, because a
/// mark that belongs to it may follow.
fn plain_length(bytes: &[u8]) -> usize {
    /// The number of bytes that are checked per step. It is large enough for the compiler to
    /// compare many bytes at once.
    const CHUNK: usize = 32;
    let is_plain = |byte: u8, before: u8| {
        matches!(byte, 0..=8 | 14..=127) & !((byte == b' ') & (before == b' '))
    };
    let before = |at: usize| if at == 0 { b' ' } else { bytes[at - 1] };
    let mut length = 0;
    while let Some(chunk) = bytes.get(length..length + CHUNK)
        && is_plain(chunk[0], before(length))
        && chunk.windows(2).fold(true, |plain, pair| plain & is_plain(pair[1], pair[0]))
    {
        length += CHUNK;
    }
    while length < bytes.len() && is_plain(bytes[length], before(length)) {
        length += 1;
    }
    match bytes.get(length) {
        Some(128..) => length.saturating_sub(1),
        _ => length,
    }
}

/// Counts the bytes of the leading characters that fold to themselves. The last character before a
/// mark is left out.
fn self_folding_length(text: &str) -> usize {
    let mut last = 0;
    for (at, character) in text.char_indices() {
        if !folds_to_itself(character) {
            return if can_join(character) { last } else { at };
        }
        last = at;
    }
    text.len()
}

/// Returns the end of a cluster: the character at `start` and the marks that may combine with it.
fn cluster_end(text: &str, start: usize) -> usize {
    let mut characters = text[start..].char_indices();
    characters.next();
    characters.find(|(_, c)| !can_join(*c)).map_or(text.len(), |(length, _)| start + length)
}

/// True if a character may combine with the character before it.
fn can_join(character: char) -> bool {
    if character < '\u{300}' || folds_to_itself(character) {
        return false;
    }
    let mut first = None;
    decompose_compatible(character, |part| {
        first.get_or_insert(part);
    });
    let first = first.unwrap_or(character);
    canonical_combining_class(first) != 0
        || is_nfc_quick(std::iter::once(first)) == IsNormalized::Maybe
        || is_accent(first)
}

/// True for most ideographs, Hangul syllables and kana. They fold to themselves, and never combine
/// with the character before them.
fn folds_to_itself(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}'
        | '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}')
}

/// True for variation selectors, soft hyphens, byte order marks, and marks that do not form a
/// different letter.
fn is_accent(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}' | '\u{fe00}'..='\u{fe0f}' | '\u{fe20}'..='\u{fe2f}' | '\u{feff}')
}

/// Folds the case of a character by converting it to upper case first: `ẞ` and `ß` → `ss`, `Σ` and
/// `ς` → `σ`.
fn fold_case(c: char) -> impl Iterator<Item = char> {
    c.to_lowercase().flat_map(char::to_uppercase).flat_map(char::to_lowercase)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn letter_case_and_accents_and_width_do_not_matter() {
        let same = [
            ["Café", "CAFE\u{301}", "ｃａｆｅ"],
            ["STRASSE", "straße", "STRAẞE"],
            ["Σίσυφος", "σισυφοσ", "ΣΊΣΥΦΟΣ"],
            ["İstanbul", "istanbul", "ISTANBUL"],
            ["ﬁle", "FILE", "ｆｉｌｅ"],
            ["ガギ", "ｶﾞｷﾞ", "カ\u{3099}キ\u{3099}"],
            ["한글", "\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}", "한글"],
            ["❤", "❤\u{fe0f}", "❤\u{fe0e}"],
            ["a b", "A\u{a0}\n\tB", "a\u{3000}b"],
        ];
        for [a, b, c] in same {
            assert_eq!(fold(a), fold(b));
            assert_eq!(fold(a), fold(c));
        }
    }

    #[test]
    fn letters_of_other_scripts_stay_distinct() {
        assert_ne!(fold("が"), fold("か"));
        assert_ne!(fold("ก่า"), fold("กา"), "Thai tone marks");
        assert_ne!(fold("कि"), fold("क"), "Devanagari vowels");
        assert_eq!(fold("中文、テスト"), "中文、テスト");
    }

    proptest! {
        #[test]
        fn folding_any_text_gives_the_same_result_with_and_without_the_map(text in "\\PC{0,40}|[a-zA-Zé\u{301}が\u{3099} \n]{0,20}") {
            let (folded, starts) = fold_mapped(&text);
            prop_assert_eq!(&folded, &fold(&text));
            prop_assert_eq!(starts.len(), folded.len() + 1);
            prop_assert!(starts.is_sorted());
            prop_assert!(starts.iter().all(|at| text.is_char_boundary(*at)));
        }

        #[test]
        fn plain_bytes_are_counted_correctly_in_chunks(text in "[a-z \n]{0,80}|[a-z ]{60,80}|[a-z]{30,70} ?é?.{0,9}") {
            let mut was_space = true;
            let is_plain = |byte: &u8| {
                let is_double = *byte == b' ' && was_space;
                was_space = *byte == b' ';
                byte.is_ascii() && !matches!(byte, 9..=13) && !is_double
            };
            let count = text.bytes().take_while(is_plain).count();
            let is_before_mark = text.as_bytes().get(count).is_some_and(|byte| !byte.is_ascii());
            let expected = if is_before_mark { count.saturating_sub(1) } else { count };
            prop_assert_eq!(plain_length(text.as_bytes()), expected);
        }

        #[test]
        fn folding_twice_changes_nothing(text in "\\PC{0,40}") {
            let once = fold(&text);
            prop_assert_eq!(fold(&once), once);
        }
    }
}
