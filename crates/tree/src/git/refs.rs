//! The refs of a repository: the store, or another program's repository.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;

use takeback_base::durable::if_exists;
use takeback_base::foreign;

use super::{MAX_LARGE_FILE, MAX_SMALL_FILE};
use crate::oid::Oid;
use crate::store::{Store, StoreError};

/// A ref. In the store, it is a pin or was created by git.
#[derive(Clone, Debug)]
pub(crate) struct Ref {
    /// The full name, beginning with `refs/`.
    pub(crate) name: String,
    /// The id of the object that it refers to, or the reason why there is no id.
    pub(crate) id: Result<Oid, String>,
}

impl Ref {
    fn new(name: String, text: &[u8]) -> Ref {
        let text = String::from_utf8_lossy(text);
        let id = text.trim_end().parse().map_err(|_| "the ref holds no object id".to_owned());
        Ref { name, id }
    }

    /// Returns the directory, the number and the last part of the name. The refs in a directory
    /// form one history, in the order of their numbers.
    fn sort_key(&self) -> (&str, u64, &str) {
        let (directory, name) = self.name.rsplit_once('/').unwrap_or(("", &self.name));
        (directory, name.parse().unwrap_or(0), name)
    }

    /// Returns the directory that the ref is in. The refs in a directory form one history.
    pub(crate) fn directory(&self) -> &str {
        self.sort_key().0
    }
}

impl Store {
    /// Reads all refs, grouped by directory, oldest first.
    pub(crate) fn all_refs(&self) -> Result<Vec<Ref>, StoreError> {
        read_refs(self.directory(), usize::MAX)
    }
}

/// Reads the refs of a repository, grouped by directory, oldest first. Fails if there are more than
/// `max_count`.
pub(super) fn read_refs(repository: &Path, max_count: usize) -> Result<Vec<Ref>, StoreError> {
    let mut refs = Vec::new();
    let too_many = || {
        let message = format!("it has more than {max_count} refs");
        StoreError::io("read", repository)(io::Error::new(io::ErrorKind::InvalidData, message))
    };
    let mut directories = vec!["refs".to_owned()];
    while let Some(directory) = directories.pop() {
        let path = repository.join(&directory);
        let failed = || StoreError::io("list", &path);
        let Some(entries) = if_exists(fs::read_dir(&path)).map_err(failed())? else { continue };
        for entry in entries {
            let entry = entry.map_err(failed())?;
            let name = format!("{directory}/{}", entry.file_name().to_string_lossy());
            if entry.file_type().map_err(failed())?.is_dir() {
                directories.push(name);
            } else if let Some(text) = read_if_exists(&entry.path(), MAX_SMALL_FILE)? {
                // A symbolic ref keeps alive only objects that its target also keeps alive.
                if !text.starts_with(b"ref: ") {
                    refs.push(Ref::new(name, &text));
                }
            }
            if refs.len() > max_count {
                return Err(too_many());
            }
        }
    }
    if !add_packed_refs(repository, max_count, &mut refs)? {
        return Err(too_many());
    }
    refs.sort_by(|a, b| a.sort_key().cmp(&b.sort_key()));
    Ok(refs)
}

/// Adds the packed refs that do not also exist as files. Takeback never packs refs, but the user
/// may run git on the store. Returns false if this results in more than `max_count` refs.
fn add_packed_refs(
    repository: &Path,
    max_count: usize,
    refs: &mut Vec<Ref>,
) -> Result<bool, StoreError> {
    let Some(text) = read_if_exists(&repository.join("packed-refs"), MAX_LARGE_FILE)? else {
        return Ok(true);
    };
    let loose: HashSet<String> = refs.iter().map(|loose| loose.name.clone()).collect();
    for line in text.split(|byte| *byte == b'\n') {
        if line.is_empty() || line.starts_with(b"#") || line.starts_with(b"^") {
            continue;
        }
        let (id, name) = line.split_at(line.len().min(40));
        let name = String::from_utf8_lossy(name).trim_start().to_owned();
        if !loose.contains(&name) {
            refs.push(Ref::new(name, id));
        }
        if refs.len() > max_count {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads a regular file of at most `max_size` bytes. Returns `None` if it does not exist.
pub(super) fn read_if_exists(path: &Path, max_size: u64) -> Result<Option<Vec<u8>>, StoreError> {
    if_exists(foreign::read_regular(path, max_size)).map_err(StoreError::io("read", path))
}
