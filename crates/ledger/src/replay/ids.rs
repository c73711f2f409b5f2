//! Names of calls and tools that an API takes.

use std::collections::{HashMap, HashSet};

/// Hands out names of calls: as they were stored where that is possible, and no name twice.
pub(super) struct Ids {
    longest: usize,
    /// Only letters, digits, `_` and `-`.
    plain: bool,
    taken: HashSet<String>,
    /// The next number to try behind a name that is taken.
    next: HashMap<String, usize>,
}

impl Ids {
    /// OpenAI takes any characters, but few.
    pub(super) fn openai() -> Ids {
        Ids::new(40, false)
    }

    pub(super) fn anthropic() -> Ids {
        Ids::new(64, true)
    }

    fn new(longest: usize, plain: bool) -> Ids {
        Ids { longest, plain, taken: HashSet::new(), next: HashMap::new() }
    }

    /// Names may be used again from here on.
    pub(super) fn forget(&mut self) {
        self.taken.clear();
        self.next.clear();
    }

    /// The name for a call that was stored under `id`, which may be empty.
    pub(super) fn assign(&mut self, id: &str) -> String {
        let wanted = match id {
            "" => "call".to_owned(),
            id if self.plain => plain(id),
            id => id.to_owned(),
        };
        let mut name = cut(&wanted, self.longest).to_owned();
        let next = self.next.entry(name.clone()).or_insert(2);
        let base = name.clone();
        while !self.taken.insert(name.clone()) {
            let suffix = format!("_{next}");
            name = format!("{}{suffix}", cut(&base, self.longest - suffix.len()));
            *next += 1;
        }
        name
    }
}

/// A tool's name. Both APIs allow the same characters, OpenAI the shorter names.
pub(super) fn tool_name(name: &str) -> String {
    cut(&plain(name), 64).to_owned()
}

fn plain(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    text.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

/// The beginning of a text, at most `longest` bytes.
fn cut(text: &str, longest: usize) -> &str {
    let end = (0..=longest.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or_default()]
}
