//! Any input is analyzed quickly and without a panic.

use proptest::prelude::*;

use super::super::{ScriptContext, analyze_script};
use super::analyze;

#[test]
fn deep_nesting_counts_as_changing_files() {
    for (open, close) in [
        ("( ", " )"),
        ("(", ")"),
        ("$(", ")"),
        ("\"$(", ")\""),
        ("{ ", "; }"),
        ("if ", "; then ls; fi"),
        ("case $(", ") in esac"),
        ("${x:-", "}"),
        ("<(", ")"),
        ("sudo ", ""),
        ("eval ", ""),
        ("f() { ", "; }"),
        ("x=(", ")"),
        ("$((", "))"),
        ("! ", ""),
        ("time ", ""),
        ("[[ ( ", " ) ]]"),
        ("`", "`"),
        ("bash -c \"", "\""),
        ("find . -exec ", " \\;"),
        ("xargs ", ""),
    ] {
        for count in [10, 47, 48, 49, 100, 10_000] {
            let script = format!("{}ls{}", open.repeat(count), close.repeat(count));
            analyze(&script);
            analyze(&open.repeat(count));
        }
    }
    assert!(analyze(&format!("{}rm x{}", "(".repeat(100), ")".repeat(100))).mutates);
}

#[test]
fn the_analysis_of_a_long_script_ends() {
    for piece in
        ["ls; ", "a", "\"", "'", "\\", "$", "`ls` ", "\n", "cat <<E\nx\nE\n", "{", "$((", "ls|"]
    {
        let script = piece.repeat(1_000_000 / piece.len());
        analyze(&script);
    }
    assert!(analyze(&"ls\n".repeat(1_000_000)).mutates);
}

#[test]
fn an_option_that_lacks_its_value_can_be_analyzed() {
    for script in ["rm x; ls | xargs -I", "rm x; ls | xargs --delimiter", "rm x; git -C"] {
        assert!(analyze(script).mutates, "{script}");
    }
}

#[rustfmt::skip]
const PIECES: &[&str] = &[
    "ls", "rm x", " ", "\n", ";", "&", "&&", "||", "|", "(", ")", "{", "}", "$(", "`", "\"", "'",
    "$'", "${", "$((", "))", "<", ">", "<<E", "\nE\n", "<<'E'", "<(", ">&", "2>", "if ", "then ",
    "fi", "for x in ", "do ", "done", "case ", " in ", "esac", ";;", "f()", "function ", "[[ ",
    " ]]", "!", "\\", "\\\n", "#", "=", "x=", "x=(", "$x", "~", "*", "é", "sudo ", "env ", "xargs ",
    "find . -exec ", "bash -c ", "find d -delete ", " | xargs rm", "cd d", "rm *", "{a,b}", "${x%", "}",
    "while read x; ", "x+=$x", "$(ls)", "source a.txt", "set -- ", "shift", "$1", "$@", "**/", "[a", "eval ", "sed ", "awk ", "s/a/b/", "git ", "curl ",
];

/// Generates random sequences of shell fragments.
fn random_pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(PIECES);
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_text_can_be_analyzed(script in "(?s).{0,200}") {
        analyze(&script);
    }

    #[test]
    fn any_bytes_can_be_analyzed(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        analyze(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_sequence_of_pieces_can_be_analyzed(script in random_pieces()) {
        analyze(&script);
    }

    #[test]
    fn targets_are_found_in_any_sequence_of_pieces(script in random_pieces()) {
        let scratch = tempfile::tempdir().unwrap();
        for file in ["x", "a.txt", "d/e/f"] {
            let path = scratch.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "rm x\n").unwrap();
        }
        let directory = scratch.path();
        let context = ScriptContext { directory, workspace: directory, home: Some(directory) };
        let found = analyze_script(&format!("{script}\nrm x"), &context);
        prop_assert!(found.mutates && found.paths.iter().all(|path| path.is_absolute()));
    }

    #[test]
    fn a_changing_command_cannot_hide_behind_a_reading_one(before in "[a-z ]{0,20}") {
        let script = format!("echo {before}; rm x");
        prop_assert!(analyze(&script).mutates);
    }
}
