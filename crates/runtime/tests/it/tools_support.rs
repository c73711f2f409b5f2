//! A workspace in which tools are called.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::Value;
use takeback_runtime::Cancel;
use takeback_runtime::tools::{
    IntendedWrite, KnownFiles, Tool, ToolContext, ToolOutput, ToolSettings, Tools,
};
use takeback_undo::ToolWork;

/// A workspace, and the files whose content the model knows.
pub(crate) struct Workbench {
    _scratch: tempfile::TempDir,
    pub(crate) root: PathBuf,
    pub(crate) tools: Tools,
    pub(crate) known: KnownFiles,
    pub(crate) cancel: Cancel,
    /// Everything that the tools showed while they were running.
    pub(crate) shown: Mutex<String>,
}

/// Returns settings in which the environment has only a search path.
pub(crate) fn settings() -> ToolSettings {
    let path = std::env::var_os("PATH").expect("tests have a search path");
    ToolSettings { environment: vec![("PATH".into(), path)], ..ToolSettings::default() }
}

impl Workbench {
    pub(crate) fn new() -> Workbench {
        Workbench::with(&settings())
    }

    pub(crate) fn with(settings: &ToolSettings) -> Workbench {
        let scratch = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(scratch.path()).unwrap().join("work");
        fs::create_dir(&root).unwrap();
        Workbench {
            _scratch: scratch,
            root,
            tools: Tools::standard(settings),
            known: KnownFiles::new(),
            cancel: Cancel::default(),
            shown: Mutex::default(),
        }
    }

    pub(crate) fn with_variables(variables: &[(&str, OsString)]) -> Workbench {
        let mut settings = settings();
        let variables = variables.iter().map(|(name, value)| ((*name).into(), value.clone()));
        settings.environment.extend(variables);
        Workbench::with(&settings)
    }

    pub(crate) fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    /// Writes a file as the user would, without the tools.
    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn get(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }

    pub(crate) fn tool(&self, name: &str) -> &dyn Tool {
        self.tools.get(name).unwrap()
    }

    fn with_context<T>(&self, body: impl FnOnce(&ToolContext<'_>) -> T) -> T {
        body(&ToolContext {
            directory: &self.root,
            known_files: &self.known,
            cancel: &self.cancel,
            on_output: &|text| self.shown.lock().unwrap().push_str(text),
        })
    }

    /// Calls a tool. Does not record which files the model knows after the call.
    pub(crate) fn try_call(&self, tool: &str, input: &Value) -> ToolOutput {
        self.with_context(|context| self.tool(tool).run(input, context))
    }

    pub(crate) fn call(&mut self, tool: &str, input: &Value) -> ToolOutput {
        let output = self.try_call(tool, input);
        for file in &output.known_files {
            self.known.insert(file.path.clone(), file.digest.clone());
        }
        output
    }

    /// Calls a tool that must succeed, and returns its text.
    #[track_caller]
    pub(crate) fn ok(&mut self, tool: &str, input: &Value) -> String {
        let output = self.call(tool, input);
        assert!(!output.is_error, "{tool} {input}: {}", output.text);
        output.text
    }

    /// Calls a tool that must fail, and returns its text.
    #[track_caller]
    pub(crate) fn fail(&mut self, tool: &str, input: &Value) -> String {
        let output = self.call(tool, input);
        assert!(output.is_error, "{tool} {input}: {}", output.text);
        output.text
    }

    pub(crate) fn writes(&self, tool: &str, input: &Value) -> Vec<IntendedWrite> {
        self.with_context(|context| {
            let intent = self.tool(tool).intent(input, context);
            intent.map(|intent| intent.writes).unwrap_or_default()
        })
    }

    pub(crate) fn work(&self, tool: &str, input: &Value) -> ToolWork {
        self.with_context(|context| self.tool(tool).work(input, context))
    }

    pub(crate) fn paths(&self, tool: &str, input: &Value) -> Vec<PathBuf> {
        self.with_context(|context| self.tool(tool).paths(input, context))
    }

    /// Lists all files in the workspace.
    pub(crate) fn list(&self) -> Vec<String> {
        fn visit(directory: &Path, root: &Path, all: &mut Vec<String>) {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() && !path.is_symlink() {
                    visit(&path, root, all);
                } else {
                    all.push(path.strip_prefix(root).unwrap().to_string_lossy().into_owned());
                }
            }
        }
        let mut all = Vec::new();
        visit(&self.root, &self.root, &mut all);
        all.sort();
        all
    }
}
