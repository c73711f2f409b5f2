//! Standard input, line by line.

use std::io::{self, BufRead, Read};

/// The length of the longest line that is read.
pub(super) const MAX_LINE: usize = 64 << 20;

/// A line of input.
pub(super) enum Line {
    Text(Vec<u8>),
    TooLong,
}

/// Reads the next line, without its end. Returns `None` at the end of the input. A line that is too
/// long is skipped and not kept in memory.
pub(super) fn read_line(input: &mut impl BufRead) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    let most = MAX_LINE as u64 + 1;
    if input.by_ref().take(most).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() > MAX_LINE {
        drop(line);
        skip_line(input)?;
        return Ok(Some(Line::TooLong));
    }
    Ok(Some(Line::Text(line)))
}

fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(buffer.len(), |end| end + 1);
        input.consume(length);
        if end.is_some() || length == 0 {
            return Ok(());
        }
    }
}
