//! Updating and removing an older installation. `fixtures/installed` contains the files of a user
//! and of a project, as they were `before` and `after` version 0.1.0 was installed for all agents.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use takeback_agents::{
    AGENTS, Agent, InstallPlan, InstallScope, Installer, Program, WiringState, find_agent,
};
use tempfile::TempDir;

/// The files under a directory: their modes and contents, by relative path.
type FileTree = BTreeMap<PathBuf, (u32, Vec<u8>)>;

/// A machine on which an older version of takeback was installed.
struct OldMachine {
    root: TempDir,
}

impl OldMachine {
    fn new() -> OldMachine {
        let machine = OldMachine { root: TempDir::new().unwrap() };
        copy_directory(&fixture("after/home"), &machine.path("home"));
        copy_directory(&fixture("after/project"), &machine.path("project"));
        let record = fs::read_to_string(fixture("after/record.json")).unwrap();
        let directory = machine.path("takeback/installed");
        fs::create_dir_all(&directory).unwrap();
        let root = machine.root.path().to_str().unwrap();
        fs::write(directory.join("record.json"), record.replace("@ROOT@", root)).unwrap();
        // Takeback keeps a copy of each file's content, named after its digest.
        for (_, bytes) in read_tree(&fixture("")).into_values() {
            let name = takeback_base::hex::encode(&Sha256::digest(&bytes));
            fs::write(directory.join(name), bytes).unwrap();
        }
        machine
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    fn forget_record(&self) {
        fs::remove_dir_all(self.path("takeback")).unwrap();
    }

    /// Returns each agent's two installations: one for the user and one for the project.
    fn installations(&self) -> Vec<(&'static Agent, InstallScope)> {
        let scopes = [InstallScope::User, InstallScope::Project(self.path("project"))];
        let agents = AGENTS.iter().filter(|agent| agent.has_wiring() && !agent.is_editor());
        agents.flat_map(|agent| scopes.clone().map(|scope| (agent, scope))).collect()
    }

    /// Runs `work` with this version's installer.
    fn with_installer<T>(&self, scope: &InstallScope, work: impl FnOnce(&Installer<'_>) -> T) -> T {
        let program = match scope {
            InstallScope::User => Program::of_user(vec!["/opt/new/takeback".into()]),
            InstallScope::Project(_) => Program::shared(),
        };
        let (takeback_home, user_home) = (self.path("takeback"), self.path("home"));
        let env_var = |_: &str| None::<OsString>;
        work(&Installer {
            takeback_home: &takeback_home,
            user_home: &user_home,
            env_var: &env_var,
            program,
        })
    }

    fn state(&self, agent: &'static Agent, scope: &InstallScope) -> WiringState {
        self.with_installer(scope, |installer| installer.wiring_state(agent, scope).unwrap())
    }

    fn update_all(&self) {
        for (agent, scope) in self.installations() {
            self.with_installer(&scope, |installer| {
                let plan = installer.plan_install(agent, &scope).unwrap();
                check_nothing_skipped(&plan);
                installer.install(&plan).unwrap();
            });
            assert_eq!(self.state(agent, &scope), WiringState::Current, "{agent:?} {scope:?}");
        }
    }

    fn uninstall_all(&self) {
        for (agent, scope) in self.installations() {
            self.with_installer(&scope, |installer| {
                let plan = installer.plan_uninstall(agent, &scope).unwrap();
                check_nothing_skipped(&plan);
                installer.uninstall(&plan).unwrap();
            });
            assert_eq!(self.state(agent, &scope), WiringState::Absent, "{agent:?} {scope:?}");
        }
    }

    /// Returns all files except takeback's own.
    fn files(&self) -> FileTree {
        let mut files = read_tree(self.root.path());
        files.retain(|path, _| !path.starts_with("takeback"));
        files
    }
}

fn fixture(below: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/installed").join(below)
}

fn copy_directory(from: &Path, to: &Path) {
    for (path, (mode, bytes)) in read_tree(from) {
        let target = to.join(path);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::write(&target, bytes).unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(mode)).unwrap();
    }
}

fn read_tree(root: &Path) -> FileTree {
    fn collect_files(root: &Path, directory: &Path, files: &mut FileTree) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect_files(root, &path, files);
            } else {
                let is_executable = fs::metadata(&path).unwrap().permissions().mode() & 0o100 != 0;
                let mode = if is_executable { 0o755 } else { 0o644 };
                let below = path.strip_prefix(root).unwrap().to_owned();
                files.insert(below, (mode, fs::read(&path).unwrap()));
            }
        }
    }
    let mut files = FileTree::new();
    collect_files(root, root, &mut files);
    files
}

fn check_nothing_skipped(plan: &InstallPlan) {
    assert!(plan.skipped.is_empty(), "{:?} {:?}", plan.agent, plan.skipped);
}

/// Removes whitespace, which may differ when entries are removed one by one.
fn without_whitespace(files: FileTree) -> BTreeMap<PathBuf, String> {
    let squeeze = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().split_whitespace().collect();
    files.into_iter().map(|(path, (_, bytes))| (path, squeeze(bytes))).collect()
}

#[test]
fn an_older_installation_is_recognized() {
    let machine = OldMachine::new();
    for is_recorded in [true, false] {
        for (agent, scope) in machine.installations() {
            let state = machine.state(agent, &scope);
            let is_recognized = matches!(state, WiringState::Current | WiringState::Outdated);
            assert!(is_recognized, "{agent:?} {scope:?} {is_recorded} {state:?}");
        }
        if is_recorded {
            machine.forget_record();
        }
    }
}

#[test]
fn an_older_installation_is_removed_byte_for_byte() {
    let machine = OldMachine::new();
    machine.uninstall_all();
    assert_eq!(machine.files(), read_tree(&fixture("before")));
}

#[test]
fn an_updated_installation_is_removed_byte_for_byte() {
    let machine = OldMachine::new();
    let old = machine.files();
    machine.update_all();
    let new = machine.files();
    // The update removes no file, adds nothing but newer plugins, and replaces the path of the old
    // program everywhere.
    let is_newer = |path: &PathBuf| {
        path.ends_with(".cline/plugins/takeback.js")
            || path.ends_with("extensions/takeback/extension.mjs")
    };
    let added: Vec<&PathBuf> = new.keys().filter(|path| !old.contains_key(*path)).collect();
    assert!(added.len() == 4 && added.into_iter().all(is_newer));
    let new: FileTree = new.into_iter().filter(|(path, _)| !is_newer(path)).collect();
    assert_eq!(new.keys().collect::<Vec<_>>(), old.keys().collect::<Vec<_>>());
    let names_program = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains("/usr/local/bin");
    assert!(old.values().any(|(_, bytes)| names_program(bytes)));
    assert!(!new.values().any(|(_, bytes)| names_program(bytes)));
    let modes = |files: &FileTree| files.values().map(|(mode, _)| *mode).collect::<Vec<_>>();
    assert_eq!(modes(&new), modes(&old));
    machine.uninstall_all();
    assert_eq!(machine.files(), read_tree(&fixture("before")));
}

#[test]
fn an_older_installation_is_updated_and_removed_without_its_record() {
    for is_updated in [false, true] {
        let machine = OldMachine::new();
        machine.forget_record();
        if is_updated {
            machine.update_all();
        }
        machine.uninstall_all();
        // Settings files that takeback created stay: without the record, takeback cannot tell them
        // from files that the user created.
        let mut left = without_whitespace(machine.files());
        left.retain(|_, text| !matches!(text.as_str(), "" | "{}" | r#"{"version":1}"#));
        let mut before = without_whitespace(read_tree(&fixture("before")));
        before.retain(|_, text| text != "{}");
        assert_eq!(left, before, "{is_updated}");
    }
}

#[test]
fn a_change_by_the_user_survives_the_update_and_the_removal() {
    let machine = OldMachine::new();
    let settings = machine.path("home/.claude/settings.json");
    let edit = |text: &str| text.replace("opus", "haiku");
    fs::write(&settings, edit(&fs::read_to_string(&settings).unwrap())).unwrap();
    let script = machine.path("home/.cline/hooks/PreToolUse.sh");
    let changed_script = fs::read_to_string(&script).unwrap() + "echo mine\n";
    fs::write(&script, &changed_script).unwrap();
    for name in ["claude", "cline"] {
        let (agent, scope) = (find_agent(name).unwrap(), InstallScope::User);
        machine.with_installer(&scope, |installer| {
            installer.install(&installer.plan_install(agent, &scope).unwrap()).unwrap();
            let plan = installer.plan_uninstall(agent, &scope).unwrap();
            installer.uninstall(&plan).unwrap();
        });
    }
    let original = fs::read_to_string(fixture("before/home/.claude/settings.json")).unwrap();
    assert_eq!(fs::read_to_string(&settings).unwrap(), edit(&original));
    assert_eq!(fs::read_to_string(&script).unwrap(), changed_script);
}
