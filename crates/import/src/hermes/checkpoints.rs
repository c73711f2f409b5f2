//! Hermes Agent's checkpoints.
//!
//! Hermes has stored checkpoints in two ways, both below `~/.hermes/checkpoints`:
//!
//! - **Per project**, the older layout: each working directory has its own repository, whose name
//!   is 16 hexadecimal digits. The file `HERMES_WORKDIR` in the repository names the directory.
//!   `HEAD` is the newest checkpoint, and the parent of each commit is the checkpoint before it.
//!   When Hermes switched to the newer layout, it moved these repositories into
//!   `legacy-<date>-<time>/`.
//! - **Shared**: one repository `store` has a ref `refs/hermes/<project>` for the newest checkpoint
//!   of each project and a file `projects/<project>.json` that names its directory. When Hermes
//!   reaches its limit, it drops the oldest checkpoints by rewriting all others: their trees and
//!   reasons stay the same, but their ids and times change.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use bstr::ByteSlice;
use serde::{Deserialize, Serialize};
use takeback_base::durable::if_exists;
use takeback_base::errors::error_chain;
use takeback_base::{foreign, paths};
use takeback_ledger::Time;
use takeback_tree::{AnyPath, ForeignError, ForeignRepository, Oid, Progress, Store};

use crate::older_history::{ForeignCheckpoint, ImportError, OlderHistory, add_older_history};

/// The prefix of a shared store's refs.
const REFS: &str = "refs/hermes/";

/// The prefix of the names of directories that hold repositories in the older layout.
const ARCHIVE: &str = "legacy-";

/// The maximum size of a file that names a working directory.
const MAX_NAMING: u64 = 64 << 10;

/// The maximum length of a path, as on Linux.
const MAX_PATH: usize = 4_096;

/// The maximum number of checkpoints in a history. If there are more, only the newest are imported.
const MAX_CHECKPOINTS: usize = 5_000;

/// The maximum size of the exclude patterns. Every checkpoint keeps a copy of them.
const MAX_EXCLUDE: u64 = 16 << 10;

/// The maximum number of exclude patterns.
const MAX_PATTERNS: usize = 500;

/// The last second at which the year has four digits in every time zone.
const LAST_SECOND: i64 = 253_402_207_200;

/// The result of importing everything that was found at one path.
#[derive(Debug, Default, Serialize)]
pub struct CheckpointReport {
    /// The projects that have checkpoints, sorted by directory.
    pub projects: Vec<ImportedProject>,
    /// The files and directories that could not be read, each with the reason.
    pub problems: Vec<String>,
}

/// The result of importing the checkpoints of one project.
#[derive(Debug, Serialize)]
pub struct ImportedProject {
    /// The working directory of the project.
    pub path: AnyPath,
    /// The number of checkpoints that are new in the store.
    pub checkpoints: usize,
    /// The number of checkpoints that the store already had.
    pub known: usize,
    /// The checkpoints that could not be imported, each with the reason.
    pub skipped: Vec<String>,
}

/// Imports all Hermes checkpoints found at `path`; see [`find_projects`]. Importing twice adds
/// nothing.
pub fn import_checkpoints(
    store: &Store,
    path: &Path,
    now: Time,
    progress: Progress<'_>,
) -> Result<CheckpointReport, ImportError> {
    let survey = find_projects(path);
    let mut report = CheckpointReport::default();
    report.problems.extend(survey.problems.iter().map(ToString::to_string));
    for found in &survey.projects {
        let project = read_project(found);
        report.problems.extend(project.problems.iter().map(ToString::to_string));
        let added = import_project(store, &project, now, progress)?;
        let skipped = added.skipped.iter();
        report.projects.push(ImportedProject {
            path: AnyPath(project.directory),
            checkpoints: added.pins.len(),
            known: added.known,
            skipped: skipped
                .map(|skipped| format!("{}: {}", skipped.id, skipped.problem))
                .collect(),
        });
    }
    Ok(report)
}

/// The projects that were found at a path.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProjectSurvey {
    /// The projects that have checkpoints, sorted by directory.
    pub projects: Vec<ProjectHistories>,
    /// The files and directories that look like a history but cannot be read.
    pub problems: Vec<ReadProblem>,
}

/// The repositories in which one project has checkpoints.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProjectHistories {
    /// The working directory of the project. The path is canonical if the directory exists.
    pub directory: PathBuf,
    /// The histories, oldest first. There are several if Hermes has changed its layout.
    pub histories: Vec<RepositoryHistory>,
}

/// A chain of checkpoints in one repository.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RepositoryHistory {
    /// The repository that has the checkpoints.
    pub repository: PathBuf,
    /// The ref of the newest checkpoint in a shared repository; `None` if it is `HEAD`.
    pub tip: Option<String>,
}

/// A file or directory that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct ReadProblem {
    pub path: PathBuf,
    pub reason: String,
}

impl ReadProblem {
    fn new(path: &Path, reason: &dyn fmt::Display) -> ReadProblem {
        ReadProblem { path: path.to_owned(), reason: reason.to_string() }
    }
}

impl fmt::Display for ReadProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

/// Looks for checkpoints in Hermes's home, its `checkpoints` directory, an archive in that
/// directory, or a single repository of either layout.
pub fn find_projects(path: &Path) -> ProjectSurvey {
    let mut search = Search::default();
    search.visit_directory(path);
    let projects = search.projects.into_iter();
    let projects = projects.map(|(directory, histories)| ProjectHistories { directory, histories });
    ProjectSurvey { projects: projects.collect(), problems: search.problems }
}

#[derive(Default)]
struct Search {
    projects: BTreeMap<PathBuf, Vec<RepositoryHistory>>,
    problems: Vec<ReadProblem>,
}

impl Search {
    /// Visits a repository, or all repositories in a directory, from the oldest layout to the
    /// newest.
    fn visit_directory(&mut self, path: &Path) {
        if ForeignRepository::is_at(path) {
            return self.visit_repository(path);
        }
        let children = match list_directories(path) {
            Ok(children) => children,
            Err(error) => return self.problems.push(ReadProblem::new(path, &error)),
        };
        let (archives, others): (Vec<_>, Vec<_>) =
            children.into_iter().partition(|child| is_archive(child));
        let (shared, per_project): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|child| *child == path.join("store"));
        for archive in archives {
            match list_directories(&archive) {
                Ok(inside) => self.visit_repositories(&inside),
                Err(error) => self.problems.push(ReadProblem::new(&archive, &error)),
            }
        }
        self.visit_repositories(&per_project);
        self.visit_repositories(&shared);
        let inside = path.join("checkpoints");
        if self.projects.is_empty() && self.problems.is_empty() && inside.is_dir() {
            self.visit_directory(&inside);
        }
    }

    fn visit_repositories(&mut self, paths: &[PathBuf]) {
        for path in paths.iter().filter(|path| ForeignRepository::is_at(path)) {
            self.visit_repository(path);
        }
    }

    fn visit_repository(&mut self, path: &Path) {
        let opened = ForeignRepository::open(path).and_then(|repository| {
            let names = repository.refs()?.into_iter().map(|found| found.name);
            Ok((names.filter(|name| name.starts_with(REFS)).collect::<Vec<_>>(), repository))
        });
        match opened {
            Err(error) => self.problems.push(ReadProblem::new(path, &error_chain(&error))),
            Ok((names, _)) if !names.is_empty() => names.into_iter().for_each(|name| {
                let directory = read_project_directory(path, &name[REFS.len()..]);
                self.add_history(path, directory, Some(name));
            }),
            // A shared store without checkpoints.
            Ok(_) if path.join("projects").is_dir() => {}
            Ok((_, repository)) => {
                self.add_history(path, read_work_directory(&repository), None);
            }
        }
    }

    fn add_history(
        &mut self,
        repository: &Path,
        directory: Result<PathBuf, ReadProblem>,
        tip: Option<String>,
    ) {
        match directory {
            Ok(directory) => {
                let directory = paths::canonicalize_or_keep(&directory);
                let history = RepositoryHistory { repository: repository.to_owned(), tip };
                self.projects.entry(directory).or_default().push(history);
            }
            Err(problem) => self.problems.push(problem),
        }
    }
}

/// Lists the subdirectories of a directory, sorted.
fn list_directories(path: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
    let mut children: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    children.retain(|child| child.is_dir());
    children.sort();
    Ok(children)
}

fn is_archive(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_bytes().starts_with(ARCHIVE.as_bytes()))
}

/// Reads the working directory of a project in a shared store.
fn read_project_directory(repository: &Path, project: &str) -> Result<PathBuf, ReadProblem> {
    #[derive(Deserialize)]
    struct Metadata {
        workdir: PathBuf,
    }
    let path = repository.join("projects").join(format!("{project}.json"));
    let text = foreign::read_regular(&path, MAX_NAMING)
        .map_err(|error| ReadProblem::new(&path, &error))?;
    let metadata: Metadata =
        serde_json::from_slice(&text).map_err(|error| ReadProblem::new(&path, &error))?;
    require_absolute(&path, metadata.workdir)
}

/// Reads the working directory of a per-project repository: from Hermes's file, or else from git's
/// configuration.
fn read_work_directory(repository: &ForeignRepository) -> Result<PathBuf, ReadProblem> {
    let path = repository.directory().join("HERMES_WORKDIR");
    match (foreign::read_regular(&path, MAX_NAMING), repository.work_tree()) {
        (Ok(text), _) => {
            let text = text.strip_suffix(b"\n").unwrap_or(&text);
            require_absolute(&path, paths::from_bytes(text).to_owned())
        }
        (Err(_), Some(directory)) => require_absolute(&path, directory.to_owned()),
        (Err(error), None) => Err(ReadProblem::new(&path, &error)),
    }
}

fn require_absolute(source: &Path, directory: PathBuf) -> Result<PathBuf, ReadProblem> {
    match directory.is_absolute() && directory.as_os_str().len() <= MAX_PATH {
        true => Ok(directory),
        false => Err(ReadProblem::new(source, &"names no working directory")),
    }
}

/// A project and its checkpoints.
pub struct HermesProject {
    /// The working directory. The path is canonical if the directory exists.
    pub directory: PathBuf,
    /// The checkpoints, oldest first.
    pub checkpoints: Vec<HermesCheckpoint>,
    /// The histories, or parts of them, that cannot be read.
    pub problems: Vec<ReadProblem>,
    repositories: Vec<Repository>,
}

/// A Hermes checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HermesCheckpoint {
    /// The id of the commit.
    pub id: Oid,
    /// The tree of the commit.
    pub tree: Oid,
    /// The time of the checkpoint, in seconds since 1970.
    pub time: i64,
    /// The commit message, which may be empty.
    pub reason: String,
    /// The index of the checkpoint's repository in the project's list of repositories.
    repository: usize,
}

struct Repository {
    opened: ForeignRepository,
    /// Patterns for files that Hermes left out of its checkpoints.
    exclude: Vec<String>,
}

/// Lists the checkpoints of a project, without reading their trees.
pub fn read_project(found: &ProjectHistories) -> HermesProject {
    let mut project = HermesProject {
        directory: found.directory.clone(),
        checkpoints: Vec::new(),
        problems: Vec::new(),
        repositories: Vec::new(),
    };
    for history in &found.histories {
        if let Err(error) = project.read_history(history) {
            project.problems.push(ReadProblem::new(&history.repository, &error_chain(&error)));
        }
    }
    project
}

/// Imports the checkpoints of a project as the older history of its workspace. Importing twice adds
/// nothing.
pub fn import_project(
    store: &Store,
    project: &HermesProject,
    now: Time,
    progress: Progress<'_>,
) -> Result<OlderHistory, ImportError> {
    let checkpoints: Vec<ForeignCheckpoint<'_>> = project
        .checkpoints
        .iter()
        .map(|checkpoint| {
            let Repository { opened, exclude } = &project.repositories[checkpoint.repository];
            ForeignCheckpoint {
                repository: opened,
                id: checkpoint.id,
                tree: checkpoint.tree,
                time: checkpoint.time,
                reason: &checkpoint.reason,
                exclude,
            }
        })
        .collect();
    add_older_history(store, &project.directory, &checkpoints, now, progress)
}

impl HermesProject {
    fn read_history(&mut self, history: &RepositoryHistory) -> Result<(), ForeignError> {
        let repository = ForeignRepository::open(&history.repository)?;
        // Without these patterns, a rollback would delete files that Hermes left out.
        let exclude = match read_exclude(repository.directory()) {
            Ok(exclude) => exclude,
            Err(problem) => {
                self.problems.push(problem);
                return Ok(());
            }
        };
        let mut next = match &history.tip {
            None => repository.head()?,
            Some(name) => repository
                .refs()?
                .into_iter()
                .find(|found| found.name == *name)
                .and_then(|found| found.id),
        };
        let first = self.checkpoints.len();
        while let Some(id) = next {
            if self.checkpoints.len() - first == MAX_CHECKPOINTS {
                let reason = format!(
                    "has more than {MAX_CHECKPOINTS} checkpoints; only the newest are imported"
                );
                self.problems.push(ReadProblem::new(&history.repository, &reason));
                break;
            }
            let commit = match repository.commit(&id) {
                Ok(commit) => commit,
                Err(error) => {
                    let reason = format!("{error}; the checkpoints before it cannot be found");
                    self.problems.push(ReadProblem::new(&history.repository, &reason));
                    break;
                }
            };
            next = commit.parents.first().copied();
            self.checkpoints.push(HermesCheckpoint {
                id,
                tree: commit.tree,
                time: commit.time.clamp(0, LAST_SECOND),
                reason: commit.message.trim().replace('\0', "\u{fffd}"),
                repository: self.repositories.len(),
            });
        }
        self.checkpoints[first..].reverse();
        self.repositories.push(Repository { opened: repository, exclude });
        Ok(())
    }
}

/// Reads the exclude patterns of a repository.
fn read_exclude(repository: &Path) -> Result<Vec<String>, ReadProblem> {
    let path = repository.join("info/exclude");
    let text = if_exists(foreign::read_regular(&path, MAX_EXCLUDE))
        .map_err(|error| ReadProblem::new(&path, &error))?
        .unwrap_or_default();
    let lines = text.lines().map(|line| line.to_str_lossy().into_owned());
    let patterns: Vec<String> =
        lines.filter(|line| !line.trim().is_empty() && !line.starts_with('#')).collect();
    match patterns.len() <= MAX_PATTERNS {
        true => Ok(patterns),
        false => Err(ReadProblem::new(&path, &format!("has more than {MAX_PATTERNS} patterns"))),
    }
}
