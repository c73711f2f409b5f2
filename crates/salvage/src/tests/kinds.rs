//! Undamaged databases of every kind.

use super::*;

fn assert_same(sample: &Sample, what: &str) {
    let salvaged = Salvaged::from_file(&sample.path());
    assert_same_tables(&salvaged, sample, what);
    let report = salvaged.report;
    assert!(report.header_readable && report.schema_whole && report.freelist_whole, "{what}");
    assert_eq!(report.free_pages as usize, sample.query_number("PRAGMA freelist_count"), "{what}");
    let wrong = (report.unreadable_pages, report.inconsistent_pages, report.skipped_cells);
    assert_eq!(wrong, (0, 0, 0), "{what}");
}

#[test]
fn an_intact_database_yields_the_rows_that_select_returns() {
    for page_size in [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536] {
        let sample = Sample::with_usual_tables(&format!("PRAGMA page_size = {page_size}"), 3000);
        assert_eq!(sample.page_size(), page_size);
        assert!(sample.query_number("PRAGMA freelist_count") > 0);
        assert_same(&sample, &page_size.to_string());
    }
}

#[test]
fn an_empty_database_has_no_rows() {
    assert!(Salvaged::from_bytes(b"").rows.is_empty());
    assert_same(&Sample::new("PRAGMA page_size = 1024; VACUUM"), "no tables");
}

#[test]
fn the_schema_names_the_tables() {
    let sample = Sample::with_usual_tables("PRAGMA page_size = 512", 500);
    let salvage = DamagedDatabase::open(&sample.path()).unwrap();
    let tables: Vec<_> = salvage.tables().iter().map(|table| table.name.as_str()).collect();
    assert_eq!(tables, ["small", "large", "mixed", "empty", "keyed"]);
    for table in salvage.tables() {
        assert_eq!(table.root as usize, sample.root_page(&table.name));
    }
}

#[test]
fn pointer_maps_are_not_mistaken_for_tree_pages() {
    for mode in ["FULL", "INCREMENTAL"] {
        let pragmas = format!("PRAGMA page_size = 512; PRAGMA auto_vacuum = {mode}");
        let sample = Sample::with_usual_tables(&pragmas, 3000);
        assert_same(&sample, mode);
        // Only the pointer maps are special, not the pages after them.
        let salvage = DamagedDatabase::open(&sample.path()).unwrap();
        let second = 2 + 512 / 5 + 1;
        assert!(salvage.pages.is_special(2) && salvage.pages.is_special(second));
        assert!(!salvage.pages.is_special(3) && !salvage.pages.is_special(second + 1));
    }
}

#[test]
fn databases_with_reserved_bytes_are_read() {
    for reserved in [1, 8, 32] {
        let sample = with_reserved_bytes(reserved);
        assert_same(&sample, "with header");
        let mut bytes = sample.bytes();
        bytes[..100].fill(0);
        let salvaged = Salvaged::from_bytes(&bytes);
        assert_same_tables(&salvaged, &sample, &format!("{reserved} bytes, no header"));
    }
}

/// Creates a database with reserved bytes. SQL cannot reserve bytes, so this edits an empty
/// database.
fn with_reserved_bytes(reserved: u8) -> Sample {
    let Sample { dir, connection } = Sample::new("PRAGMA page_size = 1024; VACUUM");
    drop(connection);
    let path = dir.path().join("sample.db");
    let mut bytes = fs::read(&path).unwrap();
    bytes[20] = reserved;
    bytes[105..107].copy_from_slice(&(1024 - u16::from(reserved)).to_be_bytes());
    fs::write(&path, bytes).unwrap();
    let sample = Sample { dir, connection: Connection::open(&path).unwrap() };
    sample.run_sql("CREATE TABLE a (name, body)");
    sample.insert_rows("a", 300, "i, hex(zeroblob(i * 7))");
    let check = sample.query_strings("PRAGMA integrity_check");
    assert_eq!(check, ["ok"]);
    sample
}

#[test]
fn the_lock_byte_page_is_never_read() {
    // With this page size, the lock byte is on page 16385; the pages before it are a hole in the
    // file.
    let page_size = 65_536;
    let sample = Sample::with_usual_tables("PRAGMA page_size = 65536", 1000);
    let bytes = sample.bytes();
    let leaf = bytes.chunks(page_size).skip(1).find(|page| page[0] == 0x0d).unwrap();
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("damaged.db");
    let count = 0x4000_0000 / page_size + 2;
    for at in [count - 1, count] {
        let mut header = bytes[..100].to_vec();
        header[28..32].copy_from_slice(&u32::try_from(count).unwrap().to_be_bytes());
        let file = fs::File::create(&path).unwrap();
        file.set_len((count * page_size) as u64).unwrap();
        use std::os::unix::fs::FileExt;
        file.write_all_at(&bytes, 0).unwrap();
        file.write_all_at(&header, 0).unwrap();
        file.write_all_at(leaf, ((at - 1) * page_size) as u64).unwrap();
        let salvaged = Salvaged::from_file(&path);
        assert_eq!(salvaged.orphans().is_empty(), at != count, "page {at}");
        assert_eq!(salvaged.report.unreadable_pages, 0, "page {at}");
    }
}

#[test]
fn databases_in_utf16_are_refused() {
    for encoding in ["UTF-16le", "UTF-16be"] {
        let sample = Sample::new(&format!("PRAGMA encoding = '{encoding}'"));
        sample.run_sql("CREATE TABLE a (b); INSERT INTO a VALUES ('text')");
        let mut bytes = sample.bytes();
        for header in [bytes[..100].to_vec(), vec![0; 100]] {
            bytes[..100].copy_from_slice(&header);
            let path = sample.dir.path().join("damaged.db");
            fs::write(&path, &bytes).unwrap();
            let error = DamagedDatabase::open(&path).err().unwrap();
            assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
            assert!(error.to_string().contains("UTF-8"));
        }
    }
}

#[test]
fn a_wrong_encoding_in_the_header_is_not_trusted() {
    let sample = Sample::with_usual_tables("PRAGMA page_size = 512", 500);
    let mut bytes = sample.bytes();
    bytes[59] = 3;
    let salvaged = Salvaged::from_bytes(&bytes);
    assert_same_tables(&salvaged, &sample, "wrong encoding");
}

#[test]
fn invalid_utf8_is_returned_with_replacement_characters() {
    let sample = Sample::new("");
    sample.run_sql("CREATE TABLE a (b); INSERT INTO a VALUES (CAST(x'61ff62' AS TEXT))");
    let salvaged = Salvaged::from_file(&sample.path());
    assert_eq!(salvaged.rows[0].values, [Value::Text("a\u{fffd}b".into())]);
}

#[test]
fn columns_added_later_are_missing_in_old_rows() {
    let sample = Sample::new("");
    sample.run_sql(
        "CREATE TABLE a (b); INSERT INTO a VALUES (1); ALTER TABLE a ADD c DEFAULT 5;
         INSERT INTO a VALUES (2, 3)",
    );
    let values: Vec<_> =
        Salvaged::from_file(&sample.path()).rows.into_iter().map(|r| r.values).collect();
    assert_eq!(values, [vec![Value::Integer(1)], vec![Value::Integer(2), Value::Integer(3)]]);
}

#[test]
fn a_record_header_can_continue_in_overflow_pages() {
    let sample = Sample::new("PRAGMA page_size = 512");
    let columns: Vec<String> = (0..900).map(|i| format!("c{i}")).collect();
    sample.run_sql(&format!("CREATE TABLE a ({})", columns.join(",")));
    let values: Vec<String> = (0..900).map(|i| format!("'a{i}'")).collect();
    sample.run_sql(&format!("INSERT INTO a VALUES ({})", values.join(",")));
    assert_same(&sample, "wide");
}
