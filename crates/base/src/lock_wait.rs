//! Waiting for a lock that another process holds, with a time limit and a notification.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::durable::FileLock;

/// The time after which the user is told about the wait.
const NOTICE_AFTER: Duration = Duration::from_secs(1);

/// The time limit when waiting for a lock, and the callback for long waits.
#[derive(Clone, Copy, Debug)]
pub struct LockWait {
    /// The maximum time to wait.
    pub limit: Duration,
    /// The function that is called once, after a second of waiting. Its argument is the id of the
    /// process that holds the lock, or `None` if that is unknown.
    pub on_wait: fn(Option<u32>),
}

impl LockWait {
    /// Returns the settings for a silent wait of at most `limit`.
    pub const fn silent(limit: Duration) -> LockWait {
        LockWait { limit, on_wait: |_| {} }
    }
}

impl FileLock {
    /// Waits for an exclusive lock. Returns `None` if another process still holds a lock when the
    /// time is up. Creates the file if it is missing.
    pub fn exclusive_within(path: &Path, wait: &LockWait) -> io::Result<Option<FileLock>> {
        if let Some(lock) = FileLock::try_exclusive(path)? {
            return Ok(Some(lock));
        }
        // The kernel grants the lock in order of arrival, but cannot limit the wait, so a separate
        // thread waits for the lock. If that thread gets the lock too late, it finds no receiver
        // and drops the lock.
        let (sender, receiver) = mpsc::channel();
        let waiting = path.to_owned();
        thread::Builder::new().spawn(move || sender.send(FileLock::exclusive(&waiting)))?;
        let first = wait.limit.min(NOTICE_AFTER);
        let mut received = receiver.recv_timeout(first);
        if received.is_err() && wait.limit > first {
            (wait.on_wait)(find_holder(path));
            received = receiver.recv_timeout(wait.limit - first);
        }
        match received {
            Ok(lock) => lock.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                Err(io::Error::other("the waiting thread ended"))
            }
        }
    }
}

/// Finds the process that holds a lock on a file. Returns `None` if the system does not reveal the
/// process. Only Linux reveals it, and only for processes in the same container.
pub fn find_holder(path: &Path) -> Option<u32> {
    let file = fs::metadata(path).ok()?;
    let locks = fs::read_to_string("/proc/locks").ok()?;
    #[allow(clippy::unnecessary_cast, reason = "the constants have another type on macOS")]
    let device = file.dev() as rustix::fs::Dev;
    let device = format!("{:02x}:{:02x}", rustix::fs::major(device), rustix::fs::minor(device));
    holder_in(&locks, &device, file.ino())
}

/// Finds the holder in the text of `/proc/locks`, whose lines look like
/// `1: FLOCK  ADVISORY  WRITE 4711 fd:01:131079 0 EOF`.
fn holder_in(locks: &str, device: &str, inode: u64) -> Option<u32> {
    let mut others = None;
    for line in locks.lines() {
        // The lines for waiting processes have an arrow after the number, so they do not match.
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, pid, place, ..] = words[..] else { continue };
        let Some((its_device, its_inode)) = place.rsplit_once(':') else { continue };
        let pid = pid.parse().ok().filter(|pid| *pid > 0);
        if its_inode.parse() != Ok(inode) {
            continue;
        }
        if its_device == device {
            return pid;
        }
        // For some file systems, `/proc/locks` shows a different device number than `stat`.
        others = pid;
    }
    others
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_free_lock_is_taken_at_once() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("lock");
        let wait = LockWait::silent(Duration::ZERO);
        let lock = FileLock::exclusive_within(&path, &wait).unwrap();
        assert!(lock.is_some());
        assert!(FileLock::exclusive_within(&path, &wait).unwrap().is_none());
    }

    #[test]
    fn waiting_for_a_lock_ends_at_the_limit() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("lock");
        let held = FileLock::exclusive(&path).unwrap();
        let begin = Instant::now();
        let wait = LockWait::silent(Duration::from_millis(50));
        assert!(FileLock::exclusive_within(&path, &wait).unwrap().is_none());
        assert!(begin.elapsed() >= Duration::from_millis(50));
        let release = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            drop(held);
        });
        let wait = LockWait::silent(Duration::from_secs(60));
        assert!(FileLock::exclusive_within(&path, &wait).unwrap().is_some());
        release.join().unwrap();
    }

    /// If a process opens a file twice, locks on the two open files exclude each other. In this
    /// test, the same process can therefore hold the lock and wait for it.
    #[test]
    fn the_callback_is_told_the_holder_of_the_lock_after_a_second() {
        static TOLD: AtomicU32 = AtomicU32::new(0);
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("lock");
        let held = FileLock::exclusive(&path).unwrap();
        let release = thread::spawn(move || {
            thread::sleep(Duration::from_millis(1300));
            drop(held);
        });
        let on_wait = |holder: Option<u32>| TOLD.store(holder.unwrap_or(1), Ordering::Relaxed);
        let wait = LockWait { limit: Duration::from_secs(60), on_wait };
        assert!(FileLock::exclusive_within(&path, &wait).unwrap().is_some());
        release.join().unwrap();
        let told = TOLD.load(Ordering::Relaxed);
        let expected = if cfg!(target_os = "linux") { std::process::id() } else { 1 };
        assert_eq!(told, expected);
    }

    #[test]
    fn the_holder_is_found_among_other_locks() {
        let locks = "\
1: POSIX  ADVISORY  WRITE 11 fd:01:131079 0 EOF
2: FLOCK  ADVISORY  WRITE 12 fd:01:131078 0 EOF
3: FLOCK  ADVISORY  WRITE 13 fd:01:131079 0 EOF
3: -> FLOCK  ADVISORY  WRITE 14 fd:01:131079 0 EOF
4: FLOCK  ADVISORY  WRITE 15 00:2f:131079 0 EOF
";
        assert_eq!(holder_in(locks, "fd:01", 131_079), Some(13));
        assert_eq!(holder_in(locks, "00:2f", 131_079), Some(15));
        assert_eq!(holder_in(locks, "00:30", 131_078), Some(12));
        assert_eq!(holder_in(locks, "fd:01", 4), None);
        assert_eq!(holder_in("1: FLOCK ADVISORY WRITE 0 fd:01:4 0 EOF", "fd:01", 4), None);
    }
}
