//! Reachability: the objects that refs need, and, for each of them, the object that it probably
//! resembles.
//!
//! A history is traversed from its newest tree to its oldest. Each tree is compared with the next
//! newer one, and only the entries that differ are followed. An object is added when it is first
//! reached. The best base for its delta is the object at the same path in the newer tree, because
//! most edits are small. A base is always reached before the objects that are stored as deltas from
//! it, so there are no cycles, and the newest state, which is read most often, is stored whole.
//! Attachments are compared in the same way, each with the previous one.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::object::{self, Commit, Malformed, ObjectKind, TreeEntry};
use crate::oid::Oid;
use crate::pack::read::RecentObjects;
use crate::source_packs::{ObjectPlace, SourcePacks};
use crate::store::ObjectError;

/// The objects that refs need, found in certain packs.
pub(crate) struct NeededObjects {
    /// The objects in the order in which they were reached: a base comes before its deltas.
    pub(crate) objects: Vec<NeededObject>,
    numbers: HashMap<Oid, u32>,
    absent: AbsentObject,
    /// The lost objects whose loss was accepted. The traversal skips them.
    accepted: HashSet<Oid>,
}

/// The reason why an object is in none of the packs.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum AbsentObject {
    Lost,
    /// The object is in another pack, which is not rewritten.
    Elsewhere,
}

/// A needed object.
#[derive(Clone, Copy)]
pub(crate) struct NeededObject {
    pub(crate) place: ObjectPlace,
    /// The kind; `None` if only reading the object would reveal it.
    pub(crate) kind: Option<ObjectKind>,
    /// The number of another object that this one probably resembles.
    pub(crate) resembles: Option<u32>,
}

/// A special number for objects in packs that are not rewritten. Such objects are not copied.
const STAYS: u32 = u32::MAX;

impl NeededObjects {
    pub(crate) fn new(absent: AbsentObject) -> NeededObjects {
        let (objects, numbers, accepted) = (Vec::new(), HashMap::new(), HashSet::new());
        NeededObjects { objects, numbers, absent, accepted }
    }

    /// Makes the traversal skip these objects, whose loss was accepted, instead of failing.
    pub(crate) fn without(self, accepted: HashSet<Oid>) -> NeededObjects {
        NeededObjects { accepted, ..self }
    }

    /// Returns the number of an object, if the traversal has reached it and it is to be copied.
    pub(crate) fn number(&self, oid: &Oid) -> Option<u32> {
        self.numbers.get(oid).copied().filter(|number| *number != STAYS)
    }

    /// Adds the remaining objects of the packs: those that were not reached.
    pub(crate) fn add_rest(&mut self, sources: &SourcePacks) {
        for (oid, place) in sources.objects() {
            self.add_object(oid, place, sources.stays(place), None, None);
        }
    }

    /// Adds the objects that the refs of one history need. If an object is lost, the error names
    /// the ref that needs it.
    pub(crate) fn add_history(
        &mut self,
        sources: &SourcePacks,
        recent: &mut RecentObjects,
        newest_first: &[Oid],
    ) -> Result<(), (Oid, ObjectError)> {
        let mut newer = NewerRef::default();
        for tip in newest_first {
            self.add_ref(sources, recent, &mut newer, *tip).map_err(|error| (*tip, error))?;
        }
        Ok(())
    }

    /// Adds the objects that a ref needs. Follows only the differences from `newer`, and then
    /// replaces `newer` with this ref.
    pub(crate) fn add_ref(
        &mut self,
        sources: &SourcePacks,
        recent: &mut RecentObjects,
        newer: &mut NewerRef,
        tip: Oid,
    ) -> Result<(), ObjectError> {
        let mut walk = HistoryWalk { needed: self, sources, recent, attachment: newer.attachment };
        let next = walk.walk_ref(newer.tip, tip)?;
        *newer = NewerRef { tip: next.or(newer.tip), attachment: walk.attachment };
        Ok(())
    }

    /// Forgets the objects whose numbers are `first` or greater.
    pub(crate) fn forget_from(&mut self, sources: &SourcePacks, first: usize) {
        for object in self.objects.drain(first..) {
            self.numbers.remove(&sources.object(object.place).oid);
        }
    }

    /// Divides the objects into groups. No object is stored as a delta from an object in another
    /// group. `find_group` returns the number of an object's group, or `None` to leave the object
    /// out.
    pub(crate) fn divide(
        &self,
        sources: &SourcePacks,
        mut find_group: impl FnMut(&Oid, ObjectPlace) -> Option<usize>,
    ) -> Vec<NeededObjects> {
        let mut groups: Vec<NeededObjects> = Vec::new();
        // The group of each object, and the object's number in that group.
        let mut places: Vec<Option<(usize, u32)>> = Vec::with_capacity(self.objects.len());
        for object in &self.objects {
            let oid = sources.object(object.place).oid;
            let Some(group) = find_group(&oid, object.place) else {
                places.push(None);
                continue;
            };
            groups.resize_with(groups.len().max(group + 1), || NeededObjects::new(self.absent));
            let base = object.resembles.and_then(|base| *places.get(base as usize)?);
            let resembles = base.filter(|(of, _)| *of == group).map(|(_, number)| number);
            let number = groups[group].objects.len() as u32;
            groups[group].numbers.insert(oid, number);
            groups[group].objects.push(NeededObject { resembles, ..*object });
            places.push(Some((group, number)));
        }
        groups
    }

    /// Adds an object. Returns true if it has not been reached before.
    fn add_object(
        &mut self,
        oid: Oid,
        place: ObjectPlace,
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
            self.objects.push(NeededObject { place, kind, resembles });
        }
        true
    }
}

/// A commit and its tree.
type CommitTree = (Oid, Oid);

/// The commits that the next older ref in a history is compared with.
#[derive(Clone, Copy, Default)]
pub(crate) struct NewerRef {
    tip: Option<CommitTree>,
    attachment: Option<CommitTree>,
}

/// The traversal that starts from one ref.
struct HistoryWalk<'a> {
    needed: &'a mut NeededObjects,
    sources: &'a SourcePacks,
    recent: &'a mut RecentObjects,
    /// The attachment that was reached last.
    attachment: Option<CommitTree>,
}

impl HistoryWalk<'_> {
    /// Traverses everything that a ref needs. Returns the commit to compare the next older ref
    /// with.
    fn walk_ref(
        &mut self,
        newer: Option<CommitTree>,
        tip: Oid,
    ) -> Result<Option<CommitTree>, ObjectError> {
        let Some(place) = self.find_place(tip)? else { return Ok(None) };
        match self.sources.read(place, self.recent)?.0 {
            ObjectKind::Commit => self.walk_commits(newer, tip),
            ObjectKind::Tree => self.walk_trees(None, tip).map(|()| None),
            ObjectKind::Blob => {
                self.meet_object(tip, ObjectKind::Blob, None)?;
                Ok(None)
            }
        }
    }

    /// Traverses a commit and its parents. The parent of a pin's commit is its attachment; a commit
    /// that git created may have other parents.
    fn walk_commits(
        &mut self,
        newer: Option<CommitTree>,
        tip: Oid,
    ) -> Result<Option<CommitTree>, ObjectError> {
        let mut compared = None;
        let mut waiting = vec![(newer, tip)];
        while let Some((newer, commit)) = waiting.pop() {
            if commit != tip && self.needed.numbers.contains_key(&commit) {
                continue;
            }
            let Some(content) = self.read_kind(commit, ObjectKind::Commit)? else { continue };
            let links = CommitLinks::parse(&content)
                .ok_or(ObjectError::Malformed(commit, Malformed("commit")))?;
            let this = Some((commit, links.tree));
            let is_attachment = Commit::parse(&content).is_ok_and(|commit| commit.is_attachment());
            let newer = match is_attachment {
                true => std::mem::replace(&mut self.attachment, this),
                false => newer,
            };
            let resembles = newer.map(|(commit, _)| commit);
            if self.meet_object(commit, ObjectKind::Commit, resembles)? {
                self.walk_trees(newer.map(|(_, tree)| tree), links.tree)?;
                waiting.extend(links.parents.into_iter().map(|parent| (this, parent)));
            }
            compared = compared.or(this);
        }
        Ok(compared)
    }

    /// Traverses the parts of a tree that differ from the newer tree.
    fn walk_trees(&mut self, newer: Option<Oid>, older: Oid) -> Result<(), ObjectError> {
        let mut waiting = Vec::new();
        if self.meet_object(older, ObjectKind::Tree, newer)? {
            waiting.push((newer, older));
        }
        while let Some((newer, older)) = waiting.pop() {
            let Some(content) = self.read_kind(older, ObjectKind::Tree)? else { continue };
            // The newer tree only provides hints, so it may be missing.
            let newer = newer.filter(|newer| self.sources.find(newer).is_some());
            let newer = newer.map_or(Ok(None), |newer| self.read_kind(newer, ObjectKind::Tree))?;
            let newer = newer.unwrap_or_default();
            let mut newer = object::parse_entries(&newer).map_while(Result::ok).peekable();
            for entry in object::parse_entries(&content) {
                let entry = entry.map_err(|error| ObjectError::Malformed(older, error))?;
                let Some(kind) = kind_of_entry(&entry) else { continue };
                let order = |other: &TreeEntry<'_>| {
                    let key = |entry: &TreeEntry<'_>| entry.mode.is_directory();
                    object::compare_names((other.name, key(other)), (entry.name, key(&entry)))
                };
                while newer.next_if(|newer| order(newer).is_lt()).is_some() {}
                let same_path = newer.next_if(|newer| order(newer).is_eq()).map(|newer| newer.oid);
                if self.meet_object(entry.oid, kind, same_path)? && kind == ObjectKind::Tree {
                    waiting.push((same_path, entry.oid));
                }
            }
        }
        Ok(())
    }

    /// Adds an object that the traversal has reached. Returns true if it has not been reached
    /// before.
    fn meet_object(
        &mut self,
        oid: Oid,
        kind: ObjectKind,
        resembles: Option<Oid>,
    ) -> Result<bool, ObjectError> {
        // An object that is unchanged in the newer tree has already been reached.
        if resembles == Some(oid) || self.needed.numbers.contains_key(&oid) {
            return Ok(false);
        }
        let Some(place) = self.find_place(oid)? else { return Ok(false) };
        let stays = self.sources.stays(place);
        Ok(self.needed.add_object(oid, place, stays, Some(kind), resembles))
    }

    fn find_place(&self, oid: Oid) -> Result<Option<ObjectPlace>, ObjectError> {
        match self.sources.find(&oid) {
            Some(place) => Ok(Some(place)),
            // The empty tree can be read without being stored.
            None if oid == Oid::EMPTY_TREE || self.needed.absent == AbsentObject::Elsewhere => {
                Ok(None)
            }
            None if self.needed.accepted.contains(&oid) => Ok(None),
            None => Err(ObjectError::Missing(oid)),
        }
    }

    fn read_kind(
        &mut self,
        oid: Oid,
        kind: ObjectKind,
    ) -> Result<Option<Arc<Vec<u8>>>, ObjectError> {
        let Some(place) = self.find_place(oid)? else { return Ok(None) };
        match self.sources.read(place, self.recent)? {
            (actual, content) if actual == kind => Ok(Some(content)),
            _ => Err(ObjectError::WrongKind(
                oid,
                if kind == ObjectKind::Tree { "tree" } else { "pin" },
            )),
        }
    }
}

/// Returns the kind of the object that an entry of a tree refers to, or `None` for a submodule,
/// whose commit is not in this store.
pub(crate) fn kind_of_entry(entry: &TreeEntry<'_>) -> Option<ObjectKind> {
    match entry.mode {
        mode if mode.is_directory() => Some(ObjectKind::Tree),
        mode if mode.is_file() || mode.is_symlink() => Some(ObjectKind::Blob),
        _ => None,
    }
}

/// The objects that a commit needs.
pub(crate) struct CommitLinks {
    pub(crate) tree: Oid,
    pub(crate) parents: Vec<Oid>,
}

impl CommitLinks {
    pub(crate) fn parse(commit: &[u8]) -> Option<CommitLinks> {
        let lines = commit.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
        let mut ids = lines.filter_map(|line| {
            let name = line.iter().position(|byte| *byte == b' ')?;
            let id = std::str::from_utf8(&line[name + 1..]).ok()?.parse::<Oid>().ok()?;
            Some((&line[..name], id))
        });
        let (b"tree", tree) = ids.next()? else { return None };
        let parents = ids.filter(|(name, _)| name == b"parent").map(|(_, id)| id).collect();
        Some(CommitLinks { tree, parents })
    }
}
