//! Determines when tar only reads: when it lists an archive.

use super::argument_rules::{ArgumentRule, only};
use crate::shell::syntax::Arg;

/// Returns true if tar only lists an archive.
pub(super) fn is_read_only(args: &[Arg]) -> bool {
    let Some((Arg::Known(first), rest)) = args.split_first() else { return false };
    let is_listing = |text: &str| {
        let letters = text.strip_prefix('-').unwrap_or(text);
        letters.contains('t') && letters.bytes().all(|byte| b"tvzjJfaZ".contains(&byte))
    };
    let is_long = first == "--list";
    let options = only("vzjJaf:C:", "list verbose file= gzip bzip2 xz zstd directory= wildcards");
    // A colon in the name of an archive means that the archive is on another machine.
    let is_remote = |arg: &Arg| arg.known().is_none_or(|text| text.contains(':'));
    (is_long || is_listing(first))
        && ArgumentRule::Only(options).allows(rest)
        && !args.iter().any(is_remote)
}
