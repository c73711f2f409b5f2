//! Which lines of two contents differ.

use std::collections::HashMap;
use std::iter;
use std::ops::Range;

use imara_diff::{Algorithm, InternedInput};

use crate::diff::LineCounts;

/// Lines that were replaced by others; either may be none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Hunk {
    pub(super) before: Range<usize>,
    pub(super) after: Range<usize>,
}

/// Up to this many lines on both sides together the best algorithm takes milliseconds at worst.
const SMALL: usize = 10_000;

/// A line is frequent from this number of occurrences on, for contents that are not small.
const FREQUENT: usize = 64;

/// The lines of a content, each with its newline; the last may have none.
pub(super) fn lines(content: &[u8]) -> Vec<&[u8]> {
    content.split_inclusive(|byte| *byte == b'\n').collect()
}

/// How many lines differ.
pub(super) fn count(old: &[u8], new: &[u8]) -> LineCounts {
    hunks(&lines(old), &lines(new)).iter().fold(LineCounts::default(), |counts, hunk| LineCounts {
        insertions: counts.insertions + hunk.after.len() as u64,
        deletions: counts.deletions + hunk.before.len() as u64,
    })
}

/// What differs, in order. Between two hunks there is at least one line that both sides have.
pub(super) fn hunks(before: &[&[u8]], after: &[&[u8]]) -> Vec<Hunk> {
    bounded_hunks(before, after, SMALL)
}

/// The histogram algorithm takes time with the square of the number of hunks, so contents that are
/// not small are first cut at the lines that occur once on either side.
fn bounded_hunks(before: &[&[u8]], after: &[&[u8]], small: usize) -> Vec<Hunk> {
    let is_small = before.len() + after.len() <= small;
    let cuts = if is_small { Vec::new() } else { common_unique_lines(before, after) };
    let mut hunks = Vec::new();
    let (mut old, mut new) = (0, 0);
    for (old_end, new_end) in cuts.into_iter().chain([(before.len(), after.len())]) {
        let piece = piece_hunks(&before[old..old_end], &after[new..new_end], small);
        hunks.extend(piece.into_iter().map(|hunk| Hunk {
            before: hunk.before.start + old..hunk.before.end + old,
            after: hunk.after.start + new..hunk.after.end + new,
        }));
        (old, new) = (old_end + 1, new_end + 1);
    }
    hunks
}

/// The lines that occur once on either side, by their numbers there: as many as are in the same
/// order on both.
fn common_unique_lines(before: &[&[u8]], after: &[&[u8]]) -> Vec<(usize, usize)> {
    let mut unique_after = HashMap::new();
    for (number, line) in after.iter().enumerate() {
        unique_after.entry(line).and_modify(|found| *found = None).or_insert(Some(number));
    }
    let occurrences_before = occurrences(before);
    let pairs: Vec<(usize, usize)> = before
        .iter()
        .enumerate()
        .filter(|(_, line)| occurrences_before[*line] == 1)
        .filter_map(|(number, line)| Some((number, (*unique_after.get(line)?)?)))
        .collect();

    // The longest increasing subsequence of the numbers after, by patience sorting.
    let mut piles: Vec<usize> = Vec::new();
    let mut previous: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (index, pair) in pairs.iter().enumerate() {
        let pile = piles.partition_point(|top| pairs[*top].1 < pair.1);
        previous.push(pile.checked_sub(1).map(|left| piles[left]));
        if pile == piles.len() {
            piles.push(index);
        } else {
            piles[pile] = index;
        }
    }
    let last = piles.last().copied();
    let mut longest: Vec<_> =
        iter::successors(last, |index| previous[*index]).map(|index| pairs[index]).collect();
    longest.reverse();
    longest
}

fn occurrences<'a>(lines: &[&'a [u8]]) -> HashMap<&'a [u8], usize> {
    let mut occurrences = HashMap::new();
    for line in lines {
        *occurrences.entry(*line).or_default() += 1;
    }
    occurrences
}

/// What differs between two pieces that have nothing unique in common, unless they are small.
fn piece_hunks(before: &[&[u8]], after: &[&[u8]], small: usize) -> Vec<Hunk> {
    if before == after {
        return Vec::new();
    }
    let same = |(a, b): &(&&[u8], &&[u8])| a == b;
    let prefix = before.iter().zip(after).take_while(same).count();
    let rests = (before[prefix..].iter().rev(), after[prefix..].iter().rev());
    let suffix = rests.0.zip(rests.1).take_while(same).count();
    let (old, new) = (prefix..before.len() - suffix, prefix..after.len() - suffix);
    let algorithm = if old.len() + new.len() <= small {
        Algorithm::Histogram
    } else if has_frequent_lines(&before[old.clone()]) || has_frequent_lines(&after[new.clone()]) {
        // The time would grow with the square of their number, and the outcome mean little.
        return vec![Hunk { before: old, after: new }];
    } else {
        Algorithm::Myers
    };
    let mut input = InternedInput::default();
    input.update_before(before.iter().copied());
    input.update_after(after.iter().copied());
    let mut diff = imara_diff::Diff::compute(algorithm, &input);
    diff.postprocess_lines(&input);
    let range = |range: Range<u32>| range.start as usize..range.end as usize;
    diff.hunks().map(|hunk| Hunk { before: range(hunk.before), after: range(hunk.after) }).collect()
}

fn has_frequent_lines(lines: &[&[u8]]) -> bool {
    occurrences(lines).values().any(|count| *count >= FREQUENT)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Whether the hunks make `after` of `before`, in order and with equal lines between them.
    fn hold(hunks: &[Hunk], before: &[&[u8]], after: &[&[u8]]) -> bool {
        let (mut old, mut new) = (0, 0);
        for (index, hunk) in hunks.iter().enumerate() {
            let gap = hunk.before.start.checked_sub(old);
            if gap.is_none()
                || gap != hunk.after.start.checked_sub(new)
                || (index > 0 && gap == Some(0))
                || before[old..hunk.before.start] != after[new..hunk.after.start]
            {
                return false;
            }
            (old, new) = (hunk.before.end, hunk.after.end);
        }
        before[old..] == after[new..]
    }

    fn hunks_of(before: &str, after: &str) -> (Vec<Hunk>, bool) {
        let (before, after) = (lines(before.as_bytes()), lines(after.as_bytes()));
        let hunks = hunks(&before, &after);
        let hold = hold(&hunks, &before, &after);
        (hunks, hold)
    }

    /// Each of these would take a minute and more without cuts and bounds.
    #[test]
    fn large_contents() {
        let alternating = |mark: &str| -> String {
            (0..100_000).map(|number| format!("key {number}\n{mark} {number}\n")).collect()
        };
        let (hunks, hold) = hunks_of(&alternating("x"), &alternating("y"));
        assert!(hold);
        assert_eq!(hunks.len(), 100_000);

        let repetitive = |factor: usize| -> String {
            (0..200_000).map(|number| format!("{}\n", number * factor % 47 % 13)).collect()
        };
        let (hunks, hold) = hunks_of(&repetitive(3), &repetitive(5));
        assert!(hold && !hunks.is_empty());

        // Every line three times, and some moved: no cuts, but no frequent lines either.
        let thrice = |turn: usize| -> String {
            let mut numbers: Vec<usize> = (0..30_000).map(|number| number % 10_000).collect();
            numbers[5_000..25_000].rotate_left(turn);
            numbers.iter().map(|number| format!("{number}\n")).collect()
        };
        let (hunks, hold) = hunks_of(&thrice(0), &thrice(2));
        assert!(hold);
        let deleted: usize = hunks.iter().map(|hunk| hunk.before.len()).sum();
        assert!(deleted < 100, "{deleted}");
    }

    proptest! {
        #[test]
        fn every_way_of_comparing_holds(
            before in vec(0_u8..30, 0..80),
            after in vec(0_u8..30, 0..80),
            small in 0_usize..40,
        ) {
            let text = |lines: &[u8]| -> Vec<u8> {
                lines.iter().flat_map(|line| [b'a' + line % 26, b'0' + line / 26, b'\n']).collect()
            };
            let (before, after) = (text(&before), text(&after));
            let (before, after) = (lines(&before), lines(&after));
            prop_assert!(hold(&bounded_hunks(&before, &after, small), &before, &after));
            prop_assert!(hold(&hunks(&before, &after), &before, &after));
        }
    }
}
