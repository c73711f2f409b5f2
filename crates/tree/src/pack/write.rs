//! Writing packs: any number of threads append objects, then the pack is sealed.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread::JoinHandle;

use sha1::{Digest, Sha1};
use takeback_base::durable::{self, Temporary};

use crate::fault;
use crate::object::ObjectKind;
use crate::oid::Oid;
use crate::pack::index::{self, IndexedObject, corrupt};
use crate::pack::read::PackFile;
use crate::pack::{
    OFS_DELTA, deflate, is_incompressible, push_distance, push_entry_head, store_uncompressed,
};

/// The maximum number of bytes of an unsealed pack that are held in memory.
const MAX_IN_MEMORY: usize = 4 << 20;

/// A pack under construction. It is invisible until [`PackWriter::seal`].
pub(crate) struct PackWriter {
    /// The directory for temporary files.
    temporary: PathBuf,
    inner: Mutex<UnsealedPack>,
}

struct UnsealedPack {
    /// True if the pack is durable once it is sealed.
    is_durable: bool,
    /// The last part of the pack, which is not yet in the file.
    tail: Vec<u8>,
    /// The number of bytes that are in the file.
    spilled: u64,
    file: Option<Temporary>,
    /// A thread that syncs the file while objects are being added, so that less remains to be done
    /// at the end.
    early_sync: Option<JoinHandle<io::Result<()>>>,
    objects: Vec<IndexedObject>,
    known: HashSet<Oid>,
}

impl PackWriter {
    pub(crate) fn new(temporary: &Path) -> PackWriter {
        PackWriter::with_durability(temporary, true)
    }

    /// Begins a pack that a power cut may damage, even after it is sealed.
    pub(crate) fn new_volatile(temporary: &Path) -> PackWriter {
        PackWriter::with_durability(temporary, false)
    }

    fn with_durability(temporary: &Path, is_durable: bool) -> PackWriter {
        let tail = b"PACK\0\0\0\x02\0\0\0\0".to_vec();
        let inner = UnsealedPack {
            is_durable,
            tail,
            spilled: 0,
            file: None,
            early_sync: None,
            objects: Vec::new(),
            known: HashSet::new(),
        };
        PackWriter { temporary: temporary.to_owned(), inner: Mutex::new(inner) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, UnsealedPack> {
        // At worst, a thread that panicked while appending has left bytes that are not in the
        // index.
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// True if this pack has the object.
    pub(crate) fn contains(&self, oid: &Oid) -> bool {
        self.lock().known.contains(oid)
    }

    /// Returns the number of bytes in this pack so far.
    pub(crate) fn size(&self) -> u64 {
        self.lock().end()
    }

    /// Returns the number of objects in this pack.
    pub(crate) fn count(&self) -> usize {
        self.lock().objects.len()
    }

    /// Adds an object, unless this pack has it. Compresses it without holding the lock.
    pub(crate) fn add(&self, kind: ObjectKind, oid: Oid, content: &[u8]) -> io::Result<()> {
        if self.contains(&oid) {
            return Ok(());
        }
        self.add_whole(kind, oid, content).map(drop)
    }

    /// Adds an object and returns its offset.
    pub(crate) fn add_whole(&self, kind: ObjectKind, oid: Oid, content: &[u8]) -> io::Result<u64> {
        if is_incompressible(content) {
            return self.add_uncompressed(kind, oid, content);
        }
        let mut entry = Vec::with_capacity(content.len() / 2 + 64);
        push_entry_head(&mut entry, kind as u8, content.len() as u64);
        deflate(content, &mut entry);
        self.append_entry(oid, &entry)
    }

    /// Adds an object without compression, piece by piece, and returns its offset.
    fn add_uncompressed(&self, kind: ObjectKind, oid: Oid, content: &[u8]) -> io::Result<u64> {
        let mut head = Vec::new();
        push_entry_head(&mut head, kind as u8, content.len() as u64);
        let mut inner = self.lock();
        let offset = inner.end();
        if inner.known.contains(&oid) {
            return Ok(offset);
        }
        let mut crc = crc32fast::Hasher::new();
        let mut write = |piece: &[u8]| {
            crc.update(piece);
            inner.tail.extend_from_slice(piece);
            inner.spill_if_full(&self.temporary)
        };
        write(&head)?;
        store_uncompressed(content, write)?;
        inner.known.insert(oid);
        inner.objects.push(IndexedObject { oid, crc: crc.finalize(), offset });
        Ok(offset)
    }

    /// Adds an object as a delta from the object at the offset `base` in this pack.
    pub(crate) fn add_delta(&self, oid: Oid, base: u64, delta: &[u8]) -> io::Result<u64> {
        let mut compressed = Vec::with_capacity(delta.len() + 64);
        deflate(delta, &mut compressed);
        self.add_compressed_delta(oid, base, delta.len() as u64, &compressed)
    }

    /// Adds an object as a delta that is already compressed. `size` is the length of the
    /// uncompressed delta.
    pub(crate) fn add_compressed_delta(
        &self,
        oid: Oid,
        base: u64,
        size: u64,
        compressed: &[u8],
    ) -> io::Result<u64> {
        let mut inner = self.lock();
        let mut entry = Vec::with_capacity(compressed.len() + 16);
        push_entry_head(&mut entry, OFS_DELTA, size);
        push_distance(&mut entry, inner.end() - base);
        entry.extend(compressed);
        inner.append_entry(&self.temporary, oid, &entry)
    }

    /// Copies the entry of a whole object from another pack, piece by piece. Fails if the entry
    /// does not match the checksum in that pack's index.
    pub(crate) fn copy_entry(
        &self,
        object: &IndexedObject,
        from: &PackFile,
        length: u64,
    ) -> io::Result<u64> {
        let mut inner = self.lock();
        let offset = inner.end();
        let mut crc = crc32fast::Hasher::new();
        let mut piece = vec![0; length.min(1 << 20) as usize];
        let mut done = 0;
        while done < length {
            let piece = &mut piece[..(length - done).min(1 << 20) as usize];
            from.read_at(piece, object.offset + done)?;
            crc.update(piece);
            inner.tail.extend_from_slice(piece);
            inner.spill_if_full(&self.temporary)?;
            done += piece.len() as u64;
        }
        if crc.finalize() != object.crc {
            return Err(corrupt("an entry does not match its checksum"));
        }
        inner.known.insert(object.oid);
        inner.objects.push(IndexedObject { oid: object.oid, crc: object.crc, offset });
        Ok(offset)
    }

    /// Adds a complete entry and returns its offset.
    fn append_entry(&self, oid: Oid, entry: &[u8]) -> io::Result<u64> {
        self.lock().append_entry(&self.temporary, oid, entry)
    }

    /// Completes the pack and moves it into `directory`, durably unless the pack is volatile.
    /// Returns the name of the pack, or `None` if it has no objects.
    pub(crate) fn seal(self, directory: &Path) -> io::Result<Option<String>> {
        self.seal_with(directory, &[])
    }

    /// Completes the pack and moves it into `directory`, durably. Also syncs `others`. Returns the
    /// name of the pack, or `None` if it has no objects.
    pub(crate) fn seal_with(
        self,
        directory: &Path,
        others: &[&File],
    ) -> io::Result<Option<String>> {
        let inner = self.inner.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        if inner.objects.is_empty() {
            durable::sync_files(others)?;
            return Ok(None);
        }
        inner.seal(&self.temporary, directory, others).map(Some)
    }
}

impl UnsealedPack {
    fn end(&self) -> u64 {
        self.spilled + self.tail.len() as u64
    }

    fn append_entry(&mut self, temporary: &Path, oid: Oid, entry: &[u8]) -> io::Result<u64> {
        let offset = self.end();
        if !self.known.insert(oid) {
            return Ok(offset);
        }
        self.objects.push(IndexedObject { oid, crc: crc32fast::hash(entry), offset });
        self.tail.extend_from_slice(entry);
        self.spill_if_full(temporary)?;
        Ok(offset)
    }

    fn spill_if_full(&mut self, temporary: &Path) -> io::Result<()> {
        if self.tail.len() > MAX_IN_MEMORY { self.spill(temporary) } else { Ok(()) }
    }

    /// Writes the tail to the file.
    fn spill(&mut self, temporary: &Path) -> io::Result<()> {
        fault::point("pack spill")?;
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(Temporary::create_in(temporary)?),
        };
        file.write_all(&self.tail)?;
        let is_sync_free = self.early_sync.as_ref().is_none_or(JoinHandle::is_finished);
        if self.is_durable && self.tail.len() > MAX_IN_MEMORY && is_sync_free {
            let file = file.try_clone()?;
            // If no thread can be started, everything is synced when the pack is completed.
            let sync = std::thread::Builder::new().spawn(move || file.sync_data());
            join_sync(std::mem::replace(&mut self.early_sync, sync.ok()))?;
        }
        self.spilled += self.tail.len() as u64;
        self.tail.clear();
        Ok(())
    }

    fn seal(mut self, temporary: &Path, directory: &Path, others: &[&File]) -> io::Result<String> {
        let count = (self.objects.len() as u32).to_be_bytes();
        let checksum: [u8; 20];
        if self.file.is_none() {
            self.tail[8..12].copy_from_slice(&count);
            checksum = Sha1::digest(&self.tail).into();
            self.tail.extend_from_slice(&checksum);
            self.spill(temporary)?;
        } else {
            self.spill(temporary)?;
            let file = self.file.as_ref().expect("the pack was spilled");
            file.write_all_at(&count, 8)?;
            checksum = match self.is_durable {
                true => sync_while_hashing(file, self.spilled)?,
                false => hash_file(file, self.spilled)?,
            };
            join_sync(self.early_sync.take())?;
            self.tail.extend_from_slice(&checksum);
            self.spill(temporary)?;
        }
        let pack = self.file.expect("the pack was spilled");
        let mut index = Temporary::create_in(temporary)?;
        index.write_all(&index::encode_index(&mut self.objects, &checksum))?;
        fault::point("pack sync")?;
        let own = [&*pack, &*index].into_iter().filter(|_| self.is_durable);
        let files: Vec<&File> = own.chain(others.iter().copied()).collect();
        durable::sync_files(&files)?;

        // The index comes last: a pack without an index is invisible, but an index without a pack
        // is visible.
        let name = format!("pack-{}", Oid(checksum));
        fault::point("pack rename")?;
        pack.persist_with_mode(&directory.join(format!("{name}.pack")), 0o444)?;
        fault::point("pack index rename")?;
        index.persist_with_mode(&directory.join(format!("{name}.idx")), 0o444)?;
        if self.is_durable {
            durable::sync_directory(directory)?;
        }
        Ok(name)
    }
}

/// Waits for a sync. Its result must be checked, because the kernel reports an error only once.
fn join_sync(sync: Option<JoinHandle<io::Result<()>>>) -> io::Result<()> {
    sync.map_or(Ok(()), |sync| sync.join().expect("fdatasync does not panic"))
}

/// Computes the checksum of the first `length` bytes.
fn hash_file(file: &File, length: u64) -> io::Result<[u8; 20]> {
    let mut hasher = Sha1::new();
    let mut buffer = vec![0; 1 << 20];
    let mut offset = 0;
    while offset < length {
        let chunk = &mut buffer[..(length - offset).min(1 << 20) as usize];
        file.read_exact_at(chunk, offset)?;
        hasher.update(&*chunk);
        offset += chunk.len() as u64;
    }
    Ok(hasher.finalize().into())
}

/// Computes the checksum of the first `length` bytes while the disk writes them. If no other thread
/// can be started, this thread does both, one after the other.
fn sync_while_hashing(file: &File, length: u64) -> io::Result<[u8; 20]> {
    std::thread::scope(|scope| {
        let sync = std::thread::Builder::new().spawn_scoped(scope, || file.sync_data());
        let checksum = hash_file(file, length)?;
        match sync {
            Ok(sync) => sync.join().expect("fdatasync does not panic")?,
            Err(_) => file.sync_data()?,
        }
        Ok(checksum)
    })
}
