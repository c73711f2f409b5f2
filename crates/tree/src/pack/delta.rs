//! Deltas. A delta is a list of instructions that rebuild an object: each one copies bytes from
//! another object, the base, or inserts new bytes.

use crate::pack::MAX_OBJECT;

/// The length in bytes of the blocks that are looked up in the base.
const BLOCK: usize = 16;
/// The maximum number of bytes per copy instruction that all versions of the format allow.
const MAX_COPY: usize = 0xffff;
const MAX_INSERT: usize = 0x7f;
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the size of the object that a delta produces, as the delta declares it.
pub(crate) fn result_size(delta: &[u8]) -> Option<u64> {
    let (_, rest) = take_size(delta)?;
    take_size(rest).map(|(size, _)| size)
}

/// Rebuilds an object from its base. Returns `None` if the delta does not match the base, or
/// produces an object that is too large.
pub(crate) fn apply_delta(base: &[u8], delta: &[u8]) -> Option<Vec<u8>> {
    let (base_size, rest) = take_size(delta)?;
    let (size, mut rest) = take_size(rest)?;
    // An instruction copies at most 16 MB. If the delta declares a size that its instructions
    // cannot reach, it fails here, before memory is reserved.
    let possible = (rest.len() as u64).saturating_mul(1 << 24).min(MAX_OBJECT);
    if base_size != base.len() as u64 || size > possible {
        return None;
    }
    let size = size as usize;
    let mut out = Vec::with_capacity(size.min(1 << 26));
    while let Some((&code, after)) = rest.split_first() {
        rest = after;
        if code & 0x80 != 0 {
            let mut field = |bits: std::ops::Range<u8>| {
                let mut value = 0usize;
                for (shift, bit) in bits.enumerate() {
                    if code & (1 << bit) != 0 {
                        let (&byte, after) = rest.split_first()?;
                        value |= usize::from(byte) << (8 * shift);
                        rest = after;
                    }
                }
                Some(value)
            };
            let offset = field(0..4)?;
            let length = match field(4..7)? {
                0 => 0x10000,
                length => length,
            };
            let copied = base.get(offset..offset.checked_add(length)?)?;
            // A few instructions can copy terabytes, so the size is checked before each copy.
            if copied.len() > size - out.len() {
                return None;
            }
            out.extend_from_slice(copied);
        } else if code != 0 {
            let (new, after) = rest.split_at_checked(usize::from(code))?;
            if new.len() > size - out.len() {
                return None;
            }
            out.extend_from_slice(new);
            rest = after;
        } else {
            return None;
        }
    }
    (out.len() == size).then_some(out)
}

fn take_size(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    for (index, byte) in bytes.iter().enumerate() {
        value |= u64::from(byte & 0x7f).checked_shl(7 * index as u32)?;
        if byte & 0x80 == 0 {
            return Some((value, &bytes[index + 1..]));
        }
    }
    None
}

fn push_size(out: &mut Vec<u8>, mut size: u64) {
    while size > 0x7f {
        out.push(size as u8 | 0x80);
        size >>= 7;
    }
    out.push(size as u8);
}

/// Finds a delta of at most `limit` bytes that turns `base` into `target`.
pub(crate) fn encode_delta(base: &[u8], target: &[u8], limit: usize) -> Option<Vec<u8>> {
    let mut delta = DeltaWriter { out: Vec::new(), pending: 0..0 };
    push_size(&mut delta.out, base.len() as u64);
    push_size(&mut delta.out, target.len() as u64);

    // Most edits leave both ends unchanged.
    let head = count_equal(base.iter(), target.iter());
    let tail = count_equal(base[head..].iter().rev(), target[head..].iter().rev());
    delta.push_copy(target, 0, head);
    delta.pending = head..head;
    let end = target.len() - tail;
    let blocks = BlockTable::new(&base[head..base.len() - tail], head);
    let mut at = head;
    let mut hash = None;
    while at < end {
        if delta.out.len() + delta.pending.len() > limit {
            return None;
        }
        let Some(window) = target[at..end].get(..BLOCK) else {
            delta.pending.end = end;
            break;
        };
        let rolled = hash.unwrap_or_else(|| hash_block(window));
        match blocks.find_longest(rolled, base, &target[at..end]) {
            Some((offset, length)) => {
                delta.push_copy(target, offset, length);
                at += length;
                delta.pending = at..at;
                hash = None;
            }
            None => {
                hash = target[at..end].get(BLOCK).map(|next| roll_hash(rolled, window[0], *next));
                at += 1;
                delta.pending.end = at;
            }
        }
    }
    delta.push_copy(target, base.len() - tail, tail);
    delta.push_pending(target);
    (delta.out.len() <= limit).then_some(delta.out)
}

/// Counts the equal bytes at the start of two sequences.
fn count_equal<'a>(a: impl Iterator<Item = &'a u8>, b: impl Iterator<Item = &'a u8>) -> usize {
    a.zip(b).take_while(|(a, b)| a == b).count()
}

/// A delta under construction.
struct DeltaWriter {
    out: Vec<u8>,
    /// The range of the target that is new and not yet written.
    pending: std::ops::Range<usize>,
}

impl DeltaWriter {
    fn push_pending(&mut self, target: &[u8]) {
        for new in target[self.pending.clone()].chunks(MAX_INSERT) {
            self.out.push(new.len() as u8);
            self.out.extend_from_slice(new);
        }
        self.pending = self.pending.end..self.pending.end;
    }

    fn push_copy(&mut self, target: &[u8], mut offset: usize, mut length: usize) {
        if length == 0 {
            return;
        }
        self.push_pending(target);
        while length > 0 {
            let part = length.min(MAX_COPY);
            let at = self.out.len();
            let mut code = 0x80;
            self.out.push(0);
            for (bit, value) in [(0, offset), (4, part)] {
                for shift in 0..4 {
                    let byte = (value >> (8 * shift)) as u8;
                    if byte != 0 {
                        self.out.push(byte);
                        code |= 1 << (bit + shift);
                    }
                }
            }
            self.out[at] = code;
            offset += part;
            length -= part;
        }
    }
}

fn hash_block(block: &[u8]) -> u64 {
    block.iter().fold(0, |hash, byte| hash.wrapping_mul(FACTOR).wrapping_add(u64::from(*byte) + 1))
}

/// Computes the hash of a block from the hash of the block that begins one byte earlier.
fn roll_hash(hash: u64, leaving: u8, entering: u8) -> u64 {
    const HIGHEST: u64 = {
        let (mut power, mut count) = (1u64, 1);
        while count < BLOCK {
            power = power.wrapping_mul(FACTOR);
            count += 1;
        }
        power
    };
    hash.wrapping_sub((u64::from(leaving) + 1).wrapping_mul(HIGHEST))
        .wrapping_mul(FACTOR)
        .wrapping_add(u64::from(entering) + 1)
}

/// A table of the blocks in a base. Bases may be large, so the table takes only about eight bytes
/// per block.
struct BlockTable {
    start: usize,
    /// The number of the first block in each slot. The hash of a block determines its slot.
    first: Vec<u32>,
    /// For each block, the number of the next block in the same slot.
    next: Vec<u32>,
}

impl BlockTable {
    /// The maximum number of blocks that are tried in a slot.
    const MAX_TRIES: usize = 8;
    const NONE: u32 = u32::MAX;

    fn new(base: &[u8], start: usize) -> BlockTable {
        let count = base.len() / BLOCK;
        let first = vec![BlockTable::NONE; (count + 1).next_power_of_two()];
        let mut blocks = BlockTable { start, first, next: vec![BlockTable::NONE; count] };
        for (number, block) in base.chunks_exact(BLOCK).enumerate().rev() {
            let slot = blocks.slot(hash_block(block));
            blocks.next[number] = blocks.first[slot];
            blocks.first[slot] = number as u32;
        }
        blocks
    }

    fn slot(&self, hash: u64) -> usize {
        let bits = self.first.len().ilog2();
        ((hash ^ hash >> 32).wrapping_mul(FACTOR) as u128 >> (64 - bits)) as usize
    }

    /// Finds the longest part of the base that begins at a block and matches the start of `target`.
    /// Returns the offset and the length of this part.
    fn find_longest(&self, hash: u64, base: &[u8], target: &[u8]) -> Option<(usize, usize)> {
        let some = |number: u32| (number != BlockTable::NONE).then_some(number);
        let first = some(self.first[self.slot(hash)]);
        std::iter::successors(first, |number| some(self.next[*number as usize]))
            .take(BlockTable::MAX_TRIES)
            .map(|number| self.start + number as usize * BLOCK)
            .map(|offset| (offset, count_equal(base[offset..].iter(), target.iter())))
            .max_by_key(|(_, length)| *length)
            .filter(|(_, length)| *length >= BLOCK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_delta_turns_its_base_into_its_target(
            base in prop::collection::vec(0u8..4, 0..3000),
            edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..40, prop::collection::vec(any::<u8>(), 0..200)), 0..6),
        ) {
            let mut target = base.clone();
            for (at, removed, inserted) in edits {
                let at = at.index(target.len() + 1);
                let end = (at + removed).min(target.len());
                target.splice(at..end, inserted);
            }
            let delta = encode_delta(&base, &target, usize::MAX).unwrap();
            prop_assert_eq!(apply_delta(&base, &delta), Some(target));
        }

        #[test]
        fn garbage_is_refused_without_panic(base in prop::collection::vec(any::<u8>(), 0..64), delta in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = apply_delta(&base, &delta);
        }
    }

    /// Builds a delta that declares a size and copies the first 64 KB of its base many times.
    fn copy_delta(base: &[u8], size: u64, copies: usize) -> Vec<u8> {
        let mut delta = Vec::new();
        push_size(&mut delta, base.len() as u64);
        push_size(&mut delta, size);
        delta.extend(std::iter::repeat_n(0x80, copies));
        delta
    }

    #[test]
    fn a_delta_cannot_produce_more_than_it_declares_or_than_an_object_may_contain() {
        let base = vec![7; 1 << 16];
        let size = |size: u64, copies: usize| apply_delta(&base, &copy_delta(&base, size, copies));
        assert_eq!(size(3 << 16, 3).map(|made| made.len()), Some(3 << 16));
        // These copy instructions add up to 64 GB.
        assert_eq!(size(1 << 16, 1 << 20), None);
        assert_eq!(size(1 << 36, 1 << 20), None);
        assert_eq!(result_size(&copy_delta(&base, 1 << 36, 1)), Some(1 << 36));
    }

    #[test]
    fn a_small_edit_makes_a_small_delta() {
        let base: Vec<u8> =
            (0..20_000u32).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        let mut target = base.clone();
        target.splice(5000..5010, *b"edited");
        target.splice(90_000..90_000, *b"and something new");
        assert!(encode_delta(&base, &target, usize::MAX).unwrap().len() < 100);
        assert!(encode_delta(&base, b"nothing in common with the base", 10).is_none());
    }
}
