//! The decision about each path: captured, entered, or left out, and why.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use crate::beneath::Stat;
use crate::capture::cache::{Cause, FileClass, Reach};
use crate::capture::{CaptureContext, CaptureOptions};
use crate::git::index::TrackedPaths;
use crate::pack::MAX_OBJECT;
use crate::path::{RelPath, is_within, split};
use crate::rules::{CaptureRules, Matcher, Scope, Verdict};

/// Everything besides the `.gitignore` files that decides what a capture covers.
pub(crate) struct Coverage {
    pub(crate) rules: CaptureRules,
    pub(crate) matcher: Matcher,
    /// The paths that the caller names, sorted.
    named: Vec<RelPath>,
    /// Takeback's own directory, if it is inside the workspace.
    own: Option<RelPath>,
    /// The single file of the workspace, which is captured regardless of the rules.
    only: Option<Vec<u8>>,
    index: Option<PathBuf>,
    tracked: OnceLock<TrackedPaths>,
}

/// The decision about a file or directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Decision {
    /// A file is captured, if it is not larger than its class allows.
    Capture(FileClass),
    /// A directory is entered. If the rules exclude it, the cause says why.
    Enter(Reach, Cause),
    /// A file or directory is left out and reported as uncovered.
    Leave(Cause),
    /// A file or directory is left out without a report: git's own data, or something inside a
    /// directory that is reported itself.
    Pass,
}

impl Coverage {
    pub(crate) fn new(
        options: &CaptureOptions<'_>,
        context: &CaptureContext<'_>,
        index: Option<PathBuf>,
    ) -> Coverage {
        let named = options.named.iter().filter(|path| !path.is_root());
        let mut named: Vec<RelPath> = named.cloned().collect();
        named.sort();
        Coverage {
            rules: options.rules.clone(),
            matcher: Matcher::new(options.rules),
            named,
            own: context.own.clone(),
            only: context.only.map(<[u8]>::to_vec),
            index,
            tracked: OnceLock::new(),
        }
    }

    pub(crate) fn has_named_paths(&self) -> bool {
        !self.named.is_empty()
    }

    /// The paths that git tracks in the workspace, read on first use.
    pub(crate) fn tracked(&self) -> &TrackedPaths {
        self.tracked
            .get_or_init(|| self.index.as_deref().map(TrackedPaths::read).unwrap_or_default())
    }

    /// True if the caller names this path or a directory that it is in.
    pub(crate) fn is_named(&self, path: &[u8]) -> bool {
        let is_named =
            |path: &[u8]| self.named.binary_search_by(|named| named.as_bytes().cmp(path)).is_ok();
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        !self.named.is_empty()
            && (is_named(path) || ends.into_iter().any(|end| is_named(&path[..end])))
    }

    /// True if the caller names this path or something below it.
    pub(crate) fn has_named_under(&self, path: &[u8]) -> bool {
        // Paths below this one sort behind it, but not directly: `a!` stands before `a/b`.
        let below = [path, b"/"].concat();
        let at = |path: &[u8]| self.named.partition_point(|named| named.as_bytes() < path);
        let begins =
            |at: usize| self.named.get(at).is_some_and(|named| is_within(named.as_bytes(), path));
        !self.named.is_empty() && (begins(at(path)) || begins(at(&below)))
    }

    /// Decides about `path`, which is in a directory of this reach and scope.
    pub(crate) fn decide(
        &self,
        reach: Reach,
        scope: &Arc<Scope>,
        path: &[u8],
        stat: &Stat,
    ) -> Decision {
        let is_directory = stat.is_directory();
        if split(path).1 == b".git" {
            return Decision::Pass;
        }
        if let Some(only) = &self.only {
            let is_it = path == only && (stat.is_file() || stat.is_symlink());
            return if is_it { Decision::Capture(FileClass::Named) } else { Decision::Pass };
        }
        if self.own.as_ref().is_some_and(|own| own.as_bytes() == path) {
            return Decision::Leave(Cause::Excluded);
        }
        if !is_directory && !stat.is_file() && !stat.is_symlink() {
            return if reach == Reach::Partial && !self.is_named(path) {
                Decision::Pass
            } else {
                Decision::Leave(Cause::Special)
            };
        }
        let verdict = match reach {
            Reach::Normal => self.matcher.judge(scope, path, is_directory),
            Reach::Included | Reach::Named => Verdict::Include,
            Reach::Partial => match self.matcher.judge(scope, path, is_directory) {
                Verdict::Include => Verdict::Include,
                _ => Verdict::Exclude,
            },
        };
        if is_directory {
            self.decide_directory(reach, path, verdict)
        } else {
            self.decide_file(reach, path, verdict)
        }
    }

    fn decide_directory(&self, reach: Reach, path: &[u8], verdict: Verdict) -> Decision {
        if reach == Reach::Named || self.is_named(path) {
            return Decision::Enter(Reach::Named, cause_of(verdict));
        }
        match verdict {
            Verdict::Capture => Decision::Enter(Reach::Normal, Cause::None),
            Verdict::Include => Decision::Enter(Reach::Included, Cause::None),
            Verdict::Ignore | Verdict::Exclude => {
                let leads_somewhere = self.has_named_under(path)
                    || self.matcher.has_include_under(path)
                    || self.tracked().has_any_under(path);
                match (leads_somewhere, reach) {
                    (true, _) => Decision::Enter(Reach::Partial, cause_of(verdict)),
                    (false, Reach::Partial) => Decision::Pass,
                    (false, _) => Decision::Leave(cause_of(verdict)),
                }
            }
        }
    }

    fn decide_file(&self, reach: Reach, path: &[u8], verdict: Verdict) -> Decision {
        let is_skipped = || self.rules.skip_private && self.matcher.is_private(path);
        match verdict {
            // Secrets that the user wants left out stay out even if a tool call names them.
            Verdict::Ignore if is_skipped() && !self.tracked().contains(path) => {
                Decision::Leave(Cause::Private)
            }
            _ if reach == Reach::Named || self.is_named(path) => {
                Decision::Capture(FileClass::Named)
            }
            Verdict::Capture | Verdict::Include => Decision::Capture(FileClass::Plain),
            _ if self.tracked().contains(path) => Decision::Capture(FileClass::Tracked),
            Verdict::Ignore => Decision::Capture(FileClass::Guarded),
            Verdict::Exclude if reach == Reach::Partial => Decision::Pass,
            Verdict::Exclude => Decision::Leave(Cause::Excluded),
        }
    }

    /// Returns the largest size of a file of this class that is captured.
    pub(crate) fn size_limit(&self, class: FileClass, path: &[u8]) -> u64 {
        let limit = match class {
            FileClass::Plain => self.rules.max_file_size,
            // A restore needs every `.gitignore` to decide what is guarded, even an ignored one.
            FileClass::Guarded if split(path).1 == b".gitignore" => self.rules.max_file_size,
            FileClass::Guarded => self.rules.max_guarded_size,
            FileClass::Tracked | FileClass::Named => MAX_OBJECT,
        };
        limit.min(MAX_OBJECT)
    }
}

fn cause_of(verdict: Verdict) -> Cause {
    match verdict {
        Verdict::Capture | Verdict::Include => Cause::None,
        Verdict::Ignore => Cause::Ignored,
        Verdict::Exclude => Cause::Excluded,
    }
}
