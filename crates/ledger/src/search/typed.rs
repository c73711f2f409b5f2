//! Splitting a typed query into words, phrases and groups, and removing stray punctuation.

/// A part of the typed text, before operators are interpreted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TypedPart<'q> {
    Word(&'q str),
    Phrase { text: &'q str, open: bool },
    Open,
    Close,
}

/// The maximum nesting depth of groups. Deeper parentheses are ignored.
const MAX_DEPTH: usize = 16;

/// The maximum number of words and phrases. Each is compared with every message, so the rest of a
/// long query, which was probably pasted by mistake, is ignored.
const MAX_TERMS: usize = 256;

/// Splits a query into its parts. All parentheses in the result are paired.
pub(super) fn split_query(typed: &str) -> Vec<TypedPart<'_>> {
    drop_unpaired(split_parts(typed))
}

/// Splits a query into words (separated by white space), quoted phrases, and parentheses. A quote
/// inside a word is part of the word, and so is a pair of parentheses, as in `f(x)`. A quote that
/// is never closed is dropped.
fn split_parts(typed: &str) -> Vec<TypedPart<'_>> {
    let mut parts = Vec::new();
    let mut rest = typed.trim_start();
    let mut terms = 0;
    while let Some(first) = rest.chars().next()
        && terms < MAX_TERMS
    {
        match first {
            '(' | ')' => {
                parts.push(if first == '(' { TypedPart::Open } else { TypedPart::Close });
                rest = &rest[1..];
            }
            '"' => match rest[1..].split_once('"') {
                Some((text, after)) => {
                    let open = after.starts_with('*');
                    parts.push(TypedPart::Phrase { text, open });
                    terms += 1;
                    rest = if open { &after[1..] } else { after };
                }
                None => rest = &rest[1..],
            },
            // Skip punctuation before a parenthesis or a quote, so that the parenthesis or quote is
            // recognized.
            c if is_stray(c) => rest = &rest[c.len_utf8()..],
            _ => {
                let end = find_word_end(rest);
                parts.push(TypedPart::Word(&rest[..end]));
                terms += 1;
                rest = &rest[end..];
            }
        }
        rest = rest.trim_start();
    }
    parts
}

/// Finds the end of the word at the start of the text. The word ends at white space, or at a
/// closing parenthesis whose partner is not in the word.
fn find_word_end(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return at,
            ')' => depth -= 1,
            c if c.is_whitespace() => return at,
            _ => {}
        }
    }
    text.len()
}

/// Drops parentheses without a partner, and those that are nested too deeply.
fn drop_unpaired(parts: Vec<TypedPart<'_>>) -> Vec<TypedPart<'_>> {
    let mut open = Vec::new();
    let mut pairs = vec![false; parts.len()];
    for (index, part) in parts.iter().enumerate() {
        match part {
            TypedPart::Open => open.push(index),
            TypedPart::Close => {
                if let Some(start) = open.pop()
                    && open.len() < MAX_DEPTH
                {
                    (pairs[start], pairs[index]) = (true, true);
                }
            }
            _ => {}
        }
    }
    let is_parenthesis = |part| matches!(part, TypedPart::Open | TypedPart::Close);
    let kept = parts.into_iter().zip(pairs);
    kept.filter(|(part, is_pair)| *is_pair || !is_parenthesis(*part))
        .map(|(part, _)| part)
        .collect()
}

/// True for punctuation that has no meaning around a word: brackets, quotes, sentence punctuation,
/// and operators from other query languages.
fn is_stray(c: char) -> bool {
    matches!(
        c,
        '(' | ')'
            | '['
            | ']'
            | '{'
            | '}'
            | '<'
            | '>'
            | '^'
            | '~'
            | '!'
            | '?'
            | ','
            | ';'
            | ':'
            | '\''
            | '"'
            | '`'
            | '|'
            | '\\'
    )
}

/// Removes stray punctuation from both ends of a word. Keeps a closing bracket if its partner is in
/// the word and there is more than punctuation between them. Also keeps a leading dot.
pub(super) fn trim_stray(word: &str) -> &str {
    let mut word = word.trim_start_matches(is_stray);
    while let Some(last) = word.chars().next_back() {
        let rest = &word[..word.len() - last.len_utf8()];
        if closes_part(rest, last) || !(is_stray(last) || last == '.') {
            break;
        }
        word = rest;
    }
    word
}

/// True if a character closes a bracket in the text before it, and there is more than punctuation
/// between the two.
fn closes_part(before: &str, last: char) -> bool {
    let opening = match last {
        ')' => '(',
        ']' => '[',
        '}' => '{',
        '>' => '<',
        _ => return false,
    };
    before.matches(last).count() < before.matches(opening).count()
        && before.rsplit_once(opening).is_some_and(|(_, inside)| !inside.chars().all(is_stray))
}
