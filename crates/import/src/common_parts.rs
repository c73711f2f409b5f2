//! The longest common subsequence of two lists. Finding it takes memory in proportion to the sum of
//! the lists' lengths, not to their product (Hirschberg's algorithm).

use std::collections::HashMap;
use std::hash::Hash;

/// Finds the longest common subsequence of `new` and `known`. For each element of `new`, returns
/// the index of its match in `known`, if it has one.
pub(crate) fn match_longest<T: Hash + Eq>(new: &[T], known: &[T]) -> Vec<Option<usize>> {
    // Numbers are faster to compare than elements.
    let mut numbers: HashMap<&T, usize> = HashMap::new();
    let mut number = |element| {
        let next = numbers.len();
        *numbers.entry(element).or_insert(next)
    };
    let known: Vec<usize> = known.iter().map(&mut number).collect();
    let new: Vec<usize> = new.iter().map(&mut number).collect();
    let mut matches = Vec::with_capacity(new.len());
    match_parts(&new, &known, 0, &mut matches);
    matches
}

/// Appends the matches for parts of the two lists. `offset` is the index at which the part `known`
/// begins in the whole list.
fn match_parts(
    new: &[usize],
    known: &[usize],
    mut offset: usize,
    matches: &mut Vec<Option<usize>>,
) {
    // Usually `new` begins with all known elements.
    let same = new.iter().zip(known).take_while(|(new, known)| new == known).count();
    matches.extend((offset..offset + same).map(Some));
    let (new, known) = (&new[same..], &known[same..]);
    offset += same;
    match new {
        [] => {}
        [only] => {
            let found = known.iter().position(|known| known == only);
            matches.push(found.map(|at| offset + at));
        }
        _ => {
            let (first, second) = new.split_at(new.len() / 2);
            let middle = find_split(first, second, known);
            match_parts(first, &known[..middle], offset, matches);
            match_parts(second, &known[middle..], offset + middle, matches);
        }
    }
}

/// Finds the index at which to split `known`, so that `first` has as much as possible in common
/// with the part before the index, and `second` with the part after it. Measures this by the total
/// length of the two longest common subsequences. Returns the earliest of several such indexes.
fn find_split(first: &[usize], second: &[usize], known: &[usize]) -> usize {
    let before = common_lengths(first.iter(), &known.iter(), known.len());
    let mut after = common_lengths(second.iter().rev(), &known.iter().rev(), known.len());
    after.reverse();
    let sums = before.iter().zip(&after).map(|(before, after)| before + after);
    let best = sums.clone().max().unwrap_or(0);
    sums.into_iter().position(|sum| sum == best).unwrap_or(0)
}

/// For each prefix of `known`, returns the length of the longest common subsequence of `new` and
/// the prefix.
fn common_lengths<'a>(
    new: impl Iterator<Item = &'a usize>,
    known: &(impl Iterator<Item = &'a usize> + Clone),
    length: usize,
) -> Vec<u32> {
    let mut lengths = vec![0; length + 1];
    for element in new {
        let mut diagonal = 0;
        for (at, other) in known.clone().enumerate() {
            let above = lengths[at + 1];
            lengths[at + 1] = if element == other { diagonal + 1 } else { above.max(lengths[at]) };
            diagonal = above;
        }
    }
    lengths
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_longest_common_part_is_found() {
        for (new, known, expected) in [
            ("abc", "abc", "012"),
            ("abcd", "ab", "01--"),
            ("cdef", "abcd", "23--"),
            ("ab", "", "--"),
            ("", "ab", ""),
            ("xaby", "ab", "-01-"),
            ("bab", "abab", "123"),
            ("acb", "abc", "0-1"),
        ] {
            let found = match_longest(new.as_bytes(), known.as_bytes());
            let found = found.iter().map(|at| at.map_or("-".into(), |at| at.to_string()));
            assert_eq!(found.collect::<String>(), expected, "{new} {known}");
        }
    }

    /// Computes the length of the longest common subsequence with a simple algorithm.
    fn longest(new: &[u8], known: &[u8]) -> usize {
        match (new, known) {
            ([], _) | (_, []) => 0,
            ([a, new @ ..], [b, known @ ..]) if a == b => 1 + longest(new, known),
            ([_, rest @ ..], [_, others @ ..]) => longest(rest, known).max(longest(new, others)),
        }
    }

    #[test]
    fn as_many_equal_items_as_possible_are_paired_in_order() {
        let mut random: u64 = 1;
        let mut below = |end: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % end
        };
        for _ in 0..300 {
            let mut list = || -> Vec<u8> {
                let length = below(9);
                (0..length).map(|_| below(3) as u8).collect()
            };
            let (new, known) = (list(), list());
            let found = match_longest(&new, &known);
            assert_eq!(found.len(), new.len());
            let matched: Vec<usize> = found.iter().flatten().copied().collect();
            assert!(matched.is_sorted_by(|a, b| a < b), "{new:?} {known:?}: {found:?}");
            let is_equal = |(at, found): (usize, &Option<usize>)| {
                found.is_none_or(|found| known[found] == new[at])
            };
            assert!(found.iter().enumerate().all(is_equal), "{new:?} {known:?}: {found:?}");
            assert_eq!(matched.len(), longest(&new, &known), "{new:?} {known:?}: {found:?}");
        }
    }

    #[test]
    fn long_lists_are_compared_in_little_memory() {
        if std::env::var_os("LITTLE_MEMORY").is_some() {
            let known: Vec<usize> = (0..10_000).collect();
            let new: Vec<usize> = known.iter().rev().copied().collect();
            assert_eq!(match_longest(&new, &known).iter().flatten().count(), 1);
            return;
        }
        // A table of all pairs would take 400 MB.
        let test = "common_parts::tests::long_lists_are_compared_in_little_memory";
        let limited = "ulimit -v 400000; exec \"$@\"";
        let program = std::env::current_exe().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", limited, "sh"]).arg(program).args(["--exact", test]);
        let output = command.env("LITTLE_MEMORY", "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
