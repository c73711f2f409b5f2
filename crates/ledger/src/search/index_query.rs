//! Queries for an index of tokens.

/// A condition that the tokens of a message satisfy if the message matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexQuery {
    /// The message has this token, or one that begins with it. Tokens contain no quotes.
    Token {
        /// The token, or its beginning.
        text: String,
        /// True if the token may be longer.
        is_prefix: bool,
    },
    /// All of these conditions.
    All(Vec<IndexQuery>),
    /// At least one of these conditions.
    Any(Vec<IndexQuery>),
}

impl IndexQuery {
    /// Formats the query for FTS5.
    pub(super) fn to_fts5(&self) -> String {
        self.format(" AND ", " OR ", &|text, is_prefix| {
            format!("\"{text}\"{}", if is_prefix { " *" } else { "" })
        })
    }

    /// Formats the query. `and` and `or` are the operators, with the spaces around them. `token`
    /// formats a token; its second argument is true if the token may be longer.
    pub fn format(&self, and: &str, or: &str, token: &dyn Fn(&str, bool) -> String) -> String {
        let join = |parts: &[IndexQuery], operator: &str| {
            let parts: Vec<String> = parts.iter().map(|part| part.format(and, or, token)).collect();
            format!("({})", parts.join(operator))
        };
        match self {
            IndexQuery::Token { text, is_prefix } => token(text, *is_prefix),
            IndexQuery::All(parts) => join(parts, and),
            IndexQuery::Any(parts) => join(parts, or),
        }
    }
}
