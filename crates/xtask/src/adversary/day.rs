//! A day: agents work in turns, the user edits meanwhile, and things are taken back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};

use super::clock::ClockShim;
use super::commands::{AgentCall, Work, edit_lines, invent_call};
use super::files::{ELSEWHERE, Files, PROJECT, copy_files};
use super::program::{Answer, Program};
use crate::Failure;
use crate::random::Random;

/// The number of steps of a day.
const STEPS: usize = 40;

/// The sessions of a day, each with the session that it is a subagent of.
const SESSIONS: [(&str, Option<&str>); 3] = [("one", None), ("two", None), ("sub", Some("one"))];

/// A turn: the session and its number.
pub(super) type TurnKey = (&'static str, usize);

/// Everything that was true at a moment to which one can return.
#[derive(Clone)]
pub(super) struct Moment {
    pub(super) files: Files,
    pub(super) in_force: BTreeSet<TurnKey>,
    /// The turns that had begun and were not over. A return to this moment takes back half of what
    /// they did, and their conversation may end before them or within them.
    pub(super) begun: BTreeSet<TurnKey>,
}

pub(super) struct Day<'a> {
    pub(super) program: Program<'a>,
    pub(super) root: PathBuf,
    pub(super) random: Random,
    /// The moments of all checkpoints, by id.
    pub(super) moments: BTreeMap<String, Moment>,
    /// The turns that the conversations contain.
    pub(super) in_force: BTreeSet<TurnKey>,
    /// The open turn of each session.
    open: BTreeMap<&'static str, usize>,
    pub(super) turns: usize,
    edits: usize,
    /// The marks of edits that may count as an agent's.
    pub(super) mixed_up: BTreeSet<String>,
    calls: usize,
    /// The steps so far, in words.
    pub(crate) log: Vec<String>,
}

impl<'a> Day<'a> {
    pub(super) fn begin(
        takeback: &'a Path,
        clock: &'a ClockShim,
        root: &Path,
        seed: u64,
    ) -> Result<Day<'a>, Failure> {
        let day = Day {
            program: Program::new(takeback, clock, root),
            root: root.to_owned(),
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            moments: BTreeMap::new(),
            in_force: BTreeSet::new(),
            open: BTreeMap::new(),
            turns: 0,
            edits: 0,
            mixed_up: BTreeSet::new(),
            calls: 0,
            log: Vec::new(),
        };
        day.make_files().map_err(|error| format!("cannot make the files of a day: {error}"))?;
        for arguments in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "begin"]] {
            day.run_git(arguments)?;
        }
        Ok(day)
    }

    fn make_files(&self) -> std::io::Result<()> {
        fs::create_dir_all(self.root.join("user"))?;
        let files = [
            ("project/.gitignore", "uploads/\n*.log\n.env\n"),
            ("project/a.txt", "line 1\nline 2\nline 3\nline 4\nline 5\n"),
            ("project/src/b.txt", "line 1\nline 2\nline 3\nline 4\n"),
            ("project/src/c.txt", "line 1\nline 2\n"),
            ("project/src/deep/d.txt", "line 1\nline 2\nline 3\n"),
            ("project/docs/e.md", "line 1\nline 2\nline 3\n"),
            ("project/uploads/photo.bin", "line 1 of a photo\n"),
            ("project/uploads/more/scan.bin", "line 1 of a scan\n"),
            ("project/.env", "SECRET=line 1\n"),
            ("elsewhere/note.txt", "line 1\nline 2\n"),
            ("elsewhere/sub/deep.txt", "line 1\n"),
        ];
        for (path, content) in files {
            let path = self.root.join(path);
            fs::create_dir_all(path.parent().expect("every file is in a directory"))?;
            fs::write(path, content)?;
        }
        Ok(())
    }

    pub(super) fn run_git(&self, arguments: &[&str]) -> Result<(), Failure> {
        let mut git = self.program.command_in_project("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]);
        let output = git.args(arguments).output();
        let output = output.map_err(|error| format!("cannot run git: {error}"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr))),
        }
    }

    /// Lives through the day.
    pub(super) fn live(&mut self) -> Result<(), Failure> {
        for _ in 0..STEPS {
            match self.random.below(24) {
                0..=4 => self.edit_as_user(),
                5..=13 => self.make_call()?,
                14 | 15 => self.end_a_turn()?,
                16 | 17 => self.roll_back()?,
                18 | 19 => self.undo_turn()?,
                20 => self.kill_rollback()?,
                21 => self.tend()?,
                22 => self.commit_as_user(),
                _ => self.move_clock(),
            }
        }
        self.end_all_turns()?;
        self.check_store()
    }

    pub(super) fn copy(&self) -> Files {
        copy_files(&self.root)
    }

    /// Adds a line to a file, or makes a file.
    fn edit_as_user(&mut self) {
        self.edits += 1;
        let mark = format!("user {}", self.edits);
        let files = self.copy();
        let paths: Vec<&String> = files.keys().filter(|path| path.starts_with(PROJECT)).collect();
        let (path, content): (String, Vec<u8>) = match paths.is_empty() || self.random.below(5) == 0
        {
            true => {
                (format!("{PROJECT}/mine{}.txt", self.edits), format!("{mark} new\n").into_bytes())
            }
            false => {
                let path: String = paths[self.random.below(paths.len())].to_owned();
                let content = edit_lines(&files[&path], &mark, &mut self.random);
                (path, content)
            }
        };
        self.log.push(format!("the user writes {path}"));
        self.write(&path, &content);
    }

    fn write(&self, path: &str, content: &[u8]) {
        let path = self.root.join(path);
        if let Some(directory) = path.parent() {
            // An agent may have put a file in the place of a directory.
            let _ = fs::create_dir_all(directory);
        }
        let _ = fs::write(path, content);
    }

    fn commit_as_user(&mut self) {
        self.log.push("the user commits".into());
        let _ = self.run_git(&["add", "-A"]);
        let _ = self.run_git(&["commit", "-qm", "more"]);
    }

    fn move_clock(&mut self) {
        let by = [-3, 3600, -3600, 86_400, -86_400][self.random.below(5)];
        self.program.shift += by;
        self.log.push(format!("the clock jumps by {by} s"));
    }

    /// Lets a session make a call, in its open turn or in a new one.
    fn make_call(&mut self) -> Result<(), Failure> {
        let (session, parent) = SESSIONS[self.random.below(SESSIONS.len())];
        let owner = parent.unwrap_or(session);
        if !self.open.contains_key(owner) {
            self.begin_turn(owner)?;
        }
        let turn = self.open[owner];
        self.calls += 1;
        let mark = format!("agent t{turn}");
        let before = self.copy();
        let call = invent_call(&before, &mark, &mut self.random);
        let mut event = json!({
            "session": session, "parent": parent, "call": format!("c{}", self.calls),
            "tool": call.tool, "input": call.input, "cwd": self.root.join(PROJECT),
        });
        event["event"] = "before_tool".into();
        self.log.push(format!("{session} calls {} {} in turn {turn}", call.tool, call.input));
        let answer = self.program.report(&event)?;
        self.learn_moments(&before, Some((owner, turn)))?;
        if self.random.below(3) == 0 {
            // The agent's user is asked for permission, and goes on working meanwhile. What changes
            // while a script runs counts as its work: no tool tells who else wrote a file.
            self.edit_as_user();
            if matches!(call.work, Work::Script(_)) {
                self.mixed_up.insert(format!("user {}", self.edits));
            }
        }
        self.work(&call, &before, &answer)?;
        if self.random.below(10) > 0 {
            event["event"] = "after_tool".into();
            self.program.report(&event)?;
        }
        Ok(())
    }

    fn work(&mut self, call: &AgentCall, captured: &Files, answer: &Answer) -> Result<(), Failure> {
        let before = self.copy();
        match &call.work {
            Work::Write(path, content) => self.write(path, content),
            Work::Script(script) => {
                let mut bash = self.program.command_in_project("bash");
                bash.args(["-c", script]).stdout(Stdio::null()).stderr(Stdio::null());
                bash.env("GIT_AUTHOR_NAME", "a").env("GIT_AUTHOR_EMAIL", "a@b");
                bash.env("GIT_COMMITTER_NAME", "a").env("GIT_COMMITTER_EMAIL", "a@b");
                bash.status().map_err(|error| format!("cannot run bash: {error}"))?;
            }
        }
        self.check_protected(captured, &before, answer)
    }

    fn begin_turn(&mut self, session: &'static str) -> Result<(), Failure> {
        self.turns += 1;
        let turn = self.turns;
        self.log.push(format!("{session} begins turn {turn}"));
        self.report_turn("turn_start", session, Some(turn))?;
        self.open.insert(session, turn);
        self.in_force.insert((session, turn));
        Ok(())
    }

    fn report_turn(&self, event: &str, session: &str, turn: Option<usize>) -> Result<(), Failure> {
        let prompt = turn.map(|turn| format!("prompt {turn}"));
        let cwd = self.root.join(PROJECT);
        let event = json!({ "event": event, "session": session, "prompt": prompt, "cwd": cwd });
        self.program.report(&event).map(drop)
    }

    fn end_a_turn(&mut self) -> Result<(), Failure> {
        let sessions: Vec<&'static str> = self.open.keys().copied().collect();
        if sessions.is_empty() {
            return Ok(());
        }
        let session = sessions[self.random.below(sessions.len())];
        self.end_turn(session)
    }

    fn end_turn(&mut self, session: &'static str) -> Result<(), Failure> {
        self.log.push(format!("{session} ends its turn"));
        self.open.remove(session);
        self.report_turn("turn_end", session, None)
    }

    pub(super) fn end_all_turns(&mut self) -> Result<(), Failure> {
        while let Some(session) = self.open.keys().next().copied() {
            self.end_turn(session)?;
        }
        Ok(())
    }

    /// Notes which checkpoints are new: they have the files of this moment. `call` is the turn of
    /// the call that they were taken for.
    pub(super) fn learn_moments(
        &mut self,
        files: &Files,
        call: Option<TurnKey>,
    ) -> Result<(), Failure> {
        for (id, is_first) in self.list_checkpoints()? {
            if self.moments.contains_key(&id) {
                continue;
            }
            let mut in_force = self.in_force.clone();
            if let Some(turn) = call.as_ref().filter(|_| is_first) {
                in_force.remove(turn);
            }
            let open = self.open.iter().map(|(session, turn)| (*session, *turn));
            let begun = open.filter(|turn| in_force.contains(turn)).collect();
            self.moments.insert(id, Moment { files: files.clone(), in_force, begun });
        }
        Ok(())
    }

    /// Lists the ids of all checkpoints, and whether each is the first of its turn.
    pub(super) fn list_checkpoints(&self) -> Result<Vec<(String, bool)>, Failure> {
        let list = self.program.run_well(&["list", "--steps"])?;
        let rows = list["checkpoints"].as_array().cloned().unwrap_or_default();
        let id = |value: &Value| value["id"].as_str().unwrap_or_default().to_owned();
        let mut all = Vec::new();
        for row in &rows {
            all.push((id(row), true));
            let steps = row["steps"].as_array().into_iter().flatten();
            all.extend(steps.map(id).filter(|step| *step != id(row)).map(|step| (step, false)));
        }
        Ok(all)
    }

    /// Takes a checkpoint, prunes, or packs the store.
    fn tend(&mut self) -> Result<(), Failure> {
        let files = self.copy();
        let commands = [
            &["checkpoint", "--reason", "by hand"][..],
            &["checkpoints", "prune"],
            &["checkpoints", "gc"],
        ];
        let command = commands[self.random.below(commands.len())];
        self.log.push(format!("takeback {}", command.join(" ")));
        self.program.run_well(command)?;
        self.learn_moments(&files, None)
    }
}

/// True if a path is in the workspace.
pub(super) fn is_inside(path: &str) -> bool {
    !path.starts_with(ELSEWHERE)
}
