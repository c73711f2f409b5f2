//! Random stories of two sessions and a user who write lines into the same files: no undo takes
//! back a line that the user wrote, and the reversal of each rollback and undo is exact.
//!
//! The agents report either the ends of most calls or none at all. If they report none, everything
//! that changes during a turn is attributed to the turn, so the user waits until no turn is open.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use takeback_undo::{
    Destination, Handled, ReportedEvent, Request, RollbackError, ToolCall, TurnUndo, rollback,
};

use crate::support::Scratch;

const FILES: [&str; 3] = ["a", "b", "c"];
const SESSIONS: [&str; 2] = ["s", "t"];

/// The number of stories. Each takes a few hundredths of a second.
const STORIES: u32 = 12;

#[derive(Clone, Debug)]
enum Step {
    /// The user adds a line to a file, unless the line would be attributed to an agent.
    Edit {
        file: usize,
        at: usize,
    },
    /// A call that names a file begins. If no turn is open, a turn begins with the call.
    Begin {
        session: usize,
        file: usize,
    },
    /// The session's call adds a line to its file.
    Work {
        session: usize,
        at: usize,
    },
    /// The call ends. Its end is not always reported.
    End {
        session: usize,
        is_reported: bool,
    },
    /// The turn ends. Its follow-up work is done now or later.
    EndTurn {
        session: usize,
        is_followed: bool,
    },
    /// The remaining follow-up work is done.
    FollowUp,
    Undo,
    RollBack {
        row: usize,
    },
    Reverse,
}

fn any_step() -> impl Strategy<Value = Step> {
    let (session, file) = (0..SESSIONS.len(), 0..FILES.len());
    let at = 0..6_usize;
    prop_oneof![
        4 => (file.clone(), at.clone()).prop_map(|(file, at)| Step::Edit { file, at }),
        4 => (session.clone(), file).prop_map(|(session, file)| Step::Begin { session, file }),
        5 => (session.clone(), at).prop_map(|(session, at)| Step::Work { session, at }),
        4 => (session.clone(), prop::bool::weighted(0.7))
            .prop_map(|(session, is_reported)| Step::End { session, is_reported }),
        2 => (session, any::<bool>())
            .prop_map(|(session, is_followed)| Step::EndTurn { session, is_followed }),
        1 => Just(Step::FollowUp),
        2 => Just(Step::Undo),
        1 => (1..4_usize).prop_map(|row| Step::RollBack { row }),
        1 => Just(Step::Reverse),
    ]
}

type Files = BTreeMap<&'static str, String>;

/// A story in progress.
struct Story {
    scratch: Scratch,
    reports_ends: bool,
    lines: usize,
    /// The running call of each session, and the file that the call names.
    calls: [Option<(ToolCall, usize)>; 2],
    /// True for each session that has an open turn.
    is_open: [bool; 2],
    left: Vec<Handled>,
    /// The files before the last rollback or undo, if nothing has happened since.
    before: Option<Files>,
}

impl Story {
    fn new(reports_ends: bool) -> Story {
        let scratch = if reports_ends { Scratch::with_reported_ends() } else { Scratch::new() };
        for file in FILES {
            scratch.write(file, "1\n2\n3\n4\n5\n");
        }
        let (calls, is_open) = ([const { None }; 2], [false; 2]);
        Story { scratch, reports_ends, lines: 0, calls, is_open, left: Vec::new(), before: None }
    }

    fn files(&self) -> Files {
        let present = FILES.into_iter().filter(|file| self.scratch.exists(file));
        present.map(|file| (file, self.scratch.read(file))).collect()
    }

    /// Adds a line to a file.
    fn add_line(&mut self, author: &str, file: usize, at: usize) {
        self.lines += 1;
        let text = self.files().remove(FILES[file]).unwrap_or_default();
        let mut lines: Vec<&str> = text.lines().collect();
        let line = format!("{author} {}", self.lines);
        lines.insert(at.min(lines.len()), &line);
        self.scratch.write(FILES[file], &(lines.join("\n") + "\n"));
    }

    fn take(&mut self, step: &Step) {
        let is_way_back = matches!(step, Step::Undo | Step::RollBack { .. } | Step::Reverse);
        if !is_way_back {
            self.before = None;
        }
        match *step {
            Step::Edit { file, at } => {
                let is_agents = match self.reports_ends {
                    true => self.calls.iter().flatten().any(|(_, named)| *named == file),
                    false => self.is_open.contains(&true),
                };
                if !is_agents {
                    self.add_line("user", file, at);
                }
            }
            Step::Begin { session, file } => self.begin_call(session, file),
            Step::Work { session, at } => {
                if let Some((_, file)) = self.calls[session] {
                    self.add_line("agent", file, at);
                }
            }
            Step::End { session, is_reported } => {
                if let Some((call, _)) = self.calls[session].take()
                    && is_reported
                    && self.reports_ends
                {
                    self.scratch.end_call(SESSIONS[session], call);
                }
            }
            Step::EndTurn { session, is_followed } => self.end_turn(session, is_followed),
            Step::FollowUp => self.follow_up(),
            Step::Undo => self.undo(),
            Step::RollBack { row } => {
                self.go_back(Destination::Checkpoint(row.to_string()));
            }
            Step::Reverse => {
                if let Some(before) = self.before.take() {
                    assert!(self.go_back(Destination::BeforeLastRollback));
                    assert_eq!(self.files(), before, "the reversal is not exact");
                    self.before = None;
                }
            }
        }
    }

    fn begin_call(&mut self, session: usize, file: usize) {
        if self.calls[session].is_some() {
            return;
        }
        self.lines += 1;
        let name = format!("c{}", self.lines);
        if !std::mem::replace(&mut self.is_open[session], true) {
            self.scratch.begin_turn(SESSIONS[session], &name);
        }
        let call = self.scratch.begin_edit(SESSIONS[session], "Edit", &name, &[FILES[file]]);
        self.calls[session] = Some((call, file));
    }

    fn end_turn(&mut self, session: usize, is_followed: bool) {
        if !std::mem::take(&mut self.is_open[session]) {
            return;
        }
        self.calls[session] = None;
        self.left.push(self.scratch.report(SESSIONS[session], ReportedEvent::TurnEnd));
        if is_followed {
            self.follow_up();
        }
    }

    fn follow_up(&mut self) {
        self.left.drain(..).for_each(|handled| self.scratch.do_follow_up(handled));
    }

    /// Undoes the last turn. The undo must keep each line that the user wrote.
    fn undo(&mut self) {
        let lines = |files: &Files| -> BTreeSet<String> {
            let lines = files.values().flat_map(|text| text.lines());
            lines.filter(|line| line.starts_with("user")).map(str::to_owned).collect()
        };
        let before = lines(&self.files());
        self.go_back(Destination::WithoutTurn(TurnUndo::default()));
        let after = lines(&self.files());
        assert!(before.is_subset(&after), "lost {:?}", before.difference(&after));
    }

    /// Rolls back, if there is a turn or checkpoint to return to. Returns true if the rollback was
    /// recorded.
    fn go_back(&mut self, to: Destination) -> bool {
        let before = self.files();
        let request = Request::new(self.scratch.project(), to);
        match rollback::roll_back(&self.scratch.opened, &request) {
            Ok(view) => {
                let is_recorded = view.safety_checkpoint.is_some();
                self.before = is_recorded.then_some(before);
                is_recorded
            }
            Err(RollbackError::NoTurn | RollbackError::Find(_)) => false,
            Err(error) => panic!("{error}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: STORIES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_undo_takes_back_a_line_of_the_user(
        reports_ends in any::<bool>(),
        steps in prop::collection::vec(any_step(), 1..30),
    ) {
        let mut story = Story::new(reports_ends);
        steps.iter().for_each(|step| story.take(step));
        story.undo();
    }
}
