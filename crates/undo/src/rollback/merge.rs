//! Three-way merge of one file, line by line.
//!
//! Lines are compared byte by byte, line endings included. Changes that overlap or touch are a
//! conflict unless they are equal, as in `git merge-file`. Common lines are found as git finds them
//! (by Myers' algorithm, with changes moved down as far as possible), so the results agree with
//! git's. The exception is a file that repeats a few lines over and over: there are several ways to
//! match such lines, and one program may see a conflict where the other sees none. In a large file,
//! a rewritten part that contains such lines is treated as one change. In every case, a result
//! without conflicts contains every change from both sides.

use std::collections::HashMap;
use std::ops::Range;

use imara_diff::{Algorithm, Diff, Hunk, InternedInput};

/// The treatment of changes that contradict each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Conflicts<'a> {
    /// Only count the conflicts.
    Report,
    /// Take the lines of our side.
    Ours,
    /// Take the lines of the other side.
    Theirs,
    /// Write both sides between markers like git's, with these names. If the base has a name, its
    /// lines are also written. Conflicts in binary files are only counted.
    Markers { ours: &'a str, base: Option<&'a str>, theirs: &'a str },
}

/// The result of a merge.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Merged {
    /// A file with every change from both sides.
    Clean(Vec<u8>),
    /// No file, because `count` changes contradict each other.
    Conflict { count: usize },
    /// A file in which `count` conflicts were resolved as requested.
    Resolved { content: Vec<u8>, count: usize },
}

/// Merges the changes that `ours` and `theirs` made to `base`.
///
/// A file with a NUL byte among its first 8,000 bytes is binary. It is treated as one conflict,
/// unless only one side changed it or both sides are equal.
///
/// ```
/// use takeback_undo::rollback::merge::{Conflicts, Merged, merge};
///
/// let merged = merge(b"a\nb\nc\n", b"A\nb\nc\n", b"a\nb\nC\n", Conflicts::Report);
/// assert_eq!(merged, Merged::Clean(b"A\nb\nC\n".to_vec()));
/// let merged = merge(b"a\n", b"mine\n", b"theirs\n", Conflicts::Report);
/// assert_eq!(merged, Merged::Conflict { count: 1 });
/// ```
pub fn merge(base: &[u8], ours: &[u8], theirs: &[u8], conflicts: Conflicts<'_>) -> Merged {
    if ours == base || ours == theirs {
        return Merged::Clean(theirs.to_vec());
    }
    if theirs == base {
        return Merged::Clean(ours.to_vec());
    }
    if [base, ours, theirs].into_iter().any(is_binary) {
        return match conflicts {
            Conflicts::Ours => Merged::Resolved { content: ours.to_vec(), count: 1 },
            Conflicts::Theirs => Merged::Resolved { content: theirs.to_vec(), count: 1 },
            Conflicts::Report | Conflicts::Markers { .. } => Merged::Conflict { count: 1 },
        };
    }
    let [base, ours, theirs] = [base, ours, theirs].map(split_lines);
    merge_lines(&base, &ours, &theirs, conflicts, SMALL)
}

fn merge_lines(
    base: &[Line<'_>],
    ours: &[Line<'_>],
    theirs: &[Line<'_>],
    conflicts: Conflicts<'_>,
    small: usize,
) -> Merged {
    let mut merge = MergeWriter { content: Vec::new(), count: 0 };
    let mut done = 0;
    for region in find_regions(&find_hunks(base, ours, small), &find_hunks(base, theirs, small)) {
        merge.write_lines(&base[done..region.base.start]);
        done = region.base.end;
        let part = Part {
            base: &base[region.base],
            ours: &ours[region.ours],
            theirs: &theirs[region.theirs],
        };
        merge.write_part(part, conflicts);
    }
    merge.write_lines(&base[done..]);
    match (merge.count, conflicts) {
        (0, _) => Merged::Clean(merge.content),
        (count, Conflicts::Report) => Merged::Conflict { count },
        (count, _) => Merged::Resolved { content: merge.content, count },
    }
}

/// Returns true for a binary file, by the same rule as git.
fn is_binary(content: &[u8]) -> bool {
    content.iter().take(8000).any(|byte| *byte == 0)
}

/// A line, including its newline. The last line of a file may lack a newline.
type Line<'a> = &'a [u8];

fn split_lines(content: &[u8]) -> Vec<Line<'_>> {
    content.split_inclusive(|byte| *byte == b'\n').collect()
}

/// Two versions with at most this many lines in total are small: comparing them takes less than a
/// second.
const SMALL: usize = 20_000;

/// In versions that are not small, a line that occurs at least this often is frequent.
const FREQUENT: usize = 64;

/// Finds the changes of one side, in order. There is at least one unchanged line between two
/// changes.
///
/// If lines are repeated often, the time for a comparison is quadratic in the number of changes.
/// Versions that are not small are therefore first cut at lines that occur exactly once in each of
/// them.
fn find_hunks(base: &[Line<'_>], side: &[Line<'_>], small: usize) -> Vec<Hunk> {
    let is_small = base.len() + side.len() <= small;
    let cuts = if is_small { Vec::new() } else { common_unique_lines(base, side) };
    let mut hunks = Vec::new();
    let (mut old, mut new) = (0, 0);
    for (old_end, new_end) in cuts.into_iter().chain([(base.len(), side.len())]) {
        let shift = |range: Range<u32>, by: usize| range.start + by as u32..range.end + by as u32;
        let piece = find_piece_hunks(&base[old..old_end], &side[new..new_end], small).into_iter();
        hunks.extend(
            piece.map(|hunk| Hunk {
                before: shift(hunk.before, old),
                after: shift(hunk.after, new),
            }),
        );
        (old, new) = (old_end + 1, new_end + 1);
    }
    hunks
}

/// Finds the lines that occur exactly once in each version and are in the same order in both.
/// Returns pairs of line numbers.
fn common_unique_lines(base: &[Line<'_>], side: &[Line<'_>]) -> Vec<(usize, usize)> {
    let (in_base, in_side) = (count_lines(base), count_lines(side));
    let unique = |line: &Line<'_>| in_base.get(line) == Some(&1) && in_side.get(line) == Some(&1);
    let numbers = |lines: &[Line<'_>]| -> Vec<usize> {
        let numbered = lines.iter().enumerate();
        numbered.filter(|(_, line)| unique(line)).map(|(number, _)| number).collect()
    };
    let (old, new) = (numbers(base), numbers(side));
    let moved = compare_lines(old.iter().map(|at| base[*at]), new.iter().map(|at| side[*at]));
    let mut pairs = Vec::new();
    let (mut place, mut other) = (0, 0);
    let end = old.len() as u32;
    for hunk in moved.into_iter().chain([Hunk { before: end..end, after: 0..0 }]) {
        while place < hunk.before.start as usize {
            pairs.push((old[place], new[other]));
            (place, other) = (place + 1, other + 1);
        }
        (place, other) = (hunk.before.end as usize, hunk.after.end as usize);
    }
    pairs
}

fn count_lines<'a>(lines: &[Line<'a>]) -> HashMap<Line<'a>, usize> {
    let mut occurrences = HashMap::new();
    lines.iter().for_each(|line| *occurrences.entry(*line).or_default() += 1);
    occurrences
}

fn find_piece_hunks(base: &[Line<'_>], side: &[Line<'_>], small: usize) -> Vec<Hunk> {
    if base == side {
        return Vec::new();
    }
    let is_frequent = |lines| count_lines(lines).values().any(|count| *count >= FREQUENT);
    let is_large = base.len() + side.len() > small;
    if is_large && (is_frequent(base) || is_frequent(side)) {
        // At worst, this reports a conflict where a finer comparison would find none.
        let (first, last) = common_ends(base, side);
        let range = |lines: &[Line<'_>]| first as u32..(lines.len() - last) as u32;
        return vec![Hunk { before: range(base), after: range(side) }];
    }
    compare_lines(base.iter().copied(), side.iter().copied())
}

fn compare_lines<'a>(
    base: impl Iterator<Item = Line<'a>>,
    side: impl Iterator<Item = Line<'a>>,
) -> Vec<Hunk> {
    let mut input = InternedInput::default();
    input.update_before(base);
    input.update_after(side);
    let mut diff = Diff::compute(Algorithm::Myers, &input);
    diff.postprocess_no_heuristic(&input);
    diff.hunks().collect()
}

/// The positions, in each version, of a group of lines that at least one side changed.
struct Region {
    base: Range<usize>,
    ours: Range<usize>,
    theirs: Range<usize>,
}

/// Finds the regions that either side changed, in order. Changes from different sides that touch
/// each other form one region.
fn find_regions(ours: &[Hunk], theirs: &[Hunk]) -> Vec<Region> {
    let mut starts: Vec<(u32, u32)> =
        ours.iter().chain(theirs).map(|hunk| (hunk.before.start, hunk.before.end)).collect();
    starts.sort_unstable();
    let mut bases: Vec<Range<u32>> = Vec::new();
    for (start, end) in starts {
        match bases.last_mut() {
            Some(last) if start <= last.end => last.end = last.end.max(end),
            _ => bases.push(start..end),
        }
    }
    let (mut ours, mut theirs) = (Side::new(ours), Side::new(theirs));
    bases
        .into_iter()
        .map(|base| Region {
            ours: ours.next_lines(&base),
            theirs: theirs.next_lines(&base),
            base: base.start as usize..base.end as usize,
        })
        .collect()
}

/// A cursor over the changes of one side.
struct Side<'a> {
    hunks: std::iter::Peekable<std::slice::Iter<'a, Hunk>>,
    /// The difference between the side's line numbers and those of the base.
    shift: i64,
}

impl<'a> Side<'a> {
    fn new(hunks: &'a [Hunk]) -> Side<'a> {
        Side { hunks: hunks.iter().peekable(), shift: 0 }
    }

    /// Finds the lines of the next region on this side.
    fn next_lines(&mut self, base: &Range<u32>) -> Range<usize> {
        let at = |line: u32, shift: i64| (i64::from(line) + shift) as usize;
        let start = at(base.start, self.shift);
        while let Some(hunk) = self.hunks.next_if(|hunk| hunk.before.start <= base.end) {
            self.shift = i64::from(hunk.after.end) - i64::from(hunk.before.end);
        }
        start..at(base.end, self.shift)
    }
}

/// The lines of a region in each version.
#[derive(Clone, Copy)]
struct Part<'a> {
    base: &'a [Line<'a>],
    ours: &'a [Line<'a>],
    theirs: &'a [Line<'a>],
}

/// The merged file so far.
struct MergeWriter {
    content: Vec<u8>,
    count: usize,
}

impl MergeWriter {
    fn write_lines(&mut self, lines: &[Line<'_>]) {
        lines.iter().for_each(|line| self.content.extend_from_slice(line));
    }

    fn write_part(&mut self, part: Part<'_>, conflicts: Conflicts<'_>) {
        if part.theirs == part.base || part.theirs == part.ours {
            return self.write_lines(part.ours);
        }
        if part.ours == part.base {
            return self.write_lines(part.theirs);
        }
        self.count += 1;
        match conflicts {
            Conflicts::Report => {}
            Conflicts::Ours => self.write_lines(part.ours),
            Conflicts::Theirs => self.write_lines(part.theirs),
            Conflicts::Markers { ours, base, theirs } => {
                self.write_conflict(part, ours, base, theirs);
            }
        }
    }

    /// Writes both sides between markers. If the base is not written, lines that both sides share
    /// at the start or at the end stay outside the markers.
    fn write_conflict(&mut self, part: Part<'_>, ours: &str, base: Option<&str>, theirs: &str) {
        let (first, last) =
            if base.is_some() { (0, 0) } else { common_ends(part.ours, part.theirs) };
        let (before, our_lines) = part.ours.split_at(first);
        let (our_lines, after) = our_lines.split_at(our_lines.len() - last);
        let their_lines = &part.theirs[first..part.theirs.len() - last];
        let end = line_end(part);
        self.write_lines(before);
        self.write_marker("<<<<<<< ", ours, end);
        self.write_side(our_lines, end);
        if let Some(name) = base {
            self.write_marker("||||||| ", name, end);
            self.write_side(part.base, end);
        }
        self.write_marker("=======", "", end);
        self.write_side(their_lines, end);
        self.write_marker(">>>>>>> ", theirs, end);
        self.write_lines(after);
    }

    fn write_marker(&mut self, marker: &str, name: &str, end: &str) {
        for text in [marker, name, end] {
            self.content.extend_from_slice(text.as_bytes());
        }
    }

    /// Writes the lines of a side. A marker follows, so the last line needs a line ending.
    fn write_side(&mut self, lines: &[Line<'_>], end: &str) {
        self.write_lines(lines);
        if lines.last().is_some_and(|line| !line.ends_with(b"\n")) {
            self.content.extend_from_slice(end.as_bytes());
        }
    }
}

/// Counts the equal lines at the start and at the end of two versions.
fn common_ends(one: &[Line<'_>], other: &[Line<'_>]) -> (usize, usize) {
    let same = |(a, b): &(&Line<'_>, &Line<'_>)| a == b;
    let first = one.iter().zip(other).take_while(same).count();
    let rests = (one[first..].iter().rev(), other[first..].iter().rev());
    (first, rests.0.zip(rests.1).take_while(same).count())
}

/// Returns the line ending that a conflict uses.
fn line_end(part: Part<'_>) -> &'static str {
    let first = part.ours.iter().chain(part.theirs).chain(part.base).next();
    if first.is_some_and(|line| line.ends_with(b"\r\n")) { "\r\n" } else { "\n" }
}

#[cfg(test)]
mod tests;
