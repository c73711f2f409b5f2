//! Capture: workspace → tree.
//!
//! 1. Look at everything known from the last capture: one `lstat` per file.
//! 2. List and read what changed, in parallel, straight into one pack.
//! 3. Make trees anew along the changed paths.
//!
//! What could not be captured is part of the result.

pub(crate) mod cache;
mod coverage;
mod scan;
mod sink;
mod state;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use takeback_base::paths;

use crate::beneath::{Root, Stat};
use crate::git::GitDirectory;
use crate::oid::Oid;
use crate::pack::write::PackWriter;
use crate::path::RelPath;
use crate::rules::{Filter, Rules};
use crate::store::{Store, StoreError};
use cache::{Cache, Cause, Class, Cutoff, Entry, Head, Kind, Reach};
use coverage::Coverage;
use scan::{Finding, Findings, Known, Scanner};
use sink::Sink;

/// How to capture.
#[derive(Clone, Debug)]
pub struct CaptureOptions<'a> {
    /// What to capture.
    pub rules: &'a Rules,
    /// Files and directories that are captured whatever the rules say.
    pub named: &'a [RelPath],
    /// The time, taken no later than the capture begins: files as new as this are read again
    /// next time.
    pub now: SystemTime,
}

/// A captured state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Capture {
    /// The state's identity.
    pub tree: Oid,
    /// How many files and symlinks are in it.
    pub files: u64,
    /// What is not in it, by topmost paths, sorted.
    pub uncovered: Vec<Uncovered>,
    /// What a restore of it needs to know about the rules.
    pub filter: Filter,
}

/// A path that a capture does not cover, with all that is below it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Uncovered {
    /// The topmost path.
    pub path: RelPath,
    /// Why.
    #[serde(flatten)]
    pub reason: Reason,
}

/// Why a path is not covered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Reason {
    /// The file is larger than the limit for its kind.
    TooLarge {
        /// Its size in bytes.
        size: u64,
    },
    /// A configured or built-in rule excludes it.
    Excluded,
    /// A `.gitignore` ignores the directory.
    Ignored,
    /// The system does not let it be read.
    Unreadable {
        /// What the system said.
        error: String,
    },
    /// A socket, pipe or device.
    Special,
    /// It changed each time it was read.
    Changing,
    /// It holds secrets, and those are to be left out.
    Private,
    /// A nested repository of which another program, whose checkpoint this was, kept only a link.
    Nested,
}

/// A capture did not happen; nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// There is more to capture than is allowed.
    #[error("the workspace has more than {limit} files to capture")]
    TooManyFiles {
        /// The limit.
        limit: u64,
    },
    /// The workspace itself cannot be read.
    #[error("cannot read the workspace")]
    Workspace(#[source] io::Error),
    /// The objects cannot be written.
    #[error("cannot write to the store {}", path.display())]
    Write {
        /// The store.
        path: std::path::PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Something is wrong with the store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a capture works on.
pub(crate) struct Context<'a> {
    pub(crate) store: &'a Store,
    pub(crate) root: &'a Root,
    pub(crate) path: &'a Path,
    /// Takeback's own directory, if it is inside the workspace.
    pub(crate) own: Option<RelPath>,
    /// The one name in the root that counts, if it is not all of them.
    pub(crate) only: Option<&'a [u8]>,
    pub(crate) writer: &'a PackWriter,
}

/// A workspace's state in memory, and how much of it the cache on disk lacks.
pub(crate) struct State {
    known: Known,
    pub(crate) unsaved: Unsaved,
}

impl State {
    /// What the cache on disk says.
    pub(crate) fn load(directory: &Path) -> Option<State> {
        let known = Known::new(Cache::load(directory)?)?;
        Some(State { known, unsaved: Unsaved::Nothing })
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.known.cache
    }
}

/// What is to be written to the cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Unsaved {
    Nothing,
    /// These entries, and the head.
    Entries(Vec<u32>),
    All,
}

impl Unsaved {
    fn and(self, other: Unsaved) -> Unsaved {
        match (self, other) {
            (Unsaved::Nothing, other) | (other, Unsaved::Nothing) => other,
            (Unsaved::Entries(mut one), Unsaved::Entries(other)) => {
                one.extend(other);
                Unsaved::Entries(one)
            }
            _ => Unsaved::All,
        }
    }
}

/// Captures the workspace, starting from what is known of it.
pub(crate) fn capture(
    context: &Context<'_>,
    known: Option<State>,
    options: &CaptureOptions<'_>,
) -> Result<(Capture, State), CaptureError> {
    let git = if context.only.is_none() { GitDirectory::find(context.path) } else { None };
    let index = git.map(|git| git.index_path());
    let mut head = Head {
        rules: fingerprint(options.rules, context.own.as_ref()),
        generation: context.store.generation(),
        cutoff: Cutoff { scan: nanoseconds(options.now) },
        index: index.as_deref().map(stat_of).unwrap_or_default(),
        named: !options.named.is_empty(),
    };
    let coverage = Coverage::new(options, context, index);
    let mut state = match known {
        Some(state) => update(context, &coverage, &mut head, state)?,
        None => start(context, &coverage, &mut head)?,
    };
    let capture = summary(&state.known, options.rules);
    if capture.files > options.rules.max_files {
        return Err(CaptureError::TooManyFiles { limit: options.rules.max_files });
    }
    // With nothing else to save, the head is worth it only if it changed what is trusted.
    let then = state.known.cache.head;
    if state.unsaved == Unsaved::Nothing && (Head { cutoff: then.cutoff, ..head }) != then {
        state.unsaved = Unsaved::Entries(Vec::new());
    }
    if state.unsaved != Unsaved::Nothing {
        state.known.cache.head = head;
    }
    Ok((capture, state))
}

/// The first capture: everything is new.
fn start(
    context: &Context<'_>,
    coverage: &Coverage,
    head: &mut Head,
) -> Result<State, CaptureError> {
    context.store.set_aside_broken()?;
    let sink = Sink::new(context);
    let found = scan(context, coverage, &sink, None, head)?;
    let mut assembled = state::assemble(None, *head, found, scan::Below::New(0))?;
    state::make_trees(&sink, &mut assembled);
    sink.check(context)?;
    Ok(State { known: assembled.known, unsaved: Unsaved::All })
}

/// A later capture: most is as it was.
fn update(
    context: &Context<'_>,
    coverage: &Coverage,
    head: &mut Head,
    State { mut known, unsaved }: State,
) -> Result<State, CaptureError> {
    let then = known.cache.head;
    let mut rebuild = false;
    if then.generation != head.generation {
        context.store.set_aside_broken()?;
        rebuild = state::distrust_missing(&mut known.cache, context);
    }
    let mut findings = scan::check(context.root, &known, then.cutoff);
    if then.rules != head.rules {
        findings = everything(&known);
    } else {
        let reconsider = reconsider(&known, coverage, &then, head);
        state::add_listings(&known, &mut findings, &reconsider);
    }
    if findings.is_empty() && !rebuild {
        return Ok(State { known, unsaved });
    }
    if !context.store.set_aside_broken()?.is_empty() {
        // Some of what is known may have been in there. The store's generation is another now.
        head.generation = context.store.generation();
        return update(context, coverage, head, State { known, unsaved });
    }
    let sink = Sink::new(context);
    let found = scan(context, coverage, &sink, Some((&known, &findings)), head)?;
    let mut assembled = if state::is_in_place(&known, &found) {
        state::patch(known, found)
    } else {
        state::assemble(Some(&known), then, found, scan::Below::Known(0))?
    };
    if rebuild {
        assembled.changed.fill(true);
    }
    state::make_trees(&sink, &mut assembled);
    sink.check(context)?;
    Ok(State { known: assembled.known, unsaved: unsaved.and(assembled.unsaved) })
}

/// Lists and reads what was found to have changed, or everything if nothing is known.
fn scan(
    context: &Context<'_>,
    coverage: &Coverage,
    sink: &Sink<'_>,
    changed: Option<(&Known, &[Finding])>,
    head: &mut Head,
) -> Result<Findings, CaptureError> {
    let known = changed.map(|(known, _)| known);
    let scanner = Scanner {
        root: context.root,
        coverage,
        sink,
        known,
        cutoff: known.map_or(head.cutoff, |known| known.cache.head.cutoff),
        present: head.cutoff,
        found: Mutex::default(),
        scopes: Mutex::default(),
        unsettled: AtomicBool::new(false),
        counted: AtomicU64::new(0),
    };
    match changed {
        Some((_, findings)) => scanner.run(findings),
        None => scanner.run_new(),
    }
    sink.check(context)?;
    if scanner.has_too_many() {
        return Err(CaptureError::TooManyFiles { limit: coverage.rules.max_files });
    }
    // If a `.gitignore` changed while it was applied, the next capture decides about everything
    // anew.
    if scanner.unsettled.into_inner() {
        head.rules = !head.rules;
    }
    Ok(scanner.found.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// All known directories are to be listed anew.
fn everything(known: &Known) -> Vec<Finding> {
    (0..known.directories.len() as u32)
        .map(|number| Finding { number, list: true, rules_changed: false, changed: Vec::new() })
        .collect()
}

/// Directories with entries that were decided upon with other tracked or named paths.
fn reconsider(known: &Known, coverage: &Coverage, then: &Head, now: &Head) -> Vec<u32> {
    let index_changed = then.index != now.index;
    if !index_changed && !then.named && !now.named {
        return Vec::new();
    }
    let mut numbers = Vec::new();
    for (number, directory) in (0..).zip(&known.directories) {
        let entry = known.entry(number);
        for child in known.cache.children(entry) {
            let decided_by_rules = child.cause != Cause::None || child.class != Class::Plain;
            if !decided_by_rules && child.reach == Reach::Normal {
                continue;
            }
            let path = crate::path::join(&directory.path, known.cache.name(child));
            let was_forced = child.class == Class::Named
                || child.class == Class::Tracked
                || matches!(child.reach, Reach::Partial | Reach::Named);
            let names =
                coverage.names_any() && (coverage.is_named(&path) || coverage.names_under(&path));
            let tracks = || {
                let tracked = coverage.tracked();
                tracked.contains(&path) || tracked.has_any_under(&path)
            };
            if was_forced || names || (index_changed && tracks()) {
                numbers.push(number);
                break;
            }
        }
        if matches!(entry.reach, Reach::Partial | Reach::Named) {
            numbers.push(number);
        }
    }
    numbers
}

/// What the rules of a cache were, in short.
fn fingerprint(rules: &Rules, own: Option<&RelPath>) -> u64 {
    let text = serde_json::to_vec(&(rules, own)).expect("plain data becomes JSON");
    let hash = Oid::of(crate::object::Kind::Blob, &text);
    u64::from_le_bytes(hash.0[..8].try_into().expect("eight bytes"))
}

fn nanoseconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// What a later capture compares to see whether a file outside the workspace changed.
fn stat_of(path: &Path) -> Stat {
    let stat = crate::beneath::stat_at(rustix::fs::CWD, paths::as_bytes(path));
    let stat = stat.unwrap_or_default();
    // The head keeps 63 bits of the inode number and no mode.
    Stat { mode: 0, inode: stat.inode & (u64::MAX >> 1), ..stat }
}

/// What the state means to the caller.
fn summary(known: &Known, rules: &Rules) -> Capture {
    let cache = &known.cache;
    let mut capture = Capture {
        tree: cache.entries[0].oid,
        files: 0,
        uncovered: Vec::new(),
        filter: Filter { rules: rules.clone(), tracked: Vec::new() },
    };
    for directory in &known.directories {
        let entry = &cache.entries[directory.entry as usize];
        for child in cache.children(entry) {
            let path = || {
                let path = crate::path::join(&directory.path, cache.name(child));
                RelPath::new(path).expect("names from the kernel make a path")
            };
            match child.kind {
                Kind::File | Kind::Symlink => {
                    capture.files += 1;
                    if child.class == Class::Tracked && entry.reach == Reach::Normal {
                        capture.filter.tracked.push(path());
                    }
                }
                Kind::Directory
                    if child.reach == Reach::Partial && entry.reach != Reach::Partial =>
                {
                    capture.uncovered.push(Uncovered { path: path(), reason: reason(child) });
                }
                Kind::Directory => {}
                Kind::Uncovered => {
                    capture.uncovered.push(Uncovered { path: path(), reason: reason(child) });
                }
            }
        }
    }
    capture.uncovered.sort_by(|a, b| a.path.cmp(&b.path));
    capture
}

fn reason(entry: &Entry) -> Reason {
    match entry.cause {
        Cause::TooLarge => Reason::TooLarge { size: entry.stat.size },
        Cause::None | Cause::Excluded => Reason::Excluded,
        Cause::Ignored => Reason::Ignored,
        Cause::Unreadable => {
            let number = i32::from_le_bytes(entry.oid.0[..4].try_into().expect("four bytes"));
            Reason::Unreadable { error: io::Error::from_raw_os_error(number).to_string() }
        }
        Cause::Special => Reason::Special,
        Cause::Changing => Reason::Changing,
        Cause::Private => Reason::Private,
    }
}
