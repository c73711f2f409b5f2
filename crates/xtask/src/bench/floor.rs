//! A lower bound: the time for the work that cannot be avoided, and nothing else.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use libdeflater::{CompressionLvl, Compressor};
use sha1::{Digest, Sha1};

use super::scratch::io_failure;
use crate::Failure;

const THREADS: usize = 2;
/// The number of files that a thread takes at a time.
const SHARE: usize = 16;
/// The number of bytes that are buffered before they are written.
const WRITE: usize = 4 << 20;

/// Does the work for all paths on two threads.
fn for_all(
    paths: &[PathBuf],
    worker: impl Fn(&mut dyn Iterator<Item = &Path>) -> Result<(), Failure> + Sync,
) -> Result<(), Failure> {
    let next = AtomicUsize::new(0);
    let shares = || {
        std::iter::from_fn(|| {
            let start = next.fetch_add(SHARE, Ordering::Relaxed);
            paths.get(start..paths.len().min(start + SHARE)).filter(|share| !share.is_empty())
        })
        .flatten()
        .map(PathBuf::as_path)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| worker(&mut shares()))).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().map_err(|_| "a thread of the floor benchmark panicked")?
        })
    })
}

/// Calls `lstat` once for each known path.
pub(crate) fn lstat_all(paths: &[PathBuf]) -> Result<(), Failure> {
    for_all(paths, |paths| {
        for path in paths {
            rustix::fs::lstat(path).map_err(|error| io_failure("stat", path)(error.into()))?;
        }
        Ok(())
    })
}

/// Reads all files, hashes and compresses them, and writes the result to one file.
pub(crate) fn store_all(paths: &[PathBuf], to: &Path, durable: bool) -> Result<(), Failure> {
    let file = File::create_new(to).map_err(io_failure("create", to))?;
    let out = Mutex::new((file, Vec::with_capacity(2 * WRITE)));
    let append = |entry: &[u8], end: bool| {
        let mut out = out.lock().map_err(|_| "a thread of the floor panicked")?;
        let (file, pending) = &mut *out;
        pending.extend_from_slice(entry);
        if end || pending.len() > WRITE {
            file.write_all(pending).map_err(io_failure("write", to))?;
            pending.clear();
        }
        if end && durable {
            file.sync_data().map_err(io_failure("sync", to))?;
        }
        Ok::<(), Failure>(())
    };
    for_all(paths, |paths| {
        let level = CompressionLvl::new(1).map_err(|error| format!("{error:?}"))?;
        let (mut compressor, mut compressed) = (Compressor::new(level), Vec::new());
        for path in paths {
            let content = fs::read(path).map_err(io_failure("read", path))?;
            let mut hash = Sha1::new();
            hash.update(format!("blob {}\0", content.len()));
            hash.update(&content);
            let id = hash.finalize();
            compressed.resize(compressor.zlib_compress_bound(content.len()), 0);
            let length = compressor
                .zlib_compress(&content, &mut compressed)
                .map_err(|error| error.to_string())?;
            compressed.truncate(length);
            compressed.extend_from_slice(&id);
            append(&compressed, false)?;
        }
        Ok(())
    })?;
    append(&[], true)
}
