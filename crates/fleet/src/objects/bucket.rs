//! Buckets: places for immutable objects, each with a key.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use takeback_base::hex;

use super::error::ObjectsError;

/// A place for objects. Objects are created once, and never replaced.
pub(crate) trait Bucket: Send + Sync {
    /// Returns the name of the bucket for messages to the user.
    fn target(&self) -> &str;

    /// Writes the content of an object to `out`. Returns false if there is no such object.
    fn download(&self, key: &str, out: &mut dyn Write) -> Result<bool, ObjectsError>;

    /// Creates an object. Returns false and changes nothing if the key exists.
    fn create(&self, key: &str, content: &Content<'_>) -> Result<bool, ObjectsError>;

    /// Removes an object, if it exists.
    fn remove(&self, key: &str) -> Result<(), ObjectsError>;

    /// Lists the objects whose keys begin with `prefix`, sorted by key.
    fn list(&self, prefix: &str) -> Result<Listing, ObjectsError>;

    /// Reads a small object. Returns `None` if there is no such object.
    fn read(&self, key: &str) -> Result<Option<Vec<u8>>, ObjectsError> {
        let mut content = Vec::new();
        Ok(self.download(key, &mut content)?.then_some(content))
    }
}

/// The content of a new object.
pub(crate) enum Content<'a> {
    Bytes(&'a [u8]),
    File {
        path: &'a Path,
        length: u64,
        /// The SHA-256 of the file, in hexadecimal digits.
        digest: &'a str,
    },
}

impl Content<'_> {
    pub(crate) fn length(&self) -> u64 {
        match self {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::File { length, .. } => *length,
        }
    }

    /// Returns the SHA-256, in hexadecimal digits.
    pub(crate) fn digest(&self) -> Cow<'_, str> {
        match self {
            Content::Bytes(bytes) => Cow::Owned(hex::encode(&Sha256::digest(bytes))),
            Content::File { digest, .. } => Cow::Borrowed(digest),
        }
    }

    /// Opens the content for reading.
    pub(crate) fn open(&self) -> Result<Box<dyn Read + Send + Sync>, ObjectsError> {
        match self {
            Content::Bytes(bytes) => Ok(Box::new(io::Cursor::new(bytes.to_vec()))),
            Content::File { path, .. } => {
                Ok(Box::new(File::open(path).map_err(ObjectsError::file(path))?))
            }
        }
    }
}

/// The objects whose keys begin with a prefix, as they were at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listing {
    pub(crate) objects: Vec<ListedObject>,
    /// The time on the storage's clock, in milliseconds since 1970.
    pub(crate) now: i64,
}

/// An object in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedObject {
    pub(crate) key: String,
    pub(crate) size: u64,
    /// The time at which the object was created, by the storage's clock, in milliseconds.
    pub(crate) created: i64,
}

/// A reader that limits the number of bytes per second.
pub(crate) struct LimitedReader<R> {
    inner: R,
    bytes_per_second: Option<u64>,
    started: Instant,
    done: u64,
}

impl<R: Read> LimitedReader<R> {
    pub(crate) fn new(inner: R, bytes_per_second: Option<u64>) -> LimitedReader<R> {
        LimitedReader { inner, bytes_per_second, started: Instant::now(), done: 0 }
    }
}

impl<R: Read> Read for LimitedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(limit) = self.bytes_per_second else { return self.inner.read(buffer) };
        let due = Duration::from_secs_f64(self.done as f64 / limit as f64);
        if let Some(early) = due.checked_sub(self.started.elapsed()) {
            std::thread::sleep(early);
        }
        // Reading at most a tenth of a second's worth at a time keeps the rate even.
        let piece = (limit / 10).clamp(1, buffer.len().max(1) as u64) as usize;
        let length = buffer.len().min(piece);
        let count = self.inner.read(&mut buffer[..length])?;
        self.done += count as u64;
        Ok(count)
    }
}
