//! The private objects among those that commits need.

use std::collections::HashSet;

use crate::object::{self, Commit, ObjectKind};
use crate::oid::Oid;
use crate::pack::read::RecentObjects;
use crate::reachability::CommitLinks;
use crate::rules::{CaptureRules, Matcher};
use crate::source_packs::SourcePacks;

/// Finds the private objects: files at private paths, the directories that list them, and
/// attachments, which list the ids of files. A file that has the same content as a private file is
/// the same object, and therefore private as well.
pub(super) fn find_private_objects(
    sources: &SourcePacks,
    recent: &mut RecentObjects,
    rules: &CaptureRules,
    tips: &[Oid],
) -> HashSet<Oid> {
    let matcher = Matcher::new(rules);
    let mut search =
        Search { sources, recent, matcher, seen: HashSet::new(), private: HashSet::new() };
    tips.iter().for_each(|tip| search.search_commit(*tip));
    search.private
}

struct Search<'a> {
    sources: &'a SourcePacks,
    recent: &'a mut RecentObjects,
    matcher: Matcher,
    /// The directories that have been searched, by tree and path. The path is needed because a
    /// pattern may apply only in some directories.
    seen: HashSet<(Oid, Vec<u8>)>,
    private: HashSet<Oid>,
}

impl Search<'_> {
    fn search_commit(&mut self, tip: Oid) {
        let mut waiting = vec![tip];
        let mut seen = HashSet::new();
        while let Some(id) = waiting.pop().filter(|id| seen.insert(*id)) {
            let Some(content) = self.read(id, ObjectKind::Commit) else { continue };
            let Some(links) = CommitLinks::parse(&content) else { continue };
            match Commit::parse(&content).is_ok_and(|commit| commit.is_attachment()) {
                true => self.add_attachment(id, links.tree),
                false => self.search_tree(links.tree),
            }
            waiting.extend(links.parents);
        }
    }

    /// Adds an attachment with its tree and its content.
    fn add_attachment(&mut self, commit: Oid, tree: Oid) {
        self.private.extend([commit, tree]);
        let Some(content) = self.read(tree, ObjectKind::Tree) else { return };
        let entries = object::parse_entries(&content).map_while(Result::ok);
        self.private.extend(entries.map(|entry| entry.oid));
    }

    fn search_tree(&mut self, root: Oid) {
        let mut waiting = vec![(root, Vec::new())];
        while let Some((tree, path)) = waiting.pop() {
            if !self.seen.insert((tree, path.clone())) {
                continue;
            }
            let Some(content) = self.read(tree, ObjectKind::Tree) else { continue };
            for entry in object::parse_entries(&content).map_while(Result::ok) {
                let mut path = path.clone();
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(entry.name);
                if entry.mode.is_directory() {
                    waiting.push((entry.oid, path));
                } else if self.matcher.is_private(&path) {
                    self.private.extend([tree, entry.oid]);
                }
            }
        }
    }

    /// Reads an object. Returns `None` if it is lost or damaged.
    fn read(&mut self, oid: Oid, kind: ObjectKind) -> Option<std::sync::Arc<Vec<u8>>> {
        let place = self.sources.find(&oid)?;
        let (actual, content) = self.sources.read(place, self.recent).ok()?;
        (actual == kind).then_some(content)
    }
}
