//! Parsing a query. Any text is a valid query.

use crate::search::fold::fold;
use crate::search::index_query::IndexQuery;
use crate::search::tokens::{Piece, cut_word, is_word, pairs, pieces};
use crate::search::typed::{TypedPart, split_query, trim_stray};

/// A query. If nothing was typed, it has no root and matches nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query {
    root: Option<Node>,
}

/// A part of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Term(Term),
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
}

/// A term: folded text that occurs between word boundaries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) text: String,
    /// True if the term needs a boundary before it.
    pub(crate) left: bool,
    /// True if the term needs a boundary after it.
    pub(crate) right: bool,
}

impl Query {
    /// Parses a query; never fails. Operators without operands and punctuation around words are
    /// ignored. If no term remains, operators are parsed as words. If there is still no term, the
    /// whole text is one term.
    pub(crate) fn parse(typed: &str) -> Query {
        let parts = split_query(typed);
        let root = parse_parts(&parts, true)
            .or_else(|| parse_parts(&parts, false))
            .or_else(|| Term::new(typed.trim(), false, false).map(Node::Term));
        Query { root }
    }

    /// True if nothing was typed.
    pub(crate) fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// True if a message with this folded text matches.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.root.as_ref().is_some_and(|root| root.matches(text))
    }

    /// Returns all terms except those that the query excludes.
    pub(crate) fn terms(&self) -> impl Iterator<Item = &Term> {
        let mut terms = Vec::new();
        if let Some(root) = &self.root {
            root.collect_terms(&mut terms);
        }
        terms.into_iter()
    }

    /// Returns a query for the index. Its results include all matches. Returns `None` if the index
    /// cannot help.
    pub(crate) fn index_query(&self) -> Option<IndexQuery> {
        self.root.as_ref()?.index_query()
    }
}

impl Node {
    fn matches(&self, text: &str) -> bool {
        match self {
            Node::Term(term) => term.find(text, 0).is_some(),
            Node::All(nodes) => nodes.iter().all(|node| node.matches(text)),
            Node::Any(nodes) => nodes.iter().any(|node| node.matches(text)),
            Node::Not(node) => !node.matches(text),
        }
    }

    fn collect_terms<'n>(&'n self, terms: &mut Vec<&'n Term>) {
        match self {
            Node::Term(term) => terms.push(term),
            Node::All(nodes) | Node::Any(nodes) => {
                nodes.iter().for_each(|node| node.collect_terms(terms));
            }
            Node::Not(_) => {}
        }
    }

    fn index_query(&self) -> Option<IndexQuery> {
        /// With more alternatives than this, the index is no faster than a scan.
        const MAX_ALTERNATIVES: usize = 200;
        match self {
            Node::Term(_) => require_all(std::slice::from_ref(self)),
            Node::All(nodes) => require_all(nodes),
            Node::Any(nodes) if nodes.len() > MAX_ALTERNATIVES => None,
            Node::Any(nodes) => {
                let parts: Option<Vec<IndexQuery>> = nodes.iter().map(Node::index_query).collect();
                Some(IndexQuery::Any(parts?))
            }
            Node::Not(_) => None,
        }
    }
}

/// Builds the index query for nodes that must all match. Returns `None` if the index cannot help.
fn require_all(nodes: &[Node]) -> Option<IndexQuery> {
    /// The maximum number of tokens, and of groups, in the index query. If there are more, the
    /// query keeps whole words rather than prefixes, and long tokens rather than short ones,
    /// because these are usually rarer. Leaving out the rest does not change the results, because
    /// each message is checked anyway.
    const MOST: usize = 12;
    let terms = nodes.iter().filter_map(|node| match node {
        Node::Term(term) => Some(term),
        _ => None,
    });
    let mut tokens: Vec<Token<'_>> = terms.flat_map(Term::index_tokens).collect();
    tokens.sort_by_key(|token| (token.is_prefix, std::cmp::Reverse(token.text.len())));
    tokens.dedup();
    let tokens = tokens.iter().take(MOST).map(Token::index_query);
    let groups = nodes.iter().filter(|node| !matches!(node, Node::Term(_)));
    let groups = groups.filter_map(Node::index_query).take(MOST);
    let parts: Vec<IndexQuery> = tokens.chain(groups).collect();
    (!parts.is_empty()).then_some(IndexQuery::All(parts))
}

/// A group whose closing parenthesis has not been reached.
#[derive(Default)]
struct Group {
    /// The alternatives, each with the nodes that must all match.
    alternatives: Vec<Vec<Node>>,
    /// True if the next node is excluded.
    is_next_negated: bool,
}

impl Group {
    fn add(&mut self, node: Option<Node>) {
        let Some(node) = node else { return };
        let node = match std::mem::take(&mut self.is_next_negated) {
            true => Node::Not(Box::new(node)),
            false => node,
        };
        match self.alternatives.last_mut() {
            Some(nodes) => nodes.push(node),
            None => self.alternatives.push(vec![node]),
        }
    }

    fn begin_alternative(&mut self) {
        self.is_next_negated = false;
        self.alternatives.push(Vec::new());
    }

    fn finish(self) -> Option<Node> {
        let alternatives = self.alternatives.into_iter();
        let mut any: Vec<Node> = alternatives.filter_map(|all| unwrap_or(all, Node::All)).collect();
        any.dedup();
        unwrap_or(any, Node::Any)
    }
}

/// Combines several nodes into one. Returns a single node unchanged.
fn unwrap_or(mut nodes: Vec<Node>, combine: fn(Vec<Node>) -> Node) -> Option<Node> {
    match nodes.len() {
        0 | 1 => nodes.pop(),
        _ => Some(combine(nodes)),
    }
}

/// Interprets the parts of a query. Returns `None` if they contain no term.
fn parse_parts(parts: &[TypedPart<'_>], operators: bool) -> Option<Node> {
    let mut group = Group::default();
    let mut outer: Vec<Group> = Vec::new();
    for part in parts {
        match part {
            TypedPart::Open => outer.push(std::mem::take(&mut group)),
            TypedPart::Close => {
                if let Some(before) = outer.pop() {
                    let inner = std::mem::replace(&mut group, before).finish();
                    group.add(inner);
                }
            }
            TypedPart::Word("OR") if operators => group.begin_alternative(),
            TypedPart::Word("AND") if operators => {}
            TypedPart::Word("NOT") if operators => group.is_next_negated = true,
            TypedPart::Word(word) => group.add(Term::from_word(word).map(Node::Term)),
            TypedPart::Phrase { text, open } => {
                group.add(Term::new(text, true, !open).map(Node::Term));
            }
        }
    }
    group.finish()
}

impl Term {
    fn new(text: &str, left: bool, right: bool) -> Option<Term> {
        let text = fold(text).trim().to_owned();
        (!text.is_empty()).then_some(Term { text, left, right })
    }

    /// Parses `x`, `x*`, `*x` or `*x*`. Returns `None` for standalone punctuation.
    fn from_word(word: &str) -> Option<Term> {
        let word = trim_stray(word);
        if word.chars().all(|c| c.is_ascii_punctuation()) {
            return None;
        }
        let (word, right) = word.strip_suffix('*').map_or((word, true), |word| (word, false));
        let (word, left) = word.strip_prefix('*').map_or((word, true), |word| (word, false));
        Term::new(trim_stray(word), left, right)
    }

    /// Finds the first occurrence at or after `from`, as a byte range of the folded text.
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

    /// Returns tokens that the index has for every message that contains this term.
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
                        // The word may be the end of a longer word, and the index cannot find a
                        // word by its end.
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

    /// Returns the condition that a message has the token.
    fn index_query(&self) -> IndexQuery {
        IndexQuery::Token { text: self.text.to_owned(), is_prefix: self.is_prefix }
    }
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
    fn a_star_lets_a_term_begin_or_end_inside_a_word() {
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
        assert!(!Query::parse(&"a\"( ".repeat(1000)).is_empty());
    }

    #[test]
    fn parentheses_group_terms() {
        assert_matches("(docker OR kubernetes)", &["docker", "kubernetes"], &["podman"]);
        assert_matches("(red OR blue) car", &["red car", "car, blue"], &["red", "car"]);
        assert_matches("red OR (blue car)", &["red", "blue car"], &["blue"]);
        assert_matches("car NOT (red OR blue)", &["car"], &["red car", "blue car"]);
        assert_matches("NOT (red blue)", &["red", "blue"], &["red blue"]);
        assert_matches("((red) AND (\"blue car\" OR f(x)))", &["red f(x)"], &["f(x)", "red f x"]);
        let deep = format!("{}red{} OR blue", "(".repeat(100_000), ")".repeat(100_000));
        assert_matches(&deep, &["red", "blue"], &["green"]);
    }

    #[test]
    fn punctuation_around_words_is_ignored() {
        for query in [
            "{docker}",
            "^docker",
            "docker)",
            "(docker",
            "docker,",
            "[docker]",
            "docker.",
            "'docker'",
            "<docker>",
            "docker !",
            "- docker",
            "docker && \"",
            "docker:",
            ":(docker",
        ] {
            assert_matches(query, &["about docker"], &["podman"]);
        }
        assert_matches("red ( OR blue", &["red", "blue"], &["green"]);
        assert_matches("a ( b OR c", &["a b", "c"], &["a"]);
        assert_matches("red NOT , blue", &["red"], &["red blue"]);
        assert_matches(":)", &["well :)"], &["well"]);
        assert_matches("()", &["f()"], &["f"]);
        assert_matches("Vec<T>", &["a Vec<T>"], &["Vec T"]);
        assert_matches(".gitignore", &["the .gitignore"], &["gitignore"]);
        assert_matches("--force", &["rm --force"], &["force"]);
    }
}
