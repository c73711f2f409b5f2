//! The size of the terminal.

use std::io;
use std::os::fd::AsFd;

/// The number of columns and rows of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

impl Size {
    /// Returns the size of the terminal behind a stream. Returns `None` if the stream is not a
    /// terminal, or if the terminal does not report a size.
    pub(crate) fn of(stream: impl AsFd) -> Option<Size> {
        let (width, height) = terminal_size::terminal_size_of(stream)?;
        Some(Size { columns: usize::from(width.0), rows: usize::from(height.0) })
    }
}

/// Returns the maximum width of a line on standard output. `None` means that there is no limit: a
/// pipe or a file gets whole lines.
pub(crate) fn columns() -> Option<usize> {
    Size::of(io::stdout()).map(|size| size.columns)
}
