//! Writing a part of the history as a file, without a server.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::tz::TimeZone;
use tokio::sync::watch;

use crate::app::{App, Home, Work};
use crate::chat::NoAgent;
use crate::pages::export::{ExportSubject, export};
use crate::problem::Problem;

/// The values that the caller provides to write a file.
pub struct ExportOptions {
    /// Takeback's home, with the history to export.
    pub home: Arc<dyn Home>,
    /// The time zone in which times are shown.
    pub zone: TimeZone,
    /// The user's home directory, which is shown as `~`.
    pub user_home: Option<PathBuf>,
}

/// Writes a turn, a session or a day as one web page that needs no other files. Secrets are masked.
pub fn export_html(options: ExportOptions, subject: &ExportSubject) -> Result<String, Problem> {
    let ExportOptions { home, zone, user_home } = options;
    let (_stop, stopping) = watch::channel(false);
    let opened = home.open()?;
    let work = Work {
        app: Arc::new(App::new(home, Arc::new(NoAgent), zone, user_home, stopping)),
        opened,
    };
    export(&work, subject).map_err(|error| work.app.explain(error))
}
