//! Listing and searching files.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

use crate::tools_support::Workbench;

#[test]
fn files_are_listed_in_order_and_ignored_files_are_left_out() {
    let mut bench = Workbench::new();
    bench.put(".gitignore", "target/\n*.log\n");
    for name in
        ["b.rs", "a.rs", "target/x.rs", "x.log", ".hidden", "src/lib.rs", "src/deep/er/x.rs"]
    {
        bench.put(name, "");
    }
    fs::create_dir_all(bench.at(".git/objects")).unwrap();
    symlink("a.rs", bench.at("link")).unwrap();
    assert_eq!(
        bench.ok("list_files", &json!({})),
        ".gitignore\n.hidden\na.rs\nb.rs\nlink -> a.rs\nsrc/\nsrc/deep/\nsrc/lib.rs\n"
    );
    assert_eq!(bench.ok("list_files", &json!({ "depth": 1, "path": "src" })), "deep/\nlib.rs\n");
    assert_eq!(
        bench.ok("list_files", &json!({ "pattern": "*.rs" })),
        "a.rs\nb.rs\nsrc/deep/er/x.rs\nsrc/lib.rs\n"
    );
    assert_eq!(bench.ok("list_files", &json!({ "pattern": "src/**/x.*" })), "src/deep/er/x.rs\n");
    assert_eq!(bench.ok("list_files", &json!({ "pattern": "*.py" })), "[no files]\n");
    assert!(bench.fail("list_files", &json!({ "pattern": "a[" })).contains("not a valid glob"));
    assert!(bench.fail("list_files", &json!({ "path": "nowhere" })).contains("does not exist"));
    assert!(bench.fail("list_files", &json!({ "path": "a.rs" })).contains("Not a directory"));
    // A directory that the model names is listed even if git ignores it.
    assert_eq!(bench.ok("list_files", &json!({ "path": "target" })), "x.rs\n");
}

#[test]
fn a_long_list_is_cut_off_and_says_how_many_files_are_missing() {
    let mut bench = Workbench::new();
    for number in 0..3000 {
        bench.put(&format!("a-file-with-a-long-name-{number:04}"), "");
    }
    let listed = bench.ok("list_files", &json!({}));
    assert!(listed.len() < 33 * 1024, "{}", listed.len());
    let shown = listed.lines().count() - 1;
    let note = format!("[{} of 3000 not shown: name a subdirectory or a pattern]", 3000 - shown);
    assert_eq!(listed.lines().last(), Some(note.as_str()));
    let last = bench.ok("list_files", &json!({ "pattern": "*-2999" }));
    assert_eq!(last, "a-file-with-a-long-name-2999\n");
}

#[test]
fn matching_lines_are_found_with_their_numbers() {
    let mut bench = Workbench::new();
    bench.put(".gitignore", "ignored\n");
    bench.put("ignored", "needle");
    bench.put("b/two.rs", "needle one\nno\nno\nno\nNeedle\nneedle three");
    bench.put("a.txt", "hay\r\nneedle\r\n");
    let all = bench.ok("search_files", &json!({ "pattern": "needle" }));
    assert_eq!(all, "a.txt\n2: needle\n\nb/two.rs\n1: needle one\n6: needle three\n");
    let found = bench.ok("search_files", &json!({ "pattern": "(?i)^needle$" }));
    assert_eq!(found, "a.txt\n2: needle\n\nb/two.rs\n5: Needle\n");
    let found =
        bench.ok("search_files", &json!({ "pattern": "needle", "glob": "*.rs", "context": 1 }));
    assert_eq!(found, "b/two.rs\n1: needle one\n2- no\n--\n5- Needle\n6: needle three\n");
    let found = bench.ok("search_files", &json!({ "pattern": "hay", "path": "a.txt" }));
    assert_eq!(found, "a.txt\n1: hay\n");
    let found = bench.ok("search_files", &json!({ "pattern": "hay", "path": "b" }));
    assert_eq!(found, "[no matches]\n");
    assert!(bench.fail("search_files", &json!({ "pattern": "x", "path": "c" })).contains("exist"));
}

#[test]
fn binary_files_are_skipped() {
    let mut bench = Workbench::new();
    bench.put("binary", [b"needle\n".as_slice(), &[0; 100], b"needle\n"].concat());
    bench.put("late", [b"needle\n".repeat(20_000), vec![0]].concat());
    bench.put("text", "needle\n");
    bench.put("latin", b"caf\xe9 needle\n");
    let found = bench.ok("search_files", &json!({ "pattern": "needle" }));
    assert_eq!(found, "latin\n1: caf\u{fffd} needle\n\ntext\n1: needle\n");
}

#[test]
fn an_error_says_why_an_expression_is_invalid() {
    let mut bench = Workbench::new();
    let said = bench.fail("search_files", &json!({ "pattern": "a(b" }));
    assert!(said.contains("unclosed group"), "{said}");
    let said = bench.fail("search_files", &json!({ "pattern": "a\nb" }));
    assert!(said.contains("lines are searched one by one"), "{said}");
    let said = bench.fail("search_files", &json!({ "pattern": "((a{1000}){1000}){1000}" }));
    assert!(said.contains("not a valid regular expression"), "{said}");
}

#[test]
fn a_long_result_is_cut_off_and_says_how_many_matches_are_missing() {
    let mut bench = Workbench::new();
    bench.put("a", format!("needle {}\n", "x".repeat(100_000)));
    bench.put("b", "needle in many lines\n".repeat(10_000));
    bench.put("c", "needle\n");
    let found = bench.ok("search_files", &json!({ "pattern": "needle" }));
    assert!(found.len() < 33 * 1024, "{}", found.len());
    assert!(found.starts_with("a\n1: needle xxx"));
    assert!(found.contains("x…\n\nb\n1: needle in many lines\n2: needle"));
    let shown = found.lines().filter(|line| line.contains(": needle")).count();
    let note = format!("[{} more matches in 2 files not shown: narrow the search]", 10_002 - shown);
    assert_eq!(found.lines().last(), Some(note.as_str()));
}

#[test]
fn a_cancelled_search_ends() {
    let bench = Workbench::new();
    bench.put("a", "needle");
    bench.cancel.cancel();
    for (tool, input) in [
        ("search_files", json!({ "pattern": "needle" })),
        ("list_files", json!({})),
        ("read_file", json!({ "path": "a" })),
        ("terminal", json!({ "command": "touch b" })),
    ] {
        let output = bench.try_call(tool, &input);
        assert!(output.is_error && output.text.starts_with("cancelled"), "{tool}: {output:?}");
    }
    assert_eq!(bench.list(), ["a"]);
}
