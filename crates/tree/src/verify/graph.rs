//! Reading all objects that refs need.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use super::{Progress, RECENT_BYTES};
use crate::object::{self, Malformed, ObjectKind};
use crate::oid::Oid;
use crate::pack::read::{ObjectContent, RecentObjects};
use crate::packs::Packs;
use crate::reachability::{self, CommitLinks};
use crate::source_packs::SourcePacks;
use crate::store::ObjectError;

/// All objects that refs need, each with its parts.
pub(super) struct ObjectGraph<'a> {
    packs: &'a Packs,
    sources: &'a SourcePacks,
    pub(super) numbers: HashMap<Oid, u32>,
    pub(super) oids: Vec<Oid>,
    pub(super) nodes: Vec<GraphNode>,
    /// The packs in which a copy of an object is damaged, each with the reason.
    pub(super) broken: Vec<(String, String)>,
}

/// An object in the graph.
pub(super) enum GraphNode {
    /// An object that was read: its kind, and the numbers of its parts, in order. The tree of a
    /// commit comes first.
    Read(ObjectKind, Box<[u32]>),
    Lost(String),
}

/// The objects that an object refers to: a tree's entries, or a commit's tree and parents.
type ObjectParts = Vec<(Oid, ObjectKind)>;

/// The number of an object, with its kind and parts, or the reason why it cannot be read.
type ReadObject = (u32, Result<(ObjectKind, ObjectParts), String>);

impl<'a> ObjectGraph<'a> {
    pub(super) fn new(packs: &'a Packs, sources: &'a SourcePacks) -> ObjectGraph<'a> {
        ObjectGraph {
            packs,
            sources,
            numbers: HashMap::new(),
            oids: Vec::new(),
            nodes: Vec::new(),
            broken: Vec::new(),
        }
    }

    /// Reads the objects that refs refer to, and all their parts.
    pub(super) fn read_from(&mut self, tips: Vec<Oid>, progress: Progress<'_>) {
        let done = AtomicU64::new(0);
        let mut blobs = Vec::new();
        // A pin refers to a commit, but a ref that git created may refer to an object of any kind.
        let mut frontier: Vec<(u32, Option<ObjectKind>)> = Vec::new();
        for tip in tips {
            frontier.extend(self.add_object(tip).map(|number| (number, None)));
        }
        while !frontier.is_empty() {
            let read = self.read_objects(frontier, &done, progress);
            frontier = Vec::new();
            for (number, result) in read {
                self.nodes[number as usize] = match result {
                    Err(reason) => GraphNode::Lost(reason),
                    Ok((kind, parts)) => {
                        let numbers = parts.into_iter().map(|(oid, kind)| {
                            if let Some(new) = self.add_object(oid) {
                                let list = if kind == ObjectKind::Blob {
                                    &mut blobs
                                } else {
                                    &mut frontier
                                };
                                list.push((new, Some(kind)));
                            }
                            self.numbers[&oid]
                        });
                        let numbers = numbers.collect();
                        GraphNode::Read(kind, numbers)
                    }
                };
            }
        }
        for (number, result) in self.read_objects(blobs, &done, progress) {
            self.nodes[number as usize] = match result {
                Ok((kind, _)) => GraphNode::Read(kind, Box::default()),
                Err(reason) => GraphNode::Lost(reason),
            };
        }
    }

    /// Adds an object. Returns its number, or `None` if it was added before.
    fn add_object(&mut self, oid: Oid) -> Option<u32> {
        let number = self.oids.len() as u32;
        if self.numbers.contains_key(&oid) {
            return None;
        }
        self.numbers.insert(oid, number);
        self.oids.push(oid);
        self.nodes.push(GraphNode::Lost("it was not read".into()));
        Some(number)
    }

    /// Reads objects in the order of their locations, in parallel.
    fn read_objects(
        &mut self,
        mut wanted: Vec<(u32, Option<ObjectKind>)>,
        done: &AtomicU64,
        progress: Progress<'_>,
    ) -> Vec<ReadObject> {
        wanted.sort_by_cached_key(|(number, _)| {
            let place = self.sources.find(&self.oids[*number as usize]);
            place.map(|place| self.sources.read_order(place))
        });
        let total = self.oids.len() as u64;
        let share = (wanted.len() / rayon::current_num_threads() / 4).clamp(16, 1024);
        let shares: Vec<_> = wanted
            .par_chunks(share)
            .map(|share| {
                let mut recent = RecentObjects::new(RECENT_BYTES);
                let mut broken = Vec::new();
                let read = |(number, kind): &(u32, Option<ObjectKind>)| {
                    let oid = self.oids[*number as usize];
                    let read = self
                        .read_object(oid, &mut recent, &mut broken)
                        .and_then(|content| Ok((content.0, parse_parts(oid, &content, *kind)?)))
                        .map_err(|error| error.to_string());
                    (*number, read)
                };
                let results: Vec<_> = share.iter().map(read).collect();
                let before = done.fetch_add(share.len() as u64, Ordering::Relaxed);
                progress(before + share.len() as u64, total);
                (results, broken)
            })
            .collect();
        let mut all = Vec::with_capacity(wanted.len());
        for (results, broken) in shares {
            all.extend(results);
            self.broken.extend(broken);
        }
        all
    }

    /// Reads the first intact copy of an object, and adds the packs with damaged copies to
    /// `broken`.
    pub(super) fn read_object(
        &self,
        oid: Oid,
        recent: &mut RecentObjects,
        broken: &mut Vec<(String, String)>,
    ) -> Result<ObjectContent, ObjectError> {
        if oid == Oid::EMPTY_TREE && self.sources.find(&oid).is_none() {
            return Ok((ObjectKind::Tree, Arc::default()));
        }
        for place in self.sources.find_all(&oid) {
            match self.sources.read(place, recent) {
                Ok(content) => return Ok(content),
                Err(error) => {
                    broken.push((self.sources.pack(place).name.clone(), error.to_string()));
                }
            }
        }
        // The multi-pack index may list an object that a pack's damaged index does not list.
        self.packs.read_object(&oid).map(|(kind, content)| (kind, Arc::new(content)))
    }

    /// Lists the numbers of all lost objects.
    pub(super) fn lost(&self) -> impl Iterator<Item = u32> {
        let nodes = (0..).zip(&self.nodes);
        nodes.filter(|(_, node)| matches!(node, GraphNode::Lost(_))).map(|(number, _)| number)
    }

    /// Returns the parts of an object. A lost object has none.
    pub(super) fn parts(&self, number: u32) -> &[u32] {
        match &self.nodes[number as usize] {
            GraphNode::Read(_, parts) => parts,
            GraphNode::Lost(_) => &[],
        }
    }
}

/// Parses the parts of an object. Fails if the object is not of the requested kind.
fn parse_parts(
    oid: Oid,
    content: &ObjectContent,
    wanted: Option<ObjectKind>,
) -> Result<ObjectParts, ObjectError> {
    let (kind, content) = content;
    match (wanted, kind) {
        (Some(ObjectKind::Tree), ObjectKind::Commit | ObjectKind::Blob) => {
            Err(ObjectError::WrongKind(oid, "tree"))
        }
        (Some(ObjectKind::Blob), ObjectKind::Commit | ObjectKind::Tree) => {
            Err(ObjectError::WrongKind(oid, "file"))
        }
        (Some(ObjectKind::Commit), ObjectKind::Tree | ObjectKind::Blob) => {
            Err(ObjectError::WrongKind(oid, "pin"))
        }
        (_, ObjectKind::Blob) => Ok(Vec::new()),
        (_, ObjectKind::Commit) => {
            let links = CommitLinks::parse(content)
                .ok_or(ObjectError::Malformed(oid, Malformed("commit")))?;
            let parents = links.parents.into_iter().map(|parent| (parent, ObjectKind::Commit));
            Ok([(links.tree, ObjectKind::Tree)].into_iter().chain(parents).collect())
        }
        (_, ObjectKind::Tree) => object::parse_entries(content)
            .filter_map(|entry| match entry {
                Ok(entry) => reachability::kind_of_entry(&entry).map(|kind| Ok((entry.oid, kind))),
                Err(error) => Some(Err(ObjectError::Malformed(oid, error))),
            })
            .collect(),
    }
}
