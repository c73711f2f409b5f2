//! Databases whose newest pages are in the write-ahead log.

use super::*;

const FRAME: usize = 24 + 1024;

/// A database that is still open, and its rows as of each commit in the log.
struct Logged {
    sample: Sample,
    /// The length of the log after each commit, and the rows that SELECT returned.
    commits: Vec<(usize, BTreeMap<String, Vec<Content>>)>,
}

impl Logged {
    fn new() -> Logged {
        let sample = Sample::new(
            "PRAGMA page_size = 1024; PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0",
        );
        sample.run_sql("CREATE TABLE a (name, body)");
        sample.insert_rows("a", 200, "'first ' || i, hex(zeroblob(i * 5))");
        sample.run_sql("PRAGMA wal_checkpoint(TRUNCATE)");
        let mut logged = Logged { sample, commits: Vec::new() };
        logged.note_commit();
        logged.sample.run_sql("DELETE FROM a WHERE rowid % 3 = 0");
        logged.note_commit();
        logged.sample.run_sql("UPDATE a SET name = 'second ' || rowid WHERE rowid % 2 = 0");
        logged.note_commit();
        logged.sample.run_sql("BEGIN; CREATE TABLE b (name)");
        logged.sample.insert_rows("b", 500, "'third ' || i");
        logged.sample.run_sql("COMMIT");
        logged.note_commit();
        logged
    }

    fn note_commit(&mut self) {
        self.commits.push((self.log_bytes().len(), self.sample.rows()));
    }

    fn log_bytes(&self) -> Vec<u8> {
        fs::read(self.sample.dir.path().join("sample.db-wal")).unwrap()
    }

    fn salvage_with(&self, file: &[u8], log: &[u8]) -> Salvaged {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("damaged.db");
        fs::write(&path, file).unwrap();
        fs::write(dir.path().join("damaged.db-wal"), log).unwrap();
        Salvaged::from_file(&path)
    }

    /// Asserts that the file and the log together yield the state after the given commit.
    #[track_caller]
    fn assert_state(&self, log: &[u8], commit: usize, what: &str) {
        let salvaged = self.salvage_with(&self.sample.bytes(), log);
        let expected = not_empty(self.commits[commit].1.clone());
        assert_eq!(salvaged.by_table(), expected, "{what}");
        assert!(salvaged.orphans().is_empty(), "{what}");
        let frames = self.commits[commit].0.saturating_sub(32) / FRAME;
        assert_eq!(salvaged.report.wal_frames, frames as u64, "{what}");
    }
}

#[test]
fn committed_frames_are_read() {
    let logged = Logged::new();
    let log = logged.log_bytes();
    assert_eq!(logged.commits[0].0, 0);
    for (commit, (length, _)) in logged.commits.iter().enumerate() {
        logged.assert_state(&log[..*length], commit, "log cut after the commit");
    }
}

#[test]
fn after_a_torn_frame_only_the_commits_before_it_are_read() {
    let logged = Logged::new();
    let log = logged.log_bytes();
    for commit in 1..logged.commits.len() {
        let (start, end) = (logged.commits[commit - 1].0.max(32), logged.commits[commit].0);
        logged.assert_state(&log[..end - 1], commit - 1, "cut");
        for at in [start, start + 4, start + 9, start + 17, start + 24, end - 1] {
            let mut torn = log.clone();
            torn[at] ^= 0x10;
            logged.assert_state(&torn, commit - 1, &format!("commit {commit}, byte {at}"));
        }
    }
}

#[test]
fn a_log_with_a_damaged_header_is_ignored() {
    let logged = Logged::new();
    for at in 0..32 {
        let mut log = logged.log_bytes();
        log[at] ^= 0x40;
        logged.assert_state(&log, 0, &format!("byte {at}"));
    }
}

#[test]
fn uncommitted_frames_are_ignored() {
    let logged = Logged::new();
    let before = logged.log_bytes().len();
    logged.sample.run_sql("PRAGMA cache_size = 5; BEGIN; DELETE FROM a WHERE rowid < 100");
    logged.sample.insert_rows("b", 3000, "'never ' || i");
    let log = logged.log_bytes();
    assert!(log.len() > before + 20 * FRAME, "the cache is too small for the transaction");
    logged.assert_state(&log, 3, "uncommitted");
}

#[test]
fn frames_of_an_older_log_are_ignored() {
    let mut logged = Logged::new();
    let old = logged.log_bytes();
    logged.sample.run_sql("PRAGMA wal_checkpoint(RESTART); DELETE FROM a WHERE rowid = 1");
    let log = logged.log_bytes();
    assert_eq!(log.len(), old.len(), "the log is overwritten from its beginning");
    let frames = (0..).take_while(|i| log[32 + i * FRAME + 8..][..8] == log[16..24]).count();
    assert!(frames > 0 && 32 + frames * FRAME < log.len());
    logged.commits = vec![(32 + frames * FRAME, logged.sample.rows())];
    logged.assert_state(&log, 0, "reset");
}

#[test]
fn pages_in_the_log_replace_damaged_pages_in_the_file() {
    let logged = Logged::new();
    let log = logged.log_bytes();
    let pages: BTreeSet<usize> = log[32..]
        .chunks(FRAME)
        .map(|frame| u32::from_be_bytes(frame[..4].try_into().unwrap()) as usize)
        .collect();
    assert!(pages.contains(&1));
    let mut file = logged.sample.bytes();
    let count = file.len() / 1024;
    for &page in pages.iter().filter(|&&page| page <= count) {
        page_mut(&mut file, 1024, page).fill(0xa5);
    }
    let salvaged = logged.salvage_with(&file, &log);
    assert_eq!(salvaged.by_table(), logged.commits[3].1);
}

#[test]
fn a_database_can_be_read_from_its_log_alone() {
    let sample = Sample::new("PRAGMA page_size = 2048; PRAGMA journal_mode = WAL");
    sample.run_sql("PRAGMA wal_autocheckpoint = 0; CREATE TABLE a (name)");
    sample.insert_rows("a", 500, "'row ' || i");
    sample.run_sql("VACUUM");
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("damaged.db");
    fs::write(&path, b"").unwrap();
    fs::copy(sample.dir.path().join("sample.db-wal"), dir.path().join("damaged.db-wal")).unwrap();
    assert_same_tables(&Salvaged::from_file(&path), &sample, "no file");
}
