//! Standard input, line by line.

use std::io::{self, BufRead, Read};

/// A longer line is not read.
pub(super) const MAX_LINE: usize = 64 << 20;

/// What came in.
pub(super) enum Line {
    Text(Vec<u8>),
    TooLong,
}

/// The next line, without its end; `None` at the end of the input. A line that is too long is
/// skipped, and never held in memory.
pub(super) fn next(input: &mut impl BufRead) -> io::Result<Option<Line>> {
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
