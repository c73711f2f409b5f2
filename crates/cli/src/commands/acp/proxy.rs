//! The proxy: passes messages on, and records their content.
//!
//! If takeback fails to handle a message, the message is passed on unchanged.

use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use serde_json::json;
use takeback_ledger::Time;
use takeback_undo::{Report, ReportedEvent};

use super::lines::{LineReader, Piece};
use super::message::Envelope;
use super::recorder::{Answered, Recorder};
use super::session::State;
use crate::takeover::Takeover;

/// The way in which the proxy handles a message.
pub(super) enum Passage {
    Unchanged,
    Changed(Vec<u8>),
    /// The proxy answers the message itself, and does not pass it on.
    Kept,
}

/// A writer that several threads share. Each message is written as a whole.
pub(super) struct Output<W>(Mutex<Option<W>>);

/// The connection between an editor and an agent.
pub(super) struct Proxy {
    state: Mutex<State>,
    pub(super) recorder: Recorder,
    pub(super) takeover: Option<Takeover>,
    to_editor: Output<io::Stdout>,
    to_agent: Output<std::process::ChildStdin>,
}

impl<W: Write> Output<W> {
    pub(super) fn new(writer: W) -> Output<W> {
        Output(Mutex::new(Some(writer)))
    }

    fn lock(&self) -> MutexGuard<'_, Option<W>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the writer.
    pub(super) fn close(&self) {
        drop(self.lock().take());
    }
}

/// Writes bytes. Writing to a closed writer does nothing.
fn write(writer: &mut Option<impl Write>, bytes: &[u8]) -> io::Result<()> {
    let Some(writer) = writer else { return Ok(()) };
    writer.write_all(bytes)?;
    writer.flush()
}

impl Proxy {
    pub(super) fn new(
        state: State,
        recorder: Recorder,
        takeover: Option<Takeover>,
        agent: std::process::ChildStdin,
    ) -> Proxy {
        let (to_editor, to_agent) = (Output::new(io::stdout()), Output::new(agent));
        Proxy { state: state.into(), recorder, takeover, to_editor, to_agent }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes on the editor's messages until the editor exits.
    pub(super) fn pass_to_agent(self: &Arc<Proxy>, editor: impl Read) -> io::Result<()> {
        let passed = pass(editor, &self.to_agent, |piece| match piece {
            Piece::Line(line) => self.read_from_editor(line),
            Piece::Part { bytes, is_first, .. } => {
                if *is_first {
                    self.protect_from_long_line(bytes);
                }
                (Passage::Unchanged, Vec::new())
            }
        });
        self.to_agent.close();
        passed
    }

    /// Passes on the agent's messages until the agent exits.
    pub(super) fn pass_to_editor(self: &Arc<Proxy>, agent: impl Read) -> io::Result<()> {
        pass(agent, &self.to_editor, |piece| match piece {
            Piece::Line(line) => self.read_from_agent(line),
            Piece::Part { .. } => (Passage::Unchanged, Vec::new()),
        })
    }

    fn read_from_editor(self: &Arc<Proxy>, line: &[u8]) -> (Passage, Vec<u8>) {
        let Some(message) = Envelope::parse(line) else { return (Passage::Unchanged, Vec::new()) };
        let passage = catch_unwind(AssertUnwindSafe(|| self.hear_editor(&message, line)));
        (passage.unwrap_or(Passage::Unchanged), Vec::new())
    }

    fn read_from_agent(self: &Arc<Proxy>, line: &[u8]) -> (Passage, Vec<u8>) {
        let Some(message) = Envelope::parse(line) else { return (Passage::Unchanged, Vec::new()) };
        let passage = catch_unwind(AssertUnwindSafe(|| self.hear_agent(&message, line)));
        passage.unwrap_or((Passage::Unchanged, Vec::new()))
    }

    /// Sends a message to the editor on behalf of the agent.
    pub(super) fn tell_editor(&self, message: &serde_json::Value) {
        // If the editor has exited, the thread that passes messages to the editor notices it.
        let _ = write(&mut self.to_editor.lock(), format!("{message}\n").as_bytes());
    }

    /// Refuses a request from the agent.
    pub(super) fn refuse_agent(&self, message: &Envelope<'_>, reason: &str) {
        let Some(id) = message.id else { return };
        let error = json!({ "code": -32000, "message": reason });
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{error}}}\n", id.get());
        let _ = write(&mut self.to_agent.lock(), line.as_bytes());
    }

    /// Handles a report while the agent waits.
    pub(super) fn report_in_time(&self, report: Report) -> Answered {
        let since = Instant::now();
        self.recorder.wait_for(move |worker, _| worker.report(&report, Some(since)))
    }

    /// Handles a report while the conversation continues.
    pub(super) fn report_later(&self, report: Report) {
        self.recorder.submit(move |worker| drop(worker.report(&report, None)));
    }

    /// Shows a warning to the user.
    pub(super) fn warn(&self, session: &str, warning: Option<&str>) {
        if let Some(warning) = warning {
            self.tell_editor(&agent_text(session, &format!("\n\n{warning}\n\n")));
        }
    }

    /// Protects the files from a line that is too long to be parsed. If the line may be a prompt,
    /// takes a checkpoint for each idle session before the line is passed on.
    fn protect_from_long_line(&self, beginning: &[u8]) {
        const METHOD: &[u8] = b"session/prompt";
        /// The number of bytes at the beginning of the line that are searched for the message's
        /// method.
        const SEARCHED: usize = 1 << 20;
        let searched = &beginning[..beginning.len().min(SEARCHED)];
        if !searched.windows(METHOD.len()).any(|found| found == METHOD) {
            return;
        }
        let mut state = self.state();
        let idle = state.sessions.iter().filter(|(_, session)| session.prompts == 0);
        let idle: Vec<String> = idle.map(|(id, _)| id.clone()).collect();
        let event = ReportedEvent::BeforePrompt { prompt: None };
        let reports: Vec<Report> =
            idle.iter().map(|session| state.report(session, event.clone())).collect();
        drop(state);
        for report in reports {
            self.report_in_time(report);
        }
    }

    /// Reports the end of all sessions, because the agent has exited.
    pub(super) fn finish(&self) {
        let mut state = self.state();
        let sessions: Vec<String> = state.sessions.keys().cloned().collect();
        for session in sessions {
            let mut events = state.take_messages(&session, now());
            events.extend(state.take_usage(&session, None));
            let report = state.report(&session, ReportedEvent::SessionEnd);
            self.recorder.submit(move |worker| {
                worker.record(&events);
                worker.report(&report, None);
            });
        }
        drop(state);
        self.recorder.finish();
        self.takeover.iter().for_each(Takeover::end);
    }
}

/// Passes the pieces of a stream on. `read` decides what happens to each piece, and returns the
/// bytes to write after that piece.
fn pass<W: Write>(
    input: impl Read,
    output: &Output<W>,
    mut read: impl FnMut(&Piece) -> (Passage, Vec<u8>),
) -> io::Result<()> {
    let mut pieces = LineReader::new(input);
    // While a line is passed on in parts, no other thread may write.
    let mut in_parts = None;
    while let Some(piece) = pieces.next_piece()? {
        let (passage, then) = read(&piece);
        let (bytes, is_whole) = match &piece {
            Piece::Line(line) => (line, true),
            Piece::Part { bytes, is_last, .. } => (bytes, *is_last),
        };
        let mut writer = in_parts.take().unwrap_or_else(|| output.lock());
        match &passage {
            Passage::Unchanged => write(&mut writer, bytes)?,
            Passage::Changed(line) => write(&mut writer, line)?,
            Passage::Kept => {}
        }
        if !then.is_empty() {
            write(&mut writer, &then)?;
        }
        in_parts = (!is_whole).then_some(writer);
    }
    Ok(())
}

/// Builds a message that the editor shows as text from the agent.
pub(super) fn agent_text(session: &str, text: &str) -> serde_json::Value {
    let content = json!({ "type": "text", "text": text });
    let update = json!({ "sessionUpdate": "agent_message_chunk", "content": content });
    let params = json!({ "sessionId": session, "update": update });
    json!({ "jsonrpc": "2.0", "method": "session/update", "params": params })
}

pub(super) fn now() -> Time {
    Time::from(SystemTime::now())
}
