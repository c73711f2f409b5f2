//! An answer that is still being written: its finished blocks as HTML, and the rest as text.

use crate::pages::render_markdown;

/// An answer that is still growing.
#[derive(Default)]
pub(super) struct MarkdownBlocks {
    /// The finished blocks.
    pub(super) html: String,
    /// The text of the unfinished block.
    pub(super) rest: String,
}

impl MarkdownBlocks {
    /// Adds a piece of the answer. Returns the HTML of the blocks that the piece completes.
    pub(super) fn push(&mut self, piece: &str) -> Option<String> {
        self.rest.push_str(piece);
        // Only the end of a line finishes a block.
        if !piece.contains('\n') {
            return None;
        }
        let end = find_end_of_blocks(&self.rest)?;
        let finished: String = self.rest.drain(..end).collect();
        let html = render_markdown(&finished).into_string();
        self.html.push_str(&html);
        Some(html)
    }
}

/// Finds the end of the last finished block: the line after a blank line, or after a fenced block.
fn find_end_of_blocks(text: &str) -> Option<usize> {
    let mut fence: Option<&str> = None;
    let mut has_content = false;
    let mut end = None;
    let mut at = 0;
    for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        at += line.len();
        let words = line.trim();
        let mark = ["```", "~~~"].into_iter().find(|mark| words.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark))
                if open == mark && words.trim_matches(['`', '~']).is_empty() =>
            {
                fence = None;
                end = Some(at);
            }
            _ => {}
        }
        has_content |= !words.is_empty();
        if words.is_empty() && fence.is_none() && has_content {
            end = Some(at);
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_rendered_when_it_is_finished() {
        let mut blocks = MarkdownBlocks::default();
        assert_eq!(blocks.push("I *changed* "), None);
        assert_eq!(blocks.push("it.\n"), None);
        let html = blocks.push("\nAnd").unwrap();
        assert_eq!(html.trim(), "<p>I <em>changed</em> it.</p>");
        assert_eq!(blocks.rest, "And");
    }

    #[test]
    fn a_blank_line_does_not_end_a_fenced_block() {
        let mut blocks = MarkdownBlocks::default();
        assert_eq!(blocks.push("```rust\nfn a() {}\n\nfn b() {}\n"), None);
        let html = blocks.push("```\n").unwrap();
        assert!(html.contains("fn a() {}") && html.contains("fn b() {}"), "{html}");
        assert_eq!(blocks.rest, "");
    }

    #[test]
    fn markup_in_an_answer_stays_text() {
        let mut blocks = MarkdownBlocks::default();
        let html = blocks.push("<img src=x onerror=alert(1)>\n\n").unwrap();
        assert!(!html.contains("<img"), "{html}");
    }
}
