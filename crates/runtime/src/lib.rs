//! A durable agent, built on takeback's other crates.
//!
//! Every step of a task is an entry in a journal, which is part of the ledger. The state of a task
//! is a fold of its journal. So if the task's process is killed, the next process continues at
//! exactly the step that the task had reached.
//!
//! ```no_run
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! use takeback_runtime::{Agent, Answer, FrontEnd, NewSession, Question, Task, TaskError, TurnEvent};
//!
//! /// A front end that prints the answer, and allows every call.
//! struct Printer;
//!
//! impl FrontEnd for Printer {
//!     fn show(&self, event: &TurnEvent<'_>) {
//!         if let TurnEvent::Text(text) = event {
//!             print!("{text}");
//!         }
//!     }
//!
//!     fn approve(&self, _: &Question<'_>) -> Answer {
//!         Answer::Allow
//!     }
//! }
//!
//! fn work(agent: Arc<Agent>, directory: &Path) -> Result<(), TaskError> {
//!     let mut task = Task::begin(agent, directory, NewSession::default(), "example")?;
//!     // After a crash, `Task::resume_task` continues at the exact step.
//!     if task.is_interrupted() {
//!         task.proceed(&Printer)?;
//!     }
//!     task.prompt("tidy up the imports", &Printer)?;
//!     Ok(())
//! }
//! ```
//!
//! `crates/cli/examples/durable_agent.rs` contains the whole program.

mod adopt;
mod agent;
mod append;
pub mod approval;
mod calls;
pub mod cancel;
mod clearing;
mod compress;
mod conversation;
mod delegate;
pub mod entry;
mod error;
#[cfg_attr(not(feature = "faults"), doc(hidden))]
pub mod fault;
pub mod front_end;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod goal;
mod goal_list;
mod journal;
pub mod model;
mod open;
pub mod recovery;
mod request;
pub mod settings;
mod settle;
mod shared;
pub mod state;
mod summary;
mod task;
mod task_list;
pub mod tools;
mod working;

pub use adopt::{AdoptOptions, AdoptedTask, adopt_task, list_shared_tasks};
pub use agent::{AGENT, Agent, OnFollowUp};
pub use cancel::Cancel;
pub use error::TaskError;
pub use front_end::{Answer, FrontEnd, Question, TurnEvent, TurnOutcome};
pub use goal::GoalReport;
pub use goal_list::{PROCESS_ENDED, list_goals, list_interrupted_goals};
pub use open::{NewSession, adopt_session};
pub use shared::SharedJournal;
pub use task::{Pause, Task};
pub use task_list::{CancelledTask, TaskView, cancel_task, list_open_tasks, list_tasks};
pub use working::find_working_sessions;
