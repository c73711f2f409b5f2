//! Wiring takeback into agents' configurations, and out of them again.
//!
//! First a plan: which file becomes what. Then it is carried out, file by file, each replaced as a
//! whole; what was there before is kept, and comes back byte for byte when takeback goes, unless
//! somebody changed the file meanwhile: then only what is ours goes.

mod apply;
mod entry;
mod json;
mod package;
mod record;
mod review;
mod toml;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

pub use self::package::{PackageFile, package};
pub use self::review::Review;

use self::entry::{Entry, Mark};
use self::record::Book;
use crate::files::SIGN;
use crate::spec::{AGENTS, Agent};
use crate::wiring::{Hooks, Own, Part, Program, Wiring};
use takeback_undo::merge::{Conflicts, Merged, merge};

/// What wires agents.
pub struct Installer<'a> {
    /// Takeback's own directory.
    pub own: &'a Path,
    /// The user's home directory.
    pub home: &'a Path,
    /// Variables of the environment.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// What runs takeback.
    pub program: Program,
}

/// For whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum For {
    /// For the user, wherever they work.
    User,
    /// For everybody who works in a directory.
    Project(PathBuf),
}

/// What is to become of the files of one agent.
#[derive(Debug)]
pub struct Plan {
    /// Whose they are.
    pub agent: &'static Agent,
    /// For whom.
    pub whom: For,
    /// Those that change.
    pub changes: Vec<Change>,
    /// Those that stay as they are, although something should be done about them, and why.
    pub left: Vec<(PathBuf, String)>,
}

/// What is to become of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which file.
    pub path: PathBuf,
    /// What it is; nothing if it is not there.
    pub before: Option<Vec<u8>>,
    /// What it becomes; nothing if it goes.
    pub after: Option<Vec<u8>>,
    /// What comes back when takeback goes; nothing if the file goes then.
    original: Option<Vec<u8>>,
    executable: bool,
}

/// How an agent is wired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wired {
    /// As this version would do it.
    Current,
    /// In part, or as another version or another program did it.
    Outdated,
    /// Not at all.
    Absent,
}

/// Why a plan could not be made or carried out.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The file is not what the agent would read.
    #[error("{path} cannot be understood, so it is left as it is: {reason}")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {error}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Somebody else wrote it while the plan was made.
    #[error("{0} was changed by somebody else in this moment: try again")]
    Changed(PathBuf),
}

/// Why a text could not be edited.
#[derive(Debug)]
struct Unreadable(String);

impl InstallError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> InstallError {
        move |error| InstallError::Io { path: path.to_owned(), error }
    }

    fn unreadable(path: &Path) -> impl FnOnce(Unreadable) -> InstallError {
        move |Unreadable(reason)| InstallError::Unreadable { path: path.to_owned(), reason }
    }
}

impl Installer<'_> {
    /// Where an agent's configuration is; `None` if it cannot be wired.
    pub fn directory(&self, agent: &Agent, whom: &For) -> Option<PathBuf> {
        let wiring = agent.wiring?;
        Some(match whom {
            For::Project(project) => project.join(wiring.project),
            For::User => self.user_directory(wiring),
        })
    }

    fn user_directory(&self, wiring: &Wiring) -> PathBuf {
        let named = wiring.variable.and_then(|(variable, below)| {
            let value = (self.variable)(variable).filter(|value| !value.is_empty())?;
            Some(PathBuf::from(value).join(below)).filter(|path| path.is_absolute())
        });
        named.unwrap_or_else(|| self.home.join(wiring.user))
    }

    /// Whether an agent seems to be on this machine: its program, or its configuration.
    pub fn is_found(&self, agent: &Agent) -> bool {
        let Some(wiring) = agent.wiring else { return false };
        let path = (self.variable)("PATH").unwrap_or_default();
        let is_there = |name: &&str| std::env::split_paths(&path).any(|at| at.join(name).is_file());
        wiring.programs.iter().any(is_there)
            || self.user_directory(wiring).components().count() > 1
                && self.user_directory(wiring).is_dir()
    }

    /// How an agent is wired.
    pub fn wired(&self, agent: &'static Agent, whom: &For) -> Result<Wired, InstallError> {
        let plan = self.plan_install(agent, whom)?;
        if plan.changes.is_empty() && plan.left.is_empty() {
            return Ok(Wired::Current);
        }
        let out = self.plan_uninstall(agent, whom)?;
        let is_absent = out.changes.is_empty() && out.left.is_empty();
        Ok(if is_absent { Wired::Absent } else { Wired::Outdated })
    }

    /// What has to be done to wire an agent.
    pub fn plan_install(&self, agent: &'static Agent, whom: &For) -> Result<Plan, InstallError> {
        let mut plan = Plan::new(agent, whom);
        let (Some(wiring), Some(directory)) = (agent.wiring, self.directory(agent, whom)) else {
            return Ok(plan);
        };
        let book = self.book()?;
        for part in wiring.parts {
            match part {
                Part::Hooks(hooks) => {
                    let path = path_of(hooks, &directory)?;
                    let text = read_text(&path)?;
                    let entries = entry::entries(agent, hooks, &self.program);
                    let after = edited(&path, text.as_deref(), &entries, &self.mark(agent))?;
                    let original = self.original(&book, agent, &path, text.as_deref())?;
                    plan.add(path, text, after, original, false);
                    self.plan_other(&mut plan, &book, hooks, &directory);
                }
                Part::Own(own) => {
                    let path = directory.join(own.file);
                    let text = read_text(&path)?;
                    let after = (own.content)(&self.program);
                    let kept = book.kept(&path);
                    let stays = text.as_deref().and_then(|text| {
                        if text == after {
                            None
                        } else if !is_ours(text, agent) {
                            Some("there is one of yours, which stays")
                        } else if kept.is_some_and(|kept| !kept.is_as_written(text.as_bytes())) {
                            Some("you changed it, so it stays")
                        } else {
                            None
                        }
                    });
                    if let Some(why) = stays {
                        plan.left.push((path, why.to_owned()));
                    } else {
                        let original = own_original(&book, &path, text.as_deref())?;
                        plan.add(path, text, after, original, own.executable);
                    }
                }
            }
        }
        Ok(plan)
    }

    /// What has to be done to remove takeback from an agent's configuration.
    pub fn plan_uninstall(&self, agent: &'static Agent, whom: &For) -> Result<Plan, InstallError> {
        let mut plan = Plan::new(agent, whom);
        let (Some(wiring), Some(directory)) = (agent.wiring, self.directory(agent, whom)) else {
            return Ok(plan);
        };
        let book = self.book()?;
        for part in wiring.parts {
            let (files, whose) = match part {
                Part::Hooks(Hooks { file, toml, .. }) => (vec![Some(*file), *toml], Whose::Theirs),
                Part::Own(own) => (vec![Some(own.file)], Whose::Ours(own)),
            };
            for file in files.into_iter().flatten() {
                self.plan_removal_or_leave(&mut plan, &book, directory.join(file), whose)?;
            }
        }
        // What another version wrote elsewhere.
        for path in book.of(agent.name, whom.project()) {
            if !plan.names(&path) {
                self.plan_removal_or_leave(&mut plan, &book, path, Whose::Unknown)?;
            }
        }
        Ok(plan)
    }

    /// Hooks are in one of two files. What is in the other one would run as well.
    fn plan_other(&self, plan: &mut Plan, book: &Book, hooks: &Hooks, directory: &Path) {
        let files = [Some(hooks.file), hooks.toml].into_iter().flatten();
        for path in files.map(|file| directory.join(file)) {
            if !path_of(hooks, directory).is_ok_and(|chosen| chosen == path) {
                // What cannot be understood is not read by the agent either.
                let _ = self.plan_removal(plan, book, path, Whose::Theirs);
            }
        }
    }

    /// A file that cannot be understood keeps no other one from going.
    fn plan_removal_or_leave(
        &self,
        plan: &mut Plan,
        book: &Book,
        path: PathBuf,
        whose: Whose<'_>,
    ) -> Result<(), InstallError> {
        match self.plan_removal(plan, book, path, whose) {
            Err(InstallError::Unreadable { path, reason }) => {
                if book.kept(&path).is_some() || mentions_us(&path) {
                    let why = format!("cannot be understood, so it is left as it is: {reason}");
                    plan.left.push((path, why));
                }
                Ok(())
            }
            planned => planned,
        }
    }

    fn plan_removal(
        &self,
        plan: &mut Plan,
        book: &Book,
        path: PathBuf,
        whose: Whose<'_>,
    ) -> Result<(), InstallError> {
        let Some(text) = read_text(&path)? else { return Ok(()) };
        let kept = book.kept(&path);
        let is_as_written = kept.is_some_and(|kept| kept.is_as_written(text.as_bytes()));
        let is_own_file = match whose {
            Whose::Theirs => false,
            Whose::Ours(_) => true,
            Whose::Unknown => is_signed(&text),
        };
        let after = if let Some(kept) = kept.filter(|_| is_as_written) {
            match &kept.original {
                Some(original) => Some(book.copy(original).map_err(InstallError::io(&path))?),
                None => None,
            }
        } else if is_own_file {
            let is_as_now =
                matches!(whose, Whose::Ours(own) if (own.content)(&self.program) == text);
            if !is_as_now {
                if is_ours(&text, plan.agent) {
                    let why = "you changed it, so it stays: remove it yourself".to_owned();
                    plan.left.push((path, why));
                }
                return Ok(());
            }
            None
        } else {
            let Some(without) = without_ours(&path, &text, &self.mark(plan.agent), book)? else {
                return Ok(());
            };
            let is_made = kept.is_some_and(|kept| kept.original.is_none());
            let is_nothing = is_made && is_blank(&without);
            (!is_nothing).then(|| without.into_bytes())
        };
        plan.changes.push(Change {
            path,
            before: Some(text.into_bytes()),
            original: after.clone(),
            after,
            executable: false,
        });
        Ok(())
    }

    fn mark(&self, agent: &Agent) -> Mark<'_> {
        Mark { agent: agent.name, program: self.program.name() }
    }

    /// What comes back of a file of the user's.
    fn original(
        &self,
        book: &Book,
        agent: &Agent,
        path: &Path,
        text: Option<&str>,
    ) -> Result<Option<Vec<u8>>, InstallError> {
        let Some(text) = text else { return Ok(None) };
        if let Some(original) = written_over(book, path, text)? {
            return Ok(original);
        }
        // Somebody changed it since. What is theirs is what is left without us.
        let without = without_ours(path, text, &self.mark(agent), book)?;
        Ok(Some(without.unwrap_or_else(|| text.to_owned()).into_bytes()))
    }

    /// Everything that was ever wired and is not removed yet.
    pub fn installed(&self) -> Result<Vec<(&'static Agent, For)>, InstallError> {
        let book = self.book()?;
        let mut found: Vec<(&'static Agent, For)> = Vec::new();
        for (_, kept) in book.all() {
            let Some(agent) = AGENTS.iter().find(|agent| agent.name == kept.agent) else {
                continue;
            };
            let whom = kept.project.clone().map_or(For::User, For::Project);
            if !found.iter().any(|(other, by)| other.name == agent.name && *by == whom) {
                found.push((agent, whom));
            }
        }
        Ok(found)
    }

    fn record_directory(&self) -> PathBuf {
        self.own.join("installed")
    }

    fn book(&self) -> Result<Book, InstallError> {
        let directory = self.record_directory();
        Book::open(&directory).map_err(InstallError::io(&directory.join("record.json")))
    }
}

impl For {
    fn project(&self) -> Option<&Path> {
        match self {
            For::User => None,
            For::Project(project) => Some(project),
        }
    }
}

impl Plan {
    fn names(&self, path: &Path) -> bool {
        let mut changes = self.changes.iter().map(|change| &change.path);
        changes.any(|other| other == path) || self.left.iter().any(|(other, _)| other == path)
    }

    fn new(agent: &'static Agent, whom: &For) -> Plan {
        Plan { agent, whom: whom.clone(), changes: Vec::new(), left: Vec::new() }
    }

    /// A file that is to become this, unless it is that already.
    fn add(
        &mut self,
        path: PathBuf,
        before: Option<String>,
        after: String,
        original: Option<Vec<u8>>,
        executable: bool,
    ) {
        if before.as_ref() != Some(&after) {
            let (before, after) = (before.map(String::into_bytes), Some(after.into_bytes()));
            self.changes.push(Change { path, before, after, original, executable });
        }
    }
}

impl Change {
    /// Whether nothing of ours is left in the file.
    fn is_removal(&self) -> bool {
        self.after == self.original
    }
}

/// Whose a file is.
#[derive(Clone, Copy)]
enum Whose<'a> {
    /// The user's, with entries of ours.
    Theirs,
    /// Ours.
    Ours(&'a Own),
    /// Only the record knows it.
    Unknown,
}

/// What comes back in the place of a file of our own.
fn own_original(
    book: &Book,
    path: &Path,
    text: Option<&str>,
) -> Result<Option<Vec<u8>>, InstallError> {
    let Some(text) = text else { return Ok(None) };
    match written_over(book, path, text)? {
        Some(original) => Ok(original),
        None => Ok((!is_signed(text)).then(|| text.as_bytes().to_vec())),
    }
}

/// What was there before, if the file is as it was written.
fn written_over(
    book: &Book,
    path: &Path,
    text: &str,
) -> Result<Option<Option<Vec<u8>>>, InstallError> {
    let kept = book.kept(path).filter(|kept| kept.is_as_written(text.as_bytes()));
    let Some(kept) = kept else { return Ok(None) };
    let original = kept.original.as_deref().map(|original| book.copy(original));
    Ok(Some(original.transpose().map_err(InstallError::io(path))?))
}

/// A text of the user's without entries of ours; nothing if there are none.
fn without_ours(
    path: &Path,
    text: &str,
    mark: &Mark<'_>,
    book: &Book,
) -> Result<Option<String>, InstallError> {
    let without = match is_toml(path) {
        true => toml::remove(text, mark),
        false => json::remove(text, mark),
    };
    let Some(without) = without.map_err(InstallError::unreadable(path))? else { return Ok(None) };
    // Spaces come back too if what the user changed and what we wrote are on different lines.
    let merged = book.kept(path).and_then(|kept| {
        let written = book.copy(&kept.written).ok()?;
        let original = book.copy(kept.original.as_ref()?).ok()?;
        match merge(&written, &original, text.as_bytes(), Conflicts::Report) {
            Merged::Clean(merged) => String::from_utf8(merged).ok(),
            _ => None,
        }
    });
    let is_same = if is_toml(path) { toml::is_same } else { json::is_same };
    let merged = merged.filter(|merged| is_same(merged, &without));
    Ok(Some(merged.unwrap_or(without)))
}

/// The file that the hooks go to.
fn path_of(hooks: &Hooks, directory: &Path) -> Result<PathBuf, InstallError> {
    let path = directory.join(hooks.file);
    let Some(toml) = hooks.toml.map(|toml| directory.join(toml)) else { return Ok(path) };
    let has_hooks = !path.exists() && read_text(&toml)?.is_some_and(|text| toml::has_hooks(&text));
    Ok(if has_hooks { toml } else { path })
}

fn edited(
    path: &Path,
    text: Option<&str>,
    entries: &[Entry],
    mark: &Mark<'_>,
) -> Result<String, InstallError> {
    let text = text.unwrap_or_default();
    let edited =
        if is_toml(path) { toml::add(text, entries, mark) } else { json::add(text, entries, mark) };
    edited.map_err(InstallError::unreadable(path))
}

fn read_text(path: &Path) -> Result<Option<String>, InstallError> {
    // Reading a pipe would never end, and replacing a device would be its end.
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        let reason = "it is not a regular file".into();
        return Err(InstallError::Unreadable { path: path.to_owned(), reason });
    }
    match fs::read(path) {
        Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| InstallError::Unreadable {
            path: path.to_owned(),
            reason: "it is not UTF-8".into(),
        }),
        Err(error) if error.kind() == ErrorKind::NotFound && !path.is_symlink() => Ok(None),
        Err(error) => Err(InstallError::io(path)(error)),
    }
}

fn mentions_us(path: &Path) -> bool {
    let name = b"takeback";
    let is_file = fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    is_file && fs::read(path).is_ok_and(|text| text.windows(name.len()).any(|at| at == name))
}

fn is_toml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "toml")
}

/// Whether nothing is in it but what has to be.
fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
        || matches!(text.split_whitespace().collect::<String>().as_str(), "{}" | r#"{"version":1}"#)
}

/// Whether a whole file is ours.
fn is_ours(text: &str, agent: &Agent) -> bool {
    is_signed(text) || text.contains("takeback") && text.contains(&format!(" hook {} ", agent.name))
}

fn is_signed(text: &str) -> bool {
    text.contains(SIGN)
}
