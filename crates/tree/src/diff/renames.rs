//! Which of the files that went and of those that came are the same.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hasher};

use crate::diff::{Change, ChangeKind, Side, content, hunks, text};
use crate::object::Kind;
use crate::oid::Oid;
use crate::store::{ObjectError, Store};

/// Contents are compared only if there are no more pairs than this,
const MAX_PAIRS: usize = 10_000;

/// only of files up to this size,
const MAX_SIZE: usize = 1 << 20;

/// and only until this much has been read.
const MAX_TOTAL: usize = 64 << 20;

/// Makes one change of every deletion and addition that together are a move: first those with the
/// same content, then those where at least half of the larger file is in lines of both.
///
/// The content of private files is not compared with that of others.
pub(super) fn find(store: &Store, changes: Vec<Change>) -> Result<Vec<Change>, ObjectError> {
    let (mut deleted, mut added, mut found) = (Vec::new(), Vec::new(), Vec::new());
    for change in changes {
        match change.kind {
            ChangeKind::Deleted if change.has_content() => deleted.push(Some(change)),
            ChangeKind::Added if change.has_content() => added.push(Some(change)),
            _ => found.push(change),
        }
    }
    let mut pair = |from: &mut Option<Change>, to: &mut Option<Change>| {
        let (Some(from), Some(to)) = (from.take(), to.take()) else { return };
        found.push(Change {
            kind: ChangeKind::Renamed { from: from.path },
            from: from.from,
            private: from.private || to.private,
            ..to
        });
    };
    for with_name in [true, false] {
        for (from, to) in same_content(&deleted, &added, with_name) {
            pair(&mut deleted[from], &mut added[to]);
        }
    }
    for (from, to) in similar_content(store, &deleted, &added)? {
        pair(&mut deleted[from], &mut added[to]);
    }
    found.extend(deleted.into_iter().chain(added).flatten());
    Ok(found)
}

/// Indexes of changes whose content is the same, and if wanted also the last name.
fn same_content(
    deleted: &[Option<Change>],
    added: &[Option<Change>],
    with_name: bool,
) -> Vec<(usize, usize)> {
    let empty = Oid::of(Kind::Blob, b"");
    let key = |change: &Change, side: Option<Side>| {
        let side = side?;
        let name = with_name.then(|| change.path.name().to_vec());
        // All empty files are the same: without the name that says nothing.
        (with_name || side.oid != empty).then(|| (side.oid, side.mode.is_symlink(), name))
    };
    let mut sources: HashMap<_, VecDeque<usize>> = HashMap::new();
    for (index, change) in deleted.iter().enumerate() {
        if let Some(key) = change.as_ref().and_then(|change| key(change, change.from)) {
            sources.entry(key).or_default().push_back(index);
        }
    }
    let mut pairs = Vec::new();
    for (index, change) in added.iter().enumerate() {
        let key = change.as_ref().and_then(|change| key(change, change.to));
        if let Some(source) = key.and_then(|key| sources.get_mut(&key)?.pop_front()) {
            pairs.push((source, index));
        }
    }
    pairs
}

/// The lines of a file, by their hashes.
struct Fingerprint {
    index: usize,
    size: usize,
    /// How many bytes the lines with a hash have together; sorted.
    lines: Vec<(u64, usize)>,
}

/// Indexes of changes whose content is similar, one to one, the most similar first.
fn similar_content(
    store: &Store,
    deleted: &[Option<Change>],
    added: &[Option<Change>],
) -> Result<Vec<(usize, usize)>, ObjectError> {
    let candidates = |changes: &[Option<Change>]| -> Vec<(usize, Side)> {
        let comparable = |change: &Change| {
            let side = change.from.or(change.to)?;
            (side.mode.is_file() && !change.private).then_some(side)
        };
        let sides = changes.iter().map(|change| comparable(change.as_ref()?));
        sides.enumerate().filter_map(|(index, side)| Some((index, side?))).collect()
    };
    let (deleted_files, added_files) = (candidates(deleted), candidates(added));
    if deleted_files.len() * added_files.len() > MAX_PAIRS {
        return Ok(Vec::new());
    }
    let mut room = MAX_TOTAL;
    let from = fingerprints(store, &deleted_files, &mut room)?;
    let to = fingerprints(store, &added_files, &mut room)?;
    let name = |changes: &[Option<Change>], index: usize| {
        changes[index].as_ref().map(|change| change.path.name().to_vec())
    };
    let mut pairs = Vec::new();
    for a in &from {
        for b in &to {
            if let Some(similarity) = similarity(a, b) {
                let same_name = name(deleted, a.index) == name(added, b.index);
                pairs.push((Reverse((similarity, same_name)), a.index, b.index));
            }
        }
    }
    pairs.sort_unstable();
    let (mut taken_from, mut taken_to) = (HashSet::new(), HashSet::new());
    pairs.retain(|(_, from, to)| {
        let free = !taken_from.contains(from) && !taken_to.contains(to);
        if free {
            taken_from.insert(*from);
            taken_to.insert(*to);
        }
        free
    });
    Ok(pairs.into_iter().map(|(_, from, to)| (from, to)).collect())
}

fn fingerprints(
    store: &Store,
    files: &[(usize, Side)],
    room: &mut usize,
) -> Result<Vec<Fingerprint>, ObjectError> {
    let mut fingerprints = Vec::new();
    for (index, side) in files {
        if *room == 0 {
            break;
        }
        let content = content(store, Some(side))?;
        *room = room.saturating_sub(content.len());
        if content.is_empty() || content.len() > MAX_SIZE || text::is_binary(&content) {
            continue;
        }
        let mut lines: HashMap<u64, usize> = HashMap::new();
        for line in hunks::lines(&content) {
            let mut hasher = DefaultHasher::new();
            hasher.write(line.strip_suffix(b"\n").unwrap_or(line));
            *lines.entry(hasher.finish()).or_default() += line.len();
        }
        let mut lines: Vec<_> = lines.into_iter().collect();
        lines.sort_unstable();
        fingerprints.push(Fingerprint { index: *index, size: content.len(), lines });
    }
    Ok(fingerprints)
}

/// How much of the larger file is in lines of both, in thousandths; `None` if less than half.
fn similarity(a: &Fingerprint, b: &Fingerprint) -> Option<usize> {
    let (smaller, larger) = (a.size.min(b.size), a.size.max(b.size));
    if smaller * 2 < larger {
        return None;
    }
    let (mut shared, mut i, mut j) = (0, 0, 0);
    while let (Some((line_a, bytes_a)), Some((line_b, bytes_b))) = (a.lines.get(i), b.lines.get(j))
    {
        if line_a == line_b {
            shared += bytes_a.min(bytes_b);
        }
        i += usize::from(line_a <= line_b);
        j += usize::from(line_b <= line_a);
    }
    (shared * 2 >= larger).then_some(shared * 1000 / larger)
}
