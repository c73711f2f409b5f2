//! The destination of captured objects: one pack for the objects that the store lacks.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::capture::{CaptureContext, CaptureError};
use crate::object::ObjectKind;
use crate::oid::Oid;
use crate::pack::write::PackWriter;
use crate::packs::Packs;

/// A collector for the objects of a capture. Many threads share it.
pub(crate) struct ObjectSink<'a> {
    packs: Arc<Packs>,
    /// The objects that are added even though the packs have them.
    distrusted: HashSet<Oid>,
    /// The number of files that have been read so far, which is shown to the user as progress.
    handled: &'a AtomicU64,
    writer: &'a PackWriter,
    /// The maximum size of the pack.
    max_size: u64,
    is_too_large: AtomicBool,
    has_failed: AtomicBool,
    failure: Mutex<Option<io::Error>>,
}

impl<'a> ObjectSink<'a> {
    pub(crate) fn new(context: &CaptureContext<'a>) -> ObjectSink<'a> {
        ObjectSink {
            packs: context.store.packs(),
            distrusted: context.distrusted.borrow().clone(),
            handled: &context.store.handled,
            writer: context.writer,
            max_size: context.max_size,
            is_too_large: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            failure: Mutex::default(),
        }
    }

    /// Adds an object and returns its id.
    pub(crate) fn add_object(&self, kind: ObjectKind, content: &[u8]) -> Oid {
        let oid = Oid::of(kind, content);
        self.add_known_object(oid, kind, content);
        oid
    }

    /// Adds an object whose id is known.
    pub(crate) fn add_known_object(&self, oid: Oid, kind: ObjectKind, content: &[u8]) {
        if kind == ObjectKind::Blob {
            self.handled.fetch_add(1, Ordering::Relaxed);
        }
        let is_stored = || self.packs.contains(&oid) && !self.distrusted.contains(&oid);
        if self.writer.contains(&oid) || is_stored() {
            return;
        }
        if let Err(error) = self.writer.add(kind, oid, content) {
            self.has_failed.store(true, Ordering::Relaxed);
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error);
        } else if self.writer.size() > self.max_size {
            self.is_too_large.store(true, Ordering::Relaxed);
        }
    }

    /// True if there is no point in continuing: an object could not be written, or the pack is too
    /// large.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed) || self.is_too_large.load(Ordering::Relaxed)
    }

    /// Fails if the pack is too large, or with the first error that occurred while objects were
    /// added.
    pub(crate) fn check_written(&self, context: &CaptureContext<'_>) -> Result<(), CaptureError> {
        match self.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(source) => {
                Err(CaptureError::Write { path: context.store.directory().to_owned(), source })
            }
            None if self.is_too_large.load(Ordering::Relaxed) => {
                Err(CaptureError::TooLarge { limit: self.max_size })
            }
            None => Ok(()),
        }
    }
}
