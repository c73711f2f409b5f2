//! Splits a stream into lines without changing a byte.

use std::io::{self, ErrorKind, Read};

use super::super::rpc::input::MAX_LINE;

/// The maximum number of bytes to read in one system call.
const CHUNK: usize = 64 << 10;

/// A piece of a stream. Joined together, the pieces are the whole stream.
#[derive(Debug, PartialEq)]
pub(super) enum Piece {
    /// A line with its line ending. Only the last line of a stream may lack a line ending.
    Line(Vec<u8>),
    /// A part of a line that is too long to be kept in memory.
    Part { bytes: Vec<u8>, is_first: bool, is_last: bool },
}

/// Reads the pieces of a stream.
pub(super) struct LineReader<R> {
    input: R,
    bytes: Vec<u8>,
    /// The number of bytes at the beginning of `bytes` that are known to contain no line ending.
    searched: usize,
    /// The length above which a line is passed on in parts.
    max_line: usize,
    /// True while a line is passed on in parts.
    is_in_parts: bool,
}

impl<R: Read> LineReader<R> {
    pub(super) fn new(input: R) -> LineReader<R> {
        LineReader { input, bytes: Vec::new(), searched: 0, max_line: MAX_LINE, is_in_parts: false }
    }

    /// Reads the next piece. Returns `None` at the end of the stream.
    pub(super) fn next_piece(&mut self) -> io::Result<Option<Piece>> {
        loop {
            let end = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n');
            if let Some(end) = end {
                let rest = self.bytes.split_off(self.searched + end + 1);
                return Ok(Some(self.take(rest, true)));
            }
            self.searched = self.bytes.len();
            if self.bytes.len() > self.max_line || (self.is_in_parts && !self.bytes.is_empty()) {
                return Ok(Some(self.take(Vec::new(), false)));
            }
            if !self.read()? {
                let is_over = self.bytes.is_empty() && !self.is_in_parts;
                return Ok((!is_over).then(|| self.take(Vec::new(), true)));
            }
        }
    }

    /// Returns the bytes that have been read, as a piece, and continues with `rest`. `is_end` is
    /// true if the returned bytes end a line.
    fn take(&mut self, rest: Vec<u8>, is_end: bool) -> Piece {
        let bytes = std::mem::replace(&mut self.bytes, rest);
        self.searched = 0;
        let was_in_parts = std::mem::replace(&mut self.is_in_parts, !is_end);
        match (was_in_parts, is_end) {
            (false, true) => Piece::Line(bytes),
            _ => Piece::Part { bytes, is_first: !was_in_parts, is_last: is_end },
        }
    }

    /// Reads the available bytes. Returns false at the end of the stream.
    fn read(&mut self) -> io::Result<bool> {
        let length = self.bytes.len();
        self.bytes.resize(length + CHUNK, 0);
        let read = loop {
            match self.input.read(&mut self.bytes[length..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.bytes.truncate(length + *read.as_ref().unwrap_or(&0));
        read.map(|count| count > 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// A stream that arrives in pieces of given sizes.
    struct Chunks<'a> {
        bytes: &'a [u8],
        sizes: Vec<usize>,
    }

    impl Read for Chunks<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let size = self.sizes.pop().unwrap_or(usize::MAX);
            let size = size.max(1).min(self.bytes.len()).min(buffer.len());
            let (now, later) = self.bytes.split_at(size);
            buffer[..size].copy_from_slice(now);
            self.bytes = later;
            Ok(size)
        }
    }

    fn read_all(bytes: &[u8], sizes: Vec<usize>, max_line: usize) -> Vec<Piece> {
        let mut reader = LineReader { max_line, ..LineReader::new(Chunks { bytes, sizes }) };
        let mut pieces = Vec::new();
        while let Some(piece) = reader.next_piece().unwrap() {
            pieces.push(piece);
        }
        pieces
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_or_changed(
            bytes in vec(prop_oneof![2 => Just(b'\n'), 8 => any::<u8>()], 0..200),
            sizes in vec(0usize..20, 0..40),
            max_line in 1usize..30,
        ) {
            let pieces = read_all(&bytes, sizes, max_line);
            let mut all = Vec::new();
            let mut is_in_parts = false;
            for piece in pieces {
                match piece {
                    Piece::Line(line) => {
                        prop_assert!(!is_in_parts && !line.is_empty());
                        let inner = line.strip_suffix(b"\n").unwrap_or(&line);
                        prop_assert!(!inner.contains(&b'\n'));
                        all.extend(line);
                    }
                    Piece::Part { bytes, is_first, is_last } => {
                        prop_assert_eq!(is_first, !is_in_parts);
                        is_in_parts = !is_last;
                        all.extend(bytes);
                    }
                }
            }
            prop_assert!(!is_in_parts);
            prop_assert_eq!(all, bytes);
        }
    }

    #[test]
    fn a_line_that_is_too_long_arrives_in_parts() {
        let pieces = read_all(b"ab\nlong line\ncd", vec![1; 20], 4);
        let is_part = |piece: &&Piece| matches!(piece, Piece::Part { .. });
        assert!(pieces.iter().filter(is_part).count() > 1);
        assert_eq!(pieces.first(), Some(&Piece::Line(b"ab\n".to_vec())));
        assert_eq!(pieces.last(), Some(&Piece::Line(b"cd".to_vec())));
    }
}
