//! Three-way merge of one file: what two sides made of the same lines, put together.
//!
//! Lines are compared byte by byte, line ends included, and changes that overlap or touch are a
//! conflict unless they are the same: as `git merge-file` does it. The lines that both versions
//! have in common are found as git finds them (Myers, changes moved down as far as possible), so
//! that the answers are the same, except in files that consist of few different lines over and
//! over: there, what belongs together is anybody's guess, and one may see a conflict where the
//! other sees none. So it is in a large file that was rewritten in such lines: that is one change.
//! Whatever the guess, an answer without conflicts has every change of both sides.

use std::collections::HashMap;
use std::ops::Range;

use imara_diff::{Algorithm, Diff, Hunk, InternedInput};

/// What to do about changes that contradict each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Conflicts<'a> {
    /// Only count them.
    Report,
    /// Take our side's lines there.
    Ours,
    /// Take the other side's lines there.
    Theirs,
    /// Write both into the file, between markers as git has them. Binary files cannot have any:
    /// their conflicts are only counted.
    Markers {
        /// What our side is called.
        ours: &'a str,
        /// What the state before is called: if it is given, its lines are shown too.
        base: Option<&'a str>,
        /// What the other side is called.
        theirs: &'a str,
    },
}

/// What came out of a merge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Merged {
    /// Everything that either side changed.
    Clean(Vec<u8>),
    /// So many changes contradict each other, and there is no result.
    Conflict {
        /// How many.
        count: usize,
    },
    /// A result in which so many contradictions were dealt with as asked for.
    Resolved {
        /// The result.
        content: Vec<u8>,
        /// How many.
        count: usize,
    },
}

/// Merges what `ours` and `theirs` made of `base`.
///
/// A file with a NUL byte among its first 8,000 is binary, and one conflict as a whole, unless
/// only one side changed it or both did the same.
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
    let [base, ours, theirs] = [base, ours, theirs].map(lines);
    merge_lines(&base, &ours, &theirs, conflicts, SMALL)
}

fn merge_lines(
    base: &[Line<'_>],
    ours: &[Line<'_>],
    theirs: &[Line<'_>],
    conflicts: Conflicts<'_>,
    small: usize,
) -> Merged {
    let mut merge = Merge { content: Vec::new(), count: 0 };
    let mut done = 0;
    for region in regions(&hunks(base, ours, small), &hunks(base, theirs, small)) {
        merge.take(&base[done..region.base.start]);
        done = region.base.end;
        let part = Part {
            base: &base[region.base],
            ours: &ours[region.ours],
            theirs: &theirs[region.theirs],
        };
        merge.part(part, conflicts);
    }
    merge.take(&base[done..]);
    match (merge.count, conflicts) {
        (0, _) => Merged::Clean(merge.content),
        (count, Conflicts::Report) => Merged::Conflict { count },
        (count, _) => Merged::Resolved { content: merge.content, count },
    }
}

/// Git's own measure.
fn is_binary(content: &[u8]) -> bool {
    content.iter().take(8000).any(|byte| *byte == 0)
}

/// A line with its newline; the last may have none.
type Line<'a> = &'a [u8];

fn lines(content: &[u8]) -> Vec<Line<'_>> {
    content.split_inclusive(|byte| *byte == b'\n').collect()
}

/// Up to this many lines of both versions together any two are compared in less than a second.
const SMALL: usize = 20_000;

/// A line is frequent from this number of occurrences on, in versions that are not small.
const FREQUENT: usize = 64;

/// What a side changed, in order. Between two changes there is at least one line that stayed.
///
/// Comparing takes time with the square of the number of changes if lines are repeated often. So
/// versions that are not small are first cut at lines that occur once in either.
fn hunks(base: &[Line<'_>], side: &[Line<'_>], small: usize) -> Vec<Hunk> {
    let is_small = base.len() + side.len() <= small;
    let cuts = if is_small { Vec::new() } else { common_unique_lines(base, side) };
    let mut hunks = Vec::new();
    let (mut old, mut new) = (0, 0);
    for (old_end, new_end) in cuts.into_iter().chain([(base.len(), side.len())]) {
        let shift = |range: Range<u32>, by: usize| range.start + by as u32..range.end + by as u32;
        let piece = piece_hunks(&base[old..old_end], &side[new..new_end], small).into_iter();
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

/// Lines that occur once in either version and in the same order in both, by their numbers.
fn common_unique_lines(base: &[Line<'_>], side: &[Line<'_>]) -> Vec<(usize, usize)> {
    let (in_base, in_side) = (occurrences(base), occurrences(side));
    let unique = |line: &Line<'_>| in_base.get(line) == Some(&1) && in_side.get(line) == Some(&1);
    let numbers = |lines: &[Line<'_>]| -> Vec<usize> {
        let numbered = lines.iter().enumerate();
        numbered.filter(|(_, line)| unique(line)).map(|(number, _)| number).collect()
    };
    let (old, new) = (numbers(base), numbers(side));
    let moved = compare(old.iter().map(|at| base[*at]), new.iter().map(|at| side[*at]));
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

fn occurrences<'a>(lines: &[Line<'a>]) -> HashMap<Line<'a>, usize> {
    let mut occurrences = HashMap::new();
    lines.iter().for_each(|line| *occurrences.entry(*line).or_default() += 1);
    occurrences
}

fn piece_hunks(base: &[Line<'_>], side: &[Line<'_>], small: usize) -> Vec<Hunk> {
    if base == side {
        return Vec::new();
    }
    let is_frequent = |lines| occurrences(lines).values().any(|count| *count >= FREQUENT);
    let is_large = base.len() + side.len() > small;
    if is_large && (is_frequent(base) || is_frequent(side)) {
        // At worst there is a conflict where there need not be one.
        let (first, last) = common_ends(base, side);
        let range = |lines: &[Line<'_>]| first as u32..(lines.len() - last) as u32;
        return vec![Hunk { before: range(base), after: range(side) }];
    }
    compare(base.iter().copied(), side.iter().copied())
}

fn compare<'a>(
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

/// Lines that at least one side changed: where they are in each version.
struct Region {
    base: Range<usize>,
    ours: Range<usize>,
    theirs: Range<usize>,
}

/// What either side changed, in order; changes of different sides that touch are one.
fn regions(ours: &[Hunk], theirs: &[Hunk]) -> Vec<Region> {
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
            ours: ours.lines(&base),
            theirs: theirs.lines(&base),
            base: base.start as usize..base.end as usize,
        })
        .collect()
}

/// A walk along the changes of one side.
struct Side<'a> {
    hunks: std::iter::Peekable<std::slice::Iter<'a, Hunk>>,
    /// How much further down than in the base its lines are.
    shift: i64,
}

impl<'a> Side<'a> {
    fn new(hunks: &'a [Hunk]) -> Side<'a> {
        Side { hunks: hunks.iter().peekable(), shift: 0 }
    }

    /// Where the lines of the next region are on this side.
    fn lines(&mut self, base: &Range<u32>) -> Range<usize> {
        let at = |line: u32, shift: i64| (i64::from(line) + shift) as usize;
        let start = at(base.start, self.shift);
        while let Some(hunk) = self.hunks.next_if(|hunk| hunk.before.start <= base.end) {
            self.shift = i64::from(hunk.after.end) - i64::from(hunk.before.end);
        }
        start..at(base.end, self.shift)
    }
}

/// A region's lines in each version.
#[derive(Clone, Copy)]
struct Part<'a> {
    base: &'a [Line<'a>],
    ours: &'a [Line<'a>],
    theirs: &'a [Line<'a>],
}

/// The result so far.
struct Merge {
    content: Vec<u8>,
    count: usize,
}

impl Merge {
    fn take(&mut self, lines: &[Line<'_>]) {
        lines.iter().for_each(|line| self.content.extend_from_slice(line));
    }

    fn part(&mut self, part: Part<'_>, conflicts: Conflicts<'_>) {
        if part.theirs == part.base || part.theirs == part.ours {
            return self.take(part.ours);
        }
        if part.ours == part.base {
            return self.take(part.theirs);
        }
        self.count += 1;
        match conflicts {
            Conflicts::Report => {}
            Conflicts::Ours => self.take(part.ours),
            Conflicts::Theirs => self.take(part.theirs),
            Conflicts::Markers { ours, base, theirs } => self.markers(part, ours, base, theirs),
        }
    }

    /// Both sides between markers. Without the base, lines at either end that both sides have are
    /// left out of it.
    fn markers(&mut self, part: Part<'_>, ours: &str, base: Option<&str>, theirs: &str) {
        let (first, last) =
            if base.is_some() { (0, 0) } else { common_ends(part.ours, part.theirs) };
        let (before, our_lines) = part.ours.split_at(first);
        let (our_lines, after) = our_lines.split_at(our_lines.len() - last);
        let their_lines = &part.theirs[first..part.theirs.len() - last];
        let end = line_end(part);
        self.take(before);
        self.marker("<<<<<<< ", ours, end);
        self.side(our_lines, end);
        if let Some(name) = base {
            self.marker("||||||| ", name, end);
            self.side(part.base, end);
        }
        self.marker("=======", "", end);
        self.side(their_lines, end);
        self.marker(">>>>>>> ", theirs, end);
        self.take(after);
    }

    fn marker(&mut self, marker: &str, name: &str, end: &str) {
        for text in [marker, name, end] {
            self.content.extend_from_slice(text.as_bytes());
        }
    }

    /// The lines of a side; a marker follows, so the last one needs an end.
    fn side(&mut self, lines: &[Line<'_>], end: &str) {
        self.take(lines);
        if lines.last().is_some_and(|line| !line.ends_with(b"\n")) {
            self.content.extend_from_slice(end.as_bytes());
        }
    }
}

/// How many lines at the beginning and at the end are the same.
fn common_ends(one: &[Line<'_>], other: &[Line<'_>]) -> (usize, usize) {
    let same = |(a, b): &(&Line<'_>, &Line<'_>)| a == b;
    let first = one.iter().zip(other).take_while(same).count();
    let rests = (one[first..].iter().rev(), other[first..].iter().rev());
    (first, rests.0.zip(rests.1).take_while(same).count())
}

/// How the lines of a conflict end.
fn line_end(part: Part<'_>) -> &'static str {
    let first = part.ours.iter().chain(part.theirs).chain(part.base).next();
    if first.is_some_and(|line| line.ends_with(b"\r\n")) { "\r\n" } else { "\n" }
}

#[cfg(test)]
mod tests;
