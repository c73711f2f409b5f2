//! Editing trees, compared with git and with a plain map.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use proptest::prelude::*;
use takeback_tree::{
    CaptureOptions, EditError, ForbiddenRoots, Mode, NewContent, NewEntry, ObjectError, ObjectKind,
    Oid, PathChange, RelPath, Store, TreeEdit,
};

use crate::support::{Scratch, rel};

fn edit(scratch: &Scratch, tree: Oid, edits: &[TreeEdit]) -> Result<Oid, EditError> {
    let workspace = scratch.store.workspace(&scratch.root, &ForbiddenRoots::default()).unwrap();
    let mut lock = workspace.lock().unwrap();
    let tree = lock.edit_tree(tree, edits)?;
    // The tree can be read immediately, even by other processes.
    Store::open(scratch.store.directory()).unwrap().find_entry(&tree, &RelPath::root()).unwrap();
    lock.pin(tree, SystemTime::now(), "edited\n").unwrap();
    lock.finish(SystemTime::now()).unwrap();
    Ok(tree)
}

fn write(path: &str, content: &str) -> TreeEdit {
    let content = NewContent::Bytes(content.into());
    TreeEdit { path: rel(path), to: Some(NewEntry { mode: Mode::file(0o644), content }) }
}

fn place(path: &str, mode: Mode, oid: Oid) -> TreeEdit {
    TreeEdit { path: rel(path), to: Some(NewEntry { mode, content: NewContent::Object(oid) }) }
}

fn remove(path: &str) -> TreeEdit {
    TreeEdit { path: rel(path), to: None }
}

/// Lists `mode path content-or-nothing` for everything in a tree, as git reads it.
fn listing(scratch: &Scratch, tree: Oid) -> Vec<String> {
    let entries = scratch.raw_tree(tree).into_iter();
    let line = |(path, (mode, oid)): (Vec<u8>, (String, String))| {
        let path = String::from_utf8(path).unwrap();
        let is_directory = mode.starts_with('4');
        let content = if is_directory { vec![] } else { scratch.git(&["cat-file", "blob", &oid]) };
        format!("{mode} {path} {}", String::from_utf8(content).unwrap()).trim_end().to_owned()
    };
    entries.map(line).collect()
}

#[test]
fn paths_can_be_added_and_changed_and_removed() {
    let scratch = Scratch::new();
    scratch.write("a", "1");
    scratch.write("d/one", "1");
    scratch.write("d/e/two", "2");
    scratch.chmod("d", 0o700);
    scratch.mkdir("empty/inner");
    scratch.link("a", "link");
    let tree = scratch.capture().tree;
    let two = Oid::of(ObjectKind::Blob, b"2");
    let edited = edit(
        &scratch,
        tree,
        &[
            write("a", "changed"),
            write("new/deep/file", "x"),
            remove("d/e/two"),
            remove("nowhere/at/all"),
            remove("a/below/a/file"),
            place("copy", Mode::file(0o4755), two),
            write("empty/inner/file", "y"),
            remove("empty/inner/file"),
            TreeEdit {
                path: rel("link"),
                to: Some(NewEntry { mode: Mode::SYMLINK, content: NewContent::Bytes("d".into()) }),
            },
        ],
    );
    assert_eq!(
        listing(&scratch, edited.unwrap()),
        [
            "100644 a changed",
            "104755 copy 2",
            "40700 d",
            "100644 d/one 1",
            "40755 empty",
            "40755 empty/inner",
            "120000 link d",
            "40755 new",
            "40755 new/deep",
            "100644 new/deep/file x",
        ]
    );
    assert_eq!(edit(&scratch, tree, &[]).unwrap(), tree);
    assert_eq!(edit(&scratch, tree, &[write("a", "1")]).unwrap(), tree);
    scratch.fsck();
}

#[test]
fn directories_that_become_empty_are_removed() {
    let scratch = Scratch::new();
    scratch.write("d/e/f/file", "1");
    scratch.mkdir("empty");
    scratch.chmod("d/e", 0o700);
    let tree = scratch.capture().tree;
    let list = |edits: &[TreeEdit]| listing(&scratch, edit(&scratch, tree, edits).unwrap());
    assert_eq!(list(&[remove("d/e/f/file")]), ["40755 empty"]);
    assert_eq!(list(&[remove("d/e/f")]), ["40755 empty"]);
    assert_eq!(list(&[remove("empty")]).len(), 4);
    assert_eq!(list(&[remove("d"), remove("empty")]), [""; 0]);
    // A directory keeps its mode if another file is added to it.
    assert_eq!(
        list(&[remove("d/e/f/file"), write("d/e/other", "2"), remove("empty")]),
        ["40755 d", "40700 d/e", "100644 d/e/other 2"]
    );
    // A file can replace a directory, and vice versa.
    assert_eq!(
        list(&[remove("d/e/f/file"), write("d/e", "a file")]),
        ["40755 d", "100644 d/e a file", "40755 empty"]
    );
    assert_eq!(
        list(&[write("d", "a file"), remove("d"), write("d/x", "x"), remove("empty")]),
        ["40755 d", "100644 d/x x"]
    );
    let empty = place("d/e/none", Mode::directory(0o711), Oid::EMPTY_TREE);
    assert_eq!(
        list(&[empty, remove("d/e/f"), remove("empty")]),
        ["40755 d", "40700 d/e", "40711 d/e/none"]
    );
    scratch.fsck();
}

#[test]
fn impossible_edits_are_refused() {
    let scratch = Scratch::new();
    scratch.write("file", "1");
    scratch.link("file", "link");
    scratch.mkdir("d");
    let tree = scratch.capture().tree;
    let refused = |edits: &[TreeEdit]| edit(&scratch, tree, edits).unwrap_err();
    for parent in ["file", "link"] {
        let path = format!("{parent}/a/b");
        let error = refused(&[write(&path, "")]);
        let EditError::InTheWay { path: told, parent: way } = error else { panic!("{error}") };
        assert_eq!((told, way), (rel(&path), rel(parent)));
    }
    for path in ["", ".git", "d/.git/config"] {
        assert!(matches!(refused(&[write(path, "")]), EditError::Path(_)));
        assert!(matches!(refused(&[remove(path)]), EditError::Path(_)));
    }
    let file = Oid::of(ObjectKind::Blob, b"1");
    for (mode, content) in [
        (Mode(0o160_000), NewContent::Object(file)),
        (Mode(0o644), NewContent::Object(file)),
        (Mode(0o120_777), NewContent::Object(file)),
        (Mode::directory(0o755), NewContent::Bytes(Vec::new())),
    ] {
        let edit = TreeEdit { path: rel("x"), to: Some(NewEntry { mode, content }) };
        assert!(matches!(refused(&[edit]), EditError::Mode { .. }));
    }
    let wrong = [
        place("x", Mode::directory(0o755), file),
        place("x", Mode::file(0o644), tree),
        place("x", Mode::SYMLINK, tree),
    ];
    for edit in wrong {
        assert!(matches!(refused(&[edit]), EditError::Object(ObjectError::WrongKind(..))));
    }
    let missing = place("x", Mode::file(0o644), Oid::of(ObjectKind::Blob, b"nowhere"));
    assert!(matches!(refused(&[missing]), EditError::Object(ObjectError::Missing(_))));
    let nowhere = edit(&scratch, Oid::of(ObjectKind::Tree, b"nowhere"), &[]);
    assert!(matches!(nowhere, Err(EditError::Object(ObjectError::Missing(_)))));
}

#[test]
fn a_tree_that_was_just_captured_can_be_edited() {
    let scratch = Scratch::new();
    scratch.write("a", "1");
    let workspace = scratch.store.workspace(&scratch.root, &ForbiddenRoots::default()).unwrap();
    let mut lock = workspace.lock().unwrap();
    let now = SystemTime::now();
    let options = CaptureOptions { rules: &scratch.rules, named: &[], swept: &[], now };
    let tree = lock.capture(&options).unwrap().tree;
    let edited = lock.edit_tree(tree, &[write("b", "2")]).unwrap();
    assert_eq!(scratch.files(edited), ["a", "b"]);
    let one = Oid::of(ObjectKind::Blob, b"1");
    assert_eq!(
        scratch.store.find_entry(&edited, &rel("a")).unwrap(),
        Some((Mode::file(0o644), one))
    );
    assert_eq!(scratch.store.find_entry(&edited, &rel("a/b")).unwrap(), None);
    assert_eq!(scratch.store.find_entry(&edited, &rel("c")).unwrap(), None);
    let two = Some((Mode::file(0o644), Oid::of(ObjectKind::Blob, b"2")));
    assert_eq!(
        scratch.store.changed_paths(&tree, &edited).unwrap(),
        [PathChange { path: rel("b"), from: None, to: two }]
    );
}

#[test]
fn an_empty_directory_can_be_added() {
    let scratch = Scratch::new();
    scratch.write("file", "1");
    let tree = scratch.capture().tree;
    let empty = place("d/none", Mode::directory(0o711), Oid::EMPTY_TREE);
    let edited = edit(&scratch, tree, &[empty]).unwrap();
    let expected = ["40755 d", "40711 d/none", "100644 file 1"];
    assert_eq!(listing(&scratch, edited), expected);
    scratch.fsck();
}

#[test]
fn paths_of_any_depth_can_be_edited() {
    let scratch = Scratch::in_memory();
    let tree = scratch.capture().tree;
    let path = ["d"; 3000].join("/");
    let deep = edit(&scratch, tree, &[write(&path, "x")]).unwrap();
    assert!(scratch.store.find_entry(&deep, &rel(&path)).unwrap().is_some());
    assert_eq!(edit(&scratch, deep, &[remove(&path)]).unwrap(), Oid::EMPTY_TREE);
}

/// A plain map to which edits are applied.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    /// The mode and content by path. Directories have no content.
    entries: BTreeMap<String, (Mode, Option<String>)>,
    born_empty: BTreeSet<String>,
}

impl Model {
    fn read(scratch: &Scratch, tree: Oid) -> Model {
        let mut model = Model::default();
        for (path, (mode, oid)) in scratch.raw_tree(tree) {
            let mode = Mode(u32::from_str_radix(&mode, 8).unwrap());
            let content = (!mode.is_directory()).then(|| {
                let blob = scratch.store.blob(&oid.parse().unwrap()).unwrap();
                String::from_utf8(blob).unwrap()
            });
            model.entries.insert(String::from_utf8(path).unwrap(), (mode, content));
        }
        let is_empty = |path: &&String| model.children(path) == 0;
        let directories = model.entries.iter().filter(|(_, (mode, _))| mode.is_directory());
        model.born_empty = directories.map(|(path, _)| path).filter(is_empty).cloned().collect();
        model
    }

    fn children(&self, path: &str) -> usize {
        self.entries.keys().filter(|other| other.starts_with(&format!("{path}/"))).count()
    }

    fn clear(&mut self, path: &str) {
        let stays = |other: &str| other != path && !other.starts_with(&format!("{path}/"));
        self.entries.retain(|other, _| stays(other));
        self.born_empty.retain(|other| stays(other));
    }

    /// Puts an entry at a path. Returns false if another entry is in the way.
    fn place(&mut self, path: &str, what: &Model, mode: Mode, content: Option<String>) -> bool {
        for (end, _) in path.match_indices('/') {
            let parent = &path[..end];
            let made = (Mode::directory(0o755), None);
            let found = self.entries.entry(parent.to_owned()).or_insert(made);
            if !found.0.is_directory() {
                return false;
            }
        }
        self.clear(path);
        if mode.is_directory() && what.entries.is_empty() {
            self.born_empty.insert(path.to_owned());
        }
        self.entries.insert(path.to_owned(), (mode, content));
        for (below, entry) in &what.entries {
            self.entries.insert(format!("{path}/{below}"), entry.clone());
        }
        self.born_empty.extend(what.born_empty.iter().map(|below| format!("{path}/{below}")));
        true
    }

    fn prune(&mut self) {
        loop {
            let is_gone = |(path, (mode, _)): &(&String, &(Mode, Option<String>))| {
                let is_empty = mode.is_directory() && self.children(path) == 0;
                is_empty && !self.born_empty.contains(*path)
            };
            let gone: Vec<String> =
                self.entries.iter().filter(is_gone).map(|(path, _)| path.clone()).collect();
            if gone.is_empty() {
                return;
            }
            gone.iter().for_each(|path| drop(self.entries.remove(path)));
        }
    }
}

#[derive(Clone, Debug)]
enum Act {
    Write(String, u32, String),
    Link(String, String),
    /// Copies an entry of the original tree to the first path: the entry at the second path, or the
    /// root if there is no second path.
    Copy(String, Option<String>),
    Remove(String),
}

fn any_path() -> impl Strategy<Value = String> {
    // Some names sort just before or after a slash, so git's order of entries matters.
    let name = prop::sample::select(vec!["a", "a.b", "a0", "b", "c"]);
    prop::collection::vec(name, 1..4).prop_map(|names| names.join("/"))
}

fn any_acts() -> impl Strategy<Value = Vec<Act>> {
    let content = "[xyz]{0,3}";
    let mode = prop::sample::select(vec![0o600u32, 0o644, 0o755]);
    let act = prop_oneof![
        4 => (any_path(), mode, content).prop_map(|(path, mode, text)| Act::Write(path, mode, text)),
        1 => (any_path(), "[xyz]{1,3}").prop_map(|(path, to)| Act::Link(path, to)),
        1 => (any_path(), prop::option::of(any_path())).prop_map(|(path, from)| Act::Copy(path, from)),
        3 => any_path().prop_map(Act::Remove),
    ];
    prop::collection::vec(act, 0..12)
}

/// Turns an act into an edit and applies the edit to the model. Returns the edit, and a flag that
/// is true if the edit is possible.
fn act(scratch: &Scratch, tree: Oid, model: &mut Model, act: &Act) -> Option<(TreeEdit, bool)> {
    let done = match act {
        Act::Write(path, mode, text) => {
            let (mode, content) = (Mode::file(*mode), NewContent::Bytes(text.clone().into()));
            let edit = TreeEdit { path: rel(path), to: Some(NewEntry { mode, content }) };
            (edit, model.place(path, &Model::default(), mode, Some(text.clone())))
        }
        Act::Link(path, to) => {
            let (mode, content) = (Mode::SYMLINK, NewContent::Bytes(to.clone().into()));
            let edit = TreeEdit { path: rel(path), to: Some(NewEntry { mode, content }) };
            (edit, model.place(path, &Model::default(), mode, Some(to.clone())))
        }
        Act::Copy(path, from) => {
            let from = from.as_ref().map_or(RelPath::root(), |from| rel(from));
            let (mode, oid) = scratch.store.find_entry(&tree, &from).unwrap()?;
            if mode.is_directory() {
                let inside = Model::read(scratch, oid);
                let mode = Mode::directory(0o711);
                (place(path, mode, oid), model.place(path, &inside, mode, None))
            } else {
                let text = String::from_utf8(scratch.store.blob(&oid).unwrap()).unwrap();
                let placed = model.place(path, &Model::default(), mode, Some(text));
                (place(path, mode, oid), placed)
            }
        }
        Act::Remove(path) => {
            let has = model.entries.contains_key(path);
            if has {
                model.clear(path);
            }
            (remove(path), true)
        }
    };
    Some(done)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn edits_have_the_same_effect_as_on_a_plain_map(first in any_acts(), second in any_acts()) {
        let scratch = Scratch::in_memory();
        scratch.mkdir("c/a");
        let mut tree = scratch.capture().tree;
        for acts in [first, second] {
            let mut model = Model::read(&scratch, tree);
            let (mut edits, mut is_possible) = (Vec::new(), true);
            for one in &acts {
                let Some((edit, placed)) = act(&scratch, tree, &mut model, one) else { continue };
                edits.push(edit);
                is_possible &= placed;
                if !placed {
                    break;
                }
            }
            let edited = edit(&scratch, tree, &edits);
            if !is_possible {
                let in_the_way = matches!(edited, Err(EditError::InTheWay { .. }));
                prop_assert!(in_the_way, "{edited:?}");
                continue;
            }
            let edited = edited.unwrap();
            model.prune();
            prop_assert_eq!(&Model::read(&scratch, edited).entries, &model.entries);
            // Git must list the same files.
            let files: Vec<String> = model.entries.iter()
                .filter(|(_, (mode, _))| !mode.is_directory())
                .map(|(path, _)| path.clone())
                .collect();
            let mut listed = scratch.files(edited);
            listed.sort();
            prop_assert_eq!(listed, files);
            check_changes(&scratch, tree, edited)?;
            tree = edited;
        }
        scratch.fsck();
    }
}

/// Checks that the changed paths are those that differ in plain listings.
fn check_changes(scratch: &Scratch, from: Oid, to: Oid) -> Result<(), TestCaseError> {
    let plain = |tree: Oid| -> BTreeMap<RelPath, (Mode, Oid)> {
        let entries = scratch.raw_tree(tree).into_iter();
        entries
            .map(|(path, (mode, oid))| {
                let mode = Mode(u32::from_str_radix(&mode, 8).unwrap());
                (RelPath::new(path).unwrap(), (mode, oid.parse().unwrap()))
            })
            .collect()
    };
    let (one, other) = (plain(from), plain(to));
    let paths: BTreeSet<&RelPath> = one.keys().chain(other.keys()).collect();
    let mut expected = Vec::new();
    for path in paths {
        let (from, to) = (one.get(path).copied(), other.get(path).copied());
        let same = match (from, to) {
            // Paths inside a directory are listed separately.
            (Some(from), Some(to)) if from.0.is_directory() => from.0 == to.0,
            _ => from == to,
        };
        if !same {
            expected.push(PathChange { path: path.clone(), from, to });
        }
    }
    prop_assert_eq!(scratch.store.changed_paths(&from, &to).unwrap(), expected);
    for (path, found) in &other {
        prop_assert_eq!(scratch.store.find_entry(&to, path).unwrap(), Some(*found));
    }
    Ok(())
}
