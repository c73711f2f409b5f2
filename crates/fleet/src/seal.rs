//! The encoding of rows: JSON, compressed if that helps, and encrypted if the settings ask for it.

use std::cell::RefCell;
use std::io::Read;

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{Key, KeyInit, XChaCha20Poly1305, XNonce};
use flate2::read::ZlibDecoder;
use libdeflater::{CompressionLvl, Compressor};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::FleetError;

/// The encodings of records. The first byte of a record is the number of its encoding.
const PLAIN: u8 = 0;
const COMPRESSED: u8 = 1;
/// A nonce, then a plain or compressed record that is encrypted with XChaCha20-Poly1305.
const SEALED: u8 = 2;

const NONCE_LENGTH: usize = 24;

/// The length in bytes below which JSON is not compressed.
const SHORT: usize = 200;

/// The level of compression. Higher levels hardly make short records smaller.
const LEVEL: i32 = 4;

/// The maximum length of a decompressed record.
const MAX_LENGTH: u64 = 1 << 30;

/// The place of a row. An encrypted record can be read only in its own place.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) machine: &'a str,
    pub(crate) session: &'a str,
    pub(crate) table: &'static str,
    /// The numbers that identify the row in its session. A number that is not needed is 0.
    pub(crate) row: (i64, i64),
}

impl Place<'_> {
    fn to_bytes(self) -> Vec<u8> {
        let Place { machine, session, table, row: (first, second) } = self;
        format!("{machine}\n{table}\n{first}\n{second}\n{session}").into_bytes()
    }
}

/// Encodes and decodes records.
pub(crate) struct Sealer {
    cipher: Option<XChaCha20Poly1305>,
    /// True if records are encrypted.
    seals: bool,
}

impl Sealer {
    /// Creates a sealer with the fleet's key, if this machine has it.
    pub(crate) fn new(key: Option<&[u8; 32]>, seals: bool) -> Result<Sealer, FleetError> {
        let cipher = key.map(|key| XChaCha20Poly1305::new(&Key::from(*key)));
        match seals && cipher.is_none() {
            true => Err(FleetError::NoKey),
            false => Ok(Sealer { cipher, seals }),
        }
    }

    /// True if records are encrypted. In that case, no other column may contain readable text.
    pub(crate) fn seals(&self) -> bool {
        self.seals
    }

    /// Encodes a row.
    pub(crate) fn encode(&self, value: &impl Serialize, place: Place<'_>) -> Vec<u8> {
        let json = serde_json::to_vec(value).expect("records have only text keys");
        let plain = compress(&json);
        match &self.cipher {
            Some(cipher) if self.seals => seal(cipher, &plain, place),
            _ => plain,
        }
    }

    /// Decodes a row.
    pub(crate) fn decode<T: DeserializeOwned>(
        &self,
        record: &[u8],
        place: Place<'_>,
    ) -> Result<T, FleetError> {
        let bad = |problem: &str| FleetError::BadRow(problem.to_owned());
        let opened;
        let mut record = record;
        if let Some((&SEALED, rest)) = record.split_first() {
            let cipher = self.cipher.as_ref().ok_or(FleetError::NoKey)?;
            let (nonce, sealed) =
                rest.split_first_chunk::<NONCE_LENGTH>().ok_or_else(|| bad("it is too short"))?;
            let payload = Payload { msg: sealed, aad: &place.to_bytes() };
            opened = cipher
                .decrypt(&XNonce::from(*nonce), payload)
                .map_err(|_| bad("it was changed, or encrypted with another key"))?;
            record = &opened;
        }
        let json = match record.split_first() {
            Some((&PLAIN, json)) => json.to_vec(),
            Some((&COMPRESSED, rest)) => {
                let mut json = Vec::new();
                let mut decoder = ZlibDecoder::new(rest).take(MAX_LENGTH);
                decoder.read_to_end(&mut json).map_err(|error| bad(&error.to_string()))?;
                json
            }
            _ => return Err(bad("its encoding is unknown")),
        };
        serde_json::from_slice(&json).map_err(|error| bad(&error.to_string()))
    }
}

thread_local! {
    /// The compressor is kept, because a shipment compresses thousands of short records, and
    /// creating a compressor takes longer than compressing one of them.
    static COMPRESSOR: RefCell<Compressor> =
        RefCell::new(Compressor::new(CompressionLvl::new(LEVEL).expect("the level exists")));
}

fn compress(json: &[u8]) -> Vec<u8> {
    if json.len() >= SHORT {
        // If the result would be longer than the JSON, it does not fit into this buffer, and
        // compression fails.
        let mut compressed = vec![COMPRESSED; json.len()];
        let length = COMPRESSOR
            .with_borrow_mut(|compressor| compressor.zlib_compress(json, &mut compressed[1..]));
        if let Ok(length) = length {
            compressed.truncate(1 + length);
            return compressed;
        }
    }
    [&[PLAIN], json].concat()
}

fn seal(cipher: &XChaCha20Poly1305, plain: &[u8], place: Place<'_>) -> Vec<u8> {
    let mut nonce = [0; NONCE_LENGTH];
    getrandom::fill(&mut nonce).expect("the kernel provides random numbers");
    let payload = Payload { msg: plain, aad: &place.to_bytes() };
    let sealed = cipher.encrypt(&XNonce::from(nonce), payload).expect("a record fits into memory");
    [&[SEALED], nonce.as_slice(), &sealed].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(row: i64) -> Place<'static> {
        Place { machine: "m", session: "s", table: "messages", row: (row, 0) }
    }

    #[test]
    fn rows_survive_each_encoding() {
        let key = [7; 32];
        for text in ["short".to_owned(), "long ".repeat(1000)] {
            for seals in [false, true] {
                let sealer = Sealer::new(Some(&key), seals).unwrap();
                let record = sealer.encode(&text, place(1));
                assert_eq!(sealer.decode::<String>(&record, place(1)).unwrap(), text);
                assert!(record.len() <= text.len() + 60, "{}", record.len());
                let is_readable = record.windows(5).any(|part| part == b"short");
                assert_eq!(is_readable, !seals && text == "short");
            }
        }
    }

    #[test]
    fn a_sealed_row_opens_only_in_its_place_and_with_the_key() {
        let sealer = Sealer::new(Some(&[7; 32]), true).unwrap();
        let record = sealer.encode(&"secret", place(1));
        assert!(sealer.decode::<String>(&record, place(2)).is_err(), "another place");
        let other = Sealer::new(Some(&[8; 32]), true).unwrap();
        assert!(other.decode::<String>(&record, place(1)).is_err(), "another key");
        let none = Sealer::new(None, false).unwrap();
        assert!(matches!(none.decode::<String>(&record, place(1)), Err(FleetError::NoKey)));
        let mut changed = record;
        *changed.last_mut().unwrap() ^= 1;
        assert!(sealer.decode::<String>(&changed, place(1)).is_err(), "changed");
    }

    #[test]
    fn arbitrary_bytes_decode_to_a_row_or_an_error() {
        let sealer = Sealer::new(Some(&[7; 32]), true).unwrap();
        for record in [&b""[..], &[0], &[1, 2, 3], &[2; 10], &[9, 9], &[2; 60]] {
            assert!(sealer.decode::<String>(record, place(1)).is_err(), "{record:?}");
        }
    }
}
