//! Small sources with known counts.

use super::CrateCounts;
use super::habits::{Counts, Habit};
use super::lexer::{Kind, split_source};
use super::report;

fn count(source: &str) -> Counts {
    let mut counts = Counts::default();
    counts.add_file("lib.rs", source);
    counts
}

/// Lists the line and text of every occurrence of one habit.
fn found(source: &str, habit: Habit) -> Vec<(usize, String)> {
    let counts = count(source);
    let of_habit = counts.occurrences.iter().filter(|occurrence| occurrence.habit == habit);
    of_habit.map(|occurrence| (occurrence.line, occurrence.text.clone())).collect()
}

fn texts(source: &str, habit: Habit) -> Vec<String> {
    found(source, habit).into_iter().map(|(_, text)| text).collect()
}

#[test]
fn lines_of_one_doc_comment_are_counted_once() {
    let source = "//! The crate.\n//! Two lines.\n\n/// Opens the store\n/// and locks it.\nfn open_store() {}\n";
    assert_eq!(count(source).docs, 2);
}

#[test]
fn a_plain_comment_is_not_a_doc_comment() {
    let source = "// What it is.\n//// What a rule.\n/* What now */\nfn a_b() {}\n";
    assert_eq!(count(source).docs, 0);
}

#[test]
fn docs_that_begin_with_a_question_word_are_found() {
    let source = "\
/// What is kept.
a: u8,
/// Whether it is so.
b: u8,
/// `Where`, of all places.
c: u8,
/// Whatever is left.
d: u8,
/// Captures what changed.
e: u8,
";
    let found = found(source, Habit::QuestionDoc);
    assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 3, 5]);
}

#[test]
fn docs_of_two_words_are_short_and_docs_of_three_words_are_not() {
    let source = "/// Where.\na: u8,\n/// The path.\nb: u8,\n/// The full path.\nc: u8,\n";
    assert_eq!(texts(source, Habit::ShortDoc), ["Where.", "The path."]);
}

#[test]
fn docs_that_depend_on_another_doc_are_found() {
    let source = "/// The same for files.\nfn a_b();\n/// Likewise, but late.\nfn c_d();\n/// The path.\nfn e_f();";
    assert_eq!(texts(source, Habit::LeaningDoc), ["The same for files.", "Likewise, but late."]);
}

#[test]
fn nameless_actors_are_counted_only_in_comments_and_strings() {
    let source = "\
/// For whoever asks: nobody knows.
fn nobody() {
    // Somebody's turn.
    let whoever = \"anybody here?\";
    let raw = r#\"first line
a \"nobody\" inside\"#;
}
";
    let lines: Vec<usize> =
        found(source, Habit::NamelessActor).into_iter().map(|(line, _)| line).collect();
    assert_eq!(lines, [1, 1, 3, 4, 6]);
}

#[test]
fn one_word_names_are_counted_unless_a_trait_determines_them() {
    let source = "\
trait Shape { fn area(&self) -> u32; fn side_length(&self) -> u32 { 1 } }
impl<'a> Shape for Square<'a> where F: for<'b> Fn(&'b str) {
    fn area(&self) -> u32 { fn inner() -> u32 { 2 } inner() }
}
impl<F: for<'a> Fn(&'a str)> Square<F> { fn grow(&mut self, by: impl Into<u32>) -> impl Sized {} }
fn take(callback: fn(u8) -> u8, bytes: [u8; 4]) where u8: Copy { }
";
    let names = texts(source, Habit::OneWordFunction);
    assert_eq!(names, ["fn area", "fn inner", "fn grow", "fn take"]);
    assert_eq!(count(source).named_functions, 5);
}

#[test]
fn a_function_with_more_than_60_lines_is_reported_as_long() {
    let body = |lines: usize| format!("fn do_it() {{\n{}}}\n", "    run();\n".repeat(lines - 2));
    assert!(found(&body(60), Habit::LongFunction).is_empty());
    assert_eq!(found(&body(61), Habit::LongFunction), [(1, "fn do_it, 61 lines".to_owned())]);
}

#[test]
fn braces_in_strings_and_comments_and_characters_do_not_count() {
    let source = "fn a_b() {\n let a = \"}\"; // }\n let b = '}'; let c = '\\''; let d = b'}';\n /* } /* } */ */\n let e: &'static str = r\"}\\\";\n}\nfn c_d() {}\n";
    let functions: Vec<&str> = split_source(source)
        .windows(2)
        .filter_map(|pair| match (&pair[0].kind, &pair[1].kind) {
            (Kind::Word("fn"), Kind::Word(name)) => Some(*name),
            _ => None,
        })
        .collect();
    assert_eq!(functions, ["a_b", "c_d"]);
    let braces =
        split_source(source).iter().filter(|piece| piece.kind == Kind::Symbol('}')).count();
    assert_eq!(braces, 2);
}

#[test]
fn a_file_with_more_than_400_lines_is_reported_as_long() {
    assert!(found(&"\n".repeat(400), Habit::LongFile).is_empty());
    assert_eq!(found(&"\n".repeat(401), Habit::LongFile).len(), 1);
}

#[test]
fn the_report_has_totals_and_lists_every_occurrence() {
    let crates = [CrateCounts {
        name: "one".to_owned(),
        code: count("/// What.\nfn run() {}\n"),
        tests: count("/// Opens the store.\nfn open_store() {}\n"),
    }];
    let table = report::render_table(&crates);
    let row = |name: &str| table.lines().find(|line| line.starts_with(name)).expect("a row");
    assert!(row("one").contains("1 (50.0 %)"), "{table}");
    assert!(row("total").contains("1 (50.0 %)"), "{table}");
    assert!(row("no tests").contains("1 (100.0 %)"), "{table}");
    let list = report::render_list(&crates);
    assert!(list.contains("one-word function name (1)\nlib.rs:2: fn run\n"), "{list}");
    assert!(!list.contains("open_store"), "{list}");
}

#[test]
fn test_files_are_recognized_by_their_path() {
    let is_test = |path: &str| super::is_test_file(std::path::Path::new(path));
    assert!(is_test("crates/cli/tests/it/undo.rs") && is_test("src/tests.rs"));
    assert!(!is_test("src/test.rs") && !is_test("src/latests.rs"));
}
