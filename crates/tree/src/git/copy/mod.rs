//! Copying the repository of a work tree into a new directory, so that git also works there.
//!
//! The copy is independent of the original: it has its own refs, index and configuration, and a
//! process that uses one repository never changes the other. On request, the copy has the commit
//! and the index of an earlier state.
//!
//! Not copied: lock files, linked work trees (`git worktree remove` in the copy would delete work
//! trees of the original), merges and rebases in progress, and caches that git rebuilds. A
//! repository whose configuration names a work tree is refused, because git would change that work
//! tree from the copy as well.

mod files;
mod head;

use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use sha1::{Digest, Sha1};
use takeback_base::{directory, paths};

use self::files::{Copier, Vanished};
use super::config::find_setting;
use super::{GitDirectory, Head, MAX_SMALL_FILE, open_git_directory_at};
use crate::beneath::{self, Root, list_names};
use crate::checkout::{NewDirectory, remove_temporary};
use crate::fault;

/// The maximum size of the configuration.
const MAX_CONFIG: u64 = 1 << 20;

/// The maximum number of attempts to copy a directory of packs while git is replacing the packs.
const ATTEMPTS: usize = 5;

/// The state of a repository at an earlier time, to the extent that it is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct RepositoryState<'a> {
    /// The commit and the branch.
    pub head: Option<&'a Head>,
    /// A copy of the index, from [`GitDirectory::copy_index`].
    pub index: Option<&'a [u8]>,
}

/// A repository that was copied into a new directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopiedRepository {
    /// The commit and the branch of the copy.
    pub head: Head,
    /// True if `head` is at the commit of the requested state, or if no state was requested.
    pub is_exact: bool,
}

/// The reason why a repository was not copied.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum RepositoryCopyError {
    /// The repository must not be copied.
    #[error("{0}")]
    Refused(&'static str),
    #[error("cannot copy {}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl NewDirectory {
    /// Copies the repository of a work tree to `.git` in this directory, with the commit and the
    /// index of an earlier state. Returns `None` if the work tree has no repository. After an
    /// error, this directory has no `.git`.
    pub fn copy_repository(
        &self,
        work_tree: &Path,
        state: RepositoryState<'_>,
    ) -> Result<Option<CopiedRepository>, RepositoryCopyError> {
        let failed = |source| RepositoryCopyError::Io { path: work_tree.join(".git"), source };
        let Some(source) = Source::open(work_tree)? else { return Ok(None) };
        let copy = self.temporary().join(".git");
        let copied = source.copy_into(self, &copy, state.index).and_then(|()| {
            fault::point("move HEAD")?;
            head::move_head(&copy, state.head)
        });
        let is_exact = copied.map_err(|error| {
            let _ = remove_temporary(&copy);
            failed(error)
        })?;
        Ok(Some(CopiedRepository { head: GitDirectory { path: copy }.head(), is_exact }))
    }
}

/// The repository of a work tree, held open.
struct Source {
    /// The directory that belongs to this work tree alone. It holds HEAD and the index.
    own: OwnedFd,
    /// The directory that holds everything else. It differs from `own` only in a linked work tree.
    common: Option<OwnedFd>,
}

/// The files that belong to one work tree alone.
const OWN_FILES: [&[u8]; 3] = [b"HEAD", b"index", b"config.worktree"];

/// Entries of a git directory that are copied separately and in a certain order.
const ORDERED: [&[u8]; 3] = [b"refs", b"packed-refs", b"objects"];

/// Entries of a git directory that are not copied: linked work trees, operations in progress, and
/// data about running processes.
const LEFT_OUT: [&[u8]; 16] = [
    b"worktrees",
    b"commondir",
    b"gitdir",
    b"rebase-merge",
    b"rebase-apply",
    b"sequencer",
    b"MERGE_HEAD",
    b"MERGE_MODE",
    b"MERGE_MSG",
    b"MERGE_RR",
    b"AUTO_MERGE",
    b"CHERRY_PICK_HEAD",
    b"REVERT_HEAD",
    b"REBASE_HEAD",
    b"gc.pid",
    b"gc.log",
];

fn is_left_out(name: &[u8]) -> bool {
    LEFT_OUT.contains(&name)
        || OWN_FILES.contains(&name)
        || ORDERED.contains(&name)
        || name.starts_with(b"BISECT_")
        || name.starts_with(b"fsmonitor--daemon")
}

/// True for caches that git rebuilds. Copies of them might not match the copied packs.
fn is_cache(name: &[u8]) -> bool {
    name.starts_with(b"multi-pack-index") || name.starts_with(b"commit-graph")
}

impl Source {
    /// Opens the repository of a work tree, unless it must not be copied.
    fn open(work_tree: &Path) -> Result<Option<Source>, RepositoryCopyError> {
        let failed = |source| RepositoryCopyError::Io { path: work_tree.join(".git"), source };
        let root = Root::open(work_tree).map_err(failed)?;
        let Some(own) = open_git_directory_at(&root, work_tree).map_err(failed)? else {
            return Ok(None);
        };
        let is_inside = beneath::stat_at(&root, b".git").map_err(failed)?.is_directory();
        let own = own.fd;
        let common = open_common(own.as_fd()).map_err(failed)?;
        // A `.git` file can name any directory on the machine. As in git, a directory that belongs
        // to another user is refused.
        let owners = [Some(&own), common.as_ref()].into_iter().flatten();
        for directory in owners.filter(|_| !is_inside) {
            if owner_of(directory.as_fd()).map_err(failed)?
                != owner_of(root.as_fd()).map_err(failed)?
            {
                let reason = "its .git refers to a directory that belongs to another user";
                return Err(RepositoryCopyError::Refused(reason));
            }
        }
        let source = Source { own, common };
        source
            .check()
            .map_err(failed)?
            .map_or(Ok(Some(source)), |reason| Err(RepositoryCopyError::Refused(reason)))
    }

    fn common(&self) -> BorrowedFd<'_> {
        self.common.as_ref().unwrap_or(&self.own).as_fd()
    }

    /// Finds the reason why the repository must not be copied, if there is one.
    fn check(&self) -> io::Result<Option<&'static str>> {
        for name in [&b"objects"[..], b"refs", b"config"] {
            match beneath::stat_at(self.common(), name) {
                Ok(stat) if stat.is_symlink() => return Ok(Some("parts of it are links")),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound && name == b"config" => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(Some("its .git is not a complete repository"));
                }
                Err(error) => return Err(error),
            }
        }
        let settings = [
            read_file(self.common(), b"config", MAX_CONFIG)?,
            read_file(self.own.as_fd(), b"config.worktree", MAX_CONFIG)?,
        ];
        for config in settings.iter().flatten() {
            if find_setting(config, "core", "worktree").is_some() {
                return Ok(Some("its configuration names a work tree"));
            }
            if find_setting(config, "core", "bare").is_some_and(|bare| bare == "true") {
                return Ok(Some("it is a bare repository with linked work trees"));
            }
        }
        Ok(None)
    }

    /// Copies the repository to the path `to`. Git may be running at the same time, so the order
    /// matters: first the refs, then the objects that they need. Git packs loose refs and objects
    /// before it deletes them, so the loose ones are copied first.
    fn copy_into(&self, into: &NewDirectory, to: &Path, index: Option<&[u8]>) -> io::Result<()> {
        fault::point("copy a repository")?;
        let (copier, refs) = (Copier::with_links(), Copier::default());
        fs::create_dir(to)?;
        let copy = into.root().open_directory(b".git")?;
        let (own, common, copy) = (self.own.as_fd(), self.common(), copy.as_fd());
        for name in OWN_FILES.iter().filter(|name| **name != b"index" || index.is_none()) {
            copier.copy_entry(own, name, copy, &|_| false)?;
        }
        refs.copy_entry(common, b"refs", copy, &|_| false)?;
        copier.copy_entry(common, b"packed-refs", copy, &|_| false)?;
        for name in list_names(common)?.iter().filter(|name| !is_left_out(name)) {
            copier.copy_entry(common, name, copy, &|_| false)?;
        }
        self.copy_objects(to, copy)?;
        if let Some(index) = index {
            let checksum = Sha1::digest(index);
            fs::write(to.join("index"), [index, checksum.as_slice()].concat())?;
        }
        let mode = beneath::stat_fd(self.common())?.mode;
        copier.set_permissions(copy, mode)
    }

    fn copy_objects(&self, to: &Path, copy: BorrowedFd<'_>) -> io::Result<()> {
        let copier = Copier::for_objects();
        let source = directory::open_beneath(self.common(), b"objects")?;
        fs::create_dir(to.join("objects"))?;
        let objects = directory::open_beneath(copy, b"objects")?;
        let (source, objects) = (source.as_fd(), objects.as_fd());
        let is_temporary = |name: &[u8]| name.starts_with(b"tmp_");
        for name in list_names(source)?.iter().filter(|name| **name != b"pack") {
            if !is_temporary(name) {
                copier.copy_entry(source, name, objects, &|name| {
                    is_temporary(name) || is_cache(name)
                })?;
            }
        }
        for attempt in 1.. {
            let copied = copier.copy_entry(source, b"pack", objects, &|name| {
                is_temporary(name) || is_cache(name)
            })?;
            match copied {
                Vanished(false) => break,
                Vanished(true) if attempt == ATTEMPTS => {
                    return Err(io::Error::other("git keeps replacing its packs"));
                }
                // A repack replaced some of the packs: copy them all again.
                Vanished(true) => remove_temporary(&to.join("objects/pack"))?,
            }
        }
        resolve_alternates(source, &to.join("objects/info/alternates"))
    }
}

/// Makes the relative paths of borrowed object directories absolute, because they are relative to
/// the original.
fn resolve_alternates(source: BorrowedFd<'_>, file: &Path) -> io::Result<()> {
    let text = match read_file(source, b"info/alternates", MAX_SMALL_FILE)? {
        Some(text) if text.split(|byte| *byte == b'\n').any(is_relative) => text,
        _ => return Ok(()),
    };
    let mut resolved = Vec::new();
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        if is_relative(line) {
            let borrowed = directory::open_from(source, line)?;
            resolved.extend_from_slice(paths::as_bytes(&path_of(&borrowed)?));
        } else {
            resolved.extend_from_slice(line);
        }
        resolved.push(b'\n');
    }
    fs::write(file, resolved)
}

fn is_relative(line: &[u8]) -> bool {
    !matches!(line.first(), None | Some(b'/' | b'#'))
}

/// Finds the path of an open directory.
#[cfg(target_os = "linux")]
fn path_of(directory: &OwnedFd) -> io::Result<PathBuf> {
    use std::os::fd::AsRawFd;
    fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd()))
}

#[cfg(not(target_os = "linux"))]
fn path_of(directory: &OwnedFd) -> io::Result<PathBuf> {
    let path = rustix::fs::getpath(directory)?;
    Ok(paths::from_bytes(path.to_bytes()).to_owned())
}

/// Opens the directory that a linked work tree shares with the repository's main work tree.
fn open_common(own: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    let Some(text) = read_file(own, b"commondir", MAX_SMALL_FILE)? else { return Ok(None) };
    let path = text.trim_ascii();
    Ok(Some(match path.starts_with(b"/") {
        true => directory::open_canonical(&paths::canonicalize(paths::from_bytes(path))?)?,
        false => directory::open_from(own, path)?,
    }))
}

/// Reads a regular file of at most `max_size` bytes. Returns `None` if the file does not exist.
/// Fails if it is larger or is not a regular file.
fn read_file(directory: BorrowedFd<'_>, name: &[u8], max_size: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match beneath::open_file(directory, name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let stat = beneath::stat_fd(&file)?;
    if !stat.is_file() || stat.size > max_size {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut content = Vec::new();
    file.take(max_size).read_to_end(&mut content)?;
    Ok(Some(content))
}

fn owner_of(directory: BorrowedFd<'_>) -> io::Result<u32> {
    Ok(rustix::fs::fstat(directory)?.st_uid)
}

#[cfg(test)]
mod tests;
