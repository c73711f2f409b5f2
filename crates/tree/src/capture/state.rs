//! The state of a workspace after a scan: what was known, what was found, and their trees.

use std::collections::{HashMap, VecDeque};
use std::io;

use rayon::prelude::*;

use crate::beneath::Stat;
use crate::capture::cache::{Cache, Cause, Entry, Kind, Reach};
use crate::capture::scan::{
    Below, Child, Finding, Findings, Known, Listing, Outcome, Scanner, unreadable,
};
use crate::capture::{CaptureError, Context, Unsaved};
use crate::object::{self, TreeEntry};
use crate::oid::Oid;

/// Fewer trees than this are made without other threads.
const ALONE: usize = 64;

/// A state whose changed directories still need their trees.
pub(crate) struct Assembled {
    pub(crate) cache: Cache,
    /// The directories' entries, each after the one it is in, with the number of that one.
    directories: Vec<(u32, u32)>,
    /// For each of them: whether its content is new.
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

/// Puts what was found in the place of what was known, if no name came or went.
pub(crate) fn patch(known: &Known, found: &Findings, rebuild: bool) -> Option<Assembled> {
    let in_place = |(number, outcome): (&u32, &Outcome)| match outcome {
        Outcome::Listed(listing) => has_same_names(known, known.entry(*number), listing),
        _ => false,
    };
    if !found.new.is_empty() || !found.known.iter().all(in_place) {
        return None;
    }
    let mut cache = known.cache.clone();
    let mut changed = vec![rebuild; known.directories.len()];
    let mut unsaved = Vec::new();
    for (number, outcome) in &found.known {
        let Outcome::Listed(listing) = outcome else { return None };
        let place = known.directories[*number as usize].entry;
        let start = cache.entries[place as usize].children.0;
        changed[*number as usize] = true;
        for (at, child) in (start..).zip(&listing.children) {
            let entry = &mut cache.entries[at as usize];
            let (name, children) = (entry.name, entry.children);
            // The entry of a directory that was looked into itself is set from that look.
            if child.below == Below::Nothing && *entry != (Entry { name, ..child.entry }) {
                *entry = Entry { name, children, ..child.entry };
                unsaved.push(at);
            }
        }
        let entry = &mut cache.entries[place as usize];
        if entry.stat != listing.stat {
            entry.stat = listing.stat;
            unsaved.push(place);
        }
    }
    let directories = known.directories.iter().map(|directory| (directory.entry, directory.parent));
    Some(Assembled {
        cache,
        directories: directories.collect(),
        changed,
        unsaved: Unsaved::Entries(unsaved),
    })
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
    empty: Cache,
    mut found: Findings,
    root: Below,
) -> Result<Assembled, CaptureError> {
    let mut cache = empty;
    let mut directories = Vec::new();
    let mut changed = Vec::new();
    let root_entry = match known {
        Some(known) => *known.entry(0),
        None => Entry::new(Kind::Directory, Stat::default()),
    };
    cache.entries.push(root_entry);
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
        directories.push((place, parent));
        let start = cache.entries.len() as u32;
        let mut count = 0;
        for mut child in children {
            if !settle(&mut child, &found, changed.last_mut().expect("just pushed")) {
                continue;
            }
            child.entry.name = (cache.names.len() as u32, child.name.len() as u8);
            cache.names.extend_from_slice(&child.name);
            if child.below != Below::Nothing {
                queue.push_back((start + count, number, child.below));
            }
            cache.entries.push(child.entry);
            count += 1;
        }
        cache.entries[place as usize].children = (start, count);
    }
    Ok(Assembled { cache, directories, changed, unsaved: Unsaved::All })
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
pub(crate) fn make_trees(scanner: &Scanner<'_>, assembled: &mut Assembled) {
    let mut depths = vec![0u32; assembled.directories.len()];
    for number in 1..depths.len() {
        depths[number] = depths[assembled.directories[number].1 as usize] + 1;
    }
    // Directories come level by level, so those of one depth stand together.
    let mut end = depths.len();
    while end > 0 {
        let depth = depths[end - 1];
        let start = depths[..end].partition_point(|other| *other < depth);
        let changed: Vec<usize> =
            (start..end).filter(|number| assembled.changed[*number]).collect();
        let make =
            |number: &usize| make_tree(scanner, &assembled.cache, assembled.directories[*number].0);
        let trees: Vec<Oid> = if changed.len() < ALONE {
            changed.iter().map(make).collect()
        } else {
            changed.par_iter().with_min_len(8).map(make).collect()
        };
        for (number, tree) in changed.into_iter().zip(trees) {
            let (place, parent) = assembled.directories[number];
            let entry = &mut assembled.cache.entries[place as usize];
            if entry.oid != tree {
                entry.oid = tree;
                if let Unsaved::Entries(entries) = &mut assembled.unsaved {
                    entries.push(place);
                }
            }
            // The mode of a directory is in the tree above it.
            assembled.changed[parent as usize] = true;
        }
        end = start;
    }
}

fn make_tree(scanner: &Scanner<'_>, cache: &Cache, place: u32) -> Oid {
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
    scanner.store(object::Kind::Tree, &tree)
}
