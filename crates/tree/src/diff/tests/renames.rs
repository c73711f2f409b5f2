//! Tests of renames and of similar files.

use super::*;

#[test]
fn exact_renames_prefer_files_with_the_same_name() {
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

#[test]
fn files_that_share_at_least_half_of_their_content_are_renames() {
    let fixture = Fixture::new();
    let renamed = |old: &str, new: &str| {
        let diff = fixture.diff(&nodes([("old", file(old))]), &nodes([("new", file(new))]));
        diff.changes.len() == 1
    };
    assert!(renamed(&numbered(10..20), &numbered(15..25)));
    assert!(!renamed(&numbered(10..20), &numbered(16..26)));
    assert!(!renamed(&numbered(10..20), &numbered(10..31)));
    // A repeated line is counted only as often as it occurs in the file that has fewer copies of
    // it.
    assert!(!renamed(&"x\n".repeat(10), &format!("{}{}", "x\n".repeat(4), "y\n".repeat(6))));
    assert!(!renamed("", &numbered(10..20)));
    let mut large = numbered(0..60_000);
    assert!(large.len() > 1 << 20);
    let original = large.clone();
    large.push_str("one more\n");
    assert!(!renamed(&original, &large));
}

#[test]
fn the_most_similar_files_are_paired_as_in_git() {
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
