//! Kills at random times, several in a row.
//!
//! `TAKEBACK_KILLS` sets the number of kills per story, and `TAKEBACK_KILL_SEED` the seed.

use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use takeback_script::{Reply, Request, Server, StreamGate, StreamStep};

use super::child::start_child;
use super::outcome::{Outcome, read_outcome};
use super::stories::{Story, find_story};
use crate::support::Scratch;

/// The number of kills per story.
const KILLS: usize = 32;

/// The maximum number of kills in a row before the process may finish.
const IN_A_ROW: u64 = 8;

/// A process, and the number of events after which the model's server kills it.
type Fate = (Child, Option<u64>);

/// The process that is to be killed, either by the model's server or after a time.
#[derive(Clone, Default)]
struct Victim(Arc<Mutex<Option<Fate>>>);

impl Victim {
    /// Counts an event that the server sends, and kills the process once the chosen number of
    /// events has been sent.
    fn count_event(&self) {
        let mut victim = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((child, Some(left))) = &mut *victim {
            match left.checked_sub(1) {
                Some(fewer) => *left = fewer,
                None => drop(child.kill()),
            }
        }
    }

    fn set(&self, child: Child, events: Option<u64>) {
        *self.0.lock().unwrap() = Some((child, events));
    }

    /// Waits until the process ends. Returns true if it was not killed.
    fn wait(&self, kill_after: Option<Duration>) -> bool {
        if let Some(time) = kill_after {
            thread::sleep(time);
            self.with(|child| child.kill().unwrap());
        }
        loop {
            // The lock is released between the checks, so that the server can kill the process.
            if let Some(status) = self.with(|child| child.try_wait().unwrap()) {
                return status.success();
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Child) -> T) -> T {
        act(&mut self.0.lock().unwrap().as_mut().unwrap().0)
    }
}

/// Starts the model of a story. The process can be killed at each request that the model receives
/// and at each event that it sends.
fn start_server(story: &Story, victim: &Victim) -> Server {
    let (script, victim) = (story.script, victim.clone());
    Server::start(move |request: &Request| {
        victim.count_event();
        let reply = script(request);
        let (gate, victim) = (reply.gate.clone(), victim.clone());
        let decide = move |event| {
            victim.count_event();
            gate.as_ref().map_or(StreamStep::Send, |gate| gate.decide(event))
        };
        Reply { gate: Some(StreamGate::new(decide)), ..reply }
    })
    .unwrap()
}

/// A small random number generator (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % limit.max(1)
    }
}

/// A run without kills: its outcome, its duration, and the number of events that the server sent.
struct Undisturbed {
    outcome: Outcome,
    time: Duration,
    events: u64,
}

struct Killer {
    story: &'static Story,
    victim: Victim,
    server: Server,
    random: Random,
}

impl Killer {
    fn run_undisturbed(&self) -> Undisturbed {
        let scratch = self.story.prepare();
        let began = Instant::now();
        self.victim.set(start_child(self.story, &scratch, &self.server, None), Some(u64::MAX));
        assert!(self.victim.wait(None));
        let time = began.elapsed();
        let left = self.victim.0.lock().unwrap().as_ref().unwrap().1.unwrap();
        Undisturbed { outcome: read_outcome(&scratch), time, events: u64::MAX - left }
    }

    /// Runs the process until it is killed: at a random entry of the journal, at a random event of
    /// the server, or after a random time. Returns true if the process finished before it could be
    /// killed.
    fn run_and_kill(&mut self, scratch: &Scratch, undisturbed: &Undisturbed) -> bool {
        let start = |at| start_child(self.story, scratch, &self.server, at);
        match self.random.below(3) {
            0 => {
                let point = self.random.below(24) as i64;
                self.victim.set(start(Some(point)), None);
                self.victim.wait(None)
            }
            1 => {
                let event = self.random.below(undisturbed.events);
                self.victim.set(start(None), Some(event));
                self.victim.wait(None)
            }
            _ => {
                let moment = self.random.below(undisturbed.time.as_micros() as u64);
                self.victim.set(start(None), None);
                self.victim.wait(Some(Duration::from_micros(moment)))
            }
        }
    }

    /// Kills the process several times in a row, and then lets it finish. Returns the number of
    /// kills.
    fn run_chain(&mut self, undisturbed: &Undisturbed, seed: u64) -> usize {
        let scratch = self.story.prepare();
        let wanted = 1 + self.random.below(IN_A_ROW) as usize;
        let mut kills = 0;
        while kills < wanted && !self.run_and_kill(&scratch, undisturbed) {
            kills += 1;
        }
        self.victim.set(start_child(self.story, &scratch, &self.server, None), None);
        let name = self.story.name;
        assert!(self.victim.wait(None), "{name}, seed {seed}: failed after {kills} kills");
        let (outcome, expected) = (read_outcome(&scratch), &undisturbed.outcome);
        assert_eq!(outcome.files, expected.files, "{name}, seed {seed}: after {kills} kills");
        if !self.story.tells_of_kills {
            assert_eq!(outcome, *expected, "{name}, seed {seed}: after {kills} kills");
        }
        kills
    }
}

fn read_number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn kill_at_random(name: &str) {
    let victim = Victim::default();
    let story = find_story(name);
    let server = start_server(story, &victim);
    let mut killer = Killer { story, victim, server, random: Random(1) };
    let undisturbed = killer.run_undisturbed();
    let wanted = read_number("TAKEBACK_KILLS", KILLS as u64) as usize;
    let mut kills = 0;
    for seed in read_number("TAKEBACK_KILL_SEED", 1).. {
        killer.random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        kills += killer.run_chain(&undisturbed, seed);
        if kills >= wanted {
            return;
        }
    }
}

#[test]
fn edits_killed_at_random_times_have_the_same_outcome() {
    kill_at_random("editor");
}

#[test]
fn subagents_killed_at_random_times_have_the_same_outcome() {
    kill_at_random("subagents");
}

#[test]
fn a_goal_is_reached_even_if_its_process_is_killed_at_random() {
    kill_at_random("goal");
}

#[test]
fn a_goal_spends_the_same_budget_even_if_its_process_is_killed_at_random() {
    kill_at_random("budget");
}

#[test]
fn a_compression_killed_at_random_is_still_applied_exactly_once() {
    kill_at_random("compression");
}

#[test]
fn a_long_turn_killed_at_random_times_has_the_same_outcome() {
    kill_at_random("long turn");
}

#[test]
fn cut_off_streams_killed_at_random_times_have_the_same_outcome() {
    kill_at_random("cut streams");
}

#[test]
fn a_command_killed_at_random_is_never_run_twice() {
    kill_at_random("command");
}
