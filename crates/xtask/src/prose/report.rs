//! Rendering the counts as text: one row per crate, and a list of all occurrences.

use std::fmt::Write;

use super::CrateCounts;
use super::habits::{Counts, Habit};

const HEADS: [&str; 10] = [
    "crate",
    "files",
    "docs",
    "What…",
    "≤2 words",
    "The same",
    "nobody",
    "1-word fn",
    "fn >60",
    "file >400",
];

/// Renders one row per crate, one for all crates together, and one for all crates without tests.
pub(crate) fn render_table(crates: &[CrateCounts]) -> String {
    let (mut total, mut without_tests) = (Counts::default(), Counts::default());
    let mut out = String::new();
    write_row(&mut out, &HEADS.map(str::to_owned));
    for CrateCounts { name, code, tests } in crates {
        let mut both = code.clone();
        both.merge(tests);
        write_row(&mut out, &row_cells(name, &both));
        total.merge(&both);
        without_tests.merge(code);
    }
    write_row(&mut out, &row_cells("total", &total));
    write_row(&mut out, &row_cells("no tests", &without_tests));
    out += "\nWhat…: share of doc comments that begin with What/Whether/Where/How/Which.\n\
            The same: doc comments that begin with The same/Likewise/As above.\n\
            nobody: somebody/nobody/anybody/whoever in comments and strings.\n\
            1-word fn: share of function names without an underscore; names that a trait determines \
            do not count.\n\
            no tests: all crates, without tests.rs and directories named tests.\n";
    out
}

fn row_cells(name: &str, counts: &Counts) -> [String; 10] {
    let count = |habit| counts.count_of(habit).to_string();
    [
        name.to_owned(),
        counts.files.to_string(),
        counts.docs.to_string(),
        format_share(counts.count_of(Habit::QuestionDoc), counts.docs),
        count(Habit::ShortDoc),
        count(Habit::LeaningDoc),
        count(Habit::NamelessActor),
        format_share(counts.count_of(Habit::OneWordFunction), counts.named_functions),
        count(Habit::LongFunction),
        count(Habit::LongFile),
    ]
}

fn format_share(part: usize, whole: usize) -> String {
    let percent = if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 };
    format!("{part} ({percent:.1} %)")
}

fn write_row(out: &mut String, cells: &[String; 10]) {
    let [name, files, docs, question, short, leaning, actor, one_word, function, file] = cells;
    writeln!(
        out,
        "{name:<10} {files:>5} {docs:>6} {question:>15} {short:>8} {leaning:>8} {actor:>6} \
         {one_word:>15} {function:>6} {file:>9}"
    )
    .expect("writing to a string does not fail");
}

/// Renders every occurrence, grouped by habit.
pub(crate) fn render_list(crates: &[CrateCounts]) -> String {
    let mut out = String::new();
    for habit in Habit::ALL {
        let counts = crates.iter().flat_map(|counts| [&counts.code, &counts.tests]);
        let all = counts.flat_map(|counts| &counts.occurrences);
        let found: Vec<_> = all.filter(|occurrence| occurrence.habit == habit).collect();
        if found.is_empty() {
            continue;
        }
        out += &format!("\n{} ({})\n", habit.name(), found.len());
        for occurrence in found {
            out += &format!("{}:{}: {}\n", occurrence.file, occurrence.line, occurrence.text);
        }
    }
    out
}
