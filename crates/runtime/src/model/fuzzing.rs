//! Reading a response without a connection.

use super::draft::OnDelta;
use super::response::{Headers, ReadEnd, ResponseReader};
use super::{ApiKind, Attempt};

/// Reads the pieces of a body.
pub(crate) fn read_response<'a>(
    kind: ApiKind,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    on_delta: &mut OnDelta<'_>,
) -> Attempt {
    let mut reader = ResponseReader::new(kind, None);
    reader.read_head(200, Headers::default());
    for piece in pieces {
        reader.read_body(piece, on_delta);
    }
    reader.finish_attempt(ReadEnd::Ended, on_delta)
}
