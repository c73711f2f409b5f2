//! What was measured, as text and as JSON.

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
    pub(crate) fn times(&mut self, shape: Shape, case: &'static str, times: Vec<Times>) {
        self.times.push((shape.name(), case, times));
    }

    pub(crate) fn figure(
        &mut self,
        shape: Shape,
        what: &'static str,
        value: f64,
        unit: &'static str,
    ) {
        self.figures.push((shape.name(), what, value, unit));
    }

    pub(crate) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    pub(crate) fn median(&self, tree: &str, case: &str, contender: &str) -> Option<f64> {
        let (.., times) = self.times.iter().find(|row| (row.0, row.1) == (tree, case))?;
        times.iter().find(|times| times.contender == contender).map(Times::median)
    }

    pub(crate) fn value(&self, tree: &str, what: &str) -> Option<f64> {
        self.figures.iter().find(|row| (row.0, row.1) == (tree, what)).map(|row| row.2)
    }

    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out).expect("writing to a string does not fail");
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "\nMedians in milliseconds")?;
        for (tree, case, times) in &self.times {
            write!(out, "  {tree:<14} {case:<15}")?;
            for times in times {
                write!(out, "  {} {:.1}", times.contender, times.median())?;
            }
            writeln!(out)?;
        }
        if !self.figures.is_empty() {
            writeln!(out, "\nFigures")?;
        }
        for (tree, what, value, unit) in &self.figures {
            writeln!(out, "  {tree:<14} {what:<30} {value:>9.2} {unit}")?;
        }
        writeln!(out, "\nTargets")?;
        for target in &TARGETS {
            let (reached, verdict) = match target.reached(self) {
                Some((reached, true)) => (format!("{reached:.2}"), "ok"),
                Some((reached, false)) => (format!("{reached:.2}"), "missed"),
                None => ("-".to_owned(), "not measured"),
            };
            let (tree, case, wanted) = (target.tree, target.case, target.wanted());
            writeln!(out, "  {tree:<8} {case:<22} {wanted:<36} {reached:>7}  {verdict}")?;
        }
        for note in &self.notes {
            writeln!(out, "\nnote: {note}")?;
        }
        Ok(())
    }

    pub(crate) fn json(&self) -> String {
        let times = |times: &Times| {
            json!({
                "contender": times.contender,
                "median_ms": times.median(),
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
            let reached = target.reached(self);
            json!({
                "tree": target.tree,
                "case": target.case,
                "wanted": target.wanted(),
                "reached": reached.map(|(value, _)| value),
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
