//! The keys of objects, and parsing a listing of objects.
//!
//! ```text
//! fleet.json                                                 the fleet that the bucket belongs to
//! workspaces/<machine>/<workspace>.<sha256>.json             the facts about a workspace
//! machines/<machine>/claims/<number>                         the uploads of the machine, numbered
//! machines/<machine>/packs/<sha256>.pack | .sealed           an export pack, open or encrypted
//! machines/<machine>/packs/<sha256>.<sha256>.idx | .idxs     its index, open or encrypted
//! machines/<machine>/refs/<workspace>/<seq>-<commit>         a checkpoint
//! machines/<machine>/gone/packs/<sha256>                     a mark: the pack is no longer needed
//! machines/<machine>/gone/refs/<workspace>/<seq>-<commit>    a mark: the checkpoint was deleted
//! ```
//!
//! Every object is created once and never replaced. Only the machine itself writes objects below
//! its own id.

use std::collections::{BTreeMap, BTreeSet};

use takeback_base::hex;
use takeback_tree::{Oid, WorkspaceId};

use super::bucket::{ListedObject, Listing};

/// The key of the object that identifies the fleet.
pub(crate) const FLEET: &str = "fleet.json";

/// The prefix of the keys of all facts about workspaces.
pub(crate) const WORKSPACES: &str = "workspaces/";

pub(crate) fn machine_prefix(machine: &str) -> String {
    format!("machines/{machine}/")
}

pub(crate) fn workspaces_prefix(machine: &str) -> String {
    format!("{WORKSPACES}{machine}/")
}

/// A checkpoint: a ref of the machine's store.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct RemoteRef {
    pub(crate) workspace: WorkspaceId,
    pub(crate) seq: u64,
    pub(crate) commit: Oid,
}

impl RemoteRef {
    /// Returns the end of the key: `<workspace>/<seq>-<commit>`.
    pub(crate) fn name(&self) -> String {
        format!("{}/{}-{}", self.workspace, self.seq, self.commit)
    }

    pub(crate) fn content(&self) -> String {
        format!("{}\n", self.commit)
    }

    pub(crate) fn parse(name: &str) -> Option<RemoteRef> {
        let (workspace, rest) = name.split_once('/')?;
        let (seq, commit) = rest.split_once('-')?;
        let found = RemoteRef {
            workspace: workspace.parse().ok()?,
            seq: seq.parse().ok()?,
            commit: commit.parse().ok()?,
        };
        (found.name() == name).then_some(found)
    }
}

/// The name of a pack, which consists of the digests of the pack and of its index.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct PackName {
    pub(crate) pack: String,
    pub(crate) index: String,
    pub(crate) is_sealed: bool,
}

impl PackName {
    pub(crate) fn pack_file(&self) -> String {
        format!("{}.{}", self.pack, if self.is_sealed { "sealed" } else { "pack" })
    }

    pub(crate) fn index_file(&self) -> String {
        let extension = if self.is_sealed { "idxs" } else { "idx" };
        format!("{}.{}.{extension}", self.pack, self.index)
    }

    /// Parses the file name of an index.
    pub(crate) fn parse_index_file(file: &str) -> Option<PackName> {
        let mut parts = file.split('.');
        let (pack, index, extension) = (parts.next()?, parts.next()?, parts.next()?);
        let is_sealed = match extension {
            "idx" => false,
            "idxs" => true,
            _ => return None,
        };
        let is_digest = |text: &str| text.len() == 64 && hex::is_hex(text);
        let name = PackName { pack: pack.to_owned(), index: index.to_owned(), is_sealed };
        (is_digest(pack) && is_digest(index) && name.index_file() == file).then_some(name)
    }
}

/// A pack in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedPack {
    pub(crate) name: PackName,
    /// The size of the pack and of its index, in bytes.
    pub(crate) size: u64,
    pub(crate) index_size: u64,
    pub(crate) created: i64,
    /// The time at which the pack was marked, if it is no longer needed.
    pub(crate) gone: Option<i64>,
}

/// The objects of one machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inventory {
    /// The complete packs.
    pub(crate) packs: Vec<ListedPack>,
    /// Pack files without their index, and indexes without their pack.
    pub(crate) halves: Vec<ListedObject>,
    /// The refs, and the time at which each was created.
    pub(crate) refs: BTreeMap<RemoteRef, i64>,
    /// The refs with a mark, and the time of the mark.
    pub(crate) gone_refs: BTreeMap<RemoteRef, i64>,
    /// Marks on packs, by the pack's digest.
    pub(crate) gone_packs: BTreeMap<String, i64>,
    /// The numbers of the uploads.
    pub(crate) claims: BTreeSet<u64>,
    /// The keys that have none of the forms above.
    pub(crate) strangers: Vec<String>,
    /// The size of all objects, in bytes.
    pub(crate) bytes: u64,
    /// The time on the storage's clock.
    pub(crate) now: i64,
}

impl Inventory {
    /// Reads the listing of a machine's prefix.
    pub(crate) fn read(machine: &str, listing: Listing) -> Inventory {
        let prefix = machine_prefix(machine);
        let mut inventory = Inventory { now: listing.now, ..Inventory::default() };
        let mut files: BTreeMap<String, ListedObject> = BTreeMap::new();
        for object in listing.objects {
            inventory.bytes += object.size;
            let Some(rest) = object.key.strip_prefix(&prefix) else { continue };
            let (kind, name) = rest.split_once('/').unwrap_or((rest, ""));
            let is_known = match (kind, name.split_once('/')) {
                ("packs", None) => files.insert(name.to_owned(), object.clone()).is_none(),
                ("claims", None) => {
                    name.parse().is_ok_and(|number| inventory.claims.insert(number))
                }
                ("refs", Some(_)) => RemoteRef::parse(name)
                    .is_some_and(|found| inventory.refs.insert(found, object.created).is_none()),
                ("gone", Some(("packs", digest))) => {
                    inventory.gone_packs.insert(digest.to_owned(), object.created).is_none()
                }
                ("gone", Some(("refs", name))) => RemoteRef::parse(name).is_some_and(|found| {
                    inventory.gone_refs.insert(found, object.created).is_none()
                }),
                _ => false,
            };
            if !is_known {
                inventory.strangers.push(object.key);
            }
        }
        inventory.pair_packs(files);
        inventory
    }

    fn pair_packs(&mut self, mut files: BTreeMap<String, ListedObject>) {
        let names: Vec<PackName> =
            files.keys().filter_map(|file| PackName::parse_index_file(file)).collect();
        for name in names {
            let Some(pack) = files.remove(&name.pack_file()) else { continue };
            let Some(index) = files.remove(&name.index_file()) else { continue };
            self.packs.push(ListedPack {
                gone: self.gone_packs.get(&name.pack).copied(),
                size: pack.size,
                index_size: index.size,
                created: pack.created,
                name,
            });
        }
        self.halves = files.into_values().collect();
    }

    /// Finds a complete pack by its digest.
    pub(crate) fn find_pack(&self, digest: &str) -> Option<&ListedPack> {
        self.packs.iter().find(|pack| pack.name.pack == digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_says_what_a_machine_has() {
        let (a, b, c) = ("a".repeat(64), "b".repeat(64), "c".repeat(64));
        let commit = "1".repeat(40);
        let keys = [
            format!("packs/{a}.pack"),
            format!("packs/{a}.{b}.idx"),
            format!("packs/{b}.sealed"),
            format!("packs/{b}.{c}.idxs"),
            format!("packs/{c}.pack"),
            format!("gone/packs/{b}"),
            format!("refs/0123456789abcdef/7-{commit}"),
            format!("gone/refs/0123456789abcdef/3-{commit}"),
            "claims/00000000000000000004".to_owned(),
            format!("refs/0123456789abcdef/07-{commit}"),
            "other".to_owned(),
        ];
        let objects = keys.iter().map(|key| ListedObject {
            key: format!("machines/m/{key}"),
            size: 10,
            created: 5,
        });
        let listing = Listing { objects: objects.collect(), now: 9 };
        let inventory = Inventory::read("m", listing);
        let packs: Vec<_> = inventory
            .packs
            .iter()
            .map(|pack| (&pack.name.pack[..1], pack.name.is_sealed, pack.gone))
            .collect();
        assert_eq!(packs, [("a", false, None), ("b", true, Some(5))]);
        assert_eq!(inventory.halves.len(), 1);
        assert_eq!(inventory.refs.first_key_value().unwrap().0.seq, 7);
        assert_eq!(inventory.gone_refs.len(), 1);
        assert_eq!(inventory.claims.last(), Some(&4));
        assert_eq!(inventory.strangers.len(), 2, "{:?}", inventory.strangers);
        assert_eq!((inventory.bytes, inventory.now), (110, 9));
    }
}
