//! Shows turns to a user: the answer as it streams in, the calls, and questions about them.

mod calls;
pub(crate) mod keyboard;
mod notes;
mod question;
mod screen;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, MutexGuard, PoisonError};

use takeback_runtime::{Answer, FrontEnd, Question, TurnEvent};

use self::calls::RunningCall;
use self::notes::{describe_end, note_of};
use self::question::{Asked, ask_on_terminal, describe_question, parse_answer, prompt_of};
use self::screen::Screen;
use crate::output::{MarkdownStream, Style, disarm_lines, last_lines, paint};

/// The maximum number of lines of reasoning that are shown while the model thinks.
const REASONING_LINES: usize = 4;

/// The number of bytes at the end of the reasoning that are kept for display.
const REASONING_KEPT: usize = 2 << 10;

/// A function that asks the user and returns what was typed.
type Ask = Box<dyn Fn(&str) -> Asked + Send + Sync>;

/// A front end for a user.
///
/// On a terminal, unfinished lines are live: they are replaced as the text grows and as calls end.
/// If standard output is not a terminal, it gets the answer as the model wrote it, and everything
/// else goes to standard error.
pub(crate) struct TerminalFrontEnd {
    shown: Mutex<Shown>,
    /// Held while a question is asked, so that only one question is asked at a time.
    asking: Mutex<()>,
    ask: Ask,
}

/// The state of the display.
struct Shown {
    screen: Screen,
    answer: MarkdownStream,
    /// The lines of the answer that are not finished, as they were last rendered.
    unfinished: Vec<String>,
    /// The last part of the reasoning, while the model thinks.
    reasoning: String,
    calls: Vec<RunningCall>,
    /// The finished lines that are not yet on the screen.
    finished: Vec<String>,
    /// The kind of the last finished line. A blank line separates different kinds.
    last: Option<Kind>,
    /// True while the user is being asked. Nothing is drawn during that time.
    is_asking: bool,
}

/// The kinds of lines that show a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Answer,
    Call,
    Note,
}

/// True if a blank line belongs between lines of these kinds.
fn needs_gap(last: Option<Kind>, next: Kind) -> bool {
    last.is_some_and(|last| last != next)
}

/// Shortens a text that is longer than `2 * length` bytes to its last `length` bytes.
fn keep_end(text: &mut String, length: usize) {
    if text.len() > 2 * length {
        let from = text.len() - length;
        let from = (from..=text.len()).find(|at| text.is_char_boundary(*at));
        text.drain(..from.unwrap_or(0));
    }
}

impl TerminalFrontEnd {
    /// Creates a front end on the standard streams.
    pub(crate) fn new() -> TerminalFrontEnd {
        TerminalFrontEnd::on(Screen::standard(), Box::new(ask_on_terminal))
    }

    fn on(screen: Screen, ask: Ask) -> TerminalFrontEnd {
        let shown = Shown {
            screen,
            answer: MarkdownStream::default(),
            unfinished: Vec::new(),
            reasoning: String::new(),
            calls: Vec::new(),
            finished: Vec::new(),
            last: None,
            is_asking: false,
        };
        TerminalFrontEnd { shown: Mutex::new(shown), asking: Mutex::new(()), ask }
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        // If a thread panicked while it was showing an event, the display is still usable.
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FrontEnd for TerminalFrontEnd {
    fn show(&self, event: &TurnEvent<'_>) {
        let mut shown = self.lock();
        shown.add(event);
        shown.draw();
    }

    fn approve(&self, question: &Question<'_>) -> Answer {
        let _one_at_a_time = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut shown = self.lock();
            shown.end_answer();
            let lines = describe_question(question, shown.screen.columns());
            shown.push(Kind::Note, lines);
            shown.draw_without_live();
            shown.is_asking = true;
        }
        let prompt = prompt_of(question);
        let answers = std::iter::repeat_with(|| parse_answer((self.ask)(&prompt), question));
        let answer =
            answers.flatten().next().expect("the question is repeated until there is an answer");
        let mut shown = self.lock();
        shown.is_asking = false;
        shown.draw();
        answer
    }
}

impl Shown {
    fn add(&mut self, event: &TurnEvent<'_>) {
        if !matches!(event, TurnEvent::Reasoning(_) | TurnEvent::CallOutput { .. }) {
            self.reasoning.clear();
        }
        match event {
            TurnEvent::Text(text) => self.add_text(text),
            TurnEvent::Reasoning(text) => self.add_reasoning(text),
            TurnEvent::CallStarted { call, subagent } => {
                self.end_answer();
                self.calls.push(RunningCall::new(call, *subagent));
            }
            TurnEvent::CallOutput { call, text } => {
                let running = self.calls.iter_mut().find(|running| running.id == *call);
                running.into_iter().for_each(|running| running.add_output(text));
            }
            TurnEvent::CallEnded { call, output, subagent } => {
                let at = self.calls.iter().position(|running| running.id == call.id);
                let running = at
                    .map_or_else(|| RunningCall::new(call, *subagent), |at| self.calls.remove(at));
                let line = running.ended_line(output, self.screen.columns());
                self.push(Kind::Call, [line]);
            }
            TurnEvent::TurnEnded { outcome, tokens, cost } => {
                self.end_answer();
                let columns = self.screen.columns();
                let stopped: Vec<String> =
                    self.calls.drain(..).map(|running| running.stopped_line(columns)).collect();
                self.push(Kind::Call, stopped);
                self.push(Kind::Note, describe_end(outcome, *tokens, *cost, columns));
                self.last = None;
            }
            event => {
                // The answer may continue, so its unfinished lines stay below the note.
                let lines = note_of(event, self.screen.columns());
                self.push(Kind::Note, lines);
            }
        }
    }

    fn add_text(&mut self, text: &str) {
        if self.screen.is_live() {
            let lines = self.answer.push(text, self.screen.columns());
            self.push(Kind::Answer, lines);
        } else {
            self.screen.write_answer(text);
        }
    }

    fn add_reasoning(&mut self, text: &str) {
        self.reasoning.push_str(text);
        keep_end(&mut self.reasoning, REASONING_KEPT);
    }

    /// Finishes the lines of the answer, because something else follows.
    fn end_answer(&mut self) {
        let lines = self.answer.finish(self.screen.columns());
        self.push(Kind::Answer, lines);
        self.screen.end_answer();
    }

    /// Adds finished lines. If the lines before them are of another kind, a blank line comes first.
    fn push(&mut self, kind: Kind, lines: impl IntoIterator<Item = String>) {
        let mut lines = lines.into_iter().peekable();
        if lines.peek().is_none() {
            return;
        }
        let is_separated = lines.peek().is_some_and(String::is_empty);
        if self.screen.is_live() && needs_gap(self.last, kind) && !is_separated {
            self.finished.push(String::new());
        }
        self.last = Some(kind);
        self.finished.extend(lines);
    }

    /// Prints the finished lines, and the live ones below them.
    fn draw(&mut self) {
        if self.is_asking {
            return;
        }
        if !self.screen.is_live() {
            self.screen.print(&std::mem::take(&mut self.finished));
            return;
        }
        let columns = self.screen.columns();
        if let Some(lines) = self.answer.unfinished(columns) {
            self.unfinished = lines;
        }
        let calls = self.calls.iter().flat_map(|running| running.live_lines(columns)).collect();
        let parts = [
            (Kind::Answer, self.unfinished.clone()),
            (Kind::Call, calls),
            (Kind::Note, self.reasoning_lines(columns)),
        ];
        let (mut live, mut last) = (Vec::new(), self.last);
        for (kind, lines) in parts.into_iter().filter(|(_, lines)| !lines.is_empty()) {
            if needs_gap(last, kind) && !lines[0].is_empty() {
                live.push(String::new());
            }
            last = Some(kind);
            live.extend(lines);
        }
        self.screen.update(&std::mem::take(&mut self.finished), &live);
    }

    /// Prints only the finished lines, so that other text can follow.
    fn draw_without_live(&mut self) {
        let finished = std::mem::take(&mut self.finished);
        match self.screen.is_live() {
            true => self.screen.update(&finished, &[]),
            false => self.screen.print(&finished),
        }
    }

    fn reasoning_lines(&self, columns: usize) -> Vec<String> {
        let lines = last_lines(&disarm_lines(&self.reasoning), columns, REASONING_LINES);
        lines.iter().map(|line| paint(Style::Faint, line)).collect()
    }
}
