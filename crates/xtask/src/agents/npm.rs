//! Agents from the npm registry, kept in a cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::programs::Program;
use crate::Failure;
use crate::run::repository;

/// What some of them need, and a Node of their own is had from the package `node`.
const NODE: (&str, &str) = ("node", "22.23.3");
const NODE_MAJOR: u32 = 22;

/// Where they are kept, and how they are run.
pub(crate) struct Cache {
    directory: PathBuf,
    /// A Node that is new enough for all of them, if that of this machine is not.
    node: Option<PathBuf>,
}

/// Why there is none.
pub(crate) enum Miss {
    /// It cannot be had here and now, and this is why.
    Absent(&'static str),
    Failed(Failure),
}

impl Cache {
    pub(crate) fn new() -> Result<Cache, Failure> {
        let directory = repository().join("target").join("agents");
        fs::create_dir_all(&directory)
            .map_err(|error| format!("cannot create {}: {error}", directory.display()))?;
        Ok(Cache { directory, node: None }.with_node())
    }

    /// If Node cannot be had, whoever needs it will say so.
    fn with_node(mut self) -> Cache {
        if node_major().is_none_or(|major| major < NODE_MAJOR)
            && let Ok(installed) = self.install("node", NODE.0, NODE.1)
        {
            self.node = Some(installed);
        }
        self
    }

    /// Where scratch files may be.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// What an agent's PATH has to be.
    pub(crate) fn path(&self, installed: &Path) -> String {
        let own = std::env::var("PATH").unwrap_or_default();
        let directories = self.node.as_deref().into_iter().chain([installed]);
        let directories = directories.map(|directory| bin(directory).display().to_string());
        directories.chain([own]).collect::<Vec<_>>().join(":")
    }

    /// The version of an agent that is wanted, and where it is.
    pub(crate) fn get(
        &self,
        program: &Program,
        is_latest: bool,
    ) -> Result<(String, PathBuf), Miss> {
        let version = match is_latest {
            true => self.look_up(program.package, "latest")?,
            false => program.version.to_owned(),
        };
        let installed = self.install(program.name, program.package, &version)?;
        Ok((version, installed))
    }

    /// The number of a version. npm tries again for minutes to install from a registry that is not
    /// there, so it is asked this first.
    fn look_up(&self, package: &str, version: &str) -> Result<String, Miss> {
        let mut npm = self.npm(&self.directory);
        npm.args(["--fetch-retries=0", "--fetch-timeout=15000"]);
        let output = npm.args(["view", &format!("{package}@{version}"), "version"]).output();
        let output = output.map_err(|_| Miss::Absent("npm is not installed"))?;
        let number = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let is_answered =
            output.status.success() || String::from_utf8_lossy(&output.stderr).contains("E404");
        match is_answered {
            true if number.is_empty() => {
                Err(Miss::Failed(format!("there is no {package} {version} in the registry")))
            }
            true => Ok(number),
            false => Err(Miss::Absent("the npm registry cannot be reached")),
        }
    }

    fn install(&self, name: &str, package: &str, version: &str) -> Result<PathBuf, Miss> {
        let installed = self.directory.join(format!("{name}-{version}"));
        if installed.exists() {
            return Ok(installed);
        }
        self.look_up(package, version)?;
        eprintln!("installing {package} {version} …");
        // It gets its name when it is complete.
        let partial = self.directory.join(format!("{name}-{version}.part"));
        // Some programs are put together by a script, which newer versions of npm run only if it is
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
            Miss::Failed(format!("cannot write {}: {error}", partial.display()))
        };
        write().map_err(failed)?;
        let output = self.npm(&partial).arg("install").output().map_err(failed)?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(Miss::Failed(format!("npm install {package}@{version} failed:\n{said}")));
        }
        fs::rename(&partial, &installed).map_err(failed)?;
        Ok(installed)
    }

    fn npm(&self, directory: &Path) -> Command {
        let mut command = Command::new("npm");
        command.args(["--no-audit", "--no-fund", "--no-update-notifier", "--prefix"]);
        command.arg(directory).current_dir(directory);
        command
    }
}

fn bin(installed: &Path) -> PathBuf {
    installed.join("node_modules").join(".bin")
}

fn node_major() -> Option<u32> {
    let output = Command::new("node").arg("--version").output().ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    version.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}
