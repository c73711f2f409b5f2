//! Measuring time. Each contender runs once in every round, so all contenders run under the same
//! conditions.

use std::time::{Duration, Instant};

use crate::Failure;

/// The name of a contender, and the function that does its work. The function returns the time that
/// the work took, without preparations.
pub(crate) type Contender<'a> = (&'static str, Box<dyn FnMut() -> Result<Duration, Failure> + 'a>);

/// The times of a contender, one per round.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    pub(crate) contender: &'static str,
    rounds: Vec<Duration>,
}

impl Times {
    pub(crate) fn new(contender: &'static str) -> Times {
        Times { contender, rounds: Vec::new() }
    }

    pub(crate) fn add_round(&mut self, time: Duration) {
        self.rounds.push(time);
    }

    pub(crate) fn rounds(&self) -> impl Iterator<Item = f64> {
        self.rounds.iter().map(|time| time.as_secs_f64() * 1000.0)
    }

    /// Returns the shortest time in milliseconds, which is least affected by a busy machine.
    pub(crate) fn fastest(&self) -> f64 {
        self.rounds().fold(f64::INFINITY, f64::min)
    }

    /// Returns the median in milliseconds.
    pub(crate) fn median(&self) -> f64 {
        let mut sorted: Vec<f64> = self.rounds().collect();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        if sorted.len().is_multiple_of(2) {
            (sorted[middle - 1] + sorted[middle]) / 2.0
        } else {
            sorted[middle]
        }
    }
}

/// Measures the time that `work` takes.
pub(crate) fn measure_time<T>(
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<Duration, Failure> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

/// Runs all contenders in turn, for `rounds` rounds. Syncs the disk before each run.
pub(crate) fn take_turns(
    rounds: usize,
    mut contenders: Vec<Contender<'_>>,
) -> Result<Vec<Times>, Failure> {
    let mut times: Vec<Times> = contenders.iter().map(|(name, _)| Times::new(name)).collect();
    for _ in 0..rounds {
        for ((_, run), times) in contenders.iter_mut().zip(&mut times) {
            rustix::fs::sync();
            times.add_round(run()?);
        }
    }
    Ok(times)
}
