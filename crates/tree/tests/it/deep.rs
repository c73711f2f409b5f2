//! Directories that are thousands of levels deep.

use std::collections::HashSet;

use takeback_tree::fault::take_opened_directories;

use crate::support::{Scratch, in_own_process};

/// Creates directories that are nested to this depth, and a file in each of them. Returns the
/// number of directories that are opened by path while they are restored and removed again.
fn opened_by_restores(depth: usize) -> usize {
    let scratch = Scratch::in_memory();
    let empty = scratch.capture();
    let paths: Vec<String> = (1..=depth).map(|depth| "d/".repeat(depth)).collect();
    for path in &paths {
        scratch.write(format!("{path}f"), path);
    }
    let capture = scratch.capture();
    scratch.remove("d");
    take_opened_directories();
    let plan = scratch.restore(&capture, &[]);
    let written: HashSet<String> = plan.writes.iter().map(ToString::to_string).collect();
    assert!(paths.iter().all(|path| written.contains(&format!("{path}f"))));
    assert_eq!(scratch.read(format!("{}f", paths[depth - 1])), paths[depth - 1]);
    scratch.restore(&empty, &[]);
    assert!(!scratch.exists("d"));
    take_opened_directories()
}

#[test]
fn the_work_of_a_restore_depends_on_the_number_of_directories_but_not_on_their_depth() {
    let test = "the_work_of_a_restore_depends_on_the_number_of_directories_but_not_on_their_depth";
    in_own_process(&format!("deep::{test}"), || {
        let (some, twice) = (opened_by_restores(60), opened_by_restores(120));
        assert!(twice < some * 5 / 2, "{some} for 60 levels, {twice} for 120");
    });
}

#[test]
fn a_chain_of_a_thousand_directories_comes_back() {
    opened_by_restores(1000);
}
