//! Which files become what.

use std::path::{Path, PathBuf};

use takeback_undo::merge::{Conflicts, Merged, merge};

use super::entry::{Entry, Mark, entries};
use super::record::{Book, digest};
use super::{Change, For, InstallError, Installer, Plan, Wired, is_toml, json, read_text, toml};
use crate::files::{self, Owner};
use crate::spec::Agent;
use crate::wiring::{Hooks, Part};

const CHANGED: &str = "you changed it, so it stays as it is";
const TAKEN: &str = "you have a file of that name, so takeback's is not there";

impl Installer<'_> {
    /// How an agent is wired.
    pub fn wired(&self, agent: &'static Agent, whom: &For) -> Result<Wired, InstallError> {
        let (to_do, out) = (self.plan_install(agent, whom)?, self.plan_uninstall(agent, whom)?);
        let is_absent = out.changes.is_empty() && out.left.is_empty();
        Ok(match (to_do.changes.is_empty(), to_do.left.is_empty()) {
            (true, true) => Wired::Current,
            _ if is_absent => Wired::Absent,
            (true, false) => Wired::Partly,
            (false, _) => Wired::Outdated,
        })
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
                    let entries = entries(agent, hooks, &self.program);
                    let after = edited(&path, text.as_deref(), &entries, agent)?;
                    for other in paths_of(hooks, &directory).filter(|other| *other != path) {
                        // Hooks in both would run twice.
                        plan.remove(&book, other, false)?;
                    }
                    plan.write(&book, path, text, after, false)?;
                }
                Part::Own(own) => {
                    let path = directory.join(own.file);
                    let text = read_text(&path)?;
                    match text.as_deref().map(files::owner) {
                        None | Some(Owner::Takeback) => {
                            let after = files::sealed(&(own.content)(&self.program));
                            plan.write(&book, path, text, after, own.executable)?;
                        }
                        Some(Owner::Both) => plan.left.push((path, CHANGED)),
                        Some(Owner::User) => plan.left.push((path, TAKEN)),
                    }
                }
            }
        }
        plan.forgotten.clear();
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
            match part {
                Part::Hooks(hooks) => {
                    for path in paths_of(hooks, &directory) {
                        plan.remove(&book, path, false)?;
                    }
                }
                Part::Own(own) => plan.remove(&book, directory.join(own.file), true)?,
            }
        }
        // What another version wrote elsewhere.
        for (path, kept) in book.all() {
            let is_theirs = kept.agent == agent.name && kept.project.as_deref() == whom.project();
            if is_theirs && !plan.names(path) {
                let is_own = !is_toml(path) && path.extension().is_none_or(|kind| kind != "json");
                plan.remove(&book, path.clone(), is_own)?;
            }
        }
        Ok(plan)
    }
}

impl Plan {
    fn new(agent: &'static Agent, whom: &For) -> Plan {
        let (changes, left, forgotten) = (Vec::new(), Vec::new(), Vec::new());
        Plan { agent, whom: whom.clone(), changes, left, forgotten }
    }

    fn names(&self, path: &Path) -> bool {
        let changed = self.changes.iter().map(|change| &change.path);
        let left = self.left.iter().map(|(path, _)| path);
        changed.chain(left).chain(&self.forgotten).any(|named| named == path)
    }

    /// A file that is to become this, unless it is that already.
    fn write(
        &mut self,
        book: &Book,
        path: PathBuf,
        before: Option<String>,
        after: String,
        executable: bool,
    ) -> Result<(), InstallError> {
        if before.as_ref() == Some(&after) {
            return Ok(());
        }
        let original = match &before {
            None => None,
            Some(text) if is_as_written(book, &path, text) => original(book, &path)?,
            Some(text) if files::owner(text) == Owner::Takeback => None,
            // What is the user's is what is left without us.
            Some(text) => {
                let without = without_ours(&path, text, self.agent, book)?;
                Some(without.unwrap_or_else(|| text.clone()).into_bytes())
            }
        };
        let (before, after) = (before.map(String::into_bytes), Some(after.into_bytes()));
        self.changes.push(Change { path, before, after, original, executable });
        Ok(())
    }

    /// A file in which nothing of ours is to be left. `is_own`: it may be ours as a whole, and
    /// otherwise is none of our business.
    fn remove(&mut self, book: &Book, path: PathBuf, is_own: bool) -> Result<(), InstallError> {
        let text = read_text(&path)?;
        match removal(self.agent, book, &path, text.as_deref(), is_own)? {
            Removal::To(after) => {
                let (before, original) = (text.map(String::into_bytes), after.clone());
                self.changes.push(Change { path, before, after, original, executable: false });
            }
            Removal::Left => self.left.push((path, CHANGED)),
            Removal::Nothing if book.kept(&path).is_some() => self.forgotten.push(path),
            Removal::Nothing => {}
        }
        Ok(())
    }
}

/// What becomes of a file when takeback goes.
enum Removal {
    /// This, or it goes.
    To(Option<Vec<u8>>),
    /// It is ours, but the user changed it.
    Left,
    /// Nothing is ours in it.
    Nothing,
}

fn removal(
    agent: &Agent,
    book: &Book,
    path: &Path,
    text: Option<&str>,
    is_own: bool,
) -> Result<Removal, InstallError> {
    let Some(text) = text else { return Ok(Removal::Nothing) };
    if is_as_written(book, path, text) {
        return Ok(Removal::To(original(book, path)?));
    }
    match files::owner(text) {
        Owner::Takeback => return Ok(Removal::To(None)),
        Owner::Both => return Ok(Removal::Left),
        Owner::User if is_own => return Ok(Removal::Nothing),
        Owner::User => {}
    }
    let Some(without) = without_ours(path, text, agent, book)? else { return Ok(Removal::Nothing) };
    let is_made = book.kept(path).is_some_and(|kept| kept.original.is_none());
    let is_empty = is_made && is_blank(&without);
    Ok(Removal::To((!is_empty).then(|| without.into_bytes())))
}

/// Whether a file is still what was written.
fn is_as_written(book: &Book, path: &Path, text: &str) -> bool {
    book.kept(path).is_some_and(|kept| kept.written == digest(text.as_bytes()))
}

/// What was there before.
fn original(book: &Book, path: &Path) -> Result<Option<Vec<u8>>, InstallError> {
    let original = book.kept(path).and_then(|kept| kept.original.as_deref());
    original.map(|original| book.copy(original)).transpose().map_err(InstallError::io(path))
}

/// A text of the user's without entries of ours; nothing if there are none.
fn without_ours(
    path: &Path,
    text: &str,
    agent: &Agent,
    book: &Book,
) -> Result<Option<String>, InstallError> {
    let mark = Mark { agent: agent.name };
    if is_toml(path) {
        return toml::remove(text, &mark).map_err(InstallError::unreadable(path));
    }
    let without = json::remove(text, &mark).map_err(InstallError::unreadable(path))?;
    let Some(without) = without else { return Ok(None) };
    // Spaces come back too if what the user changed and what we wrote are on different lines.
    let merged = book.kept(path).and_then(|kept| {
        let written = book.copy(&kept.written).ok()?;
        let original = book.copy(kept.original.as_ref()?).ok()?;
        match merge(&written, &original, text.as_bytes(), Conflicts::Report) {
            Merged::Clean(merged) => String::from_utf8(merged).ok(),
            _ => None,
        }
    });
    let merged = merged.filter(|merged| json::is_same(merged, &without));
    Ok(Some(merged.unwrap_or(without)))
}

/// The files that hooks may be in.
fn paths_of(hooks: &Hooks, directory: &Path) -> impl Iterator<Item = PathBuf> {
    [Some(hooks.file), hooks.toml].into_iter().flatten().map(|file| directory.join(file))
}

/// The one that they go to.
pub(super) fn path_of(hooks: &Hooks, directory: &Path) -> Result<PathBuf, InstallError> {
    let path = directory.join(hooks.file);
    let Some(toml) = hooks.toml.map(|toml| directory.join(toml)) else { return Ok(path) };
    let has_hooks = !path.exists() && read_text(&toml)?.is_some_and(|text| toml::has_hooks(&text));
    Ok(if has_hooks { toml } else { path })
}

fn edited(
    path: &Path,
    text: Option<&str>,
    entries: &[Entry],
    agent: &Agent,
) -> Result<String, InstallError> {
    let mark = Mark { agent: agent.name };
    let text = text.unwrap_or_default();
    let edited = match is_toml(path) {
        true => toml::add(text, entries, &mark),
        false => json::add(text, entries, &mark),
    };
    edited.map_err(InstallError::unreadable(path))
}

/// Whether nothing is in it but what has to be.
fn is_blank(text: &str) -> bool {
    let words = text.split_whitespace().collect::<String>();
    matches!(words.as_str(), "" | "{}" | r#"{"version":1}"#)
}
