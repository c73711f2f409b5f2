//! Checkpoints of Hermes: repositories as Hermes makes them, made with git. Git also checks the
//! result.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use takeback_import::OlderHistory;
use takeback_import::hermes::{
    History, Project, ProjectHistories, Survey, find_projects, import_checkpoints, import_project,
    read_project,
};
use takeback_ledger::Time;
use takeback_tree::{CaptureOptions, Oid, Pin, Places, Reason, Rules, Store, Uncovered};
use takeback_undo::Record;

/// The prefix of a shared store's refs.
const REFS: &str = "refs/hermes/";

/// Hermes's directory of checkpoints, projects, and a store of ours.
struct Scratch {
    directory: tempfile::TempDir,
    store: Store,
}

impl Scratch {
    fn new() -> Scratch {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path().join("takeback/store")).unwrap();
        fs::create_dir(directory.path().join("checkpoints")).unwrap();
        Scratch { directory, store }
    }

    fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.directory.path()).unwrap().join(name)
    }

    fn checkpoints(&self) -> PathBuf {
        self.path("checkpoints")
    }

    /// Makes a project with a file.
    fn project(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("file"), name).unwrap();
        path
    }

    fn git(&self, settings: &[(&str, &Path)], arguments: &[&str]) -> String {
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

    /// A checkpoint in a repository of the project's own.
    fn per_project(&self, repository: &Path, project: &Path, reason: &str) -> Oid {
        let settings = [("GIT_DIR", repository), ("GIT_WORK_TREE", project)];
        if !repository.exists() {
            fs::create_dir_all(repository).unwrap();
            self.git(&settings, &["init", "-q"]);
            let named = [project.as_os_str().as_bytes(), b"\n"].concat();
            fs::write(repository.join("HERMES_WORKDIR"), named).unwrap();
            fs::write(repository.join("info/exclude"), ".env\n*.log\n").unwrap();
        }
        self.git(&settings, &["add", "-A", &format!("{}", project.display())]);
        self.git(&settings, &["commit", "-q", "--allow-empty-message", "-m", reason]);
        self.git(&settings, &["rev-parse", "HEAD"]).parse().unwrap()
    }

    /// A checkpoint in the shared store.
    fn shared(&self, project: &Path, reason: &str) -> Oid {
        let store = self.checkpoints().join("store");
        if !store.exists() {
            self.git(&[], &["init", "-q", "--bare", &store.display().to_string()]);
            fs::create_dir_all(store.join("indexes")).unwrap();
            fs::create_dir_all(store.join("projects")).unwrap();
            fs::write(store.join("info/exclude"), "# ours\n\n.env\nbuild/\n").unwrap();
        }
        let hash = hash(project);
        let metadata = serde_json::json!({"workdir": project, "created_at": 1.5, "last_touch": 2});
        let path = store.join(format!("projects/{hash}.json"));
        fs::write(path, metadata.to_string()).unwrap();
        let index = store.join("indexes").join(&hash);
        let settings =
            [("GIT_DIR", &*store), ("GIT_WORK_TREE", project), ("GIT_INDEX_FILE", &*index)];
        self.git(&settings, &["add", "-A", &project.display().to_string()]);
        let tree = self.git(&settings, &["write-tree"]);
        self.commit_tree(&tree, &hash, reason, true)
    }

    fn commit_tree(&self, tree: &str, hash: &str, reason: &str, follows: bool) -> Oid {
        let store = self.checkpoints().join("store");
        let settings = [("GIT_DIR", &*store)];
        let name = format!("{REFS}{hash}");
        let parent = self.git(&settings, &["for-each-ref", "--format=%(objectname)", &name]);
        let mut arguments = vec!["commit-tree", tree, "-m", reason];
        if follows && !parent.is_empty() {
            arguments.extend(["-p", &parent]);
        }
        let commit = self.git(&settings, &arguments);
        self.git(&settings, &["update-ref", &name, &commit]);
        commit.parse().unwrap()
    }

    /// Drops the oldest checkpoints of a project as Hermes does: all others are written anew.
    fn prune(&self, project: &Path, keep: usize) {
        let store = self.checkpoints().join("store");
        let (settings, hash) = ([("GIT_DIR", &*store)], hash(project));
        let name = format!("{REFS}{hash}");
        let commits = self.git(&settings, &["log", "--reverse", "--format=%T %s", &name]);
        let commits: Vec<&str> = commits.lines().collect();
        for (index, commit) in commits[commits.len() - keep..].iter().enumerate() {
            let (tree, reason) = commit.split_once(' ').unwrap();
            self.commit_tree(tree, &hash, reason, index > 0);
        }
        self.git(&settings, &["gc", "-q", "--prune=now"]);
    }

    /// Brings everything in that is found at a path.
    fn import(&self, path: &Path) -> Vec<(Project, OlderHistory)> {
        let survey = find_projects(path);
        assert_eq!(survey.problems, []);
        let projects = survey.projects.iter().map(read_project);
        projects
            .map(|project| {
                let added = import(&self.store, &project);
                (project, added)
            })
            .collect()
    }

    /// What the pins of the workspace at a path say, oldest first.
    fn reasons(&self, project: &Path) -> Vec<String> {
        let names = self.store.pin_names(&self.store.workspace_id(project)).unwrap();
        let pins = names.iter().map(|name| self.store.pin(name).unwrap().unwrap());
        pins.map(|pin| Record::parse(&pin.message).map_or(pin.message, |record| record.reason))
            .collect()
    }

    /// Git sees in a pin what it sees in a commit, without links to nested repositories.
    fn assert_same(&self, pin: &Pin, repository: &Path, commit: Oid) {
        let list = |repository: &Path, id: Oid| {
            let arguments = ["ls-tree", "-r", "-z", &id.to_string()];
            let listing = self.git(&[("GIT_DIR", repository)], &arguments);
            let lines = listing.split('\0').filter(|line| !line.starts_with("160000"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(list(self.store.directory(), pin.id), list(repository, commit));
    }

    fn fsck(&self) {
        let arguments = ["fsck", "--strict", "--full", "--no-dangling"];
        assert_eq!(self.git(&[("GIT_DIR", self.store.directory())], &arguments), "");
    }
}

/// As good as Hermes's own: it is never looked into.
fn hash(project: &Path) -> String {
    let name = project.file_name().unwrap().to_string_lossy();
    let digits: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("{digits:0<16}")[..16].to_owned()
}

fn import(store: &Store, project: &Project) -> OlderHistory {
    let progress = |done, total| assert!(done <= total);
    import_project(store, project, Time::from(SystemTime::now()), &progress).unwrap()
}

#[test]
fn one_repository_per_project() {
    let scratch = Scratch::new();
    let project = scratch.project("one");
    let repository = scratch.checkpoints().join("0123456789abcdef");
    let mut commits = vec![scratch.per_project(&repository, &project, "before write_file")];
    symlink("file", project.join("link")).unwrap();
    fs::write(project.join("run.sh"), "#!/bin/sh").unwrap();
    fs::set_permissions(project.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(project.join(OsStr::from_bytes(b"caf\xe9")), "").unwrap();
    fs::write(project.join("noise.log"), "").unwrap();
    scratch.git(&[], &["init", "-q", "one/nested"]);
    fs::write(project.join("nested/x"), "x").unwrap();
    scratch.git(&[], &["-C", "one/nested", "add", "x"]);
    scratch.git(&[], &["-C", "one/nested", "commit", "-qm", "x"]);
    let why = "pre-rollback snapshot (restoring to 01234567)";
    commits.push(scratch.per_project(&repository, &project, why));
    fs::write(project.join("file"), "changed").unwrap();
    commits.push(scratch.per_project(&repository, &project, ""));
    scratch.git(&[("GIT_DIR", &repository)], &["gc", "-q"]);

    let history = History { repository: repository.clone(), tip: None };
    let found = ProjectHistories { directory: project.clone(), histories: vec![history] };
    for path in [&scratch.checkpoints(), &repository, &scratch.path("")] {
        assert_eq!(find_projects(path), Survey { projects: vec![found.clone()], problems: vec![] });
    }
    // Git itself noted the directory, too.
    fs::remove_file(repository.join("HERMES_WORKDIR")).unwrap();
    assert_eq!(find_projects(&repository).projects, [found]);

    let (read, outcome) = scratch.import(&scratch.checkpoints()).pop().unwrap();
    let ids: Vec<Oid> = read.checkpoints.iter().map(|checkpoint| checkpoint.id).collect();
    assert_eq!((ids, read.problems), (commits.clone(), vec![]));
    assert_eq!((outcome.pins.len(), outcome.known, outcome.skipped.len()), (3, 0, 0));
    assert_eq!(scratch.reasons(&project), ["before write_file", why, "imported"]);
    scratch.fsck();
    for (pin, commit) in outcome.pins.iter().zip(commits) {
        scratch.assert_same(pin, &repository, commit);
    }
    let again = scratch.import(&scratch.checkpoints()).pop().unwrap().1;
    assert_eq!((again.pins, again.known), (vec![], 3));
}

#[test]
fn what_is_left_out_is_told() {
    let scratch = Scratch::new();
    let project = scratch.project("one");
    scratch.git(&[], &["init", "-q", "one/nested"]);
    scratch.git(&[], &["-C", "one/nested", "commit", "-q", "--allow-empty", "-m", "x"]);
    scratch.per_project(&scratch.checkpoints().join("a"), &project, "x");
    scratch.shared(&project, "y");
    let added = scratch.import(&scratch.checkpoints()).pop().unwrap().1;
    let pins = added.pins.iter();
    let records: Vec<Record> = pins.map(|pin| Record::parse(&pin.message).unwrap()).collect();
    assert_eq!(records.len(), 2);
    let nested = takeback_tree::RelPath::new("nested").unwrap();
    for (record, pin) in records.iter().zip(&added.pins) {
        assert_eq!(record.seq, pin.name.seq);
        assert_eq!(record.uncovered, [Uncovered { path: nested.clone(), reason: Reason::Nested }]);
        assert_eq!(record.files, Some(1));
    }
    assert_eq!(records[0].filter.rules.exclude, [".env", "*.log"]);
    assert_eq!(records[1].filter.rules.exclude, [".env", "build/"]);
}

#[test]
fn three_projects_in_a_shared_store() {
    let scratch = Scratch::new();
    let projects = ["one", "two", "three"].map(|name| scratch.project(name));
    let mut commits = Vec::new();
    for round in 0..4 {
        for project in &projects {
            fs::write(project.join("file"), format!("{round}")).unwrap();
            commits.push(scratch.shared(project, &format!("before {round}")));
        }
    }
    let store = scratch.checkpoints().join("store");
    scratch.git(&[("GIT_DIR", &store)], &["gc", "-q"]);
    commits.push(scratch.shared(&projects[0], "loose"));
    // A killed git leaves its lock file, and a project that is gone leaves its history.
    fs::write(store.join("refs/hermes/0123.lock"), "").unwrap();
    fs::remove_dir_all(&projects[2]).unwrap();

    let all = scratch.import(&scratch.checkpoints());
    let directories: Vec<&PathBuf> = all.iter().map(|(project, _)| &project.directory).collect();
    assert_eq!(directories, [&projects[0], &projects[2], &projects[1]]);
    scratch.fsck();
    for (project, outcome) in &all {
        for (pin, snapshot) in outcome.pins.iter().zip(&project.checkpoints) {
            scratch.assert_same(pin, &store, snapshot.id);
        }
    }
    let counts = all.iter().map(|(_, outcome)| outcome.pins.len()).collect::<Vec<_>>();
    assert_eq!(counts, [5, 4, 4]);
    let info = scratch.store.workspace_info(&scratch.store.workspace_id(&projects[2]));
    assert_eq!(info.unwrap().unwrap().path.0, projects[2]);
    assert!(scratch.import(&store).iter().all(|(_, outcome)| outcome.pins.is_empty()));
}

#[test]
fn checkpoints_that_hermes_wrote_anew_are_known_again() {
    let scratch = Scratch::new();
    let project = scratch.project("one");
    let take = |content: &str, reason: &str| {
        fs::write(project.join("file"), content).unwrap();
        scratch.shared(&project, reason);
    };
    take("a", "before terminal: one\ntwo");
    take("b", "same");
    take("a", "same");
    take("b", "same");
    scratch.import(&scratch.checkpoints());
    take("c", "new");
    scratch.prune(&project, 3);
    take("d", "newer");
    let outcome = scratch.import(&scratch.checkpoints()).pop().unwrap().1;
    assert_eq!((outcome.pins.len(), outcome.known), (2, 2));
    let all = ["before terminal: one\ntwo", "same", "same", "same", "new", "newer"];
    assert_eq!(scratch.reasons(&project), all);
    // Nothing is left of what is known: it can only have come later.
    take("e", "newest");
    scratch.prune(&project, 1);
    scratch.import(&scratch.checkpoints());
    assert_eq!(scratch.reasons(&project).last().unwrap(), "newest");
    scratch.fsck();
}

#[test]
fn archives_are_older_than_what_came_after_them() {
    let scratch = Scratch::new();
    let project = scratch.project("one");
    let checkpoints = scratch.checkpoints();
    let take = |repository: &str, content: &str| {
        fs::write(project.join("file"), content).unwrap();
        scratch.per_project(&checkpoints.join(repository), &project, content);
    };
    take("legacy-20260101-000000/0123456789abcdef", "1");
    take("legacy-20260101-000000/0123456789abcdef", "2");
    take("legacy-20260202-000000/0123456789abcdef", "3");
    take("0123456789abcdef", "4");
    fs::write(project.join("file"), "5").unwrap();
    scratch.shared(&project, "5");

    let archive = checkpoints.join("legacy-20260101-000000");
    assert_eq!(find_projects(&archive).projects[0].histories.len(), 1);
    // Only a part at first: the rest finds its place.
    scratch.import(&checkpoints.join("legacy-20260202-000000"));
    scratch.import(&checkpoints);
    assert_eq!(scratch.reasons(&project), ["1", "2", "3", "4", "5"]);
    scratch.fsck();
}

#[test]
fn our_own_checkpoints_stay_the_newest() {
    let scratch = Scratch::new();
    let project = scratch.project("one");
    scratch.shared(&project, "old");
    let pin = |message: &str| {
        let workspace = scratch.store.workspace(&project, &Places::default()).unwrap();
        let mut lock = workspace.lock().unwrap();
        let (rules, now) = (Rules::default(), SystemTime::now());
        let options = CaptureOptions { rules: &rules, named: &[], now };
        let capture = lock.capture(&options).unwrap();
        lock.pin(capture.tree, now, message).unwrap();
        lock.finish(now).unwrap();
    };
    pin("own 1");
    pin("own 2");
    let outcome = scratch.import(&scratch.checkpoints()).pop().unwrap().1;
    assert_eq!(outcome.pins[0].name.seq, 1);
    pin("own 3");
    fs::write(project.join("file"), "changed").unwrap();
    scratch.shared(&project, "later");
    scratch.import(&scratch.checkpoints());
    assert_eq!(scratch.reasons(&project), ["old", "later", "own 1", "own 2", "own 3"]);
    scratch.fsck();
}

#[test]
fn one_damaged_checkpoint_costs_no_other() {
    let scratch = Scratch::new();
    let project = scratch.project("one");
    for round in 0..4 {
        fs::write(project.join("file"), format!("content {round}")).unwrap();
        scratch.shared(&project, &format!("{round}"));
    }
    let store = scratch.checkpoints().join("store");
    let remove = |what: &str| {
        let revision = format!("{REFS}{}{what}", hash(&project));
        let id = scratch.git(&[("GIT_DIR", &store)], &["rev-parse", &revision]);
        fs::remove_file(store.join("objects").join(&id[..2]).join(&id[2..])).unwrap();
    };
    remove("~1:file");
    let (project_read, outcome) = scratch.import(&scratch.checkpoints()).pop().unwrap();
    assert_eq!(scratch.reasons(&project), ["0", "1", "3"]);
    assert_eq!(outcome.skipped.len(), 1);
    let skipped = project_read.checkpoints.iter().find(|known| known.id == outcome.skipped[0].id);
    assert_eq!(skipped.unwrap().reason, "2");
    assert!(outcome.skipped[0].problem.contains("is missing"));
    scratch.fsck();
    // It comes to its place when it can be had.
    fs::write(project.join("file"), "content 2").unwrap();
    scratch.git(&[("GIT_DIR", &store)], &["hash-object", "-w", "one/file"]);
    scratch.import(&scratch.checkpoints());
    assert_eq!(scratch.reasons(&project), ["0", "1", "2", "3"]);

    remove("~2^0");
    let project = read_project(&find_projects(&scratch.checkpoints()).projects[0]);
    assert_eq!((project.checkpoints.len(), project.problems.len()), (2, 1));
}

#[test]
fn what_cannot_be_read_is_told() {
    let scratch = Scratch::new();
    let project = scratch.project("one");
    scratch.shared(&project, "x");
    scratch.shared(&scratch.project("two"), "x");
    scratch.git(&[], &["init", "-q", "--bare", "--object-format=sha256", "checkpoints/aaaa"]);
    scratch.git(&[], &["init", "-q", "--bare", "checkpoints/bbbb"]);
    let metadata = scratch.checkpoints().join(format!("store/projects/{}.json", hash(&project)));
    fs::write(&metadata, "{}").unwrap();
    let survey = find_projects(&scratch.checkpoints());
    assert_eq!(survey.projects.len(), 1);
    let paths: Vec<&Path> = survey.problems.iter().map(|problem| &*problem.path).collect();
    let checkpoints = scratch.checkpoints();
    let unknown = checkpoints.join("bbbb/HERMES_WORKDIR");
    assert_eq!(paths, [&checkpoints.join("aaaa"), &unknown, &metadata]);
    assert!(survey.problems[0].reason.contains("sha256"));
    assert_eq!(find_projects(&scratch.path("nowhere")).problems.len(), 1);
    assert_eq!(find_projects(&project), Survey::default());
}

#[test]
fn an_archive_with_two_repositories_of_a_project_is_found() {
    let scratch = Scratch::new();
    let project = scratch.project("one");
    let archive = scratch.path("takeback/legacy-20260304-050607");
    for name in ["0123456789abcdef", "fedcba9876543210"] {
        scratch.per_project(&archive.join(name), &project, "x");
    }
    let found = find_projects(&archive);
    assert_eq!(found.problems, []);
    assert_eq!(found.projects[0].histories.len(), 2);
}

#[test]
fn the_report_counts_checkpoints_per_project() {
    let scratch = Scratch::new();
    let project = scratch.project("one");
    scratch.shared(&project, "a");
    scratch.git(&[], &["init", "-q", "--bare", "checkpoints/bbbb"]);
    let now = Time::from(SystemTime::now());
    for (new, known) in [(1, 0), (0, 1)] {
        let report =
            import_checkpoints(&scratch.store, &scratch.checkpoints(), now, &|_, _| {}).unwrap();
        assert_eq!(report.projects.len(), 1);
        let found = &report.projects[0];
        assert_eq!(found.path.0, project);
        assert_eq!((found.checkpoints, found.known, found.skipped.len()), (new, known, 0));
        assert_eq!(report.problems.len(), 1);
        assert!(report.problems[0].contains("bbbb/HERMES_WORKDIR: "), "{:?}", report.problems);
    }
}
