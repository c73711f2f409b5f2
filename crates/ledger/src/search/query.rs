//! What people type → what a message has to contain. Anything typed is a query: there are no
//! errors, only terms.

use crate::search::fold::fold;
use crate::search::tokens::{Piece, cut, is_word, pairs, pieces};

/// Alternatives: a message matches if it matches one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query {
    pub(crate) clauses: Vec<Clause>,
}

/// All of these, none of those.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clause {
    pub(crate) with: Vec<Term>,
    pub(crate) without: Vec<Term>,
}

/// Folded text that occurs between boundaries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) text: String,
    /// Whether a boundary is needed before and after it.
    pub(crate) left: bool,
    pub(crate) right: bool,
}

/// What is typed, before operators are looked at.
enum Typed<'q> {
    Word(&'q str),
    Phrase { text: &'q str, open: bool },
}

impl Query {
    /// Never fails. Operators without operands are ignored; if nothing else is left, they are
    /// words; if still nothing is left, the whole text is one term.
    pub(crate) fn parse(typed: &str) -> Query {
        let parts = split(typed);
        let mut query = Query::of(&parts, true);
        if query.clauses.is_empty() {
            query = Query::of(&parts, false);
        }
        if query.clauses.is_empty()
            && let Some(term) = Term::new(typed.trim(), false, false)
        {
            query.clauses.push(Clause { with: vec![term], without: Vec::new() });
        }
        query
    }

    fn of(parts: &[Typed<'_>], operators: bool) -> Query {
        let mut clauses = vec![Clause::default()];
        let mut negated = false;
        for part in parts {
            let term = match part {
                Typed::Word("OR") if operators => {
                    negated = false;
                    if clauses.last() != Some(&Clause::default()) {
                        clauses.push(Clause::default());
                    }
                    continue;
                }
                Typed::Word("AND") if operators => continue,
                Typed::Word("NOT") if operators => {
                    negated = true;
                    continue;
                }
                Typed::Word(word) => Term::word(word),
                Typed::Phrase { text, open } => Term::new(text, true, !open),
            };
            if let (Some(term), Some(clause)) = (term, clauses.last_mut()) {
                if negated { clause.without.push(term) } else { clause.with.push(term) }
            }
            negated = false;
        }
        clauses.retain(|clause| *clause != Clause::default());
        Query { clauses }
    }

    /// Whether a message with this folded text matches.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.clauses.iter().any(|clause| {
            clause.with.iter().all(|term| term.find(text, 0).is_some())
                && clause.without.iter().all(|term| term.find(text, 0).is_none())
        })
    }

    /// The terms that a match may have.
    pub(crate) fn terms(&self) -> impl Iterator<Item = &Term> {
        self.clauses.iter().flat_map(|clause| &clause.with)
    }

    /// The query for the index, whose answers include all that match; `None` if the index cannot
    /// help.
    pub(crate) fn index_query(&self) -> Option<String> {
        let clauses: Option<Vec<String>> = self.clauses.iter().map(Clause::index_query).collect();
        Some(clauses?.join(" OR ")).filter(|query| !query.is_empty())
    }
}

impl Clause {
    fn index_query(&self) -> Option<String> {
        /// The longest tokens are the rarest; the check of the message does the rest.
        const MOST: usize = 12;
        let mut tokens: Vec<Token<'_>> = self.with.iter().flat_map(Term::tokens).collect();
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

    /// `x`, `x*`, `*x*`. Stars by themselves are stars.
    fn word(word: &str) -> Option<Term> {
        if word.bytes().all(|byte| byte == b'*') {
            return Term::new(word, true, true);
        }
        let (word, right) = word.strip_suffix('*').map_or((word, true), |word| (word, false));
        let (word, left) = word.strip_prefix('*').map_or((word, true), |word| (word, false));
        Term::new(word, left, right)
    }

    /// The first occurrence at or after `from`, as bytes of the folded text.
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

    /// Tokens that every message has in which the term occurs.
    fn tokens(&self) -> Vec<Token<'_>> {
        let mut tokens = Vec::new();
        for (start, piece) in pieces(&self.text) {
            match piece {
                Piece::Symbol(symbol) => tokens.push(Token::exact(symbol)),
                Piece::Run(run) if run.chars().count() == 1 => tokens.push(Token::prefix(run)),
                Piece::Run(run) => tokens.extend(pairs(run).map(Token::exact)),
                Piece::Word(word) => {
                    let is_open_left = start == 0 && !self.left;
                    let is_open_right = start + word.len() == self.text.len() && !self.right;
                    match cut(word) {
                        // It may be the end of a longer word, of which the index knows nothing.
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

/// Between two characters of a word there is no boundary; everywhere else there is.
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

    /// Tokens have no quotes in them, so this needs no escaping.
    fn index_query(&self) -> String {
        format!("\"{}\"{}", self.text, if self.is_prefix { " *" } else { "" })
    }
}

/// Words at white space, and phrases in quotes. A quote inside of a word is part of it, and one
/// that is never closed is left out.
fn split(typed: &str) -> Vec<Typed<'_>> {
    let mut parts = Vec::new();
    let mut rest = typed.trim_start();
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix('"') {
            match quoted.split_once('"') {
                Some((text, after)) => {
                    let open = after.starts_with('*');
                    parts.push(Typed::Phrase { text, open });
                    rest = if open { &after[1..] } else { after };
                }
                None => rest = quoted,
            }
        } else {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            parts.push(Typed::Word(&rest[..end]));
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
    fn check(query: &str, hits: &[&str], misses: &[&str]) {
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
        check("cat", &["a cat.", "CAT", "(cat)", "cat_food", "cät"], &["concat", "cats", "cat5"]);
        check("文件", &["这个文件夹", "文件"], &["文 件", "件文"]);
        check("v2", &["版本v2发布"], &["v23"]);
        check("ไทย", &["ภาษาไทยง่าย"], &["ไท ย"]);
    }

    #[test]
    fn punctuation_in_a_term_is_literal() {
        check("chat-send", &["run chat-send now"], &["chat send", "chat_send"]);
        check("main.rs", &["src/main.rs:3"], &["main rs", "domain.rs"]);
        check("C++", &["in C++.", "c++11"], &["c + +", "abc++"]);
        check("x.y(z)", &["call x.y(z);"], &["x.y (z)"]);
        check("50%", &["at 50% of"], &["150%", "50 %"]);
        check("👍", &["ok👍🏽"], &["👎"]);
        check("foo\"bar", &["a foo\"bar b"], &["foo bar"]);
    }

    #[test]
    fn stars_drop_boundaries() {
        check("conf*", &["config", "conf"], &["reconf"]);
        check("*onf*", &["reconfigure", "conf"], &["on f"]);
        check("*fig", &["config"], &["figs"]);
        check("*", &["a * b"], &["a b"]);
        check("**", &["2 ** 3"], &["2 * 3"]);
        check("\"to b\"*", &["not to be"], &["to a"]);
    }

    #[test]
    fn terms_are_combined() {
        check("red blue", &["blue and red"], &["red"]);
        check("red AND blue", &["blue and red"], &["red"]);
        check("red OR blue", &["blue", "red"], &["green"]);
        check("red NOT blue", &["red"], &["red blue"]);
        check("a b OR c d", &["a b", "d c"], &["a c"]);
        check("\"red blue\"", &["the red\n blue one"], &["red, blue", "blue red"]);
        check("NOT blue", &["red"], &["blue"]);
    }

    #[test]
    fn anything_typed_is_a_query() {
        check("\"red blue", &["blue red"], &["red"]);
        check("red OR", &["red"], &["or"]);
        check("OR red", &["red"], &["or"]);
        check("red NOT", &["red"], &["not"]);
        check("OR", &["this or that"], &["this"]);
        check("NOT", &["not that"], &["that"]);
        check("NOT OR AND", &["and or not"], &["and or"]);
        check("\"", &["say \"hi\""], &["hi"]);
        check("\"\"", &["x = \"\""], &["x = \""]);
        assert_eq!(Query::parse("  \n "), Query::default());
        assert!(!Query::parse(&"a\"( ".repeat(1000)).clauses.is_empty());
    }
}
