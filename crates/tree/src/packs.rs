//! The packs of a repository at one moment, and the lookup of objects in them.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::object::ObjectKind;
use crate::oid::Oid;
use crate::pack::midx::{self, Midx};
use crate::pack::read::Pack;
use crate::store::ObjectError;

/// The packs of a repository at one moment.
pub(crate) struct Packs {
    directory: PathBuf,
    midx: Option<Midx>,
    /// The packs that the multi-pack index covers, opened on first use.
    covered: Vec<OnceLock<Option<Pack>>>,
    /// The packs that the multi-pack index does not cover.
    pub(crate) loose: Vec<Pack>,
    /// The packs that the multi-pack index does not cover and that could not be opened, each with
    /// its error.
    pub(crate) broken: Vec<(String, io::Error)>,
}

impl Packs {
    pub(crate) fn load(directory: &Path) -> Packs {
        let midx_path = directory.join(midx::NAME);
        // The multi-pack index only repeats the packs' own indexes, so a broken multi-pack index is
        // ignored.
        let midx = Midx::open(&midx_path).ok();
        let covered: HashSet<&str> =
            midx.iter().flat_map(|midx| midx.packs.iter().map(String::as_str)).collect();
        let (mut loose, mut broken) = (Vec::new(), Vec::new());
        for name in list_pack_names(directory) {
            if covered.contains(name.as_str()) {
                continue;
            }
            match Pack::open(&directory.join(&name).with_extension("idx")) {
                Ok(pack) => loose.push(pack),
                // A merge removed the pack after it was listed and before it was opened.
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound
                        && !directory.join(&name).with_extension("idx").exists() => {}
                Err(error) => broken.push((name, error)),
            }
        }
        let covered = midx.iter().flat_map(|midx| &midx.packs).map(|_| OnceLock::new()).collect();
        Packs { directory: directory.to_owned(), midx, covered, loose, broken }
    }

    fn covered_pack(&self, number: usize) -> Option<&Pack> {
        let name = &self.midx.as_ref()?.packs[number];
        self.covered[number]
            .get_or_init(|| Pack::open(&self.directory.join(name).with_extension("idx")).ok())
            .as_ref()
    }

    /// Finds the packs that the multi-pack index covers but that cannot be opened, each with its
    /// error.
    pub(crate) fn find_broken_covered(&self) -> Vec<(String, io::Error)> {
        let names = self.midx.iter().flat_map(|midx| &midx.packs).enumerate();
        let broken = names.filter(|(number, _)| self.covered_pack(*number).is_none());
        let open = |name: &String| Pack::open(&self.directory.join(name).with_extension("idx"));
        broken.filter_map(|(_, name)| Some((name.clone(), open(name).err()?))).collect()
    }

    /// Lists all packs that can be opened.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Pack> {
        (0..self.covered.len()).filter_map(|number| self.covered_pack(number)).chain(&self.loose)
    }

    /// True if a pack has the object, according to an index.
    pub(crate) fn contains(&self, oid: &Oid) -> bool {
        self.find_object(oid).next().is_some()
    }

    /// Finds copies of an object, each by its pack and offset: the one that the multi-pack index
    /// lists, and all copies in the packs that it does not cover.
    pub(crate) fn find_object<'a>(&'a self, oid: &'a Oid) -> impl Iterator<Item = (&'a Pack, u64)> {
        let covered = self.midx.as_ref().and_then(|midx| {
            let (number, offset) = midx.find(oid).ok()??;
            Some((self.covered_pack(number)?, offset))
        });
        let loose = self.loose.iter().filter_map(|pack| Some((pack, pack.index.find(oid).ok()??)));
        covered.into_iter().chain(loose)
    }

    /// Returns the names of all packs: covered, loose and broken ones.
    pub(crate) fn names(&self) -> (&[String], Vec<&str>, Vec<&str>) {
        let covered = self.midx.as_ref().map_or(&[][..], |midx| &midx.packs);
        let loose = self.loose.iter().map(|pack| pack.name.as_str()).collect();
        (covered, loose, self.broken.iter().map(|(name, _)| name.as_str()).collect())
    }

    /// Searches all indexes linearly, so that an object is found even if a damaged index is no
    /// longer sorted.
    pub(crate) fn search_object(&self, oid: &Oid) -> Option<(ObjectKind, Vec<u8>)> {
        self.iter().find_map(|pack| {
            let entries = pack.index.entries().ok()?;
            let offset = entries.iter().find(|(indexed, _)| indexed == oid)?.1;
            let (kind, content) = pack.read_object(offset).ok()?;
            (Oid::of(kind, &content) == *oid).then_some((kind, content))
        })
    }

    /// Reads the first intact copy of an object.
    pub(crate) fn read_object(&self, oid: &Oid) -> Result<(ObjectKind, Vec<u8>), ObjectError> {
        let mut failure = ObjectError::Missing(*oid);
        for (pack, offset) in self.find_object(oid) {
            let damaged = |reason: String| ObjectError::Damaged {
                oid: *oid,
                pack: pack.name.clone(),
                reason,
            };
            match pack.read_object(offset) {
                Ok((kind, content)) if Oid::of(kind, &content) == *oid => {
                    return Ok((kind, content));
                }
                Ok(_) => failure = damaged("its content does not match its id".into()),
                Err(error) => failure = damaged(error.to_string()),
            }
        }
        Err(failure)
    }
}

/// True if a pack could not be opened because it is damaged or missing, rather than because of a
/// temporary system problem.
pub(crate) fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    matches!(error.kind(), InvalidData | NotFound | UnexpectedEof)
        || error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

/// Lists the names of the packs that have an index in this directory.
pub(crate) fn list_pack_names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".idx").map(str::to_owned))
        .collect();
    names.sort();
    names
}
