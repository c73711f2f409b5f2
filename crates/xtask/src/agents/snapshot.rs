//! What is in a directory, byte for byte.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::Failure;

/// What is at each path.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Snapshot(BTreeMap<PathBuf, Thing>);

#[derive(Clone, PartialEq, Eq)]
enum Thing {
    Directory,
    File { mode: u32, content: Vec<u8> },
    Link(PathBuf),
}

impl Snapshot {
    /// Everything in a directory but what is in one of its entries.
    pub(crate) fn of(directory: &Path, except: &str) -> Result<Snapshot, Failure> {
        let mut things = BTreeMap::new();
        read(directory, Path::new(""), except, &mut things)
            .map_err(|error| format!("cannot read {}: {error}", directory.display()))?;
        Ok(Snapshot(things))
    }

    /// The same without a path and what is below it.
    pub(crate) fn without(mut self, path: &str) -> Snapshot {
        self.0.retain(|known, _| !known.starts_with(path));
        self
    }

    /// The same with what another one has at a path.
    pub(crate) fn with(mut self, path: &str, other: &Snapshot) -> Snapshot {
        let thing = other.0.get(Path::new(path)).cloned();
        self.0.extend(thing.map(|thing| (PathBuf::from(path), thing)));
        self
    }

    /// The same, but only at paths where these two differ; directories do not count.
    pub(crate) fn where_differ(mut self, one: &Snapshot, other: &Snapshot) -> Snapshot {
        self.0.retain(|path, thing| {
            *thing != Thing::Directory && one.0.get(path) != other.0.get(path)
        });
        self
    }

    /// Whether a file with this content is there.
    pub(crate) fn has_file(&self, path: &str, wanted: &str) -> bool {
        let thing = self.0.get(Path::new(path));
        matches!(thing, Some(Thing::File { content, .. }) if content == wanted.as_bytes())
    }

    /// It must be like this.
    pub(crate) fn must_be(&self, wanted: &Snapshot, what: &str) -> Result<(), Failure> {
        let mut differences = Vec::new();
        for (path, thing) in &self.0 {
            match wanted.0.get(path) {
                None => differences.push(format!("+ {}", path.display())),
                Some(other) if other != thing => {
                    differences.push(format!("~ {}", path.display()));
                }
                Some(_) => {}
            }
        }
        let missing = wanted.0.keys().filter(|path| !self.0.contains_key(*path));
        differences.extend(missing.map(|path| format!("- {}", path.display())));
        match differences.is_empty() {
            true => Ok(()),
            false => Err(format!("{what}: it is not as it should be:\n{}", differences.join("\n"))),
        }
    }
}

fn read(
    root: &Path,
    below: &Path,
    except: &str,
    things: &mut BTreeMap<PathBuf, Thing>,
) -> std::io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if path == Path::new(except) {
            continue;
        }
        let metadata = entry.metadata()?;
        let thing = if metadata.is_symlink() {
            Thing::Link(fs::read_link(entry.path())?)
        } else if metadata.is_dir() {
            read(root, &path, except, things)?;
            Thing::Directory
        } else if metadata.is_file() {
            let mode = metadata.permissions().mode() & 0o777;
            Thing::File { mode, content: fs::read(entry.path())? }
        } else {
            // Sockets and the like come and go.
            continue;
        };
        things.insert(path, thing);
    }
    Ok(())
}
