//! What tells that a log is still the one that was read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use sha2::{Digest, Sha256};

/// So much is looked at, at the beginning and before the place where reading stopped.
const LENGTH: u64 = 512;

/// The identity of the first `offset` bytes: logs only grow, so these stay the same.
pub(super) fn of_file(file: &File, offset: u64) -> io::Result<String> {
    let length = offset.min(LENGTH);
    let mut hasher = Sha256::new();
    for start in [0, offset - length] {
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, start)?;
        hasher.update(&bytes);
    }
    Ok(digits(hasher))
}

/// The identity of a document.
pub(super) fn of_bytes(bytes: &[u8]) -> String {
    let mut hasher = Sha256::new();
    hasher.update(bytes);
    digits(hasher)
}

fn digits(hasher: Sha256) -> String {
    let digest: [u8; 32] = hasher.finalize().into();
    digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}
