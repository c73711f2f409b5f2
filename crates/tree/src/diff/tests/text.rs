//! Differences as text.

use super::*;

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
fn names_cannot_be_mistaken_for_headers() {
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
    // The note appears once for each side that has content, except for files that only moved or
    // changed their modes.
    assert_eq!(text.matches("\n(private: content not shown)\n").count(), 7);
}

#[test]
fn lines_beyond_the_limit_are_counted() {
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
