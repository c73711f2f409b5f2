//! Hermes checkpoints. The tests use git to create repositories as Hermes does, and to check the
//! results.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use takeback_import::OlderHistory;
use takeback_import::hermes::{
    HermesProject, ProjectHistories, ProjectSurvey, RepositoryHistory, find_projects,
    import_checkpoints, import_project, read_project,
};
use takeback_ledger::Time;
use takeback_tree::{
    CaptureOptions, CaptureRules, ForbiddenRoots, Oid, Pin, Store, Uncovered, UncoveredReason,
};
use takeback_undo::Record;

/// The prefix of a shared store's refs.
const REFS: &str = "refs/hermes/";

/// A Hermes checkpoint directory, some projects, and an empty takeback store.
struct ImportFixture {
    directory: tempfile::TempDir,
    store: Store,
}

impl ImportFixture {
    fn new() -> ImportFixture {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path().join("takeback/store")).unwrap();
        fs::create_dir(directory.path().join("checkpoints")).unwrap();
        ImportFixture { directory, store }
    }

    fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.directory.path()).unwrap().join(name)
    }

    fn checkpoints(&self) -> PathBuf {
        self.path("checkpoints")
    }

    /// Creates a project with one file.
    fn create_project(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("file"), name).unwrap();
        path
    }

    fn run_git(&self, settings: &[(&str, &Path)], arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args(arguments)
            .current_dir(self.directory.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.directory.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_NAME"), "Hermes")))
            .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_EMAIL"), "a@b")))
            .envs(settings.iter().copied())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {arguments:?}: {errors}");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Takes a checkpoint in the older layout, in the project's own repository.
    fn commit_per_project(&self, repository: &Path, project: &Path, reason: &str) -> Oid {
        let settings = [("GIT_DIR", repository), ("GIT_WORK_TREE", project)];
        if !repository.exists() {
            fs::create_dir_all(repository).unwrap();
            self.run_git(&settings, &["init", "-q"]);
            let named = [project.as_os_str().as_bytes(), b"\n"].concat();
            fs::write(repository.join("HERMES_WORKDIR"), named).unwrap();
            fs::write(repository.join("info/exclude"), ".env\n*.log\n").unwrap();
        }
        self.run_git(&settings, &["add", "-A", &format!("{}", project.display())]);
        self.run_git(&settings, &["commit", "-q", "--allow-empty-message", "-m", reason]);
        self.run_git(&settings, &["rev-parse", "HEAD"]).parse().unwrap()
    }

    /// Takes a checkpoint in the newer layout, in the shared store.
    fn commit_shared(&self, project: &Path, reason: &str) -> Oid {
        let store = self.checkpoints().join("store");
        if !store.exists() {
            self.run_git(&[], &["init", "-q", "--bare", &store.display().to_string()]);
            fs::create_dir_all(store.join("indexes")).unwrap();
            fs::create_dir_all(store.join("projects")).unwrap();
            fs::write(store.join("info/exclude"), "# comment\n\n.env\nbuild/\n").unwrap();
        }
        let hash = project_hash(project);
        let metadata = serde_json::json!({"workdir": project, "created_at": 1.5, "last_touch": 2});
        let path = store.join(format!("projects/{hash}.json"));
        fs::write(path, metadata.to_string()).unwrap();
        let index = store.join("indexes").join(&hash);
        let settings =
            [("GIT_DIR", &*store), ("GIT_WORK_TREE", project), ("GIT_INDEX_FILE", &*index)];
        self.run_git(&settings, &["add", "-A", &project.display().to_string()]);
        let tree = self.run_git(&settings, &["write-tree"]);
        self.commit_tree(&tree, &hash, reason, true)
    }

    /// Creates a commit that becomes the newest checkpoint of a project. If `follows` is false, the
    /// commit is also the oldest checkpoint.
    fn commit_tree(&self, tree: &str, hash: &str, reason: &str, follows: bool) -> Oid {
        let store = self.checkpoints().join("store");
        let settings = [("GIT_DIR", &*store)];
        let name = format!("{REFS}{hash}");
        let parent = self.run_git(&settings, &["for-each-ref", "--format=%(objectname)", &name]);
        let mut arguments = vec!["commit-tree", tree, "-m", reason];
        if follows && !parent.is_empty() {
            arguments.extend(["-p", &parent]);
        }
        let commit = self.run_git(&settings, &arguments);
        self.run_git(&settings, &["update-ref", &name, &commit]);
        commit.parse().unwrap()
    }

    /// Drops the oldest checkpoints of a project as Hermes does, by rewriting the others.
    fn drop_oldest(&self, project: &Path, keep: usize) {
        let store = self.checkpoints().join("store");
        let (settings, hash) = ([("GIT_DIR", &*store)], project_hash(project));
        let name = format!("{REFS}{hash}");
        let commits = self.run_git(&settings, &["log", "--reverse", "--format=%T %s", &name]);
        let commits: Vec<&str> = commits.lines().collect();
        for (index, commit) in commits[commits.len() - keep..].iter().enumerate() {
            let (tree, reason) = commit.split_once(' ').unwrap();
            self.commit_tree(tree, &hash, reason, index > 0);
        }
        self.run_git(&settings, &["gc", "-q", "--prune=now"]);
    }

    /// Imports all projects found at a path.
    fn import_all(&self, path: &Path) -> Vec<(HermesProject, OlderHistory)> {
        let survey = find_projects(path);
        assert_eq!(survey.problems, []);
        let projects = survey.projects.iter().map(read_project);
        projects
            .map(|project| {
                let progress = |done, total| assert!(done <= total);
                let now = Time::from(SystemTime::now());
                let added = import_project(&self.store, &project, now, &progress).unwrap();
                (project, added)
            })
            .collect()
    }

    /// Lists the reasons for all checkpoints of a project, oldest first. For a pin that is not a
    /// checkpoint, lists the pin's message.
    fn list_reasons(&self, project: &Path) -> Vec<String> {
        let names = self.store.pin_names(&self.store.workspace_id(project)).unwrap();
        let pins = names.iter().map(|name| self.store.pin(name).unwrap().unwrap());
        pins.map(|pin| Record::parse(&pin.message).map_or(pin.message, |record| record.reason))
            .collect()
    }

    /// Uses git to compare a pin with a commit, ignoring links to nested repositories.
    fn assert_same_files(&self, pin: &Pin, repository: &Path, commit: Oid) {
        let list = |repository: &Path, id: Oid| {
            let arguments = ["ls-tree", "-r", "-z", &id.to_string()];
            let listing = self.run_git(&[("GIT_DIR", repository)], &arguments);
            let lines = listing.split('\0').filter(|line| !line.starts_with("160000"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(list(self.store.directory(), pin.id), list(repository, commit));
    }

    fn check_store(&self) {
        let arguments = ["fsck", "--strict", "--full", "--no-dangling"];
        assert_eq!(self.run_git(&[("GIT_DIR", self.store.directory())], &arguments), "");
    }
}

/// Returns the name of a project in the shared store. Hermes uses a hash of the project's path, but
/// any name will do.
fn project_hash(project: &Path) -> String {
    let name = project.file_name().unwrap().to_string_lossy();
    let digits: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("{digits:0<16}")[..16].to_owned()
}

#[test]
fn a_repository_per_project_is_imported() {
    let fixture = ImportFixture::new();
    let project = fixture.create_project("one");
    let repository = fixture.checkpoints().join("0123456789abcdef");
    let mut commits = vec![fixture.commit_per_project(&repository, &project, "before write_file")];
    symlink("file", project.join("link")).unwrap();
    fs::write(project.join("run.sh"), "#!/bin/sh").unwrap();
    fs::set_permissions(project.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(project.join(OsStr::from_bytes(b"caf\xe9")), "").unwrap();
    fs::write(project.join("noise.log"), "").unwrap();
    fixture.run_git(&[], &["init", "-q", "one/nested"]);
    fs::write(project.join("nested/x"), "x").unwrap();
    fixture.run_git(&[], &["-C", "one/nested", "add", "x"]);
    fixture.run_git(&[], &["-C", "one/nested", "commit", "-qm", "x"]);
    let why = "pre-rollback snapshot (restoring to 01234567)";
    commits.push(fixture.commit_per_project(&repository, &project, why));
    fs::write(project.join("file"), "changed").unwrap();
    commits.push(fixture.commit_per_project(&repository, &project, ""));
    fixture.run_git(&[("GIT_DIR", &repository)], &["gc", "-q"]);

    let history = RepositoryHistory { repository: repository.clone(), tip: None };
    let found = ProjectHistories { directory: project.clone(), histories: vec![history] };
    for path in [&fixture.checkpoints(), &repository, &fixture.path("")] {
        assert_eq!(
            find_projects(path),
            ProjectSurvey { projects: vec![found.clone()], problems: vec![] }
        );
    }
    // Git's own configuration also names the directory.
    fs::remove_file(repository.join("HERMES_WORKDIR")).unwrap();
    assert_eq!(find_projects(&repository).projects, [found]);

    let (read, added) = fixture.import_all(&fixture.checkpoints()).pop().unwrap();
    let ids: Vec<Oid> = read.checkpoints.iter().map(|checkpoint| checkpoint.id).collect();
    assert_eq!((ids, read.problems), (commits.clone(), vec![]));
    assert_eq!((added.pins.len(), added.known, added.skipped.len()), (3, 0, 0));
    assert_eq!(fixture.list_reasons(&project), ["before write_file", why, "imported"]);
    fixture.check_store();
    for (pin, commit) in added.pins.iter().zip(commits) {
        fixture.assert_same_files(pin, &repository, commit);
    }
    let again = fixture.import_all(&fixture.checkpoints()).pop().unwrap().1;
    assert_eq!((again.pins, again.known), (vec![], 3));
}

#[test]
fn records_name_what_hermes_left_out() {
    let fixture = ImportFixture::new();
    let project = fixture.create_project("one");
    fixture.run_git(&[], &["init", "-q", "one/nested"]);
    fixture.run_git(&[], &["-C", "one/nested", "commit", "-q", "--allow-empty", "-m", "x"]);
    fixture.commit_per_project(&fixture.checkpoints().join("a"), &project, "x");
    fixture.commit_shared(&project, "y");
    let added = fixture.import_all(&fixture.checkpoints()).pop().unwrap().1;
    let pins = added.pins.iter();
    let records: Vec<Record> = pins.map(|pin| Record::parse(&pin.message).unwrap()).collect();
    assert_eq!(records.len(), 2);
    let nested = takeback_tree::RelPath::new("nested").unwrap();
    for (record, pin) in records.iter().zip(&added.pins) {
        assert_eq!(record.seq, pin.name.seq);
        assert_eq!(
            record.uncovered,
            [Uncovered { path: nested.clone(), reason: UncoveredReason::Nested }]
        );
        assert_eq!(record.files, Some(1));
    }
    assert_eq!(records[0].filter.rules.exclude, [".env", "*.log"]);
    assert_eq!(records[1].filter.rules.exclude, [".env", "build/"]);
}

#[test]
fn projects_of_a_shared_store_are_imported_separately() {
    let fixture = ImportFixture::new();
    let projects = ["one", "two", "three"].map(|name| fixture.create_project(name));
    let mut commits = Vec::new();
    for round in 0..4 {
        for project in &projects {
            fs::write(project.join("file"), format!("{round}")).unwrap();
            commits.push(fixture.commit_shared(project, &format!("before {round}")));
        }
    }
    let store = fixture.checkpoints().join("store");
    fixture.run_git(&[("GIT_DIR", &store)], &["gc", "-q"]);
    commits.push(fixture.commit_shared(&projects[0], "loose"));
    // A git process that was killed leaves its lock file behind. A deleted project leaves its
    // history behind.
    fs::write(store.join("refs/hermes/0123.lock"), "").unwrap();
    fs::remove_dir_all(&projects[2]).unwrap();

    let all = fixture.import_all(&fixture.checkpoints());
    let directories: Vec<&PathBuf> = all.iter().map(|(project, _)| &project.directory).collect();
    assert_eq!(directories, [&projects[0], &projects[2], &projects[1]]);
    fixture.check_store();
    for (project, added) in &all {
        for (pin, snapshot) in added.pins.iter().zip(&project.checkpoints) {
            fixture.assert_same_files(pin, &store, snapshot.id);
        }
    }
    let counts = all.iter().map(|(_, added)| added.pins.len()).collect::<Vec<_>>();
    assert_eq!(counts, [5, 4, 4]);
    let info = fixture.store.workspace_info(&fixture.store.workspace_id(&projects[2]));
    assert_eq!(info.unwrap().unwrap().path.0, projects[2]);
    assert!(fixture.import_all(&store).iter().all(|(_, added)| added.pins.is_empty()));
}

#[test]
fn checkpoints_that_hermes_rewrote_are_recognized() {
    let fixture = ImportFixture::new();
    let project = fixture.create_project("one");
    let commit = |content: &str, reason: &str| {
        fs::write(project.join("file"), content).unwrap();
        fixture.commit_shared(&project, reason);
    };
    commit("a", "before terminal: one\ntwo");
    commit("b", "same");
    commit("a", "same");
    commit("b", "same");
    fixture.import_all(&fixture.checkpoints());
    commit("c", "new");
    fixture.drop_oldest(&project, 3);
    commit("d", "newer");
    let added = fixture.import_all(&fixture.checkpoints()).pop().unwrap().1;
    assert_eq!((added.pins.len(), added.known), (2, 2));
    let all = ["before terminal: one\ntwo", "same", "same", "same", "new", "newer"];
    assert_eq!(fixture.list_reasons(&project), all);
    // If Hermes no longer has any of the imported checkpoints, the new ones come last.
    commit("e", "newest");
    fixture.drop_oldest(&project, 1);
    fixture.import_all(&fixture.checkpoints());
    assert_eq!(fixture.list_reasons(&project).last().unwrap(), "newest");
    fixture.check_store();
}

#[test]
fn archives_come_before_newer_layouts() {
    let fixture = ImportFixture::new();
    let project = fixture.create_project("one");
    let checkpoints = fixture.checkpoints();
    let commit = |repository: &str, content: &str| {
        fs::write(project.join("file"), content).unwrap();
        fixture.commit_per_project(&checkpoints.join(repository), &project, content);
    };
    commit("legacy-20260101-000000/0123456789abcdef", "1");
    commit("legacy-20260101-000000/0123456789abcdef", "2");
    commit("legacy-20260202-000000/0123456789abcdef", "3");
    commit("0123456789abcdef", "4");
    fs::write(project.join("file"), "5").unwrap();
    fixture.commit_shared(&project, "5");

    let archive = checkpoints.join("legacy-20260101-000000");
    assert_eq!(find_projects(&archive).projects[0].histories.len(), 1);
    // The second import places its checkpoints before and after those of the first import.
    fixture.import_all(&checkpoints.join("legacy-20260202-000000"));
    fixture.import_all(&checkpoints);
    assert_eq!(fixture.list_reasons(&project), ["1", "2", "3", "4", "5"]);
    fixture.check_store();
}

#[test]
fn takebacks_own_checkpoints_stay_the_newest() {
    let fixture = ImportFixture::new();
    let project = fixture.create_project("one");
    fixture.commit_shared(&project, "old");
    let pin = |message: &str| {
        let workspace = fixture.store.workspace(&project, &ForbiddenRoots::default()).unwrap();
        let mut lock = workspace.lock().unwrap();
        let (rules, now) = (CaptureRules::default(), SystemTime::now());
        let options = CaptureOptions { rules: &rules, named: &[], swept: &[], now };
        let capture = lock.capture(&options).unwrap();
        lock.pin(capture.tree, now, message).unwrap();
        lock.finish(now).unwrap();
    };
    pin("own 1");
    pin("own 2");
    let added = fixture.import_all(&fixture.checkpoints()).pop().unwrap().1;
    assert_eq!(added.pins[0].name.seq, 1);
    pin("own 3");
    fs::write(project.join("file"), "changed").unwrap();
    fixture.commit_shared(&project, "later");
    fixture.import_all(&fixture.checkpoints());
    assert_eq!(fixture.list_reasons(&project), ["old", "later", "own 1", "own 2", "own 3"]);
    fixture.check_store();
}

#[test]
fn a_damaged_checkpoint_does_not_affect_the_others() {
    let fixture = ImportFixture::new();
    let project = fixture.create_project("one");
    for round in 0..4 {
        fs::write(project.join("file"), format!("content {round}")).unwrap();
        fixture.commit_shared(&project, &format!("{round}"));
    }
    let store = fixture.checkpoints().join("store");
    let remove = |what: &str| {
        let revision = format!("{REFS}{}{what}", project_hash(&project));
        let id = fixture.run_git(&[("GIT_DIR", &store)], &["rev-parse", &revision]);
        fs::remove_file(store.join("objects").join(&id[..2]).join(&id[2..])).unwrap();
    };
    remove("~1:file");
    let (read, added) = fixture.import_all(&fixture.checkpoints()).pop().unwrap();
    assert_eq!(fixture.list_reasons(&project), ["0", "1", "3"]);
    assert_eq!(added.skipped.len(), 1);
    let skipped = read.checkpoints.iter().find(|known| known.id == added.skipped[0].id);
    assert_eq!(skipped.unwrap().reason, "2");
    assert!(added.skipped[0].problem.contains("is missing"));
    fixture.check_store();
    // Once the file is restored, the checkpoint is placed between the others.
    fs::write(project.join("file"), "content 2").unwrap();
    fixture.run_git(&[("GIT_DIR", &store)], &["hash-object", "-w", "one/file"]);
    fixture.import_all(&fixture.checkpoints());
    assert_eq!(fixture.list_reasons(&project), ["0", "1", "2", "3"]);

    remove("~2^0");
    let project = read_project(&find_projects(&fixture.checkpoints()).projects[0]);
    assert_eq!((project.checkpoints.len(), project.problems.len()), (2, 1));
}

#[test]
fn unreadable_histories_are_reported() {
    let fixture = ImportFixture::new();
    let project = fixture.create_project("one");
    fixture.commit_shared(&project, "x");
    fixture.commit_shared(&fixture.create_project("two"), "x");
    fixture.run_git(&[], &["init", "-q", "--bare", "--object-format=sha256", "checkpoints/aaaa"]);
    fixture.run_git(&[], &["init", "-q", "--bare", "checkpoints/bbbb"]);
    let metadata =
        fixture.checkpoints().join(format!("store/projects/{}.json", project_hash(&project)));
    fs::write(&metadata, "{}").unwrap();
    let survey = find_projects(&fixture.checkpoints());
    assert_eq!(survey.projects.len(), 1);
    let paths: Vec<&Path> = survey.problems.iter().map(|problem| &*problem.path).collect();
    let checkpoints = fixture.checkpoints();
    let unknown = checkpoints.join("bbbb/HERMES_WORKDIR");
    assert_eq!(paths, [&checkpoints.join("aaaa"), &unknown, &metadata]);
    assert!(survey.problems[0].reason.contains("sha256"));
    assert_eq!(find_projects(&fixture.path("nowhere")).problems.len(), 1);
    assert_eq!(find_projects(&project), ProjectSurvey::default());
}

#[test]
fn an_archive_with_two_repositories_of_a_project_is_found() {
    let fixture = ImportFixture::new();
    let project = fixture.create_project("one");
    let archive = fixture.path("takeback/legacy-20260304-050607");
    for name in ["0123456789abcdef", "fedcba9876543210"] {
        fixture.commit_per_project(&archive.join(name), &project, "x");
    }
    let found = find_projects(&archive);
    assert_eq!(found.problems, []);
    assert_eq!(found.projects[0].histories.len(), 2);
}

#[test]
fn the_report_counts_checkpoints_per_project() {
    let fixture = ImportFixture::new();
    let project = fixture.create_project("one");
    fixture.commit_shared(&project, "a");
    fixture.run_git(&[], &["init", "-q", "--bare", "checkpoints/bbbb"]);
    let now = Time::from(SystemTime::now());
    for (new, known) in [(1, 0), (0, 1)] {
        let report =
            import_checkpoints(&fixture.store, &fixture.checkpoints(), now, &|_, _| {}).unwrap();
        assert_eq!(report.projects.len(), 1);
        let found = &report.projects[0];
        assert_eq!(found.path.0, project);
        assert_eq!((found.checkpoints, found.known, found.skipped.len()), (new, known, 0));
        assert_eq!(report.problems.len(), 1);
        assert!(report.problems[0].contains("bbbb/HERMES_WORKDIR: "), "{:?}", report.problems);
    }
}

#[test]
fn a_history_with_unreadable_patterns_is_not_imported() {
    let fixture = ImportFixture::new();
    let project = fixture.create_project("one");
    let repository = fixture.checkpoints().join("0123456789abcdef");
    fixture.commit_per_project(&repository, &project, "one");
    let exclude = repository.join("info/exclude");
    for (patterns, expected) in [
        ("x\n".repeat(501), "has more than 500 patterns"),
        ("x".repeat(20_000), "it is larger than 16384 bytes"),
    ] {
        fs::write(&exclude, patterns).unwrap();
        let (project, history) = fixture.import_all(&fixture.checkpoints()).remove(0);
        assert!(project.problems[0].reason.ends_with(expected), "{:?}", project.problems);
        assert_eq!((project.problems.len(), history.pins.len()), (1, 0));
    }
    fs::remove_file(&exclude).unwrap();
    symlink("/dev/zero", &exclude).unwrap();
    let (project, history) = fixture.import_all(&fixture.checkpoints()).remove(0);
    assert_eq!(project.problems[0].reason, "it is not a regular file");
    assert_eq!(history.pins.len(), 0);
}

#[test]
fn a_working_directory_with_too_long_a_path_is_refused() {
    let fixture = ImportFixture::new();
    let project = fixture.create_project("one");
    let repository = fixture.checkpoints().join("0123456789abcdef");
    fixture.commit_per_project(&repository, &project, "one");
    fs::write(repository.join("HERMES_WORKDIR"), format!("/{}\n", "x".repeat(4_096))).unwrap();
    let survey = find_projects(&fixture.checkpoints());
    assert!(survey.projects.is_empty());
    assert_eq!(survey.problems[0].reason, "names no working directory");
}

#[test]
fn only_the_newest_of_very_many_checkpoints_are_listed() {
    let fixture = ImportFixture::new();
    let project = fixture.create_project("one");
    let repository = fixture.checkpoints().join("0123456789abcdef");
    fixture.commit_per_project(&repository, &project, "one");
    let commits: String = (1..=5_001)
        .map(|number| {
            format!(
                "commit refs/heads/many\ncommitter a <a@b> {number} +0000\ndata 4\n{number:04}\n"
            )
        })
        .collect();
    let mut git = Command::new("git")
        .args(["--git-dir", repository.to_str().unwrap(), "fast-import", "--quiet"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut git.stdin.take().unwrap(), commits.as_bytes()).unwrap();
    assert!(git.wait().unwrap().success());
    fs::write(repository.join("HEAD"), "ref: refs/heads/many\n").unwrap();
    let found = find_projects(&fixture.checkpoints()).projects;
    let project = read_project(&found[0]);
    assert_eq!(project.checkpoints.len(), 5_000);
    assert_eq!(project.checkpoints.last().unwrap().reason, "5001");
    let expected = "has more than 5000 checkpoints; only the newest are imported";
    assert_eq!(project.problems[0].reason, expected);
}
