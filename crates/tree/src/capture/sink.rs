//! The destination of captured objects: one pack for the objects that the store lacks.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::capture::{CaptureContext, CaptureError};
use crate::object::ObjectKind;
use crate::oid::Oid;
use crate::pack::write::PackWriter;
use crate::packs::Packs;

/// The collector of the objects of a capture, shared by many threads.
pub(crate) struct ObjectSink<'a> {
    packs: Arc<Packs>,
    writer: &'a PackWriter,
    has_failed: AtomicBool,
    failure: Mutex<Option<io::Error>>,
}

impl<'a> ObjectSink<'a> {
    pub(crate) fn new(context: &CaptureContext<'a>) -> ObjectSink<'a> {
        ObjectSink {
            packs: context.store.packs(),
            writer: context.writer,
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
        if self.writer.contains(&oid) || self.packs.contains(&oid) {
            return;
        }
        if let Err(error) = self.writer.add(kind, oid, content) {
            self.has_failed.store(true, Ordering::Relaxed);
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error);
        }
    }

    /// True if an object could not be written, so that there is no point in continuing.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Fails with the first error that occurred while objects were added.
    pub(crate) fn check_written(&self, context: &CaptureContext<'_>) -> Result<(), CaptureError> {
        match self.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(source) => {
                Err(CaptureError::Write { path: context.store.directory().to_owned(), source })
            }
            None => Ok(()),
        }
    }
}
