//! The history that one can look at: web pages and an HTTP API on a local address.
//!
//! The pages show what the ledger and the store know, and change files through the same
//! [`plan`](takeback_undo::rollback::plan) and [`apply`](takeback_undo::rollback::apply) as the
//! commands. [`Server::bind`] opens the port, [`Server::run`] serves until [`Stopper::stop`].
//!
//! Every request passes `guard`: only known hosts, only the server's own origin, only with the
//! token. All text from histories goes through maud, which escapes it.

mod api;
mod app;
mod assets;
mod cache;
mod chat;
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
pub use export::{ExportOptions, export_html};
pub use guard::Reach;
pub use pages::export::ExportSubject;
pub use problem::{Error, Problem};
pub use server::{Server, ServerOptions, Stopper};
pub use tls::{Certificate, CertificateError};
