//! Random damage: salvage never panics, never hangs, and loses little if the damage is small.

use std::sync::OnceLock;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// A database whose content is known.
struct KnownDatabase {
    bytes: Vec<u8>,
    rows: BTreeMap<String, Vec<Content>>,
    residence: Residence,
    trunks: BTreeSet<usize>,
}

const PAGE: usize = 512;

fn known_database() -> &'static KnownDatabase {
    static KNOWN: OnceLock<KnownDatabase> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let sample = Sample::with_usual_tables("PRAGMA page_size = 512", 800);
        let bytes = sample.bytes();
        let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        let mut trunks = BTreeSet::new();
        let mut next = number(32);
        while next != 0 {
            trunks.insert(next);
            next = number((next - 1) * PAGE);
        }
        KnownDatabase { rows: sample.rows(), residence: Residence::of_rows(&sample), trunks, bytes }
    })
}

/// Asserts everything that must hold no matter what bytes the file contains.
fn assert_sane(bytes: &[u8]) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("damaged.db");
    fs::write(&path, bytes).unwrap();
    let Ok(salvage) = DamagedDatabase::open(&path) else { return };
    let mut seen = BTreeSet::new();
    let mut size = 0;
    for row in salvage.rows() {
        if let Some(table) = row.table {
            assert!(seen.insert((table.clone(), row.rowid)), "{table} {} twice", row.rowid);
        }
        size += row.values.iter().map(value_size).sum::<usize>();
    }
    // Replacement characters can make invalid UTF-8 three times as long.
    assert!(size <= 3 * bytes.len(), "{size} bytes out of {}", bytes.len());
}

fn value_size(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Blob(blob) => blob.len(),
        _ => 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn one_wrong_byte_costs_only_rows_of_its_page(at in any::<prop::sample::Index>(), flip in 1..=255u8) {
        let known = known_database();
        let mut bytes = known.bytes.clone();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let page = at / PAGE + 1;
        let salvaged = Salvaged::from_bytes(&bytes);
        let found = salvaged.sorted_contents();
        let on_page = known.residence.rows_on(page);
        // An overflow chain may now run into another one, in which case neither can be trusted.
        let elsewhere = all_but(&known.rows, &on_page);
        let missing = elsewhere.iter().filter(|row| found.binary_search(row).is_err()).count();
        prop_assert!(missing <= 1, "{missing} rows of other pages are missing, page {page}");
        let all: BTreeSet<Content> = known.rows.values().flatten().cloned().collect();
        let new = found.iter().filter(|row| !all.contains(*row)).count();
        if !known.trunks.contains(&page) {
            prop_assert!(new <= on_page.len(), "{new} rows that never existed, page {page}");
        }
        let different: BTreeSet<_> = found.iter().collect();
        prop_assert!(different.len() == found.len() || !on_page.is_empty(), "a row appears twice");
    }

    #[test]
    fn many_wrong_bytes_cause_no_panic_and_no_repeated_rows(flips in vec((any::<prop::sample::Index>(), any::<u8>()), 1..400)) {
        let mut bytes = known_database().bytes.clone();
        let length = bytes.len();
        for (at, byte) in flips {
            bytes[at.index(length)] = byte;
        }
        assert_sane(&bytes);
    }

    #[test]
    fn page_headers_of_any_kind_do_no_harm(
        headers in vec((any::<prop::sample::Index>(), prop::sample::select(vec![2u8, 5, 10, 13]), vec(any::<u8>(), 0..40)), 1..60),
    ) {
        let mut bytes = known_database().bytes.clone();
        let pages = bytes.len() / PAGE;
        for (page, kind, more) in headers {
            let at = page.index(pages) * PAGE;
            bytes[at] = kind;
            bytes[at + 1..at + 1 + more.len()].copy_from_slice(&more);
        }
        assert_sane(&bytes);
    }

    #[test]
    fn pages_in_any_order_do_no_harm(swaps in vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..40)) {
        let mut bytes = known_database().bytes.clone();
        let pages = bytes.len() / PAGE;
        for (from, to) in swaps {
            let from = from.index(pages) * PAGE;
            bytes.copy_within(from..from + PAGE, to.index(pages) * PAGE);
        }
        assert_sane(&bytes);
    }

    #[test]
    fn any_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..20_000), header in any::<bool>()) {
        let mut bytes = bytes;
        if header && bytes.len() >= 100 {
            bytes[..100].copy_from_slice(&known_database().bytes[..100]);
        }
        assert_sane(&bytes);
    }
}
