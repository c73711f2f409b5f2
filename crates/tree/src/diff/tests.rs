//! Tests of diffs, by subject. Git checks the generated text.

mod changes;
mod random;
mod renames;
mod text;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

use super::*;
use crate::object::{ObjectKind, TreeEntry, compare_names, push_entry};
use crate::pack::write::PackWriter;

/// An entry of a tree. Directories are implied, unless they are empty or their mode matters.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Node {
    File(u32, Vec<u8>),
    Link(Vec<u8>),
    Directory(u32),
}

type Nodes = BTreeMap<Vec<u8>, Node>;

fn file(content: impl Into<Vec<u8>>) -> Node {
    Node::File(0o644, content.into())
}

fn nodes<const N: usize>(nodes: [(&str, Node); N]) -> Nodes {
    nodes.into_iter().map(|(path, node)| (path.as_bytes().to_vec(), node)).collect()
}

struct Fixture {
    directory: TempDir,
    store: Store,
    rules: CaptureRules,
}

impl Fixture {
    fn new() -> Fixture {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path().join("store")).unwrap();
        Fixture { directory, store, rules: CaptureRules::default() }
    }

    fn tree(&self, nodes: &Nodes) -> Oid {
        let writer = self.store.new_pack();
        let tree = write_tree(&writer, nodes, b"");
        writer.seal(&self.store.pack_directory()).unwrap();
        self.store.forget_packs();
        tree
    }

    fn diff(&self, from: &Nodes, to: &Nodes) -> Diff {
        self.diff_with(from, to, &DiffOptions::new(&self.rules))
    }

    fn diff_with(&self, from: &Nodes, to: &Nodes, options: &DiffOptions<'_>) -> Diff {
        diff_trees(&self.store, &self.tree(from), &self.tree(to), options).unwrap()
    }

    fn unified(&self, from: &Nodes, to: &Nodes) -> String {
        let unified = self.diff(from, to).to_unified(&self.store, None).unwrap();
        assert_eq!(unified.left_out, 0);
        String::from_utf8(unified.text).unwrap()
    }

    fn git(&self, directory: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command
            .args(arguments)
            .current_dir(directory)
            .env("HOME", self.directory.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CEILING_DIRECTORIES", self.directory.path());
        command
    }
}

fn write_tree(writer: &PackWriter, nodes: &Nodes, directory: &[u8]) -> Oid {
    let put = |kind: ObjectKind, content: &[u8]| {
        let oid = Oid::of(kind, content);
        writer.add(kind, oid, content).unwrap();
        oid
    };
    let below: BTreeSet<&[u8]> = nodes
        .keys()
        .filter_map(|path| path.strip_prefix(directory))
        .filter_map(|rest| if directory.is_empty() { Some(rest) } else { rest.strip_prefix(b"/") })
        .filter_map(|rest| rest.split(|byte| *byte == b'/').next())
        .collect();
    let mut entries: Vec<(&[u8], Mode, Oid)> = below
        .into_iter()
        .map(|name| {
            let path = join(directory, name);
            match nodes.get(&path) {
                Some(Node::File(permissions, content)) => {
                    (name, Mode::file(*permissions), put(ObjectKind::Blob, content))
                }
                Some(Node::Link(target)) => (name, Mode::SYMLINK, put(ObjectKind::Blob, target)),
                directory => {
                    let permissions = match directory {
                        Some(Node::Directory(permissions)) => *permissions,
                        _ => 0o755,
                    };
                    (name, Mode::directory(permissions), write_tree(writer, nodes, &path))
                }
            }
        })
        .collect();
    entries.sort_by(|a, b| compare_names((a.0, a.1.is_directory()), (b.0, b.1.is_directory())));
    let mut tree = Vec::new();
    for (name, mode, oid) in entries {
        push_entry(&mut tree, TreeEntry { mode, name, oid });
    }
    put(ObjectKind::Tree, &tree)
}

fn path(text: &str) -> RelPath {
    RelPath::new(text).unwrap()
}

/// Lists the changes as `(path, kind)`, with the kind as in JSON.
fn kinds_of(diff: &Diff) -> Vec<(String, String)> {
    let kind = |change: &TreeChange| match &change.kind {
        ChangeKind::Renamed { from } => format!("renamed from {from}"),
        kind => serde_json::to_value(kind).unwrap()["kind"].as_str().unwrap().to_owned(),
    };
    diff.changes.iter().map(|change| (change.path.to_string(), kind(change))).collect()
}

macro_rules! assert_kinds {
    ($diff:expr, [$(($path:expr, $kind:expr)),* $(,)?]) => {
        assert_eq!(
            kinds_of(&$diff),
            [$(($path.to_owned(), $kind.to_owned())),*] as [(String, String); _]
        )
    };
}

use assert_kinds;

fn numbered(lines: std::ops::Range<usize>) -> String {
    lines.map(|number| format!("this is line {number}\n")).collect()
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}
