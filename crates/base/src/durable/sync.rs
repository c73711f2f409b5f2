//! Syncing several files at the same time.

use std::fs::File;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

/// The maximum number of threads that sync files at the same time.
const THREADS: usize = 16;

/// The channels to the threads that are waiting for files to sync. The threads are kept, so a
/// process that takes many checkpoints starts them only once.
static IDLE: Mutex<Vec<Sender<Share>>> = Mutex::new(Vec::new());

/// The files that one thread syncs, and the channel for the result.
struct Share {
    files: Vec<File>,
    done: Sender<io::Result<()>>,
}

/// Syncs the contents of several files in parallel, because concurrent syncs share one commit of
/// the file system's journal.
pub fn sync_files(files: &[&File]) -> io::Result<()> {
    let share = files.len().div_ceil(THREADS).max(1);
    let (own, others) = files.split_at(share.min(files.len()));
    let (done, results) = channel();
    let mut outcome = Ok(());
    let mut expected = 0;
    for files in others.chunks(share) {
        // If no thread can sync these files, the current thread does.
        match hand_over(files, &done) {
            Ok(()) => expected += 1,
            Err(_) => outcome = outcome.and(sync_all(files.iter().copied())),
        }
    }
    outcome = outcome.and(sync_all(own.iter().copied()));
    drop(done);
    let ended = || Err(io::Error::other("a thread ended before its files were synced"));
    (0..expected).map(|_| results.recv().unwrap_or_else(|_| ended())).fold(outcome, Result::and)
}

fn sync_all<'f>(files: impl IntoIterator<Item = &'f File>) -> io::Result<()> {
    files.into_iter().try_for_each(File::sync_data)
}

/// Gives files to a waiting thread, or to a new one.
fn hand_over(files: &[&File], done: &Sender<io::Result<()>>) -> io::Result<()> {
    let files = files.iter().map(|file| file.try_clone()).collect::<io::Result<_>>()?;
    let share = Share { files, done: done.clone() };
    let waiting = lock_idle().pop();
    let share = match waiting {
        Some(thread) => match thread.send(share) {
            Ok(()) => return Ok(()),
            // The thread has ended.
            Err(unsent) => unsent.0,
        },
        None => share,
    };
    let (thread, shares) = channel();
    let own = thread.clone();
    Builder::new().name("sync".to_owned()).spawn(move || sync_shares(&shares, &own))?;
    thread.send(share).map_err(|_| io::ErrorKind::BrokenPipe.into())
}

/// Syncs one share after another.
fn sync_shares(shares: &Receiver<Share>, own: &Sender<Share>) {
    while let Ok(Share { files, done }) = shares.recv() {
        let result = sync_all(&files);
        drop(files);
        lock_idle().push(own.clone());
        // Sending cannot fail, because the receiver waits for all results.
        let _ = done.send(result);
    }
}

fn lock_idle() -> MutexGuard<'static, Vec<Sender<Share>>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn any_number_of_files_can_be_synced_again_and_again() {
        let directory = std::env::temp_dir().join(format!("sync-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let open = |number: usize| File::create(directory.join(number.to_string())).unwrap();
        for count in [0, 1, 3, 16, 40] {
            let files: Vec<File> = (0..count).map(open).collect();
            files.iter().for_each(|mut file| file.write_all(b"text").unwrap());
            sync_files(&files.iter().collect::<Vec<_>>()).unwrap();
        }
        assert!(lock_idle().len() < 40, "threads are used again");
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn the_failure_of_any_file_is_reported() {
        // A file in /proc cannot be synced.
        let file = File::open("/proc/self/status").unwrap();
        let good = File::open(std::env::current_exe().unwrap()).unwrap();
        sync_files(&[&good, &good, &good]).unwrap();
        sync_files(&[&good, &good, &file]).unwrap_err();
        sync_files(&[&file, &good, &good]).unwrap_err();
    }
}
