//! `.gitignore` files have the same effect as in git, at every level and after every change.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use takeback_tree::{Capture, MAX_PATTERNS, RelPath, UncoveredReason};

use crate::support::{Scratch, git, read_directory, rel};

/// Generates a name with characters that are special in patterns. No built-in exclude matches it.
fn any_name() -> impl Strategy<Value = Vec<u8>> {
    let names: Vec<&[u8]> = vec![
        b"a",
        b"b",
        b"c",
        b"d",
        b"ab",
        b"abc",
        b"a.c",
        b".a",
        b"a b",
        b"a ",
        b"a  ",
        b" ",
        b" a",
        b"#a",
        b"!a",
        b"$a",
        b"\\a",
        b"a\\",
        b"\\",
        b"\\#a",
        b"\\!a",
        b"[a]",
        b"[",
        b"a]",
        b"a*",
        b"*",
        b"**",
        b"a?",
        b"?",
        b"a-c",
        b"-",
        b"^",
        b"!",
        b"#",
        b"a\r",
        b"\r",
        b"a\t",
        b"\t",
        b"a\nb",
        b"caf\xc3\xa9",
        b"\xe6\x97\xa5",
        b"\xff",
        b"...",
        b"A",
        b"1",
        b":",
    ];
    prop_oneof![
        3 => select(vec![&b"a"[..], b"b", b"c", b"ab", b"a.c"]).prop_map(<[u8]>::to_vec),
        3 => select(names).prop_map(<[u8]>::to_vec),
    ]
}

/// Generates the part of a pattern between two slashes.
fn any_part() -> impl Strategy<Value = Vec<u8>> {
    let wild: Vec<&[u8]> = vec![
        b"*",
        b"**",
        b"***",
        b"?",
        b"??",
        b"a*",
        b"*a",
        b"*c",
        b"*b*",
        b"a**",
        b"**a",
        b"?a",
        b"[ab]",
        b"[a-c]",
        b"[!a]",
        b"[^a]",
        b"[!a-c]",
        b"[]a]",
        b"[!]a]",
        b"[a-]",
        b"[c-a]",
        b"[[:alpha:]]",
        b"[[:digit:]]*",
        b"[[:nope:]]",
        // `[[:alpha]` is left out. An unclosed class that is not at the start of the pattern is the
        // only construct that gix-glob 0.29 matches differently from git.
        b"[a",
        b"[\\]]",
        b"[\\a-c]",
        b"\\a",
        b"\\*",
        b"a\\*",
        b"\\[a\\]",
        b"\\\\",
        b"\\\\a",
        b"a\\\\",
        b"\\ ",
        b"a\\ ",
        b"\\#a",
        b"\\!a",
        b"\\$a",
        b"*.c",
        b"*.?",
        b".*",
        b"a\\",
        b"[*]",
        b"[?]",
        b"[[]",
        b"[/]",
        b"\\?",
        b"[ -~]",
        b"[!-~]",
        b"[[:space:]]",
        b"*[!c]",
        b"a*b*c",
        b"?*",
        b"*\\",
        b"[^",
    ];
    prop_oneof![3 => any_name(), 4 => select(wild).prop_map(<[u8]>::to_vec)]
}

/// Generates a line of a `.gitignore`, usually a sensible one.
fn any_line() -> impl Strategy<Value = Vec<u8>> {
    let starts: Vec<&[u8]> =
        vec![b"", b"", b"", b"", b"/", b"/", b"!", b"!", b"!/", b"**/", b"!**/", b"#", b" ", b"//"];
    let ends: Vec<&[u8]> = vec![
        b"", b"", b"", b"", b"/", b"/", b"/**", b"/*", b" ", b"  ", b"\\ ", b"\\  ", b"\t", b"//",
        b"\0", b"\r", b"/ ", b"/\\ ",
    ];
    let joints: Vec<&[u8]> = vec![b"/", b"/", b"/**/", b"", b"*", b"**/", b"/**", b"//"];
    let sensible = (
        select(starts),
        prop::collection::vec((any_part(), select(joints)), 0..3),
        any_part(),
        select(ends),
    )
        .prop_map(|(start, parts, last, end)| {
            let mut line = start.to_vec();
            for (part, joint) in parts {
                line.extend(part);
                line.extend(joint);
            }
            line.extend(last);
            line.extend(end);
            line
        });
    let odd: Vec<&[u8]> = vec![
        b"",
        b" ",
        b"/",
        b"//",
        b"!",
        b"!!a",
        b"!/",
        b"**",
        b"/**",
        b"**/",
        b"/*",
        b"!*/",
        b"*/",
        b"#",
        b"\\",
        b"\\#",
        b"\t",
        b"\r",
        b"/a",
        b"a/",
        b"/a/",
        b"a/b",
        b"/*/a",
        b"*/*",
        b"!a",
        b"*",
        b"!*",
        b"!*.c",
        b"a/**",
        b"**/a",
        b"a/**/b",
        b"!a/b",
        b"\0a",
        b"\xef\xbb\xbfa",
    ];
    let letters: Vec<u8> = b"aabbc/**?[]!\\#-^:. \t\r$".to_vec();
    prop_oneof![
        6 => sensible,
        2 => select(odd).prop_map(<[u8]>::to_vec),
        2 => prop::collection::vec(select(letters), 0..10),
    ]
}

/// Generates the text of a `.gitignore`. Covers all the ways in which such a file can begin and in
/// which its lines can end.
fn any_ignore_file() -> impl Strategy<Value = Vec<u8>> {
    let starts: Vec<&[u8]> = vec![b"", b"", b"", b"", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"];
    let line_ends: Vec<&[u8]> = vec![b"\n", b"\n", b"\n", b"\r\n", b"\n\n"];
    (
        select(starts),
        prop::collection::vec((any_line(), select(line_ends)), 0..5),
        prop::option::of(any_line()),
    )
        .prop_map(|(start, lines, last)| {
            let mut text = start.to_vec();
            for (line, end) in lines {
                text.extend(line);
                text.extend(end);
            }
            text.extend(last.unwrap_or_default());
            text
        })
}

fn any_path() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(any_name(), 1..5)
}

/// Files in nested directories, and the `.gitignore` files in these directories.
#[derive(Clone, Debug)]
struct Sample {
    files: Vec<Vec<Vec<u8>>>,
    ignores: Vec<(prop::sample::Index, usize, Vec<u8>)>,
}

fn any_sample() -> impl Strategy<Value = Sample> {
    let ignore = (any::<prop::sample::Index>(), 0..4usize, any_ignore_file());
    (prop::collection::vec(any_path(), 1..12), prop::collection::vec(ignore, 1..4))
        .prop_map(|(files, ignores)| Sample { files, ignores })
}

/// Generates deeply nested files with few distinct names and patterns, so that the patterns often
/// match.
fn plain_sample() -> impl Strategy<Value = Sample> {
    let ignore = (any::<prop::sample::Index>(), 0..4usize, plain_ignore_file());
    (prop::collection::vec(plain_path(), 6..30), prop::collection::vec(ignore, 0..3))
        .prop_map(|(files, ignores)| Sample { files, ignores })
}

fn plain_path() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(select(vec![b"a".to_vec(), b"b".to_vec(), b"c".to_vec()]), 2..6)
}

fn plain_ignore_file() -> impl Strategy<Value = Vec<u8>> {
    let lines: Vec<&[u8]> =
        vec![b"a", b"b/", b"/c", b"a/b", b"!a", b"!b/", b"**/c/", b"b/**/c", b"a/*", b"c/"];
    prop::collection::vec(select(lines), 0..3).prop_map(|lines| lines.join(&b'\n'))
}

fn join_names(names: &[Vec<u8>]) -> Vec<u8> {
    names.join(&b'/')
}

/// Writes a file, unless another file or directory is in the way.
fn try_write(root: &Path, path: &[u8], content: &[u8]) {
    let path = root.join(OsStr::from_bytes(path));
    if fs::create_dir_all(path.parent().unwrap()).is_ok() && !path.is_dir() {
        let _ = fs::write(path, content);
    }
}

impl Sample {
    fn make(&self, root: &Path) {
        // Each `.gitignore` is at the top or in another directory above a file.
        fs::create_dir_all(root).unwrap();
        for file in &self.files {
            try_write(root, &join_names(file), b"x");
        }
        for (file, depth, text) in &self.ignores {
            let file = file.get(&self.files);
            let mut path = file[..file.len().min(depth + 1) - 1].to_vec();
            path.push(b".gitignore".to_vec());
            try_write(root, &join_names(&path), text);
        }
    }
}

/// Creates a workspace in which every ignored file is treated as too large, so that the tree holds
/// only files that git does not ignore.
fn strict_scratch() -> Scratch {
    let mut scratch = Scratch::in_memory();
    scratch.rules.max_guarded_size = 0;
    scratch
}

/// Lists the files that git does not ignore. `.gitignore` files themselves are always captured.
fn files_by_git(scratch: &Scratch) -> BTreeSet<Vec<u8>> {
    let listed = git(&scratch.root, &["ls-files", "--others", "--exclude-standard", "-z"]);
    paths(listed.split(|byte| *byte == 0).map(<[u8]>::to_vec))
}

/// Lists the files that a capture holds.
fn files_by_capture(scratch: &Scratch, capture: &Capture) -> BTreeSet<Vec<u8>> {
    let entries = scratch.ls_tree(capture.tree).into_iter();
    paths(entries.filter(|(_, (mode, _))| !mode.starts_with("04")).map(|(path, _)| path))
}

fn paths(paths: impl Iterator<Item = Vec<u8>>) -> BTreeSet<Vec<u8>> {
    paths.filter(|path| !path.is_empty() && !path.ends_with(b".gitignore")).collect()
}

fn assert_like_git(scratch: &Scratch) {
    let capture = scratch.capture_only();
    let (ours, gits) = (files_by_capture(scratch, &capture), files_by_git(scratch));
    if ours != gits {
        let readable = |path: &Vec<u8>| path.escape_ascii().to_string();
        let extra: Vec<String> = ours.difference(&gits).map(readable).collect();
        let missing: Vec<String> = gits.difference(&ours).map(readable).collect();
        panic!(
            "captured, but ignored by git: {extra:?}; left out, but not by git: {missing:?}\n{}",
            ignore_files(&scratch.root)
        );
    }
    // Files that are left out are reported.
    for uncovered in &capture.uncovered {
        assert!(matches!(
            uncovered.reason,
            UncoveredReason::Ignored | UncoveredReason::TooLarge { .. }
        ));
    }
}

fn ignore_files(root: &Path) -> String {
    let all = read_directory(root);
    let ignores: BTreeMap<_, _> =
        all.iter().filter(|(path, _)| path.ends_with(b".gitignore")).collect();
    let lines = ignores
        .iter()
        .map(|(path, (_, text))| format!("{}: {}\n", path.escape_ascii(), text.escape_ascii()));
    lines.collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24, failure_persistence: None, max_shrink_iters: 4000, ..ProptestConfig::default()
    })]

    #[test]
    fn captures_hold_the_same_files_as_git(
        samples in prop::collection::vec(any_sample(), 1..30),
        top in prop::option::weighted(0.3, any_ignore_file()),
    ) {
        let scratch = strict_scratch();
        git(&scratch.root, &["init", "-q", "--template="]);
        for (number, sample) in samples.iter().enumerate() {
            sample.make(&scratch.path(format!("s{number}")));
        }
        if let Some(text) = &top {
            scratch.write(".gitignore", text);
        }
        assert_like_git(&scratch);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60, failure_persistence: None, max_shrink_iters: 4000, ..ProptestConfig::default()
    })]

    #[test]
    fn a_later_capture_has_the_same_result_as_a_first_capture(
        sample in prop_oneof![1 => any_sample(), 3 => plain_sample()],
        changes in prop::collection::vec(any_change(), 1..14),
    ) {
        let mut scratch = Scratch::in_memory();
        scratch.rules.max_guarded_size = 4;
        sample.make(&scratch.root);
        scratch.capture_only();
        for (change, trusting) in changes {
            change.make(&mut scratch);
            // With the clock an hour ahead, no file is considered new, so no file is reread for
            // that reason.
            scratch.ahead = Duration::from_secs(if trusting { 3600 } else { 0 });
            prop_assert_eq!(scratch.capture_only(), scratch.fresh(), "{:?}", change);
        }
    }
}

/// A change to a workspace.
#[derive(Clone, Debug)]
enum WorkspaceChange {
    /// Writes a new or existing file.
    Write(Vec<Vec<u8>>, Vec<u8>),
    /// Writes the `.gitignore` of a directory.
    Ignore(prop::sample::Index, Vec<u8>),
    /// Deletes a file or directory.
    Remove(prop::sample::Index),
    /// Renames a file or directory. This may replace another file or directory.
    Rename(prop::sample::Index, prop::sample::Index),
    /// Creates a link in a directory.
    Link(prop::sample::Index, Vec<u8>),
    Chmod(prop::sample::Index),
    /// Makes all later captures name these paths.
    Name(Vec<Vec<Vec<u8>>>),
    /// Makes git start or stop tracking a path.
    Track(prop::sample::Index, bool),
    /// Sets the maximum size of captured files for all later captures.
    Limit(u64),
}

fn any_change() -> impl Strategy<Value = (WorkspaceChange, bool)> {
    let index = any::<prop::sample::Index>;
    let content = prop::collection::vec(any::<u8>(), 0..8);
    let change = prop_oneof![
        6 => (index(), plain_ignore_file()).prop_map(|(at, text)| WorkspaceChange::Ignore(at, text)),
        4 => (prop_oneof![any_path(), plain_path()], content)
            .prop_map(|(path, content)| WorkspaceChange::Write(path, content)),
        2 => (index(), any_ignore_file()).prop_map(|(at, text)| WorkspaceChange::Ignore(at, text)),
        2 => index().prop_map(WorkspaceChange::Remove),
        2 => (index(), index()).prop_map(|(from, to)| WorkspaceChange::Rename(from, to)),
        1 => (index(), any_name()).prop_map(|(at, name)| WorkspaceChange::Link(at, name)),
        1 => index().prop_map(WorkspaceChange::Chmod),
        2 => prop::collection::vec(plain_path(), 0..3).prop_map(WorkspaceChange::Name),
        2 => (index(), any::<bool>()).prop_map(|(at, add)| WorkspaceChange::Track(at, add)),
        1 => (0..8u64).prop_map(WorkspaceChange::Limit),
    ];
    (change, any::<bool>())
}

impl WorkspaceChange {
    fn make(&self, scratch: &mut Scratch) {
        let everything = read_directory(&scratch.root);
        let is_directory = |(_, (mode, _)): &(&Vec<u8>, &(u32, Vec<u8>))| mode >> 12 == 4;
        let mut directories: Vec<Vec<u8>> =
            everything.iter().filter(is_directory).map(|(path, _)| path.clone()).collect();
        directories.push(Vec::new());
        let all: Vec<Vec<u8>> = everything.keys().cloned().collect();
        let in_directory = |at: &prop::sample::Index, name: &[u8]| {
            let directory = scratch.path(at.get(&directories));
            directory.join(OsStr::from_bytes(name))
        };
        match self {
            WorkspaceChange::Write(path, content) => {
                try_write(&scratch.root, &join_names(path), content);
            }
            WorkspaceChange::Ignore(at, text) => {
                drop(fs::write(in_directory(at, b".gitignore"), text));
            }
            WorkspaceChange::Link(at, name) => {
                drop(std::os::unix::fs::symlink(OsStr::from_bytes(name), in_directory(at, name)));
            }
            WorkspaceChange::Name(paths) => {
                scratch.named =
                    paths.iter().map(|path| RelPath::new(join_names(path)).unwrap()).collect();
            }
            WorkspaceChange::Limit(size) => scratch.rules.max_file_size = *size,
            _ if all.is_empty() => {}
            WorkspaceChange::Track(at, add) => {
                git(&scratch.root, &["init", "-q", "--template="]);
                let Ok(path) = String::from_utf8(at.get(&all).clone()) else { return };
                let how: &[&str] = if *add {
                    &["add", "-f"]
                } else {
                    &["rm", "-q", "-rf", "--cached", "--ignore-unmatch"]
                };
                git(&scratch.root, &[&["--literal-pathspecs"], how, &["--", &path]].concat());
            }
            WorkspaceChange::Remove(at) => scratch.remove(at.get(&all)),
            WorkspaceChange::Rename(from, to) => {
                drop(fs::rename(scratch.path(from.get(&all)), scratch.path(to.get(&all))));
            }
            WorkspaceChange::Chmod(at) if !scratch.path(at.get(&all)).is_symlink() => {
                scratch.chmod(at.get(&all), 0o750);
            }
            WorkspaceChange::Chmod(_) => {}
        }
    }
}

/// Each kind of pattern is tested separately, so that a failure names the kind.
#[test]
fn each_kind_of_pattern_matches_what_it_matches_in_git() {
    let files = [
        "a", "b", "ab", "a b", "a ", "#a", "!a", "\\a", "[a]", "a*", "\t", "$a", "a/b", "a/c/b",
        "ax/y/b", "d/a", "d/a/b", "d/e/a", "e/a.c",
    ];
    let scratch = strict_scratch();
    git(&scratch.root, &["init", "-q", "--template="]);
    let patterns = [
        "a",
        "a/",
        "/a",
        "a/b",
        "/a/",
        "*",
        "!a",
        "*\n!a",
        "*\n!*/\n!b",
        "**",
        "**/b",
        "a/**",
        "a/**/b",
        "a**",
        "/a**",
        "a**/b",
        "d/**",
        "[!a]",
        "[a-c]",
        "?",
        "\\#a",
        "\\!a",
        "#a",
        "a\\ ",
        "a ",
        "a\r",
        "a\r\n",
        "\u{feff}a",
        "\t",
        "a\0b",
        "/",
        "//",
        "!",
        "\\",
        "a\\",
        "\\\\a",
        "\\[a\\]",
        "[[a]",
        "[]",
        "a\\*",
        "\\$a",
        "d/e/../a",
        "./a",
        "*.c",
        "*/*/a",
        "d/*",
        "!d/a\nd",
    ];
    for (number, pattern) in patterns.iter().enumerate() {
        let files = files.iter().enumerate();
        for (variant, file) in files {
            // Each variant has a directory of its own, because the same name can be a file in one
            // variant and a directory in another.
            scratch.write(format!("p{number}/v{variant}/{file}"), "x");
            scratch.write(format!("p{number}/v{variant}/.gitignore"), pattern);
        }
    }
    assert_like_git(&scratch);
}

/// A `.gitignore` that is not captured itself still determines what is ignored, so changes to it
/// matter.
#[test]
fn a_gitignore_that_is_not_captured_still_applies() {
    let setups: [fn(&mut Scratch); 5] = [
        |scratch| scratch.rules.exclude = vec![".gitignore".into()],
        |scratch| scratch.rules.max_file_size = 1,
        |scratch| {
            scratch.rules.skip_private = true;
            scratch.rules.private = vec![".gitignore".into()];
            scratch.write(".gitignore", ".gitignore\n");
        },
        |scratch| scratch.write(".gitignore", ".gitignore\n"),
        |scratch| {
            scratch.write(".gitignore", "d/\n");
            scratch.named = vec![rel("d/named")];
        },
    ];
    for (number, setup) in setups.into_iter().enumerate() {
        let mut scratch = Scratch::new();
        scratch.ahead = Duration::from_secs(3600);
        setup(&mut scratch);
        let first = fs::read(scratch.path(".gitignore")).unwrap_or_default();
        for path in ["d/x", "d/named", "e/x", "x"] {
            scratch.write(path, "1");
        }
        for text in ["", "e/\n", "e/\nx\n", "d/\n", ""] {
            let text = [&first[..], text.as_bytes()].concat();
            scratch.write(".gitignore", &text);
            assert_eq!(scratch.capture_only(), scratch.fresh(), "{number} {text:?}");
            scratch.write("d/.gitignore", text);
            assert_eq!(scratch.capture_only(), scratch.fresh(), "{number}");
        }
    }
}

/// A file that git tracks is captured even if it is larger than `max_file_size`.
#[test]
fn a_tracked_file_is_captured_regardless_of_its_earlier_size() {
    let mut scratch = Scratch::new();
    scratch.rules.max_file_size = 100;
    scratch.ahead = Duration::from_secs(3600);
    git(&scratch.root, &["init", "-q", "--template="]);
    scratch.write("f", "small");
    git(&scratch.root, &["add", "f"]);
    for size in [5, 200, 50, 300, 1] {
        scratch.write("f", vec![b'x'; size]);
        assert_eq!(scratch.capture_only(), scratch.fresh(), "{size}");
    }
}

#[test]
fn a_gitignore_with_too_many_patterns_is_reported_and_not_applied() {
    let scratch = Scratch::new();
    for path in ["a.secret", "sub/b.secret", "sub/c"] {
        scratch.write(path, path);
    }
    let patterns = |count: usize| -> String {
        (1..count).map(|number| format!("pattern-{number}\n")).chain(["/sub/".into()]).collect()
    };
    scratch.write(".gitignore", patterns(MAX_PATTERNS));
    let capture = scratch.capture();
    assert_eq!((capture.files, capture.unapplied), (2, vec![]));
    // The limit applies to the total number of patterns in all files that apply in a directory.
    scratch.write("sub/.gitignore", "*.secret\n");
    scratch.write(".gitignore", patterns(MAX_PATTERNS).replace("/sub/", "x"));
    let capture = scratch.capture();
    assert_eq!((capture.files, capture.unapplied), (5, vec![rel("sub/.gitignore")]));
    scratch.remove("sub/.gitignore");
    scratch.write(".gitignore", patterns(MAX_PATTERNS + 1));
    let capture = scratch.capture();
    assert_eq!((capture.files, &capture.unapplied), (4, &vec![rel(".gitignore")]));
    // A restore does not apply this `.gitignore` either, so no file is guarded.
    scratch.write("sub/c", "changed");
    let plan = scratch.restore(&capture, &[]);
    assert_eq!((plan.writes, plan.guarded), (vec![rel("sub/c")], vec![]));
}

#[test]
fn a_split_index_whose_shared_part_cannot_be_read_is_reported() {
    let scratch = Scratch::new();
    git(&scratch.root, &["init", "-q"]);
    scratch.write(".gitignore", "build/\n");
    scratch.write("build/tracked", "1");
    git(&scratch.root, &["add", "-f", "build/tracked"]);
    git(&scratch.root, &["update-index", "--split-index"]);
    let capture = scratch.capture();
    assert!(!capture.incomplete_index);
    assert_eq!(scratch.files(capture.tree), [".gitignore", "build/tracked"]);
    let shared = fs::read_dir(scratch.path(".git")).unwrap().map(|entry| entry.unwrap().path());
    let is_shared = |path: &PathBuf| path.to_string_lossy().contains("sharedindex.");
    let shared = shared.into_iter().find(is_shared).unwrap();
    let aside = scratch.path("../aside");
    fs::rename(&shared, &aside).unwrap();
    scratch.write("build/tracked", "2");
    // Every capture reports the incomplete index until the shared part is back.
    for name in ["x", "y"] {
        scratch.write(name, "1");
        assert!(scratch.capture().incomplete_index, "{name}");
    }
    fs::rename(&aside, &shared).unwrap();
    let capture = scratch.capture();
    assert!(!capture.incomplete_index);
    assert!(scratch.files(capture.tree).contains(&"build/tracked".to_owned()));
    assert_eq!(capture, scratch.fresh());
}
