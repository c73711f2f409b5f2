//! Encryption of files: pieces of 1 MB, each encrypted with XChaCha20-Poly1305.
//!
//! This is the STREAM construction: the nonce of a piece consists of 19 random bytes for the whole
//! file, the number of the piece, and a flag that is set for the last piece. Decryption therefore
//! fails if pieces were changed, reordered, left out or taken from another file, or if the end of
//! the file was cut off.

use std::io::{self, Read, Write};

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{Key, KeyInit, XChaCha20Poly1305, XNonce};

/// The bytes that every encrypted file begins with.
const MAGIC: &[u8; 8] = b"tkbkpk01";

/// The number of random bytes in a nonce.
const RANDOM: usize = 19;

const PIECE: usize = 1 << 20;

/// The number of bytes that encryption adds to a piece.
const TAG: usize = 16;

/// Encrypts everything that `from` yields. `purpose` must be the same when the file is decrypted.
pub(crate) fn encrypt(
    key: &[u8; 32],
    purpose: &[u8],
    from: &mut dyn Read,
    to: &mut dyn Write,
) -> io::Result<()> {
    let cipher = XChaCha20Poly1305::new(&Key::from(*key));
    let mut random = [0; RANDOM];
    getrandom::fill(&mut random).expect("the kernel provides random numbers");
    to.write_all(MAGIC)?;
    to.write_all(&random)?;
    transform(from, PIECE, |number, is_last, piece| {
        let payload = Payload { msg: piece, aad: purpose };
        let sealed = cipher
            .encrypt(&nonce(&random, number, is_last), payload)
            .expect("a piece fits into memory");
        to.write_all(&sealed)
    })
}

/// Decrypts everything that `from` yields. After an error, `to` may have received the beginning of
/// the content.
pub(crate) fn decrypt(
    key: &[u8; 32],
    purpose: &[u8],
    from: &mut dyn Read,
    to: &mut dyn Write,
) -> io::Result<()> {
    let invalid = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, reason.to_owned());
    let cipher = XChaCha20Poly1305::new(&Key::from(*key));
    let (mut magic, mut random) = ([0; MAGIC.len()], [0; RANDOM]);
    from.read_exact(&mut magic).and_then(|()| from.read_exact(&mut random))?;
    if magic != *MAGIC {
        return Err(invalid("it is not an encrypted file"));
    }
    transform(from, PIECE + TAG, |number, is_last, piece| {
        let payload = Payload { msg: piece, aad: purpose };
        let opened = cipher
            .decrypt(&nonce(&random, number, is_last), payload)
            .map_err(|_| invalid("it was changed, cut off, or encrypted with another key"))?;
        to.write_all(&opened)
    })
}

/// Calls `handle` for each piece, with its number and a flag that is true for the last piece. There
/// is always at least one piece, which may be empty.
fn transform(
    from: &mut dyn Read,
    length: usize,
    mut handle: impl FnMut(u32, bool, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut piece = read_piece(from, length)?;
    for number in 0.. {
        let next = match piece.len() == length {
            true => read_piece(from, length)?,
            false => Vec::new(),
        };
        let is_last = next.is_empty();
        handle(number, is_last, &piece)?;
        if is_last {
            return Ok(());
        }
        piece = next;
    }
    Err(io::Error::other("the file is too large"))
}

fn read_piece(from: &mut dyn Read, length: usize) -> io::Result<Vec<u8>> {
    let mut piece = Vec::with_capacity(length);
    from.take(length as u64).read_to_end(&mut piece)?;
    Ok(piece)
}

fn nonce(random: &[u8; RANDOM], number: u32, is_last: bool) -> XNonce {
    let mut nonce = [0; 24];
    nonce[..RANDOM].copy_from_slice(random);
    nonce[RANDOM..23].copy_from_slice(&number.to_be_bytes());
    nonce[23] = u8::from(is_last);
    XNonce::from(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encrypt(&[7; 32], b"pack", &mut &*content, &mut out).unwrap();
        out
    }

    fn opened(sealed: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        decrypt(&[7; 32], b"pack", &mut &*sealed, &mut out).map(|()| out)
    }

    #[test]
    fn a_file_of_any_length_survives() {
        for length in [0, 1, 100, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 2 * PIECE + 5] {
            let content: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let sealed = sealed(&content);
            assert!(sealed.len() <= length + 27 + (length / PIECE + 1) * TAG, "{length}");
            assert!(opened(&sealed).unwrap() == content, "{length}");
        }
        assert_ne!(sealed(b"the secret"), sealed(b"the secret"), "the nonce is random");
    }

    #[test]
    fn changes_are_noticed() {
        let content = vec![5; 2 * PIECE + 5];
        let good = sealed(&content);
        let head = MAGIC.len() + RANDOM;
        let piece = PIECE + TAG;
        let mut flipped = good.clone();
        flipped[head + 9] ^= 1;
        let cut = good[..good.len() - 1].to_vec();
        let without_last = good[..head + 2 * piece].to_vec();
        let without_first = [&good[..head], &good[head + piece..]].concat();
        let mut swapped = good.clone();
        swapped[head..head + 2 * piece].rotate_left(piece);
        let longer = [&good[..], b"x"].concat();
        let other = [b"otherfmt", &good[8..]].concat();
        for bad in [flipped, cut, without_last, without_first, swapped, longer, other, vec![]] {
            assert!(opened(&bad).is_err());
        }
        let mut out = Vec::new();
        assert!(decrypt(&[8; 32], b"pack", &mut &*good, &mut out).is_err(), "another key");
        assert!(decrypt(&[7; 32], b"index", &mut &*good, &mut out).is_err(), "another purpose");
    }
}
