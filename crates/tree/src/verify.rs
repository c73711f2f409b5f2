//! Verifying a store: reads all objects that refs need, and reports the pins that are damaged.

mod graph;
mod losses;

use std::collections::{BTreeMap, HashSet};
use std::io;

use rayon::prelude::*;
use takeback_base::durable;

use crate::oid::Oid;
use crate::pack::midx::{self, Midx};
use crate::packs::list_pack_names;
use crate::path::RelPath;
use crate::pins::PinName;
use crate::source_packs::{SourcePack, SourcePacks};
use crate::store::{Store, StoreError};
use crate::threads::prepare_threads;
use graph::ObjectGraph;
use losses::LossReport;

/// The maximum number of lost paths that are listed for a pin. Further lost paths are only counted.
const MAX_NAMED: usize = 1000;

/// The maximum total size in bytes of the objects that each thread keeps in memory.
const RECENT_BYTES: usize = 8 << 20;

/// A function that receives the number of objects read so far and the number of objects known so
/// far. Both numbers grow.
pub type Progress<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyReport {
    /// All pins and other refs, grouped by workspace, oldest first.
    pub pins: Vec<PinReport>,
    /// The damaged packs and indexes, whether or not a pin needs the lost objects.
    pub packs: Vec<BrokenPack>,
    /// The number of objects that were read and match their ids.
    pub objects: u64,
}

impl VerifyReport {
    /// True if nothing is damaged.
    pub fn is_whole(&self) -> bool {
        self.packs.is_empty() && self.pins.iter().all(|pin| pin.state == PinState::Whole)
    }
}

/// The state of one pin.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct PinReport {
    /// The full name of the ref, beginning with `refs/`.
    pub name: String,
    /// The name of the pin; `None` for a ref that takeback did not create.
    pub pin: Option<PinName>,
    pub state: PinState,
}

/// The extent to which a pin is intact.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum PinState {
    Whole,
    /// Some files and directories, or the attachment, are lost.
    Partly {
        /// The first thousand lost paths. If a directory is lost, the paths in it are not listed.
        lost: Vec<RelPath>,
        /// The number of lost paths.
        count: u64,
        /// True if the attachment is lost.
        attachment: bool,
    },
    /// Everything is lost: the ref, the pin's commit or its topmost directory cannot be read. A ref
    /// that git created is also lost if an earlier commit is damaged.
    Lost {
        reason: String,
    },
}

/// A damaged pack or index.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct BrokenPack {
    /// The name: `pack-…` or `multi-pack-index`.
    pub name: String,
    pub reason: String,
}

impl Store {
    /// Reads all objects that refs need and compares them with their ids. Compares all packs and
    /// indexes with their checksums. Captures can run at the same time; a gc waits.
    ///
    /// ```
    /// use takeback_tree::{CaptureOptions, CaptureRules, PinState, Store};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let scratch = tempfile::tempdir()?;
    /// # let project = scratch.path().join("shop");
    /// # std::fs::create_dir(&project)?;
    /// # std::fs::write(project.join("cart.rs"), "struct Cart;\n")?;
    /// # let store = Store::open(scratch.path().join("store"))?;
    /// # let workspace = store.workspace(&project, &Default::default())?;
    /// # let mut lock = workspace.lock()?;
    /// # let now = std::time::SystemTime::now();
    /// # let rules = CaptureRules::default();
    /// # let options = CaptureOptions { rules: &rules, named: &[], swept: &[], now };
    /// let tree = lock.capture(&options)?.tree;
    /// lock.pin(tree, now, "before the call\n")?;
    ///
    /// let report = store.verify(&|done, total| eprintln!("{done} of {total}"))?;
    /// assert!(report.is_whole());
    /// assert_eq!(report.pins[0].state, PinState::Whole);
    /// # Ok(())
    /// # }
    /// ```
    pub fn verify(&self, progress: Progress<'_>) -> Result<VerifyReport, StoreError> {
        self.examine(progress).map(|examination| examination.report)
    }

    /// Verifies the store as [`Store::verify`] does, and also returns the lost objects and the
    /// errors for broken packs.
    pub(crate) fn examine(&self, progress: Progress<'_>) -> Result<Examination, StoreError> {
        let _lock = self.lock_shared()?;
        let refs = self.all_refs()?;
        let (sources, mut broken) = self.check_packs();
        let packs = self.packs();
        let mut graph = ObjectGraph::new(&packs, &sources);
        let tips = refs.iter().filter_map(|reference| reference.id.clone().ok());
        graph.read_from(tips.collect(), progress);

        for (pack, reason) in std::mem::take(&mut graph.broken) {
            let damage = || io::Error::new(io::ErrorKind::InvalidData, reason);
            broken.entry(pack).or_insert_with(damage);
        }
        let lost: HashSet<Oid> = graph.lost().map(|number| graph.oids[number as usize]).collect();
        let mut losses = LossReport::new(&graph);
        let pins = refs.iter().map(|reference| losses.report_ref(reference)).collect();
        let objects = (graph.oids.len() - lost.len()) as u64;
        let packs = broken
            .iter()
            .map(|(name, error)| BrokenPack { name: name.clone(), reason: error.to_string() });
        let report = VerifyReport { pins, packs: packs.collect(), objects };
        Ok(Examination { report, broken, lost })
    }

    /// Opens all packs and compares them with their checksums. Returns the packs that could be
    /// opened, and an error for each broken pack or index.
    fn check_packs(&self) -> (SourcePacks, BTreeMap<String, io::Error>) {
        prepare_threads();
        let directory = self.pack_directory();
        let opened: Vec<(String, io::Result<SourcePack>)> = list_pack_names(&directory)
            .into_par_iter()
            .map(|name| {
                let source = SourcePack::open(&directory, &name);
                (name, source)
            })
            .collect();
        let mut broken: BTreeMap<String, io::Error> = opened
            .par_iter()
            .filter_map(|(name, source)| {
                let source = source.as_ref().ok()?;
                let checked = source.check_index().and_then(|()| source.check_pack());
                Some((name.clone(), checked.err()?))
            })
            .collect();
        let mut sources = SourcePacks::default();
        for (name, source) in opened {
            match source {
                Ok(source) => sources.add_pack(source, false),
                Err(error) => drop(broken.insert(name, error)),
            }
        }
        if let Err(error) = self.check_midx() {
            broken.insert(midx::NAME.to_owned(), error);
        }
        (sources, broken)
    }

    fn check_midx(&self) -> io::Result<()> {
        let directory = self.pack_directory();
        let midx = durable::if_exists(Midx::open(&directory.join(midx::NAME)))?;
        let Some(midx) = midx else { return Ok(()) };
        let wrong = |what: String| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        if !midx.is_intact()? {
            return wrong("it does not match its checksum".into());
        }
        let present: HashSet<String> = list_pack_names(&directory).into_iter().collect();
        match midx.packs.iter().find(|name| !present.contains(*name)) {
            Some(missing) => wrong(format!("it names {missing}, which does not exist")),
            None => Ok(()),
        }
    }
}

/// A report, with the details that a repair needs.
pub(crate) struct Examination {
    pub(crate) report: VerifyReport,
    /// The broken packs, each with its error.
    pub(crate) broken: BTreeMap<String, io::Error>,
    /// The objects that refs need and that cannot be read from any pack.
    pub(crate) lost: HashSet<Oid>,
}

#[cfg(test)]
mod tests;
