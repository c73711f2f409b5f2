//! Damaged SQLite files: a byte for the number of 512-byte blocks in the database, followed by the
//! database and its write-ahead log.

#![no_main]

mod support;

use libfuzzer_sys::fuzz_target;
use takeback_salvage::{DamagedDatabase, SalvagedRow, Value};

fuzz_target!(|bytes: &[u8]| {
    let Some((blocks, bytes)) = bytes.split_first() else { return };
    let (database, log) = bytes.split_at(bytes.len().min(usize::from(*blocks) * 512));
    let path = support::SCRATCH.join("a.db");
    std::fs::write(&path, database).expect("the scratch directory is writable");
    std::fs::write(support::SCRATCH.join("a.db-wal"), log).expect("it is writable");
    let Ok(damaged) = DamagedDatabase::open(&path) else { return };
    let mut rows = damaged.rows();
    let count = rows.by_ref().inspect(|row| check_sizes(row, bytes.len())).count();
    // Each row has its own cell, which takes at least four bytes.
    assert!(count <= bytes.len() / 4, "{count} rows: {:?}", rows.report());
});

fn check_sizes(row: &SalvagedRow, limit: usize) {
    for value in &row.values {
        let size = match value {
            Value::Text(text) => text.len() / 3,
            Value::Blob(bytes) => bytes.len(),
            _ => 0,
        };
        assert!(size <= limit);
    }
}
