//! Errors as the user sees them: a message, its causes, and a hint. `hints` chooses the hints for
//! the errors of the other crates.

mod hints;

use std::error::Error;
use std::process::ExitCode;

use serde::Serialize;
use takeback_base::errors::error_messages;

use crate::output::{self, Style, paint};

/// An error with its causes, and a hint about what to do next.
#[derive(Debug, Serialize)]
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) causes: Vec<String>,
    pub(crate) hint: Option<String>,
    /// True if the user answered no to a question, which is not an error.
    #[serde(skip)]
    pub(crate) is_declined: bool,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Failure {
        let (message, causes, hint) = (message.into(), Vec::new(), None);
        Failure { message, causes, hint, is_declined: false }
    }

    /// Creates the failure that ends a command because the user answered no. This is not an error:
    /// the command says that nothing changed, and succeeds.
    pub(crate) fn declined() -> Failure {
        Failure { is_declined: true, ..Failure::new("nothing changed") }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// Adds an error and its causes as causes of this failure.
    pub(crate) fn because(mut self, error: &dyn Error) -> Failure {
        self.causes.extend(error_messages(error));
        self
    }

    /// Adds a cause that is known only as text.
    pub(crate) fn because_of(mut self, cause: &str) -> Failure {
        self.causes.push(cause.to_owned());
        self
    }

    fn of(error: &dyn Error) -> Failure {
        let mut messages = error_messages(error).into_iter();
        let message = messages.next().unwrap_or_default();
        Failure { causes: messages.collect(), ..Failure::new(message) }
    }

    /// Prints the error, its causes and the hint, and returns the exit code.
    pub(crate) fn report(&self, json: bool) -> ExitCode {
        if self.is_declined {
            println!("Nothing changed.");
            return ExitCode::SUCCESS;
        }
        if json {
            let error = serde_json::json!({ "error": self }).to_string();
            println!("{}", output::disarm_json(&error));
        } else {
            output::keep_data(&serde_json::json!({ "error": self }));
            eprintln!("{} {}", paint(Style::Bad, "error:"), output::disarm(&self.message));
            self.causes.iter().for_each(|cause| eprintln!("  because: {}", output::disarm(cause)));
            if let Some(hint) = &self.hint {
                let hint = output::disarm_lines(hint).replace('\n', "\n  ");
                eprintln!("{} {hint}", paint(Style::Label, "hint:"));
            }
        }
        ExitCode::FAILURE
    }
}

/// Joins an error and its causes into one line.
pub(crate) use takeback_base::errors::error_chain as chain;

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", output::disarm(&self.message))?;
        self.causes.iter().try_for_each(|cause| write!(f, ": {}", output::disarm(cause)))
    }
}
