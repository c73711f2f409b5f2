//! Hand-crafted damage to individual cells and links.

use super::*;

fn read_be(bytes: &[u8], at: usize, width: usize) -> usize {
    bytes[at..at + width].iter().fold(0, |number, &byte| number << 8 | usize::from(byte))
}

fn write_be(bytes: &mut [u8], at: usize, width: usize, number: usize) {
    bytes[at..at + width].copy_from_slice(&number.to_be_bytes()[8 - width..]);
}

/// Creates a table whose only leaf is page 2 and whose only column has these values.
fn leaf_with(values: &[&str]) -> Sample {
    let sample = Sample::new("PRAGMA page_size = 1024");
    sample.run_sql("CREATE TABLE a (b)");
    for value in values {
        sample.run_sql(&format!("INSERT INTO a VALUES ({value})"));
    }
    sample
}

/// Returns the offset of the pointer to a cell on page 2.
fn pointer_offset(cell: usize) -> usize {
    1024 + 8 + 2 * cell
}

/// Returns the offset of a cell on page 2.
fn cell_offset(bytes: &[u8], cell: usize) -> usize {
    1024 + read_be(bytes, pointer_offset(cell), 2)
}

fn salvage_rowids(bytes: &[u8]) -> Vec<i64> {
    Salvaged::from_bytes(bytes).rows.iter().map(|row| row.rowid).collect()
}

#[test]
fn an_invalid_cell_pointer_costs_only_one_row() {
    let sample = leaf_with(&["'one'", "'two'", "'three'"]);
    for wrong in [0, 7, 1023, 1024, 65_535] {
        let mut bytes = sample.bytes();
        write_be(&mut bytes, pointer_offset(1), 2, wrong);
        let salvaged = Salvaged::from_bytes(&bytes);
        assert_eq!(salvaged.rows.iter().map(|row| row.rowid).collect::<Vec<_>>(), [1, 3]);
        let report = salvaged.report;
        assert_eq!((report.skipped_cells, report.inconsistent_pages), (1, 1), "{wrong}");
    }
}

#[test]
fn a_record_must_fill_its_payload() {
    let mut bytes = leaf_with(&["'one'", "'two'", "'three'"]).bytes();
    // The cell begins with the payload length, the rowid and the header length. The type of the
    // text comes next.
    let kind = cell_offset(&bytes, 1) + 3;
    assert_eq!(bytes[kind], 13 + 2 * 3);
    bytes[kind] -= 2;
    assert_eq!(salvage_rowids(&bytes), [1, 3]);
}

#[test]
fn a_repeated_pointer_yields_one_row() {
    let mut bytes = leaf_with(&["'one'", "'two'", "'three'"]).bytes();
    bytes.copy_within(pointer_offset(1)..pointer_offset(2), pointer_offset(2));
    assert_eq!(salvage_rowids(&bytes), [1, 2]);
}

#[test]
fn overlapping_cells_are_all_dropped() {
    // The second value contains a cell with rowid 3: five bytes that form a record with the value
    // 42.
    let sample = leaf_with(&["'one'", "x'00000503030201002a0000'", "'three'", "'four'"]);
    let mut bytes = sample.bytes();
    let inner = [3, 3, 2, 1, 42];
    let container = cell_offset(&bytes, 1);
    bytes[container + 10..container + 15].copy_from_slice(&inner);
    write_be(&mut bytes, pointer_offset(2), 2, container + 10 - 1024);
    assert_eq!(salvage_rowids(&bytes), [1, 4]);
}

#[test]
fn a_deleted_cell_stays_deleted() {
    let sample = leaf_with(&["'one'", "'two'", "'three'", "'four'"]);
    let before = sample.bytes();
    sample.run_sql("DELETE FROM a WHERE rowid = 4");
    let mut bytes = sample.bytes();
    let deleted = cell_offset(&before, 3);
    assert_eq!(
        before[deleted..deleted + 8],
        bytes[deleted..deleted + 8],
        "the deleted cell is still in the page"
    );
    write_be(&mut bytes, pointer_offset(2), 2, deleted - 1024);
    assert_eq!(salvage_rowids(&bytes), [1, 2]);
}

#[test]
fn a_wrong_rowid_costs_only_one_row() {
    let mut bytes = leaf_with(&["'one'", "'two'", "'three'", "'four'"]).bytes();
    let rowid = cell_offset(&bytes, 1) + 1;
    bytes[rowid] = 100;
    assert_eq!(salvage_rowids(&bytes), [1, 3, 4]);
}

/// Creates rows whose overflow chains have several pages. Returns the offset of each row's link to
/// its chain.
fn with_chains() -> (Sample, Vec<usize>) {
    // Only a small part of the payload stays in the leaf.
    let long = "replace(hex(zeroblob(1607)), '00', 'xy')";
    let sample = leaf_with(&[long, long, "'short'", long]);
    let bytes = sample.bytes();
    let dbstat = "SELECT pageno FROM dbstat WHERE pagetype = 'overflow' AND path LIKE '%+000000'";
    let first: Vec<Vec<u8>> = sample
        .query_numbers(dbstat)
        .iter()
        .map(|page| (*page as u32).to_be_bytes().to_vec())
        .collect();
    let links = (1024..=2048 - 4).filter(|&at| first.contains(&bytes[at..at + 4].to_vec()));
    let mut links: Vec<usize> = links.collect();
    // Cells are stored from the end of the page backwards.
    links.reverse();
    assert_eq!(links.len(), 3);
    (sample, links)
}

#[test]
fn a_chain_must_be_as_long_as_its_payload() {
    let (sample, links) = with_chains();
    let whole = sample.bytes();
    let first = read_be(&whole, links[0], 4);
    let second = read_be(&whole, (first - 1) * 1024, 4);
    let count = whole.len() / 1024;
    for wrong in [0, 1, first, second, count + 1, 0xffff_ffff] {
        let mut bytes = whole.clone();
        write_be(&mut bytes, (second - 1) * 1024, 4, wrong);
        assert_eq!(salvage_rowids(&bytes), [2, 3, 4], "to {wrong}");
        let mut bytes = whole.clone();
        write_be(&mut bytes, links[0], 4, if wrong == first { second } else { wrong });
        assert_eq!(salvage_rowids(&bytes), [2, 3, 4], "first link to {wrong}");
    }
}

#[test]
fn two_rows_that_share_a_chain_are_both_dropped() {
    let (sample, links) = with_chains();
    let mut bytes = sample.bytes();
    bytes.copy_within(links[0]..links[0] + 4, links[1]);
    assert_eq!(salvage_rowids(&bytes), [3, 4]);
}

#[test]
fn a_child_page_whose_keys_contradict_its_parent_is_not_read() {
    let sample = leaf_with(&[]);
    sample.insert_rows("a", 500, "'row ' || i");
    let mut bytes = sample.bytes();
    let count = read_be(&bytes, 1024 + 3, 2);
    let child = |bytes: &[u8], index: usize| 1024 + read_be(bytes, 1024 + 12 + 2 * index, 2);
    assert!(bytes[1024] == 0x05 && count > 3);
    // The first link now points to the third child, so two links lead there, and the first child is
    // orphaned.
    let (first, third) = (child(&bytes, 0), child(&bytes, 2));
    let orphan = read_be(&bytes, first, 4);
    bytes.copy_within(third..third + 4, first);
    let salvaged = Salvaged::from_bytes(&bytes);
    assert_same_rows(
        &salvaged.sorted_contents(),
        &all_but(&sample.rows(), &BTreeSet::new()),
        "all",
    );
    let orphaned: BTreeSet<Content> =
        salvaged.orphans().iter().map(|row| row_content(row.rowid, &row.values)).collect();
    assert_eq!(orphaned, Residence::of_rows(&sample).rows_on(orphan));
}

#[test]
fn a_tree_claimed_by_two_tables_is_assigned_to_neither_of_them() {
    let sample = leaf_with(&[]);
    sample.run_sql("CREATE TABLE c (d); CREATE TABLE e (f)");
    for table in ["a", "c", "e"] {
        sample.insert_rows(table, 300, &format!("'{table} ' || i"));
    }
    let rows = sample.rows();
    sample.run_sql(
        "PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET rootpage =
             (SELECT rootpage FROM sqlite_schema WHERE name = 'a') WHERE name = 'c'",
    );
    let salvaged = Salvaged::from_bytes(&sample.bytes());
    assert_same_rows(&salvaged.sorted_contents(), &all_but(&rows, &BTreeSet::new()), "all");
    assert!(salvaged.by_table().keys().eq(["e"]));
}
