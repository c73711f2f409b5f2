//! The table of the kinds of secrets.
//!
//! The order matters: if two rules find the same text, the mask names the earlier rule. So exact
//! formats come first and guesses last.
//!
//! To stay small, expressions avoid Unicode tables (by using `[A-Za-z]`, `(?i-u:…)` and `[ \t]`)
//! and rarely repeat negated sets. They need not check that a secret starts and ends at a word
//! boundary, because the search does.

/// The expression that matches the text between a name and its value: `=`, `: `, `:=`, `=>`,
/// `": "`, `"] = `, `: &str = `. Also matches `value: ` or `value=` in the next field, as in lists
/// of environment variables.
macro_rules! gives {
    () => {
        r#"(?:(?:\\*["'`])?\]?[ \t]{0,8}(?::[ \t]{0,4}&?(?:'static )?[A-Za-z]{2,12}[ \t]{0,4}=|:=|=>|={1,3}|:)|(?:\\*["'])?,?(?:[ \t\r\n]|\\+n)+(?:\\*["'])?value(?:\\*["'])?[ \t]{0,4}[:=])[ \t]{0,8}"#
    };
}

/// A word on a command line, in quotes or bare. A quote before `:`, `,`, `}` or `]` does not begin
/// a word: it ends a JSON string.
macro_rules! word {
    () => {
        r#"(?:\\*["']([^ \t\r\n"'`\\:,}\]][^ \t\r\n"'`\\]{3,})|([^ \t\r\n"'`\\|;&<>()]{4,}))"#
    };
}

/// The options of a command before the one that contains the secret: printable ASCII without `&`,
/// `;`, `|` or escaped line breaks, because these end a command.
macro_rules! options {
    () => {
        r#"(?:(?:[ -%'-:<-\[\]-{}~]|\\+["'$/]){0,300}? )?"#
    };
}

mod commands;
mod formats;
mod guesses;

use std::sync::LazyLock;

/// All rules, the most certain first.
pub(super) static RULES: LazyLock<Vec<Rule>> =
    LazyLock::new(|| [formats::FORMATS, commands::COMMANDS, guesses::GUESSES].concat());

/// One kind of secret.
#[derive(Clone, Copy)]
pub(super) struct Rule {
    /// The name in the mask.
    pub(super) id: &'static str,
    /// A description for readers of this table.
    #[allow(dead_code)]
    pub(super) about: &'static str,
    /// The keywords. Every secret of this kind contains one of them or has one next to it.
    pub(super) keywords: &'static [&'static str],
    /// The expression around the keyword. The secret is the first group that matches; without
    /// groups, it is the whole match. For `Name` and `Option`, it is the value after the match.
    pub(super) regex: &'static str,
    /// The minimum entropy of the secret in bits per byte: `AAAA…` is not a key.
    pub(super) entropy: f32,
    pub(super) position: KeywordPosition,
    pub(super) test: SecretTest,
}

/// The position of the keyword in the expression.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum KeywordPosition {
    /// The secret starts with the keyword. The keyword is case-sensitive.
    Start,
    /// The expression starts with the keyword, in upper or lower case; the secret comes later.
    Before,
    /// The keyword, in upper or lower case, is the end of a name; the expression ends where the
    /// value starts.
    Name,
    /// The keyword is the end of a command-line option, `--name value` or `-name value`; the
    /// expression ends where the value starts.
    Option,
    /// The expression starts at most this many bytes before the keyword.
    Around(usize),
    /// The keyword begins or ends a block of lines: see [`super::pem`].
    Block,
}

/// The test that a match has to pass in addition to the minimum entropy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SecretTest {
    /// No test, because the format is proof enough.
    Format,
    /// Letters and digits in an order that a human would not choose.
    Random,
    /// Like `Random`, but not a UUID, because many UUIDs are called tokens without being secret.
    Token,
    /// A likely password.
    Password,
    /// A likely password that stands out in any sentence: different kinds of characters, mixed.
    Jumbled,
    /// A likely password that stands out in most sentences: mixed characters, or a word with a
    /// number.
    Chosen,
    /// A likely password in a URL: not a port with a path.
    InUrl,
    /// Anything but an obvious placeholder.
    Any,
}

/// Returns a rule for a token that starts with a keyword and needs no further test.
const fn token(
    id: &'static str,
    about: &'static str,
    keywords: &'static [&'static str],
    regex: &'static str,
    entropy: f32,
) -> Rule {
    Rule {
        id,
        about,
        keywords,
        regex,
        entropy,
        position: KeywordPosition::Start,
        test: SecretTest::Format,
    }
}

impl Rule {
    const fn at(mut self, position: KeywordPosition) -> Rule {
        self.position = position;
        self
    }

    const fn test(mut self, test: SecretTest) -> Rule {
        self.test = test;
        self
    }
}
