//! Damage with known losses.

use super::*;

#[test]
fn a_wiped_page_costs_its_own_rows_and_no_others() {
    for pragmas in ["PRAGMA page_size = 512", "PRAGMA page_size = 512; PRAGMA auto_vacuum = 1"] {
        let sample = Sample::with_usual_tables(pragmas, 2000);
        let (rows, residence) = (sample.rows(), Residence::of_rows(&sample));
        let bytes = sample.bytes();
        assert!(residence.interiors.len() > 3, "not only roots");
        for number in 1..=bytes.len() / 512 {
            let mut damaged = bytes.clone();
            page_mut(&mut damaged, 512, number).fill(0);
            let salvaged = Salvaged::from_bytes(&damaged);
            let what = format!("{pragmas}, page {number}");
            let expected = all_but(&rows, &residence.rows_on(number));
            assert_same_rows(&salvaged.sorted_contents(), &expected, &what);
            salvaged.assert_tables_are_right(&rows, &what);
            if !residence.leads_to_others(number) {
                assert!(salvaged.orphans().is_empty(), "{what}");
            }
        }
    }
}

/// Asserts that all rows except the lost ones were salvaged. Their table need not be known.
#[track_caller]
fn assert_all_but(salvaged: &Salvaged, sample: &Sample, lost: &BTreeSet<Content>, what: &str) {
    let rows = sample.rows();
    assert_same_rows(&salvaged.sorted_contents(), &all_but(&rows, lost), what);
    salvaged.assert_tables_are_right(&rows, what);
}

#[test]
fn no_rows_are_lost_if_the_header_is_wiped() {
    for page_size in [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536] {
        let sample = Sample::with_usual_tables(&format!("PRAGMA page_size = {page_size}"), 3000);
        let mut bytes = sample.bytes();
        bytes[..100].fill(0);
        let salvaged = Salvaged::from_bytes(&bytes);
        assert!(!salvaged.report.header_readable);
        assert_same_tables(&salvaged, &sample, &page_size.to_string());
    }
}

#[test]
fn a_header_that_contradicts_the_pages_is_not_trusted() {
    let sample = Sample::with_usual_tables("PRAGMA page_size = 1024", 2000);
    let wrong: [(usize, &[u8]); 5] = [
        (16, &[0x20, 0]),
        (20, &[9]),
        (28, &[0, 0, 0, 7]),
        (32, &[0, 0, 0, 3]),
        (52, &[0, 0, 0, 4]),
    ];
    for (at, wrong) in wrong {
        let mut bytes = sample.bytes();
        bytes[at..at + wrong.len()].copy_from_slice(wrong);
        assert_same_tables(&Salvaged::from_bytes(&bytes), &sample, &format!("at {at}"));
    }
}

#[test]
fn pages_beyond_the_end_are_not_read() {
    let sample = Sample::with_usual_tables("PRAGMA page_size = 1024", 2000);
    let mut bytes = sample.bytes();
    let leaf = bytes.chunks(1024).skip(1).find(|page| page[0] == 0x0d).unwrap().to_vec();
    bytes.extend(leaf);
    assert_same_tables(&Salvaged::from_bytes(&bytes), &sample, "one page more");
}

#[test]
fn if_the_first_page_is_lost_rows_lose_their_table_and_deleted_rows_stay_deleted() {
    // Here the whole schema is on the first page.
    let sample = Sample::with_usual_tables("PRAGMA page_size = 4096", 9000);
    assert!(sample.query_number("PRAGMA freelist_count") > 3);
    let mut bytes = sample.bytes();
    bytes[..4096].fill(0);
    let salvaged = Salvaged::from_bytes(&bytes);
    assert!(salvaged.by_table().is_empty());
    assert_all_but(&salvaged, &sample, &BTreeSet::new(), "no first page");
    let report = salvaged.report;
    assert!(!report.header_readable && !report.schema_whole && !report.freelist_whole);
    // The rows of each tree still form one group.
    let groups: BTreeSet<u32> = salvaged.rows.iter().map(|row| row.group).collect();
    let roots = ["small", "large", "mixed"].map(|table| sample.root_page(table) as u32);
    assert_eq!(groups, BTreeSet::from(roots));
}

#[test]
fn a_schema_is_found_without_its_root() {
    let sample = Sample::with_usual_tables("PRAGMA page_size = 512", 3000);
    let mut bytes = sample.bytes();
    assert_eq!(bytes[100], 0x05);
    bytes[..512].fill(0);
    let salvaged = Salvaged::from_bytes(&bytes);
    assert_same_tables(&salvaged, &sample, "no first page");
    assert!(!salvaged.report.schema_whole);
}

#[test]
fn a_lost_root_orphans_its_own_rows() {
    let sample = Sample::with_usual_tables("PRAGMA page_size = 512", 9000);
    let mut bytes = sample.bytes();
    page_mut(&mut bytes, 512, sample.root_page("small")).fill(0);
    let salvaged = Salvaged::from_bytes(&bytes);
    assert_all_but(&salvaged, &sample, &BTreeSet::new(), "no root");
    let tables = salvaged.by_table();
    assert!(tables.keys().eq(["large", "mixed"]));
    assert_eq!(salvaged.orphans().len(), sample.rows()["small"].len());
    // The children of the root are interior pages. The leaves below each of them still form one
    // group.
    let groups: BTreeSet<u32> = salvaged.orphans().iter().map(|row| row.group).collect();
    assert!(groups.len() > 1 && groups.len() < 20, "{groups:?}");
    assert_eq!(salvaged.report.unreadable_pages, 1);
}

#[test]
fn a_truncated_file_loses_only_the_rows_that_were_cut_off() {
    let sample = Sample::with_usual_tables("PRAGMA page_size = 512", 5000);
    let (rows, residence) = (sample.rows(), Residence::of_rows(&sample));
    let bytes = sample.bytes();
    for kept in [bytes.len() / 2, bytes.len() / 3 + 77, bytes.len() - 1, 1024] {
        let lost = residence.rows.range(kept / 512 + 1..).flat_map(|(_, rows)| rows.clone());
        let lost: BTreeSet<Content> = lost.collect();
        let salvaged = Salvaged::from_bytes(&bytes[..kept]);
        let found: BTreeSet<_> = salvaged.sorted_contents().into_iter().collect();
        let expected = all_but(&rows, &lost);
        let missing = expected.iter().find(|row| !found.contains(*row));
        assert_eq!(missing, None, "{kept}");
        salvaged.assert_tables_are_right(&rows, &kept.to_string());
        // Without a freelist, old copies of pages cannot be distinguished from orphans.
        let once = |row: &&SalvagedRow| row.table.is_some() || salvaged.report.freelist_whole;
        let rows = salvaged.rows.iter().filter(once);
        let rows: Vec<Content> = rows.map(|row| row_content(row.rowid, &row.values)).collect();
        let different: BTreeSet<_> = rows.iter().collect();
        assert_eq!(different.len(), rows.len(), "{kept}: no row appears twice");
    }
}
