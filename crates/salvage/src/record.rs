//! Records: the values of one row as stored in a cell's payload.

use std::ops::Range;

use crate::Value;

/// The maximum number of columns that SQLite can be compiled to allow.
const MAX_COLUMNS: usize = 32_767;

/// The result of checking whether a payload begins like a record of a certain length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plausibility {
    No,
    Yes,
    /// The record's header continues in an overflow page.
    Unknown,
}

/// Checks whether `local`, the part of a payload that is stored in the cell, can be the beginning
/// of a record of `length` bytes.
pub(crate) fn judge_local_part(local: &[u8], length: u64) -> Plausibility {
    let Some((header_length, _)) = read_varint(local) else {
        return if local.len() < 9 { Plausibility::Unknown } else { Plausibility::No };
    };
    if header_length > length {
        return Plausibility::No;
    }
    match usize::try_from(header_length).ok().and_then(|end| local.get(..end)) {
        None => Plausibility::Unknown,
        Some(header) if read_serial_types(header, length).is_some() => Plausibility::Yes,
        Some(_) => Plausibility::No,
    }
}

/// Decodes the values of a whole record. `wiped` is the part of the payload that came from a page
/// of zeros. Text does not consist of zeros, so a record with text in that part is damaged.
pub(crate) fn decode_record(payload: &[u8], wiped: &Range<usize>) -> Option<Vec<Value>> {
    let (header_length, _) = read_varint(payload)?;
    let mut at = usize::try_from(header_length).ok()?;
    let types = read_serial_types(payload.get(..at)?, payload.len() as u64)?;
    let mut values = Vec::with_capacity(types.len());
    for serial_type in types {
        let end = at.checked_add(usize::try_from(content_size(serial_type)?).ok()?)?;
        let content = payload.get(at..end)?;
        if is_text(serial_type) && at.max(wiped.start) < end.min(wiped.end) {
            return None;
        }
        values.push(decode_value(serial_type, content));
        at = end;
    }
    Some(values)
}

/// Returns the number of columns in a record, and the part of its content that is stored in the
/// cell.
pub(crate) fn column_count_and_content(local: &[u8]) -> Option<(usize, &[u8])> {
    let (header_length, mut at) = read_varint(local)?;
    let (header, content) = local.split_at_checked(usize::try_from(header_length).ok()?)?;
    let mut count = 0;
    while at < header.len() {
        at += read_varint(header.get(at..)?)?.1;
        count += 1;
    }
    Some((count, content))
}

/// Reads the serial types in a record's header. Returns `None` unless they fill the header exactly,
/// and header and content together have `length` bytes.
fn read_serial_types(header: &[u8], length: u64) -> Option<Vec<u64>> {
    let (_, mut at) = read_varint(header)?;
    let mut types = Vec::new();
    let mut size = header.len() as u64;
    while at < header.len() {
        let (serial_type, width) = read_varint(header.get(at..)?)?;
        size = size.checked_add(content_size(serial_type)?)?;
        types.push(serial_type);
        at += width;
    }
    let fits = size == length && !types.is_empty() && types.len() <= MAX_COLUMNS;
    fits.then_some(types)
}

fn content_size(serial_type: u64) -> Option<u64> {
    match serial_type {
        0 | 8 | 9 => Some(0),
        1..=4 => Some(serial_type),
        5 => Some(6),
        6 | 7 => Some(8),
        10 | 11 => None,
        _ => Some((serial_type - 12) / 2),
    }
}

fn is_text(serial_type: u64) -> bool {
    serial_type >= 13 && serial_type % 2 == 1
}

fn decode_value(serial_type: u64, content: &[u8]) -> Value {
    match serial_type {
        0 => Value::Null,
        1..=6 => Value::Integer(decode_integer(content)),
        7 => Value::Real(f64::from_bits(decode_integer(content) as u64)),
        8 => Value::Integer(0),
        9 => Value::Integer(1),
        _ if is_text(serial_type) => Value::Text(String::from_utf8_lossy(content).into_owned()),
        _ => Value::Blob(content.to_vec()),
    }
}

/// Decodes a big-endian two's complement number of up to eight bytes.
fn decode_integer(content: &[u8]) -> i64 {
    let negative = content.first().is_some_and(|&byte| byte >= 0x80);
    content.iter().fold(if negative { -1 } else { 0 }, |n, &byte| (n << 8) | i64::from(byte))
}

/// Reads a variable-length integer. Returns the integer and the number of bytes that it occupies.
pub(crate) fn read_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut number = 0;
    for (at, &byte) in bytes.iter().take(9).enumerate() {
        if at == 8 {
            return Some(((number << 8) | u64::from(byte), 9));
        }
        number = (number << 7) | u64::from(byte & 0x7f);
        if byte < 0x80 {
            return Some((number, at + 1));
        }
    }
    None
}

/// Reads a big-endian number of two bytes.
pub(crate) fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

/// Reads a big-endian number of four bytes.
pub(crate) fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}
