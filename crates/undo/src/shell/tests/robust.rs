//! Anything that can be typed has an answer, and soon.

use proptest::prelude::*;

use super::look;

#[test]
fn deep_nesting_is_given_up() {
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
            look(&script);
            look(&open.repeat(count));
        }
    }
    assert!(look(&format!("{}rm x{}", "(".repeat(100), ")".repeat(100))).mutates);
}

#[test]
fn long_scripts_end() {
    for piece in
        ["ls; ", "a", "\"", "'", "\\", "$", "`ls` ", "\n", "cat <<E\nx\nE\n", "{", "$((", "ls|"]
    {
        let script = piece.repeat(1_000_000 / piece.len());
        look(&script);
    }
    assert!(look(&"ls\n".repeat(1_000_000)).mutates);
}

/// Pieces of shell, put together without sense.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "ls",
        "rm x",
        " ",
        "\n",
        ";",
        "&",
        "&&",
        "||",
        "|",
        "(",
        ")",
        "{",
        "}",
        "$(",
        "`",
        "\"",
        "'",
        "$'",
        "${",
        "$((",
        "))",
        "<",
        ">",
        "<<E",
        "\nE\n",
        "<<'E'",
        "<(",
        ">&",
        "2>",
        "if ",
        "then ",
        "fi",
        "for x in ",
        "do ",
        "done",
        "case ",
        " in ",
        "esac",
        ";;",
        "f()",
        "function ",
        "[[ ",
        " ]]",
        "!",
        "\\",
        "\\\n",
        "#",
        "=",
        "x=",
        "x=(",
        "$x",
        "~",
        "*",
        "é",
        "sudo ",
        "env ",
        "xargs ",
        "find . -exec ",
        "bash -c ",
        "eval ",
        "sed ",
        "awk ",
        "s/a/b/",
        "git ",
        "curl ",
    ]);
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_text_has_an_answer(script in "(?s).{0,200}") {
        look(&script);
    }

    #[test]
    fn any_bytes_have_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        look(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_pieces_have_an_answer(script in pieces()) {
        look(&script);
    }

    #[test]
    fn what_changes_files_cannot_be_hidden_behind_what_reads(before in "[a-z ]{0,20}") {
        let script = format!("echo {before}; rm x");
        prop_assert!(look(&script).mutates);
    }
}
