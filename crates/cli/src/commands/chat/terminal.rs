//! Turns on a terminal, or as text in a file.

use std::io::{BufRead, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use takeback_runtime::{Answer, FrontEnd, Question, TurnEvent, TurnOutcome};

use crate::output::{self, LiveRegion, MarkdownStream, Size, Style, paint};

/// The number of characters of a call's input that are shown.
const MAX_INPUT: usize = 100;

/// The width of lines that are not printed on a terminal.
const USUAL_COLUMNS: usize = 100;

/// Prints the answer as it arrives, rendered as Markdown, and one line for each tool call.
pub(crate) struct TerminalFrontEnd {
    screen: Mutex<Screen>,
    /// True if the user can be asked.
    asks: bool,
}

/// The answer so far, and its lines that can still change.
#[derive(Default)]
struct Screen {
    answer: MarkdownStream,
    live: LiveRegion,
    unfinished: Vec<String>,
}

impl Screen {
    /// Adds a piece of the answer.
    fn push(&mut self, text: &str) {
        let size = Size::of(std::io::stdout());
        let columns = size.map_or(USUAL_COLUMNS, |size| size.columns);
        let finished = self.answer.push(text, columns);
        if size.is_some()
            && let Some(lines) = self.answer.unfinished(columns)
        {
            self.unfinished = lines;
        }
        self.print(&finished, size);
    }

    /// Ends the answer, so that other lines can follow.
    fn finish(&mut self) {
        let size = Size::of(std::io::stdout());
        let columns = size.map_or(USUAL_COLUMNS, |size| size.columns);
        let finished = self.answer.finish(columns);
        self.unfinished.clear();
        self.print(&finished, size);
    }

    fn print(&mut self, finished: &[String], size: Option<Size>) {
        match size {
            Some(size) => {
                output::write_raw(&self.live.update(finished, &self.unfinished, size));
            }
            None => finished.iter().for_each(|line| println!("{line}")),
        }
    }
}

impl TerminalFrontEnd {
    pub(crate) fn new(asks: bool) -> TerminalFrontEnd {
        TerminalFrontEnd { screen: Mutex::default(), asks }
    }

    fn lock(&self) -> MutexGuard<'_, Screen> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the answer so far, and prints a line.
    fn print_line(&self, line: &str) {
        self.lock().finish();
        println!("{line}");
        output::flush();
    }
}

impl FrontEnd for TerminalFrontEnd {
    fn show(&self, event: &TurnEvent<'_>) {
        let dim = |text: &str| paint(Style::Faint, &output::disarm(text));
        match event {
            TurnEvent::Text(text) => self.lock().push(text),
            TurnEvent::Reasoning(_) | TurnEvent::CallOutput { .. } => {}
            TurnEvent::CallStarted { call, subagent } => {
                let who = subagent.map(|number| format!("[{number}] ")).unwrap_or_default();
                let input = output::shorten(&output::join_lines(&call.arguments), MAX_INPUT);
                self.print_line(&dim(&format!("{who}{} {input}", call.name)));
            }
            TurnEvent::CallEnded { output: result, .. } => {
                let first = result.text.lines().next().unwrap_or_default();
                let first = output::shorten(first, MAX_INPUT);
                let mark = if result.is_error { "✗" } else { "✓" };
                self.print_line(&dim(&format!("  {mark} {first}")));
            }
            TurnEvent::Retrying { because, wait } => {
                let seconds = wait.as_secs_f64();
                self.print_line(&dim(&format!("{because}; trying again in {seconds:.0} s")));
            }
            TurnEvent::Continuing { because } => {
                self.print_line(&dim(&format!("the answer was cut off ({because}); continuing")));
            }
            TurnEvent::FailedOver { because, provider } => {
                self.print_line(&dim(&format!("{because}; asking {provider} instead")));
            }
            TurnEvent::Compressed { session } => {
                self.print_line(&dim(&format!("summarized older turns; now in {session}")));
            }
            TurnEvent::Warning(text) => {
                self.print_line(&paint(Style::Warning, &output::disarm(text)));
            }
            TurnEvent::TurnEnded { outcome, tokens, cost } => {
                let cost = cost.map(|cost| format!(", ${cost:.4}")).unwrap_or_default();
                self.print_line(&dim(&format!("{} tokens{cost}", tokens.total())));
                if let Some(problem) = describe_outcome(outcome) {
                    self.print_line(&paint(Style::Bad, &output::disarm(&problem)));
                }
            }
        }
    }

    fn approve(&self, question: &Question<'_>) -> Answer {
        self.lock().finish();
        if !self.asks || !std::io::stdin().is_terminal() {
            return Answer::Later;
        }
        let input = output::disarm(&question.call.arguments);
        println!("{} {input}", question.call.name);
        println!("It {}.", output::disarm(question.because));
        ask(question.remember)
    }
}

/// Asks whether a call may be made.
fn ask(remember: Option<&str>) -> Answer {
    let always = remember.map(|prefix| format!("  [a]lways for \"{prefix}\"")).unwrap_or_default();
    output::flush();
    let mut stderr = std::io::stderr().lock();
    let _ =
        write!(stderr, "[y]es{}  [N]o: ", output::disarm(&always)).and_then(|()| stderr.flush());
    let mut line = String::new();
    match std::io::stdin().lock().read_line(&mut line) {
        // The end of the input is no answer.
        Ok(0) | Err(_) => Answer::Later,
        Ok(_) => match line.trim() {
            "y" | "Y" | "yes" => Answer::Allow,
            "a" | "A" | "always" if remember.is_some() => Answer::AllowAlways,
            "" | "n" | "N" | "no" => Answer::Deny(String::new()),
            reason => Answer::Deny(reason.to_owned()),
        },
    }
}

fn describe_outcome(outcome: &TurnOutcome) -> Option<String> {
    match outcome {
        TurnOutcome::Complete => None,
        TurnOutcome::Partial { because } => Some(format!("The answer is incomplete: {because}")),
        TurnOutcome::Failed { because } => Some(format!("The turn failed: {because}")),
        TurnOutcome::Blocked { because } => Some(format!("The turn stopped: {because}")),
        TurnOutcome::Cancelled => Some("Stopped. Everything so far is kept.".to_owned()),
    }
}
