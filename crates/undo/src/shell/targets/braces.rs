//! Expands braces: `{a,b}` and `{1..3}`.

use crate::shell::syntax::{Word, WordPart};

/// The maximum number of words that one word may expand to.
const MAX_WORDS: usize = 1000;

/// The maximum length of a word whose braces are expanded.
const MAX_CHARS: usize = 4096;

/// The maximum number of nested or consecutive brace expressions.
const MAX_LEVELS: usize = 16;

/// A piece of a word after brace expansion.
#[derive(Clone)]
pub(super) enum Piece<'w> {
    Text(String, bool),
    Part(&'w WordPart),
}

#[derive(Clone, Copy)]
enum Token<'w> {
    Char(char, bool),
    Part(&'w WordPart),
}

/// Returns the words that a word expands to, or `None` if there are too many.
pub(super) fn expand(word: &Word) -> Option<Vec<Vec<Piece<'_>>>> {
    let has_brace = |part: &WordPart| matches!(part, WordPart::Text { text, quoted: false } if text.contains('{'));
    if !word.parts.iter().any(has_brace) {
        return Some(vec![word.parts.iter().map(Piece::from).collect()]);
    }
    let mut tokens = Vec::new();
    for part in &word.parts {
        match part {
            WordPart::Text { text, quoted } => {
                if tokens.len() + text.len() > MAX_CHARS {
                    return None;
                }
                tokens.extend(text.chars().map(|c| Token::Char(c, *quoted)));
                // Empty quotes keep the word from vanishing.
                if text.is_empty() && *quoted {
                    tokens.push(Token::Part(part));
                }
            }
            other => tokens.push(Token::Part(other)),
        }
    }
    let words = expand_tokens(&tokens, 0)?;
    Some(words.iter().map(|tokens| join(tokens)).collect())
}

impl<'w> From<&'w WordPart> for Piece<'w> {
    fn from(part: &'w WordPart) -> Piece<'w> {
        match part {
            WordPart::Text { text, quoted } => Piece::Text(text.clone(), *quoted),
            other => Piece::Part(other),
        }
    }
}

fn join<'w>(tokens: &[Token<'w>]) -> Vec<Piece<'w>> {
    let mut pieces: Vec<Piece<'w>> = Vec::new();
    for token in tokens {
        match token {
            Token::Char(c, quoted) => match pieces.last_mut() {
                Some(Piece::Text(text, before)) if before == quoted => text.push(*c),
                _ => pieces.push(Piece::Text(c.to_string(), *quoted)),
            },
            Token::Part(WordPart::Text { text, quoted }) => {
                pieces.push(Piece::Text(text.clone(), *quoted));
            }
            Token::Part(part) => pieces.push(Piece::Part(part)),
        }
    }
    pieces
}

fn is_char(token: &Token<'_>, wanted: char) -> bool {
    matches!(token, Token::Char(c, false) if *c == wanted)
}

/// Expands the first brace expression, and then the rest of the word.
fn expand_tokens<'w>(tokens: &[Token<'w>], level: usize) -> Option<Vec<Vec<Token<'w>>>> {
    if level > MAX_LEVELS {
        return None;
    }
    let Some((open, close, commas)) = find_expression(tokens) else {
        return Some(vec![tokens.to_vec()]);
    };
    let mut choices: Vec<Vec<Token<'w>>> = Vec::new();
    if commas.is_empty() {
        match expand_range(&tokens[open + 1..close])? {
            Some(range) => choices = range,
            None => {
                // These braces are literal, but there may be other braces inside or after them.
                let mut literal = Vec::new();
                for rest in expand_tokens(&tokens[open + 1..], level + 1)? {
                    literal.push([&tokens[..=open], &rest].concat());
                }
                return Some(literal);
            }
        }
    } else {
        let mut start = open + 1;
        for end in commas.into_iter().chain([close]) {
            choices.extend(expand_tokens(&tokens[start..end], level + 1)?);
            start = end + 1;
        }
    }
    let ends = expand_tokens(&tokens[close + 1..], level + 1)?;
    if choices.len() * ends.len() > MAX_WORDS {
        return None;
    }
    let mut words = Vec::new();
    for choice in &choices {
        for end in &ends {
            words.push([&tokens[..open], choice, end].concat());
        }
    }
    Some(words)
}

/// Finds the first pair of braces. Returns their positions, and the positions of the commas between
/// them.
fn find_expression(tokens: &[Token<'_>]) -> Option<(usize, usize, Vec<usize>)> {
    let mut open: Vec<(usize, Vec<usize>)> = Vec::new();
    let mut first = None;
    for (at, token) in tokens.iter().enumerate() {
        if is_char(token, '{') {
            open.push((at, Vec::new()));
        } else if is_char(token, ',') {
            if let Some((_, commas)) = open.last_mut() {
                commas.push(at);
            }
        } else if is_char(token, '}')
            && let Some((start, commas)) = open.pop()
        {
            // Braces that were opened earlier may never be closed.
            first = Some((start, at, commas));
            if open.is_empty() {
                return first;
            }
        }
    }
    first
}

/// Expands `1..3` or `a..c`. The outer `None` means that the range is too long; the inner `None`
/// means that the text is not a range.
#[allow(clippy::option_option)]
fn expand_range<'w>(tokens: &[Token<'w>]) -> Option<Option<Vec<Vec<Token<'w>>>>> {
    let mut text = String::new();
    for token in tokens {
        let Token::Char(c, false) = token else { return Some(None) };
        text.push(*c);
    }
    let parts: Vec<&str> = text.split("..").collect();
    let (first, last, step) = match parts.as_slice() {
        [first, last] => (*first, *last, 1),
        [first, last, step] => match step.parse::<i64>() {
            Ok(step) => (*first, *last, step.unsigned_abs().max(1)),
            Err(_) => return Some(None),
        },
        _ => return Some(None),
    };
    let as_tokens = |text: String| text.chars().map(|c| Token::Char(c, false)).collect();
    if let (Ok(from), Ok(to)) = (first.parse::<i64>(), last.parse::<i64>()) {
        let count = from.abs_diff(to) / step;
        if count >= MAX_WORDS as u64 {
            return None;
        }
        let is_padded =
            |text: &str| text.trim_start_matches('-').starts_with('0') && text.len() > 1;
        let width =
            if is_padded(first) || is_padded(last) { first.len().max(last.len()) } else { 0 };
        let numbers = (0..=count).map(|index| {
            let offset = i64::try_from(index * step).unwrap_or_default();
            let number = if from <= to { from + offset } else { from - offset };
            as_tokens(format!("{number:0width$}"))
        });
        return Some(Some(numbers.collect()));
    }
    let single = |text: &str| {
        let mut chars = text.chars();
        chars.next().filter(|c| chars.next().is_none() && c.is_ascii_alphabetic())
    };
    let (Some(from), Some(to)) = (single(first), single(last)) else { return Some(None) };
    let (low, high) = (from.min(to), from.max(to));
    let step = usize::try_from(step).unwrap_or(1);
    // Counting down by a step gives different letters than counting up, so all letters are
    // included.
    let step = if from <= to { step } else { 1 };
    Some(Some((low..=high).step_by(step).map(|c| as_tokens(c.to_string())).collect()))
}
