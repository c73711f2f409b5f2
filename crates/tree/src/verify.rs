//! Looking at everything: is each pin whole, and what is lost of those that are not?

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use crate::git::refs::Ref;
use crate::history::{self, Links};
use crate::object::{self, Malformed, ObjectKind};
use crate::oid::Oid;
use crate::origins::{Origin, Origins};
use crate::pack::midx::{self, Midx};
use crate::pack::read::{Content, Recent};
use crate::path::RelPath;
use crate::pins::PinName;
use crate::store::{ObjectError, Packs, Store, StoreError, names};

/// So many lost paths of a pin are named; the others are counted.
const NAMED: usize = 1000;

/// How many bytes of objects each thread keeps in memory.
const RECENT: usize = 8 << 20;

/// How much has been looked at, and how much is known to be there: that grows on the way.
pub type Progress<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyReport {
    /// All pins and other refs, those of a workspace together, oldest first.
    pub pins: Vec<PinReport>,
    /// Packs and indexes that are damaged, whether or not a pin needs what they lost.
    pub packs: Vec<BrokenPack>,
    /// How many objects were read and compared with their ids.
    pub objects: u64,
}

impl VerifyReport {
    /// Whether nothing is damaged.
    pub fn is_whole(&self) -> bool {
        self.packs.is_empty() && self.pins.iter().all(|pin| pin.state == PinState::Whole)
    }
}

/// What became of one pin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinReport {
    /// The ref, from `refs/` on.
    pub name: String,
    /// Which pin that is; `None` for a ref that somebody else made.
    pub pin: Option<PinName>,
    /// What is left.
    pub state: PinState,
}

/// How much of a pin is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PinState {
    /// Everything.
    Whole,
    /// Everything but some files and directories, or the attachment.
    Partly {
        /// The first thousand of them. A lost directory stands for all that was in it.
        lost: Vec<RelPath>,
        /// How many there are.
        count: u64,
        /// Whether the attachment is lost.
        attachment: bool,
    },
    /// Nothing: the ref, the pin itself or its topmost directory is lost.
    Lost {
        /// What is wrong.
        reason: String,
    },
}

/// A damaged pack or index.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BrokenPack {
    /// `pack-…`, or `multi-pack-index`.
    pub name: String,
    /// What is wrong with it.
    pub reason: String,
}

impl Store {
    /// Reads everything that any ref needs and compares it with its ids, and all packs and
    /// indexes with their checksums. Captures go on meanwhile; a gc waits.
    pub fn verify(&self, progress: Progress<'_>) -> Result<VerifyReport, StoreError> {
        self.examine(progress).map(|examination| examination.report)
    }

    /// [`Store::verify`], and which objects are lost.
    pub(crate) fn examine(&self, progress: Progress<'_>) -> Result<Examination, StoreError> {
        let _lock = self.share()?;
        let refs = self.all_refs()?;
        let (origins, mut broken) = self.check_packs();
        let packs = self.packs();
        let mut graph = Graph::new(&packs, &origins);
        let tips = refs.iter().filter_map(|found| found.id.clone().ok());
        graph.read(tips.collect(), progress);

        for (pack, reason) in std::mem::take(&mut graph.broken) {
            let damage = || io::Error::new(io::ErrorKind::InvalidData, reason);
            broken.entry(pack).or_insert_with(damage);
        }
        let lost: HashSet<Oid> = graph.lost().map(|number| graph.oids[number as usize]).collect();
        let mut losses = Losses::new(&graph);
        let pins = refs.iter().map(|found| losses.report(found)).collect();
        let objects = (graph.oids.len() - lost.len()) as u64;
        let packs = broken
            .iter()
            .map(|(name, error)| BrokenPack { name: name.clone(), reason: error.to_string() });
        let report = VerifyReport { pins, packs: packs.collect(), objects };
        Ok(Examination { report, broken, lost })
    }

    /// Opens all packs and reads them whole.
    fn check_packs(&self) -> (Origins, BTreeMap<String, io::Error>) {
        let directory = self.pack_directory();
        let opened: Vec<(String, io::Result<Origin>)> = names(&directory)
            .into_par_iter()
            .map(|name| {
                let origin = Origin::open(&directory, &name);
                (name, origin)
            })
            .collect();
        let mut broken: BTreeMap<String, io::Error> = opened
            .par_iter()
            .filter_map(|(name, origin)| {
                let origin = origin.as_ref().ok()?;
                let checked = origin.check_index().and_then(|()| origin.check_pack());
                Some((name.clone(), checked.err()?))
            })
            .collect();
        let mut origins = Origins::default();
        for (name, origin) in opened {
            match origin {
                Ok(origin) => origins.add(origin, false),
                Err(error) => drop(broken.insert(name, error)),
            }
        }
        if let Err(error) = self.check_midx() {
            broken.insert(midx::NAME.to_owned(), error);
        }
        (origins, broken)
    }

    fn check_midx(&self) -> io::Result<()> {
        let directory = self.pack_directory();
        let midx = match Midx::open(&directory.join(midx::NAME)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            midx => midx?,
        };
        let wrong = |what: String| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        if !midx.is_intact()? {
            return wrong("it does not match its checksum".into());
        }
        let present: HashSet<String> = names(&directory).into_iter().collect();
        match midx.packs.iter().find(|name| !present.contains(*name)) {
            Some(gone) => wrong(format!("it names {gone}, which is not there")),
            None => Ok(()),
        }
    }
}

/// A report with what repair needs.
pub(crate) struct Examination {
    pub(crate) report: VerifyReport,
    pub(crate) broken: BTreeMap<String, io::Error>,
    /// What refs need and no pack has.
    pub(crate) lost: HashSet<Oid>,
}

/// Everything that the refs need: who needs what, and what is lost.
struct Graph<'a> {
    packs: &'a Packs,
    origins: &'a Origins,
    numbers: HashMap<Oid, u32>,
    oids: Vec<Oid>,
    nodes: Vec<Node>,
    /// Packs in which a copy of an object is damaged, and how.
    broken: Vec<(String, String)>,
}

enum Node {
    /// With what it consists of, in order; a commit's tree comes first.
    Read(ObjectKind, Box<[u32]>),
    Lost(String),
}

/// What an object consists of.
type Parts = Vec<(Oid, ObjectKind)>;

/// An object's number, and its kind and parts or what is wrong with it.
type Found = (u32, Result<(ObjectKind, Parts), String>);

impl<'a> Graph<'a> {
    fn new(packs: &'a Packs, origins: &'a Origins) -> Graph<'a> {
        Graph {
            packs,
            origins,
            numbers: HashMap::new(),
            oids: Vec::new(),
            nodes: Vec::new(),
            broken: Vec::new(),
        }
    }

    /// Reads what the refs name and everything below.
    fn read(&mut self, tips: Vec<Oid>, progress: Progress<'_>) {
        let done = AtomicU64::new(0);
        let mut blobs = Vec::new();
        // What a ref names may be of any kind; ours are commits.
        let mut frontier: Vec<(u32, Option<ObjectKind>)> = Vec::new();
        for tip in tips {
            frontier.extend(self.meet(tip).map(|number| (number, None)));
        }
        while !frontier.is_empty() {
            let read = self.read_all(frontier, &done, progress);
            frontier = Vec::new();
            for (number, result) in read {
                self.nodes[number as usize] = match result {
                    Err(reason) => Node::Lost(reason),
                    Ok((kind, parts)) => {
                        let numbers = parts.into_iter().map(|(oid, kind)| {
                            if let Some(new) = self.meet(oid) {
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
                        Node::Read(kind, numbers)
                    }
                };
            }
        }
        for (number, result) in self.read_all(blobs, &done, progress) {
            self.nodes[number as usize] = match result {
                Ok((kind, _)) => Node::Read(kind, Box::default()),
                Err(reason) => Node::Lost(reason),
            };
        }
    }

    /// The number of an object that was not met before.
    fn meet(&mut self, oid: Oid) -> Option<u32> {
        let number = self.oids.len() as u32;
        if self.numbers.contains_key(&oid) {
            return None;
        }
        self.numbers.insert(oid, number);
        self.oids.push(oid);
        self.nodes.push(Node::Lost("it was not read".into()));
        Some(number)
    }

    /// Reads objects in the order in which they lie, with all processors.
    fn read_all(
        &mut self,
        mut wanted: Vec<(u32, Option<ObjectKind>)>,
        done: &AtomicU64,
        progress: Progress<'_>,
    ) -> Vec<Found> {
        wanted.sort_by_cached_key(|(number, _)| {
            let place = self.origins.find(&self.oids[*number as usize]);
            place.map(|place| self.origins.order(place))
        });
        let total = self.oids.len() as u64;
        let share = (wanted.len() / rayon::current_num_threads() / 4).clamp(16, 1024);
        let shares: Vec<_> = wanted
            .par_chunks(share)
            .map(|share| {
                let mut recent = Recent::new(RECENT);
                let mut broken = Vec::new();
                let read = |(number, kind): &(u32, Option<ObjectKind>)| {
                    let oid = self.oids[*number as usize];
                    let read = self
                        .object(oid, &mut recent, &mut broken)
                        .and_then(|content| Ok((content.0, parts(oid, &content, *kind)?)))
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

    /// Reads the first copy of an object that is whole.
    fn object(
        &self,
        oid: Oid,
        recent: &mut Recent,
        broken: &mut Vec<(String, String)>,
    ) -> Result<Content, ObjectError> {
        if oid == Oid::EMPTY_TREE && self.origins.find(&oid).is_none() {
            return Ok((ObjectKind::Tree, Arc::default()));
        }
        for place in self.origins.everywhere(&oid) {
            match self.origins.read(place, recent) {
                Ok(content) => return Ok(content),
                Err(error) => {
                    broken.push((self.origins.pack(place).name.clone(), error.to_string()));
                }
            }
        }
        // The index over all packs may know what a pack's own index has lost.
        self.packs.read(&oid).map(|(kind, content)| (kind, Arc::new(content)))
    }

    fn lost(&self) -> impl Iterator<Item = u32> {
        let nodes = (0..).zip(&self.nodes);
        nodes.filter(|(_, node)| matches!(node, Node::Lost(_))).map(|(number, _)| number)
    }

    fn parts(&self, number: u32) -> &[u32] {
        match &self.nodes[number as usize] {
            Node::Read(_, parts) => parts,
            Node::Lost(_) => &[],
        }
    }
}

/// What an object consists of, if it is of the kind that it should be.
fn parts(oid: Oid, content: &Content, wanted: Option<ObjectKind>) -> Result<Parts, ObjectError> {
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
            let links =
                Links::parse(content).ok_or(ObjectError::Malformed(oid, Malformed("commit")))?;
            let parents = links.parents.into_iter().map(|parent| (parent, ObjectKind::Commit));
            Ok([(links.tree, ObjectKind::Tree)].into_iter().chain(parents).collect())
        }
        (_, ObjectKind::Tree) => object::parse_entries(content)
            .filter_map(|entry| match entry {
                Ok(entry) => history::kind(&entry).map(|kind| Ok((entry.oid, kind))),
                Err(error) => Some(Err(ObjectError::Malformed(oid, error))),
            })
            .collect(),
    }
}

/// What is lost, seen from the refs.
struct Losses<'a> {
    graph: &'a Graph<'a>,
    recent: Recent,
    /// For everything that is lost or not whole: how many paths that are.
    counts: HashMap<u32, u64>,
}

impl<'a> Losses<'a> {
    fn new(graph: &'a Graph<'a>) -> Losses<'a> {
        let mut counts: HashMap<u32, u64> = graph.lost().map(|number| (number, 1)).collect();
        for number in affected(graph) {
            let inside = graph.parts(number).iter().filter_map(|part| counts.get(part)).sum();
            counts.insert(number, inside);
        }
        Losses { graph, recent: Recent::new(RECENT), counts }
    }

    fn report(&mut self, found: &Ref) -> PinReport {
        let pin: Option<PinName> = found.name.parse().ok();
        let state = match &found.id {
            Ok(id) => self.state(self.graph.numbers[id], pin.is_some()),
            Err(reason) => PinState::Lost { reason: reason.clone() },
        };
        PinReport { name: found.name.clone(), pin, state }
    }

    /// What is left of what a ref names. The parent of a pin is only its attachment.
    fn state(&mut self, tip: u32, is_pin: bool) -> PinState {
        if !self.counts.contains_key(&tip) {
            return PinState::Whole;
        }
        match &self.graph.nodes[tip as usize] {
            Node::Lost(reason) => PinState::Lost { reason: reason.clone() },
            Node::Read(ObjectKind::Commit, parts) => {
                let unattached = parts[1..].iter().any(|parent| self.counts.contains_key(parent));
                if unattached && !is_pin {
                    return PinState::Lost { reason: "what came before it is not whole".into() };
                }
                match self.state(parts[0], is_pin) {
                    PinState::Whole if unattached => {
                        PinState::Partly { lost: Vec::new(), count: 0, attachment: true }
                    }
                    PinState::Partly { lost, count, .. } => {
                        PinState::Partly { lost, count, attachment: unattached }
                    }
                    state => state,
                }
            }
            Node::Read(..) => {
                let count = self.counts[&tip];
                PinState::Partly { lost: self.paths(tip), count, attachment: false }
            }
        }
    }

    /// The first lost paths in a tree.
    fn paths(&mut self, tree: u32) -> Vec<RelPath> {
        let mut lost = Vec::new();
        let mut waiting = vec![(RelPath::root(), tree)];
        while let Some((path, number)) = waiting.pop() {
            if lost.len() == NAMED {
                break;
            }
            let oid = self.graph.oids[number as usize];
            if let Node::Lost(_) = &self.graph.nodes[number as usize] {
                lost.push(path);
            } else if let Ok((_, content)) =
                self.graph.object(oid, &mut self.recent, &mut Vec::new())
            {
                let entries = object::parse_entries(&content)
                    .map_while(Result::ok)
                    .filter(|entry| history::kind(entry).is_some());
                let first = waiting.len();
                for (entry, part) in entries.zip(self.graph.parts(number)) {
                    if self.counts.contains_key(part) {
                        waiting.push((path.join(entry.name), *part));
                    }
                }
                waiting[first..].reverse();
            }
        }
        lost
    }
}

/// Everything that something lost is in, inner before outer.
fn affected(graph: &Graph<'_>) -> Vec<u32> {
    let mut waiting: Vec<u32> = graph.lost().collect();
    if waiting.is_empty() {
        return Vec::new();
    }
    let mut outer: HashMap<u32, Vec<u32>> = HashMap::new();
    for number in 0..graph.nodes.len() as u32 {
        for part in graph.parts(number) {
            outer.entry(*part).or_default().push(number);
        }
    }
    let around = |number: u32| outer.get(&number).into_iter().flatten().copied();
    // How many affected parts each has: it comes when all of them have come.
    let mut missing: HashMap<u32, usize> = HashMap::new();
    let mut met = waiting.clone();
    while let Some(number) = met.pop() {
        for whole in around(number) {
            let count = missing.entry(whole).or_insert(0);
            if *count == 0 {
                met.push(whole);
            }
            *count += 1;
        }
    }
    let mut ordered = Vec::new();
    while let Some(number) = waiting.pop() {
        for whole in around(number) {
            let count = missing.get_mut(&whole).expect("it was met above");
            *count -= 1;
            if *count == 0 {
                ordered.push(whole);
                waiting.push(whole);
            }
        }
    }
    ordered
}

#[cfg(test)]
mod tests;
