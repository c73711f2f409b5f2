//! Paths inside a workspace. They are bytes, not text.

use std::borrow::Borrow;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bstr::ByteSlice;
use gix_glob::wildmatch::Mode;
use serde::{Deserialize, Serialize};
use takeback_base::paths;
use takeback_base::text::is_armed;

/// A path relative to the workspace's root: names joined by `/`, with any bytes that the kernel
/// allows.
///
/// The empty path is the root itself. In JSON, a path is a string, or `{"bytes": "<base64>"}` if it
/// is not UTF-8.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RelPath(Vec<u8>);

/// The error for bytes that are not a path inside a workspace.
#[derive(Debug, thiserror::Error)]
#[error("{} is not a path inside the workspace", String::from_utf8_lossy(.0).escape_debug())]
pub struct InvalidPath(pub Vec<u8>);

impl RelPath {
    /// Returns the path of the workspace's root.
    pub const fn root() -> RelPath {
        RelPath(Vec::new())
    }

    /// Creates a path from names joined by single slashes. Refuses `.`, `..`, empty names and NUL.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<RelPath, InvalidPath> {
        let bytes = bytes.into();
        let valid = |name: &[u8]| !matches!(name, b"" | b"." | b"..") && !name.contains(&0);
        if bytes.is_empty() || bytes.split(|byte| *byte == b'/').all(valid) {
            Ok(RelPath(bytes))
        } else {
            Err(InvalidPath(bytes))
        }
    }

    /// Creates a path from a relative [`Path`] without `.` and `..`.
    pub fn from_path(path: &Path) -> Result<RelPath, InvalidPath> {
        RelPath::new(paths::as_bytes(path))
    }

    /// Returns the path as a [`Path`], relative to the workspace's root.
    pub fn as_path(&self) -> &Path {
        paths::from_bytes(&self.0)
    }

    /// Returns the bytes of the path.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// True for the workspace's root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// True if the path contains characters that have a special meaning in patterns.
    pub fn is_pattern(&self) -> bool {
        self.0.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
    }

    /// Returns true if the whole path matches a pattern. As in git's pathspecs, `*` also matches
    /// slashes.
    ///
    /// ```
    /// use takeback_tree::RelPath;
    ///
    /// let path = |text: &str| RelPath::from_path(text.as_ref()).unwrap();
    /// assert!(path("src/old/cart.py").matches(&path("*.py")));
    /// assert!(!path("conf.d/a.txt").matches(&path("*.d")));
    /// ```
    pub fn matches(&self, pattern: &RelPath) -> bool {
        gix_glob::wildmatch(pattern.0.as_bstr(), self.0.as_bstr(), Mode::empty())
    }

    /// Appends a name to the path.
    pub fn join(&self, name: &[u8]) -> RelPath {
        RelPath(join(&self.0, name))
    }

    /// Returns the directory that contains the path, or `None` for the root.
    pub fn parent(&self) -> Option<RelPath> {
        (!self.is_root()).then(|| RelPath(split(&self.0).0.to_vec()))
    }

    /// Returns the last name, which is empty for the root.
    pub fn name(&self) -> &[u8] {
        split(&self.0).1
    }

    /// True if this is `ancestor` or lies below it.
    ///
    /// ```
    /// use takeback_tree::RelPath;
    ///
    /// let path = |text: &str| RelPath::from_path(text.as_ref()).unwrap();
    /// assert!(path("src/cart.rs").starts_with(&path("src")));
    /// assert!(!path("src2/cart.rs").starts_with(&path("src")));
    /// ```
    pub fn starts_with(&self, ancestor: &RelPath) -> bool {
        is_within(&self.0, &ancestor.0)
    }
}

/// Returns `directory/name`, or only `name` if the directory is the root.
pub(crate) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(directory.len() + 1 + name.len());
    if !directory.is_empty() {
        path.extend_from_slice(directory);
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// Splits a path into directory and name.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

/// True if `path` is `ancestor` or lies below it.
pub(crate) fn is_within(path: &[u8], ancestor: &[u8]) -> bool {
    ancestor.is_empty()
        || (path.starts_with(ancestor) && matches!(path.get(ancestor.len()), None | Some(b'/')))
}

impl Borrow<[u8]> for RelPath {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str(".");
        }
        // A name must not control the terminal in which it is shown.
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                if is_armed(character) {
                    write!(f, "{}", character.escape_default())?;
                } else {
                    write!(f, "{character}")?;
                }
            }
            chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
        }
        Ok(())
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Any path. It has the same JSON form as a [`RelPath`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AnyPath(pub PathBuf);

impl From<&Path> for AnyPath {
    fn from(path: &Path) -> AnyPath {
        AnyPath(path.to_owned())
    }
}

impl Serialize for AnyPath {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_bytes(paths::as_bytes(&self.0), serializer)
    }
}

impl<'de> Deserialize<'de> for AnyPath {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<AnyPath, D::Error> {
        Ok(AnyPath(PathBuf::from(OsString::from_vec(deserialize_bytes(deserializer)?))))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum JsonPath {
    Text(String),
    Bytes { bytes: String },
}

fn serialize_bytes<S: serde::Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    match std::str::from_utf8(bytes) {
        Ok(text) => serializer.serialize_str(text),
        Err(_) => JsonPath::Bytes { bytes: BASE64_STANDARD.encode(bytes) }.serialize(serializer),
    }
}

fn deserialize_bytes<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<u8>, D::Error> {
    match JsonPath::deserialize(deserializer)? {
        JsonPath::Text(text) => Ok(text.into_bytes()),
        JsonPath::Bytes { bytes } => {
            BASE64_STANDARD.decode(bytes).map_err(serde::de::Error::custom)
        }
    }
}

impl Serialize for RelPath {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_bytes(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for RelPath {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<RelPath, D::Error> {
        RelPath::new(deserialize_bytes(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_leave_the_workspace_are_refused() {
        for bad in ["/etc", "a//b", "a/", "..", "a/../b", "./a", "a/.", "a\0b"] {
            assert!(RelPath::new(bad).is_err(), "{bad:?}");
        }
        for good in ["", "a", "a/b", "...", ".git", "a\nb", "*.py"] {
            assert!(RelPath::new(good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn a_path_is_within_another_only_if_whole_names_match() {
        assert!(is_within(b"a/b", b"a"));
        assert!(is_within(b"a", b"a"));
        assert!(is_within(b"anything", b""));
        assert!(!is_within(b"ab", b"a"));
        assert!(!is_within(b"a", b"a/b"));
    }

    #[test]
    fn json_keeps_every_byte() {
        for bytes in [&b"plain"[..], b"caf\xc3\xa9", b"\xff/\xfe", b"new\nline"] {
            let path = RelPath::new(bytes).unwrap();
            let json = serde_json::to_string(&path).unwrap();
            assert_eq!(serde_json::from_str::<RelPath>(&json).unwrap(), path, "{json}");
        }
        assert!(serde_json::from_str::<RelPath>("\"../x\"").is_err());
    }

    #[test]
    fn control_characters_are_displayed_escaped() {
        let path = RelPath::new(&b"a\x1b[31m\xff\xe2\x80\xaeb"[..]).unwrap();
        assert_eq!(path.to_string(), "a\\u{1b}[31m\\xff\\u{202e}b");
    }
}
