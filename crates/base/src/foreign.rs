//! Reading files of other programs and users. Such a file can be anything: an endless pipe, a link
//! to a device, a file of many gigabytes. These functions never block, and read at most a given
//! number of bytes.
//!
//! Files inside a workspace are opened relative to its root instead, without following links.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Opens a regular file for reading, and follows links. Fails for any other kind of file, and does
/// not wait for the other end of a pipe.
pub fn open_regular(path: &Path) -> io::Result<File> {
    open_with_size(path).map(|(file, _)| file)
}

fn open_with_size(path: &Path) -> io::Result<(File, u64)> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file: File = rustix::fs::open(path, flags, Mode::empty())?.into();
    let metadata = file.metadata()?;
    match metadata.is_file() {
        true => Ok((file, metadata.len())),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

/// The maximum size of a text file of another program, such as a configuration, that is read whole.
pub const MAX_TEXT: u64 = 64 << 20;

/// Reads a regular file of at most `max_size` bytes. Fails if it is larger.
pub fn read_regular(path: &Path, max_size: u64) -> io::Result<Vec<u8>> {
    let (file, size) = open_with_size(path)?;
    let too_large = || {
        let message = format!("it is larger than {max_size} bytes");
        io::Error::new(io::ErrorKind::FileTooLarge, message)
    };
    if size > max_size {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).map_err(io::Error::other)?);
    // The file may grow while it is read.
    file.take(max_size + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_size { Err(too_large()) } else { Ok(bytes) }
}

/// Reads the beginning of a regular file of any size: at most `length` bytes.
pub fn read_beginning(path: &Path, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::process::Command;

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
        for name in ["endless", "pipe", "directory", "missing"] {
            assert!(read_regular(&at(name), 5).is_err(), "{name}");
            assert!(read_beginning(&at(name), 5).is_err(), "{name}");
        }
    }
}
