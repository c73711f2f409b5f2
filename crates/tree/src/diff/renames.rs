//! Finding renames: pairs of a deleted and an added file with the same or similar content.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hasher};

use super::{ChangeKind, ChangeSide, TreeChange, hunks, read_content, text};
use crate::object::ObjectKind;
use crate::oid::Oid;
use crate::store::{ObjectError, Store};

/// The maximum number of possible pairs of files. If there are more pairs, contents are not
/// compared.
const MAX_PAIRS: usize = 10_000;

/// The maximum size in bytes of a file whose content is compared.
const MAX_SIZE: usize = 1 << 20;

/// The total number of bytes after which no more files are compared.
const MAX_TOTAL: usize = 64 << 20;

/// Finds the pairs of a deletion and an addition that together form a rename, and joins each pair
/// into one change. Pairs with equal content are joined first, and then pairs whose common lines
/// make up at least half of the larger file.
///
/// Private files are joined only if their content is equal.
pub(super) fn join_renames(
    store: &Store,
    changes: Vec<TreeChange>,
) -> Result<Vec<TreeChange>, ObjectError> {
    let (mut deleted, mut added, mut joined) = (Vec::new(), Vec::new(), Vec::new());
    for change in changes {
        match change.kind {
            ChangeKind::Deleted if change.has_content() => deleted.push(Some(change)),
            ChangeKind::Added if change.has_content() => added.push(Some(change)),
            _ => joined.push(change),
        }
    }
    let mut join = |from: &mut Option<TreeChange>, to: &mut Option<TreeChange>| {
        let (Some(from), Some(to)) = (from.take(), to.take()) else { return };
        joined.push(TreeChange {
            kind: ChangeKind::Renamed { from: from.path },
            from: from.from,
            private: from.private || to.private,
            ..to
        });
    };
    for with_name in [true, false] {
        for (from, to) in pair_same_content(&deleted, &added, with_name) {
            join(&mut deleted[from], &mut added[to]);
        }
    }
    for (from, to) in pair_similar_content(store, &deleted, &added)? {
        join(&mut deleted[from], &mut added[to]);
    }
    joined.extend(deleted.into_iter().chain(added).flatten());
    Ok(joined)
}

/// Pairs changes with equal content. If `with_name` is true, their file names must also be equal.
/// Returns pairs of indexes.
fn pair_same_content(
    deleted: &[Option<TreeChange>],
    added: &[Option<TreeChange>],
    with_name: bool,
) -> Vec<(usize, usize)> {
    let empty = Oid::of(ObjectKind::Blob, b"");
    let key = |change: &TreeChange, side: Option<ChangeSide>| {
        let side = side?;
        let name = with_name.then(|| change.path.name().to_vec());
        // All empty files have equal content, so they are paired only by name.
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

/// The lines of a file, represented by their hashes.
struct Fingerprint {
    index: usize,
    size: usize,
    /// Each hash, with the total size in bytes of the lines that have this hash. Sorted by hash.
    lines: Vec<(u64, usize)>,
}

/// Pairs changes with similar content, the most similar first. Returns pairs of indexes.
fn pair_similar_content(
    store: &Store,
    deleted: &[Option<TreeChange>],
    added: &[Option<TreeChange>],
) -> Result<Vec<(usize, usize)>, ObjectError> {
    let candidates = |changes: &[Option<TreeChange>]| -> Vec<(usize, ChangeSide)> {
        let comparable = |change: &TreeChange| {
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
    let mut budget = MAX_TOTAL;
    let from = make_fingerprints(store, &deleted_files, &mut budget)?;
    let to = make_fingerprints(store, &added_files, &mut budget)?;
    let name = |changes: &[Option<TreeChange>], index: usize| {
        changes[index].as_ref().map(|change| change.path.name().to_vec())
    };
    let mut pairs = Vec::new();
    for a in &from {
        for b in &to {
            if let Some(similarity) = compute_similarity(a, b) {
                let same_name = name(deleted, a.index) == name(added, b.index);
                pairs.push((Reverse((similarity, same_name)), a.index, b.index));
            }
        }
    }
    pairs.sort_unstable();
    let (mut taken_from, mut taken_to) = (HashSet::new(), HashSet::new());
    pairs.retain(|(_, from, to)| {
        let are_free = !taken_from.contains(from) && !taken_to.contains(to);
        if are_free {
            taken_from.insert(*from);
            taken_to.insert(*to);
        }
        are_free
    });
    Ok(pairs.into_iter().map(|(_, from, to)| (from, to)).collect())
}

fn make_fingerprints(
    store: &Store,
    files: &[(usize, ChangeSide)],
    budget: &mut usize,
) -> Result<Vec<Fingerprint>, ObjectError> {
    let mut fingerprints = Vec::new();
    for (index, side) in files {
        if *budget == 0 {
            break;
        }
        let content = read_content(store, Some(side))?;
        *budget = budget.saturating_sub(content.len());
        if content.is_empty() || content.len() > MAX_SIZE || text::is_binary(&content) {
            continue;
        }
        let mut lines: HashMap<u64, usize> = HashMap::new();
        for line in hunks::split_lines(&content) {
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

/// Computes the share of the larger file that consists of common lines, in thousandths. Returns
/// `None` if the share is less than half.
fn compute_similarity(a: &Fingerprint, b: &Fingerprint) -> Option<usize> {
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
