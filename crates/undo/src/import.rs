//! Brings in the checkpoints that Hermes Agent made.
//!
//! It kept them in two ways, both below `~/.hermes/checkpoints`:
//!
//! - **Per project**, the older one: each working directory has a repository of its own, named by
//!   16 hexadecimal digits, whose file `HERMES_WORKDIR` names the directory. `HEAD` leads to the
//!   newest checkpoint, each commit to the one before. When the newer layout came, they were moved
//!   into `legacy-<date>-<time>/`.
//! - **Shared**: one repository `store` with a ref `refs/hermes/<project>` for the newest
//!   checkpoint of each project and a file `projects/<project>.json` that names its directory.
//!   At its limit it drops the oldest checkpoints by writing all others anew: the same states
//!   and reasons, but other ids and times. So a checkpoint is known again by its state and its
//!   reason, never by its id.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bstr::ByteSlice;
use takeback_tree::{
    AdoptError, Adopted, ForeignError, ForeignRepository, Late, Oid, Pin, PinError, Progress,
    Store, StoreError, Uncovered, WorkspaceId,
};

use crate::failures::chain;

/// The prefix of a shared store's refs.
const REFS: &str = "refs/hermes/";

/// The beginning of the names of directories in which older layouts are kept.
const ARCHIVE: &str = "legacy-";

/// The last second that a calendar with four digits for the year has everywhere on earth.
const LAST_SECOND: i64 = 253_402_207_200;

/// How a history is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// In a repository of its own.
    PerProject,
    /// In a repository with others.
    Shared,
}

/// A history of one project.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct History {
    /// How it is kept.
    pub layout: Layout,
    /// The repository that it is in.
    pub repository: PathBuf,
    /// The ref that leads to its newest checkpoint; `None` for `HEAD`.
    pub tip: Option<String>,
}

/// A project that has checkpoints.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Its working directory, canonical if it exists.
    pub directory: PathBuf,
    /// Its histories, oldest first: more than one if the layout changed meanwhile.
    pub histories: Vec<History>,
}

/// Something that should have been brought in and cannot be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The file or directory.
    pub path: PathBuf,
    /// What is wrong.
    pub reason: String,
}

impl Problem {
    fn new(path: &Path, reason: &dyn fmt::Display) -> Problem {
        Problem { path: path.to_owned(), reason: reason.to_string() }
    }
}

/// What was found in a directory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Survey {
    /// The projects, sorted by directory.
    pub projects: Vec<Found>,
    /// What looks like a history and cannot be read.
    pub problems: Vec<Problem>,
}

/// Looks for checkpoints in Hermes's home, its `checkpoints` directory, an archive in that, or a
/// single repository of either layout.
pub fn find(path: &Path) -> Survey {
    let mut search = Search::default();
    search.directory(path);
    let projects = search.projects.into_iter();
    let projects = projects.map(|(directory, histories)| Found { directory, histories });
    Survey { projects: projects.collect(), problems: search.problems }
}

#[derive(Default)]
struct Search {
    projects: BTreeMap<PathBuf, Vec<History>>,
    problems: Vec<Problem>,
}

impl Search {
    fn directory(&mut self, path: &Path) {
        if ForeignRepository::is_at(path) {
            return self.repository(path);
        }
        let children = match children(path) {
            Ok(children) => children,
            Err(error) => return self.problems.push(Problem::new(path, &error)),
        };
        // Histories are met from the oldest layout to the newest.
        let (archives, others): (Vec<_>, Vec<_>) =
            children.into_iter().partition(|child| is_archive(child));
        let (store, single): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|child| *child == path.join("store"));
        for archive in archives {
            match self::children(&archive) {
                Ok(inside) => self.repositories(&inside),
                Err(error) => self.problems.push(Problem::new(&archive, &error)),
            }
        }
        self.repositories(&single);
        self.repositories(&store);
        let inside = path.join("checkpoints");
        if self.projects.is_empty() && self.problems.is_empty() && inside.is_dir() {
            self.directory(&inside);
        }
    }

    fn repositories(&mut self, paths: &[PathBuf]) {
        for path in paths.iter().filter(|path| ForeignRepository::is_at(path)) {
            self.repository(path);
        }
    }

    fn repository(&mut self, path: &Path) {
        let found = ForeignRepository::open(path).and_then(|repository| {
            let is_shared = |name: &str| name.starts_with(REFS);
            let refs = repository.refs()?.into_iter().map(|found| found.name);
            Ok((refs.filter(|name| is_shared(name)).collect::<Vec<_>>(), repository))
        });
        match found {
            Err(error) => self.problems.push(Problem::new(path, &chain(&error))),
            Ok((refs, _)) if !refs.is_empty() => refs.into_iter().for_each(|name| {
                let found = project_directory(path, &name[REFS.len()..]);
                self.add(path, found, Layout::Shared, Some(name));
            }),
            // A store without a checkpoint, or with none left.
            Ok(_) if path.join("projects").is_dir() => {}
            Ok((_, repository)) => {
                let found = work_directory(&repository);
                self.add(path, found, Layout::PerProject, None);
            }
        }
    }

    fn add(
        &mut self,
        repository: &Path,
        directory: Result<PathBuf, Problem>,
        layout: Layout,
        tip: Option<String>,
    ) {
        match directory {
            Ok(directory) => {
                let directory = fs::canonicalize(&directory).unwrap_or(directory);
                let history = History { layout, repository: repository.to_owned(), tip };
                self.projects.entry(directory).or_default().push(history);
            }
            Err(problem) => self.problems.push(problem),
        }
    }
}

/// The directories in a directory, sorted.
fn children(path: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
    let mut children: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    children.retain(|child| child.is_dir());
    children.sort();
    Ok(children)
}

fn is_archive(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_bytes().starts_with(ARCHIVE.as_bytes()))
}

/// The working directory of a project in a shared store.
fn project_directory(repository: &Path, project: &str) -> Result<PathBuf, Problem> {
    #[derive(serde::Deserialize)]
    struct Metadata {
        workdir: PathBuf,
    }
    let path = repository.join("projects").join(format!("{project}.json"));
    let text = fs::read(&path).map_err(|error| Problem::new(&path, &error))?;
    let metadata: Metadata =
        serde_json::from_slice(&text).map_err(|error| Problem::new(&path, &error))?;
    absolute(&path, metadata.workdir)
}

/// The working directory that a repository is about: what Hermes noted, or else what git did.
fn work_directory(repository: &ForeignRepository) -> Result<PathBuf, Problem> {
    let path = repository.directory().join("HERMES_WORKDIR");
    match (fs::read(&path), repository.work_tree()) {
        (Ok(text), _) => {
            let text = text.strip_suffix(b"\n").unwrap_or(&text);
            absolute(&path, PathBuf::from(OsStr::from_bytes(text)))
        }
        (Err(_), Some(directory)) => absolute(&path, directory.to_owned()),
        (Err(error), None) => Err(Problem::new(&path, &error)),
    }
}

fn absolute(source: &Path, directory: PathBuf) -> Result<PathBuf, Problem> {
    match directory.is_absolute() {
        true => Ok(directory),
        false => Err(Problem::new(source, &"it does not name the working directory")),
    }
}

/// A checkpoint where it is found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// The commit.
    pub id: Oid,
    /// The state, as that repository has it.
    pub tree: Oid,
    /// When it was made, in seconds since 1970.
    pub time: i64,
    /// How far the clock was ahead of UTC, in minutes.
    pub zone: i32,
    /// Why.
    pub reason: String,
    /// Which of the project's histories it is in.
    history: usize,
}

/// A project as it was read.
pub struct Project {
    /// Its working directory, canonical if it exists.
    pub directory: PathBuf,
    /// Its checkpoints, oldest first.
    pub checkpoints: Vec<Snapshot>,
    /// What cannot be read.
    pub problems: Vec<Problem>,
    histories: Vec<Opened>,
}

/// The repository of a history.
struct Opened {
    repository: ForeignRepository,
    /// What Hermes left out of its checkpoints.
    exclude: Vec<String>,
}

/// Reads what checkpoints a project has. Their states are not looked into.
pub fn read(found: &Found) -> Project {
    let mut project = Project {
        directory: found.directory.clone(),
        checkpoints: Vec::new(),
        problems: Vec::new(),
        histories: Vec::new(),
    };
    for history in &found.histories {
        if let Err(error) = project.add(history) {
            project.problems.push(Problem::new(&history.repository, &chain(&error)));
        }
    }
    project
}

impl Project {
    fn add(&mut self, history: &History) -> Result<(), ForeignError> {
        let repository = ForeignRepository::open(&history.repository)?;
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
            let commit = match repository.commit(&id) {
                Ok(commit) => commit,
                Err(error) => {
                    let reason = format!("{error}; checkpoints before it are lost");
                    self.problems.push(Problem::new(&history.repository, &reason));
                    break;
                }
            };
            next = commit.parents.first().copied();
            self.checkpoints.push(Snapshot {
                id,
                tree: commit.tree,
                time: commit.time.clamp(0, LAST_SECOND),
                zone: commit.zone,
                reason: commit.message.trim().replace('\0', "\u{fffd}"),
                history: self.histories.len(),
            });
        }
        self.checkpoints[first..].reverse();
        let exclude = excluded(repository.directory());
        self.histories.push(Opened { repository, exclude });
        Ok(())
    }
}

/// The patterns that a repository excludes by itself.
fn excluded(repository: &Path) -> Vec<String> {
    let text = fs::read(repository.join("info/exclude")).unwrap_or_default();
    let lines = text.lines().map(|line| line.to_str_lossy().into_owned());
    lines.filter(|line| !line.trim().is_empty() && !line.starts_with('#')).collect()
}

/// A checkpoint that is brought in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Imported {
    /// The commit that it was.
    pub id: Oid,
    /// The state, as our store has it.
    pub tree: Oid,
    /// When it was made, in seconds since 1970.
    pub time: i64,
    /// How far the clock was ahead of UTC, in minutes.
    pub zone: i32,
    /// Why.
    pub reason: String,
    /// How many files and symlinks are in it.
    pub files: u64,
    /// What is known not to be in it.
    pub uncovered: Vec<Uncovered>,
    /// Patterns of what was left out of it without a word, besides ignored files, empty
    /// directories and large files: that it does not have such a file does not mean that there
    /// was none.
    pub exclude: Vec<String>,
}

/// How to bring a project in.
pub struct Options<'a> {
    /// The time.
    pub now: SystemTime,
    /// The reason in the record of a pin that was imported; `None` for any other pin.
    pub reason: &'a dyn Fn(&Pin) -> Option<String>,
    /// The message of a new pin, given its number.
    pub message: &'a mut dyn FnMut(&Imported, u64) -> String,
    /// Told how many checkpoints of how many are done.
    pub progress: Progress<'a>,
}

/// A checkpoint that could not be brought in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Skipped {
    /// Which one.
    pub snapshot: Snapshot,
    /// Why not.
    pub problem: String,
}

/// What came of an import.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The workspace at the project's directory.
    pub workspace: WorkspaceId,
    /// The new pins, oldest first.
    pub pins: Vec<Pin>,
    /// How many checkpoints were there already.
    pub known: usize,
    /// What could not be brought in.
    pub skipped: Vec<Skipped>,
}

/// A project could not be brought in.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The store does not take what it is given.
    #[error(transparent)]
    Adopt(#[from] AdoptError),
    /// The pins could not be made.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// Something is wrong with the store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Brings the checkpoints of a project in, as the older history of its workspace. What is there
/// already stays as it is; doing it twice adds nothing.
pub fn bring_in(
    store: &Store,
    project: &Project,
    options: &mut Options<'_>,
) -> Result<Outcome, ImportError> {
    let mut adoption = store.adopt()?;
    let (mut taken, mut skipped): (Vec<Imported>, Vec<Skipped>) = (Vec::new(), Vec::new());
    let total = project.checkpoints.len() as u64;
    for (done, snapshot) in (1..).zip(&project.checkpoints) {
        let history = &project.histories[snapshot.history];
        match adoption.take(&history.repository, snapshot.tree) {
            Ok(adopted) => taken.push(imported(snapshot, adopted, &history.exclude)),
            Err(AdoptError::Foreign(problem)) => {
                skipped.push(Skipped { snapshot: snapshot.clone(), problem: chain(&problem) });
            }
            Err(error) => return Err(error.into()),
        }
        (options.progress)(done, total);
    }
    let workspace = store.workspace_id(&project.directory);
    if taken.is_empty() {
        return Ok(Outcome { workspace, pins: Vec::new(), known: 0, skipped });
    }
    let lock = adoption.lock(&project.directory)?;
    let places = places(&taken, &lock.pins()?, options.reason);
    let new = || taken.iter().zip(&places).filter_map(|(new, after)| Some((new, (*after)?)));
    let late = new().map(|(new, after)| Late { after, tree: new.tree, time: new.time });
    let late: Vec<Late> = late.collect();
    let new: Vec<&Imported> = new().map(|(new, _)| new).collect();
    let mut message = |index: usize, seq| (options.message)(new[index], seq);
    let pins = lock.finish(&late, options.now, &mut message)?;
    Ok(Outcome { workspace, pins, known: taken.len() - new.len(), skipped })
}

fn imported(snapshot: &Snapshot, adopted: Adopted, exclude: &[String]) -> Imported {
    Imported {
        id: snapshot.id,
        tree: adopted.tree,
        time: snapshot.time,
        zone: snapshot.zone,
        reason: snapshot.reason.clone(),
        files: adopted.files,
        uncovered: adopted.uncovered,
        exclude: exclude.to_vec(),
    }
}

/// After which pin each checkpoint belongs; `None` for one that is there. Imported history is
/// older than all that we captured, and stays together.
fn places(
    taken: &[Imported],
    pins: &[Pin],
    reason: &dyn Fn(&Pin) -> Option<String>,
) -> Vec<Option<u64>> {
    let known: Vec<(u64, Key)> = pins
        .iter()
        .filter_map(|pin| Some((pin.name.seq, (pin.tree, subject(&reason(pin)?)))))
        .collect();
    let keys: Vec<Key> = taken.iter().map(|new| (new.tree, subject(&new.reason))).collect();
    let known_keys: Vec<&Key> = known.iter().map(|(_, key)| key).collect();
    let same = common(&keys.iter().collect::<Vec<_>>(), &known_keys);
    let number = |at: &usize| known[*at].0;
    let before_first = |first: u64| {
        let earlier = pins.iter().map(|pin| pin.name.seq).take_while(|seq| *seq < first);
        earlier.last().unwrap_or(0)
    };
    let mut after = match same.iter().flatten().next().map(number) {
        Some(first) => before_first(first),
        None => known.last().map_or(0, |(seq, _)| *seq),
    };
    same.iter()
        .map(|at| match at.as_ref().map(number) {
            Some(seq) => {
                after = seq;
                None
            }
            None => Some(after),
        })
        .collect()
}

/// What stays the same of a checkpoint however often it is written anew.
type Key = (Oid, String);

/// The first paragraph of a reason as one line: all that is left of it when it is written anew.
fn subject(reason: &str) -> String {
    let lines = reason.lines().map(str::trim_end).take_while(|line| !line.is_empty());
    let subject = lines.collect::<Vec<_>>().join(" ");
    if subject.is_empty() { "checkpoint".to_owned() } else { subject }
}

/// A longest common subsequence: for each of `new`, its place in `known`.
fn common(new: &[&Key], known: &[&Key]) -> Vec<Option<usize>> {
    // Usually all that is known is at the beginning.
    let start = new.iter().zip(known).take_while(|(a, b)| a == b).count();
    let (rest, others) = (&new[start..], &known[start..]);
    let width = others.len() + 1;
    let mut lengths = vec![0u32; (rest.len() + 1) * width];
    for row in (0..rest.len()).rev() {
        for column in (0..others.len()).rev() {
            lengths[row * width + column] = if rest[row] == others[column] {
                lengths[(row + 1) * width + column + 1] + 1
            } else {
                lengths[(row + 1) * width + column].max(lengths[row * width + column + 1])
            };
        }
    }
    let mut places: Vec<Option<usize>> = (0..start).map(Some).collect();
    let mut column = 0;
    for row in 0..rest.len() {
        let length = lengths[row * width + column];
        let without = lengths[(row + 1) * width + column];
        // It is needed for the longest one: it stands at the first place where it can.
        let place = (length > without).then(|| {
            (column..others.len()).find(|at| {
                rest[row] == others[*at] && lengths[(row + 1) * width + at + 1] + 1 == length
            })
        });
        if let Some(at) = place.flatten() {
            places.push(Some(start + at));
            column = at + 1;
        } else {
            places.push(None);
        }
    }
    places
}

/// Moves repositories of an older layout, one per project, that are directly in our directory of
/// checkpoints into an archive there, and says which. Nothing else is touched.
pub fn archive_old_layout(checkpoints: &Path, now: jiff::Timestamp) -> io::Result<Option<PathBuf>> {
    let children = match children(checkpoints) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        children => children?,
    };
    let is_old = |path: &&PathBuf| {
        path.file_name() != Some(OsStr::new("store"))
            && !is_archive(path)
            && !path.is_symlink()
            && ForeignRepository::is_at(path)
    };
    let old: Vec<&PathBuf> = children.iter().filter(is_old).collect();
    if old.is_empty() {
        return Ok(None);
    }
    let archive = create_archive(checkpoints, now)?;
    for path in old {
        let name = path.file_name().expect("it was listed by its name");
        match fs::rename(path, archive.join(name)) {
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            moved => moved?,
        }
    }
    // Whatever is in it keeps it.
    let is_empty = fs::remove_dir(&archive).is_ok();
    Ok((!is_empty).then_some(archive))
}

/// A new directory, named after the time.
fn create_archive(checkpoints: &Path, now: jiff::Timestamp) -> io::Result<PathBuf> {
    let name = format!("{ARCHIVE}{}", now.strftime("%Y%m%d-%H%M%S"));
    let more = (2..).map(|number| format!("{name}-{number}"));
    let mut builder = fs::DirBuilder::new();
    builder.mode(0o700);
    let is_free = |created: &io::Result<()>| !matches!(created, Err(error) if error.kind() == io::ErrorKind::AlreadyExists);
    std::iter::once(name.clone())
        .chain(more)
        .map(|name| checkpoints.join(name))
        .map(|path| (builder.create(&path), path))
        .find(|(created, _)| is_free(created))
        .map(|(created, path)| created.map(|()| path))
        .expect("there is always another number")
}

#[cfg(test)]
mod tests;
