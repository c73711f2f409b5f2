//! The state of a workspace after a scan: what was known, what was found, and their trees.

use std::collections::{HashMap, VecDeque};
use std::io;

use rayon::prelude::*;

use crate::beneath::Stat;
use crate::capture::cache::{Cache, Cause, Directory, Entry, Head, Kind, Reach};
use crate::capture::scan::{Below, Child, Finding, Findings, Known, Listing, Outcome, unreadable};
use crate::capture::sink::Sink;
use crate::capture::{CaptureError, Context, Unsaved};
use crate::object::{self, TreeEntry};
use crate::oid::Oid;
use crate::path::join;

/// Fewer trees than this are made without other threads.
const ALONE: usize = 64;

/// A state whose changed directories still need their trees.
pub(crate) struct Assembled {
    pub(crate) known: Known,
    /// For each directory: whether its content is new.
    pub(crate) changed: Vec<bool>,
    pub(crate) unsaved: Unsaved,
}

/// Adds to the findings that these directories, and all below a changed `.gitignore`, are listed.
pub(crate) fn add_listings(known: &Known, findings: &mut Vec<Finding>, numbers: &[u32]) {
    if numbers.is_empty() && !findings.iter().any(|finding| finding.rules_changed) {
        return;
    }
    let mut by_number: HashMap<u32, Finding> =
        findings.drain(..).map(|finding| (finding.number, finding)).collect();
    let listed = |number| Finding { number, list: true, rules_changed: false, changed: Vec::new() };
    for number in numbers {
        by_number.entry(*number).or_insert_with(|| listed(*number)).list = true;
    }
    for number in 1..known.directories.len() as u32 {
        let parent = known.directories[number as usize].parent;
        if by_number.get(&parent).is_some_and(|finding| finding.rules_changed) {
            let finding = by_number.entry(number).or_insert_with(|| listed(number));
            (finding.list, finding.rules_changed) = (true, true);
        }
    }
    findings.extend(by_number.into_values());
}

/// After packs were deleted: what is known of files whose objects are gone is worth nothing.
/// Returns whether anything is gone.
pub(crate) fn distrust_missing(cache: &mut Cache, context: &Context<'_>) -> bool {
    let packs = context.store.packs();
    let mut missing = false;
    for entry in cache.entries.iter_mut().filter(|entry| entry.kind != Kind::Uncovered) {
        if entry.oid == Oid::EMPTY_TREE || packs.contains(&entry.oid) {
            continue;
        }
        missing = true;
        if entry.kind != Kind::Directory {
            entry.stat = Stat { mode: entry.stat.mode, ..Stat::default() };
        }
    }
    missing
}

/// Whether no name came or went, so that what was found can take the place of what was known.
pub(crate) fn is_in_place(known: &Known, found: &Findings) -> bool {
    let in_place = |(number, outcome): (&u32, &Outcome)| match outcome {
        Outcome::Listed(listing) => has_same_names(known, known.entry(*number), listing),
        _ => false,
    };
    found.new.is_empty() && found.known.iter().all(in_place)
}

/// Puts what was found in the place of what was known.
pub(crate) fn patch(mut known: Known, found: Findings) -> Assembled {
    let mut changed = vec![false; known.directories.len()];
    let mut unsaved = Vec::new();
    for (number, outcome) in found.known {
        let Outcome::Listed(listing) = outcome else { continue };
        let place = known.directories[number as usize].entry;
        let entries = &mut known.cache.entries;
        let start = entries[place as usize].children.0;
        changed[number as usize] = true;
        for (at, child) in (start..).zip(listing.children) {
            let entry = &mut entries[at as usize];
            let new = Entry { name: entry.name, ..child.entry };
            // The entry of a directory that was looked into itself is set from that look.
            if child.below == Below::Nothing && *entry != new {
                *entry = new;
                unsaved.push(at);
            }
        }
        let entry = &mut entries[place as usize];
        if entry.stat != listing.stat {
            entry.stat = listing.stat;
            unsaved.push(place);
        }
    }
    Assembled { known, changed, unsaved: Unsaved::Entries(unsaved) }
}

fn has_same_names(known: &Known, directory: &Entry, listing: &Listing) -> bool {
    let children = known.cache.children(directory);
    let same = |(at, (entry, child)): (u32, (&Entry, &Child))| {
        let below = known.number(at).map_or(Below::Nothing, Below::Known);
        known.cache.name(entry) == child.name
            && below == child.below
            && (below == Below::Nothing || entry.cause == child.entry.cause)
    };
    children.len() == listing.children.len()
        && (directory.children.0..).zip(children.iter().zip(&listing.children)).all(same)
}

/// Makes a new state of what was found and, where nothing was, of what was known.
pub(crate) fn assemble(
    known: Option<&Known>,
    head: Head,
    mut found: Findings,
    root: Below,
) -> Result<Assembled, CaptureError> {
    let root_entry = match known {
        Some(known) => *known.entry(0),
        None => Entry::new(Kind::Directory, Stat::default()),
    };
    let mut cache = Cache { head, entries: vec![root_entry], names: Vec::new() };
    let mut directories: Vec<Directory> = Vec::new();
    let mut changed = Vec::new();
    let mut queue = VecDeque::from([(0u32, 0u32, root)]);
    while let Some((place, parent, below)) = queue.pop_front() {
        let outcome = match below {
            Below::Known(number) => found.known.remove(&number),
            Below::New(slot) => found.new[slot].take(),
            Below::Nothing => None,
        };
        let children = match (outcome, below) {
            (Some(Outcome::Listed(listing)), _) => {
                cache.entries[place as usize].stat = listing.stat;
                changed.push(true);
                listing.children
            }
            (Some(outcome), _) if place == 0 => {
                let number = match outcome {
                    Outcome::Unreadable(number) => number,
                    _ => rustix::io::Errno::NOENT.raw_os_error(),
                };
                return Err(CaptureError::Workspace(io::Error::from_raw_os_error(number)));
            }
            (None, Below::Known(number)) => {
                changed.push(false);
                known_children(known.expect("a known directory is known"), number)
            }
            _ => unreachable!("directories that are gone or unreadable were sorted out"),
        };
        let number = directories.len() as u32;
        let path = match number {
            0 => Vec::new(),
            _ => {
                join(&directories[parent as usize].path, cache.name(&cache.entries[place as usize]))
            }
        };
        directories.push(Directory { entry: place, parent, path });
        let start = cache.entries.len() as u32;
        let mut count = 0;
        for mut child in children {
            if !settle(&mut child, &found, changed.last_mut().expect("just pushed")) {
                continue;
            }
            child.entry.name = (cache.names.len() as u32, child.name.len() as u16);
            cache.names.extend_from_slice(&child.name);
            if child.below != Below::Nothing {
                queue.push_back((start + count, number, child.below));
            }
            cache.entries.push(child.entry);
            count += 1;
        }
        cache.entries[place as usize].children = (start, count);
    }
    Ok(Assembled { known: Known { cache, directories }, changed, unsaved: Unsaved::All })
}

fn known_children(known: &Known, number: u32) -> Vec<Child> {
    let directory = known.entry(number);
    (directory.children.0..)
        .zip(known.cache.children(directory))
        .map(|(at, entry)| Child {
            name: known.cache.name(entry).to_vec(),
            entry: *entry,
            below: known.number(at).map_or(Below::Nothing, Below::Known),
        })
        .collect()
}

/// Turns the entry of a directory that could not be looked into to what it is now. False if
/// nothing is there any more.
fn settle(child: &mut Child, found: &Findings, changed: &mut bool) -> bool {
    let outcome = match child.below {
        Below::Nothing => return true,
        Below::Known(number) => found.known.get(&number),
        Below::New(slot) => found.new[slot].as_ref(),
    };
    match outcome {
        None | Some(Outcome::Listed(_)) => true,
        Some(Outcome::Gone) => {
            *changed = true;
            false
        }
        Some(Outcome::Unreadable(number)) => {
            *changed = true;
            let entry =
                Entry { cause: Cause::Unreadable, ..Entry::new(Kind::Uncovered, child.entry.stat) };
            child.entry = unreadable(entry, &io::Error::from_raw_os_error(*number));
            child.below = Below::Nothing;
            true
        }
    }
}

/// Makes the trees of changed directories, and of those above them, from the bottom up.
pub(crate) fn make_trees(sink: &Sink<'_>, assembled: &mut Assembled) {
    let Assembled { known: Known { cache, directories }, changed, unsaved } = assembled;
    let mut depths = vec![0u32; directories.len()];
    for number in 1..depths.len() {
        depths[number] = depths[directories[number].parent as usize] + 1;
    }
    // Directories come level by level, so those of one depth stand together.
    let mut end = depths.len();
    while end > 0 {
        let depth = depths[end - 1];
        let start = depths[..end].partition_point(|other| *other < depth);
        let here: Vec<usize> = (start..end).filter(|number| changed[*number]).collect();
        let make = |number: &usize| make_tree(sink, cache, directories[*number].entry);
        let trees: Vec<Oid> = if here.len() < ALONE {
            here.iter().map(make).collect()
        } else {
            here.par_iter().with_min_len(8).map(make).collect()
        };
        for (number, tree) in here.into_iter().zip(trees) {
            let Directory { entry: place, parent, .. } = directories[number];
            let entry = &mut cache.entries[place as usize];
            if entry.oid != tree {
                entry.oid = tree;
                if let Unsaved::Entries(entries) = unsaved {
                    entries.push(place);
                }
            }
            // The mode of a directory is in the tree above it.
            changed[parent as usize] = true;
        }
        end = start;
    }
}

fn make_tree(sink: &Sink<'_>, cache: &Cache, place: u32) -> Oid {
    let mut children: Vec<TreeEntry<'_>> = cache
        .children(&cache.entries[place as usize])
        .iter()
        // An excluded directory is there only for what is captured in it.
        .filter(|entry| entry.reach != Reach::Partial || entry.oid != Oid::EMPTY_TREE)
        .filter_map(|entry| {
            Some(TreeEntry { mode: entry.mode()?, name: cache.name(entry), oid: entry.oid })
        })
        .collect();
    children.sort_by(|a, b| {
        object::tree_order((a.name, a.mode.is_directory()), (b.name, b.mode.is_directory()))
    });
    let mut tree = Vec::with_capacity(children.len() * 48);
    children.into_iter().for_each(|child| object::push_entry(&mut tree, child));
    sink.add(object::Kind::Tree, &tree)
}
