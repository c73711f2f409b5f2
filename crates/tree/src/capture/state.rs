//! The state of a workspace after a scan, with its trees. It is assembled from the known state and
//! the results of the scan.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;

use rayon::prelude::*;

use super::cache::{CacheHead, CachedDirectory, CachedEntry, Cause, EntryKind, Reach, StatCache};
use super::check::DirectoryTask;
use super::known::KnownState;
use super::scan::{
    ContentSource, DirectoryListing, ListedChild, ScanResults, ScannedDirectory,
    list_known_children, mark_unreadable,
};
use super::sink::ObjectSink;
use super::{CaptureContext, CaptureError, CaptureOptions, Unsaved, to_nanoseconds};
use crate::beneath::Stat;
use crate::object::{self, TreeEntry};
use crate::oid::Oid;
use crate::path::{RelPath, join};
use crate::store::ObjectError;
use crate::threads::prepare_threads;

/// With fewer trees than this at one depth, building them in parallel is not worthwhile.
const MIN_TREES_FOR_THREADS: usize = 64;

/// A state in which the trees of changed directories have not been built yet.
pub(crate) struct AssembledState {
    pub(crate) known: KnownState,
    /// True for each directory that has new content.
    pub(crate) changed: Vec<bool>,
    pub(crate) unsaved: Unsaved,
}

/// Adds tasks to list these directories and all directories to which a changed `.gitignore`
/// applies.
pub(crate) fn add_listings(known: &KnownState, tasks: &mut Vec<DirectoryTask>, numbers: &[u32]) {
    if numbers.is_empty() && !tasks.iter().any(|task| task.rules_changed) {
        return;
    }
    let mut by_number: HashMap<u32, DirectoryTask> =
        tasks.drain(..).map(|task| (task.number, task)).collect();
    let list = |number| DirectoryTask::list(number, false);
    for number in numbers {
        by_number.entry(*number).or_insert_with(|| list(*number)).list = true;
    }
    for number in 1..known.directories.len() as u32 {
        let parent = known.directories[number as usize].parent;
        if by_number.get(&parent).is_some_and(|task| task.rules_changed) {
            let task = by_number.entry(number).or_insert_with(|| list(number));
            (task.list, task.rules_changed) = (true, true);
        }
    }
    tasks.extend(by_number.into_values());
}

/// Makes the next check reread all files whose objects are missing because packs were deleted.
/// Returns true if any object is missing.
pub(crate) fn distrust_missing_objects(
    cache: &mut StatCache,
    context: &CaptureContext<'_>,
) -> bool {
    let packs = context.store.packs();
    let mut is_any_missing = false;
    for entry in cache.entries.iter_mut().filter(|entry| entry.kind != EntryKind::Uncovered) {
        if is_left_out(entry) || packs.contains(&entry.oid) {
            continue;
        }
        is_any_missing = true;
        if entry.kind != EntryKind::Directory {
            entry.stat = Stat { mode: entry.stat.mode, ..Stat::default() };
        }
    }
    is_any_missing
}

/// A limit on the objects that a capture reads back from the store in order to check them.
#[derive(Clone, Copy)]
struct ReadBackLimit {
    objects: usize,
    /// The maximum total size in bytes. The sizes of trees are estimated.
    size: u64,
}

/// The limit for the paths that the caller names.
const NAMED: ReadBackLimit = ReadBackLimit { objects: 64, size: 4 << 20 };
/// The limit for the sample. Reading the sample takes a fraction of a millisecond.
const SAMPLE: ReadBackLimit = ReadBackLimit { objects: 8, size: 32 << 10 };

/// The approximate number of bytes that an entry takes up in a tree.
const TREE_ENTRY_SIZE: u64 = 48;

/// Reads back the stored objects of the paths that the caller names and of the directories above
/// them, and a random sample of all objects that the capture relies on. If an object is damaged,
/// the capture stores it again, and the next scrub begins with the pack that holds it. The named
/// files are about to change, so a later check of the store would find the damage too late. Returns
/// true if any object is damaged.
pub(crate) fn distrust_damaged_objects(
    known: &mut KnownState,
    options: &CaptureOptions<'_>,
    context: &CaptureContext<'_>,
) -> bool {
    let named = find_named_entries(known, options.named);
    distrust_damaged(known, &named, NAMED, context);
    let seed = to_nanoseconds(options.now) as u64;
    let sample = sample_entries(known, seed);
    distrust_damaged(known, &sample, SAMPLE, context);
    !context.distrusted.borrow().is_empty()
}

/// Reads the stored objects of these entries, up to a limit, and distrusts the damaged ones.
fn distrust_damaged(
    known: &mut KnownState,
    indexes: &[u32],
    limit: ReadBackLimit,
    context: &CaptureContext<'_>,
) {
    let mut distrusted = context.distrusted.borrow_mut();
    let (mut objects, mut size) = (limit.objects, limit.size);
    for index in indexes {
        let entry = &mut known.cache.entries[*index as usize];
        let needed = match entry.kind {
            EntryKind::Directory => u64::from(entry.children.1) * TREE_ENTRY_SIZE,
            _ => entry.stat.size,
        };
        let is_checked = entry.kind != EntryKind::Uncovered && !is_left_out(entry);
        if !is_checked || needed > size || objects == 0 {
            continue;
        }
        (objects, size) = (objects - 1, size - needed);
        // A missing object is not treated as damaged, because this process may have added it
        // without having written it yet.
        if let Err(ObjectError::Damaged { pack, .. }) =
            context.store.packs().read_object(&entry.oid)
        {
            if entry.kind != EntryKind::Directory {
                entry.stat = Stat { mode: entry.stat.mode, ..Stat::default() };
            }
            distrusted.insert(entry.oid);
            context.store.scrub_next(&pack);
            context.damaged.borrow_mut().push(pack);
        }
    }
}

/// The limit for the trees of directories that are about to change.
const OLD_TREES: ReadBackLimit = ReadBackLimit { objects: 64, size: 256 << 10 };

/// Reads the stored trees of the directories in which a scan has work to do, and of the directories
/// above them. Returns the indexes of the entries whose trees are damaged. After the scan, these
/// trees could no longer be rebuilt, although earlier states may need them.
pub(crate) fn find_damaged_trees(
    known: &mut KnownState,
    tasks: &[DirectoryTask],
    context: &CaptureContext<'_>,
) -> Vec<u32> {
    let mut numbers = BTreeSet::new();
    for task in tasks.iter().take(OLD_TREES.objects) {
        let parent = |number: &u32| Some(known.directories[*number as usize].parent);
        let above = std::iter::successors(Some(task.number), parent);
        above.take_while(|number| numbers.insert(*number)).for_each(drop);
    }
    let entry = |number: u32| known.directories[number as usize].entry;
    let indexes: Vec<u32> = numbers.into_iter().map(entry).collect();
    distrust_damaged(known, &indexes, OLD_TREES, context);
    let distrusted = context.distrusted.borrow();
    let is_damaged = |index: &u32| distrusted.contains(&known.cache.entries[*index as usize].oid);
    indexes.into_iter().filter(is_damaged).collect()
}

/// Stores trees of the known state again.
pub(crate) fn store_known_trees(sink: &ObjectSink<'_>, known: &KnownState, indexes: &[u32]) {
    for index in indexes {
        make_tree(sink, &known.cache, *index);
    }
}

/// Chooses some consecutive entries, beginning with a random one.
fn sample_entries(known: &KnownState, seed: u64) -> Vec<u32> {
    let count = known.cache.entries.len() as u64;
    // The seed is a time. Multiplying by a large odd number spreads similar seeds over distant
    // entries.
    let start = (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % count;
    let chosen = (start..).map(|at| (at % count) as u32);
    // The caller skips entries that are not captured or are too large. Therefore, more entries are
    // chosen than the limit allows.
    chosen.take(count.min(4 * SAMPLE.objects as u64) as usize).collect()
}

/// Finds the entries of named paths, of the directories above them, and of everything below them.
/// The entries that are nearest to the root come first.
fn find_named_entries(known: &KnownState, named: &[RelPath]) -> Vec<u32> {
    let cache = &known.cache;
    let mut above = BTreeSet::new();
    let mut pending = VecDeque::new();
    for path in named.iter().filter(|path| !path.is_root()) {
        let mut at = Some(0);
        for name in path.as_bytes().split(|byte| *byte == b'/') {
            above.extend(at);
            at = at.and_then(|at| known.find_child(&cache.entries[at as usize], name));
        }
        pending.extend(at);
    }
    let mut found: Vec<u32> = above.into_iter().collect();
    while let Some(index) = pending.pop_front()
        && found.len() < NAMED.objects
    {
        found.push(index);
        let (start, count) = cache.entries[index as usize].children;
        pending.extend(start..start + count);
    }
    found
}

/// True if no name appeared or disappeared. In that case, the results can replace known entries in
/// place.
pub(crate) fn has_same_names(known: &KnownState, results: &ScanResults) -> bool {
    let is_same = |(number, scanned): (&u32, &ScannedDirectory)| match scanned {
        ScannedDirectory::Listed(listing) => {
            lists_same_names(known, known.directory_entry(*number), listing)
        }
        _ => false,
    };
    results.new.is_empty() && results.known.iter().all(is_same)
}

/// Replaces known entries with the results, in place.
pub(crate) fn patch(mut known: KnownState, results: ScanResults) -> AssembledState {
    let mut changed = vec![false; known.directories.len()];
    let mut unsaved = Vec::new();
    for (number, scanned) in results.known {
        let ScannedDirectory::Listed(listing) = scanned else { continue };
        let index = known.directories[number as usize].entry;
        let entries = &mut known.cache.entries;
        let start = entries[index as usize].children.0;
        changed[number as usize] = true;
        for (at, child) in (start..).zip(listing.children) {
            let entry = &mut entries[at as usize];
            let new = CachedEntry { name: entry.name, ..child.entry };
            // The entry of a directory is updated from its own scan.
            if child.source == ContentSource::Nothing && *entry != new {
                *entry = new;
                unsaved.push(at);
            }
        }
        let entry = &mut entries[index as usize];
        if entry.stat != listing.stat {
            entry.stat = listing.stat;
            unsaved.push(index);
        }
    }
    AssembledState { known, changed, unsaved: Unsaved::Entries(unsaved) }
}

fn lists_same_names(
    known: &KnownState,
    directory: &CachedEntry,
    listing: &DirectoryListing,
) -> bool {
    let children = known.cache.children(directory);
    let is_same = |(at, (entry, child)): (u32, (&CachedEntry, &ListedChild))| {
        let number = known.directory_number(at);
        let source = number.map_or(ContentSource::Nothing, ContentSource::Known);
        known.cache.name(entry) == child.name
            && source == child.source
            && (source == ContentSource::Nothing || entry.cause == child.entry.cause)
    };
    children.len() == listing.children.len()
        && (directory.children.0..).zip(children.iter().zip(&listing.children)).all(is_same)
}

/// Builds a new state from the results and, where there are no results, from the known state.
pub(crate) fn assemble(
    known: Option<&KnownState>,
    head: CacheHead,
    mut results: ScanResults,
    root: ContentSource,
) -> Result<AssembledState, CaptureError> {
    let root_entry = match known {
        Some(known) => *known.directory_entry(0),
        None => CachedEntry::new(EntryKind::Directory, Stat::default()),
    };
    let mut cache = StatCache { head, entries: vec![root_entry], names: Vec::new() };
    let mut directories: Vec<CachedDirectory> = Vec::new();
    let mut changed = Vec::new();
    let mut queue = VecDeque::from([(0u32, 0u32, root)]);
    while let Some((index, parent, source)) = queue.pop_front() {
        let scanned = match source {
            ContentSource::Known(number) => results.known.remove(&number),
            ContentSource::New(at) => results.new[at].take(),
            ContentSource::Nothing => None,
        };
        let children = match (scanned, source) {
            (Some(ScannedDirectory::Listed(listing)), _) => {
                cache.entries[index as usize].stat = listing.stat;
                changed.push(true);
                listing.children
            }
            (Some(scanned), _) if index == 0 => return Err(root_error(&scanned)),
            (None, ContentSource::Known(number)) => {
                changed.push(false);
                let known = known.expect("only a known state has known directories");
                list_known_children(known, known.directory_entry(number))
            }
            _ => unreachable!("settle_child handles missing and unreadable directories"),
        };
        let number = directories.len() as u32;
        let path = match directories.get(parent as usize) {
            None => Vec::new(),
            Some(parent) => join(&parent.path, cache.name(&cache.entries[index as usize])),
        };
        directories.push(CachedDirectory { entry: index, parent, path });
        let start = cache.entries.len() as u32;
        let mut count = 0;
        for mut child in children {
            if !settle_child(&mut child, &results, changed.last_mut().expect("just pushed")) {
                continue;
            }
            child.entry.name = (cache.names.len() as u32, child.name.len() as u16);
            cache.names.extend_from_slice(&child.name);
            if child.source != ContentSource::Nothing {
                queue.push_back((start + count, number, child.source));
            }
            cache.entries.push(child.entry);
            count += 1;
        }
        cache.entries[index as usize].children = (start, count);
    }
    Ok(AssembledState { known: KnownState { cache, directories }, changed, unsaved: Unsaved::All })
}

/// Returns the error for a root that could not be listed.
fn root_error(scanned: &ScannedDirectory) -> CaptureError {
    let number = match scanned {
        ScannedDirectory::Unreadable(number) => *number,
        _ => rustix::io::Errno::NOENT.raw_os_error(),
    };
    CaptureError::Workspace(io::Error::from_raw_os_error(number))
}

/// Turns a directory that could not be listed into an uncovered entry. Returns false if the
/// directory no longer exists.
fn settle_child(child: &mut ListedChild, results: &ScanResults, changed: &mut bool) -> bool {
    let scanned = match child.source {
        ContentSource::Nothing => return true,
        ContentSource::Known(number) => results.known.get(&number),
        ContentSource::New(at) => results.new[at].as_ref(),
    };
    match scanned {
        None | Some(ScannedDirectory::Listed(_)) => true,
        Some(ScannedDirectory::Gone) => {
            *changed = true;
            false
        }
        Some(ScannedDirectory::Unreadable(number)) => {
            *changed = true;
            let entry = CachedEntry::new(EntryKind::Uncovered, child.entry.stat);
            let entry = CachedEntry { cause: Cause::Unreadable, ..entry };
            child.entry = mark_unreadable(entry, &io::Error::from_raw_os_error(*number));
            child.source = ContentSource::Nothing;
            true
        }
    }
}

/// Builds the trees of changed directories, and of those above them, from the bottom up.
pub(crate) fn make_trees(sink: &ObjectSink<'_>, assembled: &mut AssembledState) {
    let AssembledState { known: KnownState { cache, directories }, changed, unsaved } = assembled;
    let mut depths = vec![0u32; directories.len()];
    for number in 1..depths.len() {
        depths[number] = depths[directories[number].parent as usize] + 1;
    }
    // Directories are ordered by depth, so those at the same depth are adjacent.
    let mut end = depths.len();
    while end > 0 {
        let depth = depths[end - 1];
        let start = depths[..end].partition_point(|other| *other < depth);
        let here: Vec<usize> = (start..end).filter(|number| changed[*number]).collect();
        let make = |number: &usize| make_tree(sink, cache, directories[*number].entry);
        let trees: Vec<Oid> = if here.len() < MIN_TREES_FOR_THREADS {
            here.iter().map(make).collect()
        } else {
            prepare_threads();
            here.par_iter().with_min_len(8).map(make).collect()
        };
        for (number, tree) in here.into_iter().zip(trees) {
            let CachedDirectory { entry: index, parent, .. } = directories[number];
            let entry = &mut cache.entries[index as usize];
            if entry.oid != tree {
                entry.oid = tree;
                if let Unsaved::Entries(entries) = unsaved {
                    entries.push(index);
                }
            }
            // The tree of the parent contains the mode and the tree of this directory.
            changed[parent as usize] = true;
        }
        end = start;
    }
}

fn make_tree(sink: &ObjectSink<'_>, cache: &StatCache, index: u32) -> Oid {
    let mut children: Vec<TreeEntry<'_>> = cache
        .children(&cache.entries[index as usize])
        .iter()
        .filter(|entry| !is_left_out(entry))
        .filter_map(|entry| {
            Some(TreeEntry { mode: entry.mode()?, name: cache.name(entry), oid: entry.oid })
        })
        .collect();
    children.sort_by(|a, b| {
        object::compare_names((a.name, a.mode.is_directory()), (b.name, b.mode.is_directory()))
    });
    let mut tree = Vec::with_capacity(children.len() * 48);
    children.into_iter().for_each(|child| object::push_entry(&mut tree, child));
    sink.add_object(object::ObjectKind::Tree, &tree)
}

/// True if an excluded directory is not in the tree, because no file in it is captured.
fn is_left_out(entry: &CachedEntry) -> bool {
    entry.reach == Reach::Partial && entry.oid == Oid::EMPTY_TREE
}
