//! What the refs need, and what in it resembles what.
//!
//! A history is walked from its newest tree to its oldest, each tree against the one after it,
//! only where the two differ. Whatever is met for the first time is needed; what stands in its
//! place in the newer tree is the best base for a delta, because most edits are small. Bases are
//! always met before what may be stored as a difference from them, so nothing can go in circles,
//! and the newest state, the one most often asked for, is the one that is stored whole. Each
//! attachment is compared with the one that was met before it, in the same way.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use crate::object::{self, Commit, Malformed, ObjectKind, TreeEntry};
use crate::oid::Oid;
use crate::origins::{Origins, Place};
use crate::pack::read::Recent;
use crate::store::ObjectError;

/// What is needed of some packs.
pub(crate) struct Needed {
    /// Bases come before what may be stored as a difference from them.
    pub(crate) objects: Vec<Object>,
    numbers: HashMap<Oid, u32>,
    absent: Absent,
}

/// What it means that an object is in none of the packs.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Absent {
    /// Something is lost.
    Lost,
    /// It is in another pack, which is left alone.
    Elsewhere,
}

/// A needed object.
#[derive(Clone, Copy)]
pub(crate) struct Object {
    pub(crate) place: Place,
    /// `None`: not known without looking.
    pub(crate) kind: Option<ObjectKind>,
    /// The number of the object that it probably resembles.
    pub(crate) resembles: Option<u32>,
}

/// Stands for the number of an object that needs no new place.
const STAYS: u32 = u32::MAX;

impl Needed {
    pub(crate) fn new(absent: Absent) -> Needed {
        Needed { objects: Vec::new(), numbers: HashMap::new(), absent }
    }

    /// The number of an object that was met.
    pub(crate) fn number(&self, oid: &Oid) -> Option<u32> {
        self.numbers.get(oid).copied().filter(|number| *number != STAYS)
    }

    /// Adds everything in the packs that was not met.
    pub(crate) fn add_rest(&mut self, origins: &Origins) {
        for (oid, place) in origins.each() {
            self.add(oid, place, origins.stays(place), None, None);
        }
    }

    /// Adds what the refs of one history need, given from the newest to the oldest. If something
    /// is lost, says which ref needs it.
    pub(crate) fn add_history(
        &mut self,
        origins: &Origins,
        recent: &mut Recent,
        newest_first: &[Oid],
    ) -> Result<(), (Oid, ObjectError)> {
        let mut newer = Newer::default();
        for tip in newest_first {
            self.add_ref(origins, recent, &mut newer, *tip).map_err(|error| (*tip, error))?;
        }
        Ok(())
    }

    /// Adds what a ref needs, compared with a newer one of its history, which it takes the place
    /// of.
    pub(crate) fn add_ref(
        &mut self,
        origins: &Origins,
        recent: &mut Recent,
        newer: &mut Newer,
        tip: Oid,
    ) -> Result<(), ObjectError> {
        let mut walk = Walk { needed: self, origins, recent, attachment: newer.attachment };
        let found = walk.tip(newer.tip, tip)?;
        *newer = Newer { tip: found.or(newer.tip), attachment: walk.attachment };
        Ok(())
    }

    /// Forgets that the objects from number `first` on were met.
    pub(crate) fn forget_from(&mut self, origins: &Origins, first: usize) {
        for object in self.objects.drain(first..) {
            self.numbers.remove(&origins.object(object.place).oid);
        }
    }

    /// Whether the object is met for the first time.
    fn add(
        &mut self,
        oid: Oid,
        place: Place,
        stays: bool,
        kind: Option<ObjectKind>,
        resembles: Option<Oid>,
    ) -> bool {
        let resembles = resembles.and_then(|oid| self.number(&oid));
        let Entry::Vacant(number) = self.numbers.entry(oid) else { return false };
        if stays {
            number.insert(STAYS);
        } else {
            number.insert(self.objects.len() as u32);
            self.objects.push(Object { place, kind, resembles });
        }
        true
    }
}

/// A commit and its tree.
type Tip = (Oid, Oid);

/// What the next older ref of a history is compared with.
#[derive(Clone, Copy, Default)]
pub(crate) struct Newer {
    tip: Option<Tip>,
    attachment: Option<Tip>,
}

struct Walk<'a> {
    needed: &'a mut Needed,
    origins: &'a Origins,
    recent: &'a mut Recent,
    /// The attachment that was met last.
    attachment: Option<Tip>,
}

impl Walk<'_> {
    /// Walks what a ref names. Returns what the next older one is compared with.
    fn tip(&mut self, newer: Option<Tip>, tip: Oid) -> Result<Option<Tip>, ObjectError> {
        let Some(place) = self.place(tip)? else { return Ok(None) };
        match self.origins.read(place, self.recent)?.0 {
            ObjectKind::Commit => self.commits(newer, tip),
            ObjectKind::Tree => self.trees(None, tip).map(|()| None),
            ObjectKind::Blob => {
                self.meet(tip, ObjectKind::Blob, None)?;
                Ok(None)
            }
        }
    }

    /// The parents of ours are attachments; those of others are what came before.
    fn commits(&mut self, newer: Option<Tip>, tip: Oid) -> Result<Option<Tip>, ObjectError> {
        let mut compared = None;
        let mut waiting = vec![(newer, tip)];
        while let Some((newer, commit)) = waiting.pop() {
            if commit != tip && self.needed.numbers.contains_key(&commit) {
                continue;
            }
            let Some(content) = self.content(commit, ObjectKind::Commit)? else { continue };
            let links = Links::parse(&content)
                .ok_or(ObjectError::Malformed(commit, Malformed("commit")))?;
            let this = Some((commit, links.tree));
            let is_attachment = Commit::parse(&content).is_ok_and(|found| found.is_attachment());
            let newer = match is_attachment {
                true => std::mem::replace(&mut self.attachment, this),
                false => newer,
            };
            let met = self.meet(commit, ObjectKind::Commit, newer.map(|(commit, _)| commit))?;
            if met {
                self.trees(newer.map(|(_, tree)| tree), links.tree)?;
                waiting.extend(links.parents.into_iter().map(|parent| (this, parent)));
            }
            compared = compared.or(this);
        }
        Ok(compared)
    }

    fn trees(&mut self, newer: Option<Oid>, older: Oid) -> Result<(), ObjectError> {
        let mut waiting = Vec::new();
        if self.meet(older, ObjectKind::Tree, newer)? {
            waiting.push((newer, older));
        }
        while let Some((newer, older)) = waiting.pop() {
            let Some(content) = self.content(older, ObjectKind::Tree)? else { continue };
            // What only gives hints may be missing.
            let newer = newer.filter(|newer| self.origins.find(newer).is_some());
            let newer = newer.map_or(Ok(None), |newer| self.content(newer, ObjectKind::Tree))?;
            let newer = newer.unwrap_or_default();
            let mut newer = object::parse_entries(&newer).map_while(Result::ok).peekable();
            for entry in object::parse_entries(&content) {
                let entry = entry.map_err(|error| ObjectError::Malformed(older, error))?;
                let Some(kind) = kind(&entry) else { continue };
                let order = |other: &TreeEntry<'_>| {
                    let key = |entry: &TreeEntry<'_>| entry.mode.is_directory();
                    object::compare_names((other.name, key(other)), (entry.name, key(&entry)))
                };
                while newer.next_if(|newer| order(newer).is_lt()).is_some() {}
                let same_path = newer.next_if(|newer| order(newer).is_eq()).map(|newer| newer.oid);
                if self.meet(entry.oid, kind, same_path)? && kind == ObjectKind::Tree {
                    waiting.push((same_path, entry.oid));
                }
            }
        }
        Ok(())
    }

    /// Whether the object is met for the first time.
    fn meet(
        &mut self,
        oid: Oid,
        kind: ObjectKind,
        resembles: Option<Oid>,
    ) -> Result<bool, ObjectError> {
        // Next to each other in both trees and the same: known.
        if resembles == Some(oid) || self.needed.numbers.contains_key(&oid) {
            return Ok(false);
        }
        let Some(place) = self.place(oid)? else { return Ok(false) };
        let stays = self.origins.stays(place);
        Ok(self.needed.add(oid, place, stays, Some(kind), resembles))
    }

    fn place(&self, oid: Oid) -> Result<Option<Place>, ObjectError> {
        match self.origins.find(&oid) {
            Some(place) => Ok(Some(place)),
            // Everybody knows the tree without entries, whether a pack has it or not.
            None if oid == Oid::EMPTY_TREE || self.needed.absent == Absent::Elsewhere => Ok(None),
            None => Err(ObjectError::Missing(oid)),
        }
    }

    fn content(&mut self, oid: Oid, kind: ObjectKind) -> Result<Option<Arc<Vec<u8>>>, ObjectError> {
        let Some(place) = self.place(oid)? else { return Ok(None) };
        match self.origins.read(place, self.recent)? {
            (found, content) if found == kind => Ok(Some(content)),
            _ => Err(ObjectError::WrongKind(
                oid,
                if kind == ObjectKind::Tree { "tree" } else { "pin" },
            )),
        }
    }
}

/// What an entry of a tree points at; `None` if it is not in this store (a submodule's commit).
pub(crate) fn kind(entry: &TreeEntry<'_>) -> Option<ObjectKind> {
    match entry.mode {
        mode if mode.is_directory() => Some(ObjectKind::Tree),
        mode if mode.is_file() || mode.is_symlink() => Some(ObjectKind::Blob),
        _ => None,
    }
}

/// What a commit needs.
pub(crate) struct Links {
    pub(crate) tree: Oid,
    pub(crate) parents: Vec<Oid>,
}

impl Links {
    pub(crate) fn parse(commit: &[u8]) -> Option<Links> {
        let lines = commit.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
        let mut ids = lines.filter_map(|line| {
            let name = line.iter().position(|byte| *byte == b' ')?;
            let id = std::str::from_utf8(&line[name + 1..]).ok()?.parse::<Oid>().ok()?;
            Some((&line[..name], id))
        });
        let (b"tree", tree) = ids.next()? else { return None };
        let parents = ids.filter(|(name, _)| name == b"parent").map(|(_, id)| id).collect();
        Some(Links { tree, parents })
    }
}
