//! Which files become what.

use std::fs;
use std::path::{Path, PathBuf};

use takeback_undo::rollback::merge::{Conflicts, Merged, merge};

use super::entry::{Entry, Mark, entries};
use super::record::Book;
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
        let mark = self.mark(agent);
        for part in wiring.parts {
            match part {
                Part::Hooks(hooks) => {
                    let path = path_of(hooks, &directory)?;
                    let text = read_text(&path)?;
                    let entries = entries(agent, hooks, &self.program);
                    let after = edited(&path, text.as_deref(), &entries, &mark)?;
                    let original = match text.as_deref() {
                        Some(text) => theirs(&path, text, &mark, &book)?,
                        None => None,
                    };
                    plan.write(path.clone(), text, after, original, false);
                    for other in paths_of(hooks, &directory).filter(|other| *other != path) {
                        // Hooks in both would run twice. What cannot be understood is not read by
                        // the agent either.
                        let _ = plan.remove(&book, &mark, other, false);
                    }
                }
                Part::Own(own) => {
                    let path = directory.join(own.file);
                    let text = read_text(&path)?;
                    match text.as_deref().map(files::owner) {
                        None | Some(Owner::Takeback) => {
                            let after = files::sealed(&(own.content)(&self.program));
                            plan.write(path, text, after, None, own.executable);
                        }
                        Some(Owner::Both) => plan.left.push((path, CHANGED.into())),
                        Some(Owner::User) => plan.left.push((path, TAKEN.into())),
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
        let mark = self.mark(agent);
        for part in wiring.parts {
            match part {
                Part::Hooks(hooks) => {
                    for path in paths_of(hooks, &directory) {
                        plan.remove_or_leave(&book, &mark, path, false)?;
                    }
                }
                Part::Own(own) => {
                    plan.remove_or_leave(&book, &mark, directory.join(own.file), true)?;
                }
            }
        }
        // What another version wrote elsewhere.
        for path in book.of(agent.name, whom.project()) {
            if !plan.names(&path) {
                let is_own = path.extension().is_none_or(|kind| kind != "json" && kind != "toml");
                plan.remove_or_leave(&book, &mark, path, is_own)?;
            }
        }
        Ok(plan)
    }
}

impl Change {
    /// Whether nothing of ours is left in the file.
    pub(super) fn is_removal(&self) -> bool {
        self.after == self.original
    }
}

impl Plan {
    fn new(agent: &'static Agent, whom: &For) -> Plan {
        Plan { agent, whom: whom.clone(), changes: Vec::new(), left: Vec::new() }
    }

    pub(super) fn names(&self, path: &Path) -> bool {
        let changed = self.changes.iter().map(|change| &change.path);
        changed.chain(self.left.iter().map(|(path, _)| path)).any(|named| named == path)
    }

    /// A file that is to become this, unless it is that already.
    fn write(
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

    /// A file that cannot be understood keeps no other one from going.
    fn remove_or_leave(
        &mut self,
        book: &Book,
        mark: &Mark<'_>,
        path: PathBuf,
        is_own: bool,
    ) -> Result<(), InstallError> {
        match self.remove(book, mark, path, is_own) {
            Err(InstallError::Unreadable { path, reason }) => {
                if book.kept(&path).is_some() || mentions_us(&path) {
                    let why = format!("cannot be understood, so it is left as it is: {reason}");
                    self.left.push((path, why));
                }
                Ok(())
            }
            planned => planned,
        }
    }

    /// A file in which nothing of ours is to be left. `is_own`: it may be ours as a whole, and
    /// otherwise is none of our business.
    fn remove(
        &mut self,
        book: &Book,
        mark: &Mark<'_>,
        path: PathBuf,
        is_own: bool,
    ) -> Result<(), InstallError> {
        let Some(text) = read_text(&path)? else { return Ok(()) };
        let after = match (original(book, &path, &text), files::owner(&text)) {
            (Some(original), _) => original,
            (None, Owner::Takeback) => None,
            (None, Owner::Both) if is_own => {
                self.left.push((path, CHANGED.into()));
                return Ok(());
            }
            (None, Owner::User) if is_own => return Ok(()),
            (None, _) => {
                let Some(without) = without_ours(&path, &text, mark, book)? else { return Ok(()) };
                let is_made = book.kept(&path).is_some_and(|kept| kept.original.is_none());
                let is_empty = is_made && is_blank(&without);
                (!is_empty).then(|| without.into_bytes())
            }
        };
        let (before, original) = (Some(text.into_bytes()), after.clone());
        self.changes.push(Change { path, before, after, original, executable: false });
        Ok(())
    }
}

/// What was there before (which may be nothing), if a file is still what was written. A copy that is
/// damaged is as good as none: then what is ours is taken out.
fn original(book: &Book, path: &Path, text: &str) -> Option<Option<Vec<u8>>> {
    let kept = book.kept(path).filter(|kept| kept.is_as_written(text.as_bytes()))?;
    match &kept.original {
        None => Some(None),
        Some(original) => book.copy(original).ok().map(Some),
    }
}

/// What comes back of a file of the user's when takeback goes.
fn theirs(
    path: &Path,
    text: &str,
    mark: &Mark<'_>,
    book: &Book,
) -> Result<Option<Vec<u8>>, InstallError> {
    if let Some(original) = original(book, path, text) {
        return Ok(original);
    }
    let without = without_ours(path, text, mark, book)?;
    Ok(Some(without.unwrap_or_else(|| text.to_owned()).into_bytes()))
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
    mark: &Mark<'_>,
) -> Result<String, InstallError> {
    let text = text.unwrap_or_default();
    let edited = match is_toml(path) {
        true => toml::add(text, entries, mark),
        false => json::add(text, entries, mark),
    };
    edited.map_err(InstallError::unreadable(path))
}

/// Whether nothing is in it but what has to be.
fn is_blank(text: &str) -> bool {
    let words = text.split_whitespace().collect::<String>();
    matches!(words.as_str(), "" | "{}" | r#"{"version":1}"#)
}

fn mentions_us(path: &Path) -> bool {
    let name = b"takeback";
    let is_file = fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    is_file && fs::read(path).is_ok_and(|text| text.windows(name.len()).any(|at| at == name))
}
