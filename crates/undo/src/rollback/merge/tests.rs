//! Merges, compared with those that git makes.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;

use super::*;

const MARKERS: Conflicts<'_> = Conflicts::Markers { ours: "ours", base: None, theirs: "theirs" };
const DIFF3: Conflicts<'_> =
    Conflicts::Markers { ours: "ours", base: Some("base"), theirs: "theirs" };

fn clean(base: &str, ours: &str, theirs: &str) -> String {
    let merged = merge(base.as_bytes(), ours.as_bytes(), theirs.as_bytes(), Conflicts::Report);
    let Merged::Clean(content) = merged else { panic!("{merged:?}") };
    String::from_utf8(content).unwrap()
}

fn resolved(base: &str, ours: &str, theirs: &str, conflicts: Conflicts<'_>) -> (String, usize) {
    let merged = merge(base.as_bytes(), ours.as_bytes(), theirs.as_bytes(), conflicts);
    let Merged::Resolved { content, count } = merged else { panic!("{merged:?}") };
    (String::from_utf8(content).unwrap(), count)
}

#[test]
fn changes_from_both_sides_are_merged() {
    assert_eq!(clean("a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n"), "A\nb\nC\n");
    assert_eq!(clean("a\nb\nc\n", "a\nb\n", "x\na\nb\nc\n"), "x\na\nb\n");
    assert_eq!(clean("", "", "x"), "x");
    assert_eq!(clean("a\nb\n", "a\nx\n", "a\nx\n"), "a\nx\n");
    assert_eq!(clean("a\nb\nc\n", "x\nb\nc\n", "x\nb\ny\n"), "x\nb\ny\n");
}

#[test]
fn lines_that_differ_in_any_byte_are_different() {
    assert_eq!(clean("a\r\nb\r\nc\r\n", "A\r\nb\r\nc\r\n", "a\r\nb\r\nC"), "A\r\nb\r\nC");
    assert_eq!(clean("a\nb\nc", "a\nb\nc\n", "x\nb\nc"), "x\nb\nc\n");
    let merged = merge(b"\xff\nb\n\xfe\n", b"\xfd\nb\n\xfe\n", b"\xff\nb\n\xfc", MARKERS);
    assert_eq!(merged, Merged::Clean(b"\xfd\nb\n\xfc".to_vec()));
    // A changed line ending is a change like any other.
    let report = merge(b"a\nb\n", b"a\r\nb\n", b"A\nb\n", Conflicts::Report);
    assert_eq!(report, Merged::Conflict { count: 1 });
}

#[test]
fn conflicts_are_counted_or_resolved_as_requested() {
    let (base, ours, theirs) = ("a\nb\nc\nd\ne\n", "1\nb\nc\nd\n5\n", "2\nb\nx\nd\n6\n");
    let report = merge(base.as_bytes(), ours.as_bytes(), theirs.as_bytes(), Conflicts::Report);
    assert_eq!(report, Merged::Conflict { count: 2 });
    let one = resolved(base, ours, theirs, Conflicts::Ours);
    assert_eq!(one, ("1\nb\nx\nd\n5\n".to_owned(), 2));
    let other = resolved(base, ours, theirs, Conflicts::Theirs);
    assert_eq!(other, ("2\nb\nx\nd\n6\n".to_owned(), 2));
    let marked = "<<<<<<< ours\n1\n=======\n2\n>>>>>>> theirs\nb\nx\nd\n\
                  <<<<<<< ours\n5\n=======\n6\n>>>>>>> theirs\n";
    assert_eq!(resolved(base, ours, theirs, MARKERS), (marked.to_owned(), 2));
    // Adjacent changes are one conflict.
    let touching = merge(b"a\nb\n", b"A\nb\n", b"a\nB\n", Conflicts::Report);
    assert_eq!(touching, Merged::Conflict { count: 1 });
}

#[test]
fn markers_are_correct_with_all_kinds_of_line_endings() {
    let (marked, _) = resolved("a\r\n", "b\r\nsame\r\n", "c\r\nsame\r\n", MARKERS);
    assert_eq!(marked, "<<<<<<< ours\r\nb\r\n=======\r\nc\r\n>>>>>>> theirs\r\nsame\r\n");
    let (marked, _) = resolved("a", "b", "c", DIFF3);
    assert_eq!(marked, "<<<<<<< ours\nb\n||||||| base\na\n=======\nc\n>>>>>>> theirs\n");
    let (marked, _) = resolved("a\n", "", "c", MARKERS);
    assert_eq!(marked, "<<<<<<< ours\n=======\nc\n>>>>>>> theirs\n");
}

#[test]
fn binary_files_are_not_merged() {
    let (base, ours, theirs) = (&b"a\0\nb\nc\n"[..], &b"A\0\nb\nc\n"[..], &b"a\0\nb\nC\n"[..]);
    let conflict = Merged::Conflict { count: 1 };
    assert_eq!(merge(base, ours, theirs, Conflicts::Report), conflict);
    assert_eq!(merge(base, ours, theirs, MARKERS), conflict);
    let taken = |content: &[u8]| Merged::Resolved { content: content.to_vec(), count: 1 };
    assert_eq!(merge(base, ours, theirs, Conflicts::Ours), taken(ours));
    assert_eq!(merge(base, ours, theirs, Conflicts::Theirs), taken(theirs));
    assert_eq!(merge(base, ours, base, Conflicts::Report), Merged::Clean(ours.to_vec()));
    assert_eq!(merge(base, base, theirs, Conflicts::Report), Merged::Clean(theirs.to_vec()));
    assert_eq!(merge(base, ours, ours, Conflicts::Report), Merged::Clean(ours.to_vec()));
    // NUL bytes after the first 8,000 bytes are ignored.
    let late = |first: &str, last: &str| {
        let middle = "some line\n".repeat(900);
        format!("{first}\n{middle}\0\n{last}\n").into_bytes()
    };
    let merged = merge(&late("a", "b"), &late("A", "b"), &late("a", "B"), Conflicts::Report);
    assert_eq!(merged, Merged::Clean(late("A", "B")));
}

#[test]
fn large_files_of_repeated_lines_merge_quickly() {
    let mut random = Random(3);
    let mut noise = || -> Vec<u8> {
        (0..150_000).flat_map(|_| format!("{}\n", random.below(40)).into_bytes()).collect()
    };
    let (one, other) = (noise(), noise());
    let version = |first: &str, middle: &[u8], last: &str| {
        [first.as_bytes(), b"one\n", middle, b"two\n", last.as_bytes()].concat()
    };
    let (base, ours) = (version("a\n", &one, "b\n"), version("a\n", &other, "B\n"));
    let theirs = version("A\n", &one, "b\n");
    let merged = merge(&base, &ours, &theirs, Conflicts::Report);
    assert_eq!(merged, Merged::Clean(version("A\n", &other, "B\n")));
}

/// Random numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % end
    }
}

/// The kinds of text that lines are made of.
#[derive(Clone, Copy)]
enum Text {
    /// A few different lines, repeated over and over.
    Letters(u64),
    /// Lines that resemble a program.
    Code,
}

impl Text {
    fn line(self, random: &mut Random) -> Vec<u8> {
        let text = match self {
            Text::Letters(count) => ((b'a' + random.below(count) as u8) as char).to_string(),
            Text::Code => match random.below(10) {
                0 | 1 => "}".to_owned(),
                2 => String::new(),
                3 => "    return \u{fc};".to_owned(),
                _ => format!("    call{}();", random.below(80)),
            },
        };
        let mut line = text.into_bytes();
        match random.below(40) {
            0 => line.extend(b"\xff\n"),
            1 => line.extend(b"\r\n"),
            _ => line.push(b'\n'),
        }
        line
    }

    fn edited(self, random: &mut Random, base: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut lines = base.to_vec();
        for _ in 0..1 + random.below(4) {
            let at = random.below(lines.len() as u64 + 1) as usize;
            let end = (at + 1 + random.below(3) as usize).min(lines.len());
            let new: Vec<_> = (0..random.below(3)).map(|_| self.line(random)).collect();
            match random.below(3) {
                0 => drop(lines.splice(at..at, new)),
                1 => drop(lines.drain(at..end)),
                _ => drop(lines.splice(at..end, new)),
            }
        }
        lines
    }
}

/// Joins lines into a file that may lack a newline at its end.
fn join_lines(random: &mut Random, lines: &[Vec<u8>]) -> Vec<u8> {
    let mut content = lines.concat();
    if random.below(5) == 0 && content.ends_with(b"\n") {
        content.pop();
    }
    content
}

/// Runs `git merge-file`. Returns the content, and true if there are conflicts.
fn merge_with_git(directory: &Path, contents: [&[u8]; 3], options: &[&str]) -> (Vec<u8>, bool) {
    for (name, content) in ["base", "ours", "theirs"].iter().zip(contents) {
        fs::write(directory.join(name), content).unwrap();
    }
    let output = Command::new("git")
        .args(["merge-file", "-p", "-q", "-L", "ours", "-L", "base", "-L", "theirs"])
        .args(options)
        .args(["ours", "base", "theirs"])
        .current_dir(directory)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", directory)
        .output()
        .unwrap();
    let code = output.status.code().unwrap();
    assert!(code < 128, "{}", String::from_utf8_lossy(&output.stderr));
    (output.stdout, code > 0)
}

/// The numbers of merges in which git's result differs from ours.
#[derive(Debug, Default)]
struct Disagreements {
    /// Merges that we find clean, but in which git finds a conflict or produces another result.
    clean: usize,
    /// Merges in which only we see a conflict.
    conflict: usize,
    /// Merges in which both programs see conflicts, but write different lines.
    choice: usize,
}

fn disagreements(text: Text, rounds: usize) -> Disagreements {
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let mut random = Random(7);
    let mut found = Disagreements::default();
    let (mut cleans, mut conflicts) = (0, 0);
    for _ in 0..rounds {
        let count = random.below(40);
        let base: Vec<_> = (0..count).map(|_| text.line(&mut random)).collect();
        let (ours, theirs) = (text.edited(&mut random, &base), text.edited(&mut random, &base));
        let [base, ours, theirs] =
            [base, ours, theirs].map(|lines| join_lines(&mut random, &lines));
        let git =
            |options: &[&str]| merge_with_git(directory.path(), [&base, &ours, &theirs], options);
        let resolved = |conflicts| match merge(&base, &ours, &theirs, conflicts) {
            Merged::Resolved { content, .. } => content,
            merged => panic!("{merged:?}"),
        };
        match merge(&base, &ours, &theirs, Conflicts::Report) {
            Merged::Clean(content) => {
                cleans += 1;
                found.clean += usize::from(git(&[]) != (content, false));
            }
            _ if !git(&[]).1 => found.conflict += 1,
            _ => {
                conflicts += 1;
                let same = resolved(Conflicts::Ours) == git(&["--ours"]).0
                    && resolved(Conflicts::Theirs) == git(&["--theirs"]).0;
                found.choice += usize::from(!same);
            }
        }
    }
    assert!(cleans > rounds / 5 && conflicts > rounds / 5, "{cleans} and {conflicts}");
    found
}

#[test]
fn source_code_is_merged_as_git_merges_it() {
    let found = disagreements(Text::Code, 400);
    assert!(found.clean == 0 && found.conflict == 0 && found.choice <= 4, "{found:?}");
}

/// If a file repeats its lines, there is more than one way to match them.
#[test]
fn files_of_repeated_lines_are_mostly_merged_as_git_merges_them() {
    for (letters, most) in [(2, 6), (4, 3), (12, 1)] {
        let found = disagreements(Text::Letters(letters), 300);
        let few = found.clean <= most && found.conflict <= most && found.choice <= 5 * most;
        assert!(few, "{found:?} with {letters} letters");
    }
}

/// The way in which the two sides change a few lines of a file.
#[derive(Clone, Debug)]
enum Fate {
    Nothing,
    Ours(Vec<u8>),
    Theirs(Vec<u8>),
    Both(Vec<u8>),
    Apart(Vec<u8>, Vec<u8>),
}

fn fates() -> impl Strategy<Value = Vec<(usize, Fate)>> {
    let new = || prop::collection::vec(b'a'..=b'z', 0..4);
    let fate = prop_oneof![
        2 => Just(Fate::Nothing),
        3 => new().prop_map(Fate::Ours),
        3 => new().prop_map(Fate::Theirs),
        2 => new().prop_map(Fate::Both),
        1 => (new(), new()).prop_map(|(ours, theirs)| Fate::Apart(ours, theirs)),
    ];
    prop::collection::vec((0usize..4, fate), 0..12)
}

proptest! {
    /// The result contains every change from both sides and nothing else. The test checks this
    /// without a diff.
    #[test]
    fn a_merge_loses_nothing_and_invents_nothing(fates in fates()) {
        let mut versions: [Vec<u8>; 5] = Default::default();
        let mut number = 0;
        let mut conflicts = 0;
        let mut next = |mark: &str| {
            number += 1;
            format!("{mark} {number}\n").into_bytes()
        };
        for (count, fate) in fates {
            // A line that occurs once in every version separates the changes.
            let apart = next("kept");
            versions.iter_mut().for_each(|version| version.extend(&apart));
            let old: Vec<u8> = (0..count).flat_map(|_| next("old")).collect();
            let mut lines = |new: &[u8], mark: &str| -> Vec<u8> {
                new.iter().flat_map(|_| next(mark)).collect()
            };
            // The lines of our side, of their side, of the merge resolved in our favor, and of the
            // merge resolved in theirs.
            let [ours, theirs, one, other] = match &fate {
                Fate::Nothing => [&old, &old, &old, &old].map(Clone::clone),
                Fate::Ours(new) => {
                    let new = lines(new, "ours");
                    [&new, &old, &new, &new].map(Clone::clone)
                }
                Fate::Theirs(new) => {
                    let new = lines(new, "theirs");
                    [&old, &new, &new, &new].map(Clone::clone)
                }
                Fate::Both(new) => {
                    let new = lines(new, "both");
                    [&new, &new, &new, &new].map(Clone::clone)
                }
                Fate::Apart(ours, theirs) => {
                    let (ours, theirs) = (lines(ours, "ours"), lines(theirs, "theirs"));
                    conflicts += usize::from(ours != old && theirs != old && ours != theirs);
                    let (one, other) = match (ours == old, theirs == old) {
                        (true, _) => (&theirs, &theirs),
                        (_, true) => (&ours, &ours),
                        _ => (&ours, &theirs),
                    };
                    [&ours, &theirs, one, other].map(Clone::clone)
                }
            };
            for (version, lines) in versions.iter_mut().zip([&old, &ours, &theirs, &one, &other]) {
                version.extend(lines);
            }
        }
        let [base, ours, theirs, one, other] = versions;
        // Merge once as a small file, and once as a large one.
        for small in [SMALL, 0] {
            let merge = |conflicts| {
                merge_lines(&split_lines(&base), &split_lines(&ours), &split_lines(&theirs), conflicts, small)
            };
            if conflicts == 0 {
                prop_assert_eq!(merge(Conflicts::Report), Merged::Clean(one.clone()));
                continue;
            }
            prop_assert_eq!(merge(Conflicts::Report), Merged::Conflict { count: conflicts });
            for (choice, content) in [(Conflicts::Ours, &one), (Conflicts::Theirs, &other)] {
                let expected = Merged::Resolved { content: content.clone(), count: conflicts };
                prop_assert_eq!(merge(choice), expected);
            }
        }
    }

    /// Applying the changes to one version yields the other, with either algorithm.
    #[test]
    fn applying_the_changes_of_one_side_to_the_base_gives_that_side(
        base in "[abcdefgh\n]{0,60}", side in "[abcdefgh\n]{0,60}",
        frequent in 0usize..90, small in prop::sample::select(vec![0, 20, SMALL]),
    ) {
        let [base, side] = [base, side].map(|text| text + &"same\n".repeat(frequent));
        let (base, side) = (split_lines(base.as_bytes()), split_lines(side.as_bytes()));
        let (mut made, mut done) = (Vec::<Line<'_>>::new(), 0);
        for hunk in find_hunks(&base, &side, small) {
            let range = |range: Range<u32>| range.start as usize..range.end as usize;
            let before = range(hunk.before);
            prop_assert!(done == 0 || before.start > done, "a line is between two changes");
            made.extend(&base[done..before.start]);
            made.extend(&side[range(hunk.after)]);
            done = before.end;
        }
        made.extend(&base[done..]);
        prop_assert_eq!(made, side);
    }

    /// Both sides are treated alike, and the markers enclose the lines of both.
    #[test]
    fn both_sides_are_treated_alike(
        base in "[ab\n]{0,30}", ours in "[ab\n]{0,30}", theirs in "[ab\n]{0,30}",
    ) {
        let [base, ours, theirs] = [&base, &ours, &theirs].map(String::as_bytes);
        let report = merge(base, ours, theirs, Conflicts::Report);
        prop_assert_eq!(&report, &merge(base, theirs, ours, Conflicts::Report));
        prop_assert_eq!(
            merge(base, ours, theirs, Conflicts::Ours),
            merge(base, theirs, ours, Conflicts::Theirs)
        );
        if let Merged::Conflict { count } = report {
            for conflicts in [MARKERS, DIFF3] {
                let merged = merge(base, ours, theirs, conflicts);
                let Merged::Resolved { content, count: marked } = merged else {
                    panic!("{merged:?}")
                };
                prop_assert_eq!(marked, count);
                let taken = |conflicts| match merge(base, ours, theirs, conflicts) {
                    Merged::Resolved { content, .. } => content,
                    merged => panic!("{merged:?}"),
                };
                prop_assert_eq!(unmark(&content, true), ended(taken(Conflicts::Ours)));
                prop_assert_eq!(unmark(&content, false), ended(taken(Conflicts::Theirs)));
            }
        }
    }
}

/// Extracts one side from a file with conflict markers.
fn unmark(content: &[u8], is_ours: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let mut skip = false;
    for line in split_lines(content) {
        match line.get(..7) {
            Some(b"<<<<<<<") => skip = !is_ours,
            Some(b"|||||||") => skip = true,
            Some(b"=======") => skip = is_ours,
            Some(b">>>>>>>") => skip = false,
            _ if skip => {}
            _ => out.extend_from_slice(line),
        }
    }
    ended(out)
}

fn ended(mut content: Vec<u8>) -> Vec<u8> {
    if !content.is_empty() && !content.ends_with(b"\n") {
        content.push(b'\n');
    }
    content
}
