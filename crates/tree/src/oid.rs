//! Object ids: the SHA-1 hashes by which git names objects.

use std::fmt;
use std::str::FromStr;

use sha1::{Digest, Sha1};
use takeback_base::hex;

use crate::object::ObjectKind;

/// The id of an object: the SHA-1 of its kind, size and content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Oid(pub [u8; 20]);

impl Oid {
    /// The id of the tree without entries, which is the tree of every empty directory.
    pub const EMPTY_TREE: Oid = Oid([
        0x4b, 0x82, 0x5d, 0xc6, 0x42, 0xcb, 0x6e, 0xb9, 0xa0, 0x60, 0xe5, 0x4b, 0xf8, 0xd6, 0x92,
        0x88, 0xfb, 0xee, 0x49, 0x04,
    ]);

    /// The id that is used where there is no object.
    pub(crate) const ZERO: Oid = Oid([0; 20]);

    /// Computes the id of an object with this kind and content.
    ///
    /// ```
    /// use takeback_tree::{ObjectKind, Oid};
    ///
    /// // git calculates the same id.
    /// let id = Oid::of(ObjectKind::Blob, b"mine\n");
    /// assert_eq!(id.to_string(), "351be5bf6e17c59ea560546d69654115ecb2fd8d");
    /// assert_eq!("351be5bf6e17c59ea560546d69654115ecb2fd8d".parse::<Oid>().unwrap(), id);
    /// ```
    pub fn of(kind: ObjectKind, content: &[u8]) -> Oid {
        let mut hasher = Sha1::new();
        hasher.update(kind.header(content.len() as u64));
        hasher.update(content);
        Oid(hasher.finalize().into())
    }

    /// Reads the id in the first 20 bytes. Returns `None` if there are fewer bytes.
    pub(crate) fn from_slice(bytes: &[u8]) -> Option<Oid> {
        Some(Oid(bytes.get(..20)?.try_into().ok()?))
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write_digits(f, &self.0)
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The error for a string that is not 40 hexadecimal digits.
#[derive(Debug, thiserror::Error)]
#[error("not an object id (expected 40 hexadecimal digits)")]
pub struct InvalidOid;

impl FromStr for Oid {
    type Err = InvalidOid;

    fn from_str(text: &str) -> Result<Oid, InvalidOid> {
        hex::decode_array(text).map(Oid).ok_or(InvalidOid)
    }
}

impl serde::Serialize for Oid {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Oid {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Oid, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
