//! A bounded view of the file system. The bounds keep a hook fast in large directories.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use takeback_base::foreign;
use takeback_base::paths::{canonicalize_existing, normalize};

/// The maximum number of directory entries that are read for one script.
const MAX_ENTRIES: usize = 10_000;

/// The maximum number of paths that are looked up for one script.
const MAX_LOOKUPS: usize = 10_000;

/// The maximum size of a file whose text is read, in bytes.
const MAX_TEXT: u64 = 64 * 1024;

/// The maximum number of links that are listed below a directory.
const MAX_LINKS: usize = 100;

/// The maximum depth of a search.
const MAX_LEVELS: usize = 64;

#[derive(Clone)]
pub(super) struct Entry {
    pub(super) name: OsString,
    pub(super) is_directory: bool,
}

/// A view of the file system. `entries` and `lookups` say how many more directory entries may be
/// read, and how many more paths may be looked up.
pub(super) struct FileSystem {
    entries: usize,
    lookups: usize,
    listings: HashMap<PathBuf, Rc<Vec<Entry>>>,
    resolved: HashMap<PathBuf, PathBuf>,
    /// The names that the script creates, by directory.
    created: HashMap<PathBuf, BTreeSet<OsString>>,
    /// The paths that the script writes. If such a path is a directory, its content is unknown.
    written: HashSet<PathBuf>,
    /// True if a search skipped a directory that may contain matches.
    pub(super) has_skipped: bool,
}

impl FileSystem {
    pub(super) fn new() -> FileSystem {
        FileSystem {
            entries: MAX_ENTRIES,
            lookups: MAX_LOOKUPS,
            listings: HashMap::new(),
            resolved: HashMap::new(),
            created: HashMap::new(),
            written: HashSet::new(),
            has_skipped: false,
        }
    }

    /// Returns true once no lookups are left.
    pub(super) fn is_exhausted(&self) -> bool {
        self.lookups == 0
    }

    /// Records a path that the script may create.
    pub(super) fn note_created(&mut self, path: &Path) {
        if let (Some(parent), Some(name)) = (path.parent(), path.file_name())
            && !self.exists(path)
        {
            self.created.entry(parent.to_owned()).or_default().insert(name.to_owned());
        }
    }

    /// Records a path that the script writes, perhaps with everything below it.
    pub(super) fn note_written(&mut self, path: &Path) {
        self.note_created(path);
        let is_file = |path: &Path| fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
        if self.look_up().is_none() || !is_file(path) {
            self.written.insert(path.to_owned());
        }
    }

    /// Returns true if the script may have changed the content of a directory in an unknown way.
    pub(super) fn is_written(&mut self, directory: &Path) -> bool {
        if self.written.is_empty() {
            return false;
        }
        // The directory itself may be a link that the script replaced.
        let paths = [normalize(directory), self.resolve_directory(directory)];
        paths.iter().flat_map(|path| path.ancestors()).any(|path| self.written.contains(path))
    }

    /// Resolves all links in the path of a directory.
    fn resolve_directory(&mut self, directory: &Path) -> PathBuf {
        let mut inner = self.resolve(&directory.join("x"));
        inner.pop();
        inner
    }

    /// Lists a directory, including the entries that the script creates. Returns `None` if the
    /// directory has too many entries, or if its content is unknown. A directory that cannot be
    /// read counts as empty.
    pub(super) fn list(&mut self, directory: &Path) -> Option<Rc<Vec<Entry>>> {
        if self.is_written(directory) {
            return None;
        }
        let listing = self.list_existing(directory)?;
        if self.created.is_empty() {
            return Some(listing);
        }
        let directory = self.resolve_directory(directory);
        let Some(names) = self.created.get(&directory) else { return Some(listing) };
        let created = names.iter().map(|name| {
            let path = directory.join(name);
            let is_directory = self.created.contains_key(&path) || self.written.contains(&path);
            Entry { name: name.clone(), is_directory }
        });
        let existing = listing.iter().map(Entry::clone);
        Some(Rc::new(existing.chain(created).collect()))
    }

    fn list_existing(&mut self, directory: &Path) -> Option<Rc<Vec<Entry>>> {
        if let Some(listing) = self.listings.get(directory) {
            return Some(Rc::clone(listing));
        }
        self.look_up()?;
        let mut listing = Vec::new();
        if let Ok(entries) = fs::read_dir(directory) {
            for entry in entries.flatten() {
                self.entries = self.entries.checked_sub(1)?;
                let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
                listing.push(Entry { name: entry.file_name(), is_directory });
            }
        }
        listing.sort_by(|a, b| a.name.cmp(&b.name));
        let listing = Rc::new(listing);
        self.listings.insert(directory.to_owned(), Rc::clone(&listing));
        Some(listing)
    }

    fn look_up(&mut self) -> Option<()> {
        self.lookups = self.lookups.checked_sub(1)?;
        Some(())
    }

    /// Returns true if the path exists, even as a broken link. Once no lookups are left, returns
    /// true for every path.
    pub(super) fn exists(&mut self, path: &Path) -> bool {
        self.look_up().is_none() || fs::symlink_metadata(path).is_ok()
    }

    pub(super) fn is_directory(&mut self, path: &Path) -> bool {
        self.look_up().is_some() && path.is_dir()
    }

    /// Returns the directory that `cd` enters, or `None` if `cd` fails. `..` removes the name
    /// before it, which must be the name of an existing directory.
    pub(super) fn find_logical(&mut self, path: &Path) -> Option<PathBuf> {
        let mut logical = PathBuf::new();
        for component in path.components() {
            if component == Component::ParentDir {
                if !self.is_directory(&logical) {
                    return None;
                }
                logical.pop();
            } else if component != Component::CurDir {
                logical.push(component);
            }
        }
        self.is_directory(&logical).then_some(logical)
    }

    /// Reads a small text file.
    pub(super) fn read_text(&mut self, path: &Path) -> Option<String> {
        self.look_up()?;
        String::from_utf8(foreign::read_regular(path, MAX_TEXT).ok()?).ok()
    }

    /// Resolves symlinks and `..` in the existing part of a path's parent, as the kernel does.
    /// A link at the end is not followed.
    pub(super) fn resolve(&mut self, path: &Path) -> PathBuf {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return normalize(&canonicalize_existing(path));
        };
        if let Some(resolved) = self.resolved.get(parent) {
            return resolved.join(name);
        }
        let resolved = match self.look_up() {
            Some(()) => normalize(&canonicalize_existing(parent)),
            None => normalize(parent),
        };
        self.resolved.insert(parent.to_owned(), resolved.clone());
        resolved.join(name)
    }

    /// Returns the target of a link, with all links resolved.
    pub(super) fn follow(&mut self, path: &Path) -> Option<PathBuf> {
        self.look_up()?;
        fs::symlink_metadata(path).ok().filter(fs::Metadata::is_symlink)?;
        Some(normalize(&canonicalize_existing(path)))
    }

    /// Returns the target of a link, as written.
    pub(super) fn read_link(&mut self, path: &Path) -> Option<PathBuf> {
        self.look_up()?;
        fs::read_link(path).ok()
    }

    /// Finds the links below a directory. Returns `None` if there are too many files to check.
    pub(super) fn find_links(&mut self, directory: &Path) -> Option<Vec<PathBuf>> {
        let is_link =
            |path: &Path| fs::symlink_metadata(path).is_ok_and(|entry| entry.is_symlink());
        let is_match = |_: &str, path: &str| is_link(&directory.join(path));
        self.search_listed(directory, usize::MAX, MAX_LINKS, true, &is_match)
    }

    /// Finds the entries of a directory whose names start with `start`. Returns `None` if the
    /// directory cannot be listed.
    pub(super) fn find_prefixed(&mut self, directory: &Path, start: &str) -> Option<Vec<PathBuf>> {
        let listing = self.list(directory)?;
        let is_match = |entry: &&Entry| entry.name.as_bytes().starts_with(start.as_bytes());
        Some(listing.iter().filter(is_match).map(|entry| directory.join(&entry.name)).collect())
    }

    /// Finds the paths below `root` for which `is_match` returns true. The arguments of `is_match`
    /// are the name and the path relative to `root`. Skips `node_modules` and git's objects.
    pub(super) fn search(
        &mut self,
        root: &Path,
        max_depth: usize,
        max_matches: usize,
        is_match: &dyn Fn(&str, &str) -> bool,
    ) -> Option<Vec<PathBuf>> {
        self.search_listed(root, max_depth, max_matches, false, is_match)
    }

    fn search_listed(
        &mut self,
        root: &Path,
        max_depth: usize,
        max_matches: usize,
        ignores_changes: bool,
        is_match: &dyn Fn(&str, &str) -> bool,
    ) -> Option<Vec<PathBuf>> {
        let mut found = Vec::new();
        let mut open = vec![(PathBuf::new(), 0usize)];
        while let Some((relative, depth)) = open.pop() {
            if depth > MAX_LEVELS {
                return None;
            }
            let listing = match ignores_changes {
                true => self.list_existing(&root.join(&relative))?,
                false => self.list(&root.join(&relative))?,
            };
            for entry in listing.iter() {
                let path = relative.join(&entry.name);
                let name = entry.name.to_str();
                let accepted = match (name, path.to_str()) {
                    (Some(name), Some(path)) => is_match(name, path),
                    _ => true,
                };
                if accepted {
                    found.push(path.clone());
                }
                let is_skipped = name == Some("node_modules") || path.ends_with(".git/objects");
                if entry.is_directory && depth + 1 < max_depth {
                    // Skipping git's object files is not recorded, because no script refers to them
                    // by name.
                    self.has_skipped |= name == Some("node_modules");
                    if !is_skipped {
                        open.push((path, depth + 1));
                    }
                }
            }
            if found.len() > max_matches {
                return None;
            }
        }
        found.sort();
        Some(found)
    }
}
