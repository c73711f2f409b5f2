//! The measured figures, and the targets for them.

use std::fmt::Write;

use serde_json::{Value, json};

pub(crate) const TAKEBACK: &str = "takeback";
/// The contender that uses the documented schema in Python's sqlite3.
pub(crate) const PLAIN: &str = "plain";
/// The contender that uses Hermes's own SessionDB.
pub(crate) const HERMES: &str = "hermes";

/// A measured number, with the names of its stage, contender and unit.
struct Figure {
    stage: &'static str,
    who: &'static str,
    what: &'static str,
    value: f64,
}

#[derive(Default)]
pub(crate) struct Figures {
    figures: Vec<Figure>,
    notes: Vec<String>,
}

/// The sorted durations of many operations, in milliseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies(Vec<f64>);

impl Latencies {
    pub(crate) fn new(mut milliseconds: Vec<f64>) -> Latencies {
        milliseconds.sort_by(f64::total_cmp);
        Latencies(milliseconds)
    }

    /// Returns the time within which `part` out of every thousand operations finished.
    pub(crate) fn per_mille(&self, part: usize) -> f64 {
        let place = (self.0.len() * part).div_ceil(1_000).max(1) - 1;
        self.0.get(place).copied().unwrap_or(f64::NAN)
    }

    /// Returns the number of operations per second.
    pub(crate) fn rate(&self) -> f64 {
        rate(&self.0)
    }

    /// Returns the number of operations per second, ignoring the slowest operation, which may
    /// include maintenance.
    pub(crate) fn rate_without_longest(&self) -> f64 {
        rate(self.0.split_last().map_or(&[], |(_, rest)| rest))
    }
}

fn rate(milliseconds: &[f64]) -> f64 {
    milliseconds.len() as f64 * 1_000.0 / milliseconds.iter().sum::<f64>()
}

struct Target {
    stage: &'static str,
    what: &'static str,
    goal: Goal,
}

enum Goal {
    /// takeback's figure is at most this value.
    AtMost(f64),
    /// takeback's figure is at least this many times the figure of another contender.
    Times(f64, &'static str),
}

const fn target(stage: &'static str, what: &'static str, goal: Goal) -> Target {
    Target { stage, what, goal }
}

const TARGETS: [Target; 15] = [
    target("fill", "× the text", Goal::AtMost(2.5)),
    target("append", "/s", Goal::Times(10.0, HERMES)),
    target("append", "/s", Goal::Times(3.0, PLAIN)),
    target("append", "p99.9 ms", Goal::AtMost(20.0)),
    target("append", "max ms", Goal::AtMost(100.0)),
    target("8 writers", "/s", Goal::Times(5.0, HERMES)),
    target("8 writers", "failures", Goal::AtMost(0.0)),
    target("8 writers", "lost", Goal::AtMost(0.0)),
    target("search words", "p95 ms", Goal::AtMost(10.0)),
    target("search cjk2", "p95 ms", Goal::AtMost(10.0)),
    target("search miss", "p95 ms", Goal::AtMost(2.0)),
    target("1M words", "p95 ms", Goal::AtMost(50.0)),
    target("1M cjk2", "p95 ms", Goal::AtMost(50.0)),
    target("1M miss", "p95 ms", Goal::AtMost(50.0)),
    target("1M common", "p95 ms", Goal::AtMost(50.0)),
];

impl Target {
    fn wanted(&self) -> String {
        match self.goal {
            Goal::AtMost(limit) => format!("at most {limit}"),
            Goal::Times(times, than) => format!("at least {times} × {than}"),
        }
    }

    /// Returns the figure that the target is about, and true if the figure reaches the target.
    /// Returns `None` if the figure was not measured.
    fn reached(&self, figures: &Figures) -> Option<(f64, bool)> {
        let ours = figures.value(self.stage, TAKEBACK, self.what)?;
        Some(match self.goal {
            Goal::AtMost(limit) => (ours, ours <= limit),
            Goal::Times(times, than) => {
                let reached = ours / figures.value(self.stage, than, self.what)?;
                (reached, reached >= times)
            }
        })
    }
}

impl Figures {
    pub(crate) fn add(
        &mut self,
        stage: &'static str,
        who: &'static str,
        what: &'static str,
        value: f64,
    ) {
        self.figures.push(Figure { stage, who, what, value });
    }

    pub(crate) fn add_latencies(
        &mut self,
        stage: &'static str,
        who: &'static str,
        latencies: &Latencies,
    ) {
        let parts = [("p50 ms", 500), ("p95 ms", 950), ("p99 ms", 990), ("p99.9 ms", 999)];
        for (what, part) in parts {
            self.add(stage, who, what, latencies.per_mille(part));
        }
        self.add(stage, who, "max ms", latencies.per_mille(1_000));
    }

    pub(crate) fn add_note(&mut self, note: String) {
        eprintln!("note: {note}");
        self.notes.push(note);
    }

    fn value(&self, stage: &str, who: &str, what: &str) -> Option<f64> {
        let is_it =
            |figure: &&Figure| (figure.stage, figure.who, figure.what) == (stage, who, what);
        self.figures.iter().find(is_it).map(|figure| figure.value)
    }

    pub(crate) fn to_text(&self) -> String {
        let mut out = String::new();
        self.write_text(&mut out).expect("writing to a string does not fail");
        out
    }

    fn write_text(&self, out: &mut String) -> std::fmt::Result {
        write!(out, "\nFigures")?;
        let mut row = ("", "");
        for Figure { stage, who, what, value } in &self.figures {
            if row != (*stage, *who) {
                write!(out, "\n  {stage:<18} {who:<10}")?;
                row = (*stage, *who);
            }
            write!(out, "  {} {what}", format_number(*value))?;
        }
        writeln!(out, "\n\nTargets")?;
        for target in &TARGETS {
            let (stage, what, wanted) = (target.stage, target.what, target.wanted());
            write!(out, "  {stage:<14} {what:<12} {wanted:<24}")?;
            match target.reached(self) {
                Some((reached, ok)) => {
                    let verdict = if ok { "ok" } else { "missed" };
                    writeln!(out, " {:>9}  {verdict}", format_number(reached))?;
                }
                None => writeln!(out, " {:>9}  not measured", "-")?,
            }
        }
        for note in &self.notes {
            writeln!(out, "\nnote: {note}")?;
        }
        Ok(())
    }

    pub(crate) fn to_json(&self) -> String {
        let figures = self.figures.iter().map(|Figure { stage, who, what, value }| {
            json!({ "stage": stage, "contender": who, "what": what, "value": value })
        });
        let targets = TARGETS.iter().map(|target| {
            let reached = target.reached(self);
            json!({
                "stage": target.stage,
                "what": target.what,
                "wanted": target.wanted(),
                "reached": reached.map(|(value, _)| value),
                "ok": reached.map(|(_, ok)| ok),
            })
        });
        let all = json!({
            "figures": figures.collect::<Vec<Value>>(),
            "targets": targets.collect::<Vec<Value>>(),
            "notes": self.notes,
        });
        format!("{all:#}\n")
    }
}

/// Formats a number with two decimals, with one if it is at least 10, and with none if it is at
/// least 100.
fn format_number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        large if large >= 100.0 => format!("{value:.0}"),
        large if large >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_measured_latencies() {
        let latencies = Latencies::new((1..=1_000).rev().map(f64::from).collect());
        assert_eq!(latencies.per_mille(500), 500.0);
        assert_eq!(latencies.per_mille(999), 999.0);
        assert_eq!(latencies.per_mille(1_000), 1_000.0);
        assert!(Latencies::default().per_mille(500).is_nan());
    }

    #[test]
    fn a_ratio_needs_the_figures_of_both_contenders() {
        let mut figures = Figures::default();
        figures.add("append", TAKEBACK, "/s", 40.0);
        assert_eq!(TARGETS[1].reached(&figures), None);
        figures.add("append", HERMES, "/s", 2.0);
        assert_eq!(TARGETS[1].reached(&figures), Some((20.0, true)));
    }
}
