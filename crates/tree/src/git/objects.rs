//! The refs and objects of another program's repository.
//!
//! Every object is hashed and compared with its id. Limitations: only SHA-1, only refs that are
//! files or packed, and no grafts, replacements, annotated tags or linked work trees.
//!
//! A repository may be designed to exhaust memory or time, so every number and size in it has a
//! limit.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bstr::ByteSlice;
use flate2::read::ZlibDecoder;
use takeback_base::foreign;

use super::MAX_SMALL_FILE;
use super::config::find_setting;
use super::head::parse_symbolic_ref;
use super::refs::{read_if_exists, read_refs};
use crate::object::{Malformed, ObjectKind};
use crate::oid::Oid;
use crate::pack::index::corrupt;
use crate::pack::read::EntryError;
use crate::packs::{Packs, list_pack_names};
use crate::store::StoreError;

/// The maximum depth to which git follows alternates of alternates.
const MAX_ALTERNATES: usize = 5;

/// The maximum number of object databases: the repository's own and its alternates.
const MAX_DATABASES: usize = 16;

/// The maximum number of packs in an object database. Up to 64 KB of each pack's index are kept in
/// memory.
const MAX_PACKS: usize = 2_000;

/// The maximum size of the configuration.
const MAX_CONFIG: u64 = 1 << 20;

/// The maximum number of refs.
const MAX_REFS: usize = 10_000;

/// The maximum size of a commit.
const MAX_COMMIT: u64 = 128 << 10;

/// Another program's git repository, open for reading. Its packs are listed once, when it is
/// opened.
pub struct ForeignRepository {
    directory: PathBuf,
    work_tree: Option<PathBuf>,
    /// The repository's own objects, then those of its alternates.
    databases: Vec<ObjectDatabase>,
}

/// A directory of objects, loose and packed.
pub(super) struct ObjectDatabase {
    directory: PathBuf,
    packs: Packs,
}

/// The reason why a repository cannot be read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum ForeignError {
    #[error("{} is not a git repository", .0.display())]
    NotRepository(PathBuf),
    /// The repository names its objects by a hash other than SHA-1.
    #[error(
        "the repository {} uses {format} for object ids; only sha1 can be read",
        path.display()
    )]
    ObjectFormat { path: PathBuf, format: String },
    /// The repository does not keep its refs as files.
    #[error(
        "the repository {} stores its refs as {format}; only files can be read",
        path.display()
    )]
    RefFormat { path: PathBuf, format: String },
    /// The repository has too many of something, such as packs or alternates.
    #[error("the repository {} has more than {limit} {things}", path.display())]
    TooMany { path: PathBuf, things: &'static str, limit: usize },
    #[error(transparent)]
    Read(#[from] StoreError),
}

/// The reason why an object in a foreign repository cannot be read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum ForeignObjectError {
    #[error("object {0} is missing from the repository")]
    Missing(Oid),
    /// All copies of the object are damaged. `file` is the file with the last copy that was tried.
    #[error("object {oid} in {} is damaged: {reason}", file.display())]
    Damaged { oid: Oid, file: PathBuf, reason: String },
    /// The object, or an object that its delta is based on, is too large to be read.
    #[error("object {oid} is too large: {size} bytes")]
    TooLarge { oid: Oid, size: u64 },
    /// The directory with this tree has too many of something, such as files or levels of
    /// directories.
    #[error("directory {tree} has more than {limit} {things}")]
    TooMany { tree: Oid, things: &'static str, limit: u64 },
    /// The object is intact, but not of the requested kind.
    #[error("object {0} is not a {1}")]
    WrongKind(Oid, &'static str),
    /// The object is intact, but its content is invalid for its kind.
    #[error("object {0}: {1}")]
    Malformed(Oid, Malformed),
}

/// A ref in a foreign repository.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForeignRef {
    /// The full name, beginning with `refs/`.
    pub name: String,
    /// The id of the object that it refers to; `None` if the ref holds no object id.
    pub id: Option<Oid>,
}

/// A commit in a foreign repository.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForeignCommit {
    /// The state that the commit records.
    pub tree: Oid,
    /// The commits that directly precede it.
    pub parents: Vec<Oid>,
    /// The author's time, in seconds since 1970.
    pub time: i64,
    /// The author's time zone, in minutes ahead of UTC.
    pub zone: i32,
    /// The author's message, with invalid UTF-8 replaced.
    pub message: String,
}

impl ForeignRepository {
    /// True if a directory looks like a git directory: it contains `HEAD` and `objects`.
    pub fn is_at(directory: &Path) -> bool {
        directory.join("HEAD").symlink_metadata().is_ok() && directory.join("objects").is_dir()
    }

    /// Opens the repository at a path: the path of its git directory, or of the work tree that
    /// contains `.git`.
    pub fn open(path: &Path) -> Result<ForeignRepository, ForeignError> {
        let inside = path.join(".git");
        let directory = if ForeignRepository::is_at(path) {
            path.to_owned()
        } else if ForeignRepository::is_at(&inside) {
            inside
        } else {
            return Err(ForeignError::NotRepository(path.to_owned()));
        };
        let config = read_if_exists(&directory.join("config"), MAX_CONFIG)?.unwrap_or_default();
        let extension = |name| find_setting(&config, "extensions", name);
        if let Some(format) = extension("objectformat").filter(|format| format != "sha1") {
            return Err(ForeignError::ObjectFormat { path: directory, format });
        }
        if let Some(format) = extension("refstorage").filter(|format| format != "files") {
            return Err(ForeignError::RefFormat { path: directory, format });
        }
        let work_tree = find_setting(&config, "core", "worktree").map(|path| directory.join(path));
        let mut databases = Vec::new();
        add_database(directory.join("objects"), MAX_ALTERNATES, &mut databases)?;
        Ok(ForeignRepository { directory, work_tree, databases })
    }

    /// Returns the git directory of the repository.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the work tree that the configuration names, if any.
    pub fn work_tree(&self) -> Option<&Path> {
        self.work_tree.as_deref()
    }

    /// Reads all refs, sorted by name.
    pub fn refs(&self) -> Result<Vec<ForeignRef>, ForeignError> {
        let refs = read_refs(&self.directory, MAX_REFS)?.into_iter();
        // A git process that was killed may have left lock files behind.
        let refs = refs.filter(|reference| !reference.name.ends_with(".lock"));
        let mut refs: Vec<ForeignRef> = refs
            .map(|reference| ForeignRef { name: reference.name, id: reference.id.ok() })
            .collect();
        refs.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(refs)
    }

    /// Finds the commit that HEAD refers to. Returns `None` before the first commit.
    pub fn head(&self) -> Result<Option<Oid>, ForeignError> {
        let head = self.directory.join("HEAD");
        let text = read_if_exists(&head, MAX_SMALL_FILE)?.unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let Some(name) = parse_symbolic_ref(&text) else { return Ok(text.trim_end().parse().ok()) };
        let refs = self.refs()?;
        Ok(refs.into_iter().find(|reference| reference.name == name).and_then(|found| found.id))
    }

    /// Reads the content of a file or the target of a symlink. Fails if it is larger than
    /// `max_size`.
    pub(crate) fn blob(&self, oid: &Oid, max_size: u64) -> Result<Vec<u8>, ForeignObjectError> {
        self.read_kind(oid, ObjectKind::Blob, "file", max_size)
    }

    /// Reads a commit.
    pub fn commit(&self, oid: &Oid) -> Result<ForeignCommit, ForeignObjectError> {
        let content = self.read_kind(oid, ObjectKind::Commit, "commit", MAX_COMMIT)?;
        parse_commit(&content).ok_or(ForeignObjectError::Malformed(*oid, Malformed("commit")))
    }

    /// Reads a tree of at most `max_size` bytes.
    pub(crate) fn tree(&self, oid: &Oid, max_size: u64) -> Result<Vec<u8>, ForeignObjectError> {
        // Git can read the empty tree even if it is not stored.
        if *oid == Oid::EMPTY_TREE {
            return Ok(Vec::new());
        }
        self.read_kind(oid, ObjectKind::Tree, "tree", max_size)
    }

    fn read_kind(
        &self,
        oid: &Oid,
        kind: ObjectKind,
        name: &'static str,
        max_size: u64,
    ) -> Result<Vec<u8>, ForeignObjectError> {
        match self.read_object(oid, max_size)? {
            (found, content) if found == kind => Ok(content),
            _ => Err(ForeignObjectError::WrongKind(*oid, name)),
        }
    }

    /// Reads an object from the first intact copy.
    fn read_object(
        &self,
        oid: &Oid,
        max_size: u64,
    ) -> Result<(ObjectKind, Vec<u8>), ForeignObjectError> {
        let mut failure = ForeignObjectError::Missing(*oid);
        let copies = self.databases.iter().flat_map(|database| database.copies_of(oid, max_size));
        for (file, copy) in copies {
            match check_copy(oid, file, copy) {
                Ok(object) => return Ok(object),
                Err(ForeignObjectError::Missing(_)) => {}
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }
}

/// A copy of an object as it was read, not yet compared with the object's id.
type ObjectCopy = Result<(ObjectKind, Vec<u8>), EntryError>;

/// Checks that a copy of an object matches its id.
fn check_copy(
    oid: &Oid,
    file: PathBuf,
    copy: ObjectCopy,
) -> Result<(ObjectKind, Vec<u8>), ForeignObjectError> {
    let reason = match copy {
        Ok((kind, content)) if Oid::of(kind, &content) == *oid => return Ok((kind, content)),
        Ok(_) => "its content does not match its id".to_owned(),
        Err(EntryError::TooLarge(size)) => {
            return Err(ForeignObjectError::TooLarge { oid: *oid, size });
        }
        Err(EntryError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
            return Err(ForeignObjectError::Missing(*oid));
        }
        Err(EntryError::Io(error)) => error.to_string(),
    };
    Err(ForeignObjectError::Damaged { oid: *oid, file, reason })
}

impl ObjectDatabase {
    /// Opens an object database and the databases that it borrows objects from. Databases that
    /// cannot be read are left out.
    pub(super) fn open_all(directory: PathBuf) -> Vec<ObjectDatabase> {
        let mut databases = Vec::new();
        // The databases that were opened before an error can be used.
        let _ = add_database(directory, MAX_ALTERNATES, &mut databases);
        databases
    }

    /// True if the database has an object. Does not read the object.
    pub(super) fn has_object(&self, oid: &Oid) -> bool {
        self.packs.find_object(oid).next().is_some() || self.loose_path(oid).is_file()
    }

    fn loose_path(&self, oid: &Oid) -> PathBuf {
        let name = oid.to_string();
        self.directory.join(&name[..2]).join(&name[2..])
    }

    /// Reads every copy of an object, each with the path of its file.
    fn copies_of<'a>(
        &'a self,
        oid: &'a Oid,
        max_size: u64,
    ) -> impl Iterator<Item = (PathBuf, ObjectCopy)> + 'a {
        let packed = self.packs.find_object(oid).map(move |(pack, offset)| {
            let path = self.directory.join("pack").join(&pack.name).with_extension("pack");
            (path, pack.read_object_within(offset, max_size))
        });
        let loose = std::iter::once_with(move || {
            let path = self.loose_path(oid);
            let copy = read_loose(&path, max_size);
            (path, copy)
        });
        packed.chain(loose)
    }
}

/// Reads a loose object: kind, size, NUL and content in one zlib stream.
fn read_loose(path: &Path, max_size: u64) -> ObjectCopy {
    let mut stream = ZlibDecoder::new(foreign::open_regular(path)?);
    let mut head = Vec::new();
    (&mut stream).take(32).read_to_end(&mut head)?;
    let nul = head.find_byte(0).ok_or_else(|| corrupt("the object has no header"))?;
    let mut content = head.split_off(nul + 1);
    let (kind, size) = head[..nul]
        .to_str()
        .ok()
        .and_then(|head| head.split_once(' '))
        .and_then(|(kind, size)| Some((ObjectKind::from_name(kind)?, size.parse::<u64>().ok()?)))
        .ok_or_else(|| corrupt("the object has an unknown header"))?;
    if size > max_size {
        return Err(EntryError::TooLarge(size));
    }
    // Reading one byte more than the size reveals an object that is too long.
    let rest = (size + 1).saturating_sub(content.len() as u64);
    stream.take(rest).read_to_end(&mut content)?;
    if content.len() as u64 != size {
        return Err(corrupt("the size of the object does not match its header").into());
    }
    Ok((kind, content))
}

/// Adds an object database and the databases that it borrows objects from. Skips databases that do
/// not exist or were already added.
fn add_database(
    directory: PathBuf,
    depth: usize,
    databases: &mut Vec<ObjectDatabase>,
) -> Result<(), ForeignError> {
    let Ok(directory) = fs::canonicalize(directory) else { return Ok(()) };
    if databases.iter().any(|known| known.directory == directory) {
        return Ok(());
    }
    let too_many = |things, limit| ForeignError::TooMany { path: directory.clone(), things, limit };
    if databases.len() == MAX_DATABASES {
        return Err(too_many("alternates", MAX_DATABASES - 1));
    }
    let alternates = read_if_exists(&directory.join("info/alternates"), MAX_SMALL_FILE)?;
    let pack_directory = directory.join("pack");
    if list_pack_names(&pack_directory).len() > MAX_PACKS {
        return Err(too_many("packs", MAX_PACKS));
    }
    let packs = Packs::load(&pack_directory);
    databases.push(ObjectDatabase { directory: directory.clone(), packs });
    if depth == 0 {
        return Ok(());
    }
    let alternates = alternates.unwrap_or_default();
    for line in alternates.lines().filter(|line| !line.is_empty() && !line.starts_with(b"#")) {
        if let Ok(path) = line.to_path() {
            add_database(directory.join(path), depth - 1, databases)?;
        }
    }
    Ok(())
}

/// Parses a commit created by any program. Skips signatures and other fields.
fn parse_commit(content: &[u8]) -> Option<ForeignCommit> {
    let (head, message) = match content.find("\n\n") {
        Some(end) => (&content[..end], &content[end + 2..]),
        None => (content, &b""[..]),
    };
    // A line that begins with a space continues the previous field. It is parsed as a field with an
    // empty name, which has no effect.
    let fields = || head.lines().filter_map(|line| line.split_once_str(" "));
    let id = |text: &[u8]| text.to_str().ok()?.parse::<Oid>().ok();
    let (_, tree) = fields().find(|(name, _)| *name == b"tree")?;
    let parents = fields().filter(|(name, _)| *name == b"parent").map(|(_, text)| id(text));
    let (_, author) = fields().find(|(name, _)| *name == b"author")?;
    let mut words = author.rsplit(|byte| *byte == b' ');
    let zone = words.next().and_then(parse_zone).unwrap_or(0);
    let time = words.next()?.to_str().ok()?.parse().ok()?;
    Some(ForeignCommit {
        tree: id(tree)?,
        parents: parents.collect::<Option<_>>()?,
        time,
        zone,
        message: message.to_str_lossy().into_owned(),
    })
}

/// Parses `+hhmm` into minutes ahead of UTC.
fn parse_zone(text: &[u8]) -> Option<i32> {
    let number: i32 = text.to_str().ok()?.parse().ok()?;
    Some(number / 100 * 60 + number % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signed_commits_and_odd_time_zones_are_parsed() {
        let commit = b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n\
            parent 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n\
            author A <a@b> 1700000000 -0330\ncommitter B <b@c> 1700000009 +0000\n\
            gpgsig -----BEGIN\n tree nonsense\n -----END\n\nbefore \xff\n\nmore\n";
        let commit = parse_commit(commit).expect("a commit");
        assert_eq!((commit.time, commit.zone), (1_700_000_000, -210));
        assert_eq!((commit.tree, commit.parents.len()), (Oid::EMPTY_TREE, 1));
        assert_eq!(commit.message, "before \u{fffd}\n\nmore\n");
        assert!(parse_commit(b"tree 12\nauthor A <a@b> 1 +0000\n\nx").is_none());
    }
}
