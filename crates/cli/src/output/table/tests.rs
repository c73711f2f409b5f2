use super::*;

fn plain(table: Table, columns: Option<usize>) -> Vec<String> {
    let lines = table.lines(columns).into_iter();
    lines.map(|line| anstream::adapter::strip_str(&line).to_string()).collect()
}

fn table(rows: &[[&str; 4]]) -> Table {
    let mut table = Table::new([
        Column::right(),
        Column::left().shrinks(1, 6),
        Column::free().shrinks(0, 0),
        Column::free().shrinks(2, 4),
    ]);
    for [number, reason, mark, prompt] in rows {
        let prompt = match *prompt {
            "" => Cell::default(),
            prompt => Cell::new(prompt).between("“", "”"),
        };
        table.add([number, reason, mark].map(|text| Cell::new(*text)).into_iter().chain([prompt]));
    }
    table
}

const ROWS: [[&str; 4]; 3] = [
    ["1", "write the file", "late", "make it work"],
    ["22", "run", "", "go on"],
    ["3", "", "", ""],
];

#[test]
fn columns_are_aligned() {
    assert_eq!(
        plain(table(&ROWS), None),
        [" 1  write the file  late  “make it work”", "22  run             “go on”", " 3"]
    );
}

#[test]
fn columns_are_shortened_by_rank() {
    // The mark is left out first.
    assert_eq!(
        plain(table(&ROWS), Some(38)),
        [" 1  write the file  “make it work”", "22  run             “go on”", " 3"]
    );
    // Then the reasons are shortened, in all rows alike.
    assert_eq!(
        plain(table(&ROWS), Some(28)),
        [" 1  write t…  “make it work”", "22  run       “go on”", " 3"]
    );
    // Without the mark, the reason fits, so it is not shortened.
    assert_eq!(plain(table(&[["1", "a reason", "a long mark", ""]]), Some(12)), ["1  a reason"]);
    // The prompts are shortened last, and keep their quotes.
    assert_eq!(
        plain(table(&ROWS), Some(20)),
        [" 1  write…  “make …”", "22  run     “go on”", " 3"]
    );
}

#[test]
fn no_row_is_wider_than_the_terminal() {
    let rows = [
        ["1", "日本語の理由を説明する", "late", "直してください 👨\u{200d}👩\u{200d}👧"],
        ["22", "écrire le fichier", "a mark that is very long", "e\u{301}te\u{301}"],
        ["333333", "x", "", "a prompt of more than a few words, to be cut off somewhere"],
    ];
    for columns in 1..120 {
        for line in plain(table(&rows).indented(1), Some(columns)) {
            assert!(width_of(&line) <= columns, "{line:?} for {columns}");
        }
    }
}

#[test]
fn wide_characters_count_twice() {
    let rows = [["1", "日本", "", "a"], ["2", "abcd", "", "b"], ["3", "e\u{301}", "", "c"]];
    assert_eq!(plain(table(&rows), None), ["1  日本  “a”", "2  abcd  “b”", "3  e\u{301}     “c”"]);
}

#[test]
fn a_shortened_path_keeps_its_end() {
    let mut table = Table::new([Column::left().shrinks(0, 8).keeps_end(), Column::right()]);
    table.add([Cell::new("~/work/a/very/deep/project"), Cell::new("12")]);
    assert_eq!(plain(table, Some(16)), ["…eep/project  12"]);
}

#[test]
fn a_column_without_text_takes_no_space() {
    let mut table = Table::new([Column::left(), Column::left().at_least(8), Column::left()]);
    table.add(["a", "", "b"].map(Cell::from));
    assert_eq!(plain(table, None), ["a  b"]);
}

#[test]
fn cells_cannot_control_the_terminal() {
    let mut table = Table::new([Column::left()]);
    table.add([Cell::new("a\u{1b}[2Jb")]);
    assert_eq!(table.lines(None), ["a\\u{1b}[2Jb"]);
}
