//! Captures a directory into a shared git object store, and restores it exactly.
//!
//! A [`Store`] is a bare git repository. A [`Workspace`] is a directory whose states the store
//! keeps. All captures and restores go through the workspace's [`Lock`].
//!
//! ```
//! use std::fs;
//! use std::time::SystemTime;
//!
//! use takeback_tree::{CaptureOptions, CaptureRules, ForbiddenRoots, RestoreTarget, Store};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let scratch = tempfile::tempdir()?;
//! let project = scratch.path().join("shop");
//! fs::create_dir(&project)?;
//! fs::write(project.join("cart.rs"), "struct Cart;\n")?;
//!
//! let store = Store::open(scratch.path().join("store"))?;
//! let workspace = store.workspace(&project, &ForbiddenRoots::default())?;
//! let mut lock = workspace.lock()?;
//! let rules = CaptureRules::default();
//! let now = SystemTime::now();
//! let options = CaptureOptions { rules: &rules, named: &[], swept: &[], now };
//! let capture = lock.capture(&options)?;
//! // A pin keeps the state.
//! lock.pin(capture.tree, now, "before the call\n")?;
//!
//! fs::remove_file(project.join("cart.rs"))?;
//!
//! let target = RestoreTarget {
//!     tree: capture.tree,
//!     filter: &capture.filter,
//!     uncovered: &capture.uncovered,
//!     undoes: None,
//!     released: &[],
//!     silent: false,
//! };
//! let plan = lock.plan(&target, &[], &options)?;
//! // The state before the restore is kept as well.
//! let safety = lock.pin(plan.from, now, "before the restore\n")?;
//! lock.apply(&plan, &safety)?;
//! assert_eq!(fs::read_to_string(project.join("cart.rs"))?, "struct Cart;\n");
//! # Ok(())
//! # }
//! ```
//!
//! Limitations: hard links, extended attributes, access control lists, owners and file times are
//! not kept. The mode of the workspace's root is not part of its tree. A file larger than 512 MB is
//! never captured.

mod adopt;
mod attachments;
mod beneath;
mod capture;
mod checkout;
mod compare;
mod diff;
mod edit;
mod export;
#[cfg(feature = "faults")]
pub mod fault;
#[cfg(not(feature = "faults"))]
mod fault;
mod forbidden;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod gc;
pub mod git;
mod lock;
mod mirror;
mod object;
mod oid;
mod owner;
mod pack;
mod pack_rewrite;
mod packs;
mod path;
mod pin_copy;
mod pins;
mod reachability;
mod repack;
mod repair;
mod restore;
mod rules;
mod salvage;
mod scrub;
mod source_packs;
mod store;
#[cfg(test)]
mod testing;
mod threads;
mod verify;
mod weigh;
mod workspace;
mod workspaces;

pub use adopt::{AdoptError, AdoptLock, Adopted, Adoption, OlderPin};
pub use capture::databases::SUFFIXES as DATABASE_SUFFIXES;
pub use capture::{Capture, CaptureError, CaptureOptions, Uncovered, UncoveredReason};
pub use checkout::{Checkout, CheckoutError, NewDirectory, remove_temporary};
pub use compare::PathChange;
pub use diff::{
    ChangeKind, ChangeSide, Diff, DiffError, DiffOptions, Hunk, LineCounts, TreeChange,
    UnifiedDiff, compare_nodes, diff_trees, find_hunks, split_lines,
};
pub use edit::{EditError, NewContent, NewEntry, TreeEdit};
pub use export::{
    Export, ExportError, ExportOptions, ExportPrivacy, ExportedPack, Needs, read_pack_index,
};
pub use forbidden::ForbiddenRoots;
pub use gc::{GcError, GcOutcome};
pub use git::{
    CopiedRepository, ForeignCommit, ForeignError, ForeignObjectError, ForeignRef,
    ForeignRepository, GitDirectory, GitObjects, Head, OpenGitDirectory, RepositoryCopyError,
    RepositoryState,
};
pub use lock::{Lock, PinError};
pub use mirror::{MirrorError, MirrorReport};
pub use object::{Mode, ObjectKind};
pub use oid::{InvalidOid, Oid};
pub use pack::MAX_OBJECT;
pub use path::{AnyPath, InvalidPath, RelPath};
pub use pin_copy::{PinCopy, PinCopyError};
pub use pins::{Pin, PinName, PinReader, WorkspaceId};
pub use repair::{RepairError, RepairReport};
pub use restore::{
    BlockedPath, BlockedReason, KeptPath, KeptReason, Plan, PlanError, Recovery, RestoreError,
    RestoreOutcome, RestoreTarget, Writer,
};
pub use rules::{CaptureRules, Filter, MAX_PATTERNS, can_be_made_again};
pub use store::{ObjectError, Store, StoreError};
pub use verify::{BrokenPack, PinReport, PinState, Progress, VerifyReport};
pub use workspace::{Workspace, WorkspaceError, WorkspaceInfo};
pub use workspaces::{MoveError, WorkspaceGuard};
