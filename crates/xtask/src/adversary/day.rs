//! A simulated day: agents carry out turns, the user edits files in between, and changes are taken
//! back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::clock::ClockShim;
use super::commands::{edit_lines, editable_paths};
use super::disk::Mount;
use super::files::{Files, PROJECT, copy_files, lines_of};
use super::judge::name_prompt;
use super::program::Program;
use crate::Failure;
use crate::random::Random;

/// The number of steps in a simulated day.
const STEPS: usize = 40;

/// A turn, identified by its session and its number.
pub(super) type TurnKey = (&'static str, usize);

/// A checkpoint, as the list shows it.
#[derive(PartialEq)]
pub(super) struct ListedCheckpoint {
    pub(super) id: String,
    /// True if the checkpoint is the first of its turn.
    is_first: bool,
    /// True if the checkpoint was taken after its call had begun. In that case, the state that the
    /// checkpoint holds is unknown.
    is_late: bool,
    /// The prompt of its turn.
    prompt: Option<String>,
}

/// The state at one moment, to which a rollback can return.
#[derive(Clone)]
pub(super) struct Moment {
    pub(super) files: Files,
    pub(super) in_force: BTreeSet<TurnKey>,
    /// The turns that had begun but not ended. A return to this moment takes back part of their
    /// work, and the conversation may end before or within such a turn.
    pub(super) begun: BTreeSet<TurnKey>,
}

pub(super) struct Day<'a> {
    pub(super) program: Program<'a>,
    pub(super) root: PathBuf,
    pub(super) random: Random,
    /// The moment of each checkpoint, by the checkpoint's id.
    pub(super) moments: BTreeMap<String, Moment>,
    /// The turns that the conversations contain.
    pub(super) in_force: BTreeSet<TurnKey>,
    /// The turns that have a checkpoint.
    pub(super) worked: BTreeSet<TurnKey>,
    /// The sessions that have had a turn.
    pub(super) sessions: BTreeSet<&'static str>,
    /// The open turn of each session.
    pub(super) open: BTreeMap<&'static str, usize>,
    turns: usize,
    pub(super) edits: usize,
    /// The paths that calls changed without protection: either the paths were reported as
    /// unprotected, or the checkpoint was late.
    pub(super) lost: BTreeSet<String>,
    /// The lines that the user's edits replaced, by path.
    pub(super) replaced: BTreeMap<String, BTreeSet<Vec<u8>>>,
    /// The marks of the user's edits that may be attributed to an agent.
    pub(super) mixed_up: BTreeSet<String>,
    /// The sessions whose open turn has a call whose end has not been reported.
    pub(super) unended: BTreeSet<&'static str>,
    /// The marks of the user's edits during calls whose end had not been reported yet. If the end
    /// is never reported, the edits are attributed to the call, and the program must say so.
    pub(super) edited_meanwhile: BTreeSet<String>,
    pub(super) calls: usize,
    /// The disk that holds takeback's home, or all files of the simulated day. `None` if no disk
    /// can be mounted.
    pub(super) disk: Option<Mount>,
    /// True while the disk is full.
    pub(super) is_full: bool,
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
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let program = Program::new(takeback, clock, root);
        let disk = match random.below(3) {
            0 => Mount::small_disk(root),
            _ => Mount::small_disk(&program.home()),
        };
        let mut day = Day {
            program,
            root: root.to_owned(),
            random,
            moments: BTreeMap::new(),
            in_force: BTreeSet::new(),
            worked: BTreeSet::new(),
            sessions: BTreeSet::new(),
            open: BTreeMap::new(),
            turns: 0,
            edits: 0,
            lost: BTreeSet::new(),
            replaced: BTreeMap::new(),
            mixed_up: BTreeSet::new(),
            unended: BTreeSet::new(),
            edited_meanwhile: BTreeSet::new(),
            calls: 0,
            disk,
            is_full: false,
            log: Vec::new(),
        };
        day.make_files(seed).map_err(|error| format!("cannot create the day's files: {error}"))?;
        for directory in ["vendor/lib", "."] {
            for arguments in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "begin"]] {
                day.run_git(&[&["-C", directory], arguments].concat())?;
            }
        }
        Ok(day)
    }

    fn make_files(&mut self, seed: u64) -> std::io::Result<()> {
        fs::create_dir_all(self.root.join("user"))?;
        fs::create_dir_all(self.program.home())?;
        fs::write(self.program.home().join("config.toml"), self.invent_settings(seed))?;
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
            ("project/vendor/lib/lib.txt", "line 1\nline 2\n"),
            ("elsewhere/note.txt", "line 1\nline 2\n"),
            ("elsewhere/sub/deep.txt", "line 1\n"),
        ];
        for (path, content) in files {
            let path = self.root.join(path);
            fs::create_dir_all(path.parent().expect("every file is in a directory"))?;
            fs::write(path, content)?;
        }
        for path in ["project/large.big", "project/uploads/large.big"] {
            fs::write(self.root.join(path), vec![b'l'; 1_200_000])?;
        }
        std::os::unix::fs::symlink("a.txt", self.root.join("project/link"))
    }

    /// Generates settings with limits that are small enough to matter within a simulated day. On
    /// some days, the agents wait so briefly that most checkpoints are late.
    fn invent_settings(&mut self, seed: u64) -> String {
        let rows = [4, 10, 50][self.random.below(3)];
        let megabytes = [1, 8, 2048][self.random.below(3)];
        let timeout = if seed.is_multiple_of(6) { 5 } else { 3000 };
        format!(
            "[checkpoints]\nmax_file_size_mb = 1\nmax_snapshots = {rows}\n\
             max_total_size_mb = {megabytes}\ntimeout_ms = {timeout}\n"
        )
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

    /// Performs the random steps of the simulated day.
    pub(super) fn live(&mut self) -> Result<(), Failure> {
        for _ in 0..STEPS {
            match self.random.below(28) {
                0..=4 => drop(self.edit_as_user()),
                5..=13 => self.make_call()?,
                14 | 15 => self.end_a_turn()?,
                16 | 17 => self.roll_back()?,
                18 => self.roll_back_path()?,
                19 | 20 => self.undo_turn()?,
                21 => self.kill_rollback()?,
                22 | 23 => self.tend()?,
                24 => self.commit_as_user(),
                25 => self.move_clock(),
                _ => self.fill_disk()?,
            }
        }
        self.end_all_turns()?;
        self.check_store()?;
        self.check_counts()
    }

    /// Takes a step while the disk is full, and then frees the space again.
    fn fill_disk(&mut self) -> Result<(), Failure> {
        if self.disk.is_none() {
            return Ok(());
        }
        // The turns begin before the disk is full, so that they can be recorded. Only the steps
        // within them have to cope with the full disk.
        for session in ["one", "two"] {
            self.ensure_turn(session)?;
        }
        let spare = [0, 4096, 65_536, 400_000][self.random.below(4)];
        self.log.push(format!("the disk is full, except for {spare} bytes"));
        self.disk.as_ref().map_or(Ok(()), |disk| disk.fill(spare))?;
        self.is_full = true;
        let outcome = match self.random.below(6) {
            0..=2 => self.make_call(),
            3 => self.roll_back(),
            4 => self.undo_turn(),
            _ => self.tend(),
        };
        self.free_disk()?;
        outcome?;
        self.check_conversations()
    }

    /// Frees the disk again. The next command writes the data that could not be written before.
    pub(super) fn free_disk(&mut self) -> Result<(), Failure> {
        let Some(disk) = self.disk.as_ref().filter(|_| self.is_full) else { return Ok(()) };
        disk.free();
        self.is_full = false;
        self.log.push("the disk has space again".into());
        self.program.run_well(&["list"]).map(drop)
    }

    pub(super) fn copy(&self) -> Files {
        copy_files(&self.root)
    }

    /// Edits or creates a file. Returns its path.
    pub(super) fn edit_as_user(&mut self) -> String {
        self.edits += 1;
        let mark = format!("user {}", self.edits);
        if !self.unended.is_empty() {
            self.edited_meanwhile.insert(mark.clone());
        }
        let files = self.copy();
        let paths = editable_paths(&files);
        let (path, content) = match paths.is_empty() || self.random.below(5) == 0 {
            true => {
                (format!("{PROJECT}/mine{}.txt", self.edits), format!("{mark} new\n").into_bytes())
            }
            false => {
                let path = paths[self.random.below(paths.len())].clone();
                let known = &files[&path].content;
                let content = edit_lines(known, &mark, &mut self.random);
                let replaced = self.replaced.entry(path.clone()).or_default();
                replaced.extend(lines_of(known).difference(&lines_of(&content)).cloned());
                (path, content)
            }
        };
        self.log.push(format!("the user writes {path}"));
        self.write(&path, &content);
        path
    }

    pub(super) fn write(&self, path: &str, content: &[u8]) {
        let path = self.root.join(path);
        if let Some(directory) = path.parent() {
            // This fails if an agent replaced a directory with a file.
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

    /// Begins a turn of a session, unless one is open. Returns the number of the open turn.
    pub(super) fn ensure_turn(&mut self, session: &'static str) -> Result<usize, Failure> {
        if !self.open.contains_key(session) {
            self.begin_turn(session)?;
        }
        Ok(self.open[session])
    }

    fn begin_turn(&mut self, session: &'static str) -> Result<(), Failure> {
        self.turns += 1;
        let turn = self.turns;
        self.log.push(format!("{session} begins turn {turn}"));
        self.report_turn("turn_start", session, Some(turn))?;
        self.open.insert(session, turn);
        self.sessions.insert(session);
        self.in_force.insert((session, turn));
        Ok(())
    }

    fn report_turn(&self, event: &str, session: &str, turn: Option<usize>) -> Result<(), Failure> {
        let prompt = turn.map(name_prompt);
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
        self.unended.remove(session);
        self.report_turn("turn_end", session, None)
    }

    pub(super) fn end_all_turns(&mut self) -> Result<(), Failure> {
        while let Some(session) = self.open.keys().next().copied() {
            self.end_turn(session)?;
        }
        Ok(())
    }

    /// Records the moment of each new checkpoint. `files` are the files at that moment, and `call`
    /// is the turn of the call for which the checkpoints were taken, if there is one.
    pub(super) fn learn_moments(
        &mut self,
        files: &Files,
        call: Option<TurnKey>,
    ) -> Result<(), Failure> {
        for listed in self.list_checkpoints()? {
            if self.moments.contains_key(&listed.id) {
                continue;
            }
            if listed.is_late {
                // A background process took this checkpoint at some unknown time after its call was
                // reported.
                let is_of = |turn: &&TurnKey| listed.prompt == Some(name_prompt(turn.1));
                self.worked.extend(self.in_force.iter().find(is_of).copied());
                continue;
            }
            self.worked.extend(call);
            let mut in_force = self.in_force.clone();
            if let Some(turn) = call.as_ref().filter(|_| listed.is_first) {
                in_force.remove(turn);
            }
            let open = self.open.iter().map(|(session, turn)| (*session, *turn));
            let begun = open.filter(|turn| in_force.contains(turn)).collect();
            self.moments.insert(listed.id, Moment { files: files.clone(), in_force, begun });
        }
        Ok(())
    }

    /// Lists all checkpoints.
    pub(super) fn list_checkpoints(&self) -> Result<Vec<ListedCheckpoint>, Failure> {
        let list = self.program.run_well(&["list", "--steps"])?;
        let rows = list["checkpoints"].as_array().cloned().unwrap_or_default();
        let mut all = Vec::new();
        for row in &rows {
            let listed = |value: &Value, is_first: bool| ListedCheckpoint {
                id: value["id"].as_str().unwrap_or_default().to_owned(),
                is_first,
                is_late: value["late"] == true,
                prompt: row["prompt"].as_str().map(str::to_owned),
            };
            all.push(listed(row, true));
            let steps = row["steps"].as_array().into_iter().flatten();
            all.extend(
                steps.filter(|step| step["id"] != row["id"]).map(|step| listed(step, false)),
            );
        }
        Ok(all)
    }

    /// Takes a checkpoint, prunes the history, or packs the store.
    fn tend(&mut self) -> Result<(), Failure> {
        let files = self.copy();
        let commands = [
            &["checkpoint", "--reason", "by hand"][..],
            &["checkpoints", "prune"],
            &["checkpoints", "gc"],
        ];
        let command = commands[self.random.below(commands.len())];
        self.log.push(format!("takeback {}", command.join(" ")));
        let answer = self.program.run(command)?;
        let may_fail = self.is_full && answer.json["error"].is_object();
        if !answer.succeeded && !may_fail {
            return Err(format!("takeback {} failed: {}", command.join(" "), answer.text));
        }
        self.learn_moments(&files, None)
    }
}
