//! Early detection of lost and damaged packs, while the captured files still exist in the
//! workspace.
//!
//! For each workspace, a note lists the packs that existed when the workspace's stat cache was
//! saved. If a pack in the note has disappeared or changed in size, the next capture checks the
//! store for every object that it relies on. [`Store::scrub`] finds damaged bytes inside packs.
//! Each call checks only a part of the store.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use takeback_base::durable::{self, Durability};

use crate::pack::index::corrupt;
use crate::pack::read::Pack;
use crate::packs::{is_damage, list_pack_names};
use crate::store::{Store, StoreError};
use crate::verify::BrokenPack;

/// The name of the note in a workspace's directory.
const NOTE: &str = "packs";
/// The name of the file in the store that records where the last scrub ended.
const BOOKMARK: &str = "scrubbed";

/// The position at which the next scrub continues.
#[derive(Default, Serialize, Deserialize)]
struct Bookmark {
    pack: String,
    offset: u64,
}

impl Store {
    /// Writes the note that lists all packs, for [`Store::find_suspects`].
    ///
    /// Packs that existed when the capture began are listed even if they no longer exist, because
    /// the capture relied on them.
    pub(crate) fn note_packs(&self, directory: &Path, seen: &HashSet<String>) -> io::Result<()> {
        let mut lines: Vec<String> = self.describe_packs().union(seen).cloned().collect();
        lines.sort();
        let text = lines.concat();
        let path = directory.join(NOTE);
        if fs::read(&path).is_ok_and(|noted| noted == text.as_bytes()) {
            return Ok(());
        }
        durable::replace_file_through(&self.temporary(), &path, text.as_bytes(), Durability::Cached)
    }

    /// Finds the packs that have disappeared or changed in size since the note was written. Returns
    /// `None` if there are no such packs, and an empty list if there is no note. The objects of
    /// these packs are not necessarily lost: a merge moves objects to another pack.
    pub(crate) fn find_suspects(
        directory: &Path,
        present: &HashSet<String>,
    ) -> Option<Vec<String>> {
        let Ok(noted) = fs::read_to_string(directory.join(NOTE)) else { return Some(Vec::new()) };
        let suspects: Vec<String> = noted
            .split_inclusive('\n')
            .filter(|line| !present.contains(*line))
            .map(|line| line.split(' ').next().unwrap_or_default().to_owned())
            .collect();
        (!suspects.is_empty()).then_some(suspects)
    }

    /// Returns the lines that describe the packs in a note.
    pub(crate) fn describe_packs(&self) -> HashSet<String> {
        self.packs().sizes().map(describe_pack).collect()
    }

    /// Makes the next scrub begin with a pack that is known to be damaged.
    pub(crate) fn scrub_next(&self, pack: &str) {
        // If this fails, a later scrub finds the damage when it reaches the pack.
        let _ = self.write_bookmark(&Bookmark { pack: pack.to_owned(), offset: 0 });
    }

    fn write_bookmark(&self, at: &Bookmark) -> io::Result<()> {
        let text = serde_json::to_vec(at).expect("plain data serializes to JSON");
        let path = self.directory().join(BOOKMARK);
        durable::replace_file_through(&self.temporary(), &path, &text, Durability::Cached)
    }

    /// Compares the next `max_bytes` bytes of the packs with their checksums, starting where the
    /// last scrub ended. Repeated scrubs cover all packs. Returns the first damaged pack. Later
    /// scrubs return it again until [`Store::repair`] has set it aside.
    pub fn scrub(&self, max_bytes: u64) -> Result<Option<BrokenPack>, StoreError> {
        let _lock = self.lock_shared()?;
        let path = self.directory().join(BOOKMARK);
        let text = fs::read(&path).unwrap_or_default();
        let mut at: Bookmark = serde_json::from_slice(&text).unwrap_or_default();
        let directory = self.pack_directory();
        let names = list_pack_names(&directory);
        let first = names.partition_point(|name| *name < at.pack);
        let in_turn = names[first..].iter().chain(&names[..first]);
        let mut left = max_bytes;
        let mut broken = None;
        for name in in_turn {
            let from = if *name == at.pack { at.offset } else { 0 };
            let checked = Pack::open(&directory.join(name).with_extension("idx"))
                .and_then(|pack| check_entries(&pack, from, &mut left));
            match checked {
                Ok(None) => at = Bookmark { pack: format!("{name}+"), offset: 0 },
                Ok(Some(offset)) => {
                    at = Bookmark { pack: name.clone(), offset };
                    break;
                }
                Err(error) if is_damage(&error) => {
                    broken = Some(BrokenPack { name: name.clone(), reason: error.to_string() });
                    at = Bookmark { pack: name.clone(), offset: 0 };
                    break;
                }
                // Another process may have removed the pack, or the pack may be temporarily
                // unreadable.
                Err(_) => {}
            }
        }
        self.write_bookmark(&at).map_err(StoreError::io("write", &path))?;
        Ok(broken)
    }
}

/// Returns the line that describes a pack in a note.
fn describe_pack((name, [pack, index]): (&str, [u64; 2])) -> String {
    format!("{name} {pack} {index}\n")
}

/// Compares the entries of a pack with the checksums in its index, starting at offset `from`.
/// `left` is the number of bytes that may still be compared. Returns the offset at which to
/// continue once `left` is used up, or `None` at the end of the pack.
fn check_entries(pack: &Pack, from: u64, left: &mut u64) -> io::Result<Option<u64>> {
    if from == 0 && !pack.index.is_intact()? {
        return Err(corrupt("the index does not match its checksum"));
    }
    let mut objects = pack.index.objects()?;
    objects.sort_unstable_by_key(|object| object.offset);
    let first = objects.partition_point(|object| object.offset < from);
    let mut piece = vec![0; 1 << 16];
    for (number, object) in objects.iter().enumerate().skip(first) {
        if *left == 0 {
            return Ok(Some(object.offset));
        }
        let end = objects.get(number + 1).map_or(pack.file.end(), |next| next.offset);
        let mut crc = crc32fast::Hasher::new();
        let mut at = object.offset;
        while at < end {
            let piece = &mut piece[..(end - at).min(1 << 16) as usize];
            pack.file.read_at(piece, at)?;
            crc.update(piece);
            at += piece.len() as u64;
        }
        if crc.finalize() != object.crc {
            return Err(corrupt(&format!("object {} does not match its checksum", object.oid)));
        }
        *left = left.saturating_sub(end.saturating_sub(object.offset));
    }
    Ok(None)
}
