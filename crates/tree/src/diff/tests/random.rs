//! Random trees and text files.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;

/// Writes nodes as real files.
fn write_files(nodes: &Nodes, root: &Path) {
    for (path, node) in nodes {
        let path = root.join(OsStr::from_bytes(path));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match node {
            Node::File(_, content) => fs::write(path, content).unwrap(),
            Node::Link(target) => symlink(OsStr::from_bytes(target), path).unwrap(),
            Node::Directory(_) => unreachable!("only files are checked out"),
        }
    }
}

/// Reads real files as nodes, without directories and modes.
fn read_files(root: &Path) -> Nodes {
    let mut nodes = Nodes::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let path = entry.path();
            let name = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                pending.push(path);
            } else if kind.is_symlink() {
                let target = fs::read_link(path).unwrap();
                nodes.insert(name, Node::Link(target.as_os_str().as_bytes().to_vec()));
            } else {
                nodes.insert(name, file(fs::read(path).unwrap()));
            }
        }
    }
    nodes
}

/// Returns the nodes as [`read_files`] would return them: without directories and modes.
fn plain(nodes: &Nodes) -> Nodes {
    let plain = |node: &Node| match node {
        Node::File(_, content) => Some(file(content.clone())),
        Node::Link(target) => Some(Node::Link(target.clone())),
        Node::Directory(_) => None,
    };
    nodes.iter().filter_map(|(path, node)| Some((path.clone(), plain(node)?))).collect()
}

/// Generates text that may contain any bytes except NUL. The text has so few distinct lines that
/// lines repeat.
fn any_text() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        3 => "[a-d]{0,1}".prop_map(String::into_bytes),
        2 => "( |\t){0,5}[xyz]{1,3}\r?".prop_map(String::into_bytes),
        1 => vec(1_u8..=255, 0..4),
    ];
    (vec(line, 0..40), any::<bool>()).prop_map(|(lines, ends)| {
        let mut text = lines.join(&b'\n');
        text.extend(ends.then_some(b'\n'));
        text
    })
}

/// Generates two versions of a text file: before and after some edits.
fn edited_text() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let edits = vec((any::<prop::sample::Index>(), 0..4_usize, any_text()), 0..4);
    (any_text(), edits).prop_map(|(old, edits)| {
        let mut lines: Vec<Vec<u8>> = old.split(|byte| *byte == b'\n').map(Vec::from).collect();
        for (at, removed, inserted) in edits {
            let at = at.index(lines.len());
            let end = lines.len().min(at + removed);
            lines.splice(at..end, [inserted]);
        }
        (old, lines.join(&b'\n'))
    })
}

fn any_name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => "[a-c]".prop_map(String::into_bytes),
        1 => Just(b"a.b".to_vec()),
        1 => Just(b"sp ace".to_vec()),
        1 => Just(b"n\n\xff".to_vec()),
    ]
}

fn any_path() -> impl Strategy<Value = Vec<u8>> {
    vec(any_name(), 1..4).prop_map(|names| names.join(&b'/'))
}

fn any_node() -> impl Strategy<Value = Node> {
    let content = prop_oneof![Just(Vec::new()), "[a-c]{1,2}\n".prop_map(String::into_bytes)];
    prop_oneof![
        4 => (prop_oneof![Just(0o644), Just(0o600), Just(0o755)], content)
            .prop_map(|(permissions, content)| Node::File(permissions, content)),
        1 => "to [a-c]".prop_map(|target| Node::Link(target.into_bytes())),
        2 => prop_oneof![Just(0o755), Just(0o700)].prop_map(Node::Directory),
    ]
}

/// Makes the nodes valid for one tree: adds every missing directory, and turns a file with nodes
/// below it into a directory.
fn make_possible(mut nodes: Nodes) -> Nodes {
    for path in nodes.keys().cloned().collect::<Vec<_>>() {
        for (slash, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            let above = nodes.entry(path[..slash].to_vec()).or_insert(Node::Directory(0o755));
            if !matches!(above, Node::Directory(_)) {
                *above = Node::Directory(0o711);
            }
        }
    }
    nodes
}

/// Generates two trees that have much in common.
fn any_trees() -> impl Strategy<Value = (Nodes, Nodes)> {
    let any_nodes = || btree_map(any_path(), any_node(), 0..10);
    (any_nodes(), any_nodes(), any_nodes()).prop_map(|(common, old, new)| {
        let with = |other: Nodes| make_possible(common.clone().into_iter().chain(other).collect());
        (with(old), with(new))
    })
}

/// Compares two trees path by path, in the simplest way.
fn expected_kinds(from: &Nodes, to: &Nodes) -> BTreeMap<Vec<u8>, &'static str> {
    let is_empty = |nodes: &Nodes, path: &[u8]| {
        nodes.keys().filter(|other| crate::path::is_within(other, path)).count() == 1
    };
    let lone = |nodes: &Nodes, path: &[u8], node: &Node, kind| {
        (!matches!(node, Node::Directory(_)) || is_empty(nodes, path)).then_some(kind)
    };
    let kind = |path: &Vec<u8>| match (from.get(path), to.get(path)) {
        (Some(a), Some(b)) if a == b => None,
        (None, Some(b)) => lone(to, path, b, "added"),
        (Some(a), None) => lone(from, path, a, "deleted"),
        (Some(Node::File(_, a)), Some(Node::File(_, b))) => {
            Some(if a == b { "mode_changed" } else { "modified" })
        }
        (Some(Node::Link(_)), Some(Node::Link(_))) => Some("modified"),
        (Some(Node::Directory(_)), Some(Node::Directory(_))) => Some("mode_changed"),
        _ => Some("kind_changed"),
    };
    let paths: BTreeSet<&Vec<u8>> = from.keys().chain(to.keys()).collect();
    paths.into_iter().filter_map(|path| Some((path.clone(), kind(path)?))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_difference_is_reported_exactly_once((from, to) in any_trees()) {
        let fixture = Fixture::new();
        let expected = expected_kinds(&from, &to);
        for renames in [false, true] {
            let options = DiffOptions { renames, ..DiffOptions::new(&fixture.rules) };
            let diff = fixture.diff_with(&from, &to, &options);
            prop_assert!(diff.changes.is_sorted_by(|a, b| a.path < b.path));
            let mut found = BTreeMap::new();
            for change in &diff.changes {
                let mut tell = |path: &RelPath, kind: &str| {
                    found.insert(path.as_bytes().to_vec(), kind.to_owned()).is_none()
                };
                if let ChangeKind::Renamed { from } = &change.kind {
                    prop_assert!(renames && tell(from, "deleted") && tell(&change.path, "added"));
                } else {
                    let kind = serde_json::to_value(&change.kind).unwrap();
                    prop_assert!(tell(&change.path, kind["kind"].as_str().unwrap()));
                }
            }
            let found: BTreeMap<_, _> =
                found.iter().map(|(path, kind)| (path.clone(), kind.as_str())).collect();
            prop_assert_eq!(&found, &expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn git_applies_the_text(
        (mut from, mut to) in any_trees(),
        texts in vec(edited_text(), 1..8),
        moved in edited_text(),
    ) {
        for (number, (old, new)) in texts.into_iter().enumerate() {
            from.insert(format!("text{number}").into_bytes(), file(old));
            to.insert(format!("text{number}").into_bytes(), file(new));
        }
        from.insert(b"moved from".to_vec(), file(moved.0));
        to.insert(b"moved to".to_vec(), file(moved.1));

        let fixture = Fixture::new();
        let diff = fixture.diff(&from, &to);
        let patch = fixture.directory.path().join("patch");
        fs::write(&patch, diff.to_unified(&fixture.store, None).unwrap().text).unwrap();
        let root = fixture.directory.path().join("root");
        fs::create_dir(&root).unwrap();
        // Git does not track empty directories, so they are not written.
        write_files(&plain(&from), &root);
        let arguments = ["apply", "--allow-empty", "--whitespace=nowarn", "../patch"];
        run(&mut fixture.git(&root, &arguments));
        prop_assert_eq!(read_files(&root), plain(&to));
    }

    #[test]
    fn counts_match_the_text_and_add_up((old, new) in edited_text()) {
        let fixture = Fixture::new();
        let (from, to) = (nodes([("x", file(&old[..]))]), nodes([("x", file(&new[..]))]));
        let diff = fixture.diff(&from, &to);
        let Some(change) = diff.changes.first() else { return Ok(()) };
        let counts = change.lines.unwrap();
        let lines = |content: &[u8]| hunks::split_lines(content).len() as i64;
        prop_assert_eq!(
            counts.insertions as i64 - counts.deletions as i64,
            lines(&new) - lines(&old)
        );
        let text = diff.to_unified(&fixture.store, None).unwrap().text;
        let signed = |sign: u8| {
            let lines = text.split(|byte| *byte == b'\n').skip(4);
            lines.filter(|line| line.first() == Some(&sign)).count() as u64
        };
        prop_assert_eq!((signed(b'+'), signed(b'-')), (counts.insertions, counts.deletions));

        let (from, to) = (diff.from.to_string(), diff.to.to_string());
        let arguments = ["diff", "--numstat", "--diff-algorithm=histogram", &from, &to];
        let numstat = run(&mut fixture.git(fixture.store.directory(), &arguments)).stdout;
        let numstat = String::from_utf8(numstat).unwrap();
        let numbers: Vec<i64> =
            numstat.split('\t').take(2).map(|number| number.parse().unwrap()).collect();
        prop_assert_eq!(numbers[0] - numbers[1], lines(&new) - lines(&old));
    }
}
