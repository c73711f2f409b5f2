//! The set of tools that an agent offers to its model.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::fetch_url::{FetchSettings, FetchUrl};
use super::list_files::ListFiles;
use super::patch::Patch;
use super::read_file::ReadFile;
use super::search_files::SearchFiles;
use super::terminal::{Jobs, Process, Terminal};
use super::todo::Todo;
use super::write_file::WriteFile;
use super::{Tool, ToolSpec};

/// The settings of the standard tools.
#[derive(Clone, Debug)]
pub struct ToolSettings {
    /// The environment variables that commands receive. No others are passed on.
    pub environment: Vec<(OsString, OsString)>,
    /// The directory that `~` refers to.
    pub home: Option<PathBuf>,
    /// The time limit for a command if the model does not set one.
    pub command_timeout: Duration,
    /// The longest time limit that the model can set.
    pub max_command_timeout: Duration,
    /// The maximum size of the output that the model reads from a command, in bytes. The middle of
    /// a longer output is left out.
    pub max_output: usize,
    /// The settings of `fetch_url`. Without them, the model is not offered the tool.
    pub fetch: Option<FetchSettings>,
}

impl Default for ToolSettings {
    /// Returns settings with an empty environment.
    fn default() -> ToolSettings {
        ToolSettings {
            environment: Vec::new(),
            home: None,
            command_timeout: Duration::from_secs(120),
            max_command_timeout: Duration::from_secs(3600),
            max_output: 32 * 1024,
            fetch: None,
        }
    }
}

/// A set of tools. When it is dropped, its background commands are terminated.
#[derive(Default)]
pub struct Tools(Vec<(String, Box<dyn Tool>)>);

impl Tools {
    /// Returns the standard tools.
    pub fn standard(settings: &ToolSettings) -> Tools {
        let home = &settings.home;
        let jobs = Arc::new(Jobs::new(settings));
        let tools = Tools::default()
            .with(Box::new(ReadFile { home: home.clone() }))
            .with(Box::new(WriteFile { home: home.clone() }))
            .with(Box::new(Patch { home: home.clone() }))
            .with(Box::new(ListFiles { home: home.clone() }))
            .with(Box::new(SearchFiles { home: home.clone() }))
            .with(Box::new(Terminal::new(settings, Arc::clone(&jobs))))
            .with(Box::new(Process { jobs }))
            .with(Box::new(Todo));
        match &settings.fetch {
            Some(fetch) => tools.with(Box::new(FetchUrl { settings: fetch.clone() })),
            None => tools,
        }
    }

    /// Adds a tool. If there is already a tool with the same name, replaces that tool.
    pub fn with(mut self, tool: Box<dyn Tool>) -> Tools {
        let name = tool.spec().name;
        self.0.retain(|(known, _)| *known != name);
        self.0.push((name, tool));
        self
    }

    /// Returns the tool with this name.
    pub fn get(&self, name: &str) -> Option<&dyn Tool> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, tool)| &**tool)
    }

    /// Describes all tools to the model, always in the same order.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.0.iter().map(|(_, tool)| tool.spec()).collect()
    }
}
