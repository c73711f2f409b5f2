//! Reading files that belong to other programs and users. Such a file can be anything: an endless
//! pipe, a link to a device, a file of many gigabytes. These functions never block, and read at
//! most a given number of bytes.
//!
//! Files inside a workspace are opened relative to its root instead, without following links.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Opens a regular file for reading, following links. Fails for any other kind of file, and does
/// not wait for the other end of a pipe.
pub fn open_regular(path: &Path) -> io::Result<File> {
    open_with(path, OFlags::empty()).map(|(file, _)| file)
}

/// Opens a regular file for reading. Fails if the path itself is a link. Returns `None` if there is
/// no file.
pub fn open_unlinked(path: &Path) -> io::Result<Option<File>> {
    // A separate check before opening would miss a link that replaces the file in the meantime.
    match open_with(path, OFlags::NOFOLLOW) {
        Ok((file, _)) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            Err(not_regular())
        }
        Err(error) => Err(error),
    }
}

fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")
}

/// Opens a regular file with additional flags, and returns its size.
fn open_with(path: &Path, flags: OFlags) -> io::Result<(File, u64)> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file: File = rustix::fs::open(path, flags, Mode::empty())?.into();
    let metadata = file.metadata()?;
    match metadata.is_file() {
        true => Ok((file, metadata.len())),
        false => Err(not_regular()),
    }
}

/// The maximum size of a text file of another program, such as a configuration file, that takeback
/// reads as a whole.
pub const MAX_TEXT: u64 = 64 << 20;

/// Reads a regular file of at most `max_size` bytes. Fails if it is larger.
pub fn read_regular(path: &Path, max_size: u64) -> io::Result<Vec<u8>> {
    let (file, size) = open_with(path, OFlags::empty())?;
    let too_large = || {
        let message = format!("it is larger than {max_size} bytes");
        io::Error::new(io::ErrorKind::FileTooLarge, message)
    };
    if size > max_size {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).map_err(io::Error::other)?);
    // The file may grow while it is being read.
    file.take(max_size + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_size { Err(too_large()) } else { Ok(bytes) }
}

/// Reads the beginning of a regular file of any size: at most `length` bytes.
pub fn read_beginning(path: &Path, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The maximum number of values in a JSON document that takeback parses. A document with more
/// values is refused, because a parsed value can take up to a hundred times as much memory as its
/// text.
pub const MAX_JSON_VALUES: usize = 2_000_000;

/// Returns an upper bound on the number of values in a JSON document, without parsing it.
pub fn count_json_values(json: &[u8]) -> usize {
    let (mut count, mut is_text, mut is_escaped) = (1, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' | b'[' | b',' if !is_text => count += 1,
            _ => {}
        }
    }
    count
}

/// True if a JSON document has so many values that parsing it could exhaust memory.
pub fn has_too_many_values(json: &[u8]) -> bool {
    // Each value takes at least one byte, so a short document cannot have too many.
    json.len() > MAX_JSON_VALUES && count_json_values(json) > MAX_JSON_VALUES
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::process::Command;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::{CWD, RenameFlags};

    use super::*;

    #[test]
    fn only_regular_files_up_to_the_maximum_size_are_read() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        fs::write(at("file"), "12345").unwrap();
        symlink("file", at("link")).unwrap();
        for name in ["file", "link"] {
            assert_eq!(read_regular(&at(name), 5).unwrap(), b"12345");
            assert_eq!(read_beginning(&at(name), 3).unwrap(), b"123");
            let error = read_regular(&at(name), 4).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        }
        symlink("/dev/zero", at("endless")).unwrap();
        assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        fs::create_dir(at("directory")).unwrap();
        assert!(open_unlinked(&at("file")).unwrap().is_some());
        assert!(open_unlinked(&at("missing")).unwrap().is_none());
        for name in ["link", "endless", "pipe", "directory"] {
            assert!(open_unlinked(&at(name)).is_err(), "{name}");
        }
        for name in ["endless", "pipe", "directory", "missing"] {
            assert!(read_regular(&at(name), 5).is_err(), "{name}");
            assert!(read_beginning(&at(name), 5).is_err(), "{name}");
        }
    }

    #[test]
    fn a_link_that_takes_the_place_of_a_file_is_never_followed() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        fs::write(at("secret"), "secret").unwrap();
        fs::write(at("file"), "file").unwrap();
        symlink("secret", at("link")).unwrap();
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    let (file, link) = (at("file"), at("link"));
                    rustix::fs::renameat_with(CWD, file, CWD, link, RenameFlags::EXCHANGE).unwrap();
                }
            });
            let is_followed = (0..20_000).any(|_| {
                let Ok(Some(mut opened)) = open_unlinked(&at("file")) else { return false };
                let mut content = String::new();
                opened.read_to_string(&mut content).is_ok_and(|_| content != "file")
            });
            is_done.store(true, Ordering::Relaxed);
            assert!(!is_followed);
        });
    }

    #[test]
    fn only_values_outside_strings_are_counted() {
        for (json, count) in [
            ("1", 1),
            ("[]", 2),
            ("[1,2]", 3),
            (r#"{"a":[{},{}]}"#, 6),
            (r#""[,{""#, 1),
            (r#"["a\",",2]"#, 3),
        ] {
            assert_eq!(count_json_values(json.as_bytes()), count, "{json}");
        }
        assert!(!has_too_many_values(&[b'x'; MAX_JSON_VALUES + 2]));
        assert!(has_too_many_values(&[b','; MAX_JSON_VALUES + 2]));
    }
}
