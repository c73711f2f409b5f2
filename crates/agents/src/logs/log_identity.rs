//! Detecting whether a log has been replaced or rewritten since it was last read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use sha2::{Digest, Sha256};
use takeback_base::hex;

/// The number of bytes to compare, both at the beginning of a log and just before the bookmark.
const COMPARED_BYTES: u64 = 512;

/// Computes the identity of a log's first `offset` bytes. The identity does not change when the log
/// grows.
pub(super) fn file_identity(file: &File, offset: u64) -> io::Result<String> {
    let length = offset.min(COMPARED_BYTES);
    let mut hasher = Sha256::new();
    for start in [0, offset - length] {
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, start)?;
        hasher.update(&bytes);
    }
    Ok(short_digest(hasher))
}

/// Computes the identity of a whole document.
pub(super) fn content_identity(bytes: &[u8]) -> String {
    let mut hasher = Sha256::new();
    hasher.update(bytes);
    short_digest(hasher)
}

fn short_digest(hasher: Sha256) -> String {
    hex::encode(&hasher.finalize()[..16])
}
