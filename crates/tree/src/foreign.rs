//! Other programs' git repositories, read without git: refs, commits, trees and files.
//!
//! Nothing is ever written there. Every object is hashed and compared with its id. Limits: SHA-1
//! and the files format of refs only; of the configuration just `core.worktree` and what tells these formats;
//! no grafts, replacements, annotated tags or linked work trees.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bstr::ByteSlice;
use flate2::read::ZlibDecoder;

use crate::object::{self, Kind, Malformed, OwnedEntry};
use crate::oid::Oid;
use crate::pack::MAX_OBJECT;
use crate::pack::index::corrupt;
use crate::pack::read::{Pack, Stored};
use crate::refs::{self, read_if_there};
use crate::store::{Packs, StoreError};

/// Git follows alternates of alternates this far.
const MAX_ALTERNATES: usize = 5;

/// A git repository of somebody else's, open for reading. Packs are listed once, when it is
/// opened.
pub struct ForeignRepository {
    directory: PathBuf,
    work_tree: Option<PathBuf>,
    /// Its own objects, then those of its alternates.
    objects: Vec<Objects>,
}

/// A directory of objects.
struct Objects {
    directory: PathBuf,
    packs: Packs,
}

/// A repository cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ForeignError {
    /// There is none.
    #[error("{} is not a git repository", .0.display())]
    NotRepository(PathBuf),
    /// It names objects by another hash than SHA-1.
    #[error("the repository {} names its objects by {format}, only sha1 can be read", path.display())]
    ObjectFormat {
        /// The repository.
        path: PathBuf,
        /// Its hash.
        format: String,
    },
    /// It keeps its refs in another way than as files.
    #[error("the repository {} keeps its refs as {format}, only files can be read", path.display())]
    RefFormat {
        /// The repository.
        path: PathBuf,
        /// Its format.
        format: String,
    },
    /// The system refused something.
    #[error(transparent)]
    Read(#[from] StoreError),
}

/// An object of a foreign repository cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ForeignObjectError {
    /// It is not there.
    #[error("object {0} is missing from the repository")]
    Missing(Oid),
    /// All copies of it are damaged.
    #[error("object {oid} in {} is damaged: {reason}", file.display())]
    Damaged {
        /// The object.
        oid: Oid,
        /// The file that it was read from.
        file: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// It is larger than what the store takes.
    #[error("object {oid} is too large: {size} bytes")]
    TooLarge {
        /// The object.
        oid: Oid,
        /// Its size in bytes.
        size: u64,
    },
    /// It is whole, but of another kind than expected.
    #[error("object {0} is not a {1}")]
    WrongKind(Oid, &'static str),
    /// It is whole but does not have the form of its kind.
    #[error("object {0}: {1}")]
    Malformed(Oid, Malformed),
}

/// A ref of a foreign repository.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForeignRef {
    /// From `refs/` on.
    pub name: String,
    /// What it names; `None` if it holds no object id.
    pub id: Option<Oid>,
}

/// A commit of a foreign repository.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForeignCommit {
    /// Its state.
    pub tree: Oid,
    /// The commits before it.
    pub parents: Vec<Oid>,
    /// When it was made by its author, in seconds since 1970.
    pub time: i64,
    /// How far the author's clock was ahead of UTC, in minutes.
    pub zone: i32,
    /// What its author wrote; what is not UTF-8 is replaced.
    pub message: String,
}

impl ForeignRepository {
    /// Whether a directory looks like the inside of a repository: what git itself looks for.
    pub fn is_at(directory: &Path) -> bool {
        directory.join("HEAD").symlink_metadata().is_ok() && directory.join("objects").is_dir()
    }

    /// Opens the repository at a path: its own directory, or the work tree that has it as `.git`.
    pub fn open(path: &Path) -> Result<ForeignRepository, ForeignError> {
        let inside = path.join(".git");
        let directory = if ForeignRepository::is_at(path) {
            path.to_owned()
        } else if ForeignRepository::is_at(&inside) {
            inside
        } else {
            return Err(ForeignError::NotRepository(path.to_owned()));
        };
        let config = read_if_there(&directory.join("config"))?.unwrap_or_default();
        let extension = |name| setting(&config, "extensions", name);
        if let Some(format) = extension("objectformat").filter(|format| format != "sha1") {
            return Err(ForeignError::ObjectFormat { path: directory, format });
        }
        if let Some(format) = extension("refstorage").filter(|format| format != "files") {
            return Err(ForeignError::RefFormat { path: directory, format });
        }
        let work_tree = setting(&config, "core", "worktree").map(|path| directory.join(path));
        let mut objects = Vec::new();
        add_objects(directory.join("objects"), MAX_ALTERNATES, &mut objects);
        Ok(ForeignRepository { directory, work_tree, objects })
    }

    /// The directory of the repository itself.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The work tree that its configuration names.
    pub fn work_tree(&self) -> Option<&Path> {
        self.work_tree.as_deref()
    }

    /// All refs, sorted by name.
    pub fn refs(&self) -> Result<Vec<ForeignRef>, ForeignError> {
        let refs = refs::all_refs(&self.directory)?.into_iter();
        // A process of git's that was killed leaves its lock files.
        let refs = refs.filter(|found| !found.name.ends_with(".lock"));
        let mut refs: Vec<ForeignRef> =
            refs.map(|found| ForeignRef { name: found.name, id: found.id.ok() }).collect();
        refs.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(refs)
    }

    /// The commit that `HEAD` leads to; `None` if there is none yet.
    pub fn head(&self) -> Result<Option<Oid>, ForeignError> {
        let text = read_if_there(&self.directory.join("HEAD"))?.unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        match text.trim_end().strip_prefix("ref: ") {
            Some(name) => {
                let refs = self.refs()?;
                Ok(refs.into_iter().find(|found| found.name == name).and_then(|found| found.id))
            }
            None => Ok(text.trim_end().parse().ok()),
        }
    }

    /// The content of a file or the target of a symlink.
    pub fn blob(&self, oid: &Oid) -> Result<Vec<u8>, ForeignObjectError> {
        self.read_kind(oid, Kind::Blob, "file")
    }

    /// Reads a commit.
    pub fn commit(&self, oid: &Oid) -> Result<ForeignCommit, ForeignObjectError> {
        let content = self.read_kind(oid, Kind::Commit, "commit")?;
        parse_commit(&content).ok_or(ForeignObjectError::Malformed(*oid, Malformed("commit")))
    }

    /// The entries of a tree as they are: names and modes may be such that no tree of ours has.
    pub(crate) fn tree(&self, oid: &Oid) -> Result<Vec<OwnedEntry>, ForeignObjectError> {
        // Git knows the tree without entries whether it is there or not.
        if *oid == Oid::EMPTY_TREE {
            return Ok(Vec::new());
        }
        let content = self.read_kind(oid, Kind::Tree, "tree")?;
        let mut entries = Vec::new();
        let mut rest = &content[..];
        while !rest.is_empty() {
            let (entry, after) = object::split_any(rest)
                .ok_or(ForeignObjectError::Malformed(*oid, Malformed("tree")))?;
            entries.push(entry.into());
            rest = after;
        }
        Ok(entries)
    }

    fn read_kind(
        &self,
        oid: &Oid,
        kind: Kind,
        name: &'static str,
    ) -> Result<Vec<u8>, ForeignObjectError> {
        match self.read(oid)? {
            (found, content) if found == kind => Ok(content),
            _ => Err(ForeignObjectError::WrongKind(*oid, name)),
        }
    }

    /// Reads an object from the first place that has it whole.
    fn read(&self, oid: &Oid) -> Result<(Kind, Vec<u8>), ForeignObjectError> {
        let mut failure = ForeignObjectError::Missing(*oid);
        for (file, found) in self.objects.iter().flat_map(|objects| objects.everywhere(oid)) {
            match judge(oid, file, found) {
                Ok(found) => return Ok(found),
                Err(ForeignObjectError::Missing(_)) => {}
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }
}

/// Why a copy of an object is of no use.
enum Failure {
    TooLarge(u64),
    Io(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Io(error)
    }
}

/// What was read of an object.
type Found = Result<(Kind, Vec<u8>), Failure>;

/// Checks that what was read is what its id says.
fn judge(oid: &Oid, file: PathBuf, found: Found) -> Result<(Kind, Vec<u8>), ForeignObjectError> {
    let reason = match found {
        Ok((kind, content)) if Oid::of(kind, &content) == *oid => return Ok((kind, content)),
        Ok(_) => "its content does not match its id".to_owned(),
        Err(Failure::TooLarge(size)) => {
            return Err(ForeignObjectError::TooLarge { oid: *oid, size });
        }
        Err(Failure::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
            return Err(ForeignObjectError::Missing(*oid));
        }
        Err(Failure::Io(error)) => error.to_string(),
    };
    Err(ForeignObjectError::Damaged { oid: *oid, file, reason })
}

impl Objects {
    /// Every copy of an object, with the file it is in.
    fn everywhere<'a>(&'a self, oid: &'a Oid) -> impl Iterator<Item = (PathBuf, Found)> + 'a {
        let packs = self.packs.find(oid).map(|(pack, offset)| {
            (
                self.directory.join("pack").join(&pack.name).with_extension("pack"),
                packed(pack, offset),
            )
        });
        let alone = std::iter::once_with(|| {
            let name = oid.to_string();
            let path = self.directory.join(&name[..2]).join(&name[2..]);
            let found = loose(&path);
            (path, found)
        });
        packs.chain(alone)
    }
}

/// Reads an object out of a pack.
fn packed(pack: &Pack, offset: u64) -> Found {
    // Git does not store what is as large as that as a difference.
    let head = pack.file.head(offset)?;
    if matches!(head.stored, Stored::Whole(_)) && head.size > MAX_OBJECT {
        return Err(Failure::TooLarge(head.size));
    }
    Ok(pack.read(offset)?)
}

/// Reads an object that is a file by itself: kind, size, NUL and content in one zlib stream.
fn loose(path: &Path) -> Found {
    let mut stream = ZlibDecoder::new(File::open(path)?);
    let mut head = Vec::new();
    (&mut stream).take(32).read_to_end(&mut head)?;
    let nul = head.find_byte(0).ok_or_else(|| corrupt("an object without a head"))?;
    let mut content = head.split_off(nul + 1);
    let (kind, size) = head[..nul]
        .to_str()
        .ok()
        .and_then(|head| head.split_once(' '))
        .and_then(|(kind, size)| Some((Kind::from_name(kind)?, size.parse::<u64>().ok()?)))
        .ok_or_else(|| corrupt("an object with an unknown head"))?;
    if size > MAX_OBJECT {
        return Err(Failure::TooLarge(size));
    }
    // One byte more than there should be, to see that there is none.
    let rest = (size + 1).saturating_sub(content.len() as u64);
    stream.take(rest).read_to_end(&mut content)?;
    if content.len() as u64 != size {
        return Err(corrupt("an object of another size than it says").into());
    }
    Ok((kind, content))
}

/// Adds a directory of objects and those that it borrows from. One that is not there, or was
/// met before, adds nothing.
fn add_objects(directory: PathBuf, depth: usize, found: &mut Vec<Objects>) {
    let Ok(directory) = fs::canonicalize(directory) else { return };
    if found.iter().any(|known| known.directory == directory) {
        return;
    }
    let alternates = fs::read(directory.join("info/alternates")).unwrap_or_default();
    let packs = Packs::load(&directory.join("pack"));
    found.push(Objects { directory: directory.clone(), packs });
    if depth == 0 {
        return;
    }
    for line in alternates.lines().filter(|line| !line.is_empty() && !line.starts_with(b"#")) {
        if let Ok(path) = line.to_path() {
            add_objects(directory.join(path), depth - 1, found);
        }
    }
}

/// What a configuration says last about a name in a section without a subsection. Reads as much
/// of git's syntax as git itself writes.
fn setting(config: &[u8], section: &str, name: &str) -> Option<String> {
    let mut inside = false;
    let mut value = None;
    for line in config.lines() {
        let mut line = line.trim();
        if let Some(rest) = line.strip_prefix(b"[") {
            let end = rest.find_byte(b']')?;
            inside = rest[..end].eq_ignore_ascii_case(section.as_bytes());
            line = rest[end + 1..].trim();
        }
        let Some((key, text)) = line.split_once_str("=").filter(|_| inside) else { continue };
        if key.trim().eq_ignore_ascii_case(name.as_bytes()) {
            value = Some(plain(&text.trim().to_str_lossy()));
        }
    }
    value
}

/// A value of a configuration without its quotes, escapes and comment.
fn plain(text: &str) -> String {
    let (mut value, mut quoted) = (String::new(), false);
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => quoted = !quoted,
            '\\' => value.extend(characters.next()),
            '#' | ';' if !quoted => break,
            _ => value.push(character),
        }
    }
    value.trim_end().to_owned()
}

/// Reads a commit of whatever origin: signatures and other fields are passed over.
fn parse_commit(content: &[u8]) -> Option<ForeignCommit> {
    let (head, message) = match content.find("\n\n") {
        Some(end) => (&content[..end], &content[end + 2..]),
        None => (content, &b""[..]),
    };
    // Lines that begin with a space go on with the field before.
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

/// Minutes ahead of UTC, from `+hhmm`.
fn parse_zone(text: &[u8]) -> Option<i32> {
    let number: i32 = text.to_str().ok()?.parse().ok()?;
    Some(number / 100 * 60 + number % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_git_writes_them() {
        let config = b"[core]\n\tbare = false\n\tworktree = \"/a b#\\\"c\" ; x\n\
            [Extensions] objectFormat = sha256\n[extensions \"x\"]\n\tobjectformat = other\n";
        assert_eq!(setting(config, "extensions", "objectformat").as_deref(), Some("sha256"));
        assert_eq!(setting(config, "core", "worktree").as_deref(), Some("/a b#\"c"));
        assert_eq!(setting(config, "core", "objectformat"), None);
    }

    #[test]
    fn commits_of_all_kinds() {
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
