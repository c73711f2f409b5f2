//! The results of all measurements, as text and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use super::measure::Times;
use super::targets::TARGETS;
use super::trees::Shape;

#[derive(Default)]
pub(crate) struct Report {
    times: Vec<(&'static str, &'static str, Vec<Times>)>,
    figures: Vec<(&'static str, &'static str, f64, &'static str)>,
    notes: Vec<String>,
}

impl Report {
    pub(crate) fn add_times(&mut self, shape: Shape, case: &'static str, times: Vec<Times>) {
        self.times.push((shape.name(), case, times));
    }

    pub(crate) fn add_figure(
        &mut self,
        shape: Shape,
        what: &'static str,
        value: f64,
        unit: &'static str,
    ) {
        self.figures.push((shape.name(), what, value, unit));
    }

    pub(crate) fn add_note(&mut self, note: String) {
        self.notes.push(note);
    }

    pub(crate) fn times_of(&self, tree: &str, case: &str, contender: &str) -> Option<&Times> {
        let (.., times) = self.times.iter().find(|row| (row.0, row.1) == (tree, case))?;
        times.iter().find(|times| times.contender == contender)
    }

    pub(crate) fn figure_value(&self, tree: &str, what: &str) -> Option<f64> {
        self.figures.iter().find(|row| (row.0, row.1) == (tree, what)).map(|row| row.2)
    }

    pub(crate) fn to_text(&self) -> String {
        let mut out = String::new();
        self.write_text(&mut out).expect("writing to a string does not fail");
        out
    }

    fn write_text(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "\nMedians in milliseconds, and as multiples of the first")?;
        for (tree, case, times) in &self.times {
            write!(out, "  {tree:<14} {case:<15}")?;
            let first = times.first().map_or(f64::NAN, Times::median);
            for times in times {
                let (median, ratio) = (times.median(), times.median() / first);
                write!(out, "  {} {median:.1} ({ratio:.2})", times.contender)?;
            }
            writeln!(out)?;
        }
        if !self.figures.is_empty() {
            writeln!(out, "\nFigures")?;
        }
        for (tree, what, value, unit) in &self.figures {
            writeln!(out, "  {tree:<14} {what:<30} {value:>9.2} {unit}")?;
        }
        writeln!(out, "\nTargets: reached by the medians, and by the fastest rounds")?;
        let mut unmeasured = 0;
        for target in &TARGETS {
            let (Some((reached, ok)), Some((fastest, _))) =
                (target.reached(self, Times::median), target.reached(self, Times::fastest))
            else {
                unmeasured += 1;
                continue;
            };
            let (tree, case, wanted) = (target.tree, target.case, target.wanted());
            let verdict = if ok { "ok" } else { "missed" };
            write!(out, "  {tree:<8} {case:<25} {wanted:<42}")?;
            writeln!(out, " {reached:>7.2} {fastest:>7.2}  {verdict}")?;
        }
        if unmeasured > 0 {
            writeln!(out, "  {unmeasured} more were not measured")?;
        }
        for note in &self.notes {
            writeln!(out, "\nnote: {note}")?;
        }
        Ok(())
    }

    pub(crate) fn to_json(&self) -> String {
        let times = |times: &Times| {
            json!({
                "contender": times.contender,
                "median_ms": times.median(),
                "fastest_ms": times.fastest(),
                "rounds_ms": times.rounds().collect::<Vec<_>>(),
            })
        };
        let rows = self.times.iter().map(|(tree, case, row)| {
            json!({ "tree": tree, "case": case, "times": row.iter().map(times).collect::<Vec<_>>() })
        });
        let figures = self.figures.iter().map(|(tree, what, value, unit)| {
            json!({ "tree": tree, "what": what, "value": value, "unit": unit })
        });
        let targets = TARGETS.iter().map(|target| {
            let reached = target.reached(self, Times::median);
            let fastest = target.reached(self, Times::fastest);
            json!({
                "tree": target.tree,
                "case": target.case,
                "wanted": target.wanted(),
                "reached": reached.map(|(value, _)| value),
                "reached_by_fastest": fastest.map(|(value, _)| value),
                "ok": reached.map(|(_, ok)| ok),
            })
        });
        let all = json!({
            "times": rows.collect::<Vec<Value>>(),
            "figures": figures.collect::<Vec<Value>>(),
            "targets": targets.collect::<Vec<Value>>(),
            "notes": self.notes,
        });
        format!("{all:#}\n")
    }
}
