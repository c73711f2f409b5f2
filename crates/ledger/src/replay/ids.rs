//! Call ids and tool names that an API accepts.

use std::collections::{HashMap, HashSet};

/// A source of unique call ids. It keeps stored ids where possible.
pub(super) struct CallIds {
    max_length: usize,
    /// True if only letters, digits, `_` and `-` are allowed.
    is_plain: bool,
    taken: HashSet<String>,
    /// For each id that is taken, the next number to append to it.
    next: HashMap<String, usize>,
}

impl CallIds {
    /// Returns a source of ids that OpenAI accepts: at most 40 bytes, of any characters.
    pub(super) fn openai() -> CallIds {
        CallIds::new(40, false)
    }

    /// Returns a source of ids that Anthropic accepts: at most 64 letters, digits, `_` and `-`.
    pub(super) fn anthropic() -> CallIds {
        CallIds::new(64, true)
    }

    /// Returns a source of ids that OpenAI's Responses API accepts: at most 64 bytes, of any
    /// characters.
    pub(super) fn responses() -> CallIds {
        CallIds::new(64, false)
    }

    fn new(max_length: usize, is_plain: bool) -> CallIds {
        CallIds { max_length, is_plain, taken: HashSet::new(), next: HashMap::new() }
    }

    /// Allows all ids to be reused.
    pub(super) fn forget_all(&mut self) {
        self.taken.clear();
        self.next.clear();
    }

    /// Assigns an id to a call that was stored under `id`, which may be empty.
    pub(super) fn assign_id(&mut self, id: &str) -> String {
        let wanted = match id {
            "" => "call".to_owned(),
            id if self.is_plain => replace_special(id),
            id => id.to_owned(),
        };
        let mut name = cut_text(&wanted, self.max_length).to_owned();
        let next = self.next.entry(name.clone()).or_insert(2);
        let base = name.clone();
        while !self.taken.insert(name.clone()) {
            let suffix = format!("_{next}");
            name = format!("{}{suffix}", cut_text(&base, self.max_length - suffix.len()));
            *next += 1;
        }
        name
    }
}

/// Converts a tool name to one that every API accepts. All APIs allow the same characters. The
/// length limit is that of OpenAI's chat completions API, which is the lowest.
pub(super) fn tool_name(name: &str) -> String {
    cut_text(&replace_special(name), 64).to_owned()
}

fn replace_special(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    text.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

/// Truncates text to at most `max_length` bytes.
fn cut_text(text: &str, max_length: usize) -> &str {
    let end = (0..=max_length.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or_default()]
}
