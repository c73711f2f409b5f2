//! Where captured objects go: into one pack, unless the store has them.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::capture::{CaptureError, Context};
use crate::object::Kind;
use crate::oid::Oid;
use crate::pack::write::PackWriter;
use crate::store::Packs;

pub(crate) struct Sink<'a> {
    packs: Arc<Packs>,
    writer: &'a PackWriter,
    has_failed: AtomicBool,
    failure: Mutex<Option<io::Error>>,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(context: &Context<'a>) -> Sink<'a> {
        Sink {
            packs: context.store.packs(),
            writer: context.writer,
            has_failed: AtomicBool::new(false),
            failure: Mutex::default(),
        }
    }

    /// Adds an object and returns its id.
    pub(crate) fn add(&self, kind: Kind, content: &[u8]) -> Oid {
        let oid = Oid::of(kind, content);
        self.add_as(oid, kind, content);
        oid
    }

    /// Adds an object whose id is known.
    pub(crate) fn add_as(&self, oid: Oid, kind: Kind, content: &[u8]) {
        if self.writer.contains(&oid) || self.packs.contains(&oid) {
            return;
        }
        if let Err(error) = self.writer.add(kind, oid, content) {
            self.has_failed.store(true, Ordering::Relaxed);
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error);
        }
    }

    /// Whether there is no point in going on: the store does not take what it is given.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Whether everything was taken.
    pub(crate) fn check(&self, context: &Context<'_>) -> Result<(), CaptureError> {
        match self.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(source) => {
                Err(CaptureError::Write { path: context.store.directory().to_owned(), source })
            }
            None => Ok(()),
        }
    }
}
