//! The values that takeback knows: checkpoints, sessions, paths, settings.

use std::ffi::OsString;
use std::sync::Arc;

use takeback_ledger::ListOptions;

use crate::arguments::Arguments;
use crate::commands::{diff, list};
use crate::config;
use crate::context::{Caller, Context};
use crate::output;

/// The maximum number of sessions that are offered.
const SESSIONS: usize = 50;

/// The source of the values. It uses the directory, the home and the profile that the typed words
/// name.
#[derive(Clone)]
pub(super) struct Values {
    /// `None` if takeback's home cannot be found.
    context: Option<Arc<Context>>,
    /// The words of the command that have been typed so far.
    words: Arc<Vec<String>>,
}

impl Values {
    /// Prepares to find values for these words of the command line, which a shell passes after
    /// `--`.
    pub(super) fn from_words(words: &[OsString]) -> Values {
        let typed = words.iter().skip_while(|word| *word != "--").skip(1);
        let typed: Vec<String> = typed.map(|word| word.to_string_lossy().into_owned()).collect();
        // Only these options affect which values are found.
        let mut known = vec![OsString::from("takeback"), "list".into()];
        for pair in typed.windows(2) {
            if ["-C", "--home", "--profile"].contains(&pair[0].as_str()) {
                known.extend(pair.iter().map(OsString::from));
            }
        }
        let arguments = Arguments::parse_words(known).ok();
        let context = arguments
            .and_then(|arguments| Context::new(arguments.globals, Caller::User).ok())
            .map(Arc::new);
        Values { context, words: Arc::new(typed) }
    }

    /// Lists the numbers and names of the checkpoints, each with its prompt or its reason.
    pub(super) fn list_checkpoints(&self) -> Vec<(String, String)> {
        let list = self.context.as_deref().and_then(|context| list::make_list(context).ok());
        let rows = list.into_iter().flat_map(|list| list.checkpoints).flat_map(|row| {
            let time = output::local_time(&row.time);
            let told = format!("{time} {}", row.prompt.as_ref().unwrap_or(&row.reason));
            let name = row.name.map(|name| (name, told.clone()));
            std::iter::once((row.number.to_string(), told)).chain(name)
        });
        rows.collect()
    }

    /// Lists the latest sessions, each with its title or its first prompt.
    pub(super) fn list_sessions(&self) -> Vec<(String, String)> {
        let options = ListOptions { limit: Some(SESSIONS), ..ListOptions::default() };
        let find = |context: &Context| {
            // A press of Tab must not create a ledger.
            let is_there = context.ledger_path().exists();
            is_there.then(|| context.ledger().ok()?.sessions(&options).ok()).flatten()
        };
        let sessions = self.context.as_deref().and_then(find).unwrap_or_default();
        let told = sessions.into_iter().map(|summary| {
            let title = summary.session.title.unwrap_or(summary.preview);
            (summary.session.id, title)
        });
        told.collect()
    }

    /// Lists the paths that have changed since the checkpoint that was typed before them.
    pub(super) fn list_paths(&self) -> Vec<(String, String)> {
        let Some(context) = self.context.as_deref() else { return Vec::new() };
        let names = self
            .words
            .iter()
            .skip(1)
            .filter(|word| word.starts_with(|first: char| first.is_ascii_alphanumeric()));
        // Skip the first word: it is the command, but there may be a checkpoint with the same name.
        let paths = names.skip(1).find_map(|word| diff::list_changed_paths(word, context).ok());
        let paths = paths.unwrap_or_default().into_iter();
        paths.map(|path| (path.display().to_string(), String::new())).collect()
    }

    /// Lists the settings, each with its meaning.
    pub(super) fn list_settings(&self) -> Vec<(String, String)> {
        let known = config::known::SETTINGS.iter();
        known.map(|setting| (setting.key.to_owned(), setting.meaning.to_owned())).collect()
    }

    /// Lists the profiles in config.toml.
    pub(super) fn list_profiles(&self) -> Vec<(String, String)> {
        let text =
            self.context.as_deref().and_then(|context| config::read_text(&context.home).ok());
        let names = config::profile_names(&text.unwrap_or_default()).into_iter();
        names.map(|name| (name, String::new())).collect()
    }

    /// Lists the agents that takeback knows.
    pub(super) fn list_agents(&self) -> Vec<(String, String)> {
        let agents = takeback_agents::AGENTS.iter();
        agents.map(|agent| (agent.name.to_owned(), agent.title.to_owned())).collect()
    }
}
