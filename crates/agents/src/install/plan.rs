//! Planning an installation or its removal: what each file will contain.

use std::path::{Path, PathBuf};

use takeback_base::foreign;
use takeback_undo::rollback::merge::{Conflicts, Merged, merge};

use super::hook_entry::{CommandMark, HookEntry, build_entries};
use super::record::{InstallRecord, is_own_file};
use super::{
    EditError, FileChange, InstallError, InstallPlan, InstallScope, Installer, WiringState,
    is_toml, json_hooks, json_servers, read_text, toml_hooks,
};
use crate::agent::Agent;
use crate::wiring::seal::{FileOwner, file_owner, seal_text};
use crate::wiring::{HookEntries, OwnFile, Part, ServerEntries};

const CHANGED_BY_USER: &str = "you changed this file, so takeback leaves it alone";
const ONLY_USER: &str = "the editor reads agents only from your own settings: drop --project";
const NAME_TAKEN: &str =
    "you already have a file with this name, so takeback did not write its own";

impl Installer<'_> {
    /// Determines whether takeback is installed for an agent, and whether the installation is
    /// current.
    pub fn wiring_state(
        &self,
        agent: &'static Agent,
        scope: &InstallScope,
    ) -> Result<WiringState, InstallError> {
        let install = self.plan_install(agent, scope)?;
        let uninstall = self.plan_uninstall(agent, scope)?;
        let is_absent = uninstall.changes.is_empty() && uninstall.skipped.is_empty();
        Ok(match (install.changes.is_empty(), install.skipped.is_empty()) {
            (true, true) => WiringState::Current,
            _ if is_absent => WiringState::Absent,
            (true, false) => WiringState::Partial,
            (false, _) => WiringState::Outdated,
        })
    }

    /// Plans the changes that add takeback to an agent's configuration, or that update an earlier
    /// installation.
    pub fn plan_install(
        &self,
        agent: &'static Agent,
        scope: &InstallScope,
    ) -> Result<InstallPlan, InstallError> {
        let mut plan = InstallPlan::new(agent, scope);
        let (Some(wiring), Some(directory)) = (agent.wiring, self.config_directory(agent, scope))
        else {
            return Ok(plan);
        };
        let record = self.open_record()?;
        for part in wiring.parts {
            match part {
                Part::Hooks(hooks) => self.plan_hooks(&mut plan, hooks, &directory, &record)?,
                Part::OwnFile(own) => self.plan_own_file(&mut plan, own, &directory)?,
                Part::Servers(servers) => {
                    self.plan_servers(&mut plan, servers, &directory, &record)?;
                }
            }
        }
        Ok(plan)
    }

    /// Plans takeback's entries in a user's file.
    fn plan_hooks(
        &self,
        plan: &mut InstallPlan,
        hooks: &HookEntries,
        directory: &Path,
        record: &InstallRecord,
    ) -> Result<(), InstallError> {
        let mark = self.command_mark(plan.agent);
        let path = choose_hook_file(hooks, directory)?;
        plan.scope.check_file(&path)?;
        let text = read_text(&path)?;
        let entries = build_entries(plan.agent, hooks, &self.program);
        let after = add_entries(&path, text.as_deref(), &entries, &mark)?;
        let original = match text.as_deref() {
            Some(text) => users_content(&path, text, &mark, record)?,
            None => None,
        };
        plan.write_file(path.clone(), text, after, original, false);
        for other in possible_hook_files(hooks, directory).filter(|other| *other != path) {
            // Hooks that are in both files would run twice. Ignore a file that takeback cannot
            // parse, because the agent cannot parse it either.
            let _ = plan.remove_from_file(record, &mark, other, false);
        }
        Ok(())
    }

    /// Plans the entries for the agents that an editor starts through takeback.
    fn plan_servers(
        &self,
        plan: &mut InstallPlan,
        servers: &ServerEntries,
        directory: &Path,
        record: &InstallRecord,
    ) -> Result<(), InstallError> {
        let path = directory.join(servers.file);
        if plan.scope != InstallScope::User {
            plan.skipped.push((path, ONLY_USER.into()));
            return Ok(());
        }
        let mark = self.command_mark(plan.agent);
        let text = read_text(&path)?;
        let present = text.as_deref().unwrap_or_default();
        let after = json_servers::add_servers(present, servers, &self.program, &mark)
            .map_err(InstallError::unreadable(&path))?;
        let original = match text.as_deref() {
            Some(text) => users_content(&path, text, &mark, record)?,
            None => None,
        };
        plan.write_file(path, text, after, original, false);
        Ok(())
    }

    /// Plans the content of a file that belongs to takeback alone.
    fn plan_own_file(
        &self,
        plan: &mut InstallPlan,
        own: &OwnFile,
        directory: &Path,
    ) -> Result<(), InstallError> {
        let path = directory.join(own.file);
        plan.scope.check_file(&path)?;
        let text = read_text(&path)?;
        match text.as_deref().map(file_owner) {
            None | Some(FileOwner::Takeback) => {
                let after = seal_text(&(own.content)(&self.program));
                plan.write_file(path, text, after, None, own.executable);
            }
            Some(FileOwner::Both) => plan.skipped.push((path, CHANGED_BY_USER.into())),
            Some(FileOwner::User) => plan.skipped.push((path, NAME_TAKEN.into())),
        }
        Ok(())
    }

    /// Plans the changes that remove takeback from an agent's configuration.
    pub fn plan_uninstall(
        &self,
        agent: &'static Agent,
        scope: &InstallScope,
    ) -> Result<InstallPlan, InstallError> {
        let mut plan = InstallPlan::new(agent, scope);
        let (Some(wiring), Some(directory)) = (agent.wiring, self.config_directory(agent, scope))
        else {
            return Ok(plan);
        };
        let record = self.open_record()?;
        let mark = self.command_mark(agent);
        for part in wiring.parts {
            match part {
                Part::Hooks(hooks) => {
                    for path in possible_hook_files(hooks, &directory) {
                        plan.remove_or_skip(&record, &mark, path, false)?;
                    }
                }
                Part::OwnFile(own) => {
                    plan.remove_or_skip(&record, &mark, directory.join(own.file), true)?;
                }
                Part::Servers(servers) => {
                    plan.remove_or_skip(&record, &mark, directory.join(servers.file), false)?;
                }
            }
        }
        // Also plan the removal of files that another version wrote elsewhere.
        for path in record.files_of_agent(agent.name, scope.project()) {
            if !plan.has_path(&path) {
                let is_own = is_own_file(&path);
                plan.remove_or_skip(&record, &mark, path, is_own)?;
            }
        }
        Ok(plan)
    }
}

impl FileChange {
    /// True if nothing from takeback remains in the file after the change.
    pub(super) fn is_removal(&self) -> bool {
        self.after == self.original
    }
}

impl InstallPlan {
    fn new(agent: &'static Agent, scope: &InstallScope) -> InstallPlan {
        InstallPlan { agent, scope: scope.clone(), changes: Vec::new(), skipped: Vec::new() }
    }

    pub(super) fn has_path(&self, path: &Path) -> bool {
        let changed = self.changes.iter().map(|change| &change.path);
        changed.chain(self.skipped.iter().map(|(path, _)| path)).any(|planned| planned == path)
    }

    /// Adds a change to the plan, unless the file already has that content.
    fn write_file(
        &mut self,
        path: PathBuf,
        before: Option<String>,
        after: String,
        original: Option<Vec<u8>>,
        executable: bool,
    ) {
        if before.as_ref() != Some(&after) {
            let (before, after) = (before.map(String::into_bytes), Some(after.into_bytes()));
            self.changes.push(FileChange { path, before, after, original, executable });
        }
    }

    /// Plans the removal of takeback from a file. Skips a file that cannot be parsed, so that
    /// takeback can still be removed from other files.
    fn remove_or_skip(
        &mut self,
        record: &InstallRecord,
        mark: &CommandMark<'_>,
        path: PathBuf,
        is_own: bool,
    ) -> Result<(), InstallError> {
        match self.remove_from_file(record, mark, path, is_own) {
            Err(InstallError::Unreadable { path, reason }) => {
                if record.file(&path).is_some() || mentions_takeback(&path) {
                    let why = format!("cannot be parsed, so it was left unchanged: {reason}");
                    self.skipped.push((path, why));
                }
                Ok(())
            }
            planned => planned,
        }
    }

    /// Plans the removal of takeback from a file. If `is_own`, the file is left unchanged unless it
    /// belongs entirely to takeback.
    fn remove_from_file(
        &mut self,
        record: &InstallRecord,
        mark: &CommandMark<'_>,
        path: PathBuf,
        is_own: bool,
    ) -> Result<(), InstallError> {
        let Some(text) = read_text(&path)? else { return Ok(()) };
        let after = match (recorded_original(record, &path, &text), file_owner(&text)) {
            (Some(original), _) => original,
            (None, FileOwner::Takeback) => None,
            (None, FileOwner::Both) if is_own => {
                self.skipped.push((path, CHANGED_BY_USER.into()));
                return Ok(());
            }
            (None, FileOwner::User) if is_own => return Ok(()),
            (None, _) => {
                let Some(without) = without_entries(&path, &text, mark, record)? else {
                    return Ok(());
                };
                let was_created = record.file(&path).is_some_and(|file| file.original.is_none());
                let is_empty = was_created && is_blank(&without);
                (!is_empty).then(|| without.into_bytes())
            }
        };
        let (before, original) = (Some(text.into_bytes()), after.clone());
        self.changes.push(FileChange { path, before, after, original, executable: false });
        Ok(())
    }
}

/// Returns the original of a file that has not changed since takeback wrote it, or `Some(None)` if
/// takeback created the file. Returns `None` if the file has changed, or if the copy of the
/// original is damaged. In either case, takeback's entries must be removed one by one.
fn recorded_original(record: &InstallRecord, path: &Path, text: &str) -> Option<Option<Vec<u8>>> {
    let file = record.file(path).filter(|file| file.is_as_written(text.as_bytes()))?;
    match &file.original {
        None => Some(None),
        Some(original) => record.read_copy(original).ok().map(Some),
    }
}

/// Returns the content of a user's file without takeback's entries. Uninstalling restores this
/// content.
fn users_content(
    path: &Path,
    text: &str,
    mark: &CommandMark<'_>,
    record: &InstallRecord,
) -> Result<Option<Vec<u8>>, InstallError> {
    if let Some(original) = recorded_original(record, path, text) {
        return Ok(original);
    }
    let without = without_entries(path, text, mark, record)?;
    Ok(Some(without.unwrap_or_else(|| text.to_owned()).into_bytes()))
}

/// Removes takeback's entries from the text of a file. Returns `None` if there are none.
fn without_entries(
    path: &Path,
    text: &str,
    mark: &CommandMark<'_>,
    record: &InstallRecord,
) -> Result<Option<String>, InstallError> {
    let without = match is_toml(path) {
        true => toml_hooks::remove_entries(text, mark),
        false => remove_from_json(text, mark),
    };
    let Some(without) = without.map_err(InstallError::unreadable(path))? else { return Ok(None) };
    // Removing entries one by one may not restore the original whitespace, but a merge restores it
    // if the user and takeback changed different lines.
    let merged = record.file(path).and_then(|file| {
        let written = record.read_copy(&file.written).ok()?;
        let original = record.read_copy(file.original.as_ref()?).ok()?;
        match merge(&written, &original, text.as_bytes(), Conflicts::Report) {
            Merged::Clean(merged) => String::from_utf8(merged).ok(),
            _ => None,
        }
    });
    let has_same_value =
        if is_toml(path) { toml_hooks::has_same_value } else { json_hooks::has_same_value };
    let merged = merged.filter(|merged| has_same_value(merged, &without));
    Ok(Some(merged.unwrap_or(without)))
}

/// Removes takeback's hooks and agents from a JSON file. Returns `None` if there are none.
fn remove_from_json(text: &str, mark: &CommandMark<'_>) -> Result<Option<String>, EditError> {
    let without_hooks = json_hooks::remove_entries(text, mark)?;
    let rest = without_hooks.as_deref().unwrap_or(text);
    Ok(json_servers::remove_servers(rest, mark)?.or(without_hooks))
}

/// Lists the files that may contain hooks.
fn possible_hook_files(hooks: &HookEntries, directory: &Path) -> impl Iterator<Item = PathBuf> {
    [Some(hooks.file), hooks.toml_file].into_iter().flatten().map(|file| directory.join(file))
}

/// Chooses the file for takeback's hooks: the TOML file if it has hooks and the JSON file does not
/// exist, otherwise the JSON file.
pub(super) fn choose_hook_file(
    hooks: &HookEntries,
    directory: &Path,
) -> Result<PathBuf, InstallError> {
    let path = directory.join(hooks.file);
    let Some(toml) = hooks.toml_file.map(|toml| directory.join(toml)) else { return Ok(path) };
    let has_hooks =
        !path.exists() && read_text(&toml)?.is_some_and(|text| toml_hooks::has_hooks(&text));
    Ok(if has_hooks { toml } else { path })
}

/// Adds entries to the text of a file, replacing all earlier takeback entries.
fn add_entries(
    path: &Path,
    text: Option<&str>,
    entries: &[HookEntry],
    mark: &CommandMark<'_>,
) -> Result<String, InstallError> {
    let text = text.unwrap_or_default();
    let edited = match is_toml(path) {
        true => toml_hooks::add_entries(text, entries, mark),
        false => json_hooks::add_entries(text, entries, mark),
    };
    edited.map_err(InstallError::unreadable(path))
}

/// True if a file's text contains no settings: at most an empty object or the version of the
/// format.
fn is_blank(text: &str) -> bool {
    let words = text.split_whitespace().collect::<String>();
    matches!(words.as_str(), "" | "{}" | r#"{"version":1}"#)
}

fn mentions_takeback(path: &Path) -> bool {
    let name = b"takeback";
    let text = foreign::read_regular(path, foreign::MAX_TEXT).unwrap_or_default();
    text.windows(name.len()).any(|at| at == name)
}
