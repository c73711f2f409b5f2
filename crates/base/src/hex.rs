//! Encoding and decoding hexadecimal digits.

use std::fmt;

/// Encodes each byte as two lower-case digits.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    write_digits(&mut text, bytes).expect("writing to a String cannot fail");
    text
}

/// Writes two lower-case digits for each byte to `out`. Meant for implementations of `Display`.
pub fn write_digits(out: &mut impl fmt::Write, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
}

/// Parses pairs of digits in upper or lower case. Returns `None` for any other text.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(decode_pair).collect()
}

/// Parses exactly `2 * N` digits in upper or lower case.
pub fn decode_array<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = decode_pair(pair)?;
    }
    Some(bytes)
}

fn decode_pair(pair: &[u8]) -> Option<u8> {
    let &[high, low] = pair else { return None };
    let digit = |digit: u8| char::from(digit).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

/// True if the text consists only of hexadecimal digits in upper or lower case. This includes the
/// empty string.
pub fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns `count` random digits, for a name or id that no other process uses.
pub fn random_digits(count: usize) -> String {
    let mut bytes = vec![0; count.div_ceil(2)];
    getrandom::fill(&mut bytes).expect("the kernel provides random numbers");
    let mut digits = encode(&bytes);
    digits.truncate(count);
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_survives_encoding_and_decoding() {
        let bytes: Vec<u8> = (0..=255).collect();
        let text = encode(&bytes);
        assert_eq!((&text[..6], text.len()), ("000102", 512));
        assert_eq!(decode(&text).as_deref(), Some(bytes.as_slice()));
        assert_eq!(decode(&text.to_uppercase()).as_deref(), Some(bytes.as_slice()));
        assert_eq!(decode_array::<256>(&text).map(Vec::from), Some(bytes));
    }

    #[test]
    fn text_that_does_not_consist_of_pairs_of_digits_is_refused() {
        for text in ["0", "0g", "+1", " 1", "ä", "00 0"] {
            assert_eq!(decode(text), None, "{text:?}");
            assert_eq!(decode_array::<1>(text), None, "{text:?}");
        }
        assert_eq!(decode_array::<2>("00"), None);
        assert_eq!(decode_array::<1>("0000"), None);
        assert!(is_hex("09afAF") && !is_hex("0x09") && !is_hex("ä"));
    }

    #[test]
    fn random_digits_differ_each_time() {
        let one = random_digits(15);
        assert!(one.len() == 15 && is_hex(&one), "{one}");
        assert_ne!(random_digits(16), random_digits(16));
    }
}
