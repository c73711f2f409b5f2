//! Changed paths and their kinds.

use super::*;

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
fn only_requested_paths_are_compared() {
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
fn the_json_form_of_a_diff_is_stable() {
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
