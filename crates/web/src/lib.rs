//! Web pages and an HTTP API that show and change the history, served on a local address.
//!
//! The pages show the contents of the ledger and the store, and change files through the same
//! [`plan`](takeback_undo::rollback::plan) and [`apply`](takeback_undo::rollback::apply) as the
//! commands. [`Server::bind`] opens the port, and [`Server::run`] serves requests until
//! [`Stopper::stop`] is called.
//!
//! Every request passes `guard`, which accepts only known hosts, the server's own origin, and the
//! right token. All text from histories goes through maud, which escapes it.

mod api;
mod app;
mod assets;
mod cache;
mod chat;
mod checkup;
mod events;
mod export;
mod guard;
mod pages;
mod plans;
mod problem;
mod server;
mod text;
mod tls;
mod view;

pub use app::Home;
pub use chat::{BuiltAgent, ChatHost, SlashAction, SlashAnswer, SlashLine};
pub use checkup::{CheckedAgent, Checkup, Finding};
pub use export::{ExportOptions, export_html};
pub use guard::Reach;
pub use pages::export::ExportSubject;
pub use problem::{Error, Problem};
pub use server::{Server, ServerOptions, Stopper};
pub use tls::{Certificate, CertificateError};
