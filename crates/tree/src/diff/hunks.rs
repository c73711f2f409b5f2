//! Comparing the contents of two files line by line.

use std::collections::HashMap;
use std::iter;
use std::ops::Range;

use imara_diff::{Algorithm, InternedInput};

use super::LineCounts;

/// A range of lines that was replaced by another range. Either range may be empty.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Hunk {
    pub before: Range<usize>,
    pub after: Range<usize>,
}

/// The number of lines, in both files together, up to which the best algorithm takes only
/// milliseconds.
const SMALL: usize = 10_000;

/// The number of occurrences at which a line is considered frequent. This matters only if the
/// contents have more than [`SMALL`] lines.
const FREQUENT: usize = 64;

/// Splits content into lines, each with its newline. The last line may have no newline.
pub fn split_lines(content: &[u8]) -> Vec<&[u8]> {
    content.split_inclusive(|byte| *byte == b'\n').collect()
}

/// Counts the lines that differ.
pub(super) fn count_lines(old: &[u8], new: &[u8]) -> LineCounts {
    let hunks = find_hunks(&split_lines(old), &split_lines(new));
    hunks.iter().fold(LineCounts::default(), |counts, hunk| LineCounts {
        insertions: counts.insertions + hunk.after.len() as u64,
        deletions: counts.deletions + hunk.before.len() as u64,
    })
}

/// Finds the hunks in which two sequences of lines differ, in order. Between two hunks, there is at
/// least one line that both sides share. Instead of lines, the sequences may consist of other
/// pieces of content.
///
/// ```
/// use takeback_tree::{find_hunks, split_lines};
///
/// let hunks = find_hunks(&split_lines(b"a\nb\nc\n"), &split_lines(b"a\nB\nc\n"));
/// assert_eq!(hunks.len(), 1);
/// ```
pub fn find_hunks(before: &[&[u8]], after: &[&[u8]]) -> Vec<Hunk> {
    find_hunks_within(before, after, SMALL)
}

/// Finds hunks in bounded time. The histogram algorithm takes time in proportion to the square of
/// the number of hunks. Contents of more than `small` lines are therefore first cut at lines that
/// occur exactly once on each side.
fn find_hunks_within(before: &[&[u8]], after: &[&[u8]], small: usize) -> Vec<Hunk> {
    let is_small = before.len() + after.len() <= small;
    let cuts = if is_small { Vec::new() } else { common_unique_lines(before, after) };
    let mut hunks = Vec::new();
    let (mut old, mut new) = (0, 0);
    for (old_end, new_end) in cuts.into_iter().chain([(before.len(), after.len())]) {
        let piece = find_hunks_in_piece(&before[old..old_end], &after[new..new_end], small);
        hunks.extend(piece.into_iter().map(|hunk| Hunk {
            before: hunk.before.start + old..hunk.before.end + old,
            after: hunk.after.start + new..hunk.after.end + new,
        }));
        (old, new) = (old_end + 1, new_end + 1);
    }
    hunks
}

/// Finds lines that occur exactly once on each side. Returns the longest series of such lines that
/// is in the same order on both sides, as pairs of line numbers.
fn common_unique_lines(before: &[&[u8]], after: &[&[u8]]) -> Vec<(usize, usize)> {
    let mut unique_after = HashMap::new();
    for (number, line) in after.iter().enumerate() {
        unique_after.entry(line).and_modify(|known| *known = None).or_insert(Some(number));
    }
    let occurrences_before = count_occurrences(before);
    let pairs: Vec<(usize, usize)> = before
        .iter()
        .enumerate()
        .filter(|(_, line)| occurrences_before[*line] == 1)
        .filter_map(|(number, line)| Some((number, (*unique_after.get(line)?)?)))
        .collect();

    // Find the longest increasing subsequence of the line numbers in `after`, by patience sorting.
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

fn count_occurrences<'a>(lines: &[&'a [u8]]) -> HashMap<&'a [u8], usize> {
    let mut occurrences = HashMap::new();
    for line in lines {
        *occurrences.entry(*line).or_default() += 1;
    }
    occurrences
}

/// Finds the hunks in which two pieces differ. Large contents have already been cut, so their
/// pieces share no line that is unique on both sides.
fn find_hunks_in_piece(before: &[&[u8]], after: &[&[u8]], small: usize) -> Vec<Hunk> {
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
        // The time for the comparison would be quadratic in the number of frequent lines, and the
        // result would be of little use.
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
    count_occurrences(lines).values().any(|count| *count >= FREQUENT)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// True if the hunks turn `before` into `after`, in order and with equal lines between them.
    fn are_valid(hunks: &[Hunk], before: &[&[u8]], after: &[&[u8]]) -> bool {
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
        let (before, after) = (split_lines(before.as_bytes()), split_lines(after.as_bytes()));
        let hunks = find_hunks(&before, &after);
        let are_valid = are_valid(&hunks, &before, &after);
        (hunks, are_valid)
    }

    /// Each of these comparisons would take a minute or more without cuts and bounds.
    #[test]
    fn large_contents_are_compared_in_bounded_time() {
        let alternating = |mark: &str| -> String {
            (0..100_000).map(|number| format!("key {number}\n{mark} {number}\n")).collect()
        };
        let (hunks, are_valid) = hunks_of(&alternating("x"), &alternating("y"));
        assert!(are_valid);
        assert_eq!(hunks.len(), 100_000);

        let repetitive = |factor: usize| -> String {
            (0..200_000).map(|number| format!("{}\n", number * factor % 47 % 13)).collect()
        };
        let (hunks, are_valid) = hunks_of(&repetitive(3), &repetitive(5));
        assert!(are_valid && !hunks.is_empty());

        // Each line occurs three times, and some lines have moved, so there are neither cuts nor
        // frequent lines.
        let thrice = |turn: usize| -> String {
            let mut numbers: Vec<usize> = (0..30_000).map(|number| number % 10_000).collect();
            numbers[5_000..25_000].rotate_left(turn);
            numbers.iter().map(|number| format!("{number}\n")).collect()
        };
        let (hunks, are_valid) = hunks_of(&thrice(0), &thrice(2));
        assert!(are_valid);
        let deleted: usize = hunks.iter().map(|hunk| hunk.before.len()).sum();
        assert!(deleted < 100, "{deleted}");
    }

    proptest! {
        #[test]
        fn every_way_of_comparing_gives_valid_hunks(
            before in vec(0_u8..30, 0..80),
            after in vec(0_u8..30, 0..80),
            small in 0_usize..40,
        ) {
            let text = |lines: &[u8]| -> Vec<u8> {
                lines.iter().flat_map(|line| [b'a' + line % 26, b'0' + line / 26, b'\n']).collect()
            };
            let (before, after) = (text(&before), text(&after));
            let (before, after) = (split_lines(&before), split_lines(&after));
            prop_assert!(are_valid(&find_hunks_within(&before, &after, small), &before, &after));
            prop_assert!(are_valid(&find_hunks(&before, &after), &before, &after));
        }
    }
}
