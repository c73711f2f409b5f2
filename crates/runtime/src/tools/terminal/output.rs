//! The output of a command, bounded in memory.

use std::collections::VecDeque;

use super::clean::clean_text;

/// The maximum number of bytes that can wait to be shown. If the output arrives faster than it is
/// shown, some of it is skipped.
const MAX_PENDING: usize = 64 * 1024;

/// The number of bytes on each side of a cut that are searched for a line end.
const MAX_LINE_SEARCH: usize = 1024;

/// The beginning and the end of an output.
pub(super) struct OutputBuffer {
    /// The maximum size of the head, and also of the tail.
    half: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl OutputBuffer {
    pub(super) fn new(max: usize) -> OutputBuffer {
        OutputBuffer { half: max / 2, head: Vec::new(), tail: VecDeque::new(), total: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(self.half - self.head.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.half)..];
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.half);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    /// Returns the output as text, and forgets it.
    pub(super) fn take(&mut self) -> String {
        let left_out = self.total - (self.head.len() + self.tail.len()) as u64;
        self.total = 0;
        let mut head = std::mem::take(&mut self.head);
        let tail: Vec<u8> = std::mem::take(&mut self.tail).into();
        if left_out == 0 {
            head.extend_from_slice(&tail);
            return clean_text(&String::from_utf8_lossy(&head));
        }
        let (head, tail) = (trim_last_line(&head), trim_first_line(&tail));
        let left_out = left_out + (2 * self.half - head.len() - tail.len()) as u64;
        let clean = |bytes: &[u8]| clean_text(&String::from_utf8_lossy(bytes));
        let plural = if left_out == 1 { "" } else { "s" };
        let gap = format!("[… {left_out} byte{plural} left out …]");
        format!("{}\n{gap}\n{}", clean(head).trim_end_matches('\n'), clean(tail))
    }
}

/// Removes an incomplete line, or at least an incomplete character, from the end of a text that was
/// cut off there.
fn trim_last_line(text: &[u8]) -> &[u8] {
    let from = text.len().saturating_sub(MAX_LINE_SEARCH);
    match text[from..].iter().rposition(|byte| *byte == b'\n') {
        Some(at) => &text[..from + at + 1],
        None => {
            let is_start = |byte: &u8| byte & 0xc0 != 0x80;
            let start = text.iter().rposition(is_start).unwrap_or_default();
            if is_incomplete(&text[start..]) { &text[..start] } else { text }
        }
    }
}

/// Removes an incomplete line, or at least an incomplete character, from the beginning of a text
/// that was cut off there.
fn trim_first_line(text: &[u8]) -> &[u8] {
    let until = text.len().min(MAX_LINE_SEARCH);
    match text[..until].iter().position(|byte| *byte == b'\n') {
        Some(at) => &text[at + 1..],
        None => {
            let inner = text.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
            &text[inner..]
        }
    }
}

/// The output of a running command that has not been shown yet.
#[derive(Default)]
pub(super) struct LiveOutput {
    pending: Vec<u8>,
    skipped: usize,
}

impl LiveOutput {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let room = MAX_PENDING - self.pending.len();
        self.pending.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.skipped += bytes.len().saturating_sub(room);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns the text up to the last complete character. At the end of the output, returns
    /// everything.
    pub(super) fn take(&mut self, is_end: bool) -> String {
        let incomplete = match self.pending.utf8_chunks().last() {
            // The next bytes may complete an invalid sequence at the very end.
            Some(last) if !is_end && self.skipped == 0 && is_incomplete(last.invalid()) => {
                last.invalid().len()
            }
            _ => 0,
        };
        let kept = self.pending.split_off(self.pending.len() - incomplete);
        let mut text = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending = kept;
        if self.skipped > 0 {
            text.push_str(&format!("\n[… {} bytes not shown …]\n", self.skipped));
            self.skipped = 0;
        }
        text
    }
}

/// Returns true if an invalid sequence could be the beginning of a character.
fn is_incomplete(invalid: &[u8]) -> bool {
    let error = std::str::from_utf8(invalid).err();
    error.is_some_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(max: usize, chunks: &[&[u8]]) -> String {
        let mut buffer = OutputBuffer::new(max);
        chunks.iter().for_each(|chunk| buffer.push(chunk));
        buffer.take()
    }

    #[test]
    fn a_short_output_is_kept_as_a_whole() {
        assert_eq!(take(8, &[b"abcd", b"efgh"]), "abcdefgh");
        assert_eq!(take(8, &[b"abcdefgh"]), "abcdefgh");
        assert_eq!(take(8, &[]), "");
    }

    #[test]
    fn the_middle_of_a_long_output_is_left_out() {
        assert_eq!(take(8, &[b"abcdefghi"]), "abcd\n[… 1 byte left out …]\nfghi");
        assert_eq!(take(8, &[b"a", b"bcde", b"fgh", b"i"]), "abcd\n[… 1 byte left out …]\nfghi");
        let lines = "line\n".repeat(1000);
        assert_eq!(
            take(24, &[lines.as_bytes()]),
            "line\nline\n[… 4980 bytes left out …]\nline\nline\n"
        );
    }

    #[test]
    fn a_cut_does_not_split_a_character() {
        let text = "é".repeat(100);
        let shown = take(10, &[text.as_bytes()]);
        assert_eq!(shown, "éé\n[… 192 bytes left out …]\néé");
    }

    #[test]
    fn output_is_returned_only_once() {
        let mut buffer = OutputBuffer::new(4);
        buffer.push(b"abcdef");
        assert!(buffer.take().contains("left out"));
        buffer.push(b"xy");
        assert_eq!(buffer.take(), "xy");
    }

    #[test]
    fn live_output_is_shown_in_whole_characters() {
        let mut live = LiveOutput::default();
        live.push(b"a\xc3");
        assert_eq!(live.take(false), "a");
        live.push(b"\xa9b\xff");
        assert_eq!(live.take(false), "éb\u{fffd}");
        live.push(b"\xe2\x82");
        assert_eq!(live.take(false), "");
        assert_eq!(live.take(true), "\u{fffd}");
        assert!(live.is_empty());
    }

    #[test]
    fn live_output_that_is_not_shown_in_time_is_skipped() {
        let mut live = LiveOutput::default();
        (0..100).for_each(|_| live.push(&[b'x'; 1024]));
        let text = live.take(false);
        assert!(text.ends_with(&format!("x\n[… {} bytes not shown …]\n", 36 * 1024)));
        live.push(b"y");
        assert_eq!(live.take(false), "y");
    }
}
