//! Everything that keeps objects alive: all refs of the store, whoever made them.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;

use crate::oid::Oid;
use crate::store::{Store, StoreError};

/// A ref: a pin, or something that git put there.
#[derive(Clone, Debug)]
pub(crate) struct Ref {
    /// From `refs/` on.
    pub(crate) name: String,
    /// What it names, or what is wrong with it.
    pub(crate) id: Result<Oid, String>,
}

impl Ref {
    fn new(name: String, text: &[u8]) -> Ref {
        let text = String::from_utf8_lossy(text);
        let id = text.trim_end().parse().map_err(|_| "the ref holds no object id".to_owned());
        Ref { name, id }
    }

    /// The directory and the number in it: the refs of a directory are one history.
    fn place(&self) -> (&str, u64, &str) {
        let (directory, name) = self.name.rsplit_once('/').unwrap_or(("", &self.name));
        (directory, name.parse().unwrap_or(0), name)
    }

    pub(crate) fn history(&self) -> &str {
        self.place().0
    }
}

impl Store {
    /// All refs, those of a history together, oldest first.
    pub(crate) fn all_refs(&self) -> Result<Vec<Ref>, StoreError> {
        all_refs(self.directory())
    }
}

/// All refs of a repository, those of a history together, oldest first.
pub(crate) fn all_refs(repository: &Path) -> Result<Vec<Ref>, StoreError> {
    let mut refs = Vec::new();
    let mut directories = vec!["refs".to_owned()];
    while let Some(directory) = directories.pop() {
        let path = repository.join(&directory);
        let failed = || StoreError::io("list", &path);
        let entries = match fs::read_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.map_err(failed())?,
        };
        for entry in entries {
            let entry = entry.map_err(failed())?;
            let name = format!("{directory}/{}", entry.file_name().to_string_lossy());
            if entry.file_type().map_err(failed())?.is_dir() {
                directories.push(name);
            } else if let Some(text) = read_if_there(&entry.path())? {
                // A ref to a ref keeps nothing that the other does not keep.
                if !text.starts_with(b"ref: ") {
                    refs.push(Ref::new(name, &text));
                }
            }
        }
    }
    add_packed_refs(repository, &mut refs)?;
    refs.sort_by(|a, b| a.place().cmp(&b.place()));
    Ok(refs)
}

/// We never pack refs, but git does when somebody asks it to.
fn add_packed_refs(repository: &Path, refs: &mut Vec<Ref>) -> Result<(), StoreError> {
    let Some(text) = read_if_there(&repository.join("packed-refs"))? else {
        return Ok(());
    };
    let loose: HashSet<String> = refs.iter().map(|found| found.name.clone()).collect();
    for line in text.split(|byte| *byte == b'\n') {
        if line.is_empty() || line.starts_with(b"#") || line.starts_with(b"^") {
            continue;
        }
        let (id, name) = line.split_at(line.len().min(40));
        let name = String::from_utf8_lossy(name).trim_start().to_owned();
        if !loose.contains(&name) {
            refs.push(Ref::new(name, id));
        }
    }
    Ok(())
}

pub(crate) fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        text => text.map(Some).map_err(StoreError::io("read", path)),
    }
}
