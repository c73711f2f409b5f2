//! Fetching agents from the npm registry, and keeping them in a cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::program::AgentProgram;
use crate::Failure;
use crate::run::target_directory;

/// The Node package, in a version that is new enough for all agents.
const NODE: (&str, &str) = ("node", "22.23.3");
const NODE_MAJOR: u32 = 22;

/// The directory with the agents, and the Node that runs them.
pub(crate) struct AgentCache {
    directory: PathBuf,
    /// A separate Node, if the machine's own Node is too old.
    node: Option<PathBuf>,
}

/// The reason why an agent could not be fetched.
pub(crate) enum FetchError {
    /// The agent cannot be fetched on this machine right now.
    Unavailable(&'static str),
    Failed(Failure),
}

impl AgentCache {
    pub(crate) fn new() -> Result<AgentCache, Failure> {
        let directory = target_directory().join("agents");
        fs::create_dir_all(&directory)
            .map_err(|error| format!("cannot create {}: {error}", directory.display()))?;
        Ok(AgentCache { directory, node: None }.with_node())
    }

    /// Returns the cache for the servers that tests use. They run with any version of Node.
    pub(crate) fn for_tools() -> Result<AgentCache, Failure> {
        let directory = target_directory().join("tools");
        fs::create_dir_all(&directory)
            .map_err(|error| format!("cannot create {}: {error}", directory.display()))?;
        Ok(AgentCache { directory, node: None })
    }

    /// Fetches Node if the machine's own version is too old. If that fails, the agents that need it
    /// will report the problem.
    fn with_node(mut self) -> AgentCache {
        if node_major().is_none_or(|major| major < NODE_MAJOR)
            && let Ok(installed) = self.install_package("node", NODE.0, NODE.1)
        {
            self.node = Some(installed);
        }
        self
    }

    /// Returns the machine's own Node if it is new enough, or else the fetched one.
    pub(crate) fn find_node(&self, oldest_major: u32) -> Option<PathBuf> {
        if node_major().is_some_and(|major| major >= oldest_major) {
            return Some("node".into());
        }
        self.node.as_deref().map(|installed| bin_directory(installed).join("node"))
    }

    /// Returns the cache directory, in which scratch files may also be created.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the `PATH` for an agent.
    pub(crate) fn search_path(&self, installed: &Path) -> String {
        let own = std::env::var("PATH").unwrap_or_default();
        let directories = self.node.as_deref().into_iter().chain([installed]);
        let directories =
            directories.map(|directory| bin_directory(directory).display().to_string());
        directories.chain([own]).collect::<Vec<_>>().join(":")
    }

    /// Fetches a version of an agent, such as `1.2.3` or `latest`. Returns the number of the
    /// version, and the directory of the agent.
    pub(crate) fn fetch(
        &self,
        program: &AgentProgram,
        version: &str,
    ) -> Result<(String, PathBuf), FetchError> {
        let version = match version {
            "latest" => self.look_up(program.package_of(version), version)?,
            number => number.to_owned(),
        };
        let installed =
            self.install_package(program.name, program.package_of(&version), &version)?;
        Ok((version, installed))
    }

    /// Looks up a version, such as `latest`, in the registry, and returns its number. Every
    /// installation does this first, because `npm install` takes minutes to fail if npm cannot
    /// reach the registry.
    fn look_up(&self, package: &str, version: &str) -> Result<String, FetchError> {
        let mut npm = self.npm_command(&self.directory);
        npm.args(["--fetch-retries=0", "--fetch-timeout=15000"]);
        let output = npm.args(["view", &format!("{package}@{version}"), "version"]).output();
        let output = output.map_err(|_| FetchError::Unavailable("npm is not installed"))?;
        let number = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let is_answered =
            output.status.success() || String::from_utf8_lossy(&output.stderr).contains("E404");
        match is_answered {
            true if number.is_empty() => {
                Err(FetchError::Failed(format!("the registry has no {package} {version}")))
            }
            true => Ok(number),
            false => Err(FetchError::Unavailable("the npm registry cannot be reached")),
        }
    }

    /// Installs a package, unless it is already installed. Returns its directory.
    pub(crate) fn install_package(
        &self,
        name: &str,
        package: &str,
        version: &str,
    ) -> Result<PathBuf, FetchError> {
        let installed = self.directory.join(format!("{name}-{version}"));
        if installed.exists() {
            return Ok(installed);
        }
        self.look_up(package, version)?;
        eprintln!("installing {package} {version} …");
        // The directory gets its final name once it is complete.
        let partial = self.directory.join(format!("{name}-{version}.part"));
        // Some packages need an install script. Newer npm versions run a script only if it is
        // allowed by name.
        let manifest = json!({
            "private": true,
            "dependencies": { package: version },
            "allowScripts": { package: true },
        });
        let write = || {
            if partial.exists() {
                fs::remove_dir_all(&partial)?;
            }
            fs::create_dir_all(&partial)?;
            fs::write(partial.join("package.json"), manifest.to_string())
        };
        let failed = |error: std::io::Error| {
            FetchError::Failed(format!("cannot write {}: {error}", partial.display()))
        };
        write().map_err(failed)?;
        let output = self.npm_command(&partial).arg("install").output().map_err(failed)?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(FetchError::Failed(format!(
                "npm install {package}@{version} failed:\n{said}"
            )));
        }
        fs::rename(&partial, &installed).map_err(failed)?;
        Ok(installed)
    }

    fn npm_command(&self, directory: &Path) -> Command {
        let mut command = Command::new("npm");
        command.args(["--no-audit", "--no-fund", "--no-update-notifier", "--prefix"]);
        command.arg(directory).current_dir(directory);
        command
    }
}

fn bin_directory(installed: &Path) -> PathBuf {
    installed.join("node_modules").join(".bin")
}

fn node_major() -> Option<u32> {
    let output = Command::new("node").arg("--version").output().ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    version.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}
