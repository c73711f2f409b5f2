//! The spool: files with events that could not be written to the ledger in time. The files are
//! numbered in the order in which they were written.
//!
//! A file is never incomplete: it is linked into place only after its content is durable. It is
//! deleted after its events are in the ledger. The ledger records the file's id in the same
//! transaction as the events, so the events are not applied twice if the process dies before it
//! deletes the file.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use takeback_base::durable::{self, FileLock, Temporary};
use takeback_base::hex;

use crate::event::{Event, apply_events};
use crate::{Ledger, LedgerError, Time};

/// The directory of spooled events, beside the database.
pub(crate) struct Spool {
    directory: PathBuf,
}

/// The content of one file in the spool.
#[derive(Serialize, Deserialize)]
struct SpooledEvents {
    version: u32,
    id: String,
    time: Time,
    events: Vec<Event>,
}

const VERSION: u32 = 1;

impl Spool {
    pub(crate) fn beside(database: &Path) -> Spool {
        Spool { directory: database.with_file_name("spool") }
    }

    /// Adds events, and returns once they are durable.
    pub(crate) fn add_events(&self, events: &[Event], now: Time) -> Result<(), LedgerError> {
        self.write_file(events, now)
            .map_err(|source| LedgerError::Spool { path: self.directory.clone(), source })
    }

    fn write_file(&self, events: &[Event], now: Time) -> io::Result<()> {
        durable::create_directory(&self.directory)?;
        let id = hex::random_digits(32);
        let entry = SpooledEvents { version: VERSION, id, time: now, events: events.to_vec() };
        let bytes = serde_json::to_vec(&entry)?;
        let mut number = self.list_files()?.last().map_or(1, |(number, _)| number + 1);
        loop {
            let mut temporary = Temporary::create_in(&self.directory)?;
            temporary.write_all(&bytes)?;
            temporary.sync_all()?;
            match temporary.persist_new(&self.directory.join(format!("{number:020}.json"))) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                persisted => break persisted?,
            }
        }
        durable::sync_directory(&self.directory)
    }

    /// Lists the files in order. The list is empty if the directory is missing.
    fn list_files(&self) -> io::Result<Vec<(u64, PathBuf)>> {
        let Some(listing) = durable::if_exists(fs::read_dir(&self.directory))? else {
            return Ok(Vec::new());
        };
        let mut files = Vec::new();
        for entry in listing {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let number = name.and_then(|name| name.strip_suffix(".json")?.parse().ok());
            files.extend(number.map(|number| (number, path)));
        }
        files.sort();
        Ok(files)
    }

    /// Lists the files that could not be added to the ledger and were set aside.
    pub(crate) fn list_set_aside(&self) -> Vec<PathBuf> {
        let Ok(listing) = fs::read_dir(&self.directory) else { return Vec::new() };
        let paths = listing.flatten().map(|entry| entry.path());
        paths.filter(|path| path.extension().is_some_and(|ending| ending == "bad")).collect()
    }

    /// Takes the lock that a process must hold to add files to the ledger. Returns `None` if
    /// another process has it.
    fn try_lock(&self) -> io::Result<Option<FileLock>> {
        FileLock::try_exclusive(&self.directory.join("lock"))
    }
}

impl Ledger {
    /// Adds the events that are waiting in the spool to the ledger. Returns false if some events
    /// are still waiting, because other processes keep the ledger locked or because another process
    /// is adding them.
    pub(crate) fn take_in_spool(&mut self) -> Result<bool, LedgerError> {
        let path = self.spool.directory.clone();
        let failed = |source| LedgerError::Spool { path: path.clone(), source };
        if self.spool.list_files().map_err(failed)?.is_empty() {
            return Ok(true);
        }
        let Some(_lock) = self.spool.try_lock().map_err(failed)? else { return Ok(false) };
        // The files are durable, so the commits that replace them must also be durable.
        self.database.sync_commits(true);
        let taken = self.take_in_files();
        self.database.sync_commits(self.durable);
        taken
    }

    fn take_in_files(&mut self) -> Result<bool, LedgerError> {
        let path = self.spool.directory.clone();
        let failed = |source| LedgerError::Spool { path: path.clone(), source };
        let mut taken = Vec::new();
        let mut is_done = true;
        for (_, file) in self.spool.list_files().map_err(failed)? {
            if self.database.is_out_of_time() {
                is_done = false;
                break;
            }
            match self.take_in_file(&file) {
                Ok(id) => taken.extend(id),
                Err(LedgerError::Busy { .. }) => {
                    is_done = false;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        self.forget_files(&taken).map_err(failed)?;
        Ok(is_done)
    }

    /// Adds the events in one file to the ledger. Returns the id by which the ledger remembers the
    /// file.
    fn take_in_file(&mut self, file: &Path) -> Result<Option<String>, LedgerError> {
        let failed = |source| LedgerError::Spool { path: file.to_owned(), source };
        let bytes = fs::read(file).map_err(failed)?;
        let entry = match serde_json::from_slice::<SpooledEvents>(&bytes) {
            Ok(entry) if entry.version == VERSION => entry,
            // Another program or a later version wrote the file. It is kept, but set aside so that
            // it does not block the other files.
            _ => return set_aside(file).map(|()| None).map_err(failed),
        };
        let written = self.database.write(|transaction| {
            let is_new = transaction
                .execute("INSERT OR IGNORE INTO spooled (id) VALUES (?1)", [&entry.id])?;
            if is_new == 1 {
                apply_events(transaction, &entry.events, entry.time)?;
            }
            Ok(())
        });
        match written {
            Ok(()) => fs::remove_file(file).map(|()| Some(entry.id)).map_err(failed),
            Err(LedgerError::NoSuchSession(_)) => set_aside(file).map(|()| None).map_err(failed),
            Err(error) => Err(error),
        }
    }

    /// Forgets the ids of files once their deletion is durable.
    fn forget_files(&mut self, ids: &[String]) -> io::Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        durable::sync_directory(&self.spool.directory)?;
        // If this fails, the ids merely take up a few bytes.
        let _ = self.database.try_write(Duration::ZERO, |transaction| {
            for id in ids {
                transaction.execute("DELETE FROM spooled WHERE id = ?1", [id])?;
            }
            Ok(())
        });
        self.shorten_tail();
        Ok(())
    }
}

/// Sets a file aside. Its new name is random, so that it does not replace another file that was set
/// aside: the numbers in the original names are reused.
fn set_aside(file: &Path) -> io::Result<()> {
    fs::rename(file, file.with_extension(format!("{}.bad", hex::random_digits(32))))
}
