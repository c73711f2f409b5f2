//! Timing: several contenders take turns, round by round, so that all meet the same weather.

use std::time::{Duration, Instant};

use crate::Failure;

/// One way to do the job. Says how long that took; preparations do not count.
pub(crate) type Contender<'a> = (&'static str, Box<dyn FnMut() -> Result<Duration, Failure> + 'a>);

/// How long a contender took in each round.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    pub(crate) contender: &'static str,
    rounds: Vec<Duration>,
}

impl Times {
    pub(crate) fn new(contender: &'static str) -> Times {
        Times { contender, rounds: Vec::new() }
    }

    pub(crate) fn add(&mut self, time: Duration) {
        self.rounds.push(time);
    }

    pub(crate) fn rounds(&self) -> impl Iterator<Item = f64> {
        self.rounds.iter().map(|time| time.as_secs_f64() * 1000.0)
    }

    /// In milliseconds: what a busy machine disturbs least.
    pub(crate) fn fastest(&self) -> f64 {
        self.rounds().fold(f64::INFINITY, f64::min)
    }

    /// In milliseconds.
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

/// How long something takes.
pub(crate) fn time<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<Duration, Failure> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

/// All contenders in turn, so many rounds. Before each the disk is idle.
pub(crate) fn take_turns(
    rounds: usize,
    mut contenders: Vec<Contender<'_>>,
) -> Result<Vec<Times>, Failure> {
    let mut times: Vec<Times> = contenders.iter().map(|(name, _)| Times::new(name)).collect();
    for _ in 0..rounds {
        for ((_, run), times) in contenders.iter_mut().zip(&mut times) {
            rustix::fs::sync();
            times.add(run()?);
        }
    }
    Ok(times)
}
