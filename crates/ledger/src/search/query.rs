//! Parsing a query. Any text is a query: there are no errors, only terms.

use crate::search::fold::fold;
use crate::search::tokens::{Piece, cut_word, is_word, pairs, pieces};

/// A query: a message matches if it matches one of the clauses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query {
    pub(crate) clauses: Vec<Clause>,
}

/// A clause: all terms of `with` and none of `without`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clause {
    pub(crate) with: Vec<Term>,
    pub(crate) without: Vec<Term>,
}

/// A term: folded text that occurs between word boundaries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) text: String,
    /// True if it needs a boundary before it.
    pub(crate) left: bool,
    /// True if it needs a boundary after it.
    pub(crate) right: bool,
}

/// A part of the typed text, before operators are interpreted.
enum TypedPart<'q> {
    Word(&'q str),
    Phrase { text: &'q str, open: bool },
}

impl Query {
    /// Parses a query; never fails. Operators without operands are ignored. If nothing else is
    /// left, they are words. If still nothing is left, the whole text is one term.
    pub(crate) fn parse(typed: &str) -> Query {
        let parts = split_parts(typed);
        let mut query = Query::from_parts(&parts, true);
        if query.clauses.is_empty() {
            query = Query::from_parts(&parts, false);
        }
        if query.clauses.is_empty()
            && let Some(term) = Term::new(typed.trim(), false, false)
        {
            query.clauses.push(Clause { with: vec![term], without: Vec::new() });
        }
        query
    }

    fn from_parts(parts: &[TypedPart<'_>], operators: bool) -> Query {
        let mut clauses = vec![Clause::default()];
        let mut negated = false;
        for part in parts {
            let term = match part {
                TypedPart::Word("OR") if operators => {
                    negated = false;
                    if clauses.last() != Some(&Clause::default()) {
                        clauses.push(Clause::default());
                    }
                    continue;
                }
                TypedPart::Word("AND") if operators => continue,
                TypedPart::Word("NOT") if operators => {
                    negated = true;
                    continue;
                }
                TypedPart::Word(word) => Term::from_word(word),
                TypedPart::Phrase { text, open } => Term::new(text, true, !open),
            };
            if let (Some(term), Some(clause)) = (term, clauses.last_mut()) {
                if negated { clause.without.push(term) } else { clause.with.push(term) }
            }
            negated = false;
        }
        clauses.retain(|clause| *clause != Clause::default());
        Query { clauses }
    }

    /// True if a message with this folded text matches.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.clauses.iter().any(|clause| {
            clause.with.iter().all(|term| term.find(text, 0).is_some())
                && clause.without.iter().all(|term| term.find(text, 0).is_none())
        })
    }

    /// The terms that a match may contain.
    pub(crate) fn terms(&self) -> impl Iterator<Item = &Term> {
        self.clauses.iter().flat_map(|clause| &clause.with)
    }

    /// The query for the index. Its answers include all matches. `None` if the index cannot help.
    pub(crate) fn index_query(&self) -> Option<String> {
        let clauses: Option<Vec<String>> = self.clauses.iter().map(Clause::index_query).collect();
        Some(clauses?.join(" OR ")).filter(|query| !query.is_empty())
    }
}

impl Clause {
    fn index_query(&self) -> Option<String> {
        /// The longest tokens are the rarest; the check of each message does the rest.
        const MOST: usize = 12;
        let mut tokens: Vec<Token<'_>> = self.with.iter().flat_map(Term::index_tokens).collect();
        tokens.sort_by_key(|token| (token.is_prefix, std::cmp::Reverse(token.text.len())));
        tokens.dedup();
        let parts: Vec<String> = tokens.iter().take(MOST).map(Token::index_query).collect();
        (!parts.is_empty()).then(|| format!("({})", parts.join(" AND ")))
    }
}

impl Term {
    fn new(text: &str, left: bool, right: bool) -> Option<Term> {
        let text = fold(text).trim().to_owned();
        (!text.is_empty()).then_some(Term { text, left, right })
    }

    /// Parses `x`, `x*` or `*x*`. Stars by themselves are stars.
    fn from_word(word: &str) -> Option<Term> {
        if word.bytes().all(|byte| byte == b'*') {
            return Term::new(word, true, true);
        }
        let (word, right) = word.strip_suffix('*').map_or((word, true), |word| (word, false));
        let (word, left) = word.strip_prefix('*').map_or((word, true), |word| (word, false));
        Term::new(word, left, right)
    }

    /// Finds the first occurrence at or after `from`, as a range of bytes of the folded text.
    pub(crate) fn find(&self, text: &str, from: usize) -> Option<std::ops::Range<usize>> {
        let mut from = from;
        loop {
            let start = from + text.get(from..)?.find(self.text.as_str())?;
            let end = start + self.text.len();
            if (!self.left || is_boundary(text, start)) && (!self.right || is_boundary(text, end)) {
                return Some(start..end);
            }
            from = start + text[start..].chars().next().map_or(1, char::len_utf8);
        }
    }

    /// The tokens that every message with this term has.
    fn index_tokens(&self) -> Vec<Token<'_>> {
        let mut tokens = Vec::new();
        for (start, piece) in pieces(&self.text) {
            match piece {
                Piece::Symbol(symbol) => tokens.push(Token::exact(symbol)),
                Piece::Run(run) if run.chars().count() == 1 => tokens.push(Token::prefix(run)),
                Piece::Run(run) => tokens.extend(pairs(run).map(Token::exact)),
                Piece::Word(word) => {
                    let is_open_left = start == 0 && !self.left;
                    let is_open_right = start + word.len() == self.text.len() && !self.right;
                    match cut_word(word) {
                        // It may be the end of a longer word, which the index cannot find.
                        _ if is_open_left => {}
                        part if is_open_right && part == word => tokens.push(Token::prefix(part)),
                        part => tokens.push(Token::exact(part)),
                    }
                }
            }
        }
        tokens
    }
}

/// True everywhere except between two characters of a word.
fn is_boundary(text: &str, at: usize) -> bool {
    let before = text[..at].chars().next_back();
    let after = text[at..].chars().next();
    !(before.is_some_and(is_word) && after.is_some_and(is_word))
}

/// A token of the index, or the beginning of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Token<'t> {
    text: &'t str,
    is_prefix: bool,
}

impl<'t> Token<'t> {
    fn exact(text: &'t str) -> Token<'t> {
        Token { text, is_prefix: false }
    }

    fn prefix(text: &'t str) -> Token<'t> {
        Token { text, is_prefix: true }
    }

    /// The token in the syntax of FTS5. It has no quotes in it, so it needs no escaping.
    fn index_query(&self) -> String {
        format!("\"{}\"{}", self.text, if self.is_prefix { " *" } else { "" })
    }
}

/// Splits a query into words at white space and phrases in quotes. A quote inside of a word is part
/// of it; a quote that is never closed is left out.
fn split_parts(typed: &str) -> Vec<TypedPart<'_>> {
    let mut parts = Vec::new();
    let mut rest = typed.trim_start();
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix('"') {
            match quoted.split_once('"') {
                Some((text, after)) => {
                    let open = after.starts_with('*');
                    parts.push(TypedPart::Phrase { text, open });
                    rest = if open { &after[1..] } else { after };
                }
                None => rest = quoted,
            }
        } else {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            parts.push(TypedPart::Word(&rest[..end]));
            rest = &rest[end..];
        }
        rest = rest.trim_start();
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_matches(query: &str, hits: &[&str], misses: &[&str]) {
        let query = Query::parse(query);
        for text in hits {
            assert!(query.matches(&fold(text)), "{query:?} in {text:?}");
        }
        for text in misses {
            assert!(!query.matches(&fold(text)), "{query:?} not in {text:?}");
        }
    }

    #[test]
    fn a_word_matches_between_boundaries() {
        assert_matches(
            "cat",
            &["a cat.", "CAT", "(cat)", "cat_food", "cät"],
            &["concat", "cats", "cat5"],
        );
        assert_matches("文件", &["这个文件夹", "文件"], &["文 件", "件文"]);
        assert_matches("v2", &["版本v2发布"], &["v23"]);
        assert_matches("ไทย", &["ภาษาไทยง่าย"], &["ไท ย"]);
    }

    #[test]
    fn punctuation_in_a_term_is_literal() {
        assert_matches("chat-send", &["run chat-send now"], &["chat send", "chat_send"]);
        assert_matches("main.rs", &["src/main.rs:3"], &["main rs", "domain.rs"]);
        assert_matches("C++", &["in C++.", "c++11"], &["c + +", "abc++"]);
        assert_matches("x.y(z)", &["call x.y(z);"], &["x.y (z)"]);
        assert_matches("50%", &["at 50% of"], &["150%", "50 %"]);
        assert_matches("👍", &["ok👍🏽"], &["👎"]);
        assert_matches("foo\"bar", &["a foo\"bar b"], &["foo bar"]);
    }

    #[test]
    fn stars_drop_boundaries() {
        assert_matches("conf*", &["config", "conf"], &["reconf"]);
        assert_matches("*onf*", &["reconfigure", "conf"], &["on f"]);
        assert_matches("*fig", &["config"], &["figs"]);
        assert_matches("*", &["a * b"], &["a b"]);
        assert_matches("**", &["2 ** 3"], &["2 * 3"]);
        assert_matches("\"to b\"*", &["not to be"], &["to a"]);
    }

    #[test]
    fn terms_are_combined() {
        assert_matches("red blue", &["blue and red"], &["red"]);
        assert_matches("red AND blue", &["blue and red"], &["red"]);
        assert_matches("red OR blue", &["blue", "red"], &["green"]);
        assert_matches("red NOT blue", &["red"], &["red blue"]);
        assert_matches("a b OR c d", &["a b", "d c"], &["a c"]);
        assert_matches("\"red blue\"", &["the red\n blue one"], &["red, blue", "blue red"]);
        assert_matches("NOT blue", &["red"], &["blue"]);
    }

    #[test]
    fn anything_typed_is_a_query() {
        assert_matches("\"red blue", &["blue red"], &["red"]);
        assert_matches("red OR", &["red"], &["or"]);
        assert_matches("OR red", &["red"], &["or"]);
        assert_matches("red NOT", &["red"], &["not"]);
        assert_matches("OR", &["this or that"], &["this"]);
        assert_matches("NOT", &["not that"], &["that"]);
        assert_matches("NOT OR AND", &["and or not"], &["and or"]);
        assert_matches("\"", &["say \"hi\""], &["hi"]);
        assert_matches("\"\"", &["x = \"\""], &["x = \""]);
        assert_eq!(Query::parse("  \n "), Query::default());
        assert!(!Query::parse(&"a\"( ".repeat(1000)).clauses.is_empty());
    }
}
