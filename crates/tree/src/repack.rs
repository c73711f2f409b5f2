//! Writes objects of some packs into one new pack, as deltas where that is smaller.

use std::io;

use crate::history::{Needed, Object};
use crate::object::ObjectKind;
use crate::origins::{Origins, Place};
use crate::pack::delta;
use crate::pack::read::{Head, Recent, Stored};
use crate::pack::write::PackWriter;
use crate::store::ObjectError;

/// How many deltas are applied at most to read an object.
const MAX_DEPTH: u32 = 50;
/// Larger objects are stored whole: making a delta takes several times their size in memory.
const MAX_DELTA: u64 = 16 << 20;
/// Smaller objects are not worth a delta.
const MIN_DELTA: u64 = 50;

/// An object could not be packed anew.
#[derive(Debug)]
pub(crate) enum RepackError {
    /// It cannot be had from its pack.
    Object(ObjectError),
    /// The new pack cannot be written.
    Write(io::Error),
}

impl From<ObjectError> for RepackError {
    fn from(error: ObjectError) -> RepackError {
        RepackError::Object(error)
    }
}

/// Writes the needed objects from number `first` on.
pub(crate) fn write(
    origins: &Origins,
    recent: &mut Recent,
    needed: &Needed,
    first: usize,
    writer: &PackWriter,
) -> Result<(), RepackError> {
    let written = vec![None; needed.objects.len()];
    let mut repack = Repack { origins, recent, needed, writer, written };
    // Kind by kind: what is read together lies together.
    let kinds = [Some(ObjectKind::Commit), Some(ObjectKind::Tree), Some(ObjectKind::Blob), None];
    for kind in kinds {
        for (number, object) in needed.objects.iter().enumerate().skip(first) {
            if object.kind == kind {
                repack.written[number] = Some(repack.object(object)?);
            }
        }
    }
    Ok(())
}

struct Repack<'a> {
    origins: &'a Origins,
    recent: &'a mut Recent,
    needed: &'a Needed,
    writer: &'a PackWriter,
    /// By the objects' numbers.
    written: Vec<Option<Written>>,
}

/// How an object stands in the new pack.
#[derive(Clone, Copy)]
struct Written {
    offset: u64,
    /// The number of its base.
    base: Option<u32>,
    /// How many deltas lead to it.
    depth: u32,
    /// Whether it may be the base of a delta.
    is_base: bool,
}

impl Repack<'_> {
    fn object(&mut self, object: &Object) -> Result<Written, RepackError> {
        let place = object.place;
        let indexed = self.origins.object(place);
        let damaged = |error: io::Error| self.damaged(place, &error);
        let head = self.origins.pack(place).file.head(indexed.offset).map_err(damaged)?;
        if let Some(written) = self.same_delta(place, &head)? {
            return Ok(written);
        }
        if let Some(written) = self.new_delta(object, &head)? {
            return Ok(written);
        }
        self.whole(place, &head)
    }

    /// Takes over a delta whose base is in the new pack already.
    fn same_delta(&self, place: Place, head: &Head) -> Result<Option<Written>, RepackError> {
        let origin = self.origins.pack(place);
        let base = match head.stored {
            Stored::Whole(_) => return Ok(None),
            Stored::From(offset) => origin.at(offset).map(|base| base.oid),
            Stored::FromOid(oid) => Some(oid),
        };
        let Some(base) = base.and_then(|oid| self.needed.number(&oid)) else { return Ok(None) };
        let Some(on) = self.written[base as usize].filter(|on| on.depth < MAX_DEPTH) else {
            return Ok(None);
        };
        let entry = self.entry(place)?;
        let indexed = self.origins.object(place);
        let offset = self
            .writer
            .append_delta(indexed.oid, on.offset, head.size, &entry[head.length..])
            .map_err(RepackError::Write)?;
        Ok(Some(Written { offset, base: Some(base), depth: on.depth + 1, is_base: true }))
    }

    /// Finds a delta from the object that this one resembles.
    fn new_delta(&mut self, object: &Object, head: &Head) -> Result<Option<Written>, RepackError> {
        let is_whole = matches!(head.stored, Stored::Whole(_));
        if is_whole && !(MIN_DELTA..=MAX_DELTA).contains(&head.size) {
            return Ok(None);
        }
        let Some((base, on)) = object.resembles.and_then(|number| self.base(number)) else {
            return Ok(None);
        };
        let base_place = self.needed.objects[base as usize].place;
        let (_, base_content) = self.origins.read(base_place, self.recent)?;
        let (_, content) = self.origins.read(object.place, self.recent)?;
        // Not worth it unless it saves much, and never larger than what it replaces.
        let mut limit = content.len() / 2;
        if is_whole {
            limit = limit.min(self.origins.length(object.place) as usize);
        }
        let Some(delta) = delta::encode(&base_content, &content, limit) else { return Ok(None) };
        // Nothing is deleted on the word of an encoder alone.
        if delta::apply(&base_content, &delta).as_ref() != Some(&*content) {
            return Ok(None);
        }
        let oid = self.origins.object(object.place).oid;
        let offset = self.writer.add_delta(oid, on.offset, &delta).map_err(RepackError::Write)?;
        Ok(Some(Written { offset, base: Some(base), depth: on.depth + 1, is_base: true }))
    }

    /// What is used as a base: the object itself, or the start of its chain if that is full.
    fn base(&self, mut number: u32) -> Option<(u32, Written)> {
        let mut on = self.written[number as usize]?;
        if on.depth >= MAX_DEPTH {
            while let Some(base) = on.base {
                (number, on) = (base, self.written[base as usize]?);
            }
        }
        on.is_base.then_some((number, on))
    }

    fn whole(&mut self, place: Place, head: &Head) -> Result<Written, RepackError> {
        let indexed = self.origins.object(place);
        let (offset, size) = match head.stored {
            Stored::Whole(_) => {
                let file = &self.origins.pack(place).file;
                let copied = self.writer.copy(indexed, file, self.origins.length(place));
                let copied = copied.map_err(|error| match error.kind() {
                    io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                        self.damaged(place, &error)
                    }
                    _ => RepackError::Write(error),
                });
                (copied?, head.size)
            }
            _ => {
                let (kind, content) = self.origins.read(place, self.recent)?;
                let added = self.writer.add_whole(kind, indexed.oid, &content);
                (added.map_err(RepackError::Write)?, content.len() as u64)
            }
        };
        Ok(Written { offset, base: None, depth: 0, is_base: size <= MAX_DELTA })
    }

    /// The bytes of a delta's entry, as they stand in its pack.
    fn entry(&self, place: Place) -> Result<Vec<u8>, RepackError> {
        let indexed = self.origins.object(place);
        let mut bytes = vec![0; self.origins.length(place) as usize];
        let read = self.origins.pack(place).file.read_at(&mut bytes, indexed.offset);
        read.map_err(|error| self.damaged(place, &error))?;
        if crc32fast::hash(&bytes) != indexed.crc {
            let error = io::Error::other("an entry does not match its checksum");
            return Err(self.damaged(place, &error));
        }
        Ok(bytes)
    }

    fn damaged(&self, place: Place, error: &io::Error) -> RepackError {
        RepackError::Object(ObjectError::Damaged {
            oid: self.origins.object(place).oid,
            pack: self.origins.pack(place).name.clone(),
            reason: error.to_string(),
        })
    }
}
