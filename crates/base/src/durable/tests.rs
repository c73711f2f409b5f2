//! Tests of durable files.

use super::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn files_and_directories_are_private() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("a/b");
    create_directory(&directory).unwrap();
    create_directory(&directory).unwrap();
    assert_eq!((mode(&directory), mode(&scratch.path().join("a"))), (0o700, 0o700));
    let exists = create_new_directory(&directory).unwrap_err();
    assert_eq!(exists.kind(), io::ErrorKind::AlreadyExists);

    let at = |name: &str| directory.join(name);
    open_file(&at("opened")).unwrap();
    append_file(&at("appended")).unwrap();
    create_file(&at("created")).unwrap();
    create_new_file(&at("new")).unwrap();
    replace_file(&at("replaced"), b"", Durability::Cached).unwrap();
    for name in ["opened", "appended", "created", "new", "replaced"] {
        assert_eq!(mode(&at(name)), 0o600, "{name}");
    }
    let exists = create_new_file(&at("new")).unwrap_err();
    assert_eq!(exists.kind(), io::ErrorKind::AlreadyExists);
}

#[test]
fn opening_keeps_the_content() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("file");
    fs::write(&path, "content").unwrap();
    open_file(&path).unwrap();
    append_file(&path).unwrap().write_all(b"!").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"content!");
    create_file(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"");
}

#[test]
fn a_replaced_file_has_the_new_content_and_no_temporary_file_is_left() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("directory/file");
    for durability in [Durability::Cached, Durability::Synced] {
        replace_file(&path, b"one", durability).unwrap();
        replace_file_through(scratch.path(), &path, b"two", durability).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
    }
    assert_eq!(names(scratch.path()), ["directory"]);
    assert_eq!(names(path.parent().unwrap()), ["file"]);
    // A directory is in the way.
    let error = replace_file(&scratch.path().join("directory"), b"", Durability::Cached);
    assert!(error.is_err());
    assert_eq!(names(scratch.path()), ["directory"]);
}

#[test]
fn a_new_file_replaces_no_existing_one() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("file");
    let mut first = Temporary::create_beside(&path).unwrap();
    let second = Temporary::create_in(scratch.path()).unwrap();
    first.write_all(b"first").unwrap();
    first.persist_new(&path).unwrap();
    let error = second.persist_new(&path).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read(&path).unwrap(), b"first");
    assert_eq!(names(scratch.path()), ["file"]);
    let third = Temporary::create_beside(&path).unwrap();
    third.persist_with_mode(&path, 0o444).unwrap();
    assert_eq!((fs::read(&path).unwrap(), mode(&path)), (Vec::new(), 0o444));
}

#[test]
fn rename_new_replaces_no_existing_file() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    fs::write(at("a"), "a").unwrap();
    fs::write(at("b"), "b").unwrap();
    let error = rename_new(&at("a"), &at("b")).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    rename_new(&at("a"), &at("c")).unwrap();
    assert_eq!(names(scratch.path()), ["b", "c"]);
}

#[test]
fn ignore_missing_and_if_exists_accept_a_missing_file() {
    let missing = Path::new("/nonexistent/file");
    ignore_missing(fs::remove_file(missing)).unwrap();
    assert!(if_exists(fs::read(missing)).unwrap().is_none());
    assert!(if_exists(fs::read("/")).is_err());
}

#[test]
fn sweeping_removes_files_and_directories() {
    let scratch = tempfile::tempdir().unwrap();
    fs::create_dir_all(scratch.path().join("a/b")).unwrap();
    fs::write(scratch.path().join("a/b/c"), "").unwrap();
    fs::write(scratch.path().join("d"), "").unwrap();
    sweep_directory(scratch.path()).unwrap();
    assert_eq!(names(scratch.path()), [""; 0]);
}

#[test]
fn several_files_are_synced_together() {
    let scratch = tempfile::tempdir().unwrap();
    let files: Vec<File> = (0..40)
        .map(|number| create_file(&scratch.path().join(number.to_string())).unwrap())
        .collect();
    sync_files(&files.iter().collect::<Vec<_>>()).unwrap();
    sync_files(&[]).unwrap();
    sync_directory(scratch.path()).unwrap();
}

#[test]
fn an_exclusive_lock_excludes_all_others() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("lock");
    let lock = FileLock::exclusive(&path).unwrap();
    assert!(FileLock::try_exclusive(&path).unwrap().is_none());
    drop(lock);
    let shared = FileLock::shared(&path).unwrap();
    let too = FileLock::shared(&path).unwrap();
    assert!(FileLock::try_exclusive(&path).unwrap().is_none());
    drop((shared, too));
    assert!(FileLock::try_exclusive(&path).unwrap().is_some());
}

#[test]
fn a_directory_itself_can_be_locked() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("directory");
    let lock = FileLock::exclusive_on_directory(&directory).unwrap();
    let file = File::open(&directory).unwrap();
    let taken = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
    assert_eq!(taken, Err(Errno::WOULDBLOCK));
    drop(lock);
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
}

#[test]
fn a_lock_knows_whether_its_file_is_still_in_place() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("lock");
    let lock = FileLock::exclusive(&path).unwrap();
    assert!(lock.is_at(&path));
    replace_file(&path, b"", Durability::Cached).unwrap();
    assert!(!lock.is_at(&path));
    fs::remove_file(&path).unwrap();
    assert!(!lock.is_at(&path));
}
