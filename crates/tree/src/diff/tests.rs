use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::object::{ObjectKind, TreeEntry, compare_names, push_entry};
use crate::pack::write::PackWriter;

/// What a test's tree has at a path. Directories are implied, unless their mode matters or they
/// are empty.
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

/// The changes as `(path, kind)`, where the kind is as in JSON.
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

#[test]
fn each_kind_of_change_is_reported() {
    let fixture = Fixture::new();
    let from = nodes([
        ("same/deep/file", file("same")),
        ("edited", file("1\n2\n")),
        ("chmodded", Node::File(0o644, b"x".to_vec())),
        ("both", Node::File(0o644, b"x".to_vec())),
        ("gone/file", file("gone")),
        ("becomes-link", file("was a file\n")),
        ("becomes-directory", file("was a file\n")),
        ("becomes-file/inside", file("inside")),
        ("relinked", Node::Link(b"a".to_vec())),
        ("directory", Node::Directory(0o755)),
        ("directory/file", file("")),
        ("emptied/file", file("one")),
        ("removed", Node::Directory(0o755)),
    ]);
    let to = nodes([
        ("same/deep/file", file("same")),
        ("edited", file("1\n3\n4\n")),
        ("chmodded", Node::File(0o4711, b"x".to_vec())),
        ("both", Node::File(0o600, b"y".to_vec())),
        ("come/file", file("come")),
        ("becomes-link", Node::Link(b"target".to_vec())),
        ("becomes-directory/inside", file("new")),
        ("becomes-file", file("now\n")),
        ("relinked", Node::Link(b"b".to_vec())),
        ("directory", Node::Directory(0o700)),
        ("directory/file", file("")),
        ("emptied", Node::Directory(0o755)),
        ("made", Node::Directory(0o755)),
    ]);
    let diff = fixture.diff(&from, &to);
    assert_kinds!(
        diff,
        [
            ("becomes-directory", "kind_changed"),
            ("becomes-directory/inside", "added"),
            ("becomes-file", "kind_changed"),
            ("becomes-file/inside", "deleted"),
            ("becomes-link", "kind_changed"),
            ("both", "modified"),
            ("chmodded", "mode_changed"),
            ("come/file", "added"),
            ("directory", "mode_changed"),
            ("edited", "modified"),
            ("emptied/file", "deleted"),
            ("gone/file", "deleted"),
            ("made", "added"),
            ("relinked", "modified"),
            ("removed", "deleted"),
        ]
    );
    let lines = |path: &str| {
        let change = diff.changes.iter().find(|change| change.path.to_string() == path).unwrap();
        change.lines.map(|lines| (lines.insertions, lines.deletions))
    };
    assert_eq!(lines("edited"), Some((2, 1)));
    assert_eq!(lines("becomes-link"), Some((1, 1)));
    assert_eq!(lines("becomes-directory"), Some((0, 1)));
    assert_eq!(lines("chmodded"), Some((0, 0)));
    assert_eq!(lines("directory"), None);
    assert_eq!(lines("made"), None);
    assert_kinds!(fixture.diff(&from, &from), []);
}

#[test]
fn only_the_paths_that_were_asked_for_are_compared() {
    let fixture = Fixture::new();
    let from = nodes([("a/b/x", file("1")), ("a/b", Node::Directory(0o755)), ("f", file("1"))]);
    let to = nodes([
        ("a/b", Node::Directory(0o700)),
        ("a/b/x", file("2")),
        ("a/b/y", file("2")),
        ("a/bc", file("3")),
        ("f/x", file("4")),
    ]);
    let diff = |paths: &[&str]| {
        let paths: Vec<RelPath> = paths.iter().map(|text| path(text)).collect();
        let options = DiffOptions { paths: &paths, ..DiffOptions::new(&fixture.rules) };
        fixture.diff_with(&from, &to, &options)
    };
    assert_kinds!(
        diff(&["a/b"]),
        [("a/b", "mode_changed"), ("a/b/x", "modified"), ("a/b/y", "added")]
    );
    assert_kinds!(diff(&["a/b/x", "nowhere"]), [("a/b/x", "modified")]);
    assert_kinds!(diff(&["f/x"]), [("f/x", "added")]);
    assert_kinds!(diff(&["a/b/x/deeper"]), []);
    assert_eq!(kinds_of(&diff(&[])).len(), 6);
    assert_eq!(kinds_of(&diff(&[""])).len(), 6);
}

#[test]
fn trees_thousands_of_levels_deep_are_compared() {
    let fixture = Fixture::new();
    let writer = fixture.store.new_pack();
    let mut trees = Vec::new();
    for content in ["old", "new"] {
        let mut oid = Oid::of(ObjectKind::Blob, content.as_bytes());
        writer.add(ObjectKind::Blob, oid, content.as_bytes()).unwrap();
        let mut mode = Mode::file(0o644);
        for _ in 0..5000 {
            let mut tree = Vec::new();
            push_entry(&mut tree, TreeEntry { mode, name: b"d", oid });
            oid = Oid::of(ObjectKind::Tree, &tree);
            mode = Mode::directory(0o755);
            writer.add(ObjectKind::Tree, oid, &tree).unwrap();
        }
        trees.push(oid);
    }
    writer.seal(&fixture.store.pack_directory()).unwrap();
    let options = DiffOptions::new(&fixture.rules);
    let diff = diff_trees(&fixture.store, &trees[0], &trees[1], &options).unwrap();
    assert_eq!(diff.changes.len(), 1);
    assert_eq!(diff.changes[0].path.as_bytes().len(), 9999);
}

#[test]
fn exact_renames_prefer_the_same_name() {
    let fixture = Fixture::new();
    let from = nodes([
        ("a/one", file("same")),
        ("a/two", file("same")),
        ("a/three", file("same")),
        ("a/__init__.py", file("")),
        ("a/empty", file("")),
        ("link", Node::Link(b"same".to_vec())),
        ("tool", Node::File(0o644, b"run".to_vec())),
    ]);
    let to = nodes([
        ("b/two", file("same")),
        ("b/1", file("same")),
        ("b/__init__.py", file("")),
        ("b/blank", file("")),
        ("links/link", Node::Link(b"same".to_vec())),
        ("tools/tool", Node::File(0o755, b"run".to_vec())),
    ]);
    assert_kinds!(
        fixture.diff(&from, &to),
        [
            ("a/empty", "deleted"),
            ("a/three", "deleted"),
            ("b/1", "renamed from a/one"),
            ("b/__init__.py", "renamed from a/__init__.py"),
            ("b/blank", "added"),
            ("b/two", "renamed from a/two"),
            ("links/link", "renamed from link"),
            ("tools/tool", "renamed from tool"),
        ]
    );
    let options = DiffOptions { renames: false, ..DiffOptions::new(&fixture.rules) };
    assert_eq!(fixture.diff_with(&from, &to, &options).changes.len(), 13);
}

fn numbered(lines: std::ops::Range<usize>) -> String {
    lines.map(|number| format!("this is line {number}\n")).collect()
}

#[test]
fn similar_files_are_renames_from_half_on() {
    let fixture = Fixture::new();
    let renamed = |old: &str, new: &str| {
        let diff = fixture.diff(&nodes([("old", file(old))]), &nodes([("new", file(new))]));
        diff.changes.len() == 1
    };
    assert!(renamed(&numbered(10..20), &numbered(15..25)));
    assert!(!renamed(&numbered(10..20), &numbered(16..26)));
    assert!(!renamed(&numbered(10..20), &numbered(10..31)));
    // Repeated lines count as often as both have them.
    assert!(!renamed(&"x\n".repeat(10), &format!("{}{}", "x\n".repeat(4), "y\n".repeat(6))));
    assert!(!renamed("", &numbered(10..20)));
    let mut large = numbered(0..60_000);
    assert!(large.len() > 1 << 20);
    let original = large.clone();
    large.push_str("one more\n");
    assert!(!renamed(&original, &large));
}

#[test]
fn similar_renames_take_the_most_similar_and_agree_with_git() {
    let fixture = Fixture::new();
    let from = nodes([
        ("a/first", file(numbered(100..200))),
        ("a/second", file(numbered(500..600))),
        ("a/third", file("nothing of the kind\n")),
    ]);
    let to = nodes([
        ("b/close", file(numbered(100..195))),
        ("b/closer", file(numbered(100..199))),
        ("b/moved", file(numbered(520..600))),
        ("b/other", file("something else entirely\n")),
    ]);
    let diff = fixture.diff(&from, &to);
    assert_kinds!(
        diff,
        [
            ("a/third", "deleted"),
            ("b/close", "added"),
            ("b/closer", "renamed from a/first"),
            ("b/moved", "renamed from a/second"),
            ("b/other", "added"),
        ]
    );
    let (from, to) = (diff.from.to_string(), diff.to.to_string());
    let arguments = ["diff", "--name-status", "-M50%", &from, &to];
    let output = run(&mut fixture.git(fixture.store.directory(), &arguments));
    let status = String::from_utf8(output.stdout).unwrap();
    let mut renames: Vec<_> = status.lines().filter(|line| line.starts_with('R')).collect();
    renames.sort_unstable();
    assert_eq!(renames, ["R080\ta/second\tb/moved", "R099\ta/first\tb/closer"]);
}

#[test]
fn too_many_candidates_are_not_compared() {
    let fixture = Fixture::new();
    let many = |directory: &str, count: usize, first: usize| -> Nodes {
        let content = |number: usize| numbered(number * 100..number * 100 + 10 + first);
        (0..count)
            .map(|number| (format!("{directory}/{number:03}").into_bytes(), file(content(number))))
            .collect()
    };
    let renamed = |count| {
        let diff = fixture.diff(&many("old", count, 0), &many("new", count, 1));
        kinds_of(&diff).iter().filter(|(_, kind)| kind.starts_with("renamed")).count()
    };
    assert_eq!(renamed(100), 100);
    assert_eq!(renamed(101), 0);
}

#[test]
fn text_is_written_as_git_writes_it() {
    let fixture = Fixture::new();
    let from = nodes([
        ("a", file(numbered(1..21))),
        ("chmodded", Node::File(0o644, b"x".to_vec())),
        ("ending", file("with\n")),
        ("gone", file("gone\n")),
        ("link", Node::Link(b"old".to_vec())),
        ("runs", Node::File(0o600, b"x".to_vec())),
        ("spaced name", file("1\n")),
        ("turned", file("file\n")),
    ]);
    let mut edited = numbered(1..21).replace("line 3\n", "line three\n");
    edited.push_str("the end\n");
    let to = nodes([
        ("a", file(edited)),
        ("chmodded", Node::File(0o600, b"x".to_vec())),
        ("empty", file("")),
        ("ending", file("without")),
        ("link", Node::Link(b"new".to_vec())),
        ("made", Node::Directory(0o750)),
        ("runs", Node::File(0o700, b"x".to_vec())),
        ("spaced name", file("2\n")),
        ("turned", Node::Link(b"there".to_vec())),
    ]);
    let expected = r"diff --git a/a b/a
index 63ef680..309165b 100644
--- a/a
+++ b/a
@@ -1,6 +1,6 @@
 this is line 1
 this is line 2
-this is line 3
+this is line three
 this is line 4
 this is line 5
 this is line 6
@@ -18,3 +18,4 @@
 this is line 18
 this is line 19
 this is line 20
+the end
diff --takeback a/chmodded b/chmodded
old mode 100644
new mode 100600
diff --git a/empty b/empty
new file mode 100644
index 0000000..e69de29
diff --git a/ending b/ending
index 80546ce..8684a94 100644
--- a/ending
+++ b/ending
@@ -1 +1 @@
-with
+without
\ No newline at end of file
diff --git a/gone b/gone
deleted file mode 100644
index 286c5f5..0000000
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-gone
diff --git a/link b/link
index 489ce0f..3e5126c 120000
--- a/link
+++ b/link
@@ -1 +1 @@
-old
\ No newline at end of file
+new
\ No newline at end of file
diff --takeback a/made b/made
new directory mode 40750
diff --git a/runs b/runs
old mode 100600
new mode 100700
diff --git a/spaced name b/spaced name
index d00491f..0cfbf08 100644
--- a/spaced name\t
+++ b/spaced name\t
@@ -1 +1 @@
-1
+2
diff --git a/turned b/turned
deleted file mode 100644
index f73f309..0000000
--- a/turned
+++ /dev/null
@@ -1 +0,0 @@
-file
diff --git a/turned b/turned
new file mode 120000
index 0000000..c78ee1a
--- /dev/null
+++ b/turned
@@ -0,0 +1 @@
+there
\ No newline at end of file
";
    assert_eq!(fixture.unified(&from, &to), expected.replace("\\t", "\t"));
}

#[test]
fn a_rename_with_an_edit_shows_both() {
    let fixture = Fixture::new();
    let from = nodes([("old/name", file("1\n2\n3\n4\n"))]);
    let to = nodes([("new/name", Node::File(0o755, b"1\n2\n3\nfour\n".to_vec()))]);
    let expected = "diff --git a/old/name b/new/name
old mode 100644
new mode 100755
rename from old/name
rename to new/name
index 94ebaf9..c33d498
--- a/old/name
+++ b/new/name
@@ -1,4 +1,4 @@
 1
 2
 3
-4
+four
";
    assert_eq!(fixture.unified(&from, &to), expected);
}

#[test]
fn names_cannot_pass_for_headers() {
    let fixture = Fixture::new();
    let names: [&[u8]; 7] = [
        b"x\n+++ b/etc",
        b"tab\there",
        b"quote\"back\\slash",
        b"caf\xc3\xa9",
        b"\xff\xfe",
        b"\x1b[31m\x07\x08\x0b\x0c\r\x7f",
        b"a b/a",
    ];
    let named = |content: &str| -> Nodes {
        names.iter().map(|name| (name.to_vec(), file(content))).collect()
    };
    let diff = fixture.diff(&named("old\n"), &named("new\n"));
    let ours = diff.to_unified(&fixture.store, None).unwrap().text;
    let (from, to) = (diff.from.to_string(), diff.to.to_string());
    let arguments = ["diff", "-p", &from, &to];
    let theirs = run(&mut fixture.git(fixture.store.directory(), &arguments)).stdout;
    assert_eq!(String::from_utf8_lossy(&ours), String::from_utf8_lossy(&theirs));
    let headers = ours.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"+++ "));
    assert_eq!(headers.count(), names.len());
}

#[test]
fn binary_and_huge_files_show_their_sizes() {
    let fixture = Fixture::new();
    let huge = |last: &str| file("0123456789abcde\n".repeat(1 << 18) + last);
    let late = |last: &str| file("x".repeat(8000) + "\0" + last);
    let from = nodes([("bin", file("a\0b")), ("huge", huge("1\n")), ("late", late("1\n"))]);
    let to = nodes([
        ("bin", file("text")),
        ("bin2", file("\0")),
        ("huge", huge("22\n")),
        ("late", late("2\n")),
    ]);
    let diff = fixture.diff(&from, &to);
    let flags: Vec<_> =
        diff.changes.iter().map(|change| (change.binary, change.lines.is_some())).collect();
    assert_eq!(flags, [(true, false), (true, false), (true, false), (false, true)]);
    let text = fixture.unified(&from, &to);
    for line in [
        "Binary files a/bin and b/bin differ (3 B → 4 B)\n",
        "Binary files /dev/null and b/bin2 differ (0 B → 1 B)\n",
        "Binary files a/huge and b/huge differ (4194306 B → 4194307 B)\n",
    ] {
        assert!(text.contains(line), "{line}");
    }
}

#[test]
fn private_content_is_never_shown() {
    let fixture = Fixture::new();
    let secret = |note: &str| format!("password=hunter2\n{}{note}\n", numbered(0..9));
    let from = nodes([
        (".env", file(secret("edited"))),
        ("deep/key.pem", file(secret("chmodded"))),
        ("gone.pem", file(secret("deleted"))),
        ("id_rsa", file(secret("moved as it is"))),
        ("id_dsa", file(secret("moved and edited"))),
        ("id_link", file(secret("file to link"))),
        ("public", file(numbered(0..9))),
    ]);
    let to = nodes([
        (".env", file(secret("changed"))),
        (".env.local", file(numbered(0..10))),
        ("deep/key.pem", Node::File(0o600, secret("chmodded").into_bytes())),
        ("harmless", file(secret("moved as it is"))),
        ("id_link", Node::Link(b"hunter2".to_vec())),
        ("id_new", file(secret("moved and then edited"))),
    ]);
    let diff = fixture.diff(&from, &to);
    assert_kinds!(
        diff,
        [
            (".env", "modified"),
            (".env.local", "added"),
            ("deep/key.pem", "mode_changed"),
            ("gone.pem", "deleted"),
            ("harmless", "renamed from id_rsa"),
            ("id_dsa", "deleted"),
            ("id_link", "kind_changed"),
            ("id_new", "added"),
            ("public", "deleted"),
        ]
    );
    for change in &diff.changes {
        let public = change.path == path("public");
        assert_eq!((change.private, change.lines.is_some()), (!public, public), "{change:?}");
    }
    assert_eq!(diff.changes[0].from.unwrap().size, secret("edited").len() as u64);
    let text = fixture.unified(&from, &to);
    let json = serde_json::to_string(&diff).unwrap();
    for secret in ["hunter2", "edited", "changed\n+", "chmodded\n", "moved"] {
        assert!(!text.contains(secret) && !json.contains(secret), "{secret}:\n{text}");
    }
    // Each side that has content, and not what only moved or changed its mode.
    assert_eq!(text.matches("\n(private: content not shown)\n").count(), 7);
}

#[test]
fn the_line_limit_counts_what_it_leaves_out() {
    let fixture = Fixture::new();
    let from = nodes([("a", file(numbered(0..9))), ("b", file("x"))]);
    let to = nodes([("a", file(numbered(3..30))), ("b", file("y\n"))]);
    let diff = fixture.diff(&from, &to);
    let lines = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count();
    let whole = diff.to_unified(&fixture.store, None).unwrap().text;
    for cap in [0, 1, 7, lines(&whole) - 1, lines(&whole), 1000] {
        let capped = diff.to_unified(&fixture.store, Some(cap)).unwrap();
        assert_eq!(lines(&capped.text), cap.min(lines(&whole)));
        assert_eq!(lines(&capped.text) + capped.left_out, lines(&whole));
        assert!(whole.starts_with(&capped.text));
    }
}

#[test]
fn json_is_stable() {
    let fixture = Fixture::new();
    let mut from = nodes([("old", file("1\n2\n3\n"))]);
    from.insert(b"\xff".to_vec(), file("gone"));
    let to = nodes([("new", file("1\n2\n3\n4\n"))]);
    let mut json = serde_json::to_value(fixture.diff(&from, &to)).unwrap();
    for change in json["changes"].as_array_mut().unwrap() {
        for side in ["from", "to"] {
            change[side].as_object_mut().map(|side| side.remove("oid").unwrap());
        }
    }
    assert_eq!(
        json["changes"],
        serde_json::json!([
            {
                "path": "new",
                "kind": "renamed",
                "renamed_from": "old",
                "from": { "mode": "100644", "size": 6 },
                "to": { "mode": "100644", "size": 8 },
                "lines": { "insertions": 1, "deletions": 0 },
                "binary": false,
                "private": false,
            },
            {
                "path": { "bytes": "/w==" },
                "kind": "deleted",
                "from": { "mode": "100644", "size": 4 },
                "to": null,
                "lines": { "insertions": 0, "deletions": 1 },
                "binary": false,
                "private": false,
            },
        ])
    );
}

#[test]
fn a_missing_object_is_an_error() {
    let fixture = Fixture::new();
    let tree = fixture.tree(&nodes([("a", file("1"))]));
    let options = DiffOptions::new(&fixture.rules);
    let result = diff_trees(&fixture.store, &tree, &Oid([7; 20]), &options);
    assert!(matches!(result, Err(ObjectError::Missing(_))));
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

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

/// Nodes as [`read_files`] would give them.
fn plain(nodes: &Nodes) -> Nodes {
    let plain = |node: &Node| match node {
        Node::File(_, content) => Some(file(content.clone())),
        Node::Link(target) => Some(Node::Link(target.clone())),
        Node::Directory(_) => None,
    };
    nodes.iter().filter_map(|(path, node)| Some((path.clone(), plain(node)?))).collect()
}

/// Few different lines, so that they repeat; any bytes but NUL.
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

/// A text and what some edits make of it.
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

/// Nodes that could be in one tree: nothing is below a file, and every directory is listed.
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

/// Two trees that have much in common.
fn any_trees() -> impl Strategy<Value = (Nodes, Nodes)> {
    let any_nodes = || btree_map(any_path(), any_node(), 0..10);
    (any_nodes(), any_nodes(), any_nodes()).prop_map(|(common, old, new)| {
        let with = |other: Nodes| make_possible(common.clone().into_iter().chain(other).collect());
        (with(old), with(new))
    })
}

/// What a path-by-path look at two trees says.
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
        // Git does not know of empty directories, so none may be in its way.
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
