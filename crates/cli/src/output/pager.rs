//! A pager for output that is longer than the screen.

use std::io::{self, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anstream::{AutoStream, ColorChoice};
use signal_hook::consts::SIGINT;

/// A pager that is running.
pub(super) struct Pager {
    child: Child,
    /// The pager's input; `None` once all output has been written.
    input: Option<AutoStream<Box<dyn Write + Send>>>,
    is_over: Arc<AtomicBool>,
}

impl Pager {
    /// Starts a pager. `words` are its program and arguments, and `less` are the options for the
    /// program `less`, unless the user has chosen others. Returns `None` if the program cannot be
    /// started.
    pub(super) fn start(words: &[String], less: &str) -> Option<Pager> {
        let (program, arguments) = words.split_first()?;
        // The pager handles Ctrl-C. Once the pager is closed, Ctrl-C ends takeback again.
        let is_over = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register_conditional_default(SIGINT, Arc::clone(&is_over)).ok()?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped());
        for (variable, value) in [("LESS", less), ("LV", "-c")] {
            if std::env::var_os(variable).is_none() {
                command.env(variable, value);
            }
        }
        let started = command.spawn();
        let Ok(mut child) = started else {
            is_over.store(true, Ordering::Relaxed);
            return None;
        };
        let input: Option<ChildStdin> = child.stdin.take();
        let input = input.map(|input| -> Box<dyn Write + Send> { Box::new(input) });
        let input = input.map(|input| AutoStream::new(input, color_choice()));
        Some(Pager { child, input, is_over })
    }

    pub(super) fn write_line(&mut self, line: &str) -> io::Result<()> {
        self.input.as_mut().map_or(Ok(()), |input| writeln!(input, "{line}"))
    }

    /// Waits until the user closes the pager.
    pub(super) fn end(mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Returns the color choice for standard output, which also applies to the pager.
fn color_choice() -> ColorChoice {
    AutoStream::choice(&io::stdout())
}
