//! Rewriting objects from existing packs into a new pack, as deltas where that saves space.

use std::io;

use crate::object::ObjectKind;
use crate::pack::delta;
use crate::pack::read::{EntryHead, RecentObjects, Stored};
use crate::pack::write::PackWriter;
use crate::reachability::{NeededObject, NeededObjects};
use crate::source_packs::{ObjectPlace, SourcePacks};
use crate::store::ObjectError;

/// The maximum number of deltas that must be applied to read an object.
const MAX_DEPTH: u32 = 50;
/// The maximum size of an object that is stored as a delta. Building a delta takes several times as
/// much memory as the object.
const MAX_DELTA: u64 = 16 << 20;
/// The minimum size of an object for which a delta is worthwhile.
const MIN_DELTA: u64 = 50;

/// The reason why an object could not be rewritten.
#[derive(Debug)]
pub(crate) enum RepackError {
    /// The object cannot be read from its pack.
    Object(ObjectError),
    /// The new pack cannot be written.
    Write(io::Error),
}

impl From<ObjectError> for RepackError {
    fn from(error: ObjectError) -> RepackError {
        RepackError::Object(error)
    }
}

/// Writes the needed objects, starting with number `first`.
pub(crate) fn write_objects(
    sources: &SourcePacks,
    recent: &mut RecentObjects,
    needed: &NeededObjects,
    first: usize,
    writer: &PackWriter,
) -> Result<(), RepackError> {
    let written = vec![None; needed.objects.len()];
    let mut repack = Repack { sources, recent, needed, writer, written };
    // Objects of one kind are often read together, so they are written next to each other.
    let kinds = [Some(ObjectKind::Commit), Some(ObjectKind::Tree), Some(ObjectKind::Blob), None];
    for kind in kinds {
        for (number, object) in needed.objects.iter().enumerate().skip(first) {
            if object.kind == kind {
                repack.written[number] = Some(repack.write_object(object)?);
            }
        }
    }
    Ok(())
}

/// A rewrite in progress.
struct Repack<'a> {
    sources: &'a SourcePacks,
    recent: &'a mut RecentObjects,
    needed: &'a NeededObjects,
    writer: &'a PackWriter,
    /// The objects that were written, by number.
    written: Vec<Option<WrittenObject>>,
}

/// An object in the new pack.
#[derive(Clone, Copy)]
struct WrittenObject {
    offset: u64,
    /// The number of its base.
    base: Option<u32>,
    /// The number of deltas that must be applied to read it.
    depth: u32,
    /// True if it can be the base of a delta.
    is_base: bool,
}

impl Repack<'_> {
    fn write_object(&mut self, object: &NeededObject) -> Result<WrittenObject, RepackError> {
        let place = object.place;
        let indexed = self.sources.object(place);
        let damaged = |error: io::Error| self.damage_error(place, &error);
        let head = self.sources.pack(place).file.read_head(indexed.offset).map_err(damaged)?;
        if let Some(written) = self.copy_delta(place, &head)? {
            return Ok(written);
        }
        if let Some(written) = self.write_new_delta(object, &head)? {
            return Ok(written);
        }
        self.write_whole(place, &head)
    }

    /// Copies a delta if its base is already in the new pack.
    fn copy_delta(
        &self,
        place: ObjectPlace,
        head: &EntryHead,
    ) -> Result<Option<WrittenObject>, RepackError> {
        let source = self.sources.pack(place);
        let base = match head.stored {
            Stored::Whole(_) => return Ok(None),
            Stored::DeltaAt(offset) => source.object_at(offset).map(|base| base.oid),
            Stored::DeltaFrom(oid) => Some(oid),
        };
        let Some(base) = base.and_then(|oid| self.needed.number(&oid)) else { return Ok(None) };
        let Some(on) = self.written[base as usize].filter(|on| on.depth < MAX_DEPTH) else {
            return Ok(None);
        };
        let entry = self.read_entry(place)?;
        let indexed = self.sources.object(place);
        let offset = self
            .writer
            .add_compressed_delta(indexed.oid, on.offset, head.size, &entry[head.length..])
            .map_err(RepackError::Write)?;
        Ok(Some(WrittenObject { offset, base: Some(base), depth: on.depth + 1, is_base: true }))
    }

    /// Writes the object as a delta from the object that it probably resembles, if the delta is
    /// small.
    fn write_new_delta(
        &mut self,
        object: &NeededObject,
        head: &EntryHead,
    ) -> Result<Option<WrittenObject>, RepackError> {
        let is_whole = matches!(head.stored, Stored::Whole(_));
        if is_whole && !(MIN_DELTA..=MAX_DELTA).contains(&head.size) {
            return Ok(None);
        }
        let Some((base, on)) = object.resembles.and_then(|number| self.find_base(number)) else {
            return Ok(None);
        };
        let base_place = self.needed.objects[base as usize].place;
        let (_, base_content) = self.sources.read(base_place, self.recent)?;
        let (_, content) = self.sources.read(object.place, self.recent)?;
        // A delta must be at most half as large as the object. If the existing entry holds the
        // whole object, the delta must also be no larger than this entry.
        let mut limit = content.len() / 2;
        if is_whole {
            limit = limit.min(self.sources.entry_length(object.place) as usize);
        }
        let Some(delta) = delta::encode_delta(&base_content, &content, limit) else {
            return Ok(None);
        };
        // The old entry will be deleted, so the new one is verified first.
        if delta::apply_delta(&base_content, &delta).as_ref() != Some(&*content) {
            return Ok(None);
        }
        let oid = self.sources.object(object.place).oid;
        let offset = self.writer.add_delta(oid, on.offset, &delta).map_err(RepackError::Write)?;
        Ok(Some(WrittenObject { offset, base: Some(base), depth: on.depth + 1, is_base: true }))
    }

    /// Finds the base for a delta: the given object, or the start of its chain if the chain has the
    /// maximum length.
    fn find_base(&self, mut number: u32) -> Option<(u32, WrittenObject)> {
        let mut on = self.written[number as usize]?;
        if on.depth >= MAX_DEPTH {
            while let Some(base) = on.base {
                (number, on) = (base, self.written[base as usize]?);
            }
        }
        on.is_base.then_some((number, on))
    }

    fn write_whole(
        &mut self,
        place: ObjectPlace,
        head: &EntryHead,
    ) -> Result<WrittenObject, RepackError> {
        let indexed = self.sources.object(place);
        let (offset, size) = match head.stored {
            Stored::Whole(_) => {
                let file = &self.sources.pack(place).file;
                let copied =
                    self.writer.copy_entry(indexed, file, self.sources.entry_length(place));
                let copied = copied.map_err(|error| match error.kind() {
                    io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                        self.damage_error(place, &error)
                    }
                    _ => RepackError::Write(error),
                });
                (copied?, head.size)
            }
            _ => {
                let (kind, content) = self.sources.read(place, self.recent)?;
                let added = self.writer.add_whole(kind, indexed.oid, &content);
                (added.map_err(RepackError::Write)?, content.len() as u64)
            }
        };
        Ok(WrittenObject { offset, base: None, depth: 0, is_base: size <= MAX_DELTA })
    }

    /// Reads the bytes of an entry from its pack, and checks them.
    fn read_entry(&self, place: ObjectPlace) -> Result<Vec<u8>, RepackError> {
        let indexed = self.sources.object(place);
        let mut bytes = vec![0; self.sources.entry_length(place) as usize];
        let read = self.sources.pack(place).file.read_at(&mut bytes, indexed.offset);
        read.map_err(|error| self.damage_error(place, &error))?;
        if crc32fast::hash(&bytes) != indexed.crc {
            let error = io::Error::other("an entry does not match its checksum");
            return Err(self.damage_error(place, &error));
        }
        Ok(bytes)
    }

    fn damage_error(&self, place: ObjectPlace, error: &io::Error) -> RepackError {
        RepackError::Object(ObjectError::Damaged {
            oid: self.sources.object(place).oid,
            pack: self.sources.pack(place).name.clone(),
            reason: error.to_string(),
        })
    }
}
