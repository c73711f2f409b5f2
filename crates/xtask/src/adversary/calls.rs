//! The calls in a simulated day: how they are reported, carried out and judged.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use super::commands::{AgentCall, Work, invent_call};
use super::day::Day;
use super::files::{Files, PROJECT};
use super::program::{Answer, list_paths};
use super::way_back::{mark_of, users_lines};
use crate::Failure;

/// The sessions in a simulated day, each with its parent session if it belongs to a subagent.
const SESSIONS: [(&str, Option<&str>); 3] = [("one", None), ("two", None), ("sub", Some("one"))];

impl Day<'_> {
    /// Lets a session make a call, in its open turn or in a new one.
    pub(super) fn make_call(&mut self) -> Result<(), Failure> {
        let (session, parent) = SESSIONS[self.random.below(SESSIONS.len())];
        let owner = parent.unwrap_or(session);
        let turn = self.ensure_turn(owner)?;
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
        if self.random.below(14) == 0 {
            // The agent is killed together with its hook.
            self.unended.insert(owner);
            self.kill_hook(&event)?;
            return self.learn_moments(&before, Some((owner, turn)));
        }
        let answer = self.program.report(&event)?;
        self.learn_moments(&before, Some((owner, turn)))?;
        if self.random.below(3) == 0 {
            // The agent's user is asked for permission, and keeps working in the meantime.
            self.edit_meanwhile(&call)?;
        }
        self.work(&call, &before, &answer)?;
        event["event"] = "after_tool".into();
        match self.random.below(20) {
            0 => drop(self.unended.insert(owner)),
            1 => {
                self.unended.insert(owner);
                self.kill_hook(&event)?;
            }
            _ => drop(self.program.report(&event)?),
        }
        Ok(())
    }

    fn kill_hook(&mut self, event: &Value) -> Result<(), Failure> {
        let after = Duration::from_micros(100 * self.random.below(300) as u64);
        self.log.push(format!("the hook is killed after {after:?}"));
        self.program.report_and_kill(event, after)
    }

    /// Edits a file as the user would while a call is waiting. If the call's script may have
    /// changed the same file, the edit may be attributed to the script, because nothing shows who
    /// wrote the file.
    fn edit_meanwhile(&mut self, call: &AgentCall) -> Result<(), Failure> {
        let path = self.edit_as_user();
        let Work::Script(script) = &call.work else { return Ok(()) };
        let explained = self.program.run_well(&["explain", script])?;
        let full = self.root.join(&path);
        let may_change = list_paths(&explained["paths"]);
        if explained["bounded"] != true || may_change.iter().any(|path| full.starts_with(path)) {
            self.mixed_up.insert(format!("user {}", self.edits));
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
        self.note_brought_lines(&before);
        self.check_protected(captured, &before, answer)
    }

    /// Records the user's lines that a call brought back, for example from a commit. These lines
    /// are attributed to the call.
    fn note_brought_lines(&mut self, before: &Files) {
        let known = users_lines(before);
        let after = users_lines(&self.copy());
        self.mixed_up.extend(after.difference(&known).map(|line| mark_of(line)));
    }
}
